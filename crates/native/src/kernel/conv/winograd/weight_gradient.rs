//! Weight gradient by Winograd: output gradients are transformed into sixteen planes, in each of which the sum over all
//! patches is a GEMM (output features × patches × features); the sixteen sums are transformed into nine taps. Taps
//! along the depth of volumes have sixteen sums each: an image's gradients are multiplied with as many input images.
//!
//! A fixed number of tasks sum their share of the patches, so results do not depend on the number of threads.
#![allow(unsafe_code)]

use super::super::problem::Dim;
use super::super::reduce_tasks;
use super::patches::{Patches, Reader};
use super::transform::{self, LANES, PLANES, SIDE, STEP};
use super::{
    List, MAX_DEPTH_PER_TASK, PACKED, PARALLEL, Problem, Real, axes, fills_vectors, input_image,
    is_dense_unit_stride,
};
use crate::memory::Scratch;
use crate::parallel::{self, Columns, TaskSlice};
use crate::simd::{Segment, TileJob, TileRows, TileShape, Tiled, fitting_shape};
use std::ops::Range;

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
    /// Taps along the depth.
    taps: usize,
}

impl Roles {
    fn new<S: Tiled>(problem: &Problem, taps: usize) -> Self {
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
            taps,
        }
    }

    fn row_tiles(&self) -> usize {
        self.rows.div_ceil(self.shape.rows)
    }

    /// Elements of the sums of one plane and one tap: whole register tiles.
    fn tap_sums_len(&self) -> usize {
        let tiles = self.row_tiles() * self.columns.div_ceil(self.shape.columns);
        tiles * self.shape.rows * self.shape.columns
    }

    /// Elements of all sums: sixteen planes, each with the taps along the depth.
    fn sums_len(&self) -> usize {
        PLANES * self.taps * self.tap_sums_len()
    }
}

/// The axes of a problem, if it is such a weight gradient and large enough.
pub(in super::super) fn fits<T: Real>(problem: &Problem) -> Option<[Dim; 3]> {
    let axes = axes(problem)?;
    let [depth, down, across] = axes;
    let roles = Roles::new::<T::Sum>(problem, depth.out.size);
    let patches = Patches::new(problem.f, down.rhs.size, across.rhs.size);
    let fits = is_dense_unit_stride(&depth)
        && is_dense_unit_stride(&down)
        && is_dense_unit_stride(&across)
        && down.out.size == 3
        && across.out.size == 3
        && down.rhs.size.min(across.rhs.size) >= SIDE
        && fills_vectors(problem.b, problem.o, roles.shape)
        && roles.sums_len() * TASKS.1 <= PACKED
        && patches.count() * depth.rhs.size >= MIN_PATCHES
        && problem.macs() >= PARALLEL;
    fits.then_some(axes)
}

/// Solves `problem`, for which [`fits`] returned the axes.
pub(in super::super) fn run<T: Real>(
    out: &mut [T],
    lhs: &[T],
    rhs: &[T],
    problem: &Problem,
    axes: [Dim; 3],
) {
    let [depth, down, across] = axes;
    let taps = depth.out.size;
    let roles = Roles::new::<T::Sum>(problem, taps);
    let patches = Patches::new(problem.f, down.rhs.size, across.rhs.size);
    let len = roles.sums_len();
    let most = (PACKED / len).clamp(TASKS.1, TASKS.0);
    let near = BLOCK.div_ceil(patches.across).max(1);
    // Volumes are divided along the depth as well, if their rows are too few for whole blocks.
    let pieces = match most / patches.rows().div_ceil(near) {
        0 => 1,
        few => few.min(depth.rhs.size.div_ceil(MAX_DEPTH_PER_TASK)),
    };
    let deep = depth.rhs.size.div_ceil(pieces);
    let share = patches.rows().div_ceil(most / pieces);
    let tasks = patches.rows().div_ceil(share) * pieces;
    // A task with little more than one block takes it as one: otherwise its sums would be read and written twice.
    let rows = if share <= 2 * near { share } else { near };
    let block = rows * patches.across;
    let mut sums = Scratch::<T::Sum>::unzeroed(tasks * len);
    let zeros = vec![T::Sum::default(); problem.b.max(problem.o)];
    // Whole register tiles: elements beyond the last feature are read and not used.
    let pitch = [problem.b, problem.o].map(|n| n.next_multiple_of(roles.shape.columns));
    for group in 0..problem.groups {
        let inputs = Reader {
            data: lhs,
            offset: problem.lhs.offset + group as isize * problem.lhs.group,
            image: problem.lhs.inner,
            depth: depth.lhs.stride,
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
            depth: depth.rhs.stride,
            axes: [down.rhs, across.rhs],
            lo: [0, 0],
            features: problem.o,
            feature: problem.rhs.outer,
            side: STEP,
            patches,
        };
        let work = Work {
            inputs,
            grads,
            depth,
            roles,
            pitch,
            block,
            zeros: &zeros,
        };
        let make = || Workspace {
            copies: [&work.inputs, &work.grads]
                .map(|reader| Scratch::unzeroed(reader.copies(rows))),
            inputs: Scratch::unzeroed(PLANES * work.planes()[0]),
            grads: Scratch::unzeroed(PLANES * work.planes()[1]),
        };
        let all = Columns::chunks(&mut sums, len);
        parallel::for_tasks_with(tasks, make, |workspace, task| {
            let mut part = all.take(task);
            let sums = part.row(0);
            let (first, z) = (task / pieces * share, task % pieces * deep);
            let positions = z..depth.rhs.size.min(z + deep);
            let end = patches.rows().min(first + share);
            let mut accumulate: List<bool> = (0..taps).map(|_| false).collect();
            for first in (first..end).step_by(rows) {
                let rows = first..end.min(first + rows);
                work.walk(workspace, sums, &mut accumulate, rows, positions.clone());
            }
            // Taps without any input image.
            for (i, sums) in sums.chunks_exact_mut(roles.tap_sums_len()).enumerate() {
                if !accumulate[i % taps] {
                    sums.fill(T::Sum::default());
                }
            }
        });
        reduce_tasks::collect(&mut sums, len);
        store(out, &sums[..len], roles, problem, group, axes);
    }
}

/// What the tasks of one group share.
struct Work<'a, T: Real> {
    inputs: Reader<'a, T>,
    grads: Reader<'a, T>,
    depth: Dim,
    roles: Roles,
    /// The stride of patches, of inputs and of gradients.
    pitch: [usize; 2],
    /// Patches of an image that are held at a time.
    block: usize,
    zeros: &'a [T::Sum],
}

/// A thread's workspace, reused between tasks.
struct Workspace<S> {
    copies: [Scratch<S>; 2],
    /// Of as many images as there are taps along the depth.
    inputs: Scratch<S>,
    grads: Scratch<S>,
}

impl<T: Real> Work<'_, T> {
    /// Elements of one plane of the input images that are held, and of the one image of gradients.
    fn planes(&self) -> [usize; 2] {
        let [inputs, grads] = self.pitch.map(|pitch| self.block * pitch);
        [self.roles.taps * inputs, grads].map(transform::spaced)
    }

    /// Adds the contributions of rows of patches along a part of the depth.
    fn walk(
        &self,
        workspace: &mut Workspace<T::Sum>,
        sums: &mut [T::Sum],
        accumulate: &mut [bool],
        rows: Range<usize>,
        positions: Range<usize>,
    ) {
        let Workspace {
            copies: [for_inputs, for_grads],
            inputs,
            grads,
        } = workspace;
        let across = self.inputs.patches.across;
        let patches = rows.start * across..rows.end * across;
        let (taps, [input_pitch, grad_pitch]) = (self.roles.taps, self.pitch);
        let [input_plane, grad_plane] = self.planes();
        for z in positions.clone() {
            // The images of the first one are transformed in advance, then one image for each.
            let new = if z == positions.start { 0 } else { taps - 1 };
            for t in new..taps {
                let Some(at) = input_image(&self.depth, z, t) else {
                    continue;
                };
                let zeros = &self.zeros[..self.inputs.features];
                let images = self.inputs.images(rows.clone(), at, for_inputs, zeros);
                let mut to = (z + t) % taps * self.block * input_pitch;
                for run in images.runs(patches.clone()) {
                    transform::patches(&mut inputs[to..], input_pitch, input_plane, &run);
                    to += run.count * input_pitch;
                }
            }
            let zeros = &self.zeros[..self.grads.features];
            let images = self.grads.images(rows.clone(), z, for_grads, zeros);
            let mut to = 0;
            for run in images.runs(patches.clone()) {
                transform::spread(&mut grads[to..], grad_pitch, grad_plane, &run);
                to += run.count * grad_pitch;
            }
            self.add(sums, accumulate, (&**inputs, &**grads), z, patches.len());
        }
    }

    /// Adds the products of `count` patches to all sums, or starts them.
    fn add(
        &self,
        sums: &mut [T::Sum],
        accumulate: &mut [bool],
        (inputs, grads): (&[T::Sum], &[T::Sum]),
        z: usize,
        count: usize,
    ) {
        let Roles { shape, taps, .. } = self.roles;
        let TileShape { rows, columns } = shape;
        let segments = [Segment {
            a: 0,
            b: 0,
            len: count,
        }];
        let row_tiles = self.roles.row_tiles();
        let [input_pitch, grad_pitch] = self.pitch;
        let [input_plane, grad_plane] = self.planes();
        for (i, sums) in sums.chunks_exact_mut(self.roles.tap_sums_len()).enumerate() {
            let (plane, t) = (i / taps, i % taps);
            if input_image(&self.depth, z, t).is_none() {
                continue;
            }
            let slot = (z + t) % taps * self.block * input_pitch;
            let inputs = (&inputs[plane * input_plane + slot..], input_pitch);
            let grads = (&grads[plane * grad_plane..], grad_pitch);
            let [(left, left_pitch), (right, right_pitch)] = match self.roles.outputs_across {
                true => [inputs, grads],
                false => [grads, inputs],
            };
            for (tile, sums) in sums.chunks_exact_mut(rows * columns).enumerate() {
                let (panel, tile) = (tile / row_tiles, tile % row_tiles);
                let mut offsets = [0; 32];
                let whole = (tile + 1) * rows <= self.roles.rows;
                for (r, offset) in offsets[..rows].iter_mut().enumerate().filter(|_| !whole) {
                    *offset = (tile * rows + r).min(self.roles.rows - 1);
                }
                let job = TileJob {
                    a: left,
                    rows: match whole {
                        true => TileRows::Uniform(tile * rows, 1),
                        false => TileRows::Listed(&offsets[..rows]),
                    },
                    a_step: left_pitch,
                    b: &right[panel * columns..],
                    b_step: right_pitch,
                    segments: &segments,
                    accumulate: accumulate[t],
                    out_step: columns,
                };
                T::Sum::tile(shape, &job, sums);
            }
        }
        for (t, accumulate) in accumulate.iter_mut().enumerate() {
            *accumulate |= input_image(&self.depth, z, t).is_some();
        }
    }
}

/// Writes the gradients of the taps.
fn store<T: Real>(
    out: &mut [T],
    sums: &[T::Sum],
    roles: Roles,
    problem: &Problem,
    group: usize,
    axes: [Dim; 3],
) {
    let [depth, down, across] = axes.map(|dim| dim.out.stride);
    let TileShape { rows, columns } = roles.shape;
    let (row_tiles, plane) = (roles.row_tiles(), sums.len() / PLANES);
    let side = problem.out;
    let base = side.offset + group as isize * side.group;
    let (by_row, by_column) = match roles.outputs_across {
        true => (side.outer, side.inner),
        false => (side.inner, side.outer),
    };
    let write = |(): &mut (), task: usize, out: &mut TaskSlice<'_, T>| {
        let (t, tile) = (task / row_tiles, task % row_tiles);
        let (base, sums) = (base + t as isize * depth, &sums[t * roles.tap_sums_len()..]);
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
    // SAFETY: a task has a tile of rows of one tap along the depth, whose results no other task has.
    let disjoint = unsafe { parallel::Disjoint::promise() };
    parallel::for_disjoint(disjoint, out, roles.taps * row_tiles, || (), write);
}
