//! The thread pool: workers spin briefly for work, then sleep.
//!
//! Steps of a program follow each other within microseconds, and waking a thread takes longer than most of them, so
//! workers spin for about as long as a wake-up takes. One job runs at a time; a caller that finds the pool busy, from
//! another thread or from within a job, runs its job alone. `rayon` is not used because its scopes pass jobs through
//! queues, which took several times as long.
#![allow(unsafe_code)]

// Given by path, because `clematis-models` includes this file as well.
#[path = "pool/gate.rs"]
mod gate;

use gate::Gate;
use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// Synchronization primitives of the gate.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
}

/// Checks for work before a worker sleeps: some 30 microseconds.
const SPINS_BEFORE_SLEEP: usize = if cfg!(miri) { 10 } else { 1500 };
/// Checks for the end of a job before the caller yields.
const SPINS_BEFORE_YIELD: usize = if cfg!(miri) { 10 } else { 20_000 };

/// A job's closure. The caller waits until no worker runs it, so it may borrow from the caller's stack.
type Work = *const (dyn Fn() + Sync);

struct Pool {
    gate: Gate,
    work: UnsafeCell<Option<Work>>,
    /// The payload of a worker's panic.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Workers beside the caller.
    threads: usize,
}

// SAFETY: only the owner of the gate writes `work`, before it opens the gate and after all workers have left; only
// workers inside read it.
unsafe impl Sync for Pool {}
// SAFETY: as above; only workers inside follow the pointer.
unsafe impl Send for Pool {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// The default number of threads: the machine's, or the value of the environment variable. One in a forked process,
/// which has none of its parent's threads.
pub fn default_threads() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    let count = *COUNT.get_or_init(|| {
        watch_for_forks();
        let configured = ["CLEMATIS_THREADS", "RAYON_NUM_THREADS"]
            .iter()
            .filter_map(|name| std::env::var(name).ok()?.trim().parse().ok())
            .find(|&count: &usize| count > 0);
        let there = || std::thread::available_parallelism().map_or(1, usize::from);
        configured.unwrap_or_else(there)
    });
    if FORKED.load(Ordering::Relaxed) {
        1
    } else {
        count
    }
}

/// Whether this process was forked after the threads were counted. Asking the system for the process id on every call
/// would take longer than a small matmul.
static FORKED: AtomicBool = AtomicBool::new(false);

fn watch_for_forks() {
    #[cfg(all(unix, not(miri)))]
    {
        unsafe extern "C" fn in_child() {
            FORKED.store(true, Ordering::Relaxed);
        }
        // SAFETY: the handler only stores to an atomic, which is allowed in a forked child.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

/// Runs `work` on this thread and on up to `helpers` more; returns when all are done. Calls `waiting` repeatedly while
/// it waits for the helpers.
pub fn run(helpers: usize, work: &(dyn Fn() + Sync), waiting: &dyn Fn()) {
    static POOL: OnceLock<&'static Pool> = OnceLock::new();
    if helpers == 0 {
        return work();
    }
    POOL.get_or_init(|| Pool::start(default_threads() - 1))
        .run(helpers, work, waiting);
}

impl Pool {
    /// Starts a pool of this many workers, which serve for the rest of the process.
    fn start(threads: usize) -> &'static Pool {
        let pool: &Pool = Box::leak(Box::new(Pool {
            gate: Gate::default(),
            work: UnsafeCell::new(None),
            panic: Mutex::new(None),
            threads,
        }));
        for i in 0..threads {
            let named = std::thread::Builder::new().name(format!("clematis-{i}"));
            // If the machine cannot start more threads, the existing ones do the work.
            let _ = named.spawn(|| pool.serve());
        }
        pool
    }

    fn run(&self, helpers: usize, work: &(dyn Fn() + Sync), waiting: &dyn Fn()) {
        let alone = self.threads == 0 || FORKED.load(Ordering::Relaxed);
        if alone || !self.gate.claim() {
            return work();
        }
        // SAFETY: only the lifetime changes; `close` below waits for all helpers before this function returns or
        // unwinds.
        let erased = unsafe { std::mem::transmute::<&(dyn Fn() + Sync), Work>(work) };
        // SAFETY: the gate is ours and no worker is inside.
        unsafe { *self.work.get() = Some(erased) };
        self.gate.open(helpers.min(self.threads));
        let mut own = catch_unwind(AssertUnwindSafe(work));
        let mut spins = 0;
        self.gate.close(|| {
            spins += 1;
            if spins < SPINS_BEFORE_YIELD {
                std::hint::spin_loop();
            } else {
                // Helpers are still inside, whatever happens here.
                if let Err(panic) = catch_unwind(AssertUnwindSafe(waiting))
                    && own.is_ok()
                {
                    own = Err(panic);
                }
                std::thread::yield_now();
            }
        });
        let theirs = lock(&self.panic).take();
        self.gate.release();
        if let Some(panic) = own.err().or(theirs) {
            resume_unwind(panic);
        }
    }

    /// The main loop of a worker.
    fn serve(&self) {
        clematis_core::interrupt::set_worker();
        loop {
            if self.gate.enter() {
                // SAFETY: a slot was taken, so the job's owner waits until this thread has left.
                let work = unsafe { (*self.work.get()).map(|work| &*work) };
                if let Some(work) = work
                    && let Err(panic) = catch_unwind(AssertUnwindSafe(work))
                {
                    lock(&self.panic).get_or_insert(panic);
                }
                self.gate.leave();
                continue;
            }
            let comes = (0..SPINS_BEFORE_SLEEP).any(|_| {
                std::hint::spin_loop();
                self.gate.is_open()
            });
            if !comes {
                self.gate.sleep();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::{Duration, Instant};

    #[test]
    fn all_tasks_are_done_whoever_asks() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
                        let (next, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
                        let work = || {
                            loop {
                                let task = next.fetch_add(1, Ordering::Relaxed);
                                if task >= 20 {
                                    break;
                                }
                                sum.fetch_add(task, Ordering::Relaxed);
                            }
                        };
                        run(3, &work, &|| ());
                        assert_eq!(sum.into_inner(), 190);
                    }
                });
            }
        });
    }

    #[test]
    fn a_job_inside_of_a_job_runs() {
        let count = AtomicUsize::new(0);
        let inner = || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        run(2, &|| run(2, &inner, &|| ()), &|| ());
        assert!(count.into_inner() >= 1);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
        for _ in 0..if cfg!(miri) { 3 } else { 50 } {
            let caught = catch_unwind(|| run(2, &|| panic!("on purpose"), &|| ()));
            assert!(caught.is_err());
        }
        let count = AtomicUsize::new(0);
        let work = || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        run(1, &work, &|| ());
        assert!(count.into_inner() >= 1);
    }

    #[test]
    fn sleeping_workers_are_woken() {
        // A pool of its own: nobody else claims it, so each job has its worker.
        let pool = Pool::start(1);
        for _ in 0..if cfg!(miri) { 3 } else { 20 } {
            std::thread::sleep(Duration::from_millis(1));
            let count = AtomicUsize::new(0);
            let end = Instant::now() + Duration::from_secs(60);
            let work = || {
                count.fetch_add(1, Ordering::Relaxed);
                // The job ends when both threads have begun it.
                while count.load(Ordering::Relaxed) < 2 && Instant::now() < end {
                    std::thread::yield_now();
                }
            };
            pool.run(1, &work, &|| ());
            assert_eq!(count.into_inner(), 2);
        }
    }
}
