//! Sorting and searching.
//!
//! Elements are compared as unsigned keys: integers shifted, floats by their bits, -0 as 0 and NaN above everything. A
//! key and an index sort together, so the order is stable and payloads follow by index.
#![allow(unsafe_code)]

use super::map::Cost;
use crate::buffer::{self, Buffer};
use crate::element::{by_size, f16_to_f32};
use crate::layout::{View, Walk, dense_strides, read_run};
use crate::{memory, parallel};
use clematis_core::op::Sort;
use clematis_core::{DType, Result, Spec, Tensor, bail, limit};
use half::{bf16, f16};

/// NaN, after every number in both directions.
const LAST: u64 = u64::MAX;

#[inline(always)]
fn float_key(x: f64, descending: bool) -> u64 {
    if x.is_nan() {
        return LAST;
    }
    // Adding 0 turns -0 into 0. Negative numbers decrease with their bits, so all are flipped.
    let bits = (x + 0.0).to_bits();
    let key = if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    };
    if descending { !key } else { key }
}

/// The keys of a lane; `false`: complex, which has none.
macro_rules! keyed {
    ($dtype:expr, $descending:expr, $T:ident, $key:ident => $body:expr, $otherwise:expr) => {{
        let flip = if $descending { u64::MAX } else { 0 };
        let _ = flip;
        keyed!(@ $dtype, $T, $key, $body, $otherwise;
            Bool u8 |x| u64::from(x) ^ flip,
            U8 u8 |x| u64::from(x) ^ flip,
            U16 u16 |x| u64::from(x) ^ flip,
            U32 u32 |x| u64::from(x) ^ flip,
            U64 u64 |x| x ^ flip,
            I8 i8 |x| (i64::from(x) as u64 ^ 1 << 63) ^ flip,
            I16 i16 |x| (i64::from(x) as u64 ^ 1 << 63) ^ flip,
            I32 i32 |x| (i64::from(x) as u64 ^ 1 << 63) ^ flip,
            I64 i64 |x| (x as u64 ^ 1 << 63) ^ flip,
            F16 f16 |x| float_key(f64::from(f16_to_f32(x)), $descending),
            BF16 bf16 |x| float_key(f64::from(x), $descending),
            F32 f32 |x| float_key(f64::from(x), $descending),
            F64 f64 |x| float_key(x, $descending),
        )
    }};
    (@ $dtype:expr, $T:ident, $key:ident, $body:expr, $otherwise:expr; $($d:ident $t:ty |$x:ident| $k:expr,)*) => {
        match $dtype {
            $(DType::$d => {
                type $T = $t;
                let $key = |$x: $t| -> u64 { $k };
                $body
            })*
            DType::C64 | DType::C128 => $otherwise,
        }
    };
}

/// The lanes of one operand along an axis, by number.
struct Lanes {
    sizes: crate::layout::Sizes,
    out_strides: crate::layout::Strides,
    step: isize,
    length: usize,
}

impl Lanes {
    fn new(sizes: &[usize], axis: usize) -> Self {
        let mut out_strides = dense_strides(sizes);
        let mut sizes: crate::layout::Sizes = sizes.into();
        let step = out_strides.remove(axis);
        let length = sizes.remove(axis);
        Lanes {
            sizes,
            out_strides,
            step,
            length,
        }
    }

    fn count(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The offset of lane `i` in a contiguous result.
    fn out_offset(&self, i: usize) -> usize {
        Walk::new(&self.sizes, [&self.out_strides], [0], i).at[0] as usize
    }

    /// The offset of lane `i` in a view, and its stride.
    fn start<T>(&self, view: &View<'_, T>, axis: usize, i: usize) -> (isize, isize) {
        let mut strides = view.strides.clone();
        let step = strides.remove(axis);
        let at = Walk::new(&self.sizes, [&strides], [view.offset as isize], i).at[0];
        (at, step)
    }
}

/// Lanes up to this long are sorted in a few hundredths of a second, without polling.
const MAX_UNPOLLED: usize = 1 << 20;

/// Polls for interrupts from time to time.
fn polled() -> impl FnMut() {
    let mut calls = 0u32;
    move || {
        calls = calls.wrapping_add(1);
        if calls.is_multiple_of(1 << 20) {
            parallel::poll();
        }
    }
}

/// The order of lane `i`: by keys of the first operands, then by index.
fn order(
    inputs: &[(&Tensor, &Buffer)],
    keys: usize,
    axis: usize,
    descending: bool,
    lanes: &Lanes,
    i: usize,
) -> Result<Vec<u32>> {
    let n = lanes.length;
    let mut all: Vec<Vec<u64>> = Vec::new();
    for (x, buffer) in &inputs[..keys] {
        keyed!(x.dtype(), descending, T, key => {
            let view = buffer.view::<T>(x.shape());
            let (at, step) = lanes.start(&view, axis, i);
            let mut lane = vec![T::default(); n];
            read_run(view.data, at, step, &mut lane);
            all.push(lane.into_iter().map(key).collect());
        }, bail!(Internal, "sort: complex numbers have no order"));
    }
    let mut order: Vec<u32> = (0..n as u32).collect();
    if let [keys] = &all[..] {
        let mut pairs: Vec<(u64, u32)> = keys.iter().copied().zip(order).collect();
        if n <= MAX_UNPOLLED {
            pairs.sort_unstable();
        } else {
            let mut polled = polled();
            pairs.sort_unstable_by(|a, b| {
                polled();
                a.cmp(b)
            });
        }
        return Ok(pairs.into_iter().map(|(_, index)| index).collect());
    }
    let mut polled = polled();
    order.sort_by(|&a, &b| {
        polled();
        all.iter()
            .map(|keys| keys[a as usize].cmp(&keys[b as usize]))
            .find(|o| o.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    Ok(order)
}

/// Sorts all operands by the first ones along an axis.
pub fn sort(p: &Sort, inputs: &[&Tensor], out: &[Spec]) -> Result<Vec<Buffer>> {
    let buffers: Vec<_> = inputs
        .iter()
        .map(|x| buffer::of(x))
        .collect::<Result<_>>()?;
    let operands: Vec<(&Tensor, &Buffer)> = inputs
        .iter()
        .copied()
        .zip(buffers.iter().map(|b| &**b))
        .collect();
    let mut results = out
        .iter()
        .map(|spec| memory::alloc("sort", spec))
        .collect::<Result<Vec<_>>>()?;
    let lanes = Lanes::new(&inputs[0].shape().sizes(), p.axis);
    let n = lanes.length;
    if u32::try_from(n).is_err() {
        bail!(
            Unsupported,
            "sort: {n} elements along one axis, the most is {}",
            u32::MAX
        );
    }
    let count = lanes.count();
    if n == 0 || count == 0 {
        return Ok(results.into_iter().map(Buffer::new).collect());
    }
    // Some lanes at a time: enough work for the threads, little memory for the orders.
    let batch = (Cost::Heavy.grain() * 16 / n).max(16);
    let per_task = (Cost::Heavy.grain() / n).max(1);
    let mut first = 0;
    while first < count {
        let here = batch.min(count - first);
        let mut orders: Vec<Result<Vec<u32>>> = (0..here).map(|_| Ok(Vec::new())).collect();
        parallel::for_chunks_mut(&mut orders, per_task, |start, orders| {
            for (i, made) in orders.iter_mut().enumerate() {
                let lane = first + start + i;
                *made = order(&operands, p.keys.into(), p.axis, p.descending, &lanes, lane);
            }
        });
        let orders = orders.into_iter().collect::<Result<Vec<_>>>()?;
        for ((x, buffer), result) in operands.iter().zip(&mut results) {
            by_size!(x.dtype(), T => {
                let view = buffer.view::<T>(x.shape());
                let tasks = here.div_ceil(per_task);
                // SAFETY: a task has some lanes, and lanes do not overlap.
                let disjoint = unsafe { parallel::Disjoint::promise() };
                parallel::for_disjoint(disjoint, result.as_mut_slice::<T>(), tasks, || (), |(), task, out| {
                    let own = task * per_task..here.min((task + 1) * per_task);
                    for (lane, order) in own.clone().zip(&orders[own]) {
                        let (at, step) = lanes.start(&view, p.axis, first + lane);
                        let start = lanes.out_offset(first + lane);
                        for (i, &from) in order.iter().enumerate() {
                            let value = view.data[(at + from as isize * step) as usize];
                            out.set(start + i * lanes.step as usize, value);
                        }
                    }
                });
            });
        }
        first += here;
    }
    Ok(results.into_iter().map(Buffer::new).collect())
}

/// The largest elements along the last axis in descending order, with their indices; NaN is the largest, of equal
/// elements the first comes first.
pub fn top_k(x: &Tensor, out: &[Spec]) -> Result<Vec<Buffer>> {
    let buffer = buffer::of(x)?;
    let sizes = x.shape().sizes();
    let axis = sizes.len() - 1;
    let k = out[0].shape.size(axis);
    let lanes = Lanes::new(&sizes, axis);
    let n = lanes.length;
    // A lane may be longer than memory: broadcast elements take none.
    limit::count::<(u64, i64)>("top_k", "elements of a lane", &[n])?;
    let mut values = memory::alloc("top_k", &out[0])?;
    let mut indices = memory::alloc("top_k", &out[1])?;
    if k == 0 || lanes.count() == 0 {
        return Ok(vec![Buffer::new(values), Buffer::new(indices)]);
    }
    let tasks = lanes.count();
    let floats = x.dtype().is_float();
    let at = indices.as_mut_slice::<i64>();
    keyed!(x.dtype(), true, T, key => {
        let view = buffer.view::<T>(x.shape());
        let grain = k * (Cost::Heavy.grain() * 4 / n.max(1)).max(1);
        parallel::for_chunks_mut(at, grain, |start, at| {
            let mut lane = vec![T::default(); n];
            let mut pairs: Vec<(u64, i64)> = Vec::new();
            for (i, at) in at.chunks_mut(k).enumerate() {
                let (from, step) = lanes.start(&view, axis, start / k + i);
                read_run(view.data, from, step, &mut lane);
                pairs.clear();
                pairs.extend(lane.iter().enumerate().map(|(i, &x)| {
                    let key = key(x);
                    (if floats && key == LAST { 0 } else { key }, i as i64)
                }));
                if k < n {
                    pairs.select_nth_unstable(k - 1);
                }
                pairs[..k].sort_unstable();
                for (at, (_, index)) in at.iter_mut().zip(&pairs) {
                    *at = *index;
                }
            }
        });
        let at = &*at;
        let values = values.as_mut_slice::<T>();
        for lane in 0..tasks {
            let (from, step) = lanes.start(&view, axis, lane);
            for i in lane * k..(lane + 1) * k {
                values[i] = view.data[(from + at[i] as isize * step) as usize];
            }
        }
    }, bail!(Internal, "top_k: complex numbers have no order"));
    Ok(vec![Buffer::new(values), Buffer::new(indices)])
}

/// The index at which each value would be inserted into its sorted row.
pub fn search_sorted(sorted: &Tensor, values: &Tensor, right: bool, out: &Spec) -> Result<Buffer> {
    let (rows, queries) = (buffer::of(sorted)?, buffer::of(values)?);
    let last = sorted.rank() - 1;
    // One row serves all values; several rows are paired with values.
    let m = if last == 0 {
        values.shape().count()
    } else {
        values.shape().size(values.rank() - 1)
    };
    let mut bytes = memory::alloc("searchsorted", out)?;
    keyed!(sorted.dtype(), false, T, key => {
        let rows = rows.view::<T>(sorted.shape());
        let queries = queries.view::<T>(values.shape());
        let (n, step) = (rows.sizes[last], rows.strides[last]);
        parallel::for_chunks_mut(bytes.as_mut_slice::<i64>(), Cost::Heavy.grain(), |start, out| {
            let mut buffer = [<T as bytemuck::Zeroable>::zeroed(); PIECE];
            for (piece, out) in out.chunks_mut(PIECE).enumerate() {
                let first = start + piece * PIECE;
                let buffer = &mut buffer[..out.len()];
                queries.read(first, buffer);
                let mut row = first / m;
                let mut walk = row_walk(&rows, row);
                for (i, (out, value)) in out.iter_mut().zip(buffer.iter()).enumerate() {
                    while (first + i) / m > row {
                        walk.step();
                        row += 1;
                    }
                    let (begin, value) = (walk.at[0], key(*value));
                    *out = partition_point(n, |i| {
                        let x = key(rows.data[(begin + i as isize * step) as usize]);
                        x < value || right && x == value
                    }) as i64;
                }
            }
        });
    }, bail!(Internal, "searchsorted: complex numbers have no order"));
    Ok(Buffer::new(bytes))
}

/// Values that are looked up between two reads.
const PIECE: usize = 256;

/// Iterates over the starts of rows, beginning at `row`.
fn row_walk<'a, T: Copy>(rows: &'a View<'_, T>, row: usize) -> Walk<'a, 1> {
    let last = rows.sizes.len() - 1;
    Walk::new(
        &rows.sizes[..last],
        [&rows.strides[..last]],
        [rows.offset as isize],
        row,
    )
}

/// The number of the first `n` indices for which `holds`, which must be true for a prefix.
fn partition_point(n: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
