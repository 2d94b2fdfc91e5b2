//! Winograd convolution F(2×2, 3×3) for 3×3 windows.
//!
//! A 4×4 patch of the input gives a 2×2 square of results. Patch and filter are each transformed by a few additions
//! into sixteen numbers, whose products, summed over the features, transform back into the four results: 16
//! multiplications instead of 36. Each of the sixteen planes is a GEMM of its own (patches × features × output
//! features), which runs in register tiles like any other convolution. Patches are transformed block by block, so that
//! they stay in L2.
//!
//! A volume is a sequence of images: taps along the depth are summed directly, so each GEMM runs over all of them. A
//! task walks along the depth and keeps as many transformed images as there are taps, so that each is transformed once.
//!
//! Rounding errors are about those of direct convolution, since all factors are 1 or 1/2 and fewer numbers are summed.
//! An infinite element may give NaN where direct convolution gives an infinity.
#![allow(unsafe_code)]

mod weight_gradient;
mod patches;
mod results;
pub(super) mod transform;

use super::problem::Dim;
use super::{Axis, List, PACKED, PARALLEL, Problem, Real};
use crate::memory::Scratch;
use crate::parallel::{self, TaskSlice};
use crate::simd::{Segment, TileJob, TileRows, TileShape, Tiled};
use patches::{Images, PATCHES, Patches, Reader};
use results::Results;
use std::ops::Range;
use transform::{LANES, PLANES, SIDE};

pub(super) use weight_gradient::{fits as fits_weight_gradient, run as run_weight_gradient};

/// Elements of transformed patches that are held at a time.
const BLOCK: usize = 1 << 16;
/// The largest filter (in elements) that stays in cache while a block of patches is processed.
const MAX_FILTER: usize = 1 << 16;
/// Elements of transformed patches that are held at a time if sums run over several images.
const RING_BLOCK: usize = 1 << 17;
/// Results along the depth per task: neighbouring tasks transform the images before and behind them as well.
const MAX_DEPTH_PER_TASK: usize = 8;
/// The fewest patches for which transforming the filter pays.
const MIN_PATCHES: usize = 64;

/// The axes of a problem: the depth, then the two of its images. Plain images have a depth of one.
fn axes(problem: &Problem) -> Option<[Dim; 3]> {
    let one = Axis { size: 1, stride: 0 };
    let flat = Dim {
        out: one,
        lhs: one,
        rhs: one,
        step: 1,
        spread: 1,
        dilation: 1,
        lo: 0,
    };
    match problem.dims[..] {
        [down, across] => Some([flat, down, across]),
        [depth, down, across] => Some([depth, down, across]),
        _ => None,
    }
}

/// The image that the tap `t` reads at position `z` along the depth, if there is one.
fn input_image(depth: &Dim, z: usize, t: usize) -> Option<usize> {
    let at = (z + t) as isize - depth.lo;
    (at >= 0 && (at as usize) < depth.lhs.size).then_some(at as usize)
}

/// Whether the window has stride 1, and neither operand is dilated.
fn is_dense_unit_stride(dim: &Dim) -> bool {
    dim.step == 1 && dim.spread == 1 && dim.dilation == 1
}

/// Whether features fill whole vectors; this is also enough of them for the multiplications to outweigh the transforms.
pub(super) fn fills_vectors(left: usize, right: usize, shape: TileShape) -> bool {
    left.is_multiple_of(LANES) && right.is_multiple_of(LANES) && shape.columns >= LANES
}

/// The axes of a problem, if this algorithm applies and the problem is large enough.
pub(super) fn fits<T: Real>(problem: &Problem) -> Option<[Dim; 3]> {
    let Problem { f, o, b, .. } = *problem;
    let axes = axes(problem)?;
    let [depth, down, across] = axes;
    let plain = |dim: &Dim| is_dense_unit_stride(dim) && dim.rhs.size == 3 && dim.out.size >= SIDE;
    let (taps, patches) = (
        depth.rhs.size,
        Patches::new(b, down.out.size, across.out.size),
    );
    let fits = is_dense_unit_stride(&depth)
        && plain(&down)
        && plain(&across)
        && fills_vectors(f, o, T::Sum::tile_shape(o, f))
        && f * o * taps <= MAX_FILTER
        && (taps == 1 || patches.across * PLANES * f * taps <= 2 * RING_BLOCK)
        && patches.count() * depth.out.size >= MIN_PATCHES
        && problem.macs() >= PARALLEL;
    fits.then_some(axes)
}

/// What the tasks of one group share.
struct Work<'a, S> {
    depth: Dim,
    features: usize,
    shape: TileShape,
    /// Patches that are held at a time, of as many images as there are taps along the depth.
    held: usize,
    /// The transformed filter: panels of columns, each with sixteen planes.
    filter: &'a [S],
    results: Results<'a>,
}

/// A thread's workspace, reused between tasks.
struct Workspace<S> {
    copies: Scratch<S>,
    patches: Scratch<S>,
    accumulators: Scratch<S>,
    stage: Vec<S>,
}

/// Solves `problem`, for which [`fits`] returned the axes.
pub(super) fn run<T: Real>(out: &mut [T], lhs: &[T], rhs: &[T], problem: &Problem, axes: [Dim; 3]) {
    let [depth, down, across] = axes;
    let taps = depth.rhs.size;
    let shape = T::Sum::tile_shape(problem.o, usize::MAX);
    let panels = problem.o.div_ceil(shape.columns);
    let panel = PLANES * taps * problem.f * shape.columns;
    let mut filter = Scratch::<T::Sum>::unzeroed(panels * panel);
    let patches = Patches::new(problem.b, down.out.size, across.out.size);
    // Images that several sums run over are held for the whole task.
    let (rows, held) = match taps {
        1 => {
            let tiles = (BLOCK / (PLANES * problem.f * shape.rows)).max(1);
            let rows = patches.rows_of_task(shape.rows, PATCHES);
            (rows, tiles * shape.rows)
        }
        _ => {
            let most = RING_BLOCK / (PLANES * problem.f * taps);
            let rows = patches.rows_of_task(shape.rows, most.min(PATCHES));
            (rows, (rows * patches.across).next_multiple_of(shape.rows))
        }
    };
    let pieces = depth.out.size.div_ceil(MAX_DEPTH_PER_TASK);
    let deep = depth.out.size.div_ceil(pieces);
    for group in 0..problem.groups {
        parallel::for_chunks_mut(&mut filter, panel, |at, filter| {
            let first = at / panel * shape.columns;
            pack(filter, rhs, problem, &axes, group, first, shape.columns);
        });
        let work = Work {
            depth,
            features: problem.f,
            shape,
            held,
            filter: &filter,
            results: Results::new(problem, &axes, group, patches),
        };
        let reader = Reader {
            data: lhs,
            offset: problem.lhs.offset + group as isize * problem.lhs.group,
            image: problem.lhs.outer,
            depth: depth.lhs.stride,
            axes: [down.lhs, across.lhs],
            lo: [down.lo, across.lo],
            features: problem.f,
            feature: problem.lhs.inner,
            side: SIDE,
            patches,
        };
        let make = || Workspace {
            copies: Scratch::unzeroed(reader.copies(rows)),
            patches: Scratch::unzeroed(PLANES * work.plane()),
            accumulators: Scratch::unzeroed(held * PLANES * shape.columns),
            stage: vec![T::Sum::default(); work.results.stage()],
        };
        let zeros = vec![T::Sum::default(); problem.f];
        let tasks = patches.rows().div_ceil(rows) * pieces;
        // SAFETY: a task has rows of patches at some positions along the depth, whose results no other task has.
        let disjoint = unsafe { parallel::Disjoint::promise() };
        parallel::for_disjoint(disjoint, out, tasks, make, |workspace, task, out| {
            let (first, z) = (task / pieces * rows, task % pieces * deep);
            let rows = first..patches.rows().min(first + rows);
            let positions = z..depth.out.size.min(z + deep);
            let all = rows.start * patches.across..rows.end * patches.across;
            // The images of the first result are transformed in advance, then one image per result.
            for (z, new) in positions.flat_map(|at| {
                let first = if at == z { 0 } else { taps - 1 };
                (first..taps).map(move |t| (at, t))
            }) {
                let images = input_image(&depth, z, new)
                    .map(|at| reader.images(rows.clone(), at, &mut workspace.copies, &zeros));
                for first in all.clone().step_by(held) {
                    let block = first..all.end.min(first + held);
                    if let Some(images) = &images {
                        let slot = (z + new) % taps;
                        work.transform(images, slot, block.clone(), &mut workspace.patches);
                    }
                    if new + 1 == taps {
                        work.block::<T>(
                            z,
                            block,
                            &workspace.patches,
                            &mut workspace.accumulators,
                            &mut workspace.stage,
                            out,
                        );
                    }
                }
            }
        });
    }
}

impl<S: Tiled + num_traits::Float + num_traits::NumAssign> Work<'_, S> {
    /// Elements of one plane of one image's patches.
    fn slot(&self) -> usize {
        self.held * self.features
    }

    /// Elements of one plane of all images that are held.
    fn plane(&self) -> usize {
        transform::spaced(self.depth.rhs.size * self.slot())
    }

    /// Transforms an image's patches into their slot.
    fn transform(
        &self,
        images: &Images<'_, S>,
        slot: usize,
        block: Range<usize>,
        patches: &mut [S],
    ) {
        let mut to = slot * self.slot();
        for run in images.runs(block) {
            transform::patches(&mut patches[to..], self.features, self.plane(), &run);
            to += run.count * self.features;
        }
    }

    /// Computes the results of consecutive patches at position `z` along the depth.
    fn block<T: Real<Sum = S>>(
        &self,
        z: usize,
        block: Range<usize>,
        patches: &[S],
        accumulators: &mut [S],
        stage: &mut [S],
        out: &mut TaskSlice<'_, T>,
    ) {
        let TileShape { rows, columns } = self.shape;
        let (taps, plane) = (self.depth.rhs.size, self.plane());
        let (count, tile) = (block.len(), rows * columns);
        let segments: List<Segment> = (0..taps)
            .filter(|&t| input_image(&self.depth, z, t).is_some())
            .map(|t| Segment {
                a: (z + t) % taps * self.slot(),
                b: t * self.features * columns,
                len: self.features,
            })
            .collect();
        let summed = taps * self.features * columns;
        for (index, filter) in self.filter.chunks_exact(PLANES * summed).enumerate() {
            for (p, filter) in filter.chunks_exact(summed).enumerate() {
                for first in (0..count).step_by(rows) {
                    let at = (first / rows * PLANES + p) * tile;
                    let job = TileJob {
                        a: &patches[p * plane..(p + 1) * plane],
                        // Rows that a short last tile reads beyond the patches are not used.
                        rows: TileRows::Uniform(first * self.features, self.features),
                        a_step: 1,
                        b: filter,
                        b_step: columns,
                        segments: &segments,
                        accumulate: false,
                        out_step: columns,
                    };
                    S::tile(self.shape, &job, &mut accumulators[at..at + tile]);
                }
            }
            let first = index * columns;
            self.results.write::<T>(
                accumulators,
                self.shape,
                first,
                z,
                block.clone(),
                stage,
                out,
            );
        }
    }
}

/// Transforms the filter's columns from `first` on: planes, then taps along the depth, then features, columns
/// innermost.
fn pack<T: Real>(
    out: &mut [T::Sum],
    rhs: &[T],
    problem: &Problem,
    axes: &[Dim; 3],
    group: usize,
    first: usize,
    columns: usize,
) {
    let side = problem.rhs;
    let base = side.offset + group as isize * side.group;
    let [depth, down, across] = axes.map(|dim| dim.rhs);
    let plane = depth.size * problem.f * columns;
    for row in 0..depth.size * problem.f {
        let (t, f) = (row / problem.f, row % problem.f);
        for lane in (0..columns).step_by(LANES) {
            let o = first + lane;
            let width = LANES.min(problem.o.saturating_sub(o));
            let base = base
                + t as isize * depth.stride
                + f as isize * side.inner
                + o as isize * side.outer;
            let mut taps = [[[T::Sum::default(); LANES]; 3]; 3];
            for (i, line) in taps.iter_mut().enumerate() {
                for (j, tap) in line.iter_mut().enumerate() {
                    let at = base + i as isize * down.stride + j as isize * across.stride;
                    for (k, tap) in tap[..width].iter_mut().enumerate() {
                        *tap = rhs[(at + k as isize * side.outer) as usize].widen();
                    }
                }
            }
            transform::filter(&mut out[row * columns + lane..], plane, &taps);
        }
    }
}
