//! Prefetch instructions, for reads and for writes. No-ops on CPUs other than x86-64.
#![allow(unsafe_code)]

/// The most lines that are prefetched: a part of L1.
const PREFETCH_LINES: usize = 128;

/// Prefetches elements to L1.
pub(crate) fn prefetch<T>(elements: &[T]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in 0..size_of_val(elements).div_ceil(64).min(PREFETCH_LINES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, which reads nothing; the address is within the slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(elements.as_ptr().cast::<i8>().add(64 * line)) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (elements, PREFETCH_LINES);
}

/// Prefetches elements to L2, for reads further ahead.
pub fn prefetch_l2<T>(elements: &[T]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in 0..size_of_val(elements).div_ceil(64) {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a hint, which reads nothing; the address is within the slice.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(elements.as_ptr().cast::<i8>().add(64 * line)) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = elements;
}

/// Prefetches elements that will be written.
pub(crate) fn prefetch_write<T>(elements: &mut [T]) {
    prefetch_range_write(elements.as_ptr(), 0..elements.len());
}

/// Prefetches the elements `range` behind `start`, which will be written. A hint: the addresses need not be valid.
pub(crate) fn prefetch_range_write<T>(start: *const T, range: std::ops::Range<usize>) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in 0..(range.len() * size_of::<T>()).div_ceil(64) {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        let at = start.wrapping_add(range.start).cast::<i8>();
        // SAFETY: a hint, which writes nothing whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(at.wrapping_add(64 * line)) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (start, range);
}
