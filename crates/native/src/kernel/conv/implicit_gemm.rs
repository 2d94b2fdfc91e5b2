//! Implicit GEMM convolution: a GEMM whose unfolded operand (im2col) is never written to memory.
//!
//! Rows are output positions (of all images), columns are output features, and the contraction runs over taps and input
//! features. The filter is packed once, panel by panel. The input is read in place if its features are innermost and it
//! needs no padding; otherwise the part under a box of positions is copied into that layout. A row is then an offset, a
//! tap is an offset, and their sum is where the micro-kernel reads. Lines of positions whose windows lie partly in the
//! padding form tiles of their own, which skip that part (`tile_positions`); results whose features are not contiguous
//! are transposed from a staging buffer (`staging_buffer`).
#![allow(unsafe_code)]

use super::blocking::{self, Channels, Span};
use super::phases::PhasedAxis;
use super::staging_buffer::{self, StagingBuffer, squares};
use super::tile_positions::{Combo, Grid, PositionTile, Positions};
use super::{Axis, List, PACKED, PARALLEL, Problem, Real, SLAB};
use crate::memory::Scratch;
use crate::parallel::{self, TaskSlice};
use crate::simd::{TRANSPOSE_SIZE, TileJob, TileRows, TileShape, Tiled};
use std::ops::Range;

/// Tasks per thread to aim at, so that threads of uneven speed finish together. The order of sums does not depend on
/// the division, so results are bit-identical; more tasks would copy more of the overlap between boxes.
const TASKS: usize = 4;

/// The largest ratio of copied elements to window elements per position.
const MAX_COPY_RATIO: usize = 8;

/// Whether the input under one position fits a task's slab, or is not much more than its window reads: of a window with
/// a dilation of thousands, nearly everything under it is not read.
pub fn fits(problem: &Problem) -> bool {
    let dims = problem.dims.iter().map(PhasedAxis::spatial);
    let reach = dims.fold(problem.f, |n, cut| n.saturating_mul(cut.reach(1)));
    let (_, taps) = problem.positions();
    let read = taps.saturating_mul(problem.f);
    reach <= SLAB || reach <= read.saturating_mul(MAX_COPY_RATIO)
}

/// The division that all tasks share.
struct Plan<'a> {
    problem: &'a Problem,
    cuts: List<PhasedAxis>,
    shape: TileShape,
    /// Column panels per group.
    panels: usize,
    /// The number of parts that the panels of a task's group are divided into.
    parts: usize,
    counts: List<usize>,
    sizes: List<usize>,
    /// The positions of a box that are staged at a time, if features are not contiguous in the result.
    band: List<usize>,
    /// Whether the input is read in place.
    direct: bool,
    /// Strides of the input as the tiles read it, one per axis.
    strides: List<usize>,
    /// Elements of a copied box; 0 if the input is read in place.
    slab: usize,
    combos: Vec<Combo>,
    /// Elements of one panel for all phase combinations together.
    panel: usize,
}

impl<'a> Plan<'a> {
    fn new<T: Real>(problem: &'a Problem) -> Self {
        let mut cuts: List<PhasedAxis> = List::new();
        cuts.push(PhasedAxis::batch(
            problem.b,
            problem.lhs.outer,
            problem.out.outer,
        ));
        cuts.extend(problem.dims.iter().map(PhasedAxis::spatial));
        let counts: List<usize> = cuts.iter().map(|cut| cut.count).collect();
        let run = problem.dims.last().map_or(1, |dim| dim.out.size);
        let shape = T::Sum::tile_shape(problem.o, run);
        let reach = |sizes: &[usize]| -> List<usize> {
            cuts.iter()
                .zip(sizes)
                .map(|(cut, size)| cut.reach(*size))
                .collect()
        };
        let wanted = if problem.macs() < PARALLEL {
            1
        } else {
            TASKS * parallel::threads()
        };
        let sizes = blocking::divide(&counts, |sizes| {
            let slab = reach(sizes).iter().product::<usize>() * problem.f;
            let positions: usize = sizes.iter().product();
            let tasks = problem.groups * blocking::boxes(&counts, sizes);
            (slab <= SLAB || positions == 1) && (tasks >= wanted || positions <= 8 * shape.rows)
        });
        let direct = T::as_sums(&[]).is_some()
            && (problem.f == 1 || problem.lhs.inner == 1)
            && cuts.iter().all(PhasedAxis::is_inside);
        let reached = reach(&sizes);
        let strides = match direct {
            true => cuts.iter().map(|cut| cut.source.stride as usize).collect(),
            false => blocking::strides(&reached, problem.f),
        };
        let panels = problem.o.div_ceil(shape.columns);
        let boxes = problem.groups * blocking::boxes(&counts, &sizes);
        let parts = wanted.div_ceil(boxes).min(panels);
        let slab = if direct {
            0
        } else {
            reached.iter().product::<usize>() * problem.f
        };
        let mut plan = Plan {
            problem,
            shape,
            panels,
            parts,
            band: staging_buffer::band(&cuts, &sizes, shape.columns),
            counts,
            cuts,
            sizes,
            direct,
            strides,
            slab,
            combos: Vec::new(),
            panel: 0,
        };
        plan.combine();
        plan
    }

    /// The stride between positions that lets a whole tile be written in place: all features of its positions, and of
    /// the positions in between, belong to this task.
    fn own_step(&self) -> Option<usize> {
        let Problem { groups, o, out, .. } = *self.problem;
        let last = self.cuts.last()?;
        let own = (groups, self.parts, out.inner) == (1, 1, 1) && last.out.stride == o as isize;
        // The phases in between belong to the same box.
        own.then_some(o * last.phases.first()?.step)
    }

    /// Lists the combinations of phases with their taps.
    fn combine(&mut self) {
        let full: List<usize> = self.cuts.iter().map(|cut| cut.phases.len()).collect();
        let ones: List<usize> = full.iter().map(|_| 1).collect();
        let (f, columns) = (self.problem.f, self.shape.columns);
        // Lines shorter than a tile would leave most of the tile empty.
        let whole = self.counts.last().is_none_or(|&run| run < self.shape.rows);
        for index in 0..full.iter().product() {
            let phases = blocking::corner(&full, &ones, index);
            let combo = Combo::new(
                &self.cuts,
                phases,
                &self.strides,
                (f, columns),
                whole,
                self.panel,
            );
            self.panel += combo.taps.len() * f * columns;
            self.combos.push(combo);
        }
    }

    /// Packs panel `unit % panels` of group `unit / panels`, with columns innermost.
    fn pack<T: Real>(&self, out: &mut [T::Sum], rhs: &[T], unit: usize) {
        let Problem {
            f, o, rhs: side, ..
        } = *self.problem;
        let columns = self.shape.columns;
        let (group, first) = (unit / self.panels, unit % self.panels * columns);
        let width = columns.min(o - first);
        let base = side.offset + group as isize * side.group + first as isize * side.outer;
        if let (true, Some(rhs)) = (width == columns, T::as_sums(rhs))
            && self.pack_transposed(out, rhs, base)
        {
            return;
        }
        for combo in &self.combos {
            let out = &mut out[combo.start..combo.start + combo.taps.len() * f * columns];
            for f_i in 0..f {
                for (i, tap) in combo.taps.iter().enumerate() {
                    let at = base + f_i as isize * side.inner + tap;
                    let start = (i * f + f_i) * columns;
                    let out = &mut out[start..start + columns];
                    out[width..].fill(T::Sum::default());
                    if side.outer == 1 {
                        let at = at as usize;
                        for (out, x) in out.iter_mut().zip(&rhs[at..at + width]) {
                            *out = x.widen();
                        }
                    } else {
                        for (j, out) in out[..width].iter_mut().enumerate() {
                            *out = rhs[(at + j as isize * side.outer) as usize].widen();
                        }
                    }
                }
            }
        }
    }
}

impl Plan<'_> {
    /// Packs a whole panel by transposing squares, if taps and input features are contiguous in the filter: read one by
    /// one, each would touch its own cache line. Returns whether it did.
    fn pack_transposed<S: Tiled>(&self, out: &mut [S], rhs: &[S], base: isize) -> bool {
        let Problem { f, rhs: side, .. } = *self.problem;
        let columns = self.shape.columns;
        let taps = || self.combos.iter().flat_map(|combo| &combo.taps).copied();
        let (Some(low), Some(high)) = (taps().min(), taps().max()) else {
            return false;
        };
        let (reach, apart) = ((high - low + 1) as usize, side.inner as usize);
        let dense = side.inner > 0 && (apart == 1 || (reach..=2 * reach).contains(&apart));
        let fits = dense
            && side.outer >= TRANSPOSE_SIZE as isize
            && columns.is_multiple_of(TRANSPOSE_SIZE);
        if !fits || f == 0 {
            return false;
        }
        // Along features alone, or along features and the taps that lie between them.
        let (len, runs) = match apart {
            1 => (f, self.combos.iter().map(|combo| combo.taps.len()).sum()),
            _ => ((f - 1) * apart + reach, 1),
        };
        if len < TRANSPOSE_SIZE {
            return false;
        }
        // The destination of the first feature of each tap; if taps lie between features, ordered by their position
        // there.
        let mut order: Vec<(isize, usize)> = Vec::new();
        for combo in &self.combos {
            let row = |i: usize| combo.start + i * f * columns;
            order.extend(combo.taps.iter().enumerate().map(|(i, &tap)| (tap, row(i))));
        }
        let mut rows = vec![None; if apart == 1 { 0 } else { reach }];
        for (tap, row) in order.iter().filter(|_| apart != 1) {
            // A broadcast filter has two rows at one position.
            if rows[(tap - low) as usize].replace(*row).is_some() {
                return false;
            }
        }
        let mut square = [S::default(); TRANSPOSE_SIZE * TRANSPOSE_SIZE];
        for &(tap, row) in order.iter().take(runs) {
            let start = base + if apart == 1 { tap } else { low };
            for at in squares(len) {
                for column in (0..columns).step_by(TRANSPOSE_SIZE) {
                    let from = start + at as isize + column as isize * side.outer;
                    let from = (&rhs[from as usize..], side.outer as usize);
                    if apart == 1 {
                        let to = row + at * columns + column;
                        S::transpose16(from, (&mut out[to..], columns));
                        continue;
                    }
                    S::transpose16(from, (&mut square, TRANSPOSE_SIZE));
                    for (e, line) in (at..).zip(square.as_chunks::<TRANSPOSE_SIZE>().0) {
                        let row = rows.get(e % apart).copied().flatten();
                        let to = row.map(|row| row + e / apart * columns + column);
                        let to = to.and_then(|to| out[to..].first_chunk_mut::<TRANSPOSE_SIZE>());
                        if let Some(to) = to {
                            *to = *line;
                        }
                    }
                }
            }
        }
        true
    }
}

/// A thread's workspace, reused between tasks.
struct Workspace<S> {
    slab: Scratch<S>,
    tile: Vec<S>,
    positions: Positions,
    /// A band of positions with features innermost, for results whose features are not contiguous.
    stage: Vec<S>,
}

/// Solves `problem`.
pub(super) fn run<T: Real>(out: &mut [T], lhs: &[T], rhs: &[T], problem: &Problem) {
    let plan = Plan::new::<T>(problem);
    let units = problem.groups * plan.panels;
    let per_round = (PACKED / plan.panel.max(1)).clamp(1, units);
    let mut packed = Scratch::<T::Sum>::unzeroed(per_round * plan.panel);
    let boxes = blocking::boxes(&plan.counts, &plan.sizes);
    for first in (0..units).step_by(per_round) {
        let end = units.min(first + per_round);
        if plan.panel > 0 {
            let small = (PARALLEL / 16).div_ceil(plan.panel) * plan.panel;
            let packed = &mut packed[..(end - first) * plan.panel];
            parallel::for_chunks_mut(packed, small, |start, packed| {
                for (i, packed) in packed.chunks_exact_mut(plan.panel).enumerate() {
                    plan.pack(packed, rhs, first + start / plan.panel + i);
                }
            });
        }
        let groups = first / plan.panels..(end - 1) / plan.panels + 1;
        let make = || Workspace {
            slab: Scratch::unzeroed(plan.slab),
            tile: vec![T::Sum::default(); plan.shape.rows * plan.shape.columns],
            positions: Positions::default(),
            stage: Vec::new(),
        };
        let tasks = groups.len() * boxes * plan.parts;
        // SAFETY: a task has a box of positions of one group and some panels of its features.
        let disjoint = unsafe { parallel::Disjoint::promise() };
        parallel::for_disjoint(disjoint, out, tasks, make, |workspace, task, out| {
            let (part, rest) = (task % plan.parts, task / plan.parts);
            let (index, group) = (rest % boxes, groups.start + rest / boxes);
            // The panels of this group and part that the round holds.
            let share = plan.panels.div_ceil(plan.parts);
            let from = (group * plan.panels + part * share).max(first);
            let to = (group * plan.panels + plan.panels.min((part + 1) * share)).min(end);
            let units = from..to;
            if !units.is_empty() {
                let panels = units.map(|unit| {
                    let start = (unit - first) * plan.panel;
                    (unit % plan.panels, &packed[start..start + plan.panel])
                });
                solve_box::<T>(&plan, workspace, lhs, index, group, panels, out);
            }
        });
    }
}

/// Computes the results of one box of positions and the given column panels.
fn solve_box<'p, T: Real>(
    plan: &Plan<'_>,
    workspace: &mut Workspace<T::Sum>,
    lhs: &[T],
    index: usize,
    group: usize,
    panels: impl Iterator<Item = (usize, &'p [T::Sum])> + Clone,
    out: &mut TaskSlice<'_, T>,
) {
    let problem = plan.problem;
    let corner = blocking::corner(&plan.counts, &plan.sizes, index);
    let lhs_base = problem.lhs.offset + group as isize * problem.lhs.group;
    let spans: List<Span> = plan
        .cuts
        .iter()
        .zip(corner.iter().zip(&plan.sizes))
        .map(|(cut, (&start, &size))| Span {
            axis: cut.source,
            start: (start * cut.advance) as isize + cut.first,
            size: cut.reach(size),
        })
        .collect();
    let Workspace {
        slab,
        tile,
        positions,
        stage,
    } = workspace;
    let in_place = if plan.direct { T::as_sums(lhs) } else { None };
    let (input, base): (&[T::Sum], usize) = match in_place {
        Some(lhs) => {
            let skipped = |span: &Span| span.start * span.axis.stride;
            (
                lhs,
                (lhs_base + spans.iter().map(skipped).sum::<isize>()) as usize,
            )
        }
        None => {
            let axis = Axis {
                size: problem.f,
                stride: problem.lhs.inner,
            };
            let pitch = problem.f;
            blocking::fill(slab, lhs, lhs_base, &spans, Channels { axis, pitch });
            (slab, 0)
        }
    };
    let out_base = problem.out.offset + group as isize * problem.out.group;
    let whole: List<Range<usize>> = (0..corner.len())
        .map(|i| corner[i]..plan.counts[i].min(corner[i] + plan.sizes[i]))
        .collect();
    let Problem { o, out: side, .. } = *problem;
    let (rows, columns) = (plan.shape.rows, plan.shape.columns);
    let shape = plan.shape;
    if side.inner == 1 {
        let write_strides: List<isize> = plan.cuts.iter().map(|cut| cut.out.stride).collect();
        let own_step = plan.own_step();
        for combo in &plan.combos {
            let grid = Grid {
                cuts: &plan.cuts,
                combo,
                positions: &whole,
                read: base,
                read_strides: &plan.strides,
                write: out_base,
                write_strides: &write_strides,
            };
            positions.list(&grid, rows);
            run_tiles(
                plan,
                combo,
                positions,
                input,
                &panels,
                |job, panel, tile_at| {
                    let first = panel * columns;
                    let width = columns.min(o - first);
                    let writes = &positions.writes[tile_at.positions.clone()];
                    let own = width == columns && tile_at.write_step == own_step;
                    if let (true, Some(step)) = (own, own_step) {
                        let run = out.slice(writes[0] + first, (rows - 1) * step + width);
                        if let Some(run) = T::as_sums_mut(run) {
                            job.out_step = step;
                            return T::Sum::tile(shape, job, run);
                        }
                    }
                    T::Sum::tile(shape, job, tile);
                    for (sums, &start) in tile.chunks_exact(columns).zip(writes) {
                        let out = out.slice(start + first, width);
                        for (out, &sum) in out.iter_mut().zip(sums) {
                            *out = T::narrow(sum);
                        }
                    }
                },
            );
        }
        return;
    }
    let sizes: List<usize> = whole.iter().map(Range::len).collect();
    for index in 0..blocking::boxes(&sizes, &plan.band) {
        let shift = blocking::corner(&sizes, &plan.band, index);
        let mut read = base;
        let mut band: List<Range<usize>> = List::new();
        for (i, range) in whole.iter().enumerate() {
            let start = range.start + shift[i];
            band.push(start..range.end.min(start + plan.band[i]));
            read += shift[i] * plan.cuts[i].advance * plan.strides[i];
        }
        let held = StagingBuffer::new(&plan.cuts, &band, columns);
        stage.resize(stage.len().max(held.len(columns)), T::Sum::default());
        for (panel, packed) in panels.clone() {
            let one = std::iter::once((panel, packed));
            for combo in &plan.combos {
                let grid = Grid {
                    cuts: &plan.cuts,
                    combo,
                    positions: &band,
                    read,
                    read_strides: &plan.strides,
                    write: held.origin(),
                    write_strides: &held.strides,
                };
                positions.list(&grid, rows);
                run_tiles(plan, combo, positions, input, &one, |job, _, tile_at| {
                    let writes = &positions.writes[tile_at.positions.clone()];
                    if let Some(step) = tile_at.write_step.filter(|&step| step >= columns) {
                        job.out_step = step;
                        return T::Sum::tile(shape, job, &mut stage[writes[0]..]);
                    }
                    T::Sum::tile(shape, job, tile);
                    for (sums, &start) in tile.chunks_exact(columns).zip(writes) {
                        stage[start..start + columns].copy_from_slice(sums);
                    }
                });
            }
            let first = panel * columns;
            let to = out_base + first as isize * side.inner;
            held.write(
                stage,
                (columns, columns.min(o - first)),
                out,
                to,
                side.inner,
            );
        }
    }
}

/// Tiles that are computed for one panel before the next panel: what they read stays in L2.
const TILES: usize = 16;

/// Passes the tiles of a combination to `put`, with their panel and their positions.
fn run_tiles<'p, S: Tiled>(
    plan: &Plan<'_>,
    combo: &Combo,
    positions: &Positions,
    input: &[S],
    panels: &(impl Iterator<Item = (usize, &'p [S])> + Clone),
    mut put: impl FnMut(&mut TileJob<'_, S>, usize, &PositionTile),
) {
    let TileShape { rows, columns } = plan.shape;
    let mut padded = [0; 32];
    for some in positions.tiles.chunks(TILES) {
        for (panel, packed) in panels.clone() {
            for tile in some {
                let reads = &positions.reads[tile.positions.clone()];
                let rows = match tile.read_step {
                    Some(step) => TileRows::Uniform(reads[0], step),
                    None => {
                        // A combination with fewer positions than one tile repeats its last row; the repeats are not
                        // stored.
                        padded[..reads.len()].copy_from_slice(reads);
                        padded[reads.len()..rows].fill(reads[reads.len() - 1]);
                        TileRows::new(&padded[..rows])
                    }
                };
                let mut job = TileJob {
                    a: input,
                    rows,
                    a_step: 1,
                    b: &packed[combo.start..],
                    b_step: columns,
                    segments: &combo.segments[tile.kind],
                    accumulate: false,
                    out_step: columns,
                };
                put(&mut job, panel, tile);
            }
        }
    }
}
