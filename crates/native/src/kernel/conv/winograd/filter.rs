//! The filter's gradient by the same way: gradients of the results are spread over sixteen planes, in each of which the sum
//! over all patches is a matrix product (output features by patches by features); nine taps come out of the sixteen sums.
//!
//! A fixed number of tasks sum their share of the patches, so results do not depend on the number of threads.

use super::patches::{Patches, Reader};
use super::transform::{self, LANES, PLANES, SIDE, STEP};
use super::{PACKED, PARALLEL, Problem, Real, are_vectors, is_plain};
use crate::memory::Room;
use crate::parallel::{self, Parts};
use crate::simd::{Segment, TileJob, TileShape, Tiled};

/// Tasks to aim at, and to have at least.
const TASKS: (usize, usize) = (16, 4);
/// Patches of a block: both transformed operands stay near, and as many products are summed before they are added up.
const BLOCK: usize = 64;
/// Patches whose sums outweigh the transform at the end.
const SERVED: usize = 512;

/// Elements of the sums: whole register tiles of sixteen planes.
fn sums_len(problem: &Problem, shape: TileShape) -> usize {
    let tiles = problem.o.div_ceil(shape.rows) * problem.b.div_ceil(shape.columns);
    PLANES * tiles * shape.rows * shape.columns
}

/// Whether a problem is the gradient of such a filter, and large enough.
pub(in super::super) fn fits<T: Real>(problem: &Problem) -> bool {
    let [down, across] = &problem.dims[..] else {
        return false;
    };
    let shape = T::Sum::tile_shape(problem.b);
    is_plain(down)
        && is_plain(across)
        && down.out.size == 3
        && across.out.size == 3
        && down.rhs.size.min(across.rhs.size) >= SIDE
        && are_vectors(problem.b, problem.o, shape)
        && sums_len(problem, shape) * TASKS.1 <= PACKED
        && Patches::new(problem.f, down.rhs.size, across.rhs.size).count() >= SERVED
        && problem.products() >= PARALLEL
}

/// Solves `problem`, which [`fits`].
pub(in super::super) fn run<T: Real>(out: &mut [T], lhs: &[T], rhs: &[T], problem: &Problem) {
    let shape = T::Sum::tile_shape(problem.b);
    let [down, across] = [0, 1].map(|i| problem.dims[i]);
    let patches = Patches::new(problem.f, down.rhs.size, across.rhs.size);
    let len = sums_len(problem, shape);
    let tasks = (PACKED / len).clamp(TASKS.1, TASKS.0);
    let share = patches.rows().div_ceil(tasks);
    let mut sums = Room::<T::Sum>::any(tasks * len);
    let zeros = vec![T::Sum::default(); problem.b.max(problem.o)];
    // Whole register tiles of inputs: what is beyond the last feature is read and not used.
    let pitch = [problem.b.next_multiple_of(shape.columns), problem.o];
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
        let rows = BLOCK.div_ceil(patches.across).max(1);
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
        sums.fill(T::Sum::default());
        let all = Parts::new(&mut sums);
        parallel::for_tasks_with(tasks, make, |(copies, [left, right]), task| {
            let mut part = all.task(task);
            let sums = part.slice(task * len, len);
            let end = patches.rows().min((task + 1) * share);
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
                add(
                    sums,
                    shape,
                    (left, right),
                    pitch,
                    block,
                    patches.len(),
                    problem,
                );
            }
        });
        collect(&mut sums, len);
        store(out, &sums[..len], shape, problem, group);
    }
}

/// Adds the products of `count` patches to all sums.
fn add<S: Tiled>(
    sums: &mut [S],
    shape: TileShape,
    (left, right): (&[S], &[S]),
    pitch: [usize; 2],
    block: usize,
    count: usize,
    problem: &Problem,
) {
    let TileShape { rows, columns } = shape;
    let segments = [Segment {
        a: 0,
        b: 0,
        len: count,
    }];
    let row_tiles = problem.o.div_ceil(rows);
    let tiles = sums.len() / (PLANES * rows * columns);
    for (i, sums) in sums.chunks_exact_mut(rows * columns).enumerate() {
        let (plane, tile) = (i / tiles, i % tiles);
        let (panel, tile) = (tile / row_tiles, tile % row_tiles);
        let mut offsets = [0; 32];
        for (r, offset) in offsets[..rows].iter_mut().enumerate() {
            *offset = (tile * rows + r).min(problem.o - 1);
        }
        let job = TileJob {
            a: &right[plane * block * pitch[1]..],
            rows: &offsets[..rows],
            a_step: pitch[1],
            b: &left[plane * block * pitch[0] + panel * columns..],
            b_step: pitch[0],
            segments: &segments,
            accumulate: true,
        };
        if (tile + 1) * rows <= problem.o && shape == S::tile_shape(usize::MAX) {
            S::tile_beside(shape, &job, sums);
        } else {
            S::tile(shape, &job, sums);
        }
    }
}

/// Adds the sums of all tasks to those of the first.
fn collect<S: Tiled + std::ops::AddAssign>(sums: &mut [S], len: usize) {
    let (first, rest) = sums.split_at_mut(len);
    parallel::for_chunks_mut(first, PARALLEL / 64, |at, first| {
        for part in rest.chunks_exact(len) {
            for (sum, &x) in first.iter_mut().zip(&part[at..]) {
                *sum += x;
            }
        }
    });
}

/// Writes the taps' gradients.
fn store<T: Real>(
    out: &mut [T],
    sums: &[T::Sum],
    shape: TileShape,
    problem: &Problem,
    group: usize,
) {
    let TileShape { rows, columns } = shape;
    let (row_tiles, plane) = (problem.o.div_ceil(rows), sums.len() / PLANES);
    let side = problem.out;
    let base = side.offset + group as isize * side.group;
    let [down, across] = [0, 1].map(|i| problem.dims[i].out.stride);
    parallel::for_disjoint(
        out,
        row_tiles,
        || (),
        |(), tile, out| {
            let mut taps = [[[T::Sum::default(); LANES]; 3]; 3];
            for o in tile * rows..problem.o.min((tile + 1) * rows) {
                for b in (0..problem.b).step_by(LANES) {
                    let (panel, lane) = (b / columns, b % columns);
                    let at = ((panel * row_tiles + tile) * rows + o % rows) * columns + lane;
                    transform::taps(&mut taps, &sums[at..], plane);
                    let base = base + b as isize * side.outer + o as isize * side.inner;
                    for (i, line) in taps.iter().enumerate() {
                        for (j, tap) in line.iter().enumerate() {
                            let base = base + i as isize * down + j as isize * across;
                            for (k, &x) in tap.iter().enumerate() {
                                out.set((base + k as isize * side.outer) as usize, T::narrow(x));
                            }
                        }
                    }
                }
            }
        },
    );
}
