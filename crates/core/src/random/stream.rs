//! The stream that draws without a key of their own are made from.
//!
//! One for the whole process: the n-th draw after a seed is the same whatever backend and thread makes it.

use crate::random::Key;
use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard};

/// Where the stream stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// What it was seeded with.
    pub seed: u64,
    /// How many keys were taken since.
    pub count: u64,
}

static STATE: Mutex<State> = Mutex::new(State { seed: 0, count: 0 });

fn locked() -> MutexGuard<'static, State> {
    // Plain numbers: a panic elsewhere left them whole.
    STATE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Begins anew.
pub fn seed(seed: u64) {
    *locked() = State { seed, count: 0 };
}

/// Gives a key at each call.
type Source = Box<dyn FnMut() -> Key>;

thread_local! {
    /// Where keys come from while programs are recorded, the innermost last.
    static RECORDED: RefCell<Vec<Source>> = const { RefCell::new(Vec::new()) };
}

/// Takes its source away again, also when unwinding.
struct Recording;

impl Drop for Recording {
    fn drop(&mut self) {
        RECORDED.with_borrow_mut(|sources| sources.pop());
    }
}

/// Runs `f` with keys from this source instead of the stream, so that a program that is recorded draws anew at each call.
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

/// Where it stands.
pub fn state() -> State {
    *locked()
}

/// Goes on from another place.
pub fn set_state(state: State) {
    *locked() = state;
}
