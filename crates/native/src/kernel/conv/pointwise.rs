//! Convolution with a window of one element over arrays that have their features before the places:
//! a matrix product per image, with nothing to move.

use super::problem::Dim;
use super::{Axis, Problem};
use crate::parallel;
use crate::simd::{self, Gemm, Strides};

/// Images from which on each is one task.
const MANY_IMAGES: usize = 4;

/// Features from which on a filter gradient is a product in any layout: with fewer, register tiles read them in place as fast.
const MANY_FEATURES: usize = 128;

/// Into how many parts the images are divided for a filter gradient.
const PARTS: usize = 16;

/// How the places of the spatial axes are spaced if one stride reaches them all.
fn spacing(problem: &Problem, axis: fn(&Dim) -> Axis) -> Option<isize> {
    let axes: Vec<Axis> = problem
        .dims
        .iter()
        .map(axis)
        .filter(|axis| axis.size > 1)
        .collect();
    let follow = |pair: &[Axis]| pair[0].stride == pair[1].stride * pair[1].size as isize;
    let stride = axes.last().map_or(1, |axis| axis.stride);
    axes.windows(2).all(follow).then_some(stride)
}

/// What the product of one image is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Plan {
    /// `out[o, p] = Σ_f rhs[o, f] · lhs[f, p]`, the places of both one stride apart.
    Forward(isize, isize),
    /// `out[b, o] = Σ_f Σ_t lhs[b, f, t] · rhs[o, f, t]`: the filter's gradient.
    Filter(isize, isize),
}

/// Recognises the problem; `None` where another strategy is as good.
pub(super) fn plan(problem: &Problem) -> Option<Plan> {
    let still = |dim: &Dim| dim.lo == 0 && dim.dilation == 1;
    if problem.groups > 1 || !problem.dims.iter().all(still) {
        return None;
    }
    let forward = |dim: &Dim| dim.rhs.size == 1 && dim.step == 1 && dim.out.size == dim.lhs.size;
    let filter = |dim: &Dim| dim.out.size == 1 && dim.spread == 1 && dim.rhs.size == dim.lhs.size;
    let lhs = spacing(problem, |dim| dim.lhs)?;
    if problem.dims.iter().all(forward) {
        let out = spacing(problem, |dim| dim.out)?;
        // The product of an image must be one run of the result to be a task's own.
        let (places, _) = problem.places();
        let own = out == 1
            && problem.out.inner == places as isize
            && problem.out.outer >= (places * problem.o) as isize;
        return (lhs == 1 && own && problem.b > 0).then_some(Plan::Forward(lhs, out));
    }
    if problem.dims.iter().all(filter) && problem.is_wide() {
        let rhs = spacing(problem, |dim| dim.rhs)?;
        let many = problem.b.min(problem.o) >= MANY_FEATURES;
        return (many || lhs == 1 && rhs == 1).then_some(Plan::Filter(lhs, rhs));
    }
    None
}

/// Solves `problem` as planned.
pub(super) fn run<T: Gemm>(out: &mut [T], lhs: &[T], rhs: &[T], problem: &Problem, plan: Plan) {
    let Problem { b, f, o, .. } = *problem;
    let (places, taps) = problem.places();
    let at = |offset: isize, row: isize, col: isize| Strides {
        offset: offset as usize,
        row,
        col,
    };
    let threads = || {
        if problem.products() < super::PARALLEL {
            1
        } else {
            parallel::threads()
        }
    };
    match plan {
        Plan::Forward(read, write) => {
            let image = |b: usize, out: &mut [T], threads: usize| {
                let offset = problem.lhs.offset + b as isize * problem.lhs.outer;
                simd::gemm(
                    [o, places, f],
                    (out, at(0, problem.out.inner, write)),
                    (
                        rhs,
                        at(problem.rhs.offset, problem.rhs.outer, problem.rhs.inner),
                    ),
                    (lhs, at(offset, problem.lhs.inner, read)),
                    false,
                    threads,
                );
            };
            let start = |b: usize| (problem.out.offset + b as isize * problem.out.outer) as usize;
            if b >= MANY_IMAGES && problem.products() >= super::PARALLEL {
                return parallel::for_disjoint(
                    out,
                    b,
                    || (),
                    |(), b, out| {
                        image(b, out.slice(start(b), o * places), 1);
                    },
                );
            }
            let threads = threads();
            for b in 0..b {
                image(b, &mut out[start(b)..start(b) + o * places], threads);
            }
        }
        Plan::Filter(left, right) => {
            let product = |f: usize, out: (&mut [T], Strides), more: bool, threads: usize| {
                let inner = |side: &super::problem::Side| side.offset + f as isize * side.inner;
                simd::gemm(
                    [b, o, taps],
                    out,
                    (lhs, at(inner(&problem.lhs), problem.lhs.outer, left)),
                    (rhs, at(inner(&problem.rhs), right, problem.rhs.outer)),
                    more,
                    threads,
                );
            };
            let result = at(problem.out.offset, problem.out.outer, problem.out.inner);
            let parts = PARTS.min(f);
            if problem.products() < super::PARALLEL || parts * b * o > super::PACKED / 4 {
                let threads = threads();
                for f in 0..f {
                    product(f, (out, result), f > 0, threads);
                }
                return;
            }
            // The result is too small to share out: some images are a task, and their sums are added in order.
            let images = f.div_ceil(parts);
            let mut sums = vec![T::zero(); f.div_ceil(images) * b * o];
            parallel::for_chunks_mut(&mut sums, b * o, |start, sums| {
                let first = start / (b * o) * images;
                for f in first..f.min(first + images) {
                    product(f, (sums, at(0, o as isize, 1)), f > first, 1);
                }
            });
            for row in 0..b {
                for column in 0..o {
                    let parts = sums.iter().skip(row * o + column).step_by(b * o);
                    let place = result.offset as isize
                        + row as isize * result.row
                        + column as isize * result.col;
                    out[place as usize] = parts.fold(T::zero(), |sum, &part| sum + part);
                }
            }
        }
    }
}
