//! Reduction over tasks.

use super::PARALLEL;
use crate::parallel;
use crate::simd::Tiled;

/// Adds the sums of all tasks to those of the first.
pub(super) fn collect<S: Tiled + std::ops::AddAssign>(sums: &mut [S], len: usize) {
    let (first, rest) = sums.split_at_mut(len);
    parallel::for_chunks_mut(first, PARALLEL / 64, |at, first| {
        for part in rest.chunks_exact(len) {
            for (sum, &x) in first.iter_mut().zip(&part[at..]) {
                *sum += x;
            }
        }
    });
}
