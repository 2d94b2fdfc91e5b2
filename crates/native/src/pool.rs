//! Threads that wait for work: awake for a moment, then asleep.
//!
//! Steps of a program follow each other within microseconds, and waking a thread takes longer than most of them. So threads
//! stay awake for about as long as that takes. One job runs at a time; whoever comes while the pool is busy, from another
//! thread or from inside a job, works alone. `rayon` is not used for this because its scopes hand jobs over through
//! queues, which took several times as long.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};

/// Looks for work before a thread falls asleep: some 30 microseconds.
const LOOKS: usize = 1500;
/// Looks for the end of a job before the caller lets others run.
const PATIENCE: usize = 20_000;

/// A job's work. The caller waits until nobody is inside, so it may borrow from its stack.
type Work = *const (dyn Fn() + Sync);

/// Threads that may still join the job, and those inside: two halves of one word, so that both change together.
const PLACE: u64 = 1 << 32;
const INSIDE: u64 = PLACE - 1;

struct Pool {
    /// Held by the one whose job it is.
    busy: AtomicBool,
    state: AtomicU64,
    work: UnsafeCell<Option<Work>>,
    asleep: AtomicUsize,
    gate: Mutex<()>,
    bell: Condvar,
    /// What a thread's work panicked with.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// Threads beside the caller.
    threads: usize,
}

// SAFETY: `work` is written by the holder of `busy` alone, before places are given and after everybody has left; it is
// read by those alone who have taken a place.
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
        let asked = ["CLEMATIS_THREADS", "RAYON_NUM_THREADS"]
            .iter()
            .filter_map(|name| std::env::var(name).ok()?.trim().parse().ok())
            .find(|&count: &usize| count > 0);
        let there = || std::thread::available_parallelism().map_or(1, usize::from);
        asked.unwrap_or_else(there)
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
    #[cfg(unix)]
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
            busy: AtomicBool::new(false),
            state: AtomicU64::new(0),
            work: UnsafeCell::new(None),
            asleep: AtomicUsize::new(0),
            gate: Mutex::new(()),
            bell: Condvar::new(),
            panic: Mutex::new(None),
            threads: default_threads() - 1,
        }));
        let pool = &*pool;
        for i in 0..pool.threads {
            let named = std::thread::Builder::new().name(format!("clematis-{i}"));
            // A machine that has no more threads to give: the others do the work.
            let _ = named.spawn(|| pool.serve());
        }
        pool
    })
}

/// Runs `work` on this thread and on up to `others` more; returns when all are done.
pub fn run(others: usize, work: &(dyn Fn() + Sync)) {
    if others == 0 {
        return work();
    }
    let pool = pool();
    let alone = pool.threads == 0 || FORKED.load(Ordering::Relaxed);
    if alone || pool.busy.swap(true, Ordering::Acquire) {
        return work();
    }
    // SAFETY: only the lifetime changes; `finish` below waits for everybody before this function returns or unwinds.
    let erased = unsafe { std::mem::transmute::<&(dyn Fn() + Sync), Work>(work) };
    // SAFETY: `busy` is ours and nobody is inside.
    unsafe { *pool.work.get() = Some(erased) };
    let places = others.min(pool.threads) as u64 * PLACE;
    pool.state.store(places, Ordering::SeqCst);
    if pool.asleep.load(Ordering::SeqCst) > 0 {
        let _gate = lock(&pool.gate);
        pool.bell.notify_all();
    }
    let own = catch_unwind(AssertUnwindSafe(work));
    pool.finish();
    let theirs = lock(&pool.panic).take();
    pool.busy.store(false, Ordering::Release);
    if let Some(panic) = own.err().or(theirs) {
        resume_unwind(panic);
    }
}

impl Pool {
    /// Lets nobody in any more and waits until nobody is inside.
    fn finish(&self) {
        let mut looks = 0;
        self.state.fetch_and(INSIDE, Ordering::AcqRel);
        while self.state.load(Ordering::Acquire) != 0 {
            looks += 1;
            if looks < PATIENCE {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Takes a place, if there is one.
    fn enter(&self) -> bool {
        let mut state = self.state.load(Ordering::Acquire);
        while state >= PLACE {
            let next = state - PLACE + 1;
            match self
                .state
                .compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// What a thread does all its life.
    fn serve(&self) {
        loop {
            if self.enter() {
                // SAFETY: a place was taken, so the job's owner waits until this thread has left.
                let work = unsafe { (*self.work.get()).map(|work| &*work) };
                if let Some(work) = work
                    && let Err(panic) = catch_unwind(AssertUnwindSafe(work))
                {
                    lock(&self.panic).get_or_insert(panic);
                }
                self.state.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            let comes = (0..LOOKS).any(|_| {
                std::hint::spin_loop();
                self.state.load(Ordering::Relaxed) >= PLACE
            });
            if !comes {
                self.sleep();
            }
        }
    }

    fn sleep(&self) {
        let mut gate = lock(&self.gate);
        self.asleep.fetch_add(1, Ordering::SeqCst);
        // Whoever gives places looks for sleepers afterwards: either it sees this one, or this one sees the places.
        while self.state.load(Ordering::SeqCst) < PLACE {
            gate = self.bell.wait(gate).unwrap_or_else(|e| e.into_inner());
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
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
                    for _ in 0..2000 {
                        let (next, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
                        run(3, &|| {
                            loop {
                                let task = next.fetch_add(1, Ordering::Relaxed);
                                if task >= 20 {
                                    break;
                                }
                                sum.fetch_add(task, Ordering::Relaxed);
                            }
                        });
                        assert_eq!(sum.into_inner(), 190);
                    }
                });
            }
        });
    }

    #[test]
    fn a_job_inside_of_a_job_runs() {
        let count = AtomicUsize::new(0);
        run(2, &|| {
            run(2, &|| {
                count.fetch_add(1, Ordering::Relaxed);
            })
        });
        assert!(count.into_inner() >= 1);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
        for _ in 0..50 {
            let caught = catch_unwind(|| run(2, &|| panic!("on purpose")));
            assert!(caught.is_err());
        }
        let count = AtomicUsize::new(0);
        run(1, &|| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert!(count.into_inner() >= 1);
    }

    #[test]
    fn threads_that_fell_asleep_are_woken() {
        for _ in 0..20 {
            let count = AtomicUsize::new(0);
            run(1, &|| {
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(2));
            });
            assert!(count.into_inner() >= 1);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
