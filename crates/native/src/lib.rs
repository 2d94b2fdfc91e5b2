//! The CPU engine.

pub mod kernel {
    //! Kernels over plain slices.
    pub mod fft;
    pub mod linalg;
}
pub mod math;
