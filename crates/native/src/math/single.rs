//! Functions of `f32`.
//!
//! The most used functions are written here and vectorize; the rest go through double precision, where a single
//! rounding at the end makes them accurate to half a unit in the last place, or directly to `libm`.

mod error_function;
mod exponential;
mod logarithm;
mod trigonometric;

pub(super) use error_function::erfinv_ratio;
pub use error_function::{erf, erfc, erfinv};
pub use exponential::{exp, exp_slice, exp2, expm1, sigmoid, tanh};
pub use logarithm::{log, log1p, log2, log10, logaddexp};
pub use trigonometric::{TRIG_LIMIT, cos, cos_reduced, cos_slice, sin, sin_reduced, sin_slice};

use super::{double, special};

/// `1 / √x`. Vectorizes.
#[inline(always)]
pub fn rsqrt(x: f32) -> f32 {
    1.0 / x.sqrt()
}

/// Real cube root. Vectorizes.
#[inline(always)]
pub fn cbrt(x: f32) -> f32 {
    // In f64 every f32, subnormal or not, is a normal number.
    let a = x.abs() as f64;
    // A third of the exponent, and a constant that restores the bias: 5 % error at most.
    let high = (a.to_bits() >> 32) as u32 / 3 + 0x2A9F_7893;
    let t = f64::from_bits((high as u64) << 32);
    let cube = t * t * t;
    let t = t * (a + a + cube) / (a + cube + cube);
    let cube = t * t * t;
    let t = t * (a + a + cube) / (a + cube + cube);
    let root = (t as f32).copysign(x);
    let special = x == 0.0 || x.abs() == f32::INFINITY;
    if special { x } else { root }
}

/// `√(x² + y²)` without intermediate overflow. Vectorizes.
#[inline(always)]
pub fn hypot(x: f32, y: f32) -> f32 {
    let (a, b) = (x as f64, y as f64);
    let root = (a * a + b * b).sqrt() as f32;
    // An infinite operand wins even against NaN.
    let infinite = x.abs() == f32::INFINITY || y.abs() == f32::INFINITY;
    if infinite { f32::INFINITY } else { root }
}

macro_rules! through_double {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),+) = $f:path;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name($($arg: f32),+) -> f32 {
            $f($($arg as f64),+) as f32
        }
    )*};
}

through_double! {
    /// Tangent.
    tan(x) = libm::tan;
    /// Arc sine.
    asin(x) = libm::asin;
    /// Arc cosine.
    acos(x) = libm::acos;
    /// Arc tangent.
    atan(x) = libm::atan;
    /// Angle of the point `(x, y)`.
    atan2(y, x) = libm::atan2;
    /// Hyperbolic sine.
    sinh(x) = libm::sinh;
    /// Hyperbolic cosine.
    cosh(x) = libm::cosh;
    /// Inverse hyperbolic sine.
    asinh(x) = libm::asinh;
    /// Inverse hyperbolic cosine.
    acosh(x) = double::acosh;
    /// Inverse hyperbolic tangent.
    atanh(x) = libm::atanh;
    /// `x` to the power `y`.
    pow(x, y) = double::pow;
    /// Logarithm of `|Γ(x)|`.
    lgamma(x) = special::lgamma;
    /// Derivative of `ln Γ`.
    digamma(x) = special::digamma;
    /// Hurwitz zeta function.
    zeta(s, q) = special::zeta;
    /// Regularized lower incomplete gamma function.
    igamma(a, x) = special::igamma;
    /// Regularized upper incomplete gamma function.
    igammac(a, x) = special::igammac;
}

/// The `n`-th derivative of the digamma function.
#[inline]
pub fn polygamma(n: u32, x: f32) -> f32 {
    special::polygamma(n, x as f64) as f32
}

#[cfg(test)]
mod tests;
