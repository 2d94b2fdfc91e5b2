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
