//! Depthwise convolution in NCHW layout: contiguous rows and a window with stride 1.
//!
//! A plane is one channel of one image. Its input is copied with zero padding, after which every tap is the same plane
//! at another offset: rows need no border handling, and one long loop replaces many short ones. Planes too large for L1
//! are divided into strips along their first axis.
#![allow(unsafe_code)]

use super::blocking::{self, Channels, Span};
use super::problem::{Dim, Side};
use super::{Axis, List, PARALLEL, Problem, Real};
use crate::memory::Scratch;
use crate::parallel;
use crate::simd::multiversion;

/// Elements of a padded strip: it and its result stay in L1 or L2.
const STRIP: usize = 1 << 13;

/// The longest strip that is worth a copy, for planes with a long first step.
const LONGEST: usize = super::SLAB;

/// Results that are summed at a time.
const BLOCK: usize = 64;

/// Partial sums per tap, one per vector lane.
pub(super) const LANES: usize = 16;

/// The number of parts that the batch is divided into for a weight gradient.
const PARTS: usize = 16;

/// One axis of a plane: the result's positions and the input under them.
#[derive(Clone, Copy, Debug)]
struct PlaneAxis {
    source: Axis,
    position: Axis,
    taps: usize,
    spread: usize,
    lo: isize,
}

/// How planes are copied and divided.
pub(super) struct Planes {
    axes: List<PlaneAxis>,
    /// Positions along the first axis per strip.
    strip: usize,
    /// Elements along each axis of a strip's copy, padding included.
    padded: List<usize>,
    /// The stride from position to position in the copy, along each axis.
    pitch: List<usize>,
    /// The offset of each tap from a position in the copy.
    taps: Vec<usize>,
}

impl Planes {
    /// For a convolution or an input gradient; `None` if another algorithm is better.
    pub fn forward(problem: &Problem) -> Option<Self> {
        let axis = |dim: &Dim| {
            (dim.step == 1 && dim.dilation == 1).then_some(PlaneAxis {
                source: dim.lhs,
                position: dim.out,
                taps: dim.rhs.size,
                spread: dim.spread,
                lo: dim.lo,
            })
        };
        Self::new(problem.dims.iter().map(axis).collect::<Option<_>>()?, 1)
    }

    /// For the weight gradient: the positions are those of the other operand, and rows are whole vectors.
    pub fn weight_gradient(problem: &Problem) -> Option<Self> {
        let axis = |dim: &Dim| {
            (dim.spread == 1 && dim.dilation == 1).then_some(PlaneAxis {
                source: dim.lhs,
                position: dim.rhs,
                taps: dim.out.size,
                spread: dim.step,
                lo: dim.lo,
            })
        };
        Self::new(problem.dims.iter().map(axis).collect::<Option<_>>()?, LANES)
    }

    /// Rows of positions are rounded up to multiples of `whole`.
    fn new(mut axes: List<PlaneAxis>, whole: usize) -> Option<Self> {
        for axis in &mut axes {
            // Elements that no position reads are not copied: a rounded row must end in zeros.
            let end =
                axis.position.size as isize + ((axis.taps - 1) * axis.spread) as isize - axis.lo;
            axis.source.size = axis.source.size.min(end.max(0) as usize);
        }
        let last = axes.last()?;
        if last.source.stride != 1 || last.position.stride != 1 || last.position.size < LANES / 2 {
            return None;
        }
        let border = |axis: &PlaneAxis| (axis.taps - 1).saturating_mul(axis.spread);
        let mut padded: List<usize> = axes
            .iter()
            .map(|axis| axis.position.size.saturating_add(border(axis)))
            .collect();
        let width = last.position.size.next_multiple_of(whole);
        if let Some(size) = padded.last_mut() {
            *size = width.saturating_add(border(last));
        }
        let inner = padded[1..]
            .iter()
            .fold(1, |all: usize, &n| all.saturating_mul(n));
        // A single axis is one row, which is divided at whole vectors only.
        let least = if axes.len() == 1 { BLOCK } else { 1 };
        let (first, border) = (axes[0].position.size, border(&axes[0]));
        let strip = (STRIP / inner).saturating_sub(border).max(least).min(first);
        let strip = if axes.len() == 1 && strip < first {
            strip / BLOCK * BLOCK
        } else {
            strip
        };
        padded[0] = match axes.len() {
            1 => strip.next_multiple_of(whole).saturating_add(border),
            _ => strip.saturating_add(border),
        };
        if padded[0].saturating_mul(inner) > LONGEST {
            return None;
        }
        let pitch = blocking::strides(&padded, 1);
        let mut taps = vec![0];
        for (axis, pitch) in axes.iter().zip(&pitch) {
            taps = taps
                .iter()
                .flat_map(|at| (0..axis.taps).map(move |t| at + t * axis.spread * pitch))
                .collect();
        }
        Some(Planes {
            axes,
            strip,
            padded,
            pitch,
            taps,
        })
    }

    fn strips(&self) -> usize {
        self.axes[0].position.size.div_ceil(self.strip)
    }

    /// First position along the first axis of a strip, and the number of positions.
    fn bounds(&self, strip: usize) -> (usize, usize) {
        let first = strip * self.strip;
        (first, self.strip.min(self.axes[0].position.size - first))
    }

    /// Elements of a copy, with padding for the last block to read beyond it.
    fn copy_size(&self) -> usize {
        self.padded.iter().product::<usize>() + BLOCK
    }

    /// The number of elements from the first to the last position of a strip in the copy.
    fn reach(&self, count: usize) -> usize {
        let sizes = self.axes.iter().map(|axis| axis.position.size);
        let sizes = std::iter::once(count).chain(sizes.skip(1));
        let last: usize = sizes
            .zip(&self.pitch)
            .map(|(size, pitch)| (size - 1) * pitch)
            .sum();
        last + 1
    }

    /// Copies the input under a strip, surrounded by zeros.
    fn fill<T: Real>(&self, copy: &mut [T::Sum], data: &[T], offset: isize, first: usize) {
        let spans = self.axes.iter().zip(&self.padded).enumerate();
        let spans: List<Span> = spans
            .map(|(i, (axis, &size))| Span {
                axis: axis.source,
                start: if i == 0 { first as isize } else { 0 } - axis.lo,
                size,
            })
            .collect();
        let size = self.padded.iter().product::<usize>();
        blocking::fill(&mut copy[..size], data, offset, &spans, SINGLE);
    }

    /// The rows of a strip: where each begins in the array of positions, and in the copy.
    fn rows(&self, (first, count): (usize, usize)) -> (Vec<(isize, usize)>, usize) {
        let mut rows = vec![(0isize, 0usize)];
        let last = self.axes.len() - 1;
        for (i, axis) in self.axes[..last].iter().enumerate() {
            let (start, size) = if i == 0 {
                (first, count)
            } else {
                (0, axis.position.size)
            };
            let pitch = self.pitch[i];
            rows = rows
                .iter()
                .flat_map(|&(position, copy)| {
                    (0..size).map(move |p| {
                        let position = position + (start + p) as isize * axis.position.stride;
                        (position, copy + p * pitch)
                    })
                })
                .collect();
        }
        if last == 0 {
            return (vec![(first as isize, 0)], count);
        }
        (rows, self.axes[last].position.size)
    }
}

/// A plane has no channel axis.
const SINGLE: Channels = Channels {
    axis: Axis { size: 1, stride: 1 },
    pitch: 1,
};

fn plane_at(side: &Side, image: isize, image_stride: isize, group: usize) -> isize {
    side.offset + image * image_stride + group as isize * side.group
}

/// Convolves every channel; `filter` holds the taps as `[tap][channel]`.
pub(super) fn run<T: Real>(
    out: &mut [T],
    lhs: &[T],
    filter: &[T::Sum],
    problem: &Problem,
    planes: &Planes,
    add: impl Fn(T::Sum, T::Sum, T::Sum) -> T::Sum + Copy + Sync,
) {
    let Problem { b, groups, .. } = *problem;
    let strips = planes.strips();
    let units = b * groups * strips;
    let macs = problem.macs();
    let each = match macs < PARALLEL {
        true => units,
        false => (units * (PARALLEL / 8)).div_ceil(macs).max(1),
    };
    let rows: Vec<_> = (0..strips)
        .map(|strip| planes.rows(planes.bounds(strip)))
        .collect();
    let most = planes.reach(planes.strip).next_multiple_of(BLOCK);
    let make = || {
        (
            Scratch::<T::Sum>::new(planes.copy_size()),
            Scratch::<T::Sum>::new(most),
        )
    };
    // SAFETY: a unit has a strip of one plane, and one task has it.
    let disjoint = unsafe { parallel::Disjoint::promise() };
    parallel::for_disjoint(
        disjoint,
        out,
        units.div_ceil(each),
        make,
        |(copy, sums), task, out| {
            let mut taps = Vec::new();
            for unit in task * each..units.min((task + 1) * each) {
                let (plane, strip) = (unit / strips, unit % strips);
                let (image, group) = ((plane / groups) as isize, plane % groups);
                let (first, count) = planes.bounds(strip);
                let from = plane_at(&problem.lhs, image, problem.lhs.outer, group);
                planes.fill(copy, lhs, from, first);
                taps.clear();
                let weights = filter[group..].iter().step_by(groups);
                taps.extend(planes.taps.iter().copied().zip(weights.copied()));
                let sums = &mut sums[..planes.reach(count).next_multiple_of(BLOCK)];
                weigh(sums, copy, &taps, add);
                let to = plane_at(&problem.out, image, problem.out.outer, group);
                let (rows, width) = &rows[strip];
                for &(position, from) in rows {
                    let out = out.slice((to + position) as usize, *width);
                    for (out, &sum) in out.iter_mut().zip(&sums[from..from + width]) {
                        *out = T::narrow(sum);
                    }
                }
            }
        },
    );
}

/// The weight gradient as parts to be added: `[part][channel][tap][lane]`.
pub(super) fn gradient<T: Real>(
    lhs: &[T],
    rhs: &[T],
    problem: &Problem,
    planes: &Planes,
    add: impl Fn(T::Sum, T::Sum, T::Sum) -> T::Sum + Copy + Sync,
) -> Scratch<T::Sum> {
    let Problem { f, groups, .. } = *problem;
    let size = planes.taps.len() * LANES;
    let parts = if problem.macs() < PARALLEL {
        1
    } else {
        PARTS.min(f)
    };
    let images = f.div_ceil(parts);
    let parts = f.div_ceil(images);
    // A task has some channels of a part.
    let macs = problem.macs() / (parts * groups);
    let each = (PARALLEL / 8).div_ceil(macs.max(1)).min(groups);
    let strips: Vec<_> = (0..planes.strips())
        .map(|strip| (planes.bounds(strip), planes.rows(planes.bounds(strip))))
        .collect();
    let mut sums = Scratch::<T::Sum>::new(parts * groups * size);
    // A task does not cross from one part to the next: the channels of a part are consecutive.
    let blocks = groups.div_ceil(each);
    let make = || (Scratch::<T::Sum>::new(planes.copy_size()), Vec::new());
    // SAFETY: a task has some channels of one part.
    let disjoint = unsafe { parallel::Disjoint::promise() };
    parallel::for_disjoint(
        disjoint,
        &mut sums,
        parts * blocks,
        make,
        |(copy, grad), task, sums| {
            let (part, block) = (task / blocks, task % blocks);
            for group in block * each..groups.min((block + 1) * each) {
                let sums = sums.slice((part * groups + group) * size, size);
                for image in part * images..f.min((part + 1) * images) {
                    let x = plane_at(&problem.lhs, image as isize, problem.lhs.inner, group);
                    let y = plane_at(&problem.rhs, image as isize, problem.rhs.inner, group);
                    for (bounds, (rows, width)) in &strips {
                        planes.fill(copy, lhs, x, bounds.0);
                        // Zeros behind each row multiply zeros behind the input's rows.
                        let whole = width.next_multiple_of(LANES);
                        grad.resize(grad.len().max(rows.len() * whole), T::Sum::default());
                        let grad = &mut grad[..rows.len() * whole];
                        for (to, &(position, _)) in grad.chunks_exact_mut(whole).zip(rows) {
                            let from = (y + position) as usize;
                            blocking::copy(&mut to[..*width], &rhs[from..from + width]);
                            to[*width..].fill(T::Sum::default());
                        }
                        accumulate_taps(sums, copy, &planes.taps, grad, whole, rows, add);
                    }
                }
            }
        },
    );
    sums
}

multiversion! {
    /// `out[i] = Σ x[i + at] · tap` over the taps `(at, tap)`.
    fn weigh[S: Copy + Default, F: Fn(S, S, S) -> S](out: &mut [S], x: &[S], taps: &[(usize, S)], add: F) {
        for (i, out) in out.chunks_exact_mut(BLOCK).enumerate() {
            let mut sums = [S::default(); BLOCK];
            for &(at, tap) in taps {
                let x = &x[i * BLOCK + at..(i + 1) * BLOCK + at];
                for j in 0..BLOCK {
                    sums[j] = add(sums[j], x[j], tap);
                }
            }
            out.copy_from_slice(&sums);
        }
    }

    /// `sums[tap][lane] += Σ x[row + i + tap] · y[i]` over the rows and every whole vector of them.
    fn accumulate_taps[S: Copy + Default, F: Fn(S, S, S) -> S + Copy](
        sums: &mut [S], x: &[S], taps: &[usize], y: &[S], width: usize, rows: &[(isize, usize)], add: F
    ) {
        let mut first = 0;
        while first < taps.len() {
            let all = (&mut sums[first * LANES..], &taps[first..]);
            first += match taps.len() - first {
                9.. => some_taps::<S, F, 9>(all, x, y, width, rows, add),
                4..9 => some_taps::<S, F, 4>(all, x, y, width, rows, add),
                _ => some_taps::<S, F, 1>(all, x, y, width, rows, add),
            };
        }
    }
}

/// The first `N` taps: their sums stay in registers.
#[inline(always)]
fn some_taps<S: Copy + Default, F: Fn(S, S, S) -> S, const N: usize>(
    (sums, taps): (&mut [S], &[usize]),
    x: &[S],
    y: &[S],
    width: usize,
    rows: &[(isize, usize)],
    add: F,
) -> usize {
    let mut held = [[S::default(); LANES]; N];
    for (held, sums) in held.iter_mut().zip(sums.chunks_exact(LANES)) {
        held.copy_from_slice(sums);
    }
    let mut at = [0; N];
    at.copy_from_slice(&taps[..N]);
    for (y, &(_, row)) in y.chunks_exact(width).zip(rows) {
        for (k, y) in y.chunks_exact(LANES).enumerate() {
            let mut one = [S::default(); LANES];
            one.copy_from_slice(y);
            for n in 0..N {
                let from = row + k * LANES + at[n];
                let x = &x[from..from + LANES];
                for j in 0..LANES {
                    held[n][j] = add(held[n][j], x[j], one[j]);
                }
            }
        }
    }
    for (held, sums) in held.iter().zip(sums.chunks_exact_mut(LANES)) {
        sums.copy_from_slice(held);
    }
    N
}
