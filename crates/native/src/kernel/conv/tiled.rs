//! Convolution as a matrix product that is never written down.
//!
//! Rows are output places (of all images), columns are output features, and the contraction runs over
//! taps and input features. The filter is packed once, column panel by column panel. The input is
//! read in place where it has its features innermost and needs no padding; else the part under a box
//! of places is copied that way. A row is then an offset, a tap is an offset, and their sum is where
//! the register tile reads, so nothing is unfolded.

use super::cut::{Cut, Phase};
use super::slab::{self, Channels, Span};
use super::{Axis, List, PACKED, PARALLEL, Problem, Real, SLAB};
use crate::memory::Room;
use crate::parallel::{self, Part};
use crate::simd::{Segment, TileJob, TileShape, Tiled};

/// Tasks of each thread to aim at, so that threads of uneven speed finish together. Each result is summed in one order however they
/// are divided, so their number shows in no bit; more of them would copy more of what lies around their boxes.
const TASKS: usize = 4;

/// Everything about the division that the tasks share.
struct Plan<'a> {
    problem: &'a Problem,
    cuts: List<Cut>,
    shape: TileShape,
    /// Column panels per group.
    panels: usize,
    /// Into how many parts the panels of a task's group are divided.
    parts: usize,
    counts: List<usize>,
    sizes: List<usize>,
    /// Whether the input is read in place.
    direct: bool,
    /// Strides of the input as the tiles read it, one per cut.
    strides: List<usize>,
    /// Elements of a copied box; 0 when read in place.
    slab: usize,
    combos: Vec<Combo>,
    /// Elements that one panel takes for all combinations together.
    panel: usize,
}

/// One phase of each axis.
struct Combo {
    phases: List<usize>,
    /// Taps as stretches of the contraction; `b` counts from the start of a panel.
    segments: Vec<Segment>,
    /// Where each tap is in the filter.
    taps: Vec<isize>,
    /// Where the combination's part of a panel begins.
    start: usize,
}

impl<'a> Plan<'a> {
    fn new<T: Real>(problem: &'a Problem) -> Self {
        let mut cuts: List<Cut> = List::new();
        cuts.push(Cut::batch(problem.b, problem.lhs.outer, problem.out.outer));
        cuts.extend(problem.dims.iter().map(Cut::spatial));
        let counts: List<usize> = cuts.iter().map(|cut| cut.count).collect();
        let run = problem.dims.last().map_or(1, |dim| dim.out.size);
        let shape = T::Sum::tile_shape(problem.o, run);
        let reach = |sizes: &[usize]| -> List<usize> {
            cuts.iter()
                .zip(sizes)
                .map(|(cut, size)| cut.reach(*size))
                .collect()
        };
        let wanted = if problem.products() < PARALLEL {
            1
        } else {
            TASKS * parallel::threads()
        };
        let sizes = slab::divide(&counts, |sizes| {
            let slab = reach(sizes).iter().product::<usize>() * problem.f;
            let places: usize = sizes.iter().product();
            let tasks = problem.groups * slab::boxes(&counts, sizes);
            (slab <= SLAB || places == 1) && (tasks >= wanted || places <= 8 * shape.rows)
        });
        let direct = T::as_sums(&[]).is_some()
            && (problem.f == 1 || problem.lhs.inner == 1)
            && cuts.iter().all(Cut::is_inside);
        let reached = reach(&sizes);
        let strides = match direct {
            true => cuts.iter().map(|cut| cut.source.stride as usize).collect(),
            false => slab::strides(&reached, problem.f),
        };
        let panels = problem.o.div_ceil(shape.columns);
        let boxes = problem.groups * slab::boxes(&counts, &sizes);
        let parts = wanted.div_ceil(boxes).min(panels);
        let slab = if direct {
            0
        } else {
            reached.iter().product::<usize>() * problem.f
        };
        let mut plan = Plan {
            problem,
            cuts,
            shape,
            panels,
            parts,
            counts,
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

    /// Whether these are a tile's places, one right after the other in the result and all features of them this task's own,
    /// so that sums can be left where they belong.
    fn is_own_run(&self, writes: &[usize], width: usize) -> bool {
        let Problem { groups, o, out, .. } = *self.problem;
        let follow = |pair: &[usize]| pair[0] + o == pair[1];
        (groups, self.parts, out.inner) == (1, 1, 1)
            && (writes.len(), width) == (self.shape.rows, self.shape.columns)
            && writes.windows(2).all(follow)
    }

    /// Lists the combinations of phases with their taps.
    fn combine(&mut self) {
        let full: List<usize> = self.cuts.iter().map(|cut| cut.phases.len()).collect();
        let ones: List<usize> = full.iter().map(|_| 1).collect();
        for index in 0..full.iter().product() {
            let phases = slab::corner(&full, &ones, index);
            // Offsets in the input and in the filter, built up axis by axis.
            let mut taps = vec![(0usize, 0isize)];
            for ((cut, &phase), &stride) in self.cuts.iter().zip(&phases).zip(&self.strides) {
                taps = taps
                    .iter()
                    .flat_map(|&(x, w)| {
                        let reads = cut.phases[phase].taps.iter();
                        reads.map(move |&(t, at)| {
                            (
                                x + (at - cut.first) as usize * stride,
                                w + t as isize * cut.rhs,
                            )
                        })
                    })
                    .collect();
            }
            let (f, columns) = (self.problem.f, self.shape.columns);
            let mut segments: Vec<Segment> = Vec::new();
            for (i, &(a, _)) in taps.iter().enumerate() {
                match segments.last_mut() {
                    // Taps that are neighbours in the input as well are one stretch.
                    Some(last) if last.a + last.len == a => last.len += f,
                    _ => segments.push(Segment {
                        a,
                        b: i * f * columns,
                        len: f,
                    }),
                }
            }
            let start = self.panel;
            self.panel += taps.len() * f * columns;
            self.combos.push(Combo {
                phases,
                segments,
                taps: taps.into_iter().map(|tap| tap.1).collect(),
                start,
            });
        }
    }

    /// Lays the columns of panel `unit % panels` of group `unit / panels` side by side.
    fn pack<T: Real>(&self, out: &mut [T::Sum], rhs: &[T], unit: usize) {
        let Problem {
            f, o, rhs: side, ..
        } = *self.problem;
        let columns = self.shape.columns;
        let (group, first) = (unit / self.panels, unit % self.panels * columns);
        let width = columns.min(o - first);
        let base = side.offset + group as isize * side.group + first as isize * side.outer;
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

/// What a thread keeps between tasks.
struct Workspace<S> {
    slab: Room<S>,
    tile: Vec<S>,
    /// Offsets of the places of a box: in the input as read, and in the result.
    reads: Vec<usize>,
    writes: Vec<usize>,
}

/// Solves `problem`.
pub(super) fn run<T: Real>(out: &mut [T], lhs: &[T], rhs: &[T], problem: &Problem) {
    let plan = Plan::new::<T>(problem);
    let units = problem.groups * plan.panels;
    let per_round = (PACKED / plan.panel.max(1)).clamp(1, units);
    let mut packed = Room::<T::Sum>::new(per_round * plan.panel);
    let boxes = slab::boxes(&plan.counts, &plan.sizes);
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
            slab: Room::new(plan.slab),
            tile: vec![T::Sum::default(); plan.shape.rows * plan.shape.columns],
            reads: Vec::new(),
            writes: Vec::new(),
        };
        let tasks = groups.len() * boxes * plan.parts;
        parallel::for_disjoint(out, tasks, make, |workspace, task, out| {
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

/// Computes the results of one box of places and the given column panels.
fn solve_box<'p, T: Real>(
    plan: &Plan<'_>,
    workspace: &mut Workspace<T::Sum>,
    lhs: &[T],
    index: usize,
    group: usize,
    panels: impl Iterator<Item = (usize, &'p [T::Sum])> + Clone,
    out: &mut Part<'_, T>,
) {
    let problem = plan.problem;
    let corner = slab::corner(&plan.counts, &plan.sizes, index);
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
        reads,
        writes,
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
            slab::fill(slab, lhs, lhs_base, &spans, Channels { axis, pitch });
            (slab, 0)
        }
    };
    let out_base = problem.out.offset + group as isize * problem.out.group;
    for combo in &plan.combos {
        reads.clear();
        writes.clear();
        list_places(plan, combo, &corner, base, out_base, reads, writes);
        for (panel, packed) in panels.clone() {
            let first = panel * plan.shape.columns;
            let width = plan.shape.columns.min(problem.o - first);
            let rows = plan.shape.rows;
            let mut padded = [0; 32];
            for (reads, writes) in reads.chunks(rows).zip(writes.chunks(rows)) {
                // A short last tile repeats its last row; the repeats are not stored.
                padded[..reads.len()].copy_from_slice(reads);
                padded[reads.len()..rows].fill(reads[reads.len() - 1]);
                let mut job = TileJob {
                    a: input,
                    rows: &padded[..rows],
                    a_step: 1,
                    b: &packed[combo.start..],
                    b_step: plan.shape.columns,
                    segments: &combo.segments,
                    accumulate: false,
                    out_step: plan.shape.columns,
                };
                if plan.is_own_run(writes, width) {
                    let len = (rows - 1) * problem.o + width;
                    let run = out.slice(writes[0] + first, len);
                    if let Some(run) = T::as_sums_mut(run) {
                        job.out_step = problem.o;
                        T::Sum::tile(plan.shape, &job, run);
                        continue;
                    }
                }
                T::Sum::tile(plan.shape, &job, tile);
                let shift = first as isize * problem.out.inner;
                store::<T>(
                    tile,
                    plan.shape.columns,
                    width,
                    writes,
                    shift,
                    problem.out.inner,
                    out,
                );
            }
        }
    }
}

/// Appends the places of a box that belong to a combination of phases.
fn list_places(
    plan: &Plan<'_>,
    combo: &Combo,
    corner: &[usize],
    base: usize,
    out_base: isize,
    reads: &mut Vec<usize>,
    writes: &mut Vec<usize>,
) {
    fn go(
        axes: &[(&Cut, &Phase, usize, usize, usize)],
        read: usize,
        write: isize,
        reads: &mut Vec<usize>,
        writes: &mut Vec<usize>,
    ) {
        let Some((&(cut, phase, start, end, stride), inner)) = axes.split_first() else {
            reads.push(read);
            writes.push(write as usize);
            return;
        };
        let places = (start..end.min(phase.count)).map(|q| {
            let read = read + (q - start) * cut.advance * stride;
            let write = write + (phase.first + q * phase.step) as isize * cut.out.stride;
            (read, write)
        });
        if inner.is_empty() {
            reads.extend(places.clone().map(|(read, _)| read));
            writes.extend(places.map(|(_, write)| write as usize));
            return;
        }
        for (read, write) in places {
            go(inner, read, write, reads, writes);
        }
    }
    let axes: List<_> = (0..plan.cuts.len())
        .map(|i| {
            let cut = &plan.cuts[i];
            let phase = &cut.phases[combo.phases[i]];
            (
                cut,
                phase,
                corner[i],
                corner[i] + plan.sizes[i],
                plan.strides[i],
            )
        })
        .collect();
    go(&axes, base, out_base, reads, writes);
}

/// Writes the valid part of a tile, one output feature after the other or place after place,
/// whichever is contiguous.
fn store<T: Real>(
    tile: &[T::Sum],
    columns: usize,
    width: usize,
    writes: &[usize],
    shift: isize,
    stride: isize,
    out: &mut Part<'_, T>,
) {
    if stride == 1 {
        for (tile, &start) in tile.chunks_exact(columns).zip(writes) {
            let out = out.slice((start as isize + shift) as usize, width);
            for (out, &sum) in out.iter_mut().zip(tile) {
                *out = T::narrow(sum);
            }
        }
        return;
    }
    let step = match writes {
        [first, second, ..] => second.wrapping_sub(*first),
        _ => 1,
    };
    let even = writes
        .windows(2)
        .all(|pair| pair[1].wrapping_sub(pair[0]) == step);
    let run = (even && step == 1).then_some(writes.len());
    for j in 0..width {
        let shift = shift + j as isize * stride;
        let column = tile[j..].iter().step_by(columns);
        match run {
            Some(run) => {
                let out = out.slice((writes[0] as isize + shift) as usize, run);
                for (out, &sum) in out.iter_mut().zip(column) {
                    *out = T::narrow(sum);
                }
            }
            None => {
                for (&start, &sum) in writes.iter().zip(column) {
                    out.set((start as isize + shift) as usize, T::narrow(sum));
                }
            }
        }
    }
}
