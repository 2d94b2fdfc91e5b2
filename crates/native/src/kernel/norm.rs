//! Softmax and normalization, each in one pass over memory.
//!
//! A row fits in a cache, so it may be read several times. Sums within a row use the same fixed lanes as reductions.
//! Half-precision values are computed as f32. Rows that are not contiguous are copied into the result first.

use super::map::{self, Cost};
use super::reduce::{Sum, fold_mapped, fold_once, fold_slice, fold_vector};
use super::unary::each;
use crate::buffer::{self, Buffer};
use crate::element::Stored;
use crate::layout::{Layout, View, dense_strides};
use crate::math::{double, single};
use crate::simd::{multiversion, zip3_streamed};
use crate::{memory, parallel, simd};
use clematis_core::op::Binary;
use clematis_core::{DType, Result, Shape, Spec, Tensor, bail, limit};
use half::{bf16, f16};
use num_traits::Zero;

/// Rows that are read at a time.
const STRIP: usize = 16;

/// The type rows are computed in.
pub trait Float: Stored<Wide = Self> + num_traits::Float {
    /// The natural logarithm, bit-identical on every machine.
    fn logarithm(self) -> Self;
    /// The sum of a row.
    fn total(row: &[Self]) -> Self;
    /// The sum of squared distances from a number.
    fn squares(row: &[Self], from: Self) -> Self;
    /// Writes `e^(x - shift)`.
    fn shifted_exponentials(out: &mut [Self], x: &[Self], shift: Self);
    /// Writes `e^x`.
    fn exponentials(out: &mut [Self], x: &[Self]);
    /// Writes logarithms.
    fn logarithms(out: &mut [Self], x: &[Self]);
    /// Rounded from f64.
    fn rounded(x: f64) -> Self;
}

macro_rules! float {
    ($t:ty, $math:ident, $exponentials:path) => {
        impl Float for $t {
            #[inline(always)]
            fn logarithm(self) -> Self {
                $math::log(self)
            }
            fn total(row: &[Self]) -> Self {
                fold_slice(row, Sum)
            }
            fn squares(row: &[Self], from: Self) -> Self {
                fold_mapped(row, Sum, |x| (x - from) * (x - from))
            }
            fn shifted_exponentials(out: &mut [Self], x: &[Self], shift: Self) {
                $exponentials(out, x, |x: $t| x - shift);
            }
            fn exponentials(out: &mut [Self], x: &[Self]) {
                $exponentials(out, x, |x: $t| x);
            }
            fn logarithms(out: &mut [Self], x: &[Self]) {
                each(out, x, $math::log);
            }
            fn rounded(x: f64) -> Self {
                x as $t
            }
        }
    };
}
float!(f32, single, super::unary::exponentials);
float!(f64, double, double_exponentials);

fn double_exponentials(out: &mut [f64], x: &[f64], f: impl Fn(f64) -> f64) {
    each(out, x, |x: f64| double::exp(f(x)));
}

multiversion! {
    fn scale[W: Float](row: &mut [W], by: W) {
        for x in row {
            *x = *x * by;
        }
    }
    fn shift_twice[W: Float](out: &mut [W], x: &[W], first: W, then: W) {
        for (out, &x) in out.iter_mut().zip(x) {
            *out = (x - first) - then;
        }
    }
    fn scale_shift[W: Float](out: &mut [W], x: &[W], mean: W, by: W) {
        for (out, &x) in out.iter_mut().zip(x) {
            *out = (x - mean) * by;
        }
    }
    fn scale_shift_weigh[W: Float](out: &mut [W], x: &[W], mean: W, by: W, weight: &[W]) {
        for ((out, &x), &weight) in out.iter_mut().zip(x).zip(weight) {
            *out = (x - mean) * by * weight;
        }
    }
    fn scale_shift_all[W: Float](out: &mut [W], x: &[W], mean: W, by: W, weight: &[W], bias: &[W]) {
        for (((out, &x), &weight), &bias) in out.iter_mut().zip(x).zip(weight).zip(bias) {
            *out = (x - mean) * by * weight + bias;
        }
    }
}

multiversion! {
    /// The largest number of a row; NaN is skipped, since it reappears in the sum.
    fn top[W: Float](row: &[W]) -> W {
        let parts = row.chunks_exact(LANES);
        let rest = parts.remainder();
        let larger = |top: W, &x: &W| if x > top { x } else { top };
        if row.len() < LANES {
            return rest.iter().fold(W::neg_infinity(), larger);
        }
        let mut tops = [W::neg_infinity(); LANES];
        for part in parts {
            for (top, &x) in tops.iter_mut().zip(part) {
                *top = if x > *top { x } else { *top };
            }
        }
        // Pairwise: a sequential loop would be one long dependency chain.
        let both = |a, b| larger(a, &b);
        let tops: [W; 32] = fold_once(&tops, both);
        rest.iter().fold(fold_vector(fold_once(&tops, both), both), larger)
    }
}

/// Independent maxima per row.
const LANES: usize = 64;

/// The largest, or 0 if it would turn differences into NaN.
fn pivot<W: Float>(row: &[W]) -> W {
    let largest = top(row);
    if largest.is_infinite() {
        W::zero()
    } else {
        largest
    }
}

fn softmax_row<W: Float>(out: &mut [W], x: &[W]) {
    // An infinite largest element makes the row NaN, as the expansion does.
    W::shifted_exponentials(out, x, top(x));
    let total = W::total(out);
    scale(out, W::one() / total);
}

fn log_softmax_row<W: Float>(out: &mut [W], x: &[W]) {
    let largest = top(x);
    W::shifted_exponentials(out, x, largest);
    let total = W::total(out);
    // Their sum would round the logarithm away next to a large number.
    shift_twice(out, x, largest, total.logarithm());
}

/// Rows with fewer elements hardly fill a vector.
const SHORT: usize = 32;

/// Rows of `length` elements. Short ones are processed together, so that exponentials and logarithms run on whole
/// vectors; each row is bit-identical to the same row alone.
fn softmax_rows<W: Float>(out: &mut [W], x: &[W], length: usize, log: bool) {
    if length > SHORT {
        let row = if log { log_softmax_row } else { softmax_row };
        let rows = out.chunks_mut(length).zip(x.chunks(length));
        return rows.for_each(|(out, x)| row(out, x));
    }
    let mut shifted = [W::zero(); STRIP * SHORT];
    let (mut totals, mut logs) = ([W::one(); STRIP], [W::zero(); STRIP]);
    for (out, x) in out.chunks_mut(STRIP * length).zip(x.chunks(STRIP * length)) {
        let shifted = &mut shifted[..x.len()];
        for (shifted, x) in shifted.chunks_mut(length).zip(x.chunks(length)) {
            let largest = top(x);
            for (shifted, &x) in shifted.iter_mut().zip(x) {
                *shifted = x - largest;
            }
        }
        W::exponentials(out, shifted);
        for (total, out) in totals.iter_mut().zip(out.chunks_mut(length)) {
            *total = W::total(out);
            if !log {
                let by = W::one() / *total;
                out.iter_mut().for_each(|x| *x = *x * by);
            }
        }
        if log {
            W::logarithms(&mut logs, &totals);
            let rows = out.chunks_mut(length).zip(shifted.chunks(length));
            for ((out, shifted), &log) in rows.zip(&logs) {
                for (out, &x) in out.iter_mut().zip(shifted) {
                    *out = x - log;
                }
            }
        }
    }
}

/// The statistic by which a row is normalized.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Centre {
    /// Mean and variance.
    Mean,
    /// Root mean square about zero.
    Zero,
}

/// Normalizes one row; `streams` says whether its results use streaming stores. `affine`: a scale, and a bias.
fn norm_row<W: Float>(
    past: bool,
    centre: Centre,
    epsilon: W,
    affine: Option<(&[W], Option<&[W]>)>,
    out: &mut [W],
    x: &[W],
) {
    let count = W::rounded(x.len() as f64);
    let mean = match centre {
        Centre::Mean => W::total(x) / count,
        Centre::Zero => W::zero(),
    };
    let by = W::one() / (W::squares(x, mean) / count + epsilon).sqrt();
    match affine {
        None => scale_shift(out, x, mean, by),
        Some((weight, None)) => scale_shift_weigh(out, x, mean, by, weight),
        Some((weight, Some(bias))) if past => {
            let f = |x: W, weight: W, bias: W| (x - mean) * by * weight + bias;
            zip3_streamed(out, x, weight, bias, f);
        }
        Some((weight, Some(bias))) => scale_shift_all(out, x, mean, by, weight, bias),
    }
}

/// Runs `f(out, x)` on rows of `length` elements, on several at a time if they are short.
fn rows<T: Stored>(
    x: &View<'_, T>,
    out: &mut [T],
    length: usize,
    f: impl Fn(&mut [T::Wide], &[T::Wide]) + Sync,
) {
    if out.is_empty() {
        return;
    }
    let dense = x.dense();
    let x = x.merged();
    let grain = (Cost::Medium.grain() / length).max(1) * length;
    // Whole strips, unless a row is a task by itself.
    let grain = if dense.is_some() {
        grain
    } else {
        grain.div_ceil(STRIP * length) * STRIP * length
    };
    let step = if length <= SHORT {
        STRIP * length
    } else {
        length
    };
    parallel::for_chunks_mut(out, grain, |start, out| {
        let mut stored = Vec::new();
        let mut wide_in = vec![bytemuck::Zeroable::zeroed(); if T::DIRECT { 0 } else { step }];
        let mut wide_out = wide_in.clone();
        // Some rows at a time, so that a transposed view is read along its memory.
        for (i, out) in out.chunks_mut(STRIP * length).enumerate() {
            let at = start + i * STRIP * length;
            let some = match dense {
                Some(all) => &all[at..at + out.len()],
                None => {
                    stored.resize(out.len(), T::zeroed());
                    x.read(at, &mut stored);
                    &stored
                }
            };
            let mut next = at;
            for (out, some) in out.chunks_mut(step).zip(some.chunks(step)) {
                next += some.len();
                if let Some(all) = dense {
                    // The hardware prefetcher stops at a page boundary, and a row may be as long as a page.
                    simd::prefetch(&all[next..all.len().min(next + step)]);
                }
                if T::DIRECT {
                    f(bytemuck::cast_slice_mut(out), bytemuck::cast_slice(some));
                } else {
                    let (wide_in, wide_out) =
                        (&mut wide_in[..out.len()], &mut wide_out[..out.len()]);
                    T::widen(some, wide_in);
                    f(wide_out, wide_in);
                    T::narrow(wide_out, out);
                }
            }
        }
        simd::stream_done();
    });
}

/// `softmax` along an axis, or its logarithm.
pub fn softmax(op: &str, x: &Tensor, axis: usize, log: bool, out: &Spec) -> Result<Buffer> {
    // The result has the axis last in memory; its layout restores the order.
    let rank = out.rank();
    let mut axes: Vec<usize> = (0..rank).filter(|&a| a != axis).collect();
    axes.push(axis);
    let buffer = buffer::of(x)?;
    let sizes = out.shape.sizes();
    let mut bytes = memory::alloc(op, out)?;
    fn run<T: Stored<Wide: Float>>(x: &View<'_, T>, out: &mut [T], log: bool) {
        let length = x.sizes.last().copied().unwrap_or(1);
        rows(x, out, length, |out, x| softmax_rows(out, x, length, log));
    }
    macro_rules! with {
        ($t:ty) => {
            run::<$t>(
                &buffer.view(x.shape()).transposed(&axes),
                bytes.as_mut_slice(),
                log,
            )
        };
    }
    match out.dtype {
        DType::F16 => with!(f16),
        DType::BF16 => with!(bf16),
        DType::F32 => with!(f32),
        DType::F64 => with!(f64),
        other => bail!(Internal, "{op}: the engine has no kernel for {other}"),
    }
    let moved: crate::layout::Sizes = axes.iter().map(|&a| sizes[a]).collect();
    let strides = dense_strides(&moved);
    let mut out_strides = strides.clone();
    for (i, &axis) in axes.iter().enumerate() {
        out_strides[axis] = strides[i];
    }
    Ok(Buffer::new(bytes).with_layout(Layout::new(0, &sizes, out_strides)))
}

/// `log(sum(exp(x)))` over axes, which are removed.
pub fn log_sum_exp(op: &str, x: &Tensor, reduced: &[usize], out: &Spec) -> Result<Buffer> {
    let buffer = buffer::of(x)?;
    let mut axes: Vec<usize> = (0..x.rank()).filter(|a| !reduced.contains(a)).collect();
    let mut folded = reduced.to_vec();
    folded.sort_unstable();
    axes.extend(&folded);
    let sizes = x.shape().sizes();
    let lengths: Vec<usize> = folded.iter().map(|&a| sizes[a]).collect();
    // A row may be longer than memory: broadcast elements take none.
    let length = limit::count::<[f64; 3]>(op, "elements of a row", &lengths)?;
    let mut bytes = memory::alloc(op, out)?;
    fn run<T: Stored<Wide: Float>>(x: &View<'_, T>, out: &mut [T], length: usize) {
        let x = x.merged();
        let per_task = (Cost::Medium.grain() / length.max(1)).max(1);
        parallel::for_chunks_mut(out, per_task, |start, out| {
            let mut stored = vec![T::zeroed(); length];
            let mut wide = vec![<T::Wide as Zero>::zero(); length];
            let mut powers = vec![<T::Wide as Zero>::zero(); length];
            for (i, out) in out.iter_mut().enumerate() {
                if length == 0 {
                    T::narrow(
                        &[<T::Wide as num_traits::Float>::neg_infinity()],
                        std::slice::from_mut(out),
                    );
                    continue;
                }
                x.read((start + i) * length, &mut stored);
                T::widen(&stored, &mut wide);
                let pivot = pivot(&wide);
                T::Wide::shifted_exponentials(&mut powers, &wide, pivot);
                let value = T::Wide::total(&powers).logarithm() + pivot;
                T::narrow(&[value], std::slice::from_mut(out));
            }
        });
    }
    macro_rules! with {
        ($t:ty) => {
            run::<$t>(
                &buffer.view(x.shape()).transposed(&axes),
                bytes.as_mut_slice(),
                length,
            )
        };
    }
    match out.dtype {
        DType::F16 => with!(f16),
        DType::BF16 => with!(bf16),
        DType::F32 => with!(f32),
        DType::F64 => with!(f64),
        other => bail!(Internal, "{op}: the engine has no kernel for {other}"),
    }
    Ok(Buffer::new(bytes))
}

/// Normalizes over the last axes from `axis` on, then scales and shifts.
pub fn norm(
    op: &str,
    inputs: &[&Tensor],
    axis: usize,
    epsilon: f64,
    centre: Centre,
    out: &Spec,
) -> Result<Buffer> {
    let x = inputs[0];
    let mut parameters = Vec::new();
    for p in &inputs[1..] {
        let spec = p.spec().with_dtype(out.dtype);
        let cast = super::cast::cast(p, &spec)?;
        parameters.push(Tensor::concrete(
            spec,
            crate::engine::backend(),
            cast.boxed(),
        ));
    }
    let inner = Shape::from_sizes(&x.shape().sizes()[axis..]);
    if x.shape() == &out.shape && parameters.iter().all(|p| p.rank() <= inner.rank()) {
        return fused(op, x, &parameters, &inner, epsilon, centre, out);
    }
    // Parameters that vary from row to row: separate passes.
    let mut spec = x.spec().clone();
    let mut y = fused(op, x, &[], &inner, epsilon, centre, &spec)?;
    for (p, step) in parameters.iter().zip([Binary::Mul, Binary::Add]) {
        let before = Tensor::concrete(spec.clone(), crate::engine::backend(), y.boxed());
        let shape = spec.shape.broadcast_with(p.shape(), op)?;
        spec = spec.with_shape(shape);
        y = super::binary::run(step, &before, p, &spec)?;
    }
    Ok(y)
}

fn fused(
    op: &str,
    x: &Tensor,
    parameters: &[Tensor],
    inner: &Shape,
    epsilon: f64,
    centre: Centre,
    out: &Spec,
) -> Result<Buffer> {
    let buffer = buffer::of(x)?;
    let length = inner.count();
    let mut bytes = memory::alloc(op, out)?;
    let (scale, bias) = (parameters.first(), parameters.get(1));
    macro_rules! with {
        ($t:ty) => {{
            let scale = scale.map(|s| parameter::<$t>(s, inner)).transpose()?;
            let bias = bias.map(|b| parameter::<$t>(b, inner)).transpose()?;
            let affine = scale.as_deref().map(|scale| (scale, bias.as_deref()));
            let epsilon = <$t as Stored>::Wide::rounded(epsilon);
            let view = buffer.view::<$t>(x.shape());
            // Operand and result exceed the last-level cache.
            let past = <$t as Stored>::DIRECT && 2 * out.bytes() >= memory::last_level_cache();
            rows(
                &view,
                bytes.as_mut_slice::<$t>(),
                length.max(1),
                |out, x| {
                    let rows = out.chunks_mut(length.max(1)).zip(x.chunks(length.max(1)));
                    for (out, x) in rows {
                        norm_row(past, centre, epsilon, affine, out, x);
                    }
                },
            );
        }};
    }
    match out.dtype {
        DType::F16 => with!(f16),
        DType::BF16 => with!(bf16),
        DType::F32 => with!(f32),
        DType::F64 => with!(f64),
        other => bail!(Unsupported, "{op}: takes floats, not {other}"),
    }
    Ok(Buffer::new(bytes))
}

/// A scale or bias, broadcast to the normalized shape, in the computed type.
pub fn parameter<T: Stored>(x: &Tensor, shape: &Shape) -> Result<Vec<T::Wide>> {
    let count = shape.count();
    let mut stored = vec![T::zeroed(); count];
    match map::source::<T>(x, shape)? {
        map::Source::Constant(value) => stored.fill(value),
        map::Source::Dense(slice) => stored.copy_from_slice(slice),
        map::Source::Strided(view) => view.read(0, &mut stored),
    }
    let mut wide = vec![bytemuck::Zeroable::zeroed(); count];
    T::widen(&stored, &mut wide);
    Ok(wide)
}
