//! Convolution with windows of three by three places, by Winograd's way.
//!
//! Four results that form a square come from a patch of four by four places. Patch and filter are each transformed by a few
//! additions into sixteen numbers whose products, summed over the features, transform back into the four results: 16
//! products where the definition has 36. Each of the sixteen is a matrix product of its own (patches by features by
//! output features), which runs in register tiles like any other convolution. Patches are transformed block by block, so
//! that nothing leaves the second-level cache.
//!
//! Rounding errors are about those of the definition, since all factors are 1 or 1/2 and fewer numbers are summed. An
//! infinite element may give NaN where the definition gives an infinity.

mod filter;
mod patches;
mod transform;

use super::problem::Dim;
use super::{PACKED, PARALLEL, Problem, Real};
use crate::memory::Room;
use crate::parallel::{self, Part};
use crate::simd::{Segment, TileJob, TileRows, TileShape, Tiled};
use patches::{Images, Patches, Reader};
use transform::{LANES, PLANES, SIDE, STEP};

pub(super) use filter::{fits as fits_filter, run as run_filter};

/// Elements of transformed patches that are held at once.
const BLOCK: usize = 1 << 16;
/// Elements of a filter that stays near while a block of patches passes by.
const FILTER: usize = 1 << 16;
/// Patches that a transformed filter has to serve.
const SERVED: usize = 64;

/// Whether a window moves place by place over an image that has no holes.
fn is_plain(dim: &Dim) -> bool {
    dim.step == 1 && dim.spread == 1 && dim.dilation == 1
}

/// Whether features are whole vectors, which also are enough of them for products to outweigh the transforms.
fn are_vectors(left: usize, right: usize, shape: TileShape) -> bool {
    left.is_multiple_of(LANES) && right.is_multiple_of(LANES) && shape.columns >= LANES
}

/// Whether a problem is of that kind, and large enough.
pub(super) fn fits<T: Real>(problem: &Problem) -> bool {
    let Problem { f, o, b, .. } = *problem;
    let [down, across] = &problem.dims[..] else {
        return false;
    };
    let plain = |dim: &Dim| is_plain(dim) && dim.rhs.size == 3 && dim.out.size >= SIDE;
    plain(down)
        && plain(across)
        && are_vectors(f, o, T::Sum::tile_shape(o, f))
        && f * o <= FILTER
        && Patches::new(b, down.out.size, across.out.size).count() >= SERVED
        && problem.products() >= PARALLEL
}

/// What the tasks of one group share.
struct Work<'a, S> {
    problem: &'a Problem,
    group: usize,
    patches: Patches,
    shape: TileShape,
    /// Register tiles of a block.
    tiles: usize,
    /// The transformed filter: panels of columns, of each the sixteen planes.
    filter: &'a [S],
}

/// What a thread keeps between tasks.
struct Workspace<S> {
    copies: Room<S>,
    patches: Room<S>,
    products: Room<S>,
}

/// Solves `problem`, which [`fits`].
pub(super) fn run<T: Real>(out: &mut [T], lhs: &[T], rhs: &[T], problem: &Problem) {
    let shape = T::Sum::tile_shape(problem.o, usize::MAX);
    let panels = problem.o.div_ceil(shape.columns);
    let panel = PLANES * problem.f * shape.columns;
    let mut filter = Room::<T::Sum>::any(panels * panel);
    let [down, across] = [0, 1].map(|i| problem.dims[i].out.size);
    let patches = Patches::new(problem.b, down, across);
    let tiles = (BLOCK / (PLANES * problem.f * shape.rows)).max(1);
    let rows = patches.rows_of_task(shape.rows);
    for group in 0..problem.groups {
        parallel::for_chunks_mut(&mut filter, panel, |at, filter| {
            pack(
                filter,
                rhs,
                problem,
                group,
                at / panel * shape.columns,
                shape.columns,
            );
        });
        let work = Work {
            problem,
            group,
            patches,
            shape,
            tiles,
            filter: &filter,
        };
        let reader = Reader {
            data: lhs,
            offset: problem.lhs.offset + group as isize * problem.lhs.group,
            image: problem.lhs.outer,
            axes: [0, 1].map(|i| problem.dims[i].lhs),
            lo: [0, 1].map(|i| problem.dims[i].lo),
            features: problem.f,
            feature: problem.lhs.inner,
            side: SIDE,
            patches,
        };
        let make = || Workspace {
            copies: Room::any(reader.copies(rows)),
            patches: Room::any(tiles * shape.rows * PLANES * problem.f),
            products: Room::any(tiles * shape.rows * PLANES * shape.columns),
        };
        let zeros = vec![T::Sum::default(); problem.f];
        let tasks = patches.rows().div_ceil(rows);
        parallel::for_disjoint(out, tasks, make, |workspace, task, out| {
            let rows = task * rows..patches.rows().min((task + 1) * rows);
            let images = reader.images(rows.clone(), &mut workspace.copies, &zeros);
            let all = rows.start * patches.across..rows.end * patches.across;
            let step = tiles * shape.rows;
            for first in all.clone().step_by(step) {
                let block = first..all.end.min(first + step);
                work.block::<T>(
                    &images,
                    block,
                    &mut workspace.patches,
                    &mut workspace.products,
                    out,
                );
            }
        });
    }
}

impl<S: Tiled + num_traits::Float + num_traits::NumAssign> Work<'_, S> {
    /// The results of consecutive patches.
    fn block<T: Real<Sum = S>>(
        &self,
        images: &Images<'_, S>,
        block: std::ops::Range<usize>,
        patches: &mut [S],
        products: &mut [S],
        out: &mut Part<'_, T>,
    ) {
        let TileShape { rows, columns } = self.shape;
        let plane = self.tiles * rows * self.problem.f;
        for (i, patch) in block.clone().enumerate() {
            let places = images.patch(patch);
            transform::patch(
                &mut patches[i * self.problem.f..],
                plane,
                &places,
                images.features,
            );
        }
        let (count, tile) = (block.len(), rows * columns);
        let mut square = [[[S::zero(); LANES]; STEP]; STEP];
        let side = self.problem.out;
        let base = side.offset + self.group as isize * side.group;
        let panel = PLANES * self.problem.f * columns;
        for (index, filter) in self.filter.chunks_exact(panel).enumerate() {
            for (p, filter) in filter.chunks_exact(self.problem.f * columns).enumerate() {
                for first in (0..count).step_by(rows) {
                    let at = (first / rows * PLANES + p) * tile;
                    let job = TileJob {
                        a: &patches[p * plane..(p + 1) * plane],
                        // What a short last tile reads beyond the patches is not used.
                        rows: TileRows::Even(first * self.problem.f, self.problem.f),
                        a_step: 1,
                        b: filter,
                        b_step: columns,
                        segments: &[Segment {
                            a: 0,
                            b: 0,
                            len: self.problem.f,
                        }],
                        accumulate: false,
                        out_step: columns,
                    };
                    S::tile(self.shape, &job, &mut products[at..at + tile]);
                }
            }
            let o = index * columns;
            let width = columns.min(self.problem.o - o);
            let base = base + o as isize * side.inner;
            for (i, patch) in block.clone().enumerate() {
                let at = i / rows * PLANES * tile + i % rows * columns;
                for first in (0..width).step_by(LANES) {
                    transform::square(&mut square, &products[at + first..], tile);
                    let base = base + first as isize * side.inner;
                    self.store(&square, base, patch, out);
                }
            }
        }
    }

    /// Writes the four results of a patch, as far as they are within the image.
    fn store<T: Real<Sum = S>>(
        &self,
        square: &[[[S; LANES]; STEP]; STEP],
        base: isize,
        patch: usize,
        out: &mut Part<'_, T>,
    ) {
        let (image, place) = self.patches.place(patch);
        let [down, across] = [0, 1].map(|i| self.problem.dims[i].out);
        let side = self.problem.out;
        let base = base + image as isize * side.outer;
        for (i, line) in square.iter().enumerate().take(down.size - place[0]) {
            let base = base + (place[0] + i) as isize * down.stride;
            for (j, lanes) in line.iter().enumerate().take(across.size - place[1]) {
                let start = base + (place[1] + j) as isize * across.stride;
                if side.inner == 1 {
                    let out = out.slice(start as usize, LANES);
                    for (out, &x) in out.iter_mut().zip(lanes) {
                        *out = T::narrow(x);
                    }
                } else {
                    for (k, &x) in lanes.iter().enumerate() {
                        out.set((start + k as isize * side.inner) as usize, T::narrow(x));
                    }
                }
            }
        }
    }
}

/// Transforms the filter's columns from `first` on: plane by plane, feature by feature, columns side by side.
fn pack<T: Real>(
    out: &mut [T::Sum],
    rhs: &[T],
    problem: &Problem,
    group: usize,
    first: usize,
    columns: usize,
) {
    let side = problem.rhs;
    let base = side.offset + group as isize * side.group;
    let plane = problem.f * columns;
    for f in 0..problem.f {
        for lane in (0..columns).step_by(LANES) {
            let o = first + lane;
            let width = LANES.min(problem.o.saturating_sub(o));
            let base = base + f as isize * side.inner + o as isize * side.outer;
            let mut taps = [[[T::Sum::default(); LANES]; 3]; 3];
            for (i, line) in taps.iter_mut().enumerate() {
                for (j, tap) in line.iter_mut().enumerate() {
                    let at = base
                        + i as isize * problem.dims[0].rhs.stride
                        + j as isize * problem.dims[1].rhs.stride;
                    for (k, tap) in tap[..width].iter_mut().enumerate() {
                        *tap = rhs[(at + k as isize * side.outer) as usize].widen();
                    }
                }
            }
            transform::filter(&mut out[f * columns + lane..], plane, &taps);
        }
    }
}
