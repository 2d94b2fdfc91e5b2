//! Reductions over any axes of any layout.
//!
//! The order in which elements are combined depends on sizes and strides, never on threads or vector width: a row is
//! divided into pieces and those into chunks, a chunk is folded in a fixed number of lanes, and lanes, chunks and
//! pieces are combined pairwise. If memory runs along the kept axes, whole rows are combined instead.
#![allow(unsafe_code)]

use super::binary::Ordered;
use super::create;
use crate::buffer::{self, Buffer};
use crate::element::{Stored, by_real};
use crate::layout::{Sizes, Strides, View, Walk};
use crate::simd::multiversion;
use crate::{memory, parallel};
use clematis_core::op::{Reduce, ReduceKind};
use clematis_core::{DType, Result, Scalar, Spec, Tensor};
use num_complex::Complex;

/// Elements per chunk.
const CHUNK: usize = 4096;
/// Elements of one row per task.
const PIECE: usize = 16 * CHUNK;
/// The number of tasks from which a task takes more than one piece, and the most pieces it takes.
const TASKS: usize = 64;
const MAX_PIECES_PER_TASK: usize = 4;
/// Columns that are combined at a time.
const COLUMNS: usize = 512;
/// Rows that are added up before their sum is added to the total: keeps rounding errors small.
pub const ROW_BLOCK: usize = 64;
/// The most pieces that rows are divided into.
const MAX_PIECES: usize = 64;
/// Lanes of a fold: four vectors of sixteen.
const LANES: usize = 64;

/// The combination of two elements.
pub trait Fold<W>: Copy + Default + Send + Sync {
    /// The neutral element.
    fn identity() -> W;
    /// Combines two elements.
    fn combine(a: W, b: W) -> W;
}

/// Sum, wrapping for integers.
#[derive(Clone, Copy, Default)]
pub struct Sum;
/// Product, wrapping for integers.
#[derive(Clone, Copy, Default)]
pub struct Prod;
/// The largest.
#[derive(Clone, Copy, Default)]
pub struct Max;
/// The smallest.
#[derive(Clone, Copy, Default)]
pub struct Min;

macro_rules! folds {
    ($($t:ty, $zero:expr, $one:expr, |$a:ident, $b:ident| $sum:expr, $prod:expr;)*) => {$(
        impl Fold<$t> for Sum {
            #[inline(always)]
            fn identity() -> $t { $zero }
            #[inline(always)]
            fn combine($a: $t, $b: $t) -> $t { $sum }
        }
        impl Fold<$t> for Prod {
            #[inline(always)]
            fn identity() -> $t { $one }
            #[inline(always)]
            fn combine($a: $t, $b: $t) -> $t { $prod }
        }
    )*};
}
macro_rules! extremes {
    ($($t:ty, $low:expr, $high:expr;)*) => {$(
        impl Fold<$t> for Max {
            #[inline(always)]
            fn identity() -> $t { $low }
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { a.larger(b) }
        }
        impl Fold<$t> for Min {
            #[inline(always)]
            fn identity() -> $t { $high }
            #[inline(always)]
            fn combine(a: $t, b: $t) -> $t { a.smaller(b) }
        }
    )*};
}
macro_rules! integer_folds {
    ($($t:ty)*) => {
        folds! { $($t, 0, 1, |a, b| a.wrapping_add(b), a.wrapping_mul(b);)* }
        extremes! { $($t, <$t>::MIN, <$t>::MAX;)* }
    };
}
integer_folds! { u8 u16 u32 u64 i8 i16 i32 i64 }
folds! {
    f32, 0.0, 1.0, |a, b| a + b, a * b;
    f64, 0.0, 1.0, |a, b| a + b, a * b;
    Complex<f32>, Complex::new(0.0, 0.0), Complex::new(1.0, 0.0), |a, b| a + b, a * b;
    Complex<f64>, Complex::new(0.0, 0.0), Complex::new(1.0, 0.0), |a, b| a + b, a * b;
}
extremes! {
    f32, f32::NEG_INFINITY, f32::INFINITY;
    f64, f64::NEG_INFINITY, f64::INFINITY;
}

multiversion! {
    /// Folds `map` of up to a chunk of pairs.
    fn fold_chunk[W: Copy, F: Fold<W>, M: Fn(W, W) -> W](x: &[W], y: &[W], fold: F, map: M) -> W {
        let _ = fold;
        if x.len() <= 8 {
            let mut all = F::identity();
            for (&x, &y) in x.iter().zip(y) {
                all = F::combine(all, map(x, y));
            }
            return all;
        }
        let mut lanes = [F::identity(); LANES];
        let ((chunks, rest), (others, others_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
        for (x, y) in chunks.iter().zip(others) {
            for i in 0..LANES {
                lanes[i] = F::combine(lanes[i], map(x[i], y[i]));
            }
        }
        if !rest.is_empty() {
            // Through an array of its own: lanes that a loop of variable length indexes would not stay in registers.
            let mut tail = [F::identity(); LANES];
            for (tail, (&x, &y)) in tail.iter_mut().zip(rest.iter().zip(others_rest)) {
                *tail = map(x, y);
            }
            for i in 0..LANES {
                lanes[i] = F::combine(lanes[i], tail[i]);
            }
        }
        let mut vector = [F::identity(); 16];
        for i in 0..16 {
            let (first, second) = (F::combine(lanes[i], lanes[16 + i]), F::combine(lanes[32 + i], lanes[48 + i]));
            vector[i] = F::combine(first, second);
        }
        fold_vector(vector, F::combine)
    }

    /// `all[i] = all[i] + x[i]`
    fn fold_into[W: Copy, F: Fold<W>](all: &mut [W], x: &[W], fold: F) {
        let _ = fold;
        for (all, &x) in all.iter_mut().zip(x) {
            *all = F::combine(*all, x);
        }
    }
}

/// Combines the first half of some elements with the second.
#[inline(always)]
pub fn fold_once<W: Copy, const N: usize>(x: &[W], both: impl Fn(W, W) -> W) -> [W; N] {
    // `from_fn` is not always inlined.
    let mut folded = [x[0]; N];
    for i in 0..N {
        folded[i] = both(x[i], x[N + i]);
    }
    folded
}

/// Folds a vector by repeated halving, unrolled: a loop over sizes would go through memory, element by element.
#[inline(always)]
pub fn fold_vector<W: Copy>(x: [W; 16], both: impl Fn(W, W) -> W) -> W {
    let x: [W; 8] = fold_once(&x, &both);
    let x: [W; 4] = fold_once(&x, &both);
    let x: [W; 2] = fold_once(&x, &both);
    both(x[0], x[1])
}

/// A fold as function pointers: the loops below are compiled once per element type, not once per fold.
#[derive(Clone, Copy)]
struct Folding<W: Copy> {
    identity: W,
    combine: fn(W, W) -> W,
    chunk: fn(&[W]) -> W,
    into: fn(&mut [W], &[W]),
}

fn folding<W: Copy, F: Fold<W>>(_: F) -> Folding<W> {
    Folding {
        identity: F::identity(),
        combine: F::combine,
        chunk: |x| fold_chunk(x, x, F::default(), |x, _| x),
        into: |all, x| fold_into(all, x, F::default()),
    }
}

/// Bool is stored as a byte: `any` is the largest, `all` the smallest.
fn choose<W: Copy>(kind: ReduceKind) -> Folding<W>
where
    Sum: Fold<W>,
    Prod: Fold<W>,
    Max: Fold<W>,
    Min: Fold<W>,
{
    match kind {
        ReduceKind::Sum => folding(Sum),
        ReduceKind::Prod => folding(Prod),
        ReduceKind::Max | ReduceKind::Any => folding(Max),
        ReduceKind::Min | ReduceKind::All => folding(Min),
    }
}

fn choose_complex<W: Copy>(kind: ReduceKind) -> Folding<W>
where
    Sum: Fold<W>,
    Prod: Fold<W>,
{
    match kind {
        ReduceKind::Prod => folding(Prod),
        _ => folding(Sum),
    }
}

/// Combines pairwise: the first half with the second.
fn fold_pairwise<W>(count: usize, each: &mut impl FnMut(usize) -> W, both: fn(W, W) -> W) -> W {
    fn go<W>(
        first: usize,
        count: usize,
        each: &mut impl FnMut(usize) -> W,
        both: fn(W, W) -> W,
    ) -> W {
        if count <= 1 {
            return each(first);
        }
        let left = go(first, count / 2, each, both);
        let right = go(first + count / 2, count - count / 2, each, both);
        both(left, right)
    }
    go(0, count, each, both)
}

/// Folds a row of any length, as one task.
pub fn fold_slice<W: Copy, F: Fold<W>>(x: &[W], fold: F) -> W {
    fold_mapped(x, fold, |x| x)
}

/// Folds `map` of a row.
pub fn fold_mapped<W: Copy, F: Fold<W>>(x: &[W], fold: F, map: impl Fn(W) -> W) -> W {
    fold_pairs(x, x, fold, |x, _| map(x))
}

/// The dot product of two equally long rows, each product rounded before it is added.
pub fn sum_of_products(x: &[f32], y: &[f32]) -> f32 {
    fold_pairs(x, y, Sum, |x, y| x * y)
}

#[inline]
fn fold_pairs<W: Copy, F: Fold<W>>(x: &[W], y: &[W], fold: F, map: impl Fn(W, W) -> W) -> W {
    if x.len() <= CHUNK {
        return fold_chunk(x, y, fold, map);
    }
    let chunk = |i: usize| i * CHUNK..x.len().min((i + 1) * CHUNK);
    fold_pairwise(
        x.len().div_ceil(CHUNK),
        &mut |i| fold_chunk(&x[chunk(i)], &y[chunk(i)], fold, &map),
        F::combine,
    )
}

/// Folds a part of a row, in place if it is contiguous, or through a buffer.
fn fold_piece<T: Stored>(
    row: &View<'_, T>,
    start: usize,
    len: usize,
    buffer: &mut (Vec<T>, Vec<T::Wide>),
    fold: Folding<T::Wide>,
) -> T::Wide {
    let run = row.sizes.len() == 1 && row.strides[0] == 1;
    if run && T::DIRECT {
        let from = row.offset + start;
        let x: &[T::Wide] = bytemuck::cast_slice(&row.data[from..from + len]);
        return fold_pairwise(
            len.div_ceil(CHUNK).max(1),
            &mut |i| (fold.chunk)(&x[i * CHUNK..len.min((i + 1) * CHUNK)]),
            fold.combine,
        );
    }
    fold_pairwise(
        len.div_ceil(CHUNK).max(1),
        &mut |i| {
            let at = start + i * CHUNK;
            let count = CHUNK.min(start + len - at);
            buffer.0.resize(count, T::zeroed());
            buffer.1.resize(count, fold.identity);
            row.read(at, &mut buffer.0);
            T::widen(&buffer.0, &mut buffer.1);
            (fold.chunk)(&buffer.1)
        },
        fold.combine,
    )
}

fn narrow<T: Stored>(value: T::Wide) -> T {
    let mut out = [T::zeroed()];
    T::narrow(&[value], &mut out);
    out[0]
}

/// Folds each result from its own row; `kept` and `reduced` are the axes that stay and those that are folded.
fn rows<T: Stored>(
    kept: &View<'_, T>,
    reduced: &View<'_, T>,
    out: &mut [T],
    fold: Folding<T::Wide>,
) {
    let count = reduced.count();
    let row_at = |walk: &Walk<'_, 1>| View {
        offset: walk.at[0] as usize,
        ..reduced.clone()
    };
    let walk_to = |o| Walk::new(&kept.sizes, [&kept.strides], [kept.offset as isize], o);
    if count <= PIECE {
        let per_task = (PIECE / count.max(16)).max(1);
        return parallel::for_chunks_mut(out, per_task, |first, out| {
            let mut buffer = (Vec::new(), Vec::new());
            let mut walk = walk_to(first);
            let mut row = row_at(&walk);
            for out in out {
                row.offset = walk.at[0] as usize;
                *out = narrow(fold_piece(&row, 0, count, &mut buffer, fold));
                walk.step();
            }
        });
    }
    let pieces = count.div_ceil(PIECE);
    let mut parts = vec![fold.identity; out.len() * pieces];
    // With many pieces a task takes several: long runs keep the prefetcher busy.
    let some = (parts.len() / TASKS).clamp(1, MAX_PIECES_PER_TASK);
    parallel::for_chunks_mut(&mut parts, some, |first, parts| {
        let mut buffer = (Vec::new(), Vec::new());
        for (at, part) in (first..).zip(parts) {
            let row = row_at(&walk_to(at / pieces));
            let start = at % pieces * PIECE;
            *part = fold_piece(&row, start, PIECE.min(count - start), &mut buffer, fold);
        }
    });
    for (out, parts) in out.iter_mut().zip(parts.chunks(pieces)) {
        *out = narrow(fold_pairwise(pieces, &mut |i| parts[i], fold.combine));
    }
}

/// The reduced elements of some columns.
struct Columns<'a, T> {
    reduced: View<'a, T>,
    /// The stride of columns.
    step: isize,
}

impl<T: Stored> Columns<'_, T> {
    /// Folds rows `first..last` of the columns from `at` on into `all`.
    fn fold(
        &self,
        at: isize,
        (first, last): (usize, usize),
        all: &mut [T::Wide],
        fold: Folding<T::Wide>,
    ) {
        let width = all.len();
        let direct = T::DIRECT && self.step == 1;
        let mut buffer = vec![T::zeroed(); if direct { 0 } else { width }];
        let mut wide = vec![fold.identity; if direct { 0 } else { width }];
        let mut block = vec![fold.identity; width];
        let mut walk = Walk::new(&self.reduced.sizes, [&self.reduced.strides], [at], first);
        let mut row = first;
        all.fill(fold.identity);
        while row < last {
            let end = last.min(row + ROW_BLOCK);
            block.fill(fold.identity);
            for _ in row..end {
                if direct {
                    let from = walk.at[0] as usize;
                    let run = &self.reduced.data[from..from + width];
                    (fold.into)(&mut block, bytemuck::cast_slice(run));
                } else {
                    crate::layout::read_run(self.reduced.data, walk.at[0], self.step, &mut buffer);
                    T::widen(&buffer, &mut wide);
                    (fold.into)(&mut block, &wide);
                }
                walk.step();
            }
            (fold.into)(all, &block);
            row = end;
        }
    }
}

/// The number of rows, of `count` rows of `width` columns, that form one partial result, in blocks of [`ROW_BLOCK`];
/// the partial results are folded in order.
pub fn rows_per_partial(count: usize, width: usize) -> usize {
    let least = (PIECE / width.clamp(1, COLUMNS)).max(2 * ROW_BLOCK);
    count.div_ceil(MAX_PIECES).max(least)
}

/// Folds many results at once, along the axis `column` of `kept` on which memory runs.
fn columns<T: Stored>(
    kept: &View<'_, T>,
    reduced: &View<'_, T>,
    column: usize,
    out: &mut [T],
    fold: Folding<T::Wide>,
) {
    let count = reduced.count();
    let width = kept.sizes[column];
    let out_strides = crate::layout::dense_strides(&kept.sizes);
    let without = |all: &[isize]| -> Strides {
        let mut all: Strides = all.into();
        all.remove(column);
        all
    };
    let mut sizes = kept.sizes.clone();
    sizes.remove(column);
    let (strides, targets) = (without(&kept.strides), without(&out_strides));
    let outer: usize = sizes.iter().product();
    let blocks = width.div_ceil(COLUMNS);
    let per_piece = rows_per_partial(count, width);
    let pieces = count.div_ceil(per_piece);
    let rows = Columns {
        reduced: reduced.clone(),
        step: kept.strides[column],
    };
    // The offset of a block's first element and of its first result.
    let locate = |block: usize| {
        let start = block % blocks * COLUMNS;
        let offsets = [kept.offset as isize, 0];
        let [from, to] = Walk::new(&sizes, [&strides, &targets], offsets, block / blocks).at;
        let from = from + start as isize * kept.strides[column];
        let to = to + start as isize * out_strides[column];
        (from, to as usize, COLUMNS.min(width - start))
    };
    let write = |out: &mut parallel::TaskSlice<'_, T>, to: usize, all: &[T::Wide]| {
        if out_strides[column] == 1 {
            T::narrow(all, out.slice(to, all.len()));
        } else {
            for (i, &value) in all.iter().enumerate() {
                out.set(to + i * out_strides[column] as usize, narrow(value));
            }
        }
    };
    if pieces == 1 {
        // Several small blocks form one task.
        let per_task = (PIECE / (count * width.min(COLUMNS)).max(1)).max(1);
        let tasks = (outer * blocks).div_ceil(per_task);
        // SAFETY: a block is some columns of one outer index, whose results no other block has, and one task has it.
        let disjoint = unsafe { parallel::Disjoint::promise() };
        return parallel::for_disjoint(
            disjoint,
            out,
            tasks,
            Vec::new,
            |all: &mut Vec<T::Wide>, task, out| {
                for block in task * per_task..(outer * blocks).min((task + 1) * per_task) {
                    let (from, to, width) = locate(block);
                    all.resize(width, fold.identity);
                    rows.fold(from, (0, count), all, fold);
                    write(out, to, all);
                }
            },
        );
    }
    let buffer = width.min(COLUMNS);
    for block in 0..outer * blocks {
        let (from, to, width) = locate(block);
        let mut parts = vec![fold.identity; pieces * buffer];
        parallel::for_chunks_mut(&mut parts, buffer, |at, part| {
            let first = at / buffer * per_piece;
            let last = count.min(first + per_piece);
            rows.fold(from, (first, last), &mut part[..width], fold);
        });
        let (all, others) = parts.split_at_mut(buffer);
        for part in others.chunks(buffer) {
            (fold.into)(all, part);
        }
        let all = &all[..width];
        write(&mut parallel::TaskSlice::whole(out), to, all);
    }
}

/// Folds the axes `reduced` of a view.
fn fold_axes<T: Stored>(x: &View<'_, T>, reduced: &[usize], out: &mut [T], fold: Folding<T::Wide>) {
    let pick = |axes: &[usize]| View {
        data: x.data,
        offset: x.offset,
        sizes: axes.iter().map(|&a| x.sizes[a]).collect::<Sizes>(),
        strides: axes.iter().map(|&a| x.strides[a]).collect::<Strides>(),
    };
    let mut folded: Vec<usize> = reduced.to_vec();
    folded.sort_unstable();
    let stays: Vec<usize> = (0..x.sizes.len())
        .filter(|a| !reduced.contains(a))
        .collect();
    let (kept, reduced) = (pick(&stays).merged(), pick(&folded).merged());
    // Memory runs along a kept axis if its stride is smaller than every reduced one's.
    let finest = |v: &View<'_, T>| {
        (0..v.sizes.len())
            .filter(|&a| v.strides[a] != 0)
            .min_by_key(|&a| v.strides[a].unsigned_abs())
    };
    match (finest(&kept), finest(&reduced)) {
        (Some(a), Some(b))
            if kept.strides[a].unsigned_abs() < reduced.strides[b].unsigned_abs() =>
        {
            columns(&kept, &reduced, a, out, fold);
        }
        _ => rows(&kept, &reduced, out, fold),
    }
}

/// Runs a reduction.
pub fn run(op: &str, p: &Reduce, x: &Tensor, out: &Spec) -> Result<Buffer> {
    let buffer = buffer::of(x)?;
    let count = out.shape.count();
    if x.shape().count() == 0 && count > 0 {
        let identity = match p.kind {
            ReduceKind::Prod | ReduceKind::All => Scalar::ONE,
            _ => Scalar::ZERO,
        };
        return create::fill(op, identity.cast(out.dtype), out);
    }
    let sizes = x.shape().sizes();
    if p.axes.iter().all(|&a| sizes[a] == 1) {
        // Nothing to combine: the axes are removed from a view.
        let to = out.shape.sizes();
        if let Some(layout) = buffer.layout().reshape(&sizes, &to) {
            return Ok(buffer.with_layout(layout));
        }
    }
    let mut bytes = memory::alloc(op, out)?;
    if count == 0 {
        return Ok(Buffer::new(bytes));
    }
    macro_rules! fold {
        ($T:ty, $choose:ident) => {{
            let view = buffer.view::<$T>(x.shape());
            fold_axes(&view, &p.axes, bytes.as_mut_slice::<$T>(), $choose(p.kind));
        }};
    }
    by_real!(x.dtype(), T => fold!(T, choose), match x.dtype() {
        DType::C64 => fold!(Complex<f32>, choose_complex),
        _ => fold!(Complex<f64>, choose_complex),
    });
    Ok(Buffer::new(bytes))
}
