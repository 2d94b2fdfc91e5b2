//! Memory: the limit, free lists of blocks, and scratch buffers.
//!
//! A newly mapped large block costs one page fault per 4 KiB, more than most kernels that fill it, so freed blocks are
//! reused. Small blocks are cached per thread and cost a few nanoseconds; large ones go to one global free list of
//! bounded size, which evicts the least recently used block. A running compiled graph allocates its results in an arena
//! instead (`arena`). Reused blocks are not cleared: kernels write every element of their result.

pub mod arena;
mod budget;
mod huge_pages;

use budget::Budget;
use clematis_core::host::{Bytes, Line};
use clematis_core::{DType, Result, Shape, Spec, bail};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Synchronization primitives of the budget.
mod sync {
    pub(super) use std::sync::atomic::{AtomicUsize, Ordering};
}

const LINE: usize = size_of::<Line>();
/// Blocks of up to this many lines (8 KiB) are cached per thread.
const SMALL: usize = 128;
/// Size classes: powers of two up to `SMALL`.
const SMALL_CLASSES: usize = SMALL.trailing_zeros() as usize + 1;
/// The number of blocks per small size class that a thread keeps.
const SMALL_BLOCKS_PER_CLASS: usize = 32;
/// The free list holds at most this share of the limit, and at most `FREE_LIST_MAX` bytes.
const FREE_LIST_SHARE: usize = 8;
const FREE_LIST_MAX: usize = 1 << 30;
/// The size of the last-level cache if the system does not report it.
const DEFAULT_CACHE: usize = 32 << 20;

/// Bytes allocated from the system, including cached blocks.
static ALLOCATED: Budget = Budget(AtomicUsize::new(0));
/// 0 until first read.
static LIMIT: AtomicUsize = AtomicUsize::new(0);
/// The environment variable that sets the limit.
const VARIABLE: &str = "CLEMATIS_MEMORY_LIMIT";
/// The value of the environment variable if it is not a number of bytes and no limit was set since.
static MALFORMED: Mutex<Option<String>> = Mutex::new(None);

thread_local! {
    static SMALL_BLOCKS: RefCell<[Vec<Vec<Line>>; SMALL_CLASSES]> = const { RefCell::new([const { Vec::new() }; SMALL_CLASSES]) };
}

/// The most bytes that tensors may hold together. This is the machine's memory if `CLEMATIS_MEMORY_LIMIT` is not a
/// number; allocations then report the malformed value.
pub fn memory_limit() -> usize {
    match LIMIT.load(Ordering::Relaxed) {
        0 => find_limit(),
        limit => limit,
    }
}

#[cold]
fn find_limit() -> usize {
    let configured = std::env::var_os(VARIABLE).map(|text| text.to_string_lossy().into_owned());
    // An empty variable counts as unset.
    let configured = configured.filter(|text| !text.is_empty());
    let (limit, malformed) = match configured.as_deref().map(parse_limit) {
        None => (physical(), None),
        Some(Some(bytes)) => (bytes, None),
        Some(None) => (physical(), configured),
    };
    *malformed_limit() = malformed;
    LIMIT.store(limit.max(1), Ordering::Relaxed);
    limit.max(1)
}

/// Parses a number of bytes.
fn parse_limit(text: &str) -> Option<usize> {
    text.trim().parse().ok().filter(|&bytes| bytes > 0)
}

fn malformed_limit() -> std::sync::MutexGuard<'static, Option<String>> {
    MALFORMED.lock().unwrap_or_else(|e| e.into_inner())
}

/// The limit; an error if the environment variable is not a number of bytes.
pub fn configured_limit() -> Result<usize> {
    let limit = memory_limit();
    if let Some(text) = &*malformed_limit() {
        bail!(
            Value,
            "{VARIABLE}: expected a positive number of bytes, got {text:?}"
        );
    }
    Ok(limit)
}

#[linkme::distributed_slice(clematis_core::limit::LIMITS)]
static LIMIT_SOURCE: clematis_core::limit::Limit = limit_and_used;

/// The limit, and the bytes in use without cached blocks.
fn limit_and_used() -> Result<(usize, usize)> {
    let limit = configured_limit()?;
    let kept = free_list().bytes + arena::idle_bytes();
    Ok((limit, memory_used().saturating_sub(kept)))
}

/// Sets the most bytes that tensors may hold together; existing tensors are kept.
pub fn set_memory_limit(bytes: usize) {
    *malformed_limit() = None;
    LIMIT.store(bytes.max(1), Ordering::Relaxed);
}

/// Bytes held by tensors and cached blocks.
pub fn memory_used() -> usize {
    ALLOCATED.used()
}

/// An error if `bytes` more cannot be allocated, for programs that know their peak in advance.
pub fn check_available(what: &str, bytes: usize) -> Result<()> {
    clematis_core::limit::check_available(what, bytes)
        .map_err(|e| e.note("take smaller batches, or raise the limit"))
}

/// The machine's memory or the container's limit; no limit if neither is known.
fn physical() -> usize {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let machine = read("/proc/meminfo")
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok())
        .map_or(usize::MAX, |kib| kib.saturating_mul(1024));
    let container = read("/sys/fs/cgroup/memory.max").trim().parse();
    machine.min(container.unwrap_or(usize::MAX))
}

/// The size of the last-level cache in bytes.
pub fn last_level_cache() -> usize {
    static CACHE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *CACHE.get_or_init(|| {
        let path = "/sys/devices/system/cpu/cpu0/cache/index3/size";
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let kib = text
            .trim()
            .strip_suffix('K')
            .and_then(|n| n.parse::<usize>().ok());
        kib.map_or(DEFAULT_CACHE, |kib| kib.saturating_mul(1024))
    })
}

/// Allocates memory for a result. Its contents are arbitrary; write all of it.
#[inline(always)]
pub fn alloc(op: &str, spec: &Spec) -> Result<Bytes> {
    let bytes = spec.bytes();
    // The only part that small ops need, and the only part worth inlining.
    match take_small(bytes.div_ceil(LINE)) {
        Some(block) => Ok(Bytes::from_lines(block, bytes).with_recycler(recycle)),
        None => alloc_more(op, spec),
    }
}

/// A scratch buffer of a running kernel. Its block stays with the thread, so it is still in cache when the next kernel
/// needs one.
pub struct Scratch<T> {
    bytes: Option<Bytes>,
    /// Used if the allocation fails.
    plain: Vec<T>,
    len: usize,
}

/// The number of scratch blocks that a thread keeps, and the largest one it keeps.
const MAX_SCRATCH_BLOCKS: usize = 8;
const MAX_SCRATCH_BYTES: usize = 8 << 20;

thread_local! {
    static SCRATCH_BLOCKS: RefCell<Vec<Bytes>> = const { RefCell::new(Vec::new()) };
}

impl<T: bytemuck::Pod> Scratch<T> {
    /// A buffer of zeros.
    pub fn new(len: usize) -> Self {
        let mut scratch = Scratch::unzeroed(len);
        scratch.fill(T::zeroed());
        scratch
    }

    /// A buffer with arbitrary contents.
    pub fn unzeroed(len: usize) -> Self {
        let size = len.saturating_mul(size_of::<T>());
        let kept = SCRATCH_BLOCKS.try_with(|blocks| {
            let mut blocks = blocks.borrow_mut();
            // The most recently freed block is most likely in cache; a block more than twice as large as needed is left
            // for larger requests.
            let fits = |block: &Bytes| (size..=size.saturating_mul(2)).contains(&block.len());
            let at = blocks.iter().rposition(fits)?;
            Some(blocks.remove(at))
        });
        let bytes = match kept {
            Ok(Some(bytes)) => Some(bytes),
            _ => {
                let spec = Spec::new(DType::U8, Shape::from_sizes(&[size]));
                // It outlives the results of a graph.
                arena::outside(|| alloc("workspace", &spec).ok())
            }
        };
        Scratch {
            plain: match bytes {
                Some(_) => Vec::new(),
                None => vec![T::zeroed(); len],
            },
            bytes,
            len,
        }
    }
}

impl<T> Drop for Scratch<T> {
    fn drop(&mut self) {
        let Some(bytes) = self.bytes.take() else {
            return;
        };
        if bytes.len() <= SMALL * LINE || bytes.len() > MAX_SCRATCH_BYTES {
            return;
        }
        // Fails while a thread exits; the block is then freed.
        let _ = SCRATCH_BLOCKS.try_with(|blocks| {
            let mut blocks = blocks.borrow_mut();
            if blocks.len() == MAX_SCRATCH_BLOCKS {
                blocks.remove(0);
            }
            blocks.push(bytes);
        });
    }
}

impl<T: bytemuck::Pod> std::ops::Deref for Scratch<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match &self.bytes {
            Some(bytes) => &bytes.as_slice::<T>()[..self.len],
            None => &self.plain,
        }
    }
}

impl<T: bytemuck::Pod> std::ops::DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.bytes {
            Some(bytes) => &mut bytes.as_mut_slice::<T>()[..self.len],
            None => &mut self.plain,
        }
    }
}

fn take_small(lines: usize) -> Option<Vec<Line>> {
    if lines > SMALL {
        return None;
    }
    let class = small_class(lines);
    SMALL_BLOCKS
        .try_with(|blocks| blocks.borrow_mut()[class].pop())
        .ok()?
}

#[inline(never)]
fn alloc_more(op: &str, spec: &Spec) -> Result<Bytes> {
    let bytes = spec.bytes();
    let lines = bytes.div_ceil(LINE);
    if lines <= SMALL {
        return alloc_from_system(op, spec, 1 << small_class(lines));
    }
    if let Some(bytes) = arena::allocate(bytes) {
        return Ok(bytes);
    }
    let size = large_class(lines);
    // Release the lock on the free list before `alloc_from_system`, which may clear the list.
    let kept = free_list().take(size);
    match kept {
        Some(block) => Ok(Bytes::from_lines(block, bytes).with_recycler(recycle)),
        None => alloc_from_system(op, spec, size),
    }
}

/// An error if a result of this spec can never be allocated, for ops that defer the allocation.
pub fn check(op: &str, spec: &Spec) -> Result<()> {
    let limit = configured_limit()?;
    if spec.bytes() > limit {
        bail!(
            Value,
            "{op}: {spec} takes {} bytes, the limit is {limit}",
            spec.bytes()
        );
    }
    Ok(())
}

/// Counts memory that an arena takes, if the limit allows.
pub(crate) fn count_allocated(bytes: usize) -> bool {
    ALLOCATED.take(bytes, memory_limit())
}

pub(crate) fn count_freed(bytes: usize) {
    ALLOCATED.give_back(bytes);
}

/// The most bytes that are cached for reuse.
pub(crate) fn max_free_bytes() -> usize {
    (memory_limit() / FREE_LIST_SHARE).min(FREE_LIST_MAX)
}

#[cold]
#[inline(never)]
fn alloc_from_system(op: &str, spec: &Spec, lines: usize) -> Result<Bytes> {
    let bytes = lines.saturating_mul(LINE);
    let limit = configured_limit()?;
    if !count_allocated(bytes) {
        // Cached blocks must not make an allocation fail.
        free_list().clear();
        arena::clear_idle();
        if !count_allocated(bytes) {
            let used = memory_used();
            bail!(
                Value,
                "{op}: {spec} takes {} bytes, {used} of {limit} are in use",
                spec.bytes()
            );
        }
    }
    match zeroed(lines) {
        Ok(block) => Ok(Bytes::from_lines(block, spec.bytes()).with_recycler(recycle)),
        Err(()) => {
            ALLOCATED.give_back(bytes);
            bail!(
                Value,
                "{op}: the system has no {} bytes for {spec}; the limit is {limit}",
                spec.bytes()
            )
        }
    }
}

/// Zeroed memory. Large blocks use huge pages, which must be requested before the first write: walking through 16 MiB
/// then takes 8 page translations instead of 4096.
fn zeroed(lines: usize) -> std::result::Result<Vec<Line>, ()> {
    if lines * LINE < 2 * huge_pages::HUGE_PAGE {
        return bytemuck::allocation::try_zeroed_vec(lines);
    }
    let mut block = Vec::new();
    block.try_reserve_exact(lines).map_err(|_| ())?;
    huge_pages::request_huge_pages(block.spare_capacity_mut());
    block.resize(lines, bytemuck::Zeroable::zeroed());
    Ok(block)
}

fn small_class(lines: usize) -> usize {
    lines.max(1).next_power_of_two().trailing_zeros() as usize
}

/// Eight size classes per power of two: at most an eighth is wasted.
fn large_class(lines: usize) -> usize {
    let step = (lines.next_power_of_two() / 16).max(1);
    lines.div_ceil(step).saturating_mul(step)
}

fn release(block: Vec<Line>) {
    count_freed(block.len() * LINE);
}

fn recycle(block: Vec<Line>) {
    let lines = block.len();
    if lines > SMALL {
        return free_list().insert(block);
    }
    let class = small_class(lines);
    let mut block = Some(block);
    // Fails while a thread exits; the block is then freed.
    let _ = SMALL_BLOCKS.try_with(|blocks| {
        let kept = &mut blocks.borrow_mut()[class];
        if kept.len() < SMALL_BLOCKS_PER_CLASS {
            kept.extend(block.take());
        }
    });
    if let Some(block) = block {
        release(block);
    }
}

/// Free blocks of one size, the oldest first, each with the time it was freed.
type Class = VecDeque<(u64, Vec<Line>)>;

/// The free list of large blocks.
struct FreeList {
    /// By number of lines.
    classes: Vec<(usize, Class)>,
    bytes: usize,
    time: u64,
}

static FREE_LIST: Mutex<FreeList> = Mutex::new(FreeList {
    classes: Vec::new(),
    bytes: 0,
    time: 0,
});

fn free_list() -> std::sync::MutexGuard<'static, FreeList> {
    FREE_LIST.lock().unwrap_or_else(|e| e.into_inner())
}

impl FreeList {
    fn take(&mut self, lines: usize) -> Option<Vec<Line>> {
        let at = self
            .classes
            .binary_search_by_key(&lines, |(n, _)| *n)
            .ok()?;
        let (_, block) = self.classes[at].1.pop_back()?;
        self.bytes -= lines * LINE;
        Some(block)
    }

    fn insert(&mut self, block: Vec<Line>) {
        let most = max_free_bytes();
        let lines = block.len();
        if lines * LINE > most {
            return release(block);
        }
        while self.bytes + lines * LINE > most {
            self.drop_oldest();
        }
        self.bytes += lines * LINE;
        self.time += 1;
        let time = self.time;
        match self.classes.binary_search_by_key(&lines, |(n, _)| *n) {
            Ok(at) => self.classes[at].1.push_back((time, block)),
            Err(at) => self
                .classes
                .insert(at, (lines, VecDeque::from([(time, block)]))),
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self
            .classes
            .iter_mut()
            .filter_map(|(_, blocks)| blocks.front().map(|(t, _)| *t).map(|t| (t, blocks)))
            .min_by_key(|(t, _)| *t);
        match oldest.and_then(|(_, blocks)| blocks.pop_front()) {
            Some((_, block)) => {
                self.bytes -= block.len() * LINE;
                release(block);
            }
            None => self.bytes = 0,
        }
    }

    fn clear(&mut self) {
        self.bytes = 0;
        for (_, blocks) in self.classes.drain(..) {
            blocks.into_iter().for_each(|(_, block)| release(block));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;
    use clematis_core::DType;

    #[test]
    fn the_free_list_returns_the_newest_block_of_a_size() {
        let mut list = FreeList {
            classes: Vec::new(),
            bytes: 0,
            time: 0,
        };
        let block = |lines: usize| vec![Line::zeroed(); lines];
        let (old, new, other) = (block(300), block(300), block(320));
        let newest = new.as_ptr();
        for block in [old, new, other] {
            list.insert(block);
        }
        assert_eq!(list.bytes, 920 * LINE);
        assert!(list.take(310).is_none());
        assert_eq!(list.take(300).map(|block| block.as_ptr()), Some(newest));
        assert!(list.take(300).is_some() && list.take(300).is_none());
        assert_eq!(list.bytes, 320 * LINE);
    }

    #[test]
    fn a_small_block_is_reused_by_its_thread() {
        let small = Spec::of(DType::F32, [4usize]).unwrap();
        let first = alloc("test", &small).unwrap();
        let at = first.as_slice::<f32>().as_ptr();
        drop(first);
        assert_eq!(
            alloc("test", &small).unwrap().as_slice::<f32>().as_ptr(),
            at
        );
    }

    #[test]
    fn too_much_is_refused_by_name() {
        let spec = Spec::of(DType::F64, [1usize << 50]).unwrap();
        let text = alloc("add", &spec).err().unwrap().to_string();
        assert!(text.contains("add") && text.contains("f64[1125899906842624]"));
        assert!(text.contains(&(8u64 << 50).to_string()), "{text}");
        assert!(check("full", &spec).is_err());
    }

    #[test]
    fn a_limit_is_a_positive_number_of_bytes() {
        assert_eq!(parse_limit(" 1000 "), Some(1000));
        for text in ["", "0", "-1", "1e9", "2GB", "99999999999999999999999"] {
            assert_eq!(parse_limit(text), None, "{text}");
        }
    }

    #[test]
    fn classes_hold_what_is_asked() {
        for lines in [1, 2, 3, 127, 128] {
            assert!(1 << small_class(lines) >= lines);
        }
        for lines in [129usize, 1000, 262_144, 262_145] {
            let class = large_class(lines);
            assert!(class >= lines && class <= lines + lines / 8 + 1);
            assert_eq!(large_class(class), class);
        }
    }
}
