//! How many bytes are taken. `super::sync` names the primitives, so that a model checker can put its own in their place.

use super::sync::{AtomicUsize, Ordering};

/// A count of bytes that never exceeds a limit.
#[derive(Default)]
pub(crate) struct Budget(pub(crate) AtomicUsize);

impl Budget {
    /// The bytes that are taken now.
    pub(crate) fn used(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes so many more; `false`, and nothing taken, where there would be more than the limit.
    pub(crate) fn take(&self, bytes: usize, limit: usize) -> bool {
        let mut used = self.used();
        loop {
            let Some(next) = used.checked_add(bytes).filter(|&next| next <= limit) else {
                return false;
            };
            match self
                .0
                .compare_exchange_weak(used, next, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(now) => used = now,
            }
        }
    }

    /// Gives so many back.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}
