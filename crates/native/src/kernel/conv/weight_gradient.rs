//! Convolution whose window is the long axis of the contraction: the shape of a weight gradient.
//!
//! Rows are pairs of an output position and an image (for a gradient: filter tap and input feature), columns are output
//! features, and the contraction runs along the window and the features (positions and images). Input and filter are
//! copied chunk by chunk with images and output features innermost; the sums of all tiles are kept from chunk to chunk.
//! Each of a fixed number of tasks sums its share of the chunks, so a thread reads what it has copied itself; if the
//! result is large, tasks have tiles instead of chunks.
#![allow(unsafe_code)]

use super::blocking::{self, Channels, Span};
use super::problem::{Dim, Side};
use super::reduce_tasks;
use super::{Axis, List, PACKED, PARALLEL, Problem, Real, SLAB};
use crate::memory::Scratch;
use crate::parallel::{self, Columns, TaskSlice};
use crate::simd::{Segment, TileJob, TileRows, TileShape, Tiled, fitting_shape, uniform_step};

/// The number of groups from which each is one task.
const MANY_GROUPS: usize = 4;

/// Tasks to divide the chunks into, and the fewest that are worth it.
const TASKS: (usize, usize) = (16, 4);

/// MACs per pass of a register tile: this much of the filter's copy stays in L1.
const LONG: usize = 256;

/// Lines of positions from which on listing their taps costs more than it saves.
const MANY_LINES: usize = 32;

/// A pitch at which consecutive runs do not map to the same few sets of L1.
fn spaced(width: usize) -> usize {
    if width.is_multiple_of(256) {
        width + 16
    } else {
        width
    }
}

/// Segments of a chunk, one per line along the last axis of the window.
struct Segments {
    /// The segments outside of the padding for each line of positions; empty if nothing is skipped.
    by_line: Vec<Vec<Segment>>,
    all: Vec<Segment>,
}

impl Segments {
    fn of(&self, line: Option<usize>) -> &[Segment] {
        line.and_then(|line| self.by_line.get(line))
            .unwrap_or(&self.all)
    }
}

/// The contraction divided into chunks, and the result into tiles.
struct Plan<'a> {
    problem: &'a Problem,
    shape: TileShape,
    /// Sizes of the contraction: features, then the window.
    full: List<usize>,
    /// The same for one chunk.
    sizes: List<usize>,
    /// Elements of the copied input and filter of a chunk; 0 if read in place.
    left: usize,
    right: usize,
    /// Whether the input and the filter are read in place.
    left_direct: bool,
    right_direct: bool,
    left_strides: List<usize>,
    right_strides: List<usize>,
    /// Pitches of copied runs of images and of output features; the latter holds whole tiles.
    left_pitch: usize,
    pitch: usize,
    /// One entry per row: its offset in the copied input, and in the result.
    rows: Vec<(usize, isize)>,
    /// The rows' read offsets, in whole tiles, and the stride within each tile, if it is constant.
    offsets: Vec<usize>,
    apart: Vec<Option<usize>>,
    /// The rows in the order of the result.
    order: Vec<usize>,
    row_tiles: usize,
    /// Lines of positions along the last axis of the result, if their segments differ.
    position_lines: Vec<List<usize>>,
}

impl<'a> Plan<'a> {
    fn new<T: Real>(problem: &'a Problem) -> Self {
        let shape = fitting_shape::<T::Sum>(problem.b * problem.positions().0, problem.o);
        let (left_pitch, pitch) = (
            spaced(problem.b),
            spaced(problem.o.next_multiple_of(shape.columns)),
        );
        let window = problem.dims.iter().map(|dim| dim.rhs.size);
        let full: List<usize> = std::iter::once(problem.f).chain(window).collect();
        let reach = |sizes: &[usize]| -> List<usize> {
            let inner = problem.dims.iter().zip(&sizes[1..]);
            let inner = inner
                .map(|(dim, size)| (size - 1) * dim.spread + (dim.out.size - 1) * dim.step + 1);
            std::iter::once(sizes[0]).chain(inner).collect()
        };
        let elements = |sizes: &[usize]| {
            let left = reach(sizes).iter().product::<usize>() * left_pitch;
            (left, sizes.iter().product::<usize>() * pitch)
        };
        let sizes = blocking::divide(&full, |sizes| {
            let (left, right) = elements(sizes);
            left + right <= SLAB / 2 && sizes.iter().product::<usize>() <= LONG
        });
        let (left, right) = elements(&sizes);
        let same = T::as_sums(&[]).is_some();
        let left_direct = same
            && (problem.b == 1 || problem.lhs.outer == 1)
            && problem.lhs.inner >= 0
            && problem.dims.iter().all(|dim| {
                let last = (dim.rhs.size - 1) * dim.spread + (dim.out.size - 1) * dim.step;
                dim.lhs.stride >= 0 && dim.lo <= 0 && last as isize - dim.lo < dim.lhs.size as isize
            });
        // Whole tiles only: a tile reads all its columns.
        let right_direct = same
            && problem.rhs.outer == 1
            && problem.o.is_multiple_of(shape.columns)
            && problem.rhs.inner >= 0
            && problem.dims.iter().all(|dim| dim.rhs.stride >= 0);
        let in_place = |inner: isize, stride: fn(&Dim) -> isize| -> List<usize> {
            let dims = problem.dims.iter().map(stride);
            std::iter::once(inner)
                .chain(dims)
                .map(|stride| stride as usize)
                .collect()
        };
        let left_strides = match left_direct {
            true => in_place(problem.lhs.inner, |dim| dim.lhs.stride),
            false => blocking::strides(&reach(&sizes), left_pitch),
        };
        let right_strides = match right_direct {
            true => in_place(problem.rhs.inner, |dim| dim.rhs.stride),
            false => blocking::strides(&sizes, pitch),
        };
        let outer = &problem.dims[..problem.dims.len().saturating_sub(1)];
        let outer: List<usize> = outer.iter().map(|dim| dim.out.size).collect();
        let ones: List<usize> = outer.iter().map(|_| 1).collect();
        let lines: usize = outer.iter().product();
        let lines = if lines > MANY_LINES { 0 } else { lines };
        let mut plan = Plan {
            problem,
            shape,
            full,
            sizes,
            left: if left_direct { 0 } else { left },
            right: if right_direct { 0 } else { right },
            left_direct,
            right_direct,
            left_strides,
            right_strides,
            left_pitch,
            pitch,
            rows: Vec::new(),
            offsets: Vec::new(),
            apart: Vec::new(),
            order: Vec::new(),
            row_tiles: 0,
            position_lines: (0..lines)
                .map(|line| blocking::corner(&outer, &ones, line))
                .collect(),
        };
        plan.list_rows();
        plan
    }

    fn list_rows(&mut self) {
        let mut positions = vec![(0usize, 0isize)];
        for (dim, stride) in self.problem.dims.iter().zip(&self.left_strides[1..]) {
            positions = positions
                .iter()
                .flat_map(|&(read, write)| {
                    (0..dim.out.size).map(move |p| {
                        (
                            read + p * dim.step * stride,
                            write + p as isize * dim.out.stride,
                        )
                    })
                })
                .collect();
        }
        let outer = self.problem.out.outer;
        self.rows = positions
            .iter()
            .flat_map(|&(read, write)| {
                (0..self.problem.b).map(move |b| (read + b, write + b as isize * outer))
            })
            .collect();
        self.row_tiles = self.rows.len().div_ceil(self.shape.rows);
        let last = self.rows.len() - 1;
        let rows = 0..self.row_tiles * self.shape.rows;
        self.offsets = rows.map(|row| self.rows[row.min(last)].0).collect();
        let tiles = self.offsets.chunks_exact(self.shape.rows);
        self.apart = tiles.map(uniform_step).collect();
        self.order = (0..self.rows.len()).collect();
        self.order.sort_unstable_by_key(|&row| self.rows[row].1);
    }

    fn tiles(&self) -> usize {
        self.row_tiles * self.problem.o.div_ceil(self.shape.columns)
    }

    /// Copies chunk `index` of a group: the input under it, then its part of the filter.
    fn fill<T: Real>(&self, out: &mut [T::Sum], lhs: &[T], rhs: &[T], group: usize, index: usize) {
        let problem = self.problem;
        let corner = blocking::corner(&self.full, &self.sizes, index);
        let (left, right) = out.split_at_mut(self.left);
        let mut lhs_spans: List<Span> = List::new();
        let mut rhs_spans: List<Span> = List::new();
        let features = |stride: isize| Span {
            axis: Axis {
                size: problem.f,
                stride,
            },
            start: corner[0] as isize,
            size: self.sizes[0],
        };
        lhs_spans.push(features(problem.lhs.inner));
        rhs_spans.push(features(problem.rhs.inner));
        for (i, dim) in problem.dims.iter().enumerate() {
            let (start, size) = (corner[i + 1], self.sizes[i + 1]);
            lhs_spans.push(Span {
                axis: dim.lhs,
                start: (start * dim.spread) as isize - dim.lo,
                size: (size - 1) * dim.spread + (dim.out.size - 1) * dim.step + 1,
            });
            rhs_spans.push(Span {
                axis: dim.rhs,
                start: start as isize,
                size,
            });
        }
        let channels = |size, stride, pitch| Channels {
            axis: Axis { size, stride },
            pitch,
        };
        let offset = problem.lhs.offset + group as isize * problem.lhs.group;
        let images = channels(problem.b, problem.lhs.outer, self.left_pitch);
        if !self.left_direct {
            blocking::fill(left, lhs, offset, &lhs_spans, images);
        }
        let offset = problem.rhs.offset + group as isize * problem.rhs.group;
        let features = channels(problem.o, problem.rhs.outer, self.pitch);
        if !self.right_direct {
            blocking::fill(right, rhs, offset, &rhs_spans, features);
        }
    }

    /// Chunk `index` of a group as the tiles read it: from its copy, or in place.
    fn chunk<'c, T: Real>(
        &self,
        copy: &'c [T::Sum],
        lhs: &'c [T],
        rhs: &'c [T],
        group: usize,
        index: usize,
    ) -> (&'c [T::Sum], &'c [T::Sum]) {
        let corner = blocking::corner(&self.full, &self.sizes, index);
        let start = |side: &Side, strides: &[usize]| {
            let positions = corner.iter().zip(strides).map(|(&at, &stride)| at * stride);
            (side.offset + group as isize * side.group) as usize + positions.sum::<usize>()
        };
        let (left, right) = copy.split_at(self.left);
        let (mut left, mut right) = (left, right);
        if let (true, Some(lhs)) = (self.left_direct, T::as_sums(lhs)) {
            // A position along the window is `spread` elements of the input, and padding is negative.
            let dims = self.problem.dims.iter();
            let spread = std::iter::once(1).chain(dims.clone().map(|dim| dim.spread));
            let strides: List<usize> = self
                .left_strides
                .iter()
                .zip(spread)
                .map(|(s, d)| s * d)
                .collect();
            let skipped = dims
                .zip(&self.left_strides[1..])
                .map(|(dim, stride)| dim.lo.unsigned_abs() * stride);
            left = &lhs[start(&self.problem.lhs, &strides) + skipped.sum::<usize>()..];
        }
        if let (true, Some(rhs)) = (self.right_direct, T::as_sums(rhs)) {
            right = &rhs[start(&self.problem.rhs, &self.right_strides)..];
        }
        (left, right)
    }

    /// The segments of chunk `index`.
    fn segments(&self, index: usize) -> Segments {
        let corner = blocking::corner(&self.full, &self.sizes, index);
        let last = self.full.len() - 1;
        let count = |i: usize| self.sizes[i].min(self.full[i] - corner[i]);
        let counts: List<usize> = (0..last).map(count).collect();
        let ones: List<usize> = counts.iter().map(|_| 1).collect();
        let dims = &self.problem.dims[..last.saturating_sub(1)];
        let inside = |dim: &Dim, t: usize, p: usize| {
            let read = (t * dim.spread + p * dim.step) as isize - dim.lo;
            (0..dim.lhs.size as isize).contains(&read)
        };
        let bordered = dims.iter().enumerate().any(|(i, dim)| {
            let (t, size) = (corner[i + 1], dim.out.size);
            !inside(dim, t, 0) || !inside(dim, t + count(i + 1) - 1, size - 1)
        });
        let lines = match bordered {
            true => &self.position_lines[..],
            false => &[],
        };
        let mut segments = Segments {
            by_line: vec![Vec::new(); lines.len()],
            all: Vec::new(),
        };
        for line in 0..counts.iter().product() {
            let at = blocking::corner(&counts, &ones, line);
            let (mut a, mut b) = (0, 0);
            for (i, &at) in at.iter().enumerate() {
                let spread = match i {
                    0 => 1,
                    _ => self.problem.dims[i - 1].spread,
                };
                a += at * spread * self.left_strides[i];
                b += at * self.right_strides[i];
            }
            let segment = Segment {
                a,
                b,
                len: count(last),
            };
            for (p, segments) in lines.iter().zip(&mut segments.by_line) {
                let meets = |(i, dim)| inside(dim, corner[i + 1] + at[i + 1], p[i]);
                if dims.iter().enumerate().all(meets) {
                    segments.push(segment);
                }
            }
            segments.all.push(segment);
        }
        segments
    }

    /// The line of positions that a tile belongs to, if it is only one.
    fn line_of(&self, tile: usize) -> Option<usize> {
        let width = self.problem.dims.last().map_or(1, |dim| dim.out.size);
        let line = |row: usize| row.min(self.rows.len() - 1) / self.problem.b / width;
        let first = line(tile * self.shape.rows);
        let last = line((tile + 1) * self.shape.rows - 1);
        (first == last).then_some(first)
    }

    /// Adds the products of one chunk to consecutive tiles from `first` on, or starts their sums.
    fn add<T: Real>(
        &self,
        sums: &mut [T::Sum],
        first: usize,
        (left, right): (&[T::Sum], &[T::Sum]),
        segments: &Segments,
        accumulate: bool,
    ) {
        let TileShape { rows, columns } = self.shape;
        let spread = self.problem.dims.last().map_or(1, |dim| dim.spread);
        let a_step = spread * self.left_strides.last().copied().unwrap_or(0);
        for (i, sums) in sums.chunks_exact_mut(rows * columns).enumerate() {
            let (panel, tile) = ((first + i) / self.row_tiles, (first + i) % self.row_tiles);
            let offsets = &self.offsets[tile * rows..(tile + 1) * rows];
            let job = TileJob {
                a: left,
                rows: match self.apart[tile] {
                    Some(apart) => TileRows::Uniform(offsets[0], apart),
                    None => TileRows::Listed(offsets),
                },
                a_step,
                b: &right[panel * columns..],
                b_step: self.right_strides.last().copied().unwrap_or(0),
                segments: segments.of(self.line_of(tile)),
                accumulate,
                out_step: columns,
            };
            T::Sum::tile(self.shape, &job, sums);
        }
    }

    /// Writes finished tiles.
    fn store<T: Real>(
        &self,
        sums: &[T::Sum],
        first: usize,
        group: usize,
        out: &mut TaskSlice<'_, T>,
    ) {
        let TileShape { rows, columns } = self.shape;
        let side = self.problem.out;
        let base = side.offset + group as isize * side.group;
        for (i, sums) in sums.chunks_exact(rows * columns).enumerate() {
            let (panel, tile) = ((first + i) / self.row_tiles, (first + i) % self.row_tiles);
            let o = panel * columns;
            let width = columns.min(self.problem.o - o);
            let rows = self.rows.iter().skip(tile * rows).take(rows);
            for (sums, (_, write)) in sums.chunks_exact(columns).zip(rows) {
                let start = base + write + o as isize * side.inner;
                if side.inner == 1 {
                    let out = out.slice(start as usize, width);
                    for (out, &sum) in out.iter_mut().zip(sums) {
                        *out = T::narrow(sum);
                    }
                } else {
                    for (j, &sum) in sums[..width].iter().enumerate() {
                        out.set((start + j as isize * side.inner) as usize, T::narrow(sum));
                    }
                }
            }
        }
    }
}

/// The number of parts that the rows are divided into when a finished result is written across its features.
const PIECES: usize = 8;

/// Features that are written at a time then: as many cache lines are open.
const OPEN: usize = 16;

impl Plan<'_> {
    /// Writes part `task` of all tiles if features are not contiguous in the result. The rows of a tile are far apart
    /// there as well, so tile by tile every element would be a cache miss; this follows the result's order instead.
    fn store_across<T: Real>(
        &self,
        sums: &[T::Sum],
        task: usize,
        group: usize,
        out: &mut TaskSlice<'_, T>,
    ) {
        let TileShape { rows, columns } = self.shape;
        let side = self.problem.out;
        let (panel, piece) = (task / PIECES, task % PIECES);
        let each = self.order.len().div_ceil(PIECES);
        let order = self.order.iter().skip(piece * each).take(each);
        let base = side.offset + group as isize * side.group;
        for first in (0..columns).step_by(OPEN) {
            let o = panel * columns + first;
            if o >= self.problem.o {
                break;
            }
            let width = OPEN.min(columns - first).min(self.problem.o - o);
            for &row in order.clone() {
                let tile = panel * self.row_tiles + row / rows;
                let at = (tile * rows + row % rows) * columns + first;
                let start = base + self.rows[row].1 + o as isize * side.inner;
                for (j, &sum) in sums[at..at + width].iter().enumerate() {
                    out.set((start + j as isize * side.inner) as usize, T::narrow(sum));
                }
            }
        }
    }
}

impl Plan<'_> {
    /// Sums the chunks of a group, an equal share of them for each set of sums in `sums`.
    fn share_chunks<T: Real>(
        &self,
        sums: &mut [T::Sum],
        lhs: &[T],
        rhs: &[T],
        group: usize,
        chunks: usize,
    ) {
        let len = self.tiles() * self.shape.rows * self.shape.columns;
        let tasks = sums.len() / len;
        let all = Columns::chunks(sums, len);
        let make = || Scratch::<T::Sum>::unzeroed(self.left + self.right);
        parallel::for_tasks_with(tasks, make, |copy, task| {
            let mut part = all.take(task);
            let sums = part.row(0);
            let first = task * chunks / tasks;
            for index in first..(task + 1) * chunks / tasks {
                parallel::poll();
                self.fill(copy, lhs, rhs, group, index);
                let chunk = self.chunk(copy, lhs, rhs, group, index);
                self.add::<T>(sums, 0, chunk, &self.segments(index), index > first);
            }
        });
    }

    /// Writes finished tiles from `first` on, on all threads.
    fn write<T: Real>(&self, sums: &[T::Sum], first: usize, group: usize, out: &mut [T]) {
        let tile = self.shape.rows * self.shape.columns;
        let count = sums.len() / tile;
        if count == self.tiles() && self.problem.out.inner != 1 {
            let tasks = count / self.row_tiles * PIECES;
            let work = |(): &mut (), task, out: &mut TaskSlice<'_, T>| {
                self.store_across(sums, task, group, out);
            };
            // SAFETY: a task has some rows of a panel of columns, each of which has results of its own.
            let disjoint = unsafe { parallel::Disjoint::promise() };
            return parallel::for_disjoint(disjoint, out, tasks, || (), work);
        }
        let share = count.div_ceil(TASKS.0) * tile;
        let work = |(): &mut (), task: usize, out: &mut TaskSlice<'_, T>| {
            let end = sums.len().min((task + 1) * share);
            self.store(
                &sums[task * share..end],
                first + task * share / tile,
                group,
                out,
            );
        };
        // SAFETY: a tile has results of its own, and one task has it.
        let disjoint = unsafe { parallel::Disjoint::promise() };
        parallel::for_disjoint(disjoint, out, sums.len().div_ceil(share), || (), work);
    }
}

/// Solves `problem`, whose input is not dilated.
pub(super) fn run<T: Real>(out: &mut [T], lhs: &[T], rhs: &[T], problem: &Problem) {
    let plan = Plan::new::<T>(problem);
    let tile = plan.shape.rows * plan.shape.columns;
    let per_round = (PACKED / tile).clamp(1, plan.tiles());
    let chunks = blocking::boxes(&plan.full, &plan.sizes);
    let size = plan.left + plan.right;
    let small = problem.macs() < PARALLEL;
    if problem.groups >= MANY_GROUPS || small {
        let make = || {
            (
                Scratch::<T::Sum>::unzeroed(size),
                Scratch::<T::Sum>::unzeroed(per_round * tile),
            )
        };
        let tasks = if small { 1 } else { problem.groups };
        let each = problem.groups / tasks;
        // SAFETY: a task has groups of its own, whose results no other group has.
        let disjoint = unsafe { parallel::Disjoint::promise() };
        return parallel::for_disjoint(disjoint, out, tasks, make, |(copy, sums), task, out| {
            for group in task * each..(task + 1) * each {
                for first in (0..plan.tiles()).step_by(per_round) {
                    let sums = &mut sums[..per_round.min(plan.tiles() - first) * tile];
                    for index in 0..chunks {
                        parallel::poll();
                        plan.fill(copy, lhs, rhs, group, index);
                        let chunk = plan.chunk(copy, lhs, rhs, group, index);
                        plan.add::<T>(sums, first, chunk, &plan.segments(index), index > 0);
                    }
                    plan.store(sums, first, group, out);
                }
            }
        });
    }
    let len = plan.tiles() * tile;
    // A power of two, which any usual number of threads divides evenly.
    let tasks = (PACKED / 4 / len.max(1)).min(chunks).clamp(1, TASKS.0);
    let tasks = 1 << tasks.ilog2();
    if tasks >= TASKS.1 {
        let mut sums = Scratch::<T::Sum>::unzeroed(tasks * len);
        for group in 0..problem.groups {
            plan.share_chunks(&mut sums, lhs, rhs, group, chunks);
            reduce_tasks::collect(&mut sums, len);
            plan.write(&sums[..len], 0, group, out);
        }
        return;
    }
    // Some chunks at a time: enough to keep all threads busy between the two phases, few enough to stay in cache until
    // they are read again.
    let held = (PACKED / 8 / size.max(1)).clamp(1, chunks);
    let mut copies = Scratch::<T::Sum>::unzeroed(held * size);
    let mut sums = Scratch::<T::Sum>::unzeroed(per_round * tile);
    for group in 0..problem.groups {
        for first in (0..plan.tiles()).step_by(per_round) {
            let count = per_round.min(plan.tiles() - first);
            let sums = &mut sums[..count * tile];
            let share = count.div_ceil(TASKS.0) * tile;
            for start in (0..chunks).step_by(held) {
                let end = chunks.min(start + held);
                let copies = &mut copies[..(end - start) * size];
                parallel::for_chunks_mut(copies, size, |at, copy| {
                    plan.fill(copy, lhs, rhs, group, start + at / size);
                });
                parallel::for_chunks_mut(sums, share, |at, sums| {
                    for index in start..end {
                        let at_copy = (index - start) * size;
                        let copy = &copies[at_copy..at_copy + size];
                        let chunk = plan.chunk(copy, lhs, rhs, group, index);
                        let segments = plan.segments(index);
                        plan.add::<T>(sums, first + at / tile, chunk, &segments, index > 0);
                    }
                });
            }
            plan.write(sums, first, group, out);
        }
    }
}
