//! What threads of the engine share, compiled alone: Miri runs the unit tests of these modules in seconds (`cargo xtask test
//! --deep`), since neither kernels nor the crates they use have to be built for it. `tests/models.rs` checks their state
//! machines in every interleaving.
#![cfg(test)]
#![allow(dead_code)] // the engine uses the rest

// Kernels use more of them than tests do.
#[allow(dead_code)]
#[path = "../../native/src/parallel.rs"]
mod parallel;
#[allow(dead_code)]
#[path = "../../native/src/pool.rs"]
mod pool;

/// What the modules use of the engine's instructions.
mod simd {
    pub(crate) fn prefetch_range_written<T>(_: *const T, _: std::ops::Range<usize>) {}
}
