//! Scatter: writes slices at index vectors, in order.
//!
//! If two slices overlap, the later one applies to the result of the earlier one, so threads divide columns, never
//! slices.
#![allow(unsafe_code)]

use super::binary::Ordered;
use super::gather::{Vectors, split};
use crate::buffer::{self, Buffer};
use crate::element::{Stored, by_real, by_size};
use crate::layout::{Sizes, Strides, View, Walk, dense_strides};
use crate::{memory, parallel};
use bytemuck::Zeroable;
use clematis_core::op::{Scatter, ScatterKind};
use clematis_core::{DType, Result, Spec, Tensor};
use num_complex::Complex;

/// Slices after which a task polls for interrupts.
const POLLED: usize = 1 << 12;
/// The number of elements from which threads pay.
const LEAST: usize = 1 << 16;
/// Columns per task.
const COLUMNS: usize = 64;

/// Runs a scatter.
pub fn scatter(
    op: &str,
    p: &Scatter,
    [x, indices, updates]: [&Tensor; 3],
    out: &Spec,
) -> Result<Buffer> {
    let sizes = x.shape().sizes();
    let mut rows = indices.shape().sizes();
    rows.pop();
    let window = updates.shape().sizes();
    let mut slice: Sizes = sizes.iter().map(|_| 1).collect();
    let kept: Vec<usize> = (0..sizes.len())
        .filter(|a| !p.inserted.contains(a) && !p.operand_batch.contains(a))
        .collect();
    for (&axis, &from) in kept.iter().zip(p.window_axes.iter()) {
        slice[axis] = window[from];
    }
    let vectors = Vectors {
        values: super::shape::indices(indices)?,
        rows,
        index_map: &p.index_map,
        operand_batch: &p.operand_batch,
        index_batch: &p.index_batch,
        mode: p.mode,
        sizes,
        slice,
    };
    let (buffer, from) = (buffer::of(x)?, buffer::of(updates)?);
    let mut bytes = memory::alloc(op, out)?;
    by_size!(out.dtype, T => crate::layout::copy(&buffer.view::<T>(x.shape()), bytes.as_mut_slice::<T>()));
    if updates.shape().count() == 0 || out.shape.count() == 0 {
        return Ok(Buffer::new(bytes));
    }
    // A row at a time, so that the loop is compiled once per type.
    macro_rules! apply {
        ($T:ty, |$a:pat_param, $b:pat_param| $f:expr) => {
            write(
                p,
                &vectors,
                &kept,
                &from.view::<$T>(updates.shape()),
                bytes.as_mut_slice::<$T>(),
                |to, from| {
                    for (to, &from) in to.iter_mut().zip(from) {
                        let ($a, $b) = (*to, from);
                        *to = $f;
                    }
                },
            )
        };
    }
    // Wrapped sums and products have the same bits, signed or not.
    macro_rules! arithmetic {
        ($integer:ident, $op:tt) => {
            match out.dtype {
                DType::Bool => {
                    if p.kind == ScatterKind::Add { apply!(u8, |a, b| a | b) } else { apply!(u8, |a, b| a & b) }
                }
                DType::U8 | DType::I8 => apply!(u8, |a, b| a.$integer(b)),
                DType::U16 | DType::I16 => apply!(u16, |a, b| a.$integer(b)),
                DType::U32 | DType::I32 => apply!(u32, |a, b| a.$integer(b)),
                DType::U64 | DType::I64 => apply!(u64, |a, b| a.$integer(b)),
                DType::F16 => apply!(half::f16, |a, b| half::f16::from_f32(a.to_f32() $op b.to_f32())),
                DType::BF16 => apply!(half::bf16, |a, b| half::bf16::from_f32(a.to_f32() $op b.to_f32())),
                DType::F32 => apply!(f32, |a, b| a $op b),
                DType::F64 => apply!(f64, |a, b| a $op b),
                DType::C64 => apply!(Complex<f32>, |a, b| a $op b),
                DType::C128 => apply!(Complex<f64>, |a, b| a $op b),
            }
        };
    }
    match p.kind {
        ScatterKind::Set => by_size!(out.dtype, T => apply!(T, |_, b| b)),
        ScatterKind::Add => arithmetic!(wrapping_add, +),
        ScatterKind::Mul => arithmetic!(wrapping_mul, *),
        ScatterKind::Min => {
            by_real!(out.dtype, T => apply!(T, |a, b| pick(a, b, Ordered::smaller)), {})
        }
        ScatterKind::Max => {
            by_real!(out.dtype, T => apply!(T, |a, b| pick(a, b, Ordered::larger)), {})
        }
    }
    Ok(Buffer::new(bytes))
}

/// One of two elements, chosen by their order.
fn pick<T: Stored>(a: T, b: T, f: fn(T::Wide, T::Wide) -> T::Wide) -> T
where
    T::Wide: Ordered,
{
    let mut wide = [T::Wide::zeroed(); 2];
    T::widen(&[a, b], &mut wide);
    let mut out = [a];
    T::narrow(&[f(wide[0], wide[1])], &mut out);
    out[0]
}

fn write<T: Stored>(
    p: &Scatter,
    vectors: &Vectors<'_>,
    kept: &[usize],
    updates: &View<'_, T>,
    out: &mut [T],
    combine: fn(&mut [T], &[T]),
) {
    let out_strides = dense_strides(&vectors.sizes);
    let (steps, row_steps) = split(&updates.strides, &p.window_axes);
    let mut window: Sizes = kept.iter().map(|&a| vectors.slice[a]).collect();
    let mut slice_out_strides: Strides = kept.iter().map(|&a| out_strides[a]).collect();
    let mut steps = steps;
    // Threads divide the last axis, so it must be one along which no slice moves.
    let fixed = kept.last().is_some_and(|a| !vectors.index_map.contains(a));
    if !fixed {
        window.push(1);
        slice_out_strides.push(1);
        steps.push(1);
    }
    let last = window.len() - 1;
    let (run, step, out_step) = (window[last], steps[last], slice_out_strides[last]);
    let outer: usize = window[..last].iter().product();
    let count = vectors.count();
    let columns = if count * outer * run < LEAST {
        run
    } else {
        COLUMNS
    };
    let tasks = run.div_ceil(columns);
    // SAFETY: a task has some columns of the last axis, along which no slice moves.
    let disjoint = unsafe { parallel::Disjoint::promise() };
    parallel::for_disjoint(
        disjoint,
        out,
        tasks,
        || (),
        |(), task, out| {
            let first = task * columns;
            let width = columns.min(run - first);
            let mut rows = Walk::new(&vectors.rows, [&row_steps], [updates.offset as isize], 0);
            for i in 0..count {
                if i % POLLED == POLLED - 1 {
                    parallel::poll();
                }
                let start = vectors.start(i, rows.index(), &out_strides);
                if let Some(start) = start {
                    let offsets = [rows.at[0], start];
                    let strides = [&steps[..last], &slice_out_strides[..last]];
                    let mut walk = Walk::new(&window[..last], strides, offsets, 0);
                    for _ in 0..outer {
                        let from = walk.at[0] + first as isize * step;
                        let to = walk.at[1] + first as isize * out_step;
                        if out_step == 1 && step == 1 {
                            let to = out.slice(to as usize, width);
                            let from = &updates.data[from as usize..from as usize + width];
                            combine(to, from);
                        } else {
                            for j in 0..width as isize {
                                let from = (from + j * step) as usize;
                                let to = (to + j * out_step) as usize;
                                combine(out.slice(to, 1), &updates.data[from..=from]);
                            }
                        }
                        walk.step();
                    }
                }
                rows.step();
            }
        },
    );
}
