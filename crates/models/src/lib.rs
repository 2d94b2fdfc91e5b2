//! The engine's synchronisation primitives, compiled without the rest of the engine: Miri runs the unit tests of
//! these modules in seconds (`cargo xtask test --deep`), since neither kernels nor their dependencies are built.
//! `tests/models.rs` checks the state machines with loom.
#![cfg(test)]
#![allow(dead_code)] // the engine uses the rest

// Kernels use more of them than tests do.
#[allow(dead_code)]
#[path = "../../native/src/parallel.rs"]
mod parallel;
#[allow(dead_code)]
#[path = "../../native/src/pool.rs"]
mod pool;

/// The prefetch functions that the modules use.
mod prefetch {
    pub(crate) fn prefetch_range_write<T>(_: *const T, _: std::ops::Range<usize>) {}
}
