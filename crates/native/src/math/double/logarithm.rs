//! Logarithms in `f64`.
//!
//! `x = 2ᵏ·(1 + f)`, `s = f / (2 + f)`, and `ln(1 + f) = 2·artanh s`, whose
//! odd series needs seven terms of a minimax fit.

use super::exponential::exp;
use crate::math::horner64;

// The first part has 32 bits, so k · high is exact.
const LN_2_HIGH: f64 = f64::from_bits(0x3FE6_2E42_FEE0_0000);
const LN_2_LOW: f64 = 1.9082149292705877e-10;

/// `(k + 1024, f)` for a positive normal `x`, `1 + f` between `√½` and `√2`.
#[inline(always)]
fn split(x: f64) -> (u64, f64) {
    let bits = x.to_bits();
    // Shifted up by 1024 so that the shift is of an unsigned number, which every
    // vector instruction set has.
    let k = bits
        .wrapping_sub(0x3FE6_A09E_667F_3BCD)
        .wrapping_add(1024 << 52)
        >> 52;
    let m = f64::from_bits(bits.wrapping_sub(k.wrapping_sub(1024) << 52));
    (k, m - 1.0)
}

/// A small unsigned integer as a float, by bits: AVX2 lacks the conversion.
#[inline(always)]
fn float_of(k: u64) -> f64 {
    f64::from_bits(k | 0x4330_0000_0000_0000) - 4_503_599_627_370_496.0
}

/// `k·ln 2 + ln(1 + f) + c`.
#[inline(always)]
fn assemble(k: f64, f: f64, c: f64) -> f64 {
    let s = f / (2.0 + f);
    let z = s * s;
    let p = horner64(
        z,
        [
            0.6666666666666734,
            0.39999999999416636,
            0.2857142874203011,
            0.22222198604816107,
            0.1818356286477818,
            0.15314084484355117,
            0.14795636941759677,
        ],
    );
    let half_square = 0.5 * f * f;
    let low = s * (half_square + z * p) + (k * LN_2_LOW + c);
    k * LN_2_HIGH - ((half_square - low) - f)
}

/// The values of a logarithm outside the positive finite numbers.
#[inline(always)]
fn with_edges(x: f64, value: f64) -> f64 {
    let value = if x == f64::INFINITY { x } else { value };
    let value = if x == 0.0 { f64::NEG_INFINITY } else { value };
    if x >= 0.0 { value } else { f64::NAN }
}

/// Natural logarithm. Vectorizes.
#[inline(always)]
pub fn log(x: f64) -> f64 {
    let subnormal = x < f64::MIN_POSITIVE;
    let scaled = x * 18_014_398_509_481_984.0; // 2⁵⁴
    let (k, f) = split(if subnormal { scaled } else { x });
    let offset = if subnormal { 1024.0 + 54.0 } else { 1024.0 };
    with_edges(x, assemble(float_of(k) - offset, f, 0.0))
}

/// `ln(1 + x)`, accurate near zero. Vectorizes.
#[inline(always)]
pub fn log1p(x: f64) -> f64 {
    let u = 1.0 + x;
    let (k, m) = split(u);
    // The rounding error of the sum, relative to u; it matters only where u is small.
    let lost = if x < 1.0 {
        x - (u - 1.0)
    } else {
        1.0 - (u - x)
    };
    let lost = if u < 1.0e17 { lost / u } else { 0.0 };
    let whole = k == 1024;
    let f = if whole { x } else { m };
    let correction = if whole { 0.0 } else { lost };
    let value = with_edges(u, assemble(float_of(k) - 1024.0, f, correction));
    // log1p(-0) = -0; below the smallest normal number x is the answer too.
    if x.abs() < f64::MIN_POSITIVE {
        x
    } else {
        value
    }
}

/// `ln(eᵃ + eᵇ)` without overflow. Vectorizes.
#[inline(always)]
pub fn logaddexp(a: f64, b: f64) -> f64 {
    let largest = if a > b { a } else { b };
    let value = largest + log1p(exp(-(a - b).abs()));
    // Equal infinities have no difference.
    if a == b {
        a + std::f64::consts::LN_2
    } else {
        value
    }
}
