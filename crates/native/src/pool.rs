//! Threads that wait for work: awake for a moment, then asleep.
//!
//! Steps of a program follow each other within microseconds, and waking a thread takes longer than most of them. So threads
//! stay awake for about as long as that takes. One job runs at a time; whoever comes while the pool is busy, from another
//! thread or from inside a job, works alone. `rayon` is not used for this because its scopes hand jobs over through
//! queues, which took several times as long.
#![allow(unsafe_code)]

// By its path, since this file is a module of `clematis-models` as well.
#[path = "pool/gate.rs"]
mod gate;

use gate::Gate;
use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// What the gate is made of.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
}

/// Looks for work before a thread falls asleep: some 30 microseconds.
const SPINS_BEFORE_SLEEP: usize = if cfg!(miri) { 10 } else { 1500 };
/// Looks for the end of a job before the caller lets helpers run.
const SPINS_BEFORE_YIELD: usize = if cfg!(miri) { 10 } else { 20_000 };

/// A job's work. The caller waits until nobody is inside, so it may borrow from its stack.
type Work = *const (dyn Fn() + Sync);

struct Pool {
    gate: Gate,
    work: UnsafeCell<Option<Work>>,
    /// What a thread's work panicked with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Threads beside the caller.
    threads: usize,
}

// SAFETY: `work` is written by the owner of the gate alone, before it is opened and after everybody has left; it is read by those
// alone who are inside.
unsafe impl Sync for Pool {}
// SAFETY: as above; the pointer in it is followed by nobody but those inside.
unsafe impl Send for Pool {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

/// How many threads work at once by default: the machine's, or what the environment says. One in a process that was forked off:
/// none of its parent's threads are there.
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

/// Whether this process was forked off one that had counted its threads. To ask the system each time who we are takes longer than
/// a small product.
static FORKED: AtomicBool = AtomicBool::new(false);

fn watch_for_forks() {
    #[cfg(all(unix, not(miri)))]
    {
        unsafe extern "C" fn in_child() {
            FORKED.store(true, Ordering::Relaxed);
        }
        // SAFETY: the function does nothing but store to an atomic, which is allowed in a child.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    }
}

fn pool() -> &'static Pool {
    static POOL: OnceLock<&'static Pool> = OnceLock::new();
    POOL.get_or_init(|| {
        let pool = Box::leak(Box::new(Pool {
            gate: Gate::default(),
            work: UnsafeCell::new(None),
            panic: Mutex::new(None),
            threads: default_threads() - 1,
        }));
        let pool = &*pool;
        for i in 0..pool.threads {
            let named = std::thread::Builder::new().name(format!("clematis-{i}"));
            // A machine that has no more threads to give: the helpers do the work.
            let _ = named.spawn(|| pool.serve());
        }
        pool
    })
}

/// Runs `work` on this thread and on up to `helpers` more; returns when all are done. Calls `waiting` again and again while it waits
/// for the helpers.
pub fn run(helpers: usize, work: &(dyn Fn() + Sync), waiting: &dyn Fn()) {
    if helpers == 0 {
        return work();
    }
    let pool = pool();
    let alone = pool.threads == 0 || FORKED.load(Ordering::Relaxed);
    if alone || !pool.gate.claim() {
        return work();
    }
    // SAFETY: only the lifetime changes; `close` below waits for everybody before this function returns or unwinds.
    let erased = unsafe { std::mem::transmute::<&(dyn Fn() + Sync), Work>(work) };
    // SAFETY: the gate is ours and nobody is inside.
    unsafe { *pool.work.get() = Some(erased) };
    pool.gate.open(helpers.min(pool.threads));
    let mut own = catch_unwind(AssertUnwindSafe(work));
    let mut spins = 0;
    pool.gate.close(|| {
        spins += 1;
        if spins < SPINS_BEFORE_YIELD {
            std::hint::spin_loop();
        } else {
            // Others are still inside, whatever happens here.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(waiting))
                && own.is_ok()
            {
                own = Err(panic);
            }
            std::thread::yield_now();
        }
    });
    let theirs = lock(&pool.panic).take();
    pool.gate.release();
    if let Some(panic) = own.err().or(theirs) {
        resume_unwind(panic);
    }
}

impl Pool {
    /// What a thread does all its life.
    fn serve(&self) {
        clematis_core::interrupt::set_worker();
        loop {
            if self.gate.enter() {
                // SAFETY: a place was taken, so the job's owner waits until this thread has left.
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
    fn threads_that_fell_asleep_are_woken() {
        for _ in 0..if cfg!(miri) { 3 } else { 20 } {
            let count = AtomicUsize::new(0);
            let work = || {
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(2));
            };
            run(1, &work, &|| ());
            assert!(count.into_inner() >= 1);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
