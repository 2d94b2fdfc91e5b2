//! The implicit random stream: keys for draws without an explicit key.
//!
//! There is one stream per process: the n-th draw after a seed is the same on every backend and thread.

use crate::random::Key;
use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard};

/// The state of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The seed.
    pub seed: u64,
    /// Number of keys drawn since seeding.
    pub count: u64,
}

static STATE: Mutex<State> = Mutex::new(State { seed: 0, count: 0 });

fn locked() -> MutexGuard<'static, State> {
    // The state is plain numbers: a panic elsewhere cannot leave it inconsistent.
    STATE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Seeds the stream.
pub fn seed(seed: u64) {
    *locked() = State { seed, count: 0 };
}

/// Returns a new key at each call.
type Source = Box<dyn FnMut() -> Key>;

thread_local! {
    /// Sources of keys while programs are recorded, the innermost last.
    static RECORDED: RefCell<Vec<Source>> = const { RefCell::new(Vec::new()) };
}

/// Removes its source when dropped, also when unwinding.
struct Recording;

impl Drop for Recording {
    fn drop(&mut self) {
        RECORDED.with_borrow_mut(|sources| sources.pop());
    }
}

/// Runs `f` with keys from this source instead of the stream, so that a recorded program draws new numbers at each
/// call.
pub fn with_source<R>(source: impl FnMut() -> Key + 'static, f: impl FnOnce() -> R) -> R {
    RECORDED.with_borrow_mut(|sources| sources.push(Box::new(source)));
    let _own = Recording;
    f()
}

/// The key of the next draw.
pub fn next_key() -> Key {
    let recorded = RECORDED.with_borrow_mut(|sources| sources.last_mut().map(|source| source()));
    if let Some(key) = recorded {
        return key;
    }
    let mut state = locked();
    let at = state.count;
    state.count += 1;
    Key::new(state.seed).fold_in(at)
}

/// The current state.
pub fn state() -> State {
    *locked()
}

/// Restores a state.
pub fn set_state(state: State) {
    *locked() = state;
}
