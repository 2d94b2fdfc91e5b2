//! Accounting of allocated bytes. `super::sync` names the primitives, so that a model checker can substitute its own.

use super::sync::{AtomicUsize, Ordering};

/// A count of bytes that never exceeds a limit.
#[derive(Default)]
pub(crate) struct Budget(pub(crate) AtomicUsize);

impl Budget {
    /// The bytes that are allocated now.
    pub(crate) fn used(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Reserves bytes; `false`, with nothing reserved, if that would exceed the limit.
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

    /// Releases bytes.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}
