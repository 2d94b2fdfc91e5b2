//! Model-checks the engine's synchronisation primitives with loom: all interleavings up to a few preemptions.
#![cfg(not(miri))]
#![allow(missing_docs, unsafe_code, clippy::unwrap_used, dead_code)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// The primitives that the modules use, here those of loom.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
}

#[path = "../../native/src/memory/budget.rs"]
mod budget;
#[path = "../../core/src/jit/cache.rs"]
#[allow(dead_code)]
mod cache;
#[allow(dead_code)]
#[path = "../../native/src/pool/gate.rs"]
mod gate;

use budget::Budget;
use gate::Gate;

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// A job: the gate, and the data that its owner writes and workers read.
#[derive(Default)]
struct Job {
    gate: Gate,
    work: UnsafeCell<usize>,
}

impl Job {
    fn run(&self, work: usize) -> bool {
        if !self.gate.claim() {
            return false;
        }
        // SAFETY: no worker is inside yet; loom fails if a read and a write can overlap.
        self.work.with_mut(|at| unsafe { *at = work });
        self.gate.open(1);
        self.gate.close(thread::yield_now);
        // SAFETY: all workers have left.
        self.work.with_mut(|at| unsafe { *at = 0 });
        self.gate.release();
        true
    }
}

#[test]
fn a_worker_reads_work_only_while_its_owner_waits() {
    check(|| {
        let job = Arc::new(Job::default());
        let worker = {
            let job = job.clone();
            thread::spawn(move || {
                if job.gate.enter() {
                    // SAFETY: this thread is inside, so the owner waits.
                    let work = job.work.with(|at| unsafe { *at });
                    assert_eq!(work, 7);
                    job.gate.leave();
                }
            })
        };
        assert!(job.run(7));
        worker.join().unwrap();
    });
}

#[test]
fn one_owner_at_a_time_has_the_gate() {
    check(|| {
        let job = Arc::new(Job::default());
        let other = {
            let job = job.clone();
            thread::spawn(move || job.run(1))
        };
        let own = job.run(2);
        assert!(own | other.join().unwrap());
        assert!(job.run(3));
    });
}

#[test]
fn a_sleeper_is_woken_whenever_it_fell_asleep() {
    check(|| {
        let gate = Arc::new(Gate::default());
        let sleeper = {
            let gate = gate.clone();
            thread::spawn(move || {
                gate.sleep();
                assert!(gate.enter());
                gate.leave();
            })
        };
        assert!(gate.claim());
        gate.open(1);
        // All threads end if no wake-up is lost.
        sleeper.join().unwrap();
        gate.close(thread::yield_now);
        gate.release();
    });
}

#[test]
fn a_budget_is_never_exceeded_and_comes_back() {
    check(|| {
        let budget = Arc::new(Budget::default());
        let take = |budget: &Budget| {
            let taken = budget.take(6, 10);
            if taken {
                assert!(budget.used() <= 10);
                budget.give_back(6);
            }
            taken
        };
        let other = {
            let budget = budget.clone();
            thread::spawn(move || take(&budget))
        };
        let own = take(&budget);
        assert!(own | other.join().unwrap());
        assert_eq!(budget.used(), 0);
        assert!(!budget.take(usize::MAX, 10));
    });
}

#[test]
fn threads_that_compile_the_same_agree_in_the_end() {
    check(|| {
        let cache = Arc::new(sync::Mutex::new(cache::Cache::<u8, u8>::new(1)));
        let program = |cache: &sync::Mutex<cache::Cache<u8, u8>>, key: u8| {
            // As `Jitted` does: look up, compile without the lock, insert.
            if let Some(found) = cache.lock().unwrap().get(&key) {
                return *found;
            }
            let made = std::sync::Arc::new(key + 1);
            cache.lock().unwrap().put(key, made.clone());
            *made
        };
        let other = {
            let cache = cache.clone();
            thread::spawn(move || (program(&cache, 1), program(&cache, 2)))
        };
        assert_eq!(program(&cache, 1), 2);
        assert_eq!(other.join().unwrap(), (2, 3));
        let stats = cache.lock().unwrap().stats();
        assert_eq!(stats.cached, 1);
        assert!((2..=3).contains(&stats.traced), "{stats:?}");
    });
}
