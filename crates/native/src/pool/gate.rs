//! Who may work on a job: the part of the pool that threads share, without the job itself.
//!
//! The owner claims the gate, opens it for some others, works, closes it and waits until nobody is inside, then releases it.
//! `super::sync` names the primitives, so that a model checker can put its own in their place.

use super::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence,
};

/// Threads that may still join the job, and those inside: two halves of one word, so that both change together.
const SLOT: u64 = 1 << 32;
const INSIDE: u64 = SLOT - 1;

/// See the module.
#[derive(Default)]
pub(crate) struct Gate {
    /// Held by the one whose job it is.
    busy: AtomicBool,
    state: AtomicU64,
    asleep: AtomicUsize,
    gate: Mutex<()>,
    bell: Condvar,
}

impl Gate {
    /// Whether the caller owns the gate now; nobody does if somebody else owns it.
    pub(crate) fn claim(&self) -> bool {
        let claimed = self
            .busy
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        claimed.is_ok()
    }

    /// Gives it up.
    pub(crate) fn release(&self) {
        self.busy.store(false, Ordering::Release);
    }

    /// Lets so many in. For the owner.
    pub(crate) fn open(&self, slots: usize) {
        self.state.store(slots as u64 * SLOT, Ordering::Release);
        // Of this fence and the one in `sleep`, one comes first: either this thread sees the sleeper, or that sees the slots.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) > 0 {
            let _gate = self.lock();
            self.bell.notify_all();
        }
    }

    /// Lets nobody in any more and waits until nobody is inside; calls `wait` in between. For the owner.
    pub(crate) fn close(&self, mut wait: impl FnMut()) {
        self.state.fetch_and(INSIDE, Ordering::AcqRel);
        while self.state.load(Ordering::Acquire) != 0 {
            wait();
        }
    }

    /// Takes a place, if there is one.
    pub(crate) fn enter(&self) -> bool {
        let mut state = self.state.load(Ordering::Acquire);
        while state >= SLOT {
            let next = state - SLOT + 1;
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

    /// Goes out again.
    pub(crate) fn leave(&self) {
        self.state.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether there seems to be a place.
    pub(crate) fn is_open(&self) -> bool {
        self.state.load(Ordering::Relaxed) >= SLOT
    }

    /// Sleeps until there is a place.
    pub(crate) fn sleep(&self) {
        let mut gate = self.lock();
        self.asleep.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while self.state.load(Ordering::Acquire) < SLOT {
            gate = self.bell.wait(gate).unwrap_or_else(|e| e.into_inner());
        }
        self.asleep.fetch_sub(1, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().unwrap_or_else(|e| e.into_inner())
    }
}
