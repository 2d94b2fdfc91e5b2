//! Whether a long run is to end early, as when a user presses Ctrl-C.
//!
//! Whoever knows of such wishes says once how they are asked for; whoever runs long asks between two steps.

use crate::error::Result;
use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

static ASK: OnceLock<fn() -> Result<()>> = OnceLock::new();

/// Asking may mean to wait for a lock, so it is not done more often than people notice.
const PAUSE: Duration = Duration::from_millis(40);

thread_local! {
    static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Says that this thread works for another one, which asks for it: its own checks find nothing. To ask may mean to wait for a
/// lock that the other one holds.
pub fn set_worker() {
    IS_WORKER.set(true);
}

/// Whether anybody may ask for an end.
#[inline]
pub fn is_listening() -> bool {
    ASK.get().is_some()
}

/// Says how a wish to end is asked for: with an error if there is one. The first to say so counts.
pub fn listen(ask: fn() -> Result<()>) {
    let _ = ASK.set(ask);
}

/// An error if the run is to end now.
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

/// Runs work while whoever called lets go of what others wait for.
pub type Release = fn(&mut dyn FnMut());

static RELEASE: OnceLock<Release> = OnceLock::new();

/// Says how a caller lets others go on during long work, as Python lets its other threads run; the first to say so counts.
pub fn release_by(release: Release) {
    let _ = RELEASE.set(release);
}

/// Runs long work that touches nothing of the caller's but what it borrows.
pub fn released<R>(work: impl FnOnce() -> R) -> R {
    let Some(release) = RELEASE.get() else {
        return work();
    };
    // Whichever way it is called, it runs once.
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
