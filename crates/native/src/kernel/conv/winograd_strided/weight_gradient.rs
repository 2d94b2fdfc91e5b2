//! Weight gradient by strided Winograd: output gradients are transformed into sixteen planes, in each of which the sum
//! over all patches is a GEMM (output features × patches × features); the sixteen sums are transformed into taps. A 4×4
//! window with stride 2 has four phases of 2×2 taps, which share the same output gradients.
//!
//! A fixed number of tasks sum their share of the patches, so results do not depend on the number of threads.
#![allow(unsafe_code)]

use super::super::problem::Dim;
use super::super::reduce_tasks;
use super::patches::{Patches, Reader, strided_axis};
use super::polyphase::{PHASE_STRIDE, phase};
use super::transform::{self, STEP, TAPS};
use super::{LANES, PACKED, PARALLEL, PLANE_PAD, PLANES, Problem, Real, SIDE, fills_vectors};
use crate::memory::Scratch;
use crate::parallel::{self, Columns, TaskSlice};
use crate::simd::{Segment, TileJob, TileRows, TileShape, Tiled, fitting_shape};

/// Tasks to aim at, and the fewest that are worth it.
const TASKS: (usize, usize) = (16, 4);
/// Patches of a block: both transformed operands stay in cache, and this many products are summed before they are added
/// to the totals.
const BLOCK: usize = 64;
/// The fewest patches for which the final transform pays.
const MIN_PATCHES: usize = 256;

/// Which features are rows of the register tiles, and which are columns.
#[derive(Clone, Copy)]
struct Roles {
    /// Whether output features are the columns, as they are if they are contiguous in the result.
    outputs_across: bool,
    rows: usize,
    columns: usize,
    shape: TileShape,
}

impl Roles {
    fn new<S: Tiled>(problem: &Problem) -> Self {
        let outputs_across = problem.out.inner == 1;
        let (rows, columns) = match outputs_across {
            true => (problem.b, problem.o),
            false => (problem.o, problem.b),
        };
        Roles {
            outputs_across,
            rows,
            columns,
            shape: fitting_shape::<S>(rows, columns),
        }
    }

    fn row_tiles(&self) -> usize {
        self.rows.div_ceil(self.shape.rows)
    }

    /// Elements of the sums: whole register tiles of sixteen planes.
    fn sums_len(&self) -> usize {
        let tiles = self.row_tiles() * self.columns.div_ceil(self.shape.columns);
        PLANES * tiles * self.shape.rows * self.shape.columns
    }
}

/// Whether a problem is such a weight gradient, and large enough.
pub(in super::super) fn fits<T: Real>(problem: &Problem) -> bool {
    let [down, across] = &problem.dims[..] else {
        return false;
    };
    let phased = |dim: &Dim| {
        (dim.step, dim.spread, dim.dilation) == (1, PHASE_STRIDE, 1)
            && dim.out.size == PHASE_STRIDE * TAPS
    };
    // The work on patches beyond the border must not exceed what is saved.
    let saves = || {
        let sizes = [down, across].map(|dim| dim.rhs.size);
        let macs = Patches::new(1, sizes).count() * PLANES;
        macs <= 3 * sizes[0] * sizes[1]
    };
    let roles = Roles::new::<T::Sum>(problem);
    phased(down)
        && phased(across)
        && saves()
        && fills_vectors(problem.b, problem.o, roles.shape)
        && PHASE_STRIDE * PHASE_STRIDE * roles.sums_len() * TASKS.1 <= PACKED
        && patches(problem).count() >= MIN_PATCHES
        && problem.macs() >= PARALLEL
}

fn patches(problem: &Problem) -> Patches {
    let counts = [0, 1].map(|i| problem.dims[i].rhs.size);
    Patches::new(problem.f, counts)
}

/// Solves `problem`, for which [`fits`] holds.
pub(in super::super) fn run<T: Real>(out: &mut [T], lhs: &[T], rhs: &[T], problem: &Problem) {
    let roles = Roles::new::<T::Sum>(problem);
    let [down, across] = [0, 1].map(|i| problem.dims[i]);
    let patches = patches(problem);
    // Sums of one phase, and of all of them.
    let len = roles.sums_len();
    let all_len = PHASE_STRIDE * PHASE_STRIDE * len;
    let shares = (PACKED / (PHASE_STRIDE * all_len)).clamp(TASKS.1, TASKS.0);
    let share = patches.rows().div_ceil(shares);
    let mut sums = Scratch::<T::Sum>::unzeroed(shares * all_len);
    let zeros = vec![T::Sum::default(); problem.b.max(problem.o)];
    // Whole register tiles: elements beyond the last feature are read and not used.
    let pitch = [problem.b, problem.o].map(|n| n.next_multiple_of(roles.shape.columns));
    // A task with little more than one block takes it as one: otherwise its sums would be read and written twice.
    let rows = match BLOCK.div_ceil(patches.across).max(1) {
        rows if share <= 2 * rows => share,
        rows => rows,
    };
    let block = rows * patches.across;
    let planes = pitch.map(|pitch| block * pitch + PLANE_PAD);
    for group in 0..problem.groups {
        // The vertical phases are separate tasks: they read different lines.
        let inputs = |phase: usize| {
            let (offset, axis, lo) = strided_axis(down.lhs, PHASE_STRIDE, phase, down.lo);
            Reader {
                data: lhs,
                offset: problem.lhs.offset + group as isize * problem.lhs.group + offset,
                image: problem.lhs.inner,
                axes: [axis, across.lhs],
                lo: [lo, across.lo],
                apart: [1, PHASE_STRIDE],
                features: problem.b,
                feature: problem.lhs.outer,
                side: SIDE,
                patches,
            }
        };
        let grads = Reader {
            data: rhs,
            offset: problem.rhs.offset + group as isize * problem.rhs.group,
            image: problem.rhs.inner,
            axes: [down.rhs, across.rhs],
            lo: [0, 0],
            apart: [1, 1],
            features: problem.o,
            feature: problem.rhs.outer,
            side: STEP,
            patches,
        };
        let make = || {
            (
                [
                    Scratch::unzeroed(inputs(0).copies(rows)),
                    Scratch::unzeroed(grads.copies(rows)),
                ],
                planes.map(|plane| Scratch::unzeroed(PLANES * plane)),
            )
        };
        let all = Columns::chunks(&mut sums, PHASE_STRIDE * len);
        let tasks = shares * PHASE_STRIDE;
        parallel::for_tasks_with(tasks, make, |(copies, [left, right]), task| {
            let mut part = all.take(task);
            let sums = part.row(0);
            let (begin, inputs) = (task / PHASE_STRIDE * share, inputs(task % PHASE_STRIDE));
            let end = patches.rows().min(begin + share);
            if begin >= end {
                sums.fill(T::Sum::default());
            }
            for first in (begin..end).step_by(rows) {
                let rows = first..end.min(first + rows);
                let [for_inputs, for_grads] = copies;
                let inputs = inputs.images(rows.clone(), for_inputs, &zeros[..problem.b]);
                let grads = grads.images(rows.clone(), for_grads, &zeros[..problem.o]);
                let block_patches = || {
                    let in_row = |row| (0..patches.across).map(move |column| [row, column]);
                    rows.clone().flat_map(in_row).enumerate()
                };
                for (i, patch) in block_patches() {
                    let (at, positions) = (i * pitch[1], grads.patch::<STEP>(patch));
                    transform::spread(&mut right[at..], planes[1], &positions, problem.o);
                }
                for (phase, sums) in sums.chunks_exact_mut(len).enumerate() {
                    let inputs = inputs.phase([0, phase]);
                    for (i, patch) in block_patches() {
                        let (at, positions) = (i * pitch[0], inputs.patch(patch));
                        transform::patch(&mut left[at..], planes[0], &positions, problem.b);
                    }
                    let inputs = (&**left, pitch[0], planes[0]);
                    let grads = (&**right, pitch[1], planes[1]);
                    let operands = match roles.outputs_across {
                        true => [inputs, grads],
                        false => [grads, inputs],
                    };
                    let count = rows.len() * patches.across;
                    add(sums, first > begin, roles, operands, count);
                }
            }
        });
        reduce_tasks::collect(&mut sums, all_len);
        let sums = &sums[..all_len];
        store(out, sums, roles, problem, group);
    }
}

/// Adds the products of `count` patches to all sums, or starts them. Each operand comes with the strides of its patches
/// and of its planes.
fn add<S: Tiled>(
    sums: &mut [S],
    accumulate: bool,
    roles: Roles,
    [left, right]: [(&[S], usize, usize); 2],
    count: usize,
) {
    let TileShape { rows, columns } = roles.shape;
    let segments = [Segment {
        a: 0,
        b: 0,
        len: count,
    }];
    let row_tiles = roles.row_tiles();
    let tiles = sums.len() / (PLANES * rows * columns);
    for (i, sums) in sums.chunks_exact_mut(rows * columns).enumerate() {
        let (plane, tile) = (i / tiles, i % tiles);
        let (panel, tile) = (tile / row_tiles, tile % row_tiles);
        let mut offsets = [0; 32];
        let tile_rows = if (tile + 1) * rows <= roles.rows {
            TileRows::Uniform(tile * rows, 1)
        } else {
            for (r, offset) in offsets[..rows].iter_mut().enumerate() {
                *offset = (tile * rows + r).min(roles.rows - 1);
            }
            TileRows::new(&offsets[..rows])
        };
        let job = TileJob {
            a: &left.0[plane * left.2..],
            rows: tile_rows,
            a_step: left.1,
            b: &right.0[plane * right.2 + panel * columns..],
            b_step: right.1,
            segments: &segments,
            accumulate,
            out_step: columns,
        };
        S::tile(roles.shape, &job, sums);
    }
}

/// Writes the gradients of the taps.
fn store<T: Real>(out: &mut [T], sums: &[T::Sum], roles: Roles, problem: &Problem, group: usize) {
    let TileShape { rows, columns } = roles.shape;
    let (row_tiles, len) = (roles.row_tiles(), roles.sums_len());
    let side = problem.out;
    let base = side.offset + group as isize * side.group;
    let [down, across] = [0, 1].map(|i| problem.dims[i].out.stride);
    let (by_row, by_column) = match roles.outputs_across {
        true => (side.outer, side.inner),
        false => (side.inner, side.outer),
    };
    let write = |(): &mut (), tile: usize, out: &mut TaskSlice<'_, T>| {
        let mut taps = [[[T::Sum::default(); LANES]; TAPS]; TAPS];
        for (index, row) in (0..PHASE_STRIDE * PHASE_STRIDE).flat_map(|index| {
            (tile * rows..roles.rows.min((tile + 1) * rows)).map(move |row| (index, row))
        }) {
            let first = phase(index, PHASE_STRIDE);
            let sums = &sums[index * len..(index + 1) * len];
            for column in (0..roles.columns).step_by(LANES) {
                let (panel, lane) = (column / columns, column % columns);
                let at = ((panel * row_tiles + tile) * rows + row % rows) * columns + lane;
                transform::taps(&mut taps, &sums[at..], len / PLANES);
                let base = base + row as isize * by_row + column as isize * by_column;
                for (i, line) in taps.iter().enumerate() {
                    let base = base + (i * PHASE_STRIDE + first[0]) as isize * down;
                    for (j, tap) in line.iter().enumerate() {
                        let base = base + (j * PHASE_STRIDE + first[1]) as isize * across;
                        if by_column == 1 {
                            let out = out.slice(base as usize, LANES);
                            for (out, &x) in out.iter_mut().zip(tap) {
                                *out = T::narrow(x);
                            }
                            continue;
                        }
                        for (k, &x) in tap.iter().enumerate() {
                            out.set((base + k as isize * by_column) as usize, T::narrow(x));
                        }
                    }
                }
            }
        }
    };
    // SAFETY: a task has a tile of rows, whose results no other tile has.
    let disjoint = unsafe { parallel::Disjoint::promise() };
    parallel::for_disjoint(disjoint, out, row_tiles, || (), write);
}
