//! Runs programs tile by tile: everything between what comes in and what goes out stays in the first caches.
//!
//! Tiles and tasks are cut by sizes alone, so the number of threads shows in no bit.

use crate::code::Program;
use crate::down;
use crate::room::ROOM;
use crate::space::Class;
use clematis_core::{Result, Tensor};
use clematis_native::kernel::map::{self, Source};
use clematis_native::layout::View;
use clematis_native::parallel::{self, Column, Columns};
use clematis_native::simd::prefetch_far;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};

/// Elements of a tile.
const TILE: usize = 1024;
/// Those of a program that reads and writes far memory: with two instructions short ones, so that what both of them read comes side
/// by side; otherwise long ones, since each instruction begins anew with each tile.
const SHORT_TILE: usize = 256;
const LONG_TILE: usize = 2048;
/// Elements of a task.
const TASK: usize = 1 << 14;
/// Floats of a line of the caches.
const LINE: usize = 16;
/// Instructions from which on what is asked for ahead comes in shares that are small enough; with fewer it gives nothing.
const SEVERAL: usize = 3;
/// Elements from which on what a program reads and writes is not in the second cache.
const FAR: usize = 1 << 18;

/// Where a source's elements are.
pub enum Feed<'a> {
    /// Floats.
    Floats(Source<'a, f32>),
    /// Truth values.
    Truths(Source<'a, u8>),
    /// The same floats for each row.
    Repeated(Box<View<'a, f32>>),
    /// In a target's memory, from which they are read before it is written.
    Over(usize),
}

impl<'a> Feed<'a> {
    /// A tensor repeated to a shape.
    pub fn new(x: &'a Tensor, program: &Program, source: usize) -> Result<Self> {
        let shape = &program.sources[source].shape;
        Ok(match program.values[source].truth {
            false => match map::source::<f32>(x, shape)? {
                Source::Strided(view) if by_whole_rows(program) && is_repeated(&view) => {
                    Feed::Repeated(view)
                }
                other => Feed::Floats(other),
            },
            true => Feed::Truths(map::source::<u8>(x, shape)?),
        })
    }
}

/// Where a target's elements go.
pub enum Sink<'a> {
    /// Floats.
    Floats(Columns<'a, f32>),
    /// Truth values.
    Truths(Columns<'a, u8>),
}

/// What a task writes of a target.
pub(crate) enum Own<'a> {
    Floats(Column<'a, f32>),
    Truths(Column<'a, u8>),
}

/// What a task writes: of each target, and of each sum.
pub(crate) struct Owned<'a> {
    pub(crate) sinks: SmallVec<[Own<'a>; 8]>,
    pub(crate) downs: SmallVec<[Column<'a, f32>; 2]>,
}

impl<'a> Owned<'a> {
    fn of(ready: &'a Ready<'_>, piece: usize) -> Self {
        let sinks = ready.sinks.iter().map(|sink| match sink {
            Sink::Floats(all) => Own::Floats(all.take(piece)),
            Sink::Truths(all) => Own::Truths(all.take(piece)),
        });
        Owned {
            sinks: sinks.collect(),
            downs: ready.downs.iter().map(|all| all.take(piece)).collect(),
        }
    }
}

/// A program with its memory.
pub struct Ready<'a> {
    /// What is done.
    pub program: &'a Program,
    /// One for each source.
    pub feeds: Vec<Feed<'a>>,
    /// One for each target.
    pub sinks: Vec<Sink<'a>>,
    /// One for each sum: as many rows as there are tasks.
    pub downs: Vec<Columns<'a, f32>>,
}

/// Whether a view has the same elements for each row along the last axis.
fn is_repeated(view: &View<'_, f32>) -> bool {
    let rank = view.sizes.len();
    let mut outer = view
        .sizes
        .iter()
        .zip(&view.strides)
        .take(rank.saturating_sub(1));
    rank > 0 && outer.all(|(&size, &stride)| size == 1 || stride == 0)
}

/// Whether tiles are whole rows.
fn by_whole_rows(program: &Program) -> bool {
    program.space.by_rows || !program.downs.is_empty() || program.repeats
}

/// Elements of a tile and of a task.
fn sizes(program: &Program) -> (usize, usize) {
    let sums = !program.downs.is_empty();
    let far = program.space.count() >= FAR;
    let tile = match by_whole_rows(program) {
        true => (TILE / program.space.columns()).max(1) * program.space.columns(),
        false if !far => TILE,
        false if program.codes.len() == 2 => SHORT_TILE,
        false => LONG_TILE,
    };
    let task = match sums {
        true => down::rows_of_task(&program.space) * program.space.columns(),
        false => (TASK / tile).max(1) * tile,
    };
    (tile, task)
}

/// How many tasks a program has.
pub fn tasks(program: &Program) -> usize {
    program.space.count().div_ceil(sizes(program).1)
}

/// Elements of a value of this class that a task has.
pub(crate) fn share(program: &Program, class: Class) -> usize {
    let (_, task) = sizes(program);
    match class {
        Class::Full => task,
        Class::Row => task / program.space.columns().max(1),
    }
}

/// Runs programs side by side.
pub fn run(all: &[Ready<'_>]) {
    let mut tasks = Vec::new();
    for (at, ready) in all.iter().enumerate() {
        let count = ready.program.space.count();
        let (_, task) = sizes(ready.program);
        tasks.extend((0..count).step_by(task).map(|start| (at, start)));
    }
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    parallel::for_tasks(tasks.len(), |task| {
        let (at, start) = tasks[task];
        let ready = &all[at];
        let (tile, grain) = sizes(ready.program);
        let end = ready.program.space.count().min(start + grain);
        ROOM.with_borrow_mut(|room| {
            if room.owner != Some((run, at)) {
                room.prepare(ready, tile.min(ready.program.space.count()));
                room.owner = Some((run, at));
            }
            let piece = start / grain;
            let mut own = Owned::of(ready, piece);
            for from in (start..end).step_by(tile) {
                room.tile(ready, &mut own, piece, from, tile.min(end - from));
            }
        });
    });
}

/// Counts runs, so that a thread knows whose numbers its registers hold.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// What the task's next tile reads and writes, if that is worth asking for.
pub(crate) struct Ahead {
    next: usize,
    /// Elements of it that are the task's.
    len: usize,
    /// Elements that each instruction asks for: all at once would hold up its own reads, and by itself the processor looks ahead
    /// within a page, which is as long as a tile.
    share: usize,
}

impl Ahead {
    /// While the tile of `len` elements from `from` on is computed.
    pub(crate) fn of(ready: &Ready<'_>, (from, len): (usize, usize)) -> Option<Self> {
        let program = ready.program;
        let (tile, grain) = sizes(program);
        let count = program.space.count();
        let end = count.min((from / grain + 1) * grain);
        let codes = program.codes.len();
        let next = from + len;
        let pays = next < end && len == tile && count >= FAR && codes >= SEVERAL;
        pays.then(|| Ahead {
            next,
            len: tile.min(end - next),
            share: (tile / codes).next_multiple_of(LINE),
        })
    }

    /// Asks for the share of instruction `i`.
    pub(crate) fn ask(&self, ready: &Ready<'_>, i: usize) {
        let program = ready.program;
        let start = (i * self.share).min(self.len);
        let len = self.share.min(self.len - start);
        if len == 0 {
            return;
        }
        let start = self.next + start;
        for (feed, value) in ready.feeds.iter().zip(&program.values) {
            if let (Feed::Floats(Source::Dense(all)), Class::Full) = (feed, value.class) {
                prefetch_far(&all[start..start + len]);
            }
        }
        for (sink, target) in ready.sinks.iter().zip(&program.targets) {
            let class = program.values[target.value as usize].class;
            if let (Sink::Floats(all), Class::Full) = (sink, class) {
                all.prefetch(start, len);
            }
        }
    }
}
