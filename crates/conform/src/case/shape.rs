//! Cases of ops that create and move elements: exact in every dtype.

use super::elementwise::push;
use super::{Case, shown};
use crate::array::Array;
use crate::draw::Draw;
use clematis_core::op::{Broadcast, Dims, Full, Iota, Pad, Slice};
use clematis_core::{Axes, DType, Dim, Op, Result, Scalar, Shape};

fn dims(values: &[i64]) -> Dims {
    values.iter().map(|&v| Dim::number(v)).collect()
}

/// A case with one operand.
fn moved(
    all: &mut Vec<Case>,
    label: &str,
    op: impl Into<Op>,
    dtype: DType,
    shape: &[usize],
) -> Result<()> {
    let op = op.into();
    let name = format!("{} {dtype}{} {label}", op.name(), shown(shape));
    let x = Draw::new(&name).any(dtype, shape)?;
    push(all, Case::by_parameters(name, op, dtype, vec![x]));
    Ok(())
}

/// Adds all cases.
pub fn add(all: &mut Vec<Case>) -> Result<()> {
    for dtype in DType::ALL {
        create(all, dtype);
        plain(all, dtype)?;
        cut(all, dtype)?;
        joined(all, dtype)?;
        dynamic(all, dtype)?;
    }
    Ok(())
}

fn create(all: &mut Vec<Case>, dtype: DType) {
    for shape in [&[][..], &[2, 3], &[0, 2], &[1]] {
        let value = match dtype {
            DType::Bool => Scalar::Bool(true),
            d if d.is_complex() => Scalar::Complex((-1.5).into(), 0.25.into()),
            d if d.is_float() => Scalar::from(-2.5),
            d if d.is_unsigned() => Scalar::from(200i64),
            _ => Scalar::from(-77i64),
        };
        let full = Full {
            value,
            dtype,
            shape: Shape::from_sizes(shape),
        };
        let name = format!("full {dtype}{}", shown(shape));
        push(all, Case::by_parameters(name, full, dtype, Vec::new()));
        for axis in 0..shape.len() {
            let iota = Iota {
                axis,
                dtype,
                shape: Shape::from_sizes(shape),
            };
            let name = format!("iota {dtype}{} axis {axis}", shown(shape));
            push(all, Case::by_parameters(name, iota, dtype, Vec::new()));
        }
    }
}

fn plain(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (from, to) in [
        (&[2, 3][..], &[3, 2][..]),
        (&[], &[1, 1]),
        (&[0, 4], &[2, 0]),
        (&[6], &[1, 6]),
        (&[2, 3, 4], &[4, 6]),
    ] {
        moved(
            all,
            &shown(to),
            Op::Reshape(Shape::from_sizes(to)),
            dtype,
            from,
        )?;
    }
    for (shape, axes) in [
        (&[2, 3, 4][..], &[2, 0, 1][..]),
        (&[], &[]),
        (&[0, 2], &[1, 0]),
        (&[1, 5], &[1, 0]),
    ] {
        moved(
            all,
            &shown(axes),
            Op::Transpose(Axes::new(axes)),
            dtype,
            shape,
        )?;
    }
    for (from, to, axes) in [
        (&[3][..], &[2, 3][..], &[1][..]),
        (&[1, 3], &[2, 3], &[0, 1]),
        (&[], &[2, 2], &[]),
        (&[2], &[2, 0], &[0]),
        (&[2, 1], &[2, 4, 3], &[0, 2]),
        (&[2, 3], &[2, 3], &[0, 1]),
    ] {
        let p = Broadcast {
            shape: Shape::from_sizes(to),
            axes: Axes::new(axes),
        };
        moved(all, &shown(to), p, dtype, from)?;
    }
    for (shape, axes) in [
        (&[2, 3][..], &[1][..]),
        (&[2, 3], &[0, 1]),
        (&[4], &[]),
        (&[0, 2], &[0, 1]),
        (&[3, 1], &[1]),
    ] {
        moved(
            all,
            &shown(axes),
            Op::Reverse(Axes::new(axes)),
            dtype,
            shape,
        )?;
    }
    Ok(())
}

fn cut(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (shape, start, limit, strides) in [
        (&[5, 4][..], &[1, 0][..], &[5, 3][..], &[2, 1][..]),
        (&[5, 4], &[0, 0], &[5, 4], &[1, 1]),
        (&[7], &[1], &[7], &[3]),
        (&[5, 2], &[3, 0], &[3, 2], &[1, 1]),
        (&[0, 3], &[0, 1], &[0, 3], &[1, 2]),
        (&[], &[], &[], &[]),
        (&[1, 3], &[0, 2], &[1, 3], &[5, 1]),
    ] {
        let p = Slice {
            start: dims(start),
            limit: dims(limit),
            strides: Axes::new(strides),
        };
        moved(all, &format!("{start:?}..{limit:?}"), p, dtype, shape)?;
    }
    for (shape, low, high, interior) in [
        (&[2, 3][..], &[1, 0][..], &[0, 2][..], &[0, 1][..]),
        (&[3, 4], &[-1, 1], &[0, -2], &[0, 0]),
        (&[4], &[-2], &[-3], &[2]),
        (&[0, 2], &[1, 0], &[1, 1], &[3, 1]),
        (&[], &[], &[], &[]),
        (&[1, 2], &[0, -1], &[2, -1], &[4, 0]),
        (&[2], &[-1], &[3], &[1]),
    ] {
        let p = Pad {
            low: dims(low),
            high: dims(high),
            interior: Axes::new(interior),
        };
        let name = format!("pad {dtype}{} {low:?} {high:?} {interior:?}", shown(shape));
        let mut draw = Draw::new(&name);
        let inputs = vec![draw.any(dtype, shape)?, draw.any(dtype, &[])?];
        push(all, Case::by_parameters(name, p, dtype, inputs));
    }
    Ok(())
}

fn joined(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (shapes, axis) in [
        (&[&[2, 3][..], &[2, 1], &[2, 0]][..], 1),
        (&[&[2, 2], &[1, 2]], 0),
        (&[&[3]], 0),
        (&[&[0, 2], &[0, 3]], 1),
        (&[&[1], &[1], &[1], &[1]], 0),
    ] {
        let sizes: Vec<String> = shapes.iter().map(|s| shown(s)).collect();
        let name = format!("concat {dtype}{} axis {axis}", sizes.join(""));
        let mut draw = Draw::new(&name);
        let inputs: Vec<Array> = shapes
            .iter()
            .map(|s| draw.any(dtype, s))
            .collect::<Result<_>>()?;
        push(
            all,
            Case::by_parameters(name, Op::Concat(axis), dtype, inputs),
        );
    }
    Ok(())
}

fn dynamic(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (shape, block, start, index) in [
        (&[4, 5][..], &[2, 3][..], &[1, 2][..], DType::I32),
        (&[4, 5], &[2, 3], &[-7, 9], DType::I64),
        (&[4, 5], &[4, 5], &[1, 1], DType::U8),
        (&[4, 5], &[1, 0], &[3, 5], DType::I8),
        (&[0, 3], &[0, 2], &[0, 1], DType::U64),
        (&[], &[], &[], DType::I32),
        (&[6], &[2], &[4], DType::U16),
    ] {
        let at = Array::whole(index, &[start.len()], start);
        let op = Op::DynamicSlice(Shape::from_sizes(block));
        let name = format!(
            "dynamic_slice {dtype}{} {} {start:?}",
            shown(shape),
            shown(block)
        );
        let x = Draw::new(&name).any(dtype, shape)?;
        push(
            all,
            Case::by_parameters(name, op, dtype, vec![x, at.clone()]),
        );
        let name = format!(
            "dynamic_update_slice {dtype}{} {} {start:?}",
            shown(shape),
            shown(block)
        );
        let mut draw = Draw::new(&name);
        let inputs = vec![draw.any(dtype, shape)?, draw.any(dtype, block)?, at];
        push(
            all,
            Case::by_parameters(name, Op::DynamicUpdate, dtype, inputs),
        );
    }
    Ok(())
}
