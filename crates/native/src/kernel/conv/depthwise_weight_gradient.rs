//! The weight gradient of a depthwise convolution.
//!
//! For every tap and channel this is a dot product of two images. The images of the batch are summed in a fixed number
//! of parts, which are then added in order. In NHWC layout the loops are those of the convolution itself
//! (`WindowLoops`), several taps at a time; for NCHW see `depthwise_nchw`.

use super::blocking;
use super::depthwise_nchw::{self, Planes};
use super::phases::PhasedAxis;
use super::problem::Dim;
use super::{List, PARALLEL, Problem, Real};
use crate::kernel::window::loops::{LoopAxis, WindowLoops};
use crate::parallel;
use crate::simd::{self, Level, multiversion};
use num_traits::Float;

/// The number of parts that the batch is divided into.
const PARTS: usize = 16;

/// Channels per register block.
const LANES: usize = depthwise_nchw::LANES;

/// An algorithm that applies to a problem.
pub(super) enum Plan {
    ChannelsLast,
    Planes(Box<Planes>),
}

/// The algorithm for a problem: contiguous channels (NHWC), or contiguous rows (NCHW).
pub(super) fn plan(problem: &Problem) -> Option<Plan> {
    let last = problem.lhs.group == 1 && problem.rhs.group == 1 && problem.groups >= 4;
    if last {
        return Some(Plan::ChannelsLast);
    }
    Planes::weight_gradient(problem).map(|planes| Plan::Planes(Box::new(planes)))
}

/// Solves `problem`, where every group has one input and one output feature.
pub(super) fn run<T: Real>(out: &mut [T], lhs: &[T], rhs: &[T], problem: &Problem, plan: &Plan) {
    // Below this level fused multiply-add is a slow library call.
    if simd::level() >= Level::Avx2 || cfg!(target_arch = "aarch64") {
        with(out, lhs, rhs, problem, plan, |sum, x, y| x.mul_add(y, sum));
    } else {
        with(out, lhs, rhs, problem, plan, |sum, x, y| sum + x * y);
    }
}

fn with<T: Real>(
    out: &mut [T],
    lhs: &[T],
    rhs: &[T],
    problem: &Problem,
    plan: &Plan,
    add: impl Fn(T::Sum, T::Sum, T::Sum) -> T::Sum + Copy + Sync,
) {
    let (positions, _) = problem.positions();
    let groups = problem.groups;
    match plan {
        Plan::ChannelsLast => {
            let sums = across_channels(lhs, rhs, problem, add);
            store(
                out,
                problem,
                &sums,
                |position, group| position * groups + group,
                1,
            );
        }
        Plan::Planes(planes) => {
            let sums = depthwise_nchw::gradient(lhs, rhs, problem, planes, add);
            let start = |position, group| (group * positions + position) * LANES;
            store(out, problem, &sums, start, LANES);
        }
    }
}

/// Adds the parts, each with `width` sums per tap and channel, and writes the totals.
pub(super) fn store<T: Real>(
    out: &mut [T],
    problem: &Problem,
    sums: &[T::Sum],
    start: impl Fn(usize, usize) -> usize,
    width: usize,
) {
    let (positions, _) = problem.positions();
    let size = positions * problem.groups * width;
    let full: List<usize> = problem.dims.iter().map(|dim| dim.out.size).collect();
    let ones: List<usize> = full.iter().map(|_| 1).collect();
    for position in 0..positions {
        let index = blocking::corner(&full, &ones, position);
        let strides = problem.dims.iter().map(|dim| dim.out.stride);
        let at: isize = index
            .iter()
            .zip(strides)
            .map(|(&i, stride)| i as isize * stride)
            .sum();
        for group in 0..problem.groups {
            let start = start(position, group);
            let mut total = T::Sum::default();
            for part in sums.chunks_exact(size) {
                for &sum in &part[start..start + width] {
                    total += sum;
                }
            }
            let at = problem.out.offset + at + group as isize * problem.out.group;
            out[at as usize] = T::narrow(total);
        }
    }
}

/// The window loops of the forward convolution: for runs of its positions, what each tap reads.
fn loops(problem: &Problem) -> WindowLoops {
    let channels = LoopAxis {
        cut: PhasedAxis::batch(problem.groups, problem.lhs.group, problem.rhs.group),
        tap: 0,
        position: 1,
    };
    let (positions, _) = problem.positions();
    let mut stride = problem.groups * positions;
    let spatial = problem.dims.iter().map(|dim| {
        stride /= dim.out.size;
        let forward = Dim {
            out: dim.rhs,
            rhs: dim.out,
            step: dim.spread,
            spread: dim.step,
            ..*dim
        };
        LoopAxis {
            cut: PhasedAxis::spatial(&forward),
            tap: stride,
            position: 0,
        }
    });
    let axes = std::iter::once(channels).chain(spatial);
    WindowLoops::new(problem.lhs.offset, problem.rhs.offset, axes)
}

/// The gradient as parts to be added: `[part][tap][channel]`.
fn across_channels<T: Real>(
    lhs: &[T],
    rhs: &[T],
    problem: &Problem,
    add: impl Fn(T::Sum, T::Sum, T::Sum) -> T::Sum + Copy + Sync,
) -> Vec<T::Sum> {
    let (positions, _) = problem.positions();
    let Problem { groups, f, .. } = *problem;
    let loops = loops(problem);
    let size = positions * groups;
    let parts = if problem.macs() < PARALLEL {
        1
    } else {
        PARTS.min(f)
    };
    let each = f.div_ceil(parts);
    let mut sums = vec![T::Sum::default(); f.div_ceil(each) * size];
    parallel::for_chunks_mut(&mut sums, size, |start, sums| {
        let first = start / size * each;
        for image in first..f.min(first + each) {
            let x = image as isize * problem.lhs.inner;
            let y = image as isize * problem.rhs.inner;
            // Axes with one tap only shift all offsets.
            for position in 0..loops.positions() {
                let (read, write, _) = loops.position(position);
                add_image(sums, &loops, (lhs, x + read), (rhs, y + write), add);
            }
        }
    });
    sums
}

/// A run of positions that read the same taps.
#[derive(Clone, Copy)]
struct Run {
    x: isize,
    y: isize,
    count: usize,
    x_step: isize,
    y_step: isize,
}

multiversion! {
    /// Adds the products of one image to `sums[tap][channel]`.
    fn add_image[T: Real, F: Fn(T::Sum, T::Sum, T::Sum) -> T::Sum + Copy](
        sums: &mut [T::Sum], loops: &WindowLoops, lhs: (&[T], isize), rhs: (&[T], isize), add: F
    ) {
        let lanes = loops.lanes;
        let whole = lanes - lanes % LANES;
        for job in &loops.jobs {
            let reads = &loops.reads[job.reads.clone()];
            let run = Run {
                x: lhs.1,
                y: rhs.1 + job.write,
                count: job.count,
                x_step: loops.read_step,
                y_step: loops.write_step,
            };
            for c in (0..whole).step_by(LANES) {
                by_taps::<T, F, LANES>(sums, c, (lhs.0, rhs.0), reads, run, add);
            }
            for c in whole..lanes {
                by_taps::<T, F, 1>(sums, c, (lhs.0, rhs.0), reads, run, add);
            }
        }
    }
}

#[inline(always)]
fn by_taps<T: Real, F: Fn(T::Sum, T::Sum, T::Sum) -> T::Sum + Copy, const W: usize>(
    sums: &mut [T::Sum],
    c: usize,
    data: (&[T], &[T]),
    reads: &[(isize, usize)],
    run: Run,
    add: F,
) {
    let mut first = 0;
    while first < reads.len() {
        let reads = &reads[first..];
        first += match reads.len() {
            9.. => some_taps::<T, F, W, 9>(sums, c, data, reads, run, add),
            6..9 => some_taps::<T, F, W, 6>(sums, c, data, reads, run, add),
            4..6 => some_taps::<T, F, W, 4>(sums, c, data, reads, run, add),
            _ => some_taps::<T, F, W, 1>(sums, c, data, reads, run, add),
        };
    }
}

/// The first `N` taps of `W` channels from `c` on: their sums stay in registers.
#[inline(always)]
fn some_taps<T: Real, F: Fn(T::Sum, T::Sum, T::Sum) -> T::Sum, const W: usize, const N: usize>(
    sums: &mut [T::Sum],
    c: usize,
    (x, y): (&[T], &[T]),
    reads: &[(isize, usize)],
    run: Run,
    add: F,
) -> usize {
    let mut held = [[T::Sum::default(); W]; N];
    let mut from = [0isize; N];
    for n in 0..N {
        let (read, tap) = reads[n];
        held[n].copy_from_slice(&sums[tap + c..tap + c + W]);
        from[n] = run.x + read + c as isize;
    }
    for q in 0..run.count as isize {
        let at = (run.y + q * run.y_step) as usize + c;
        let mut one = [T::Sum::default(); W];
        for (one, y) in one.iter_mut().zip(&y[at..at + W]) {
            *one = y.widen();
        }
        for n in 0..N {
            let at = (from[n] + q * run.x_step) as usize;
            let x = &x[at..at + W];
            for j in 0..W {
                held[n][j] = add(held[n][j], x[j].widen(), one[j]);
            }
        }
    }
    for n in 0..N {
        let tap = reads[n].1 + c;
        sums[tap..tap + W].copy_from_slice(&held[n]);
    }
    N
}
