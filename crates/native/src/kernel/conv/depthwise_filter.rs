//! The filter gradient of a convolution that keeps channels apart.
//!
//! For every tap and channel a sum of products of two images. The images of the batch are summed in
//! a fixed number of parts, which are then added in order.

use super::slab;
use super::{List, PARALLEL, Problem, Real};
use crate::parallel;
use crate::simd::multiversion;

/// Into how many parts the batch is divided.
const PARTS: usize = 16;

/// Sums kept side by side along a row when channels are not innermost.
const LANES: usize = 16;

/// Whether rows of both images are contiguous, across channels or along the last axis.
pub(super) fn fits(problem: &Problem) -> bool {
    let forward = problem
        .dims
        .iter()
        .all(|dim| dim.lhs.stride >= 0 && dim.rhs.stride >= 0);
    forward && (channels_last(problem) || rows(problem))
}

fn channels_last(problem: &Problem) -> bool {
    problem.lhs.group == 1 && problem.rhs.group == 1
}

fn rows(problem: &Problem) -> bool {
    let last = problem.dims.last();
    last.is_some_and(|dim| dim.spread == 1 && dim.lhs.stride == 1 && dim.rhs.stride == 1)
}

/// One product of two rows: which place of the result it belongs to, and where the rows begin.
struct Pair {
    place: usize,
    lhs: usize,
    rhs: usize,
    count: usize,
}

/// Lists the products of rows along the last axis that make up one channel of one image.
fn pairs(problem: &Problem) -> Vec<Pair> {
    // (place, read in lhs, read in rhs, how many along the last axis)
    let mut all = vec![(0usize, 0isize, 0isize, 1usize)];
    for (i, dim) in problem.dims.iter().enumerate() {
        let last = i + 1 == problem.dims.len();
        // With the roles exchanged the axis is cut as in the forward pass: for each place of the
        // result, the window positions that meet the input.
        let mut next = Vec::new();
        for p in 0..dim.out.size {
            let start = (p * dim.step) as isize - dim.lo;
            let first = if start < 0 {
                start.unsigned_abs().div_ceil(dim.spread)
            } else {
                0
            };
            let room = (dim.lhs.size as isize - start).max(0) as usize;
            let end = dim.rhs.size.min(room.div_ceil(dim.spread));
            let step = if last {
                (end.saturating_sub(first)).max(1)
            } else {
                1
            };
            for t in (first..end).step_by(step) {
                let read = (start + (t * dim.spread) as isize) * dim.lhs.stride;
                for &(place, lhs, rhs, _) in &all {
                    let place = place * dim.out.size + p;
                    let rhs = rhs + t as isize * dim.rhs.stride;
                    next.push((place, lhs + read, rhs, if last { end - first } else { 1 }));
                }
            }
        }
        all = next;
    }
    all.into_iter()
        .map(|(place, lhs, rhs, count)| Pair {
            place,
            lhs: lhs as usize,
            rhs: rhs as usize,
            count,
        })
        .collect()
}

/// Solves `problem`, where every group has one input and one output feature.
pub(super) fn run<T: Real>(out: &mut [T], lhs: &[T], rhs: &[T], problem: &Problem) {
    let (places, _) = problem.places();
    let Problem { groups, f, .. } = *problem;
    let last = channels_last(problem);
    let mut pairs = pairs(problem);
    // Along the images rather than tap by tap, so that rows are met again while they are near.
    pairs.sort_by_key(|pair| (pair.rhs, pair.place));
    let dim = problem.dims.last();
    let lhs_step = dim.map_or(0, |dim| dim.spread as isize * dim.lhs.stride) as usize;
    let rhs_step = dim.map_or(0, |dim| dim.rhs.stride) as usize;
    let width = if last { 1 } else { LANES };
    let size = places * groups * width;
    // Sums for a part of the batch: `[place][channel]`, or `[channel][place][lane]`.
    let parts = if problem.products() < PARALLEL {
        1
    } else {
        PARTS.min(f)
    };
    let each = f.div_ceil(parts);
    let mut sums = vec![T::Sum::default(); f.div_ceil(each) * size];
    parallel::for_chunks_mut(&mut sums, size, |start, sums| {
        let first = start / size * each;
        for image in first..f.min(first + each) {
            let x = (problem.lhs.offset + image as isize * problem.lhs.inner) as usize;
            let y = (problem.rhs.offset + image as isize * problem.rhs.inner) as usize;
            if last {
                for pair in &pairs {
                    let sums = &mut sums[pair.place * groups..(pair.place + 1) * groups];
                    let (x, y) = (&lhs[x + pair.lhs..], &rhs[y + pair.rhs..]);
                    add_lanes::<T>(sums, x, lhs_step, y, rhs_step, pair.count);
                }
            } else {
                for (group, sums) in sums.chunks_exact_mut(places * LANES).enumerate() {
                    let x = x + group * problem.lhs.group as usize;
                    let y = y + group * problem.rhs.group as usize;
                    add_plane::<T>(sums, &lhs[x..], &rhs[y..], &pairs);
                }
            }
        }
    });
    let full: List<usize> = problem.dims.iter().map(|dim| dim.out.size).collect();
    let ones: List<usize> = full.iter().map(|_| 1).collect();
    for place in 0..places {
        let index = slab::corner(&full, &ones, place);
        let strides = problem.dims.iter().map(|dim| dim.out.stride);
        let at: isize = index
            .iter()
            .zip(strides)
            .map(|(&i, stride)| i as isize * stride)
            .sum();
        for group in 0..groups {
            let start = if last {
                place * groups + group
            } else {
                (group * places + place) * LANES
            };
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

multiversion! {
    /// `sums[c] += Σ_q x[q·x_step + c] · y[q·y_step + c]`
    fn add_lanes[T: Real](sums: &mut [T::Sum], x: &[T], x_step: usize, y: &[T], y_step: usize, count: usize) {
        let lanes = sums.len();
        let whole = lanes - lanes % 64;
        for c in (0..whole).step_by(64) {
            lanes_block::<T, 64>(&mut sums[c..c + 64], &x[c..], x_step, &y[c..], y_step, count);
        }
        let mut c = whole;
        while c + 16 <= lanes {
            lanes_block::<T, 16>(&mut sums[c..c + 16], &x[c..], x_step, &y[c..], y_step, count);
            c += 16;
        }
        for c in c..lanes {
            lanes_block::<T, 1>(&mut sums[c..c + 1], &x[c..], x_step, &y[c..], y_step, count);
        }
    }

    /// `sums[place][lane] += Σ x[..] · y[..]` for each pair of contiguous rows.
    fn add_plane[T: Real](sums: &mut [T::Sum], x: &[T], y: &[T], pairs: &[Pair]) {
        for pair in pairs {
            let sums = &mut sums[pair.place * LANES..(pair.place + 1) * LANES];
            let x = &x[pair.lhs..pair.lhs + pair.count];
            let y = &y[pair.rhs..pair.rhs + pair.count];
            let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
            let (x_rest, y_rest) = (xs.remainder(), ys.remainder());
            let mut lanes = [T::Sum::default(); LANES];
            lanes.copy_from_slice(sums);
            for (x, y) in xs.zip(ys) {
                for ((sum, &x), &y) in lanes.iter_mut().zip(x).zip(y) {
                    *sum += x.widen() * y.widen();
                }
            }
            // The rest by fours, then one by one: a loop of unknown length would not become vectors.
            let (xs, ys) = (x_rest.chunks_exact(4), y_rest.chunks_exact(4));
            let (x_rest, y_rest) = (xs.remainder(), ys.remainder());
            for (x, y) in xs.zip(ys) {
                for ((sum, &x), &y) in lanes[..4].iter_mut().zip(x).zip(y) {
                    *sum += x.widen() * y.widen();
                }
            }
            for (&x, &y) in x_rest.iter().zip(y_rest) {
                lanes[4] += x.widen() * y.widen();
            }
            sums.copy_from_slice(&lanes);
        }
    }
}

#[inline(always)]
fn lanes_block<T: Real, const N: usize>(
    sums: &mut [T::Sum],
    x: &[T],
    x_step: usize,
    y: &[T],
    y_step: usize,
    count: usize,
) {
    let mut lanes = [T::Sum::default(); N];
    lanes.copy_from_slice(sums);
    for q in 0..count {
        let (x, y) = (
            &x[q * x_step..q * x_step + N],
            &y[q * y_step..q * y_step + N],
        );
        for ((sum, &x), &y) in lanes.iter_mut().zip(x).zip(y) {
            *sum += x.widen() * y.widen();
        }
    }
    sums.copy_from_slice(&lanes);
}
