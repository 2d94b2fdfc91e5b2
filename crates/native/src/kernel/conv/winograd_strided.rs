//! Winograd convolution for 4×4 windows with stride 2, or with an input dilated by 2: strided and transposed
//! convolutions and their gradients.
//!
//! Such a window splits into polyphase components of 2×2 taps (`polyphase`). A 4×4 patch gives 3×3 results of a phase,
//! F(3×3, 2×2): 16 multiplications instead of 36, transformed and summed as in `winograd`. The 3×3 windows there have
//! one phase and another overlap of patches, so blocks and results are divided differently.
//!
//! Rounding errors are about those of direct convolution. An infinite element may give NaN where direct convolution
//! gives an infinity.
#![allow(unsafe_code)]

mod weight_gradient;
mod polyphase;
mod patches;
mod transform;

use super::staging_buffer;
use super::winograd::fills_vectors;
use super::winograd::transform::{LANES, PLANES, SIDE};
use super::{PACKED, PARALLEL, Problem, Real};
use crate::memory::Scratch;
use crate::parallel::{self, TaskSlice};
use crate::simd::{Segment, TileJob, TileRows, TileShape, Tiled, prefetch_write};
use patches::{Block, Images, Patches, Reader};
use polyphase::{PHASE_STRIDE, Polyphase, phase};
use std::ops::Range;
use transform::{STEP, TAPS};

pub(super) use weight_gradient::{fits as fits_weight_gradient, run as run_weight_gradient};

/// Elements of transformed patches that are held at a time, approximately.
const BLOCK: usize = 5 << 14;
/// The largest filter (in elements) that stays in cache while a block of patches is processed.
const MAX_FILTER: usize = 1 << 16;
/// Padding between planes: the sixteen planes that are written together would otherwise map to the same cache sets.
const PLANE_PAD: usize = LANES;
/// The fewest patches for which transforming the filter pays.
const MIN_PATCHES: usize = 64;

/// Whether this algorithm applies to a problem, and the problem is large enough.
pub(super) fn fits<T: Real>(problem: &Problem) -> bool {
    let Problem { f, o, b, .. } = *problem;
    fills_vectors(f, o, T::Sum::tile_shape(o, f))
        && problem.macs() >= PARALLEL
        && Polyphase::new(problem).is_some_and(|form| {
            f * o * form.phases() <= MAX_FILTER && form.patches(b).count() >= MIN_PATCHES
        })
}

/// What the tasks of one group share.
struct Work<'a, S> {
    problem: &'a Problem,
    form: &'a Polyphase,
    group: usize,
    patches: Patches,
    shape: TileShape,
    /// Patches of a block, in whole register tiles.
    held: usize,
    /// The transformed filter, by output phases, column panels and input phases: sixteen planes of each.
    filter: &'a [S],
}

/// A thread's workspace, reused between tasks.
struct Workspace<S> {
    copies: Scratch<S>,
    patches: Scratch<S>,
    accumulators: Scratch<S>,
    /// Results of a block and a panel with features innermost, for layouts whose features are not contiguous.
    stage: Scratch<S>,
}

/// Solves `problem`, for which [`fits`] holds.
pub(super) fn run<T: Real>(out: &mut [T], lhs: &[T], rhs: &[T], problem: &Problem) {
    let Some(form) = &Polyphase::new(problem) else {
        return super::implicit_gemm::run(out, lhs, rhs, problem);
    };
    let shape = T::Sum::tile_shape(problem.o, usize::MAX);
    let panels = problem.o.div_ceil(shape.columns);
    let panel = PLANES * (problem.f * shape.columns + PLANE_PAD);
    let mut filter = Scratch::<T::Sum>::unzeroed(form.phases() * panels * panel);
    let patches = form.patches(problem.b);
    let cut = patches.cut(shape.rows, BLOCK / (PLANES * problem.f));
    let held = cut.patches().next_multiple_of(shape.rows);
    for group in 0..problem.groups {
        let work = Work {
            problem,
            form,
            group,
            patches,
            shape,
            held,
            filter: &[],
        };
        parallel::for_chunks_mut(&mut filter, panel, |at, filter| {
            work.pack::<T>(filter, rhs, at / panel);
        });
        let work = Work {
            filter: &filter,
            ..work
        };
        let reader = Reader {
            data: lhs,
            offset: problem.lhs.offset + group as isize * problem.lhs.group,
            image: problem.lhs.outer,
            axes: [0, 1].map(|i| problem.dims[i].lhs),
            lo: form.read_lo,
            apart: [form.read_stride; 2],
            features: problem.f,
            feature: problem.lhs.inner,
            side: SIDE,
            patches,
        };
        // The sums of all panels are kept until the last input phase.
        let waiting = if form.sources() > 1 { panels } else { 1 };
        let staged = match problem.out.inner {
            1 => 0,
            _ => cut.patches() * STEP * STEP * form.write_stride * shape.columns,
        };
        let make = || Workspace {
            copies: Scratch::unzeroed(reader.copies(cut.rows_of_task)),
            patches: Scratch::unzeroed(PLANES * (held * problem.f + PLANE_PAD)),
            accumulators: Scratch::unzeroed(waiting * held * PLANES * shape.columns),
            stage: Scratch::unzeroed(staged),
        };
        let zeros = vec![T::Sum::default(); problem.f];
        let tasks = patches.rows().div_ceil(cut.rows_of_task);
        // SAFETY: a task has rows of patches, whose results no other patch has.
        let disjoint = unsafe { parallel::Disjoint::promise() };
        parallel::for_disjoint(disjoint, out, tasks, make, |workspace, task, out| {
            let first = task * cut.rows_of_task;
            let rows = first..patches.rows().min(first + cut.rows_of_task);
            let Workspace {
                copies,
                patches: transformed,
                accumulators,
                stage,
            } = workspace;
            let images = reader.images(rows.clone(), copies, &zeros);
            for block in cut.blocks(rows, patches.across) {
                work.block::<T>(&images, &block, transformed, accumulators, stage, out);
            }
        });
    }
}

impl<S: Tiled + num_traits::Float + num_traits::NumAssign> Work<'_, S> {
    /// Computes the results of a block of patches.
    fn block<T: Real<Sum = S>>(
        &self,
        images: &Images<'_, S>,
        block: &Block,
        patches: &mut [S],
        accumulators: &mut [S],
        stage: &mut [S],
        out: &mut TaskSlice<'_, T>,
    ) {
        let Problem { f, o, .. } = *self.problem;
        let columns = self.shape.columns;
        let (sources, sinks) = (self.form.sources(), self.form.sinks());
        let (panels, panel) = (o.div_ceil(columns), PLANES * (f * columns + PLANE_PAD));
        let held = self.held * PLANES * columns;
        for source in 0..sources {
            let images = images.phase(phase(source, self.form.read_stride));
            for (i, patch) in block.patches().enumerate() {
                let positions = images.patch(patch);
                transform::patch(
                    &mut patches[i * f..],
                    self.held * f + PLANE_PAD,
                    &positions,
                    f,
                );
            }
            for index in 0..panels {
                let accumulators =
                    &mut accumulators[if sources > 1 { index * held } else { 0 }..][..held];
                for sink in 0..sinks {
                    let at = ((sink * panels + index) * sources + source) * panel;
                    let filter = &self.filter[at..at + panel];
                    let (first, sink) = (index * columns, phase(sink, self.form.write_stride));
                    let last = source + 1 == sources;
                    let direct = last && self.problem.out.inner == 1;
                    self.multiply(
                        patches,
                        filter,
                        accumulators,
                        block.len(),
                        source > 0,
                        |i| {
                            if direct {
                                self.prefetch_results::<T>(block.patch(i), first, sink, out);
                            }
                        },
                    );
                    if last {
                        self.put::<T>(accumulators, block, first, sink, stage, out);
                    }
                }
            }
        }
    }

    /// Multiplies transformed patches by a panel of the filter, plane by plane. Calls `prefetch` for each patch in
    /// between, so that its result lines are loaded while the multiplications run.
    fn multiply(
        &self,
        patches: &[S],
        filter: &[S],
        accumulators: &mut [S],
        count: usize,
        accumulate: bool,
        mut prefetch: impl FnMut(usize),
    ) {
        let (f, TileShape { rows, columns }) = (self.problem.f, self.shape);
        let (plane, tile) = (self.held * f + PLANE_PAD, rows * columns);
        let segments = [Segment { a: 0, b: 0, len: f }];
        for (p, filter) in filter.chunks_exact(f * columns + PLANE_PAD).enumerate() {
            for first in (0..count).step_by(rows) {
                if p < rows && first + p < count {
                    prefetch(first + p);
                }
                let at = (first / rows * PLANES + p) * tile;
                let job = TileJob {
                    a: &patches[p * plane..(p + 1) * plane],
                    // Rows that a short last tile reads beyond the patches are not used.
                    rows: TileRows::Uniform(first * f, f),
                    a_step: 1,
                    b: filter,
                    b_step: columns,
                    segments: &segments,
                    accumulate,
                    out_step: columns,
                };
                S::tile(self.shape, &job, &mut accumulators[at..at + tile]);
            }
        }
    }

    /// Writes the results of a block: of one phase and of a panel of features, which begins at `first`.
    fn put<T: Real<Sum = S>>(
        &self,
        accumulators: &[S],
        block: &Block,
        first: usize,
        phase: [usize; 2],
        stage: &mut [S],
        out: &mut TaskSlice<'_, T>,
    ) {
        let (side, TileShape { rows, columns }) = (self.problem.out, self.shape);
        let width = columns.min(self.problem.o - first);
        let group = side.offset + self.group as isize * side.group;
        let base = group + first as isize * side.inner;
        let apart = self.form.write_stride;
        let line = block.columns.len() * STEP * apart;
        let mut square = [[[S::zero(); LANES]; STEP]; STEP];
        for (index, patch) in block.patches().enumerate() {
            let at = index / rows * PLANES * rows * columns + index % rows * columns;
            for lane in (0..width).step_by(LANES) {
                transform::square(&mut square, &accumulators[at + lane..], rows * columns);
                if side.inner == 1 {
                    let base = base + lane as isize;
                    self.store::<T>(&square, base, patch, phase, out);
                    continue;
                }
                let row = (patch[0] - block.rows.start) * STEP;
                let column = (patch[1] - block.columns.start) * STEP;
                for (i, results) in square.iter().enumerate() {
                    for (j, lanes) in results.iter().enumerate() {
                        let position = (row + i) * line + (column + j) * apart + phase[1];
                        let at = position * columns + lane;
                        stage[at..at + LANES].copy_from_slice(lanes);
                    }
                }
            }
        }
        if side.inner == 1 || phase[1] + 1 < apart {
            return;
        }
        let across = self.problem.dims[1].out;
        let lines = (0..block.rows.len() * STEP).filter_map(|i| {
            let patch = [block.rows.start + i / STEP, block.columns.start];
            let (image, position) = self.patches.position(patch);
            let down = self.written(0, position[0] + i % STEP, phase[0])?;
            let begin = (position[1] * apart) as isize - self.form.write_lo[1];
            let skipped = (-begin).clamp(0, line as isize);
            let end = (across.size as isize - begin).clamp(0, line as isize) as usize;
            let to = base + image as isize * side.outer + down;
            let held = i * line + skipped as usize..i * line + end;
            (!held.is_empty()).then_some((to + (begin + skipped) * across.stride, held))
        });
        let mut write = |to: isize, held: Range<usize>| {
            let held = &stage[held.start * columns..held.end * columns];
            let size = (columns, width);
            staging_buffer::write_line::<T>(held, size, out, to, across.stride, side.inner);
        };
        // Lines that are adjacent in the result are merged.
        let mut open: Option<(isize, Range<usize>)> = None;
        for (to, held) in lines {
            open = match open {
                Some((start, before))
                    if before.end == held.start
                        && start + before.len() as isize * across.stride == to =>
                {
                    Some((start, before.start..held.end))
                }
                before => {
                    if let Some((start, before)) = before {
                        write(start, before);
                    }
                    Some((to, held))
                }
            };
        }
        if let Some((start, held)) = open {
            write(start, held);
        }
    }

    /// The offset of a position of a phase along an axis of the result, if it is in bounds.
    #[inline]
    fn written(&self, axis: usize, position: usize, phase: usize) -> Option<isize> {
        let at = (position * self.form.write_stride + phase) as isize - self.form.write_lo[axis];
        let axis = self.problem.dims[axis].out;
        (at >= 0 && at < axis.size as isize).then_some(at * axis.stride)
    }

    /// Prefetches the lines that [`Work::store`] will write.
    fn prefetch_results<T: Real<Sum = S>>(
        &self,
        patch: [usize; 2],
        first: usize,
        phase: [usize; 2],
        out: &mut TaskSlice<'_, T>,
    ) {
        let side = self.problem.out;
        let width = self.shape.columns.min(self.problem.o - first);
        let (image, position) = self.patches.position(patch);
        let base = side.offset + self.group as isize * side.group + first as isize;
        let base = base + image as isize * side.outer;
        for down in (0..STEP).filter_map(|i| self.written(0, position[0] + i, phase[0])) {
            for across in (0..STEP).filter_map(|j| self.written(1, position[1] + j, phase[1])) {
                prefetch_write(out.slice((base + down + across) as usize, width));
            }
        }
    }

    /// Writes the results of a patch, as far as they are within the image.
    fn store<T: Real<Sum = S>>(
        &self,
        square: &[[[S; LANES]; STEP]; STEP],
        base: isize,
        patch: [usize; 2],
        phase: [usize; 2],
        out: &mut TaskSlice<'_, T>,
    ) {
        let (image, position) = self.patches.position(patch);
        let base = base + image as isize * self.problem.out.outer;
        for (i, line) in square.iter().enumerate() {
            let Some(down) = self.written(0, position[0] + i, phase[0]) else {
                continue;
            };
            for (j, lanes) in line.iter().enumerate() {
                if let Some(across) = self.written(1, position[1] + j, phase[1]) {
                    let out = out.slice((base + down + across) as usize, LANES);
                    for (out, &x) in out.iter_mut().zip(lanes) {
                        *out = T::narrow(x);
                    }
                }
            }
        }
    }

    /// Transforms the `index`-th panel of the filter: planes, then features, columns innermost.
    fn pack<T: Real<Sum = S>>(&self, out: &mut [S], rhs: &[T], index: usize) {
        let (problem, form, columns) = (self.problem, self.form, self.shape.columns);
        let (sources, panels) = (form.sources(), problem.o.div_ceil(columns));
        let (source, unit) = (index % sources, index / sources);
        let (first, sink) = (unit % panels * columns, unit / panels);
        let [read, write] = [
            phase(source, form.read_stride),
            phase(sink, form.write_stride),
        ];
        let side = problem.rhs;
        let strides = [0, 1].map(|i| problem.dims[i].rhs.stride);
        let mut base = side.offset + self.group as isize * side.group;
        for i in 0..2 {
            base += form.first_tap(read[i] + write[i]) as isize * strides[i];
        }
        let [down, across] = strides.map(|stride| stride * PHASE_STRIDE as isize);
        let plane = problem.f * columns + PLANE_PAD;
        for f in 0..problem.f {
            for lane in (0..columns).step_by(LANES) {
                let o = first + lane;
                let width = LANES.min(problem.o.saturating_sub(o));
                let base = base + f as isize * side.inner + o as isize * side.outer;
                let mut taps = [[[S::zero(); LANES]; TAPS]; TAPS];
                for (i, line) in taps.iter_mut().enumerate() {
                    for (j, tap) in line.iter_mut().enumerate() {
                        let at = base + i as isize * down + j as isize * across;
                        if side.outer == 1 {
                            let from = &rhs[at as usize..at as usize + width];
                            for (tap, x) in tap.iter_mut().zip(from) {
                                *tap = x.widen();
                            }
                            continue;
                        }
                        for (k, tap) in tap[..width].iter_mut().enumerate() {
                            *tap = rhs[(at + k as isize * side.outer) as usize].widen();
                        }
                    }
                }
                transform::filter(&mut out[f * columns + lane..], plane, &taps);
            }
        }
    }
}
