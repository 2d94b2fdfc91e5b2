//! Threads: how a kernel divides its work.
//!
//! Owns the thread count and the few ways of splitting a loop. All of them cut the work into tasks
//! whose number and bounds depend on the sizes alone, never on the thread count, and no helper here
//! combines the results of tasks. A kernel built on them gives the same bits on any number of threads.
//!
//! One task runs on the calling thread without touching the pool, so choose a task size below which
//! a hand-over (several microseconds) does not pay. With more tasks the caller works as well. Each thread begins with its
//! own stretch of the tasks, the same one from kernel to kernel, so that what it wrote is still in its cache; when that is
//! done, it takes what others have not begun, so a busy neighbour does not hold up the rest.
#![allow(unsafe_code)]

use crate::pool;
use smallvec::SmallVec;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// 0 means no limit.
static LIMIT: AtomicUsize = AtomicUsize::new(0);

/// Elements of a result that debug builds watch.
#[cfg(debug_assertions)]
const WATCHED: usize = 1 << 20;

/// Limits kernels to so many threads; `None` lifts the limit.
pub fn set_thread_limit(limit: Option<usize>) {
    LIMIT.store(limit.map_or(0, |limit| limit.max(1)), Ordering::Relaxed);
}

thread_local! {
    /// Whether this thread works on a task that others work beside.
    static BESIDE: Cell<bool> = const { Cell::new(false) };
}

/// Sets it while a thread works, and whatever it was before when that ends, by a panic, too.
struct Beside(bool);

impl Beside {
    fn begin() -> Self {
        Beside(BESIDE.replace(true))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        BESIDE.set(self.0);
    }
}

/// How many threads a kernel may use: one inside of a task, since the others have tasks of their own.
pub fn threads() -> usize {
    if BESIDE.get() {
        return 1;
    }
    match LIMIT.load(Ordering::Relaxed) {
        1 => 1,
        0 => pool::default_threads(),
        limit => limit.min(pool::default_threads()),
    }
}

/// Runs `f(task)` for every task below `count`.
pub fn for_tasks(count: usize, f: impl Fn(usize) + Sync) {
    for_tasks_with(count, || (), |(), task| f(task));
}

/// Like [`for_tasks`], with a workspace that each thread makes once and hands to all its tasks.
pub fn for_tasks_with<W>(
    count: usize,
    make: impl Fn() -> W + Sync,
    f: impl Fn(&mut W, usize) + Sync,
) {
    tasks_with(count, &make, &f);
}

/// The next task of a stretch, on lines of its own: threads that count side by side would wait for each other.
#[repr(align(128))]
struct Next(AtomicUsize);

/// Behind pointers, so that a kernel is compiled once and not once per way of running it.
fn tasks_with<W>(count: usize, make: &(dyn Fn() -> W + Sync), f: &(dyn Fn(&mut W, usize) + Sync)) {
    let workers = threads().min(count);
    if workers <= 1 {
        if count > 0 {
            let mut workspace = make();
            (0..count).for_each(|task| f(&mut workspace, task));
        }
        return;
    }
    let first = |worker: usize| worker * count / workers;
    let next: SmallVec<[Next; 8]> = (0..workers)
        .map(|w| Next(AtomicUsize::new(first(w))))
        .collect();
    let arrived = AtomicUsize::new(0);
    let work = || {
        let _beside = Beside::begin();
        let mut workspace = None;
        let own = arrived.fetch_add(1, Ordering::Relaxed);
        for worker in (0..workers).map(|i| (own + i) % workers) {
            loop {
                let task = next[worker].0.fetch_add(1, Ordering::Relaxed);
                if task >= first(worker + 1) {
                    break;
                }
                f(workspace.get_or_insert_with(make), task);
            }
        }
    };
    // The caller takes tasks at once instead of waiting for others to wake up.
    pool::run(workers - 1, &work);
}

/// Runs `f` on consecutive ranges of `grain` indices (the last may be shorter) that cover `0..n`.
pub fn for_chunks(n: usize, grain: usize, f: impl Fn(Range<usize>) + Sync) {
    let grain = grain.max(1);
    for_tasks(n.div_ceil(grain), |task| {
        let start = task * grain;
        f(start..n.min(start + grain));
    });
}

/// Runs `f(start, chunk)` on consecutive chunks of `grain` elements of `out`.
pub fn for_chunks_mut<T: Send>(out: &mut [T], grain: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    chunks_mut(out, grain, &f);
}

fn chunks_mut<T: Send>(out: &mut [T], grain: usize, f: &(dyn Fn(usize, &mut [T]) + Sync)) {
    let n = out.len();
    if n <= grain {
        if n > 0 {
            f(0, out);
        }
        return;
    }
    let parts = Parts::new(out);
    for_chunks(n, grain, |range| {
        let start = range.start;
        let task = start / grain.max(1);
        f(start, parts.task(task).slice(start, range.len()));
    });
}

/// Runs `f(task, out)` where every task writes its own, possibly scattered, elements of `out`.
///
/// No two tasks may touch the same element. Debug builds check that on results of up to a million elements, so a
/// kernel's tests prove it.
pub fn for_disjoint<T: Send, W>(
    out: &mut [T],
    count: usize,
    make: impl Fn() -> W + Sync,
    f: impl Fn(&mut W, usize, &mut Part<'_, T>) + Sync,
) {
    let parts = Parts::new(out).watched();
    for_tasks_with(count, make, |workspace, task| {
        f(workspace, task, &mut parts.task(task));
    });
}

/// A slice under distribution to tasks, each of which writes its own elements; no two may touch the same one.
pub struct Parts<'a, T> {
    start: *mut T,
    len: usize,
    #[cfg(debug_assertions)]
    owners: Vec<AtomicUsize>,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: tasks on other threads reach elements of the slice only through `Part`, each its own, so
// sharing amounts to sending the elements.
unsafe impl<T: Send> Sync for Parts<'_, T> {}

impl<'a, T> Parts<'a, T> {
    /// All of a slice.
    pub fn new(slice: &'a mut [T]) -> Self {
        Parts {
            start: slice.as_mut_ptr(),
            len: slice.len(),
            #[cfg(debug_assertions)]
            owners: Vec::new(),
            slice: PhantomData,
        }
    }

    /// Has debug builds note which task writes what, of the first elements at least: notes are eight times the size
    /// of a byte, and no limit counts them. Not needed where the split is plainly disjoint.
    #[must_use]
    pub fn watched(mut self) -> Self {
        #[cfg(debug_assertions)]
        self.owners
            .resize_with(self.len.min(WATCHED), AtomicUsize::default);
        #[cfg(not(debug_assertions))]
        let _ = &mut self;
        self
    }

    /// What one task sees of it.
    pub fn task(&self, task: usize) -> Part<'_, T> {
        Part { all: self, task }
    }
}

/// What one task sees of the shared output: elements by their index in the whole.
pub struct Part<'a, T> {
    all: &'a Parts<'a, T>,
    // Read by the debug check only.
    #[cfg_attr(not(debug_assertions), allow(dead_code))]
    task: usize,
}

impl<T> Part<'_, T> {
    /// The elements `start..start + len`, which must belong to this task.
    #[inline]
    pub fn slice(&mut self, start: usize, len: usize) -> &mut [T] {
        let end = start.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.all.len),
            "a task writes outside its output"
        );
        #[cfg(debug_assertions)]
        for owner in self.all.owners.iter().skip(start).take(len) {
            let before = owner.swap(self.task + 1, Ordering::Relaxed);
            assert!(
                before == 0 || before == self.task + 1,
                "two tasks write one element"
            );
        }
        // SAFETY: in bounds by the assertion; borrowed from a live `&mut [T]` by `Parts`; no other
        // task holds these elements by the contract of `for_disjoint`, and this task holds no other
        // borrow of them since `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.all.start.add(start), len) }
    }

    /// Rows of so many elements, evenly spaced, which must belong to this task.
    pub fn grid(&mut self, start: usize, rows: usize, width: usize, step: usize) -> Grid<'_, T> {
        let last = start + rows.saturating_sub(1) * step;
        assert!(step >= width || rows < 2, "rows of a grid overlap");
        self.slice(last, width);
        #[cfg(debug_assertions)]
        for row in 0..rows {
            self.slice(start + row * step, width);
        }
        Grid {
            // In bounds, since the last row is.
            start: self.all.start.wrapping_add(start),
            rows,
            width,
            step,
            elements: PhantomData,
        }
    }

    /// Sets one element, which must belong to this task.
    #[inline]
    pub fn set(&mut self, index: usize, value: T) {
        if let [place] = self.slice(index, 1) {
            *place = value;
        }
    }
}

/// Evenly spaced rows of a shared output that one task alone writes, for kernels that take pointers.
pub struct Grid<'a, T> {
    start: *mut T,
    rows: usize,
    width: usize,
    step: usize,
    elements: PhantomData<&'a mut T>,
}

impl<T> Grid<'_, T> {
    /// Where the first row begins; each of [`Grid::rows`] has [`Grid::width`] elements that may be written.
    pub fn start(&mut self) -> *mut T {
        self.start
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How far the beginnings of rows are apart.
    pub fn step(&self) -> usize {
        self.step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_every_index_once_whatever_the_limit() {
        for limit in [None, Some(1), Some(2), Some(64)] {
            set_thread_limit(limit);
            for (n, grain) in [(0, 3), (1, 3), (3, 3), (1000, 7), (5, 0)] {
                let mut out = vec![0usize; n];
                for_chunks_mut(&mut out, grain, |start, chunk| {
                    for (i, out) in chunk.iter_mut().enumerate() {
                        *out += start + i + 1;
                    }
                });
                assert!(out.iter().copied().eq(1..=n), "{n} {grain}");
            }
        }
        set_thread_limit(None);
    }

    #[test]
    fn scattered_writes_arrive() {
        let mut out = vec![0; 100];
        let make = || 5;
        for_disjoint(&mut out, 10, make, |five, task, out| {
            (0..10).for_each(|i| out.set(i * 10 + task, task + *five));
        });
        assert!((0..100).all(|i| out[i] == i % 10 + 5));
    }

    #[test]
    #[should_panic(expected = "two tasks write one element")]
    #[cfg(debug_assertions)]
    fn overlapping_tasks_are_caught_in_debug_builds() {
        for_disjoint(&mut [0; 4], 2, || (), |(), _, out| out.set(3, 1));
    }

    #[test]
    #[cfg(debug_assertions)]
    fn the_watch_has_a_bound() {
        let mut out = vec![0u8; WATCHED + 10];
        assert_eq!(Parts::new(&mut out).watched().owners.len(), WATCHED);
        for_disjoint(
            &mut out,
            2,
            || (),
            |(), task, out| {
                out.slice(task * (WATCHED + 5), 5).fill(7);
            },
        );
        assert_eq!(out.iter().filter(|&&x| x == 7).count(), 10);
    }

    #[test]
    #[should_panic(expected = "outside its output")]
    fn a_write_beyond_the_end_is_caught() {
        for_disjoint(&mut [0; 4], 1, || (), |(), _, out| out.set(4, 1));
    }
}
