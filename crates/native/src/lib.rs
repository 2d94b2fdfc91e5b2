//! Placeholder.

pub mod kernel {
    //! Placeholder.
    pub mod conv;
    pub mod dot;
}
pub mod parallel;
pub mod simd;
