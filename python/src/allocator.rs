//! mimalloc, asked without an alignment wherever a word's is enough, which is nearly everywhere and the faster question.
#![allow(unsafe_code)]

use libmimalloc_sys as mimalloc;
use std::alloc::{GlobalAlloc, Layout};

/// Every block of mimalloc is aligned to this.
const WORD: usize = size_of::<usize>();

/// The allocator of the extension module.
pub struct Allocator;

// SAFETY: mimalloc keeps an allocator's promises; blocks of both kinds are freed and grown by the same functions.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size and any power of two will do.
        unsafe {
            if layout.align() <= WORD {
                mimalloc::mi_malloc(layout.size()).cast()
            } else {
                mimalloc::mi_malloc_aligned(layout.size(), layout.align()).cast()
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { mimalloc::mi_zalloc_aligned(layout.size(), layout.align()).cast() }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: by the caller, the block is one of ours.
        unsafe { mimalloc::mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe { mimalloc::mi_realloc_aligned(block.cast(), size, layout.align()).cast() }
    }
}
