//! Depthwise 3×3 convolution with stride 1 in f32.
//!
//! Owns the division into tasks and the handling of padding; the loops are in `simd`. `depthwise`, `depthwise_nchw` and
//! `depthwise_weight_gradient` handle other windows, types and machines.
#![allow(unsafe_code)]

use super::depthwise::gather_taps;
use super::depthwise_weight_gradient::store;
use super::problem::{Dim, Side};
use super::{PARALLEL, Problem};
use crate::memory::Scratch;
use crate::parallel;
use crate::simd::{
    ChannelRows, PlaneRows, SIDE, VECTOR, depthwise_rows_nchw, depthwise_rows_nhwc,
    depthwise_wgrad_nchw, depthwise_wgrad_nhwc, has_depthwise_3x3,
};

/// The fewest strips of rows to divide all images into.
const STRIPS: usize = 32;

/// Elements of a strip of one plane.
const STRIP: usize = 1 << 13;

/// The number of parts that the batch is divided into for a weight gradient.
const PARTS: usize = 16;

/// Rows that are summed for one block of channels before the next block: they stay in L2.
const BAND: usize = 8;

/// Solves `problem` if it is such a convolution or one of its gradients. Returns whether it did.
pub(super) fn run(out: &mut [f32], lhs: &[f32], rhs: &[f32], problem: &Problem) -> bool {
    let [y, x] = problem.dims[..] else {
        return false;
    };
    if !has_depthwise_3x3() {
        return false;
    }
    let channels = problem.groups;
    let last = problem.lhs.group == 1 && x.lhs.stride == channels as isize && channels >= VECTOR;
    if problem.is_depthwise_weight_gradient() {
        if ![y, x]
            .iter()
            .all(|dim| is_3_wide_unit_stride(&forward(dim)))
        {
            return false;
        }
        let channels_last = last
            && problem.rhs.group == 1
            && x.rhs.stride == channels as isize
            && channels.is_multiple_of(VECTOR);
        let planes = (x.lhs.stride, x.rhs.stride) == (1, 1)
            && y.lhs.stride >= x.lhs.size as isize
            && y.rhs.stride >= x.rhs.size as isize
            && x.rhs.size >= VECTOR / 2;
        if channels_last {
            weight_gradient(out, lhs, rhs, problem, [y, x]);
        } else if planes {
            weight_gradient_nchw(out, lhs, rhs, problem, [y, x]);
        }
        return channels_last || planes;
    }
    if !problem.is_depthwise()
        || problem.has_long_window()
        || ![y, x].iter().all(is_3_wide_unit_stride)
    {
        return false;
    }
    let line = (x.out.size * channels) as isize;
    let strides = (problem.out.group, x.out.stride, y.out.stride);
    if last && strides == (1, channels as isize, line) && y.out.size >= 2 {
        channels_last(out, lhs, rhs, problem, [y, x]);
        return true;
    }
    let planes = x.lhs.stride == 1
        && y.lhs.stride >= x.lhs.size as isize
        && (x.out.stride, y.out.stride) == (1, x.out.size as isize)
        && x.out.size >= VECTOR;
    if planes {
        channels_first(out, lhs, rhs, problem, [y, x]);
    }
    planes
}

/// The forward convolution of a weight gradient.
fn forward(dim: &Dim) -> Dim {
    Dim {
        out: dim.rhs,
        rhs: dim.out,
        step: dim.spread,
        spread: dim.step,
        ..*dim
    }
}

/// Whether the window has three taps and stride 1 along this axis, with at most one element of padding on each side.
fn is_3_wide_unit_stride(dim: &Dim) -> bool {
    let padding = (dim.out.size + SIDE - 1) as isize - dim.lhs.size as isize;
    (dim.step, dim.spread, dim.dilation, dim.rhs.size) == (1, 1, 1, SIDE)
        && (0..=1).contains(&dim.lo)
        && (0..=1).contains(&(padding - dim.lo))
}

/// The start of row `at`, counted with the padding; `None` if it is in the padding.
fn row_start(side: &Side, image: usize, image_stride: isize, y: &Dim, at: usize) -> Option<usize> {
    let row = at as isize - y.lo;
    let start = side.offset + image as isize * image_stride + row * y.lhs.stride;
    (0..y.lhs.size as isize)
        .contains(&row)
        .then_some(start as usize)
}

fn channels_last(out: &mut [f32], lhs: &[f32], rhs: &[f32], problem: &Problem, [y, x]: [Dim; 2]) {
    let Problem { b, groups, .. } = *problem;
    let taps = gather_taps(rhs, problem);
    let job = ChannelRows {
        x: lhs,
        channels: groups,
        width: x.lhs.size,
        positions: x.out.size,
        lo: x.lo as usize,
    };
    let strips = match problem.macs() < PARALLEL {
        true => 1,
        // Rows are processed in pairs.
        false => STRIPS.div_ceil(b).min(y.out.size / 2),
    };
    let length = x.out.size * groups;
    // SAFETY: a task has some whole rows of one image.
    let disjoint = unsafe { parallel::Disjoint::promise() };
    parallel::for_disjoint(
        disjoint,
        out,
        b * strips,
        || vec![0.0; length],
        |spare, task, out| {
            let (image, strip) = (task / strips, task % strips);
            let (first, end) = (
                strip * y.out.size / strips,
                (strip + 1) * y.out.size / strips,
            );
            for pair in (first..end).step_by(2) {
                let read = |row| row_start(&problem.lhs, image, problem.lhs.outer, &y, row);
                let rows = [0, 1, 2, 3].map(|i| read(pair + i));
                let next = [4, 5].map(|i| read(pair + i));
                let position = problem.out.offset
                    + image as isize * problem.out.outer
                    + pair as isize * y.out.stride;
                let count = (end - pair).min(2);
                let (one, two) = out
                    .slice(position as usize, count * length)
                    .split_at_mut(length);
                let two = if two.is_empty() { &mut spare[..] } else { two };
                depthwise_rows_nhwc(job, rows, next, &taps, [one, two]);
            }
        },
    );
}

fn channels_first(out: &mut [f32], lhs: &[f32], rhs: &[f32], problem: &Problem, [y, x]: [Dim; 2]) {
    let Problem { b, groups, .. } = *problem;
    let taps = gather_taps(rhs, problem);
    let macs = problem.macs();
    let strips = (y.out.size * x.out.size).div_ceil(STRIP).min(y.out.size);
    let units = b * groups * strips;
    let each = match macs < PARALLEL {
        true => units,
        false => (units * (PARALLEL / 8)).div_ceil(macs).max(1),
    };
    // SAFETY: a unit has some whole rows of one plane, and one task has it.
    let disjoint = unsafe { parallel::Disjoint::promise() };
    parallel::for_disjoint(
        disjoint,
        out,
        units.div_ceil(each),
        || (),
        |(), task, out| {
            for unit in task * each..units.min((task + 1) * each) {
                let (plane, strip) = (unit / strips, unit % strips);
                let (image, group) = ((plane / groups) as isize, plane % groups);
                let start =
                    |side: &Side| side.offset + image * side.outer + group as isize * side.group;
                let job = PlaneRows {
                    x: lhs,
                    start: start(&problem.lhs) as usize,
                    row: y.lhs.stride as usize,
                    height: y.lhs.size,
                    width: x.lhs.size,
                    positions: x.out.size,
                    lo: [y.lo as usize, x.lo as usize],
                };
                let weights = std::array::from_fn(|tap| taps[tap * groups + group]);
                let (first, end) = (
                    strip * y.out.size / strips,
                    (strip + 1) * y.out.size / strips,
                );
                let position = start(&problem.out) as usize + first * x.out.size;
                let rows = out.slice(position, (end - first) * x.out.size);
                depthwise_rows_nchw(job, &weights, first, rows);
            }
        },
    );
}

fn weight_gradient(out: &mut [f32], lhs: &[f32], rhs: &[f32], problem: &Problem, [y, x]: [Dim; 2]) {
    let Problem { f, groups, .. } = *problem;
    let job = ChannelRows {
        x: lhs,
        channels: groups,
        width: x.lhs.size,
        positions: x.rhs.size,
        lo: x.lo as usize,
    };
    let size = SIDE * SIDE * groups;
    let parts = match problem.macs() < PARALLEL {
        true => 1,
        false => PARTS.min(f),
    };
    let each = f.div_ceil(parts);
    let mut sums = Scratch::<f32>::new(f.div_ceil(each) * size);
    parallel::for_chunks_mut(&mut sums, size, |start, sums| {
        let first = start / size * each;
        let mut rows = Vec::with_capacity(BAND);
        for image in first..f.min(first + each) {
            for band in (0..y.rhs.size).step_by(BAND) {
                rows.clear();
                for row in band..y.rhs.size.min(band + BAND) {
                    let read = |ky| row_start(&problem.lhs, image, problem.lhs.inner, &y, row + ky);
                    let other = problem.rhs.offset
                        + image as isize * problem.rhs.inner
                        + row as isize * y.rhs.stride;
                    rows.push(([0, 1, 2].map(read), other as usize));
                }
                depthwise_wgrad_nhwc(job, &rows, rhs, sums);
            }
        }
    });
    store(
        out,
        problem,
        &sums,
        |position, group| position * groups + group,
        1,
    );
}

fn weight_gradient_nchw(
    out: &mut [f32],
    lhs: &[f32],
    rhs: &[f32],
    problem: &Problem,
    [y, x]: [Dim; 2],
) {
    let Problem { f, groups, .. } = *problem;
    let macs = problem.macs();
    let parts = match macs < PARALLEL {
        true => 1,
        false => PARTS.min(f),
    };
    let images = f.div_ceil(parts);
    let units = f.div_ceil(images) * groups;
    let each = match macs < PARALLEL {
        true => units,
        false => (units * (PARALLEL / 8)).div_ceil(macs).max(1),
    };
    let next = [problem.lhs.group, problem.rhs.group].map(|distance| distance as usize);
    let mut sums = vec![[0.0; SIDE * SIDE]; units];
    parallel::for_chunks_mut(&mut sums, each, |first, sums| {
        for (unit, sums) in (first..).zip(sums) {
            let (part, group) = (unit / groups, unit % groups);
            for image in part * images..f.min((part + 1) * images) {
                let start = |side: &Side| {
                    (side.offset + image as isize * side.inner + group as isize * side.group)
                        as usize
                };
                let job = PlaneRows {
                    x: lhs,
                    start: start(&problem.lhs),
                    row: y.lhs.stride as usize,
                    height: y.lhs.size,
                    width: x.lhs.size,
                    positions: x.rhs.size,
                    lo: [y, x].map(|dim| dim.lo as usize),
                };
                let positions = (rhs, start(&problem.rhs), y.rhs.stride as usize);
                depthwise_wgrad_nchw(job, positions, y.rhs.size, next, sums);
            }
        }
    });
    let at = |position, group| group * SIDE * SIDE + position;
    store(out, problem, sums.as_flattened(), at, 1);
}
