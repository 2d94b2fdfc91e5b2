//! Scalar mathematics of the CPU engine.
//!
//! Owns every function of one or two numbers that a kernel maps over a slice. Knows nothing of tensors, strides or
//! threads.
//!
//! The functions marked *vectorizes* are straight-line code: a plain loop over them, compiled for AVX2 or AVX-512,
//! becomes vector instructions. They use separate multiplications and additions on purpose. A fused multiply-add would
//! be faster where the CPU has one, but its results would differ from those of other CPUs; the same input must give the
//! same output everywhere. For the same reason the scalar remainder uses the `libm` crate and not the system's library.

pub mod complex;
pub mod double;
pub mod integer;
pub mod real;
pub mod single;
pub mod special;

#[cfg(test)]
pub(crate) mod reference;

/// Value of a polynomial at `x`, coefficients from the constant term upwards.
#[inline(always)]
pub(crate) fn horner32<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum * x + coefficients[i];
    }
    sum
}

/// [`horner32`] in double precision.
#[inline(always)]
pub(crate) fn horner64<const N: usize>(x: f64, coefficients: [f64; N]) -> f64 {
    let mut sum = coefficients[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum * x + coefficients[i];
    }
    sum
}
