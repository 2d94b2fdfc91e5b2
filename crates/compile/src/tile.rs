//! Runs fused programs tile by tile, so that intermediate values stay in L1 and L2.
//!
//! Tiles and tasks depend on sizes alone. Results are bit-identical for any number of threads.

use crate::column_reduction;
use crate::iteration_domain::Extent;
use crate::program::Program;
use crate::tile_interpreter::INTERPRETER;
use clematis_core::{Result, Tensor};
use clematis_native::kernel::map::{self, Source};
use clematis_native::layout::View;
use clematis_native::parallel::{self, Column, Columns};
use clematis_native::simd::prefetch_l2;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};

/// Elements per tile.
const TILE: usize = 1024;
/// Tile sizes for data larger than L2. A program of two instructions uses short tiles, so that the reads of both
/// interleave; longer ones use long tiles, because each instruction has a startup cost per tile.
const STREAMING_TILE: usize = 256;
const LARGE_TILE: usize = 2048;
/// Elements per task.
const TASK: usize = 1 << 14;
/// Floats per cache line.
const CACHE_LINE: usize = 16;
/// The fewest instructions for which prefetching pays: with fewer, each one would issue too large a share.
const MIN_INSTRUCTIONS: usize = 3;
/// Elements from which on the data of a program does not fit in L2.
const LARGER_THAN_L2: usize = 1 << 18;

/// Where the elements of a source come from.
pub enum Feed<'a> {
    /// f32 elements.
    Floats(Source<'a, f32>),
    /// bool elements.
    Bools(Source<'a, u8>),
    /// One row of floats, broadcast to every row.
    RepeatedRow(Box<View<'a, f32>>),
    /// The memory of a target, read before it is overwritten.
    InPlace(usize),
}

impl<'a> Feed<'a> {
    /// A tensor, broadcast to the shape of a source.
    pub fn new(x: &'a Tensor, program: &Program, source: usize) -> Result<Self> {
        let shape = &program.sources[source].shape;
        Ok(match program.values[source].is_bool {
            false => match map::source::<f32>(x, shape)? {
                Source::Strided(view) if tiles_are_rows(program) && repeats_one_row(&view) => {
                    Feed::RepeatedRow(view)
                }
                other => Feed::Floats(other),
            },
            true => Feed::Bools(map::source::<u8>(x, shape)?),
        })
    }
}

/// Where the elements of a target go.
pub enum Sink<'a> {
    /// f32 elements.
    Floats(Columns<'a, f32>),
    /// bool elements.
    Bools(Columns<'a, u8>),
}

/// The part of a target that a task writes.
pub(crate) enum SinkChunk<'a> {
    Floats(Column<'a, f32>),
    Bools(Column<'a, u8>),
}

/// What a task writes: its part of each target and of each column sum.
pub(crate) struct TaskOutputs<'a> {
    pub(crate) sinks: SmallVec<[SinkChunk<'a>; 8]>,
    pub(crate) column_sums: SmallVec<[Column<'a, f32>; 2]>,
}

impl<'a> TaskOutputs<'a> {
    fn of(bound: &'a BoundProgram<'_>, task: usize) -> Self {
        let sinks = bound.sinks.iter().map(|sink| match sink {
            Sink::Floats(all) => SinkChunk::Floats(all.take(task)),
            Sink::Bools(all) => SinkChunk::Bools(all.take(task)),
        });
        TaskOutputs {
            sinks: sinks.collect(),
            column_sums: bound.column_sums.iter().map(|all| all.take(task)).collect(),
        }
    }
}

/// A program bound to its memory.
pub struct BoundProgram<'a> {
    /// The program.
    pub program: &'a Program,
    /// One per source.
    pub feeds: Vec<Feed<'a>>,
    /// One per target.
    pub sinks: Vec<Sink<'a>>,
    /// One per column sum: as many rows as there are tasks.
    pub column_sums: Vec<Columns<'a, f32>>,
}

/// Whether a view repeats one row along all other axes.
fn repeats_one_row(view: &View<'_, f32>) -> bool {
    let rank = view.sizes.len();
    let mut outer = view
        .sizes
        .iter()
        .zip(&view.strides)
        .take(rank.saturating_sub(1));
    rank > 0 && outer.all(|(&size, &stride)| size == 1 || stride == 0)
}

/// Whether tiles consist of whole rows.
fn tiles_are_rows(program: &Program) -> bool {
    program.domain.has_row_values || !program.column_sums.is_empty() || program.repeats_row
}

/// Elements per tile and per task.
fn sizes(program: &Program) -> (usize, usize) {
    let has_sums = !program.column_sums.is_empty();
    let streams = program.domain.count() >= LARGER_THAN_L2;
    let tile = match tiles_are_rows(program) {
        true => (TILE / program.domain.columns()).max(1) * program.domain.columns(),
        false if !streams => TILE,
        false if program.instructions.len() == 2 => STREAMING_TILE,
        false => LARGE_TILE,
    };
    let task = match has_sums {
        true => column_reduction::rows_per_task(&program.domain) * program.domain.columns(),
        false => (TASK / tile).max(1) * tile,
    };
    (tile, task)
}

/// The number of tasks of a program.
pub fn tasks(program: &Program) -> usize {
    program.domain.count().div_ceil(sizes(program).1)
}

/// Elements of a value of this extent that one task has.
pub(crate) fn task_elements(program: &Program, extent: Extent) -> usize {
    let (_, task) = sizes(program);
    match extent {
        Extent::Full => task,
        Extent::Row => task / program.domain.columns().max(1),
    }
}

/// Runs independent programs in one parallel region.
pub fn run(all: &[BoundProgram<'_>]) {
    let mut tasks = Vec::new();
    for (at, bound) in all.iter().enumerate() {
        let count = bound.program.domain.count();
        let (_, task) = sizes(bound.program);
        tasks.extend((0..count).step_by(task).map(|start| (at, start)));
    }
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    parallel::for_tasks(tasks.len(), |task| {
        let (at, start) = tasks[task];
        let bound = &all[at];
        let (tile, grain) = sizes(bound.program);
        let end = bound.program.domain.count().min(start + grain);
        INTERPRETER.with_borrow_mut(|interpreter| {
            if interpreter.owner != Some((run, at)) {
                interpreter.prepare(bound, tile.min(bound.program.domain.count()));
                interpreter.owner = Some((run, at));
            }
            let task = start / grain;
            let mut outputs = TaskOutputs::of(bound, task);
            for from in (start..end).step_by(tile) {
                interpreter.run_tile(bound, &mut outputs, task, from, tile.min(end - from));
            }
        });
    });
}

/// Counts runs, so that a thread knows which run its registers were prepared for.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Software prefetch of the task's next tile.
pub(crate) struct Prefetch {
    next: usize,
    /// Elements of the next tile that belong to the task.
    len: usize,
    /// Elements that each instruction prefetches. Prefetching all at once would stall the instruction's own loads; the
    /// hardware prefetcher stops at a page boundary, and a tile is as long as a page.
    share: usize,
}

impl Prefetch {
    /// A prefetch for the tile after `len` elements from `from`, if it pays.
    pub(crate) fn of(bound: &BoundProgram<'_>, (from, len): (usize, usize)) -> Option<Self> {
        let program = bound.program;
        let (tile, grain) = sizes(program);
        let count = program.domain.count();
        let end = count.min((from / grain + 1) * grain);
        let instructions = program.instructions.len();
        let next = from + len;
        let worthwhile = next < end
            && len == tile
            && count >= LARGER_THAN_L2
            && instructions >= MIN_INSTRUCTIONS;
        worthwhile.then(|| Prefetch {
            next,
            len: tile.min(end - next),
            share: (tile / instructions).next_multiple_of(CACHE_LINE),
        })
    }

    /// Prefetches the share of instruction `i`.
    pub(crate) fn issue(&self, bound: &BoundProgram<'_>, i: usize) {
        let program = bound.program;
        let start = (i * self.share).min(self.len);
        let len = self.share.min(self.len - start);
        if len == 0 {
            return;
        }
        let start = self.next + start;
        for (feed, value) in bound.feeds.iter().zip(&program.values) {
            if let (Feed::Floats(Source::Dense(all)), Extent::Full) = (feed, value.extent) {
                prefetch_l2(&all[start..start + len]);
            }
        }
        for (sink, target) in bound.sinks.iter().zip(&program.targets) {
            let extent = program.values[target.value as usize].extent;
            if let (Sink::Floats(all), Extent::Full) = (sink, extent) {
                all.prefetch(start, len);
            }
        }
    }
}
