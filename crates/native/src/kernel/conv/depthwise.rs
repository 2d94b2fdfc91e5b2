//! Convolution of each channel by itself.
//!
//! There is nothing to contract but the taps, so reading and writing is the work. Channels-last
//! arrays are walked channel by channel inside a place, channels-first arrays place by place inside
//! a row; other layouts go the general way.

use super::slab::{self, Cut};
use super::{List, PARALLEL, Problem, Real, tiled};
use crate::parallel::{self, Part};
use crate::simd::multiversion;

/// Channels handled together: a row of them fits in the first-level cache.
const BLOCK: usize = 64;

/// Solves `problem`, where every group has one input and one output feature.
pub(super) fn run<T: Real>(out: &mut [T], lhs: &[T], rhs: &[T], problem: &Problem) {
    let inner = problem.dims.last();
    let forward = problem.dims.iter().all(|dim| dim.lhs.stride >= 0);
    let last = problem.lhs.group == 1 && problem.out.group == 1;
    let first = inner.is_some_and(|dim| dim.lhs.stride == 1 && dim.out.stride == 1);
    if !forward || !(first || last) {
        return tiled::run(out, lhs, rhs, problem);
    }
    let cuts: List<Cut> = problem.dims.iter().map(Cut::spatial).collect();
    let rows: usize = problem
        .dims
        .iter()
        .rev()
        .skip(1)
        .map(|dim| dim.out.size)
        .product();
    let plan = Plan {
        problem,
        taps: gather_taps(rhs, problem),
        cuts,
        last,
    };
    // A unit is one row of places: of all channels, or of one.
    let channels = if last { 1 } else { problem.groups };
    let units = channels * problem.b * rows;
    let each = (PARALLEL / 8).div_ceil((problem.products() / units).max(1));
    let each = if problem.products() < PARALLEL {
        units
    } else {
        each
    };
    parallel::for_disjoint(out, units.div_ceil(each), Vec::new, |sums, task, out| {
        for unit in task * each..units.min((task + 1) * each) {
            let (row, rest) = (unit % rows, unit / rows);
            plan.solve_row(sums, lhs, row, rest / channels, rest % channels, out);
        }
    });
}

struct Plan<'a, T: Real> {
    problem: &'a Problem,
    cuts: List<Cut>,
    /// The filter: channels innermost, or taps innermost when channels are outermost.
    taps: Vec<T::Sum>,
    last: bool,
}

/// Copies the filter to `[tap][channel]`.
fn gather_taps<T: Real>(rhs: &[T], problem: &Problem) -> Vec<T::Sum> {
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

impl<T: Real> Plan<'_, T> {
    /// Computes one row of places along the last axis.
    fn solve_row(
        &self,
        sums: &mut Vec<T::Sum>,
        lhs: &[T],
        row: usize,
        image: usize,
        channel: usize,
        out: &mut Part<'_, T>,
    ) {
        let problem = self.problem;
        let (image, group) = (image as isize, channel as isize);
        let mut read = problem.lhs.offset + image * problem.lhs.outer;
        let mut write = problem.out.offset + image * problem.out.outer;
        if !self.last {
            read += group * problem.lhs.group;
            write += group * problem.out.group;
        }
        // Taps of the outer axes that meet this row: where they read, and their index.
        let mut outer = vec![(read, 0usize)];
        let Some((inner, dims)) = self.cuts.split_last() else {
            return self.solve_line(sums, lhs, &outer, write, None, channel, out);
        };
        let mut rest = row;
        let mut places: List<usize> = List::new();
        for cut in dims.iter().rev() {
            places.push(rest % cut.out.size);
            rest /= cut.out.size;
        }
        for (i, (cut, &place)) in dims.iter().zip(places.iter().rev()).enumerate() {
            write += place as isize * cut.out.stride;
            let phase = &cut.phases[place % cut.phases.len()];
            let q = (place / phase.step * cut.advance) as isize;
            let inside = 0..cut.source.size as isize;
            let window = problem.dims[i].rhs.size;
            outer = outer
                .iter()
                .flat_map(|&(read, index)| {
                    let taps = phase
                        .taps
                        .iter()
                        .filter(|tap| inside.contains(&(q + tap.1)));
                    taps.map(move |tap| {
                        (
                            read + (q + tap.1) * cut.source.stride,
                            index * window + tap.0,
                        )
                    })
                })
                .collect();
        }
        self.solve_line(sums, lhs, &outer, write, Some(inner), channel, out);
    }

    /// Computes the places along the last axis, phase by phase.
    #[allow(clippy::too_many_arguments)]
    fn solve_line(
        &self,
        sums: &mut Vec<T::Sum>,
        lhs: &[T],
        outer: &[(isize, usize)],
        write: isize,
        inner: Option<&Cut>,
        channel: usize,
        out: &mut Part<'_, T>,
    ) {
        let groups = self.problem.groups;
        let point = Cut::batch(1, 0, 0);
        let cut = inner.unwrap_or(&point);
        let window = self.problem.dims.last().map_or(1, |dim| dim.rhs.size);
        let step = cut.advance * cut.source.stride as usize;
        for phase in &cut.phases {
            let channels = if self.last { groups } else { 1 };
            for first in (0..channels).step_by(BLOCK) {
                let width = BLOCK.min(channels - first);
                sums.clear();
                sums.resize(phase.count * width, T::Sum::default());
                for &(read, index) in outer {
                    for &(t, at) in &phase.taps {
                        let valid = valid(at, cut.advance, cut.source.size, phase.count);
                        if valid.is_empty() {
                            continue;
                        }
                        let start = at + (valid.start * cut.advance) as isize;
                        let start = (read + start * cut.source.stride) as usize + first;
                        let sums = &mut sums[valid.start * width..valid.end * width];
                        let tap = (index * window + t) * groups;
                        if self.last {
                            let taps = &self.taps[tap + first..tap + first + width];
                            add_places(sums, &lhs[start..], step, taps);
                        } else {
                            add_row(sums, &lhs[start..], step, self.taps[tap + channel]);
                        }
                    }
                }
                let write = write + phase.first as isize * cut.out.stride + first as isize;
                let step = phase.step as isize * cut.out.stride;
                if step == width as isize {
                    narrow_to(out.slice(write as usize, sums.len()), sums);
                } else {
                    for (q, sums) in sums.chunks_exact(width).enumerate() {
                        narrow_to(out.slice((write + q as isize * step) as usize, width), sums);
                    }
                }
            }
        }
    }
}

/// The places whose read at `at + q·advance` is inside.
fn valid(at: isize, advance: usize, size: usize, count: usize) -> std::ops::Range<usize> {
    let first = if at < 0 {
        at.unsigned_abs().div_ceil(advance)
    } else {
        0
    };
    let room = (size as isize - at).max(0) as usize;
    first..count.min(room.div_ceil(advance))
}

fn narrow_to<T: Real>(out: &mut [T], sums: &[T::Sum]) {
    for (out, &sum) in out.iter_mut().zip(sums) {
        *out = T::narrow(sum);
    }
}

multiversion! {
    /// `sums[q][c] += x[q·step + c] · taps[c]`
    fn add_places[T: Real](sums: &mut [T::Sum], x: &[T], step: usize, taps: &[T::Sum]) {
        let width = taps.len();
        for (q, sums) in sums.chunks_exact_mut(width).enumerate() {
            let x = &x[q * step..q * step + width];
            for ((sum, &tap), &x) in sums.iter_mut().zip(taps).zip(x) {
                *sum += x.widen() * tap;
            }
        }
    }

    /// `sums[q] += x[q·step] · tap`
    fn add_row[T: Real](sums: &mut [T::Sum], x: &[T], step: usize, tap: T::Sum) {
        if step == 1 {
            for (sum, &x) in sums.iter_mut().zip(x) {
                *sum += x.widen() * tap;
            }
        } else {
            for (sum, &x) in sums.iter_mut().zip(x.iter().step_by(step.max(1))) {
                *sum += x.widen() * tap;
            }
        }
    }
}
