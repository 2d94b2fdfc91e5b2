//! The CPU engine.

pub mod kernel {
    //! Kernels over plain slices.
    pub mod dot;
    pub mod fft;
    pub mod linalg;
}
pub mod math;
pub mod parallel;
pub mod simd;
