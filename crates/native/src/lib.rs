//! Placeholder.

pub mod parallel;
pub mod simd;
