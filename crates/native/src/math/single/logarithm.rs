//! Logarithms in `f32`.
//!
//! All write `x = 2ᵏ·(1 + f)` with `1 + f` between `√½` and `√2`, and use one
//! minimax polynomial for `(ln(1 + f) - f + f²/2) / f³`.

use super::exponential::exp;
use crate::math::horner32;

// The first part has enough trailing zeros for k·high to be exact.
const LN_2_HIGH: f32 = 0.693_359_4; // 355 / 512
const LN_2_LOW: f32 = (std::f64::consts::LN_2 - 355.0 / 512.0) as f32;

/// `(k, f)` for a positive, normal `x`.
#[inline(always)]
fn split_normal(x: f32) -> (i32, f32) {
    let bits = x.to_bits() as i32;
    let k = bits.wrapping_sub(0x3F35_04F3) >> 23; // the bits of √½
    let m = f32::from_bits(bits.wrapping_sub(k << 23) as u32);
    (k, m - 1.0)
}

/// `(k, f)` for a positive `x`, subnormal or not.
#[inline(always)]
fn split(x: f32) -> (f32, f32) {
    let subnormal = x < f32::MIN_POSITIVE;
    let scaled = x * 8_388_608.0; // 2²³
    let offset = if subnormal { -23.0 } else { 0.0 };
    let (k, f) = split_normal(if subnormal { scaled } else { x });
    (k as f32 + offset, f)
}

/// `ln(1 + f) - f + f²/2`.
#[inline(always)]
fn tail(f: f32) -> f32 {
    let p = horner32(
        f,
        [
            0.333_333_1,
            -0.250_002_98,
            0.200_024_96,
            -0.166_523_92,
            0.141_986_2,
            -0.126_633_15,
            0.123_000_08,
            -0.103_302_97,
            0.042_195_83,
        ],
    );
    f * f * f * p
}

/// The values of a logarithm outside the positive finite numbers.
#[inline(always)]
fn with_edges(x: f32, value: f32) -> f32 {
    let value = if x == f32::INFINITY { x } else { value };
    let value = if x == 0.0 { f32::NEG_INFINITY } else { value };
    // Written so that NaN fails the test too.
    if x >= 0.0 { value } else { f32::NAN }
}

/// Natural logarithm. Vectorizes.
#[inline(always)]
pub fn log(x: f32) -> f32 {
    let (k, f) = split(x);
    let low = tail(f) + k * LN_2_LOW - 0.5 * f * f;
    with_edges(x, (f + low) + k * LN_2_HIGH)
}

/// `ln(1 + x)`, accurate near zero. Vectorizes.
#[inline(always)]
pub fn log1p(x: f32) -> f32 {
    let u = 1.0 + x;
    let (k, m) = split_normal(u);
    // The rounding error of the sum, for the larger addend first.
    let lost = if x < 1.0 {
        x - (u - 1.0)
    } else {
        1.0 - (u - x)
    };
    // lost / u = lost · 2⁻ᵏ / (1 + m), to the few bits that matter. A logarithm beyond 2²⁴ is not affected.
    let power = f32::from_bits((127i32.wrapping_sub(k) << 23) as u32);
    let correction = if k < 25 {
        lost * power * (1.0 - m + m * m)
    } else {
        0.0
    };
    // Where nothing was rounded, x itself is the exact argument.
    let f = if k == 0 { x } else { m };
    let correction = if k == 0 { 0.0 } else { correction };
    let k = k as f32;
    let low = tail(f) + (k * LN_2_LOW + correction) - 0.5 * f * f;
    let value = with_edges(u, (f + low) + k * LN_2_HIGH);
    // log1p(-0) = -0; below the smallest normal number x is the answer too.
    if x.abs() < f32::MIN_POSITIVE {
        x
    } else {
        value
    }
}

/// `ln(1 + f)` as a sum of two floats, the first with 12 trailing zero bits.
#[inline(always)]
fn in_two_parts(f: f32) -> (f32, f32) {
    let half_square = 0.5 * f * f;
    let high = f32::from_bits((f - half_square).to_bits() & 0xFFFF_F000);
    (high, (f - high) - half_square + tail(f))
}

/// Logarithm to base 2, exact for powers of two. Vectorizes.
#[inline(always)]
pub fn log2(x: f32) -> f32 {
    const HIGH: f32 = f32::from_bits(0x3FB8_B000); // 12 bits: HIGH · high is exact
    const LOW: f32 = (std::f64::consts::LOG2_E - HIGH as f64) as f32;
    let (k, f) = split(x);
    let (high, low) = in_two_parts(f);
    let small = (low + high) * LOW + low * HIGH;
    with_edges(x, (small + high * HIGH) + k)
}

/// Logarithm to base 10. Vectorizes.
#[inline(always)]
pub fn log10(x: f32) -> f32 {
    const HIGH: f32 = f32::from_bits(0x3EDE_6000);
    const LOW: f32 = (std::f64::consts::LOG10_E - HIGH as f64) as f32;
    const TWO_HIGH: f32 = f32::from_bits(0x3E9A_2080); // k · TWO_HIGH is exact
    const TWO_LOW: f32 = (std::f64::consts::LOG10_2 - TWO_HIGH as f64) as f32;
    let (k, f) = split(x);
    let (high, low) = in_two_parts(f);
    let small = k * TWO_LOW + (low + high) * LOW + low * HIGH;
    with_edges(x, (small + high * HIGH) + k * TWO_HIGH)
}

/// `ln(eᵃ + eᵇ)` without overflow. Vectorizes.
#[inline(always)]
pub fn logaddexp(a: f32, b: f32) -> f32 {
    let largest = if a > b { a } else { b };
    let value = largest + log1p(exp(-(a - b).abs()));
    // Equal infinities have no difference.
    if a == b {
        a + std::f32::consts::LN_2
    } else {
        value
    }
}
