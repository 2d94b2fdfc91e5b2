//! Gather: slices at index vectors.
//!
//! Owns the interpretation of gather and scatter parameters: where each slice begins in the operand and in the other
//! array.
#![allow(unsafe_code)]

use super::map::Cost;
use crate::buffer::{self, Buffer};
use crate::element::{Stored, by_size};
use crate::layout::{Sizes, Strides, View, Walk, dense_strides, merge, read_run};
use crate::{memory, parallel};
use clematis_core::op::{Gather, OutOfRange};
use clematis_core::{Result, Spec, Tensor};

/// Index vectors and their mapping to operand axes.
pub struct Vectors<'a> {
    /// All components, vector by vector.
    pub values: Vec<i64>,
    /// Sizes of the indices without the last axis.
    pub rows: Sizes,
    /// The operand axis of each component.
    pub index_map: &'a [usize],
    /// Operand batch axes, paired with `index_batch`.
    pub operand_batch: &'a [usize],
    /// Batch axes of the indices, paired with `operand_batch`.
    pub index_batch: &'a [usize],
    /// What to do with a slice that is out of range.
    pub mode: OutOfRange,
    /// Sizes of the operand.
    pub sizes: Sizes,
    /// Sizes of a slice, per operand axis.
    pub slice: Sizes,
}

impl Vectors<'_> {
    /// The number of slices.
    pub fn count(&self) -> usize {
        self.rows.iter().product()
    }

    /// The offset of the slice at vector `i`, whose index among the rows is `row`, from the operand's first element.
    ///
    /// `None` if it is to be dropped.
    pub fn start(&self, i: usize, row: &[usize], strides: &[isize]) -> Option<isize> {
        let width = self.index_map.len();
        let vector = &self.values[i * width..(i + 1) * width];
        let mut at = 0;
        for (&axis, &start) in self.index_map.iter().zip(vector) {
            let last = self.sizes[axis] as i64 - self.slice[axis] as i64;
            let start = match self.mode {
                OutOfRange::Clip => start.clamp(0, last.max(0)),
                OutOfRange::Drop if (0..=last).contains(&start) => start,
                OutOfRange::Drop => return None,
            };
            at += start as isize * strides[axis];
        }
        for (&axis, &from) in self.operand_batch.iter().zip(self.index_batch) {
            at += row[from] as isize * strides[axis];
        }
        Some(at)
    }
}

/// The strides of the axes in `axes`, and those of the others.
pub fn split(strides: &[isize], axes: &[usize]) -> (Strides, Strides) {
    let inside = axes.iter().map(|&a| strides[a]).collect();
    let outside = (0..strides.len())
        .filter(|a| !axes.contains(a))
        .map(|a| strides[a])
        .collect();
    (inside, outside)
}

/// Runs a gather.
pub fn gather(p: &Gather, x: &Tensor, indices: &Tensor, out: &Spec) -> Result<Buffer> {
    let sizes = x.shape().sizes();
    let mut rows = indices.shape().sizes();
    rows.pop();
    let vectors = Vectors {
        values: super::shape::indices(indices)?,
        rows,
        index_map: &p.index_map,
        operand_batch: &p.operand_batch,
        index_batch: &p.index_batch,
        mode: p.mode,
        slice: p
            .slice_sizes
            .iter()
            .map(|d| d.value().unwrap_or(0) as usize)
            .collect(),
        sizes,
    };
    let buffer = buffer::of(x)?;
    let mut bytes = memory::alloc("gather", out)?;
    if out.shape.count() > 0 {
        by_size!(out.dtype, T => take(p, &vectors, &buffer.view::<T>(x.shape()), &out.shape.sizes(), bytes.as_mut_slice()));
    }
    Ok(Buffer::new(bytes))
}

fn take<T: Stored>(
    p: &Gather,
    vectors: &Vectors<'_>,
    x: &View<'_, T>,
    sizes: &[usize],
    out: &mut [T],
) {
    let out_strides = dense_strides(sizes);
    let (slice_out_strides, row_out_strides) = split(&out_strides, &p.offset_axes);
    let kept: Vec<usize> = (0..x.sizes.len())
        .filter(|a| !p.collapsed.contains(a) && !p.operand_batch.contains(a))
        .collect();
    let slice: Sizes = kept.iter().map(|&a| vectors.slice[a]).collect();
    let steps: Strides = kept.iter().map(|&a| x.strides[a]).collect();
    let (slice, [steps, slice_out_strides]) = merge(&slice, [&steps, &slice_out_strides]);
    // At least one axis, so that there is a last one.
    let (slice, steps, slice_out_strides) = if slice.is_empty() {
        (
            smallvec::smallvec![1],
            smallvec::smallvec![1],
            smallvec::smallvec![1],
        )
    } else {
        (slice, steps, slice_out_strides)
    };
    let last = slice.len() - 1;
    let outer: usize = slice[..last].iter().product();
    let (run, step, out_step) = (slice[last], steps[last], slice_out_strides[last]);
    let count = vectors.count();
    let per_task = (Cost::Medium.grain() / (outer * run)).max(1);
    let tasks = count.div_ceil(per_task);
    // SAFETY: each index vector has results of its own, and one task has it.
    let disjoint = unsafe { parallel::Disjoint::promise() };
    parallel::for_disjoint(
        disjoint,
        out,
        tasks,
        Vec::new,
        |buffer: &mut Vec<T>, task, out| {
            let first = task * per_task;
            let mut rows = Walk::new(&vectors.rows, [&row_out_strides], [0], first);
            for i in first..count.min(first + per_task) {
                let start = vectors.start(i, rows.index(), &x.strides);
                let from = x.offset as isize + start.unwrap_or(0);
                let mut walk = Walk::new(
                    &slice[..last],
                    [&steps[..last], &slice_out_strides[..last]],
                    [from, rows.at[0]],
                    0,
                );
                for _ in 0..outer {
                    let [from, to] = walk.at;
                    if out_step == 1 {
                        let to = out.slice(to as usize, run);
                        match start {
                            Some(_) => read_run(x.data, from, step, to),
                            None => to.fill(T::zeroed()),
                        }
                    } else {
                        buffer.clear();
                        buffer.resize(run, T::zeroed());
                        if start.is_some() {
                            read_run(x.data, from, step, buffer);
                        }
                        for (j, &value) in buffer.iter().enumerate() {
                            out.set((to + j as isize * out_step) as usize, value);
                        }
                    }
                    walk.step();
                }
                rows.step();
            }
        },
    );
}
