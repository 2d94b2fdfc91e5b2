//! Convolution of each channel by itself.
//!
//! There is nothing to contract but the taps, so this is a moving window with a weighted sum, and
//! the loops are those of pooling; for planes with contiguous rows see `planes`.

use std::marker::PhantomData;

use super::cut::Cut;
use super::planes::{self, Planes};
use super::{List, PARALLEL, Problem, Real, slab};
use crate::kernel::window::fold::Fold;
use crate::kernel::window::nest::{Nest, NestAxis};
use crate::simd::{self, Level};
use num_traits::Float;

/// Sum of products with the taps, each product and sum rounded together if `FUSED`.
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
    // Below this level fusing is a slow library call.
    let fused = simd::level() >= Level::Avx2 || cfg!(target_arch = "aarch64");
    if let Some(planes) = Planes::forward(problem) {
        return match fused {
            true => planes::run(out, lhs, &taps, problem, &planes, |sum, x, tap| {
                x.mul_add(tap, sum)
            }),
            false => planes::run(out, lhs, &taps, problem, &planes, |sum, x, tap| {
                sum + x * tap
            }),
        };
    }
    let batch = NestAxis {
        cut: Cut::batch(problem.b, problem.lhs.outer, problem.out.outer),
        tap: 0,
        place: 0,
    };
    let channels = NestAxis {
        cut: Cut::batch(groups, problem.lhs.group, problem.out.group),
        tap: 0,
        place: 1,
    };
    let mut stride = groups
        * problem
            .dims
            .iter()
            .map(|dim| dim.rhs.size)
            .product::<usize>();
    let spatial = problem.dims.iter().map(|dim| {
        stride /= dim.rhs.size;
        NestAxis {
            cut: Cut::spatial(dim),
            tap: stride,
            place: 0,
        }
    });
    let axes = [batch, channels].into_iter().chain(spatial);
    let nest = Nest::new(problem.lhs.offset, problem.out.offset, axes);
    if fused {
        nest.run::<Weighted<T, true>>(out, lhs, &taps, PARALLEL);
    } else {
        nest.run::<Weighted<T, false>>(out, lhs, &taps, PARALLEL);
    }
}

/// Copies the filter to `[tap][channel]`.
pub(super) fn gather_taps<T: Real>(rhs: &[T], problem: &Problem) -> Vec<T::Sum> {
    let (_, taps) = problem.places();
    let full: List<usize> = problem.dims.iter().map(|dim| dim.rhs.size).collect();
    let ones: List<usize> = full.iter().map(|_| 1).collect();
    let mut all = Vec::with_capacity(taps * problem.groups);
    for tap in 0..taps {
        let index = slab::corner(&full, &ones, tap);
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
