//! Functions of `f64`.
//!
//! `exp`, `exp2`, `expm1`, `log`, `log1p`, `tanh`, `sigmoid` and `erf` are
//! written here and vectorize, within 2 units in the last place. The rest is `libm`.

mod exponential;
mod logarithm;

pub use exponential::{erf, exp, exp2, expm1, sigmoid, tanh};
pub use libm::{
    acos, asin, asinh, atan, atan2, atanh, cbrt, cos, cosh, hypot, log2, log10, pow, sin, sinh, tan,
};
pub use logarithm::{log, log1p, logaddexp};

pub use super::special::{digamma, erfc, erfinv, igamma, igammac, lgamma, polygamma, zeta};

/// `1 / √x`. Vectorizes.
#[inline(always)]
pub fn rsqrt(x: f64) -> f64 {
    1.0 / x.sqrt()
}

/// Inverse hyperbolic cosine; NaN below 1, where `libm` gives a number for large negative `x`.
#[inline]
pub fn acosh(x: f64) -> f64 {
    if x < 1.0 { f64::NAN } else { libm::acosh(x) }
}

#[cfg(test)]
mod tests;
