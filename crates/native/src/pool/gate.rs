//! The gate of the thread pool: which threads may work on the current job. It holds the shared state of the pool
//! without the job itself.
//!
//! The owner claims the gate, opens it for some workers, works, closes it and waits until nobody is inside, then
//! releases it. `super::sync` names the primitives, so that a model checker can substitute its own.

use super::sync::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence,
};

/// Free slots of the job in the upper 32 bits, workers inside in the lower 32 bits: one word, so that both change
/// atomically.
const SLOT: u64 = 1 << 32;
const INSIDE: u64 = SLOT - 1;

/// See the module documentation.
#[derive(Default)]
pub(crate) struct Gate {
    /// Held by the owner of the current job.
    busy: AtomicBool,
    state: AtomicU64,
    asleep: AtomicUsize,
    gate: Mutex<()>,
    bell: Condvar,
}

impl Gate {
    /// Claims the gate; `false` if somebody else owns it.
    pub(crate) fn claim(&self) -> bool {
        let claimed = self
            .busy
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        claimed.is_ok()
    }

    /// Releases ownership.
    pub(crate) fn release(&self) {
        self.busy.store(false, Ordering::Release);
    }

    /// Opens the gate for `slots` workers. Only for the owner.
    pub(crate) fn open(&self, slots: usize) {
        self.state.store(slots as u64 * SLOT, Ordering::Release);
        // Pairs with the fence in `sleep`: either this thread sees the sleeper, or the sleeper sees the slots.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) > 0 {
            let _gate = self.lock();
            self.bell.notify_all();
        }
    }

    /// Closes the gate and waits until nobody is inside; calls `wait` in between. Only for the owner.
    pub(crate) fn close(&self, mut wait: impl FnMut()) {
        self.state.fetch_and(INSIDE, Ordering::AcqRel);
        while self.state.load(Ordering::Acquire) != 0 {
            wait();
        }
    }

    /// Takes a slot, if there is one.
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

    /// Leaves the job.
    pub(crate) fn leave(&self) {
        self.state.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether there seems to be a free slot.
    pub(crate) fn is_open(&self) -> bool {
        self.state.load(Ordering::Relaxed) >= SLOT
    }

    /// Sleeps until there is a free slot.
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
