//! Direct convolution, one element at a time, for any type of element and sum.
#![allow(unsafe_code)]

use super::problem::Dim;
use super::{List, PARALLEL, Problem};
#[cfg(test)]
use super::{View, Window};
use crate::parallel;

/// The reads of one output position along one axis: offsets in `lhs` and `rhs`.
fn taps(dim: &Dim, p: usize) -> impl Iterator<Item = (isize, isize)> {
    let dim = *dim;
    (0..dim.rhs.size).filter_map(move |t| {
        let at = (p * dim.step + t * dim.spread) as isize - dim.lo;
        let (x, rest) = (at / dim.dilation as isize, at % dim.dilation as isize);
        let inside = at >= 0 && rest == 0 && x < dim.lhs.size as isize;
        inside.then_some((x * dim.lhs.stride, t as isize * dim.rhs.stride))
    })
}

/// Sums each element of the result with `add_product`, from `zero`, and stores `finish(sum)`.
pub(super) fn run<T, S>(
    out: &mut [T],
    lhs: &[T],
    rhs: &[T],
    problem: &Problem,
    zero: S,
    add_product: impl Fn(S, T, T) -> S + Sync,
    finish: impl Fn(S) -> T + Sync,
) where
    T: Copy + Send + Sync,
    S: Copy + Send + Sync,
{
    let Problem {
        groups, b, f, o, ..
    } = *problem;
    let (positions, window) = problem.positions();
    let rows = groups * b * o;
    if rows * positions == 0 {
        return;
    }
    let row = positions * (f * window).max(1);
    let rows_per_task = if row.saturating_mul(rows) < PARALLEL {
        rows
    } else {
        (PARALLEL / 4).div_ceil(row)
    };
    // SAFETY: a row is one group, batch and feature, whose results no other row has, and one task has it.
    let disjoint = unsafe { parallel::Disjoint::promise() };
    parallel::for_disjoint(
        disjoint,
        out,
        rows.div_ceil(rows_per_task),
        || (),
        |(), task, out| {
            let first = task * rows_per_task;
            for row in first..rows.min(first + rows_per_task) {
                let (g, b_i, o_i) = (row / o / b, row / o % b, row % o);
                let start = |side: &super::problem::Side, outer: usize, inner: usize| {
                    side.offset
                        + g as isize * side.group
                        + outer as isize * side.outer
                        + inner as isize * side.inner
                };
                let (lhs_start, rhs_start) =
                    (start(&problem.lhs, b_i, 0), start(&problem.rhs, o_i, 0));
                for position in 0..positions {
                    if position % POLL_INTERVAL == POLL_INTERVAL - 1 {
                        parallel::poll();
                    }
                    let mut at = start(&problem.out, b_i, o_i);
                    // Every pair of reads, built up axis by axis.
                    let mut reads: Vec<(isize, isize)> = vec![(lhs_start, rhs_start)];
                    let mut rest = position;
                    let mut index: List<usize> = List::new();
                    for dim in problem.dims.iter().rev() {
                        index.push(rest % dim.out.size);
                        rest /= dim.out.size;
                    }
                    for (dim, &p) in problem.dims.iter().zip(index.iter().rev()) {
                        at += p as isize * dim.out.stride;
                        reads = reads
                            .iter()
                            .flat_map(|&(x, w)| taps(dim, p).map(move |(dx, dw)| (x + dx, w + dw)))
                            .collect();
                    }
                    let mut sum = zero;
                    for f_i in 0..f as isize {
                        let (dx, dw) = (f_i * problem.lhs.inner, f_i * problem.rhs.inner);
                        for &(x, w) in &reads {
                            sum = add_product(sum, lhs[(x + dx) as usize], rhs[(w + dw) as usize]);
                        }
                    }
                    out.set(at as usize, finish(sum));
                }
            }
        },
    );
}

/// Positions after which a task polls for interrupts.
const POLL_INTERVAL: usize = 64;

/// [`super::conv`] by its definition with sums in f64: the slow reference of the tests.
#[cfg(test)]
pub fn conv_naive<T: Copy + Send + Sync>(
    out: (&mut [T], &View),
    lhs: (&[T], &View),
    rhs: (&[T], &View),
    window: &Window,
    widen: impl Fn(T) -> f64 + Sync,
    narrow: impl Fn(f64) -> T + Sync,
) {
    let problem = Problem::forward(out.1, lhs.1, rhs.1, window);
    let add_product = |sum, a, b| sum + widen(a) * widen(b);
    run(out.0, lhs.0, rhs.0, &problem, 0.0, add_product, narrow);
}
