//! Parallel loops: how a kernel divides its work among threads.
//!
//! Owns the thread limit and the few ways of splitting a loop. All of them cut the work into tasks whose number and
//! bounds depend on sizes alone, never on the number of threads, and none of them combines the results of tasks. A
//! kernel built on them is bit-identical for any number of threads.
//!
//! One task runs on the calling thread without touching the pool, so choose a task size below which handing over
//! (several microseconds) does not pay. With more tasks the caller works as well. Each thread begins with its own range
//! of tasks, the same one from kernel to kernel, so that what it wrote is still in its cache; then it steals tasks that
//! other threads have not begun, so that a busy core does not delay the rest.
#![allow(unsafe_code)]

use crate::pool;
use clematis_core::{Error, Result, bail, interrupt};
use smallvec::SmallVec;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::LocalKey;

/// 0 means no limit.
static LIMIT: AtomicUsize = AtomicUsize::new(0);

/// The number of output elements that debug builds check.
#[cfg(debug_assertions)]
const MAX_WATCHED: usize = if cfg!(miri) { 1 << 8 } else { 1 << 20 };

/// Limits kernels to so many threads; `None` lifts the limit.
pub fn set_thread_limit(limit: Option<usize>) {
    LIMIT.store(limit.map_or(0, |limit| limit.max(1)), Ordering::Relaxed);
}

thread_local! {
    /// Whether this thread runs a task of a parallel job.
    static IN_TASK: Cell<bool> = const { Cell::new(false) };
}

/// The number of threads a kernel may use: one within a task, since the other threads have tasks of their own.
pub fn threads() -> usize {
    if IN_TASK.get() {
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

/// Like [`for_tasks`], with a workspace that each thread creates once and passes to all its tasks.
pub fn for_tasks_with<W>(
    count: usize,
    make: impl Fn() -> W + Sync,
    f: impl Fn(&mut W, usize) + Sync,
) {
    tasks_with(count, &make, &f);
}

/// The panic payload of an interrupted kernel. The error waits in `PENDING` of the thread that polled.
struct Interrupted;

thread_local! {
    /// Whether kernels of this thread poll for interrupts: set within [`interruptible`], which catches the unwinding.
    static INTERRUPTIBLE: Cell<bool> = const { Cell::new(false) };
    /// The error that interrupts the kernel of this thread.
    static PENDING: Cell<Option<Error>> = const { Cell::new(None) };
    /// On a worker: whether the job that it works for is interrupted.
    static CANCELLED: Cell<Option<NonNull<AtomicBool>>> = const { Cell::new(None) };
}

/// Sets a thread-local value while it lives and restores the old one when dropped, also on a panic.
struct Restore<T: Copy + 'static>(&'static LocalKey<Cell<T>>, T);

impl<T: Copy> Restore<T> {
    fn set(key: &'static LocalKey<Cell<T>>, value: T) -> Self {
        Restore(key, key.replace(value))
    }
}

impl<T: Copy> Drop for Restore<T> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Runs an op that can be interrupted (see [`clematis_core::interrupt`]): between two tasks a kernel unwinds to here,
/// partial results are dropped, and the error is returned.
pub fn interruptible<R>(op: impl FnOnce() -> Result<R>) -> Result<R> {
    // Without unwinding an interrupt could not be caught.
    if INTERRUPTIBLE.get() || !interrupt::is_listening() || cfg!(panic = "abort") {
        return op();
    }
    let interruptible = Restore::set(&INTERRUPTIBLE, true);
    let done = catch_unwind(AssertUnwindSafe(op));
    drop(interruptible);
    match done {
        Ok(done) => done,
        Err(payload) if payload.is::<Interrupted>() => match PENDING.take() {
            Some(e) => Err(e),
            None => bail!(Internal, "native: interrupted without a reason"),
        },
        Err(payload) => resume_unwind(payload),
    }
}

/// Runs code that must not be interrupted, because it overwrites its inputs.
pub fn uninterruptible<R>(f: impl FnOnce() -> R) -> R {
    let _asks = Restore::set(&INTERRUPTIBLE, false);
    f()
}

/// Whether an interrupt is pending; stores its error. Always `false` outside of [`interruptible`] and on workers.
#[inline]
fn interrupt_requested() -> bool {
    INTERRUPTIBLE.get()
        && match interrupt::check() {
            Ok(()) => false,
            Err(e) => {
                PENDING.set(Some(e));
                true
            }
        }
}

/// Unwinds if the kernel is interrupted; for long loops within one task. Takes some 20 nanoseconds.
#[inline]
pub(crate) fn poll() {
    let is_cancelled = |flag: NonNull<AtomicBool>| {
        // SAFETY: it is on the stack of `tasks_with`, which waits for this worker; the pointer is cleared before that
        // returns.
        unsafe { flag.as_ref() }.load(Ordering::Relaxed)
    };
    if interrupt_requested() || CANCELLED.get().is_some_and(is_cancelled) {
        resume_unwind(Box::new(Interrupted));
    }
}

/// Ends a job before all its tasks are done.
#[derive(Default)]
struct Stop {
    /// No more tasks are started: one of them has panicked, or the job is interrupted.
    stopped: AtomicBool,
    /// Running tasks end as soon as they can: their results are discarded.
    cancelled: AtomicBool,
}

impl Stop {
    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Stops the other threads when a thread unwinds.
struct StopOnUnwind<'a>(&'a Stop);

impl Drop for StopOnUnwind<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Only the calling thread polls for interrupts, and it is the one that waits.
            match INTERRUPTIBLE.get() {
                true => self.0.cancel(),
                false => self.0.stopped.store(true, Ordering::Relaxed),
            }
        }
    }
}

/// The next task of a range, on cache lines of its own to avoid false sharing.
#[repr(align(128))]
struct Next(AtomicUsize);

/// Takes trait objects, so that a kernel is compiled once and not once per way of running it.
fn tasks_with<W>(count: usize, make: &(dyn Fn() -> W + Sync), f: &(dyn Fn(&mut W, usize) + Sync)) {
    let workers = threads().min(count);
    if workers <= 1 {
        if count > 0 {
            let mut workspace = make();
            for task in 0..count {
                if task > 0 {
                    poll();
                }
                f(&mut workspace, task);
            }
        }
        return;
    }
    let first = |worker: usize| worker * count / workers;
    let next: SmallVec<[Next; 8]> = (0..workers)
        .map(|w| Next(AtomicUsize::new(first(w))))
        .collect();
    let arrived = AtomicUsize::new(0);
    let stop = Stop::default();
    let work = || {
        let _beside = Restore::set(&IN_TASK, true);
        let _stop = StopOnUnwind(&stop);
        // The caller polls by itself.
        let cancelled = (!INTERRUPTIBLE.get()).then_some(NonNull::from(&stop.cancelled));
        let _cancelled = Restore::set(&CANCELLED, cancelled);
        let mut workspace = None;
        let own = arrived.fetch_add(1, Ordering::Relaxed);
        for worker in (0..workers).map(|i| (own + i) % workers) {
            loop {
                let task = next[worker].0.fetch_add(1, Ordering::Relaxed);
                if task >= first(worker + 1) {
                    break;
                }
                if stop.stopped.load(Ordering::Relaxed) {
                    return;
                }
                f(workspace.get_or_insert_with(make), task);
                if interrupt_requested() {
                    resume_unwind(Box::new(Interrupted));
                }
            }
        }
    };
    let waiting = || {
        if interrupt_requested() {
            stop.cancel();
        }
    };
    // The caller takes tasks at once instead of waiting for workers to wake up.
    pool::run(workers - 1, &work, &waiting);
    if stop.cancelled.load(Ordering::Relaxed) {
        resume_unwind(Box::new(Interrupted));
    }
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
    let parts = SharedSlice::new(out);
    for_chunks(n, grain, |range| {
        let start = range.start;
        let task = start / grain.max(1);
        // SAFETY: the ranges of `for_chunks` are disjoint, and each is passed once.
        let mut part = unsafe { parts.task(task) };
        f(start, part.slice(start, range.len()));
    });
}

/// The promise that [`for_disjoint`] needs, for one call.
pub(crate) struct Disjoint(());

impl Disjoint {
    /// Makes the promise.
    ///
    /// # Safety
    /// In the call of [`for_disjoint`] that takes this value, no two tasks may access the same element.
    pub unsafe fn promise() -> Self {
        Disjoint(())
    }
}

/// Runs `f(task, out)` where every task writes its own, possibly scattered, elements of `out`.
///
/// Debug builds check this on results of up to a million elements, so a kernel's tests exercise it.
///
/// `_disjoint` is the promise that no two tasks access the same element.
pub(crate) fn for_disjoint<T: Send, W>(
    _disjoint: Disjoint,
    out: &mut [T],
    count: usize,
    make: impl Fn() -> W + Sync,
    f: impl Fn(&mut W, usize, &mut TaskSlice<'_, T>) + Sync,
) {
    let parts = SharedSlice::new(out).watched();
    for_tasks_with(count, make, |workspace, task| {
        // SAFETY: each task runs once, and tasks access different elements by the promise.
        f(workspace, task, &mut unsafe { parts.task(task) });
    });
}

/// A matrix whose columns are divided among tasks: task `t` owns `width` columns of every row, from column `t * width` on (fewer
/// at the right edge). With one row these are consecutive chunks.
///
/// Disjoint by construction: [`Columns::take`] gives out each task's columns to one owner at a time. Types that are disjoint only
/// by promise are private to this crate:
///
/// ```compile_fail,E0603
/// use clematis_native::parallel::SharedSlice;
/// ```
pub struct Columns<'a, T> {
    all: SharedSlice<'a, T>,
    row: usize,
    width: usize,
    /// One bit per task whose columns are taken.
    taken: SmallVec<[AtomicU64; 2]>,
}

impl<'a, T> Columns<'a, T> {
    /// A slice as rows of `row` elements; each task owns `width` columns.
    pub fn new(slice: &'a mut [T], row: usize, width: usize) -> Self {
        let (row, width) = (row.max(1), width.max(1));
        let words = row.div_ceil(width).div_ceil(64);
        Columns {
            all: SharedSlice::new(slice),
            row,
            width,
            taken: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// A slice as consecutive chunks of `len` elements, one per task.
    pub fn chunks(slice: &'a mut [T], len: usize) -> Self {
        let row = slice.len();
        Columns::new(slice, row, len)
    }

    /// The columns of a task, until they are dropped exclusively.
    ///
    /// # Panics
    /// If there is no such task, or its columns are taken.
    pub fn take(&self, task: usize) -> Column<'_, T> {
        if self.all.len == 0 {
            // Nothing to own, however many tasks there are.
            return Column {
                all: self,
                task,
                first: 0,
                width: 0,
            };
        }
        let tasks = self.row.div_ceil(self.width);
        assert!(task < tasks, "task {task} of {tasks}");
        let first = task * self.width;
        let bit = 1 << (task % 64);
        let before = self.taken[task / 64].fetch_or(bit, Ordering::Acquire);
        assert!(before & bit == 0, "the columns of task {task} are taken");
        Column {
            all: self,
            task,
            first,
            width: self.width.min(self.row - first),
        }
    }

    /// Prefetches elements that will be written, by whichever task.
    pub fn prefetch(&self, start: usize, len: usize) {
        let end = start.saturating_add(len).min(self.all.len);
        crate::prefetch::prefetch_range_write(self.all.start, start.min(end)..end);
    }
}

/// The columns that a task owns, of all rows; see [`Columns`].
pub struct Column<'a, T> {
    all: &'a Columns<'a, T>,
    task: usize,
    first: usize,
    width: usize,
}

impl<T> Column<'_, T> {
    /// The first column.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The owned elements of a row.
    #[inline]
    pub fn row(&mut self, row: usize) -> &mut [T] {
        self.slice(row, 0, self.width)
    }

    /// `len` elements of a row, from `start` on, counted from the first owned column.
    #[inline]
    pub fn slice(&mut self, row: usize, start: usize, len: usize) -> &mut [T] {
        let inside = start.checked_add(len).is_some_and(|end| end <= self.width);
        assert!(inside, "elements {start}..+{len} are not the task's");
        let SharedSlice {
            start: all,
            len: most,
            ..
        } = &self.all.all;
        let at = row.checked_mul(self.all.row);
        let at = at.and_then(|at| at.checked_add(self.first + start));
        let end = at.and_then(|at| at.checked_add(len));
        assert!(
            end.is_some_and(|end| end <= *most),
            "row {row} is not there"
        );
        // SAFETY: in bounds, and within the columns of this task in a row, which are disjoint from those of every other
        // task; the bit in `taken` is set, so there is no other `Column` of this task, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(all.add(at.unwrap_or(0)), len) }
    }
}

impl<T> Drop for Column<'_, T> {
    fn drop(&mut self) {
        if self.width == 0 {
            return;
        }
        let bit = 1 << (self.task % 64);
        self.all.taken[self.task / 64].fetch_and(!bit, Ordering::Release);
    }
}

/// A slice shared by tasks, each of which writes its own elements; no two may touch the same one.
pub(crate) struct SharedSlice<'a, T> {
    start: *mut T,
    len: usize,
    #[cfg(debug_assertions)]
    owners: Vec<AtomicUsize>,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: tasks on other threads reach elements of the slice only through `TaskSlice` and `Column`, each its own, so
// sharing amounts to sending the elements.
unsafe impl<T: Send> Sync for SharedSlice<'_, T> {}
// SAFETY: it stands for a `&mut [T]`.
unsafe impl<T: Send> Send for SharedSlice<'_, T> {}

impl<'a, T> SharedSlice<'a, T> {
    /// A whole slice.
    pub fn new(slice: &'a mut [T]) -> Self {
        SharedSlice {
            start: slice.as_mut_ptr(),
            len: slice.len(),
            #[cfg(debug_assertions)]
            owners: Vec::new(),
            slice: PhantomData,
        }
    }

    /// Lets debug builds record which task writes which element, up to a fixed number of elements: a record takes eight
    /// bytes per element, and no limit counts it. Not needed where the split is obviously disjoint.
    #[must_use]
    pub fn watched(mut self) -> Self {
        #[cfg(debug_assertions)]
        self.owners
            .resize_with(self.len.min(MAX_WATCHED), AtomicUsize::default);
        #[cfg(not(debug_assertions))]
        let _ = &mut self;
        self
    }

    /// One task's access to the slice.
    ///
    /// # Safety
    /// Task slices that live at the same time may not access the same element.
    pub unsafe fn task(&self, task: usize) -> TaskSlice<'_, T> {
        TaskSlice {
            start: self.start,
            len: self.len,
            #[cfg(debug_assertions)]
            owners: &self.owners,
            task,
            slice: PhantomData,
        }
    }
}

/// One task's access to a shared output: elements by their index in the whole.
pub(crate) struct TaskSlice<'a, T> {
    start: *mut T,
    len: usize,
    #[cfg(debug_assertions)]
    owners: &'a [AtomicUsize],
    // Read by the debug check only.
    #[cfg_attr(not(debug_assertions), allow(dead_code))]
    task: usize,
    slice: PhantomData<&'a mut [T]>,
}

impl<'a, T> TaskSlice<'a, T> {
    /// A whole slice for one task.
    pub fn whole(slice: &'a mut [T]) -> Self {
        TaskSlice {
            start: slice.as_mut_ptr(),
            len: slice.len(),
            #[cfg(debug_assertions)]
            owners: &[],
            task: 0,
            slice: PhantomData,
        }
    }
}

impl<T> TaskSlice<'_, T> {
    /// The elements `start..start + len`, which must belong to this task.
    #[inline]
    pub fn slice(&mut self, start: usize, len: usize) -> &mut [T] {
        let end = start.checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.len),
            "a task writes outside its output"
        );
        #[cfg(debug_assertions)]
        for owner in self.owners.iter().skip(start).take(len) {
            let before = owner.swap(self.task + 1, Ordering::Relaxed);
            assert!(
                before == 0 || before == self.task + 1,
                "two tasks write one element"
            );
        }
        // SAFETY: in bounds by the assertion; borrowed from a live `&mut [T]`; no other task accesses these elements by
        // the contract of `SharedSlice::task`, and this task holds no other borrow of them since `self` is borrowed
        // mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }

    /// `rows` rows of `width` elements with stride `step`, which must belong to this task.
    pub fn grid(&mut self, start: usize, rows: usize, width: usize, step: usize) -> Grid<'_, T> {
        assert!(step >= width || rows < 2, "rows of a grid overlap");
        let last = rows.saturating_sub(1).checked_mul(step);
        let last = last.and_then(|last| last.checked_add(start));
        // Beyond any output if the product or the sum overflows.
        self.slice(last.unwrap_or(usize::MAX), width);
        #[cfg(debug_assertions)]
        for row in 0..rows {
            self.slice(start + row * step, width);
        }
        Grid {
            // In bounds, since the last row is.
            start: self.start.wrapping_add(start),
            rows,
            width,
            step,
            elements: PhantomData,
        }
    }

    /// Sets one element, which must belong to this task.
    #[inline]
    pub fn set(&mut self, index: usize, value: T) {
        if let [element] = self.slice(index, 1) {
            *element = value;
        }
    }
}

/// Strided rows of a shared output that one task writes, for kernels that take pointers.
pub(crate) struct Grid<'a, T> {
    start: *mut T,
    rows: usize,
    width: usize,
    step: usize,
    elements: PhantomData<&'a mut T>,
}

impl<T> Grid<'_, T> {
    /// The start of the first row; each of [`Grid::rows`] has [`Grid::width`] elements that may be written.
    pub fn start(&mut self) -> *mut T {
        self.start
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The stride between rows.
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
        let write = |five: &mut usize, task: usize, out: &mut TaskSlice<'_, usize>| {
            (0..10).for_each(|i| out.set(i * 10 + task, task + *five));
        };
        // SAFETY: each task has a column of its own.
        let disjoint = unsafe { Disjoint::promise() };
        for_disjoint(disjoint, &mut out, 10, make, write);
        assert!((0..100).all(|i| out[i] == i % 10 + 5));
    }

    #[test]
    #[should_panic(expected = "two tasks write one element")]
    #[cfg(debug_assertions)]
    fn overlapping_tasks_are_caught_in_debug_builds() {
        // SAFETY: the second of two tasks fails before it gets the element.
        let disjoint = unsafe { Disjoint::promise() };
        for_disjoint(disjoint, &mut [0; 4], 2, || (), |(), _, out| out.set(3, 1));
    }

    #[test]
    #[cfg(debug_assertions)]
    fn the_watch_has_a_bound() {
        let mut out = vec![0u8; MAX_WATCHED + 10];
        assert_eq!(
            SharedSlice::new(&mut out).watched().owners.len(),
            MAX_WATCHED
        );
        let write = |(): &mut (), task: usize, out: &mut TaskSlice<'_, u8>| {
            out.slice(task * (MAX_WATCHED + 5), 5).fill(7);
        };
        // SAFETY: the tasks' elements do not overlap.
        let disjoint = unsafe { Disjoint::promise() };
        for_disjoint(disjoint, &mut out, 2, || (), write);
        assert_eq!(out.iter().filter(|&&x| x == 7).count(), 10);
    }

    #[test]
    #[should_panic(expected = "outside its output")]
    fn a_write_beyond_the_end_is_caught() {
        TaskSlice::whole(&mut [0; 4]).set(4, 1);
    }

    #[test]
    #[should_panic(expected = "outside its output")]
    fn a_grid_whose_size_overflows_is_refused() {
        TaskSlice::whole(&mut [0u8; 4]).grid(0, usize::MAX, 1, usize::MAX / 2);
    }

    #[test]
    fn columns_cover_a_matrix_whatever_the_width() {
        for (rows, row, width) in [(1, 10, 3), (4, 7, 2), (3, 5, 5), (2, 200, 1), (0, 4, 2)] {
            let mut out = vec![0usize; rows * row];
            let columns = Columns::new(&mut out, row, width);
            for_tasks(row.div_ceil(width), |task| {
                let mut own = columns.take(task);
                for r in 0..rows {
                    own.row(r).iter_mut().for_each(|x| *x += task + 1);
                }
            });
            drop(columns);
            let expected = |i: usize| i % row / width + 1;
            assert!(out.iter().enumerate().all(|(i, &x)| x == expected(i)));
        }
    }

    #[test]
    fn columns_are_given_out_once_at_a_time_and_only_as_far_as_they_go() {
        let mut out = [0u8; 10];
        let columns = Columns::chunks(&mut out, 4);
        let refused =
            |f: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err();
        let held = columns.take(1);
        assert!(refused(&|| drop(columns.take(1))));
        drop(held);
        drop(columns.take(1));
        assert!(refused(&|| drop(columns.take(3))));
        assert!(refused(&|| drop(columns.take(usize::MAX))));
        let mut last = columns.take(2);
        assert_eq!((last.first(), last.width(), last.row(0).len()), (8, 2, 2));
        drop(last);
        assert!(refused(&|| assert_eq!(columns.take(2).slice(0, 1, 2), [])));
        assert!(refused(&|| assert_eq!(
            columns.take(0).slice(0, 2, usize::MAX),
            []
        )));
        assert!(refused(&|| assert_eq!(columns.take(0).slice(1, 0, 4), [])));
        assert!(refused(&|| assert_eq!(
            columns.take(0).slice(usize::MAX, 0, 1),
            []
        )));
    }
}
