//! Interrupts of long-running work, as by Ctrl-C.
//!
//! The embedder registers a function that polls for interrupts; long-running code calls `check` between steps.

use crate::error::Result;
use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

static ASK: OnceLock<fn() -> Result<()>> = OnceLock::new();

/// Polling may take a lock, so it is rate-limited to what people do not notice.
const PAUSE: Duration = Duration::from_millis(40);

thread_local! {
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as a worker of another thread: `check` always succeeds here, because the other thread polls.
/// Polling may wait for a lock that the other thread holds.
pub fn set_worker() {
    IS_WORKER.set(true);
}

/// Whether a poll function is registered.
#[inline]
pub fn is_listening() -> bool {
    ASK.get().is_some()
}

/// Registers the function that polls for interrupts; it returns an error to interrupt. The first registration wins.
pub fn listen(ask: fn() -> Result<()>) {
    let _ = ASK.set(ask);
}

/// Returns an error if the work is to be interrupted.
#[inline]
pub fn check() -> Result<()> {
    match ASK.get() {
        Some(ask) => ask_at_times(*ask),
        None => Ok(()),
    }
}

fn ask_at_times(ask: fn() -> Result<()>) -> Result<()> {
    let now = Instant::now();
    match LAST.get() {
        Some(last) if now.duration_since(last) < PAUSE => Ok(()),
        _ if IS_WORKER.get() => Ok(()),
        _ => {
            LAST.set(Some(now));
            ask()
        }
    }
}

/// Runs work while the caller's lock is released.
pub type Release = fn(&mut dyn FnMut());

static RELEASE: OnceLock<Release> = OnceLock::new();

/// Registers how a caller's lock is released during long work, as Python's GIL is. The first registration wins.
pub fn release_by(release: Release) {
    let _ = RELEASE.set(release);
}

/// Runs long work without the caller's lock. The work uses only what it borrows.
pub fn released<R>(work: impl FnOnce() -> R) -> R {
    let Some(release) = RELEASE.get() else {
        return work();
    };
    // However it is called, the work runs once.
    let mut state = Released::Waits(work);
    release(&mut || state.run());
    state.run();
    match state {
        Released::Done(out) => out,
        Released::Waits(work) => work(),
        Released::Runs => unreachable!("work ended without a result and without a panic"),
    }
}

enum Released<F, R> {
    Waits(F),
    Runs,
    Done(R),
}

impl<F: FnOnce() -> R, R> Released<F, R> {
    fn run(&mut self) {
        match std::mem::replace(self, Released::Runs) {
            Released::Waits(work) => *self = Released::Done(work()),
            other => *self = other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_work_runs_once() {
        assert_eq!(released(|| 7), 7);
        release_by(|work| {
            work();
            work();
        });
        let mut count = 0;
        assert_eq!(
            released(|| {
                count += 1;
                8
            }),
            8
        );
        assert_eq!(count, 1);
    }
}
