//! Strided views: windows, diagonals, as_strided.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{axis, out};
use clematis_core::{DType, Dim, Result, Shape, Tensor, bail, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("as_strided", as_strided),
    ("unfold", |_, a| {
        let x = a.tensor(0, "self")?;
        if x.rank() == 0 {
            return out(ops::reshape(x, a.recorded_spec(0)?.shape));
        }
        let along = axis(&x, a.int(1, "dimension", 0)?);
        let (size, step) = (a.int(2, "size", 1)?, a.int(3, "step", 1)?);
        let count = a.recorded_spec(0)?.shape.dims()[along as usize];
        let start = ops::expand_dims(ops::iota([count], 0, DType::I64) * step, -1);
        let places = start + ops::iota([Dim::number(size)], 0, DType::I64);
        out(ops::move_axis(ops::take(x, places, along), along + 1, -1))
    }),
    ("diagonal", |_, a| {
        let x = a.tensor(0, "self")?;
        let (first, second) = (a.int(2, "dim1", 0)?, a.int(3, "dim2", 1)?);
        let moved = ops::move_axes(&x, &[axis(&x, first), axis(&x, second)], &[-2, -1]);
        out(ops::diagonal(moved, a.int(1, "offset", 0)?))
    }),
];

/// Places the elements of a diagonal along axis `second` of `x`, broadcast along axis `first`.
pub fn diagonal_back(x: &Tensor, values: &Tensor, first: i64, second: i64) -> Result<Tensor> {
    let length = values
        .shape()
        .dims()
        .last()
        .copied()
        .unwrap_or(Dim::from(1));
    // Axis `first` is not there yet when axis `second` is inserted.
    let column = ops::move_axis(values, -1, if second > first { second - 1 } else { second });
    let wide = ops::expand_dims(column, first);
    let shape = x.shape().with(second as usize, length);
    ops::broadcast_to(wide, shape).done()
}

/// Size and stride of each axis.
type Walks = Vec<(Dim, Dim)>;

fn as_strided(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let (sizes, strides) = (a.dims(1, "size")?, a.dims(2, "stride")?);
    let (Some(Slot::List(_)), own) = (
        a.kwargs.get("own_stride"),
        a.dims(usize::MAX, "own_stride")?,
    ) else {
        bail!(
            Convert,
            "convert: `as_strided` of a tensor whose strides are unknown"
        );
    };
    let from = a.dim(usize::MAX, "own_offset").unwrap_or(Dim::from(0));
    let offset = if a.has(3, "storage_offset") {
        a.dim(3, "storage_offset")? - from
    } else {
        Dim::from(0)
    };
    let inner: Walks = x.shape().dims().iter().copied().zip(own).collect();
    let outer: Walks = sizes.iter().copied().zip(strides).collect();
    let shape = Shape::from_dims(sizes);
    if offset == 0usize
        && let Some(order) = permutation(&inner, &outer)
    {
        return out(ops::reshape(ops::permute(&x, order), shape));
    }
    by_places(&x, &inner, &outer, offset, shape)
}

/// The permutation of axes, if both views have the same sizes and strides up to order.
fn permutation(inner: &Walks, outer: &Walks) -> Option<Vec<i64>> {
    let wide = |walks: &Walks| -> Vec<usize> {
        (0..walks.len()).filter(|&i| walks[i].0 != 1usize).collect()
    };
    let (own, asked) = (wide(inner), wide(outer));
    if own.len() != asked.len() {
        return None;
    }
    let mut order = Vec::new();
    for i in asked {
        let found = own
            .iter()
            .copied()
            .find(|&j| inner[j] == outer[i] && !order.contains(&(j as i64)))?;
        order.push(found as i64);
    }
    let ones = (0..inner.len() as i64).filter(|i| !own.contains(&(*i as usize)));
    Some(ones.chain(order.clone()).collect())
}

/// Gathers each element by its index; symbolic axes must have equal strides in both views.
fn by_places(x: &Tensor, inner: &Walks, outer: &Walks, offset: Dim, shape: Shape) -> Result<Slot> {
    let refuse = || {
        bail!(
            Unsupported,
            "convert: `as_strided` of {} to {shape} reads elements outside of the operand, or has unknown sizes",
            x.spec()
        )
    };
    let open = |walks: &Walks| -> Vec<usize> {
        (0..walks.len())
            .filter(|&i| walks[i].0.value().is_none())
            .collect()
    };
    let (own, asked) = (open(inner), open(outer));
    if own.len() != asked.len() || own.iter().zip(&asked).any(|(&i, &j)| inner[i] != outer[j]) {
        return refuse();
    }
    let known = |walks: &Walks, skip: &[usize]| -> Option<Vec<(i64, i64)>> {
        let rest = (0..walks.len()).filter(|i| !skip.contains(i));
        rest.map(|i| {
            walks[i]
                .0
                .value()
                .zip(walks[i].1.value().or((walks[i].0 == 1usize).then_some(0)))
        })
        .collect()
    };
    let (Some(inside), Some(outside), Some(offset)) =
        (known(inner, &own), known(outer, &asked), offset.value())
    else {
        return refuse();
    };
    let count: i64 = outside.iter().map(|w| w.0).product();
    if count > 1 << 24 {
        return refuse();
    }
    let mut places = Vec::with_capacity(count as usize);
    let mut at = vec![0i64; outside.len()];
    for _ in 0..count {
        let memory = offset + at.iter().zip(&outside).map(|(i, w)| i * w.1).sum::<i64>();
        match number(memory, &inside) {
            Some(place) => places.push(place),
            None => return refuse(),
        }
        for i in (0..at.len()).rev() {
            at[i] += 1;
            if at[i] < outside[i].0 {
                break;
            }
            at[i] = 0;
        }
    }
    // Symbolic axes in front, the others flattened.
    let front: Vec<i64> = own
        .iter()
        .copied()
        .chain((0..inner.len()).filter(|i| !own.contains(i)))
        .map(|i| i as i64)
        .collect();
    let lead: Vec<Dim> = own.iter().map(|&i| inner[i].0).collect();
    let all: i64 = inside.iter().map(|w| w.0).product();
    let flat = ops::reshape(
        ops::permute(x, front),
        Shape::from_dims(lead.iter().copied().chain([Dim::number(all)])),
    );
    let places = ops::from_slice(&places, [count as usize])?;
    let read = ops::take(flat, places, own.len() as i64);
    let rest = (0..outer.len()).filter(|j| !asked.contains(j));
    let mixed = Shape::from_dims(lead.into_iter().chain(rest.clone().map(|j| outer[j].0)));
    let mut back = vec![0i64; outer.len()];
    for (i, j) in asked.iter().copied().chain(rest).enumerate() {
        back[j] = i as i64;
    }
    out(ops::reshape(
        ops::permute(ops::reshape(read, mixed), back),
        shape,
    ))
}

/// The row-major index of the element at an offset in memory.
fn number(memory: i64, inside: &[(i64, i64)]) -> Option<i64> {
    let mut order: Vec<usize> = (0..inside.len())
        .filter(|&i| inside[i].0 > 1 && inside[i].1 > 0)
        .collect();
    order.sort_by_key(|&i| std::cmp::Reverse(inside[i].1));
    let mut left = memory;
    let mut at = vec![0i64; inside.len()];
    for i in order {
        let (size, stride) = inside[i];
        at[i] = (left / stride).min(size - 1);
        left -= at[i] * stride;
    }
    if left != 0 {
        return None;
    }
    Some(
        inside
            .iter()
            .zip(at)
            .fold(0, |n, (&(size, _), i)| n * size + i),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_memory() {
        // A 2 by 4 by 8 slice of 2 by 7 by 8 elements.
        let inside = [(2, 56), (4, 8), (8, 1)];
        assert_eq!(number(0, &inside), Some(0));
        assert_eq!(number(9, &inside), Some(9));
        assert_eq!(number(57, &inside), Some(33));
        assert_eq!(number(40, &inside), None);
    }
}
