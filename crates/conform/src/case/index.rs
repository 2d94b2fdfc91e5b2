//! Cases of gather, scatter, nonzero and search.

use super::elementwise::push;
use super::{Case, shown};
use crate::array::{Array, Num};
use crate::compare::Tolerance;
use crate::draw::Draw;
use crate::reference::number;
use clematis_core::op::{Gather, OutOfRange, Scatter, ScatterKind};
use clematis_core::{Axes, DType, Dim, Op, Result};

/// Parameters of a gather and of the corresponding scatter.
struct Layout {
    operand: &'static [usize],
    indices: &'static [usize],
    slice: &'static [usize],
    offset_axes: &'static [usize],
    collapsed: &'static [usize],
    index_map: &'static [usize],
    operand_batch: &'static [usize],
    index_batch: &'static [usize],
    index_dtype: DType,
    /// The shape of a gather's result, which is that of a scatter's updates.
    updates: &'static [usize],
}

const LAYOUTS: &[Layout] = &[
    // Rows of a table.
    Layout {
        operand: &[5, 3],
        indices: &[4, 1],
        slice: &[1, 3],
        offset_axes: &[1],
        collapsed: &[0],
        index_map: &[0],
        operand_batch: &[],
        index_batch: &[],
        index_dtype: DType::I64,
        updates: &[4, 3],
    },
    // Blocks at pairs of indices, with permuted and interleaved axes.
    Layout {
        operand: &[4, 5],
        indices: &[2, 3, 2],
        slice: &[2, 3],
        offset_axes: &[1, 3],
        collapsed: &[],
        index_map: &[1, 0],
        operand_batch: &[],
        index_batch: &[],
        index_dtype: DType::I32,
        updates: &[2, 2, 3, 3],
    },
    // Batched.
    Layout {
        operand: &[3, 4, 2],
        indices: &[3, 2, 1],
        slice: &[1, 1, 2],
        offset_axes: &[2],
        collapsed: &[1],
        index_map: &[1],
        operand_batch: &[0],
        index_batch: &[0],
        index_dtype: DType::I16,
        updates: &[3, 2, 2],
    },
    // Single elements, along an axis.
    Layout {
        operand: &[2, 3],
        indices: &[2, 3, 2],
        slice: &[1, 1],
        offset_axes: &[],
        collapsed: &[0, 1],
        index_map: &[0, 1],
        operand_batch: &[],
        index_batch: &[],
        index_dtype: DType::I8,
        updates: &[2, 3],
    },
    // Empty.
    Layout {
        operand: &[3, 2],
        indices: &[0, 1],
        slice: &[1, 2],
        offset_axes: &[1],
        collapsed: &[0],
        index_map: &[0],
        operand_batch: &[],
        index_batch: &[],
        index_dtype: DType::U8,
        updates: &[0, 2],
    },
    // One vector, leading slice axis.
    Layout {
        operand: &[4],
        indices: &[1],
        slice: &[2],
        offset_axes: &[0],
        collapsed: &[],
        index_map: &[0],
        operand_batch: &[],
        index_batch: &[],
        index_dtype: DType::U32,
        updates: &[2],
    },
];

/// Adds all cases.
pub fn add(all: &mut Vec<Case>) -> Result<()> {
    for dtype in DType::ALL {
        for mode in [OutOfRange::Clip, OutOfRange::Drop] {
            for (i, l) in LAYOUTS.iter().enumerate() {
                gather(all, dtype, i, l, mode)?;
                for &kind in ScatterKind::ALL {
                    scatter(all, dtype, i, l, mode, kind)?;
                }
            }
        }
        nonzero(all, dtype)?;
        searchsorted(all, dtype)?;
    }
    Ok(())
}

/// Indices in and out of range, with duplicates.
fn indices(draw: &mut Draw, l: &Layout) -> Array {
    let low = if l.index_dtype.is_unsigned() { 0 } else { -2 };
    draw.indices(l.index_dtype, l.indices, low, 5)
}

fn gather(all: &mut Vec<Case>, dtype: DType, i: usize, l: &Layout, mode: OutOfRange) -> Result<()> {
    let p = Gather {
        offset_axes: Axes::new(l.offset_axes),
        collapsed: Axes::new(l.collapsed),
        index_map: Axes::new(l.index_map),
        operand_batch: Axes::new(l.operand_batch),
        index_batch: Axes::new(l.index_batch),
        slice_sizes: l.slice.iter().map(|&s| Dim::from(s)).collect(),
        mode,
    };
    let name = format!("gather {dtype} layout {i} {}", mode.name());
    let mut draw = Draw::new(&name);
    let inputs = vec![draw.any(dtype, l.operand)?, indices(&mut draw, l)];
    push(all, Case::by_parameters(name, p, dtype, inputs));
    Ok(())
}

fn scatter(
    all: &mut Vec<Case>,
    dtype: DType,
    i: usize,
    l: &Layout,
    mode: OutOfRange,
    kind: ScatterKind,
) -> Result<()> {
    let p = Scatter {
        kind,
        window_axes: Axes::new(l.offset_axes),
        inserted: Axes::new(l.collapsed),
        index_map: Axes::new(l.index_map),
        operand_batch: Axes::new(l.operand_batch),
        index_batch: Axes::new(l.index_batch),
        mode,
    };
    let op = Op::from(p);
    let name = format!("{} {dtype} layout {i} {}", op.name(), mode.name());
    let mut draw = Draw::new(&name);
    let operand = draw.any(dtype, l.operand)?;
    let at = indices(&mut draw, l);
    let inputs = vec![operand, at, draw.any(dtype, l.updates)?];
    let case = Case::by_parameters(name, op, dtype, inputs);
    // In half precision every step of a sum rounds, once per write to an element.
    let units = match kind {
        ScatterKind::Add | ScatterKind::Mul => 8.0,
        _ => 0.0,
    };
    push(all, case.within(Tolerance::overall(units)));
    Ok(())
}

fn nonzero(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (shape, size) in [
        (&[3, 4][..], 5),
        (&[3, 4], 12),
        (&[], 1),
        (&[0, 2], 2),
        (&[6], 0),
    ] {
        let name = format!("nonzero {dtype}{} {size}", shown(shape));
        let mut draw = Draw::new(&name);
        let x = draw.any(dtype, shape)?;
        let x = x.map(dtype, |v| {
            if draw_bit(&mut Draw::new(&format!("{name} {v:?}"))) {
                Num::of(dtype, 0)
            } else {
                v
            }
        });
        push(
            all,
            Case::by_parameters(name, Op::NonZero(Dim::from(size)), dtype, vec![x]),
        );
    }
    Ok(())
}

fn draw_bit(draw: &mut Draw) -> bool {
    draw.bits() & 1 == 0
}

fn searchsorted(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (shape, wanted) in [
        (&[6][..], &[2, 3][..]),
        (&[2, 5], &[2, 4]),
        (&[0], &[3]),
        (&[4], &[0]),
        (&[1], &[1, 1]),
    ] {
        for right in [false, true] {
            let name = format!(
                "searchsorted {dtype}{}{} {right}",
                shown(shape),
                shown(wanted)
            );
            let mut draw = Draw::new(&name);
            let mut sorted = draw.small(dtype, shape)?;
            let n = shape[shape.len() - 1].max(1);
            for row in sorted.values.chunks_mut(n) {
                row.sort_by(|a, b| number::before(*a, *b));
            }
            // Some values occur in the row, some do not.
            let mut values = draw.small(dtype, wanted)?;
            for (v, s) in values.values.iter_mut().zip(&sorted.values).step_by(2) {
                *v = *s;
            }
            let op = Op::SearchSorted(right);
            push(
                all,
                Case::by_parameters(name, op, dtype, vec![sorted, values]).flat(),
            );
        }
    }
    Ok(())
}
