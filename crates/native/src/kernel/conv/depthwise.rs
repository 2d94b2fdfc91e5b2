//! Depthwise convolution: each channel is convolved on its own.
//!
//! There is nothing to contract but the taps, so this is a sliding window with a weighted sum, and the loops are those
//! of pooling. For NCHW layouts see `depthwise_nchw`.

use std::marker::PhantomData;

use super::depthwise_nchw::{self, Planes};
use super::phases::PhasedAxis;
use super::{List, PARALLEL, Problem, Real, blocking};
use crate::kernel::window::fold::Fold;
use crate::kernel::window::loops::{LoopAxis, WindowLoops};
use crate::simd::{self, Level};
use num_traits::Float;

/// Sum of products with the taps, with fused multiply-add if `FUSED`.
struct Weighted<T, const FUSED: bool>(PhantomData<T>);

impl<T, const FUSED: bool> Clone for Weighted<T, FUSED> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const FUSED: bool> Copy for Weighted<T, FUSED> {}

impl<T: Real, const FUSED: bool> Fold for Weighted<T, FUSED> {
    type Item = T;
    type Sum = T::Sum;
    const TAPS: bool = true;
    #[inline(always)]
    fn start() -> T::Sum {
        T::Sum::default()
    }
    #[inline(always)]
    fn fold(sum: T::Sum, x: T, tap: T::Sum) -> T::Sum {
        if FUSED {
            x.widen().mul_add(tap, sum)
        } else {
            sum + x.widen() * tap
        }
    }
    #[inline(always)]
    fn finish(sum: T::Sum) -> T {
        T::narrow(sum)
    }
}

/// Solves `problem`, where every group has one input and one output feature.
pub(super) fn run<T: Real>(out: &mut [T], lhs: &[T], rhs: &[T], problem: &Problem) {
    let groups = problem.groups;
    let taps = gather_taps(rhs, problem);
    // Below this level fused multiply-add is a slow library call.
    let fused = simd::level() >= Level::Avx2 || cfg!(target_arch = "aarch64");
    if let Some(planes) = Planes::forward(problem) {
        return match fused {
            true => depthwise_nchw::run(out, lhs, &taps, problem, &planes, |sum, x, tap| {
                x.mul_add(tap, sum)
            }),
            false => depthwise_nchw::run(out, lhs, &taps, problem, &planes, |sum, x, tap| {
                sum + x * tap
            }),
        };
    }
    let batch = LoopAxis {
        cut: PhasedAxis::batch(problem.b, problem.lhs.outer, problem.out.outer),
        tap: 0,
        position: 0,
    };
    let channels = LoopAxis {
        cut: PhasedAxis::batch(groups, problem.lhs.group, problem.out.group),
        tap: 0,
        position: 1,
    };
    let mut stride = groups
        * problem
            .dims
            .iter()
            .map(|dim| dim.rhs.size)
            .product::<usize>();
    let spatial = problem.dims.iter().map(|dim| {
        stride /= dim.rhs.size;
        LoopAxis {
            cut: PhasedAxis::spatial(dim),
            tap: stride,
            position: 0,
        }
    });
    let axes = [batch, channels].into_iter().chain(spatial);
    let loops = WindowLoops::new(problem.lhs.offset, problem.out.offset, axes);
    if fused {
        loops.run::<Weighted<T, true>>(out, lhs, &taps, PARALLEL);
    } else {
        loops.run::<Weighted<T, false>>(out, lhs, &taps, PARALLEL);
    }
}

/// Copies the filter to `[tap][channel]`.
pub(super) fn gather_taps<T: Real>(rhs: &[T], problem: &Problem) -> Vec<T::Sum> {
    let (_, taps) = problem.positions();
    let full: List<usize> = problem.dims.iter().map(|dim| dim.rhs.size).collect();
    let ones: List<usize> = full.iter().map(|_| 1).collect();
    let mut all = Vec::with_capacity(taps * problem.groups);
    for tap in 0..taps {
        let index = blocking::corner(&full, &ones, tap);
        let strides = problem.dims.iter().map(|dim| dim.rhs.stride);
        let at: isize = index
            .iter()
            .zip(strides)
            .map(|(&i, stride)| i as isize * stride)
            .sum();
        for group in 0..problem.groups as isize {
            all.push(rhs[(problem.rhs.offset + at + group * problem.rhs.group) as usize].widen());
        }
    }
    all
}
