//! Memory for all results of one run of a compiled graph: a range of addresses whose parts are lent, each in the smallest place where it
//! fits, and joined again when they come back. Blocks of fixed sizes would not serve each other: at the time when one size
//! is needed most, those of another lie idle.
//!
//! Only what was once lent is real memory: pages are given by the system when they are first written.
#![allow(unsafe_code)]

use clematis_core::host::{Bytes, Lender, Line};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::memory;

const LINE: usize = size_of::<Line>();
/// Addresses beyond what a graph holds at once: for what kernels take beside it, and for places that nothing fits into.
const HEADROOM: usize = 2;

/// A range of addresses under division.
struct Arena {
    start: *mut Line,
    lines: usize,
    state: Mutex<State>,
}

struct State {
    /// Where free places begin, with their lines; no two touch each other.
    free: BTreeMap<usize, usize>,
    /// Lines from the start that were lent at some time.
    touched: usize,
}

// SAFETY: the pointer is to memory that belongs to this arena, whose parts are handed out one owner at a time under the lock.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// A range of so many lines; `None` where the system has no such thing.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn new(lines: usize) -> Option<Arc<Self>> {
        let bytes = lines.checked_mul(LINE)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh anonymous mapping, which touches nothing that exists.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the range was mapped just now; a wish that changes no contents.
        unsafe { libc::madvise(start, bytes, libc::MADV_HUGEPAGE) };
        let state = State {
            free: BTreeMap::from([(0, lines)]),
            touched: 0,
        };
        Some(Arc::new(Arena {
            start: start.cast(),
            lines,
            state: Mutex::new(state),
        }))
    }

    #[cfg(not(all(target_os = "linux", not(miri))))]
    fn new(_: usize) -> Option<Arc<Self>> {
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Lends a part of which `len` bytes count; `None` where none is large enough, or the limit is reached.
    fn allocate(self: &Arc<Self>, len: usize) -> Option<Bytes> {
        let lines = len.div_ceil(LINE).max(1);
        let mut state = self.state();
        let fits = state.free.iter().filter(|(_, have)| **have >= lines);
        // What lies beyond all that was lent before is taken last.
        let (&at, &have) =
            fits.min_by_key(|(at, have)| (**at + lines > state.touched, **have, **at))?;
        let more = (at + lines).saturating_sub(state.touched);
        if !memory::count_allocated(more * LINE) {
            return None;
        }
        state.touched += more;
        state.free.remove(&at);
        if have > lines {
            state.free.insert(at + lines, have - lines);
        }
        // SAFETY: the lines are mapped, hold zeros or what was written before, and were free: nobody else has them.
        Some(unsafe { Bytes::lend(self.start.add(at), lines, len, self.clone()) })
    }

    fn touched_bytes(&self) -> usize {
        self.state().touched * LINE
    }
}

impl Lender for Arena {
    fn take_back(&self, start: *mut Line, lines: usize) {
        let at = (start.addr() - self.start.addr()) / LINE;
        let mut state = self.state();
        let (mut at, mut lines) = (at, lines);
        if let Some(next) = state.free.remove(&(at + lines)) {
            lines += next;
        }
        let before = state.free.range(..at).next_back().map(|(a, n)| (*a, *n));
        if let Some((first, have)) = before.filter(|(first, have)| first + have == at) {
            state.free.remove(&first);
            (at, lines) = (first, lines + have);
        }
        state.free.insert(at, lines);
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        memory::count_freed(self.touched_bytes());
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: what `new` mapped; all parts have come back, since each holds this arena.
        unsafe {
            libc::munmap(self.start.cast(), self.lines * LINE);
        }
    }
}

/// Regions that nobody uses now, the oldest first.
static IDLE: Mutex<Vec<Arc<Arena>>> = Mutex::new(Vec::new());

fn idle() -> MutexGuard<'static, Vec<Arc<Arena>>> {
    IDLE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Real memory in regions that nobody uses.
pub(crate) fn idle_bytes() -> usize {
    idle().iter().map(|r| r.touched_bytes()).sum()
}

/// Gives regions that nobody uses back to the system.
pub(crate) fn clear_idle() {
    let gone = std::mem::take(&mut *idle());
    drop(gone);
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Arena>>> = const { RefCell::new(None) };
}

/// While it lives, results that this thread makes lie in one arena. It ends on the thread on which it began:
///
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
/// send(clematis_native::arena::ArenaScope::new(1));
/// ```
pub struct ArenaScope(PhantomData<*const ()>);

impl ArenaScope {
    /// For a graph that holds so many bytes at once. `None` where this thread is within one already, or there is none to be had.
    pub fn new(bytes: usize) -> Option<ArenaScope> {
        let is_free = CURRENT.try_with(|current| current.borrow().is_none());
        if is_free != Ok(true) {
            return None;
        }
        let lines = bytes.div_ceil(LINE).checked_mul(HEADROOM)?;
        let found = {
            let mut idle = idle();
            let at = idle.iter().position(|r| r.lines >= lines);
            at.map(|at| idle.remove(at))
        };
        let arena = match found {
            Some(arena) => arena,
            None => {
                // Those that are too small now will be again.
                clear_idle();
                Arena::new(lines)?
            }
        };
        CURRENT.with(|current| *current.borrow_mut() = Some(arena));
        Some(ArenaScope(PhantomData))
    }
}

impl Drop for ArenaScope {
    fn drop(&mut self) {
        let arena = CURRENT.with(|current| current.borrow_mut().take());
        // One that something still lies in ends with that.
        let arena = arena.filter(|r| Arc::strong_count(r) == 1);
        let most = memory::max_free_bytes();
        let Some(arena) = arena.filter(|r| r.touched_bytes() <= most) else {
            return;
        };
        let mut gone = Vec::new();
        let mut idle = idle();
        idle.push(arena);
        while idle.iter().map(|r| r.touched_bytes()).sum::<usize>() > most {
            gone.push(idle.remove(0));
        }
        drop(idle);
    }
}

/// Memory in the arena that this thread is within.
pub(crate) fn allocate(len: usize) -> Option<Bytes> {
    CURRENT
        .try_with(|current| {
            current
                .borrow()
                .as_ref()
                .and_then(|arena| arena.allocate(len))
        })
        .ok()?
}

/// Runs `f` with results outside of any arena: those that outlive the run of a graph.
pub fn outside<R>(f: impl FnOnce() -> R) -> R {
    struct Back(Option<Arc<Arena>>);
    impl Drop for Back {
        fn drop(&mut self) {
            CURRENT.with(|current| *current.borrow_mut() = self.0.take());
        }
    }
    let _back = Back(CURRENT.with(|current| current.borrow_mut().take()));
    f()
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn freed_blocks_are_coalesced() {
        let arena = Arena::new(100).unwrap();
        let take = |lines: usize| arena.allocate(lines * LINE);
        let (mut a, b, c) = (take(10).unwrap(), take(20).unwrap(), take(30).unwrap());
        a.as_mut_slice::<u8>().fill(7);
        assert!(b.as_slice::<u8>().iter().all(|&x| x == 0));
        assert!(take(41).is_none() && take(40).is_some());
        let at = b.as_slice::<u8>().as_ptr();
        drop(b);
        // Best fit, not first fit.
        let small = take(5).unwrap();
        assert_eq!(small.as_slice::<u8>().as_ptr(), at);
        drop((small, a, c));
        let whole = take(100).unwrap();
        assert_eq!(whole.as_slice::<u8>()[..640], [7; 640]);
        drop(whole);
        assert_eq!(arena.state().free, BTreeMap::from([(0, 100)]));
        assert_eq!(arena.touched_bytes(), 100 * LINE);
    }

    #[test]
    fn allocations_that_outlive_the_scope_stay_valid() {
        let scope = ArenaScope::new(1 << 20).unwrap();
        assert!(ArenaScope::new(1).is_none());
        let mut kept = allocate(1000).unwrap();
        kept.as_mut_slice::<u8>().fill(3);
        assert!(outside(|| allocate(1000)).is_none());
        assert!(allocate(1000).is_some());
        drop(scope);
        assert!(allocate(1000).is_none());
        assert!(kept.as_slice::<u8>().iter().all(|&x| x == 3));
    }
}
