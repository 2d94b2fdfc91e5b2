//! Gather and scatter by XLA's definition; nonzero and search.

use super::number;
use crate::array::{Array, Num, offset, places};
use clematis_core::DType;
use clematis_core::op::{Gather, OutOfRange, Scatter, ScatterKind};

/// The start of the slice of one index vector, or `None` if it is dropped.
fn start(
    shape: &[usize],
    slice: &[usize],
    vector: &[i128],
    row: &[usize],
    index_map: &[usize],
    batch: (&[usize], &[usize]),
    mode: OutOfRange,
) -> Option<Vec<usize>> {
    let mut from = vec![0usize; shape.len()];
    for (&axis, &i) in index_map.iter().zip(vector) {
        let last = shape[axis] as i128 - slice[axis] as i128;
        from[axis] = match mode {
            OutOfRange::Clip => i.clamp(0, last) as usize,
            OutOfRange::Drop if (0..=last).contains(&i) => i as usize,
            OutOfRange::Drop => return None,
        };
    }
    for (&axis, &from_row) in batch.0.iter().zip(batch.1) {
        from[axis] = row[from_row];
    }
    Some(from)
}

fn vector(indices: &Array, row: &[usize], width: usize) -> Vec<i128> {
    (0..width)
        .map(|k| {
            let mut at = row.to_vec();
            at.push(k);
            indices.at(&at).i()
        })
        .collect()
}

pub fn gather(x: &Array, indices: &Array, p: &Gather) -> Array {
    let slice: Vec<usize> = p
        .slice_sizes
        .iter()
        .map(|d| d.value().unwrap_or(0) as usize)
        .collect();
    let kept: Vec<usize> = (0..x.rank())
        .filter(|a| !p.collapsed.contains(a) && !p.operand_batch.contains(a))
        .collect();
    let rows = &indices.shape[..indices.rank() - 1];
    let rank = rows.len() + kept.len();
    let (mut next_row, mut next_kept) = (rows.iter(), kept.iter());
    let shape: Vec<usize> = (0..rank)
        .filter_map(|i| {
            if p.offset_axes.contains(&i) {
                next_kept.next().map(|&a| slice[a])
            } else {
                next_row.next().copied()
            }
        })
        .collect();
    Array::from_fn(x.dtype, &shape, |at| {
        let row: Vec<usize> = (0..rank)
            .filter(|i| !p.offset_axes.contains(i))
            .map(|i| at[i])
            .collect();
        let vector = vector(indices, &row, p.index_map.len());
        let batch = (&p.operand_batch[..], &p.index_batch[..]);
        let Some(mut from) = start(&x.shape, &slice, &vector, &row, &p.index_map, batch, p.mode)
        else {
            return Num::of(x.dtype, 0);
        };
        for (&axis, &place) in kept.iter().zip(p.offset_axes.iter()) {
            from[axis] += at[place];
        }
        x.at(&from)
    })
}

pub fn scatter(x: &Array, indices: &Array, updates: &Array, p: &Scatter) -> Array {
    let mut out = x.clone();
    let kept: Vec<usize> = (0..x.rank())
        .filter(|a| !p.inserted.contains(a) && !p.operand_batch.contains(a))
        .collect();
    let mut slice = vec![1; x.rank()];
    for (&axis, &from) in kept.iter().zip(p.window_axes.iter()) {
        slice[axis] = updates.shape[from];
    }
    let window: Vec<usize> = p.window_axes.iter().map(|&a| updates.shape[a]).collect();
    // Sequentially: a later vector sees the result of earlier ones.
    for row in places(&indices.shape[..indices.rank() - 1]) {
        let vector = vector(indices, &row, p.index_map.len());
        let batch = (&p.operand_batch[..], &p.index_batch[..]);
        let Some(from) = start(&x.shape, &slice, &vector, &row, &p.index_map, batch, p.mode) else {
            continue;
        };
        for inside in places(&window) {
            let mut to = from.clone();
            for (&axis, &i) in kept.iter().zip(&inside) {
                to[axis] += i;
            }
            let (mut next_row, mut next_inside) = (row.iter(), inside.iter());
            let place: Vec<usize> = (0..updates.rank())
                .filter_map(|a| {
                    if p.window_axes.contains(&a) {
                        next_inside.next().copied()
                    } else {
                        next_row.next().copied()
                    }
                })
                .collect();
            let (to, new) = (offset(&x.shape, &to), updates.at(&place));
            let old = out.values[to];
            out.values[to] = match p.kind {
                ScatterKind::Set => new,
                ScatterKind::Add => number::add(x.dtype, old, new),
                ScatterKind::Mul => number::mul(x.dtype, old, new),
                ScatterKind::Min => number::min(old, new),
                ScatterKind::Max => number::max(old, new),
            };
        }
    }
    out
}

pub fn nonzero(x: &Array, size: usize) -> Array {
    let mut found: Vec<Vec<usize>> = places(&x.shape).filter(|at| x.at(at).truth()).collect();
    found.resize(size, x.shape.clone());
    let values = found
        .into_iter()
        .flatten()
        .map(|i| Num::Whole(i as i128))
        .collect();
    Array::new(DType::INDEX, &[size, x.rank()], values)
}

pub fn searchsorted(sorted: &Array, values: &Array, right: bool) -> Array {
    let n = sorted.shape[sorted.rank() - 1];
    Array::from_fn(DType::INDEX, &values.shape, |at| {
        let mut row = if sorted.rank() == 1 {
            Vec::new()
        } else {
            at[..at.len() - 1].to_vec()
        };
        let wanted = values.at(at);
        let before = (0..n).filter(|&i| {
            row.truncate(sorted.rank() - 1);
            row.push(i);
            let order = number::before(sorted.at(&row), wanted);
            order.is_lt() || right && order.is_eq()
        });
        Num::Whole(before.count() as i128)
    })
}
