//! Placeholder.

pub mod simd;
