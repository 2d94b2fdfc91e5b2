//! An arena for all results of one run of a compiled graph: one address range with best-fit allocation and coalescing
//! of freed blocks. Fixed size classes would waste memory: while one size is needed most, the free blocks of other
//! sizes are idle.
//!
//! Only memory that was once allocated is resident: the system maps pages when they are first written.
#![allow(unsafe_code)]

use clematis_core::host::{Bytes, Lender, Line};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::memory;

const LINE: usize = size_of::<Line>();
/// The address range as a multiple of the graph's peak: leaves space for scratch buffers and for fragmentation.
const HEADROOM: usize = 2;

/// An address range with its free blocks.
struct Arena {
    start: *mut Line,
    lines: usize,
    state: Mutex<State>,
}

struct State {
    /// Free blocks: first line → number of lines; no two are adjacent.
    free: BTreeMap<usize, usize>,
    /// The highest line that was ever allocated.
    touched: usize,
}

// SAFETY: the pointer is to memory that belongs to this arena; the lock guarantees that each block has one owner at a
// time.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps a range of `lines` lines; `None` if the system cannot.
    #[cfg(all(target_os = "linux", not(miri)))]
    fn new(lines: usize) -> Option<Arc<Self>> {
        let bytes = lines.checked_mul(LINE)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new anonymous mapping, which affects nothing that exists.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the range was mapped just now; the advice changes no contents.
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

    /// Allocates a block with `len` bytes in use; `None` if no free block is large enough, or the limit is reached.
    fn allocate(self: &Arc<Self>, len: usize) -> Option<Bytes> {
        let lines = len.div_ceil(LINE).max(1);
        let mut state = self.state();
        let fits = state.free.iter().filter(|(_, have)| **have >= lines);
        // Memory that was never touched is used last.
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
        // SAFETY: the lines are mapped, hold zeros or earlier contents, and were free: nobody else has them.
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
        // SAFETY: unmaps what `new` mapped; all blocks were returned, since each of them holds a reference to this
        // arena.
        unsafe {
            libc::munmap(self.start.cast(), self.lines * LINE);
        }
    }
}

/// Arenas that are not in use, the oldest first.
static IDLE: Mutex<Vec<Arc<Arena>>> = Mutex::new(Vec::new());

fn idle() -> MutexGuard<'static, Vec<Arc<Arena>>> {
    IDLE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Resident bytes of unused arenas.
pub(crate) fn idle_bytes() -> usize {
    idle().iter().map(|r| r.touched_bytes()).sum()
}

/// Returns unused arenas to the system.
pub(crate) fn clear_idle() {
    let gone = std::mem::take(&mut *idle());
    drop(gone);
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Arena>>> = const { RefCell::new(None) };
}

/// While it lives, results that this thread allocates lie in one arena. It must be dropped on the thread that created it:
///
/// ```compile_fail,E0277
/// fn send<T: Send>(_: T) {}
/// send(clematis_native::arena::ArenaScope::new(1));
/// ```
pub struct ArenaScope(PhantomData<*const ()>);

impl ArenaScope {
    /// An arena for a graph with this peak. `None` if this thread is within a scope already, or no arena is available.
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
                // Arenas that are too small now would be too small again.
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
        // An arena with live blocks is freed with the last of them.
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

/// Allocates in the arena of the current scope.
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

/// Runs `f` with allocations outside of any arena: for results that outlive the run of a graph.
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
