//! The filter's gradient by the same way: gradients of the results are spread over sixteen planes, in each of which the sum
//! over all patches is a matrix product (output features by patches by features); nine taps come out of the sixteen sums.
//!
//! A fixed number of tasks sum their share of the patches, so results do not depend on the number of threads.

use super::super::sum;
use super::patches::{Patches, Reader};
use super::transform::{self, LANES, PLANES, SIDE, STEP};
use super::{PACKED, PARALLEL, Problem, Real, are_vectors, is_plain};
use crate::memory::Room;
use crate::parallel::{self, Part, Parts};
use crate::simd::{Segment, TileJob, TileRows, TileShape, Tiled, fitting_shape};

/// Tasks to aim at, and to have at least.
const TASKS: (usize, usize) = (16, 4);
/// Patches of a block: both transformed operands stay near, and as many products are summed before they are added up.
const BLOCK: usize = 64;
/// Patches whose sums outweigh the transform at the end.
const SERVED: usize = 256;

/// Which features are rows of the register tiles, and which are columns.
#[derive(Clone, Copy)]
struct Roles {
    /// Whether output features are the columns, as it is where they lie side by side in the result.
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

/// Whether a problem is the gradient of such a filter, and large enough.
pub(in super::super) fn fits<T: Real>(problem: &Problem) -> bool {
    let [down, across] = &problem.dims[..] else {
        return false;
    };
    let roles = Roles::new::<T::Sum>(problem);
    is_plain(down)
        && is_plain(across)
        && down.out.size == 3
        && across.out.size == 3
        && down.rhs.size.min(across.rhs.size) >= SIDE
        && are_vectors(problem.b, problem.o, roles.shape)
        && roles.sums_len() * TASKS.1 <= PACKED
        && Patches::new(problem.f, down.rhs.size, across.rhs.size).count() >= SERVED
        && problem.products() >= PARALLEL
}

/// Solves `problem`, which [`fits`].
pub(in super::super) fn run<T: Real>(out: &mut [T], lhs: &[T], rhs: &[T], problem: &Problem) {
    let roles = Roles::new::<T::Sum>(problem);
    let [down, across] = [0, 1].map(|i| problem.dims[i]);
    let patches = Patches::new(problem.f, down.rhs.size, across.rhs.size);
    let len = roles.sums_len();
    let tasks = (PACKED / len).clamp(TASKS.1, TASKS.0);
    let share = patches.rows().div_ceil(tasks);
    let mut sums = Room::<T::Sum>::any(tasks * len);
    let zeros = vec![T::Sum::default(); problem.b.max(problem.o)];
    // Whole register tiles: what is beyond the last feature is read and not used.
    let pitch = [problem.b, problem.o].map(|n| n.next_multiple_of(roles.shape.columns));
    for group in 0..problem.groups {
        let inputs = Reader {
            data: lhs,
            offset: problem.lhs.offset + group as isize * problem.lhs.group,
            image: problem.lhs.inner,
            axes: [down.lhs, across.lhs],
            lo: [down.lo, across.lo],
            features: problem.b,
            feature: problem.lhs.outer,
            side: SIDE,
            patches,
        };
        let grads = Reader {
            data: rhs,
            offset: problem.rhs.offset + group as isize * problem.rhs.group,
            image: problem.rhs.inner,
            axes: [down.rhs, across.rhs],
            lo: [0, 0],
            features: problem.o,
            feature: problem.rhs.outer,
            side: STEP,
            patches,
        };
        // A task that has little more than a block takes it as one: its sums would pass by twice.
        let rows = match BLOCK.div_ceil(patches.across).max(1) {
            rows if share <= 2 * rows => share,
            rows => rows,
        };
        let block = rows * patches.across;
        let make = || {
            (
                [
                    Room::any(inputs.copies(rows)),
                    Room::any(grads.copies(rows)),
                ],
                pitch.map(|pitch| Room::any(PLANES * block * pitch)),
            )
        };
        let all = Parts::new(&mut sums);
        parallel::for_tasks_with(tasks, make, |(copies, [left, right]), task| {
            let mut part = all.task(task);
            let sums = part.slice(task * len, len);
            let end = patches.rows().min((task + 1) * share);
            if task * share >= end {
                sums.fill(T::Sum::default());
            }
            for first in (task * share..end).step_by(rows) {
                let rows = first..end.min(first + rows);
                let [for_inputs, for_grads] = copies;
                let inputs = inputs.images(rows.clone(), for_inputs, &zeros[..problem.b]);
                let grads = grads.images(rows.clone(), for_grads, &zeros[..problem.o]);
                let patches = rows.start * patches.across..rows.end * patches.across;
                for (i, patch) in patches.clone().enumerate() {
                    let at = i * pitch[0];
                    transform::patch(
                        &mut left[at..],
                        block * pitch[0],
                        &inputs.patch(patch),
                        problem.b,
                    );
                    let at = i * pitch[1];
                    transform::spread(
                        &mut right[at..],
                        block * pitch[1],
                        &grads.patch(patch),
                        problem.o,
                    );
                }
                let (inputs, grads) = ((&**left, pitch[0]), (&**right, pitch[1]));
                let operands = match roles.outputs_across {
                    true => [inputs, grads],
                    false => [grads, inputs],
                };
                let begun = first > task * share;
                add(sums, begun, roles, operands, block, patches.len());
            }
        });
        sum::collect(&mut sums, len);
        store(out, &sums[..len], roles, problem, group);
    }
}

/// Adds the products of `count` patches to all sums, or begins with them. An operand, rows or columns, is what it holds and
/// how far its patches are apart.
fn add<S: Tiled>(
    sums: &mut [S],
    begun: bool,
    roles: Roles,
    [(left, left_pitch), (right, right_pitch)]: [(&[S], usize); 2],
    block: usize,
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
        for (r, offset) in offsets[..rows].iter_mut().enumerate() {
            *offset = (tile * rows + r).min(roles.rows - 1);
        }
        let job = TileJob {
            a: &left[plane * block * left_pitch..],
            rows: TileRows::new(&offsets[..rows]),
            a_step: left_pitch,
            b: &right[plane * block * right_pitch + panel * columns..],
            b_step: right_pitch,
            segments: &segments,
            accumulate: begun,
            out_step: columns,
        };
        S::tile(roles.shape, &job, sums);
    }
}

/// Writes the taps' gradients.
fn store<T: Real>(out: &mut [T], sums: &[T::Sum], roles: Roles, problem: &Problem, group: usize) {
    let TileShape { rows, columns } = roles.shape;
    let (row_tiles, plane) = (roles.row_tiles(), sums.len() / PLANES);
    let side = problem.out;
    let base = side.offset + group as isize * side.group;
    let [down, across] = [0, 1].map(|i| problem.dims[i].out.stride);
    let (by_row, by_column) = match roles.outputs_across {
        true => (side.outer, side.inner),
        false => (side.inner, side.outer),
    };
    let write = |(): &mut (), tile: usize, out: &mut Part<'_, T>| {
        let mut taps = [[[T::Sum::default(); LANES]; 3]; 3];
        for row in tile * rows..roles.rows.min((tile + 1) * rows) {
            for column in (0..roles.columns).step_by(LANES) {
                let (panel, lane) = (column / columns, column % columns);
                let at = ((panel * row_tiles + tile) * rows + row % rows) * columns + lane;
                transform::taps(&mut taps, &sums[at..], plane);
                let base = base + row as isize * by_row + column as isize * by_column;
                for (i, line) in taps.iter().enumerate() {
                    for (j, tap) in line.iter().enumerate() {
                        let base = base + i as isize * down + j as isize * across;
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
    parallel::for_disjoint(out, row_tiles, || (), write);
}
