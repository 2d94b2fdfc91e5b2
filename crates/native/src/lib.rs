//! Placeholder.

pub mod kernel {
    //! Placeholder.
    pub mod conv;
    pub mod dot;
    pub mod window;
}
pub mod parallel;
pub mod simd;
