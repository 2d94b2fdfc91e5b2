//! Requests huge pages from the system, which needs a pointer.
#![allow(unsafe_code)]

use clematis_core::host::Line;
use std::mem::MaybeUninit;

/// Bytes of a huge page.
pub(super) const HUGE_PAGE: usize = 2 << 20;

/// Requests huge pages for this memory; the system may decline.
pub(super) fn request_huge_pages(memory: &mut [MaybeUninit<Line>]) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        let start = memory.as_mut_ptr().cast::<u8>();
        let skip = start.align_offset(HUGE_PAGE);
        let len = size_of_val(memory).saturating_sub(skip) / HUGE_PAGE * HUGE_PAGE;
        if len > 0 {
            // SAFETY: the range lies inside `memory`, on whole pages; this advice changes no contents.
            unsafe { libc::madvise(start.add(skip).cast(), len, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = memory;
}
