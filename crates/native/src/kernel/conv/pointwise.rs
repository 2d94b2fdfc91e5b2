//! Pointwise convolution (1×1 windows) as GEMM. NCHW: one GEMM per image. NHWC: one GEMM for all positions.
#![allow(unsafe_code)]

use super::problem::{Dim, Side};
use super::{Axis, Problem};
use crate::kernel::dot;
use crate::parallel;
use crate::simd::{self, Gemm, Strides};

/// The number of images from which each is one task.
const MANY_IMAGES: usize = 4;

/// The number of features from which a weight gradient is a GEMM in any layout; with fewer, register tiles read them in
/// place as fast.
const MANY_FEATURES: usize = 128;

/// The number of parts that the images are divided into for a weight gradient.
const PARTS: usize = 16;

/// The stride of the positions, if one stride spans all spatial axes.
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

/// The GEMM of one image.
#[derive(Clone, Copy, Debug)]
pub(super) enum Plan {
    /// `out[o, p] = Σ_f rhs[o, f] · lhs[f, p]`, with the strides of the positions of both.
    Forward(isize, isize),
    /// `out[b, o] = Σ_f Σ_t lhs[b, f, t] · rhs[o, f, t]`: the weight gradient.
    Filter(isize, isize),
}

/// Recognizes the problem; `None` if another algorithm is as good.
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
        // The result of an image must be contiguous to be a task's own.
        let (positions, _) = problem.positions();
        let own = out == 1
            && problem.out.inner == positions as isize
            && problem.out.outer >= (positions * problem.o) as isize;
        return (lhs == 1 && own && problem.b > 0).then_some(Plan::Forward(lhs, out));
    }
    if problem.dims.iter().all(filter) && problem.has_long_window() {
        let rhs = spacing(problem, |dim| dim.rhs)?;
        let many = problem.b.min(problem.o) >= MANY_FEATURES;
        return (many || lhs == 1 && rhs == 1).then_some(Plan::Filter(lhs, rhs));
    }
    None
}

/// The number of features up to which a GEMM of all positions has sums as short as those of other convolutions, and
/// listing positions for tiles takes a tenth of the time.
const FEW_FEATURES: usize = 64;

/// Tasks that the positions are divided into.
const ROW_TASKS: usize = 16;

/// Solves `problem` if it is one GEMM of all positions in NHWC layout. Returns whether it did.
pub(super) fn run_rows(out: &mut [f32], lhs: &[f32], rhs: &[f32], problem: &Problem) -> bool {
    let Problem { b, f, o, .. } = *problem;
    let still = |dim: &Dim| {
        let steps = (dim.lo, dim.dilation, dim.step, dim.rhs.size) == (0, 1, 1, 1);
        steps && dim.out.size == dim.lhs.size
    };
    let (positions, _) = problem.positions();
    let rows = b * positions;
    let each = rows.div_ceil(ROW_TASKS);
    let apart = |image: isize, position: Option<isize>, width: usize| {
        let one = position == Some(width as isize);
        one && (b == 1 || image == (positions * width) as isize)
    };
    let fits = problem.groups == 1
        && f <= FEW_FEATURES
        && problem.dims.iter().all(still)
        && (problem.lhs.inner, problem.out.inner) == (1, 1)
        && apart(problem.lhs.outer, spacing(problem, |dim| dim.lhs), f)
        && apart(problem.out.outer, spacing(problem, |dim| dim.out), o)
        && dot::uses_packed_panels([each, o, f]);
    if !fits {
        return false;
    }
    let start = problem.out.offset as usize;
    let Some(out) = out.get_mut(start..start + rows * o) else {
        return false;
    };
    parallel::for_chunks_mut(out, each * o, |at, out| {
        let at_row = |row: usize| Strides {
            offset: problem.lhs.offset as usize + row * f,
            row: f as isize,
            col: 1,
        };
        let filter = Strides {
            offset: problem.rhs.offset as usize,
            row: problem.rhs.inner,
            col: problem.rhs.outer,
        };
        let shape = [out.len() / o, o, f];
        dot::gemm_f32(shape, out, (lhs, at_row(at / o)), (rhs, filter), false, 1);
    });
    true
}

/// A single-threaded GEMM of one image: `dst (+)= lhs · rhs` with a contiguous `dst`.
pub(super) type GemmFn<T> =
    fn([usize; 3], &mut [T], (&[T], Strides), (&[T], Strides), accumulate: bool);

/// Solves `problem` as planned.
pub(super) fn run<T: Gemm>(
    out: &mut [T],
    lhs: &[T],
    rhs: &[T],
    problem: &Problem,
    plan: Plan,
    multiply: GemmFn<T>,
) {
    let Problem { b, f, o, .. } = *problem;
    let (positions, taps) = problem.positions();
    let at = |offset: isize, row: isize, col: isize| Strides {
        offset: offset as usize,
        row,
        col,
    };
    let threads = || {
        if problem.macs() < super::PARALLEL {
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
                    [o, positions, f],
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
            if b >= MANY_IMAGES && problem.macs() >= super::PARALLEL {
                // SAFETY: a task has one image.
                let disjoint = unsafe { parallel::Disjoint::promise() };
                return parallel::for_disjoint(
                    disjoint,
                    out,
                    b,
                    || (),
                    |(), b, out| {
                        image(b, out.slice(start(b), o * positions), 1);
                    },
                );
            }
            let threads = threads();
            for b in 0..b {
                image(b, &mut out[start(b)..start(b) + o * positions], threads);
            }
        }
        Plan::Filter(left, right) => {
            let inner = |side: &Side, f: usize| side.offset + f as isize * side.inner;
            let operands = |f: usize| {
                let rows = at(inner(&problem.lhs, f), problem.lhs.outer, left);
                let columns = at(inner(&problem.rhs, f), right, problem.rhs.outer);
                ((lhs, rows), (rhs, columns))
            };
            let result = at(problem.out.offset, problem.out.outer, problem.out.inner);
            let parts = PARTS.min(f);
            if problem.macs() < super::PARALLEL || parts * b * o > super::PACKED / 4 {
                let threads = threads();
                for f in 0..f {
                    let (lhs, rhs) = operands(f);
                    simd::gemm([b, o, taps], (out, result), lhs, rhs, f > 0, threads);
                }
                return;
            }
            // The result is too small to divide: a task sums some images, and the partial sums are added in order.
            let images = f.div_ceil(parts);
            let mut sums = vec![T::zero(); f.div_ceil(images) * b * o];
            parallel::for_chunks_mut(&mut sums, b * o, |start, sums| {
                let first = start / (b * o) * images;
                for f in first..f.min(first + images) {
                    let (lhs, rhs) = operands(f);
                    multiply([b, o, taps], sums, lhs, rhs, f > first);
                }
            });
            for row in 0..b {
                for column in 0..o {
                    let parts = sums.iter().skip(row * o + column).step_by(b * o);
                    let position = result.offset as isize
                        + row as isize * result.row
                        + column as isize * result.col;
                    out[position as usize] = parts.fold(T::zero(), |sum, &part| sum + part);
                }
            }
        }
    }
}
