//! `exp` and functions derived from it, in `f32`.
//!
//! All reduce `x = n·ln 2 + r` with `|r| ≤ ln 2 / 2` and use one polynomial
//! for `(eʳ - 1 - r) / r²`, a minimax fit with error below 2⁻²⁵·⁸ `/ |r|`.

use crate::math::horner32;

/// Adding this to a small float rounds it to an integer, ties to even, and leaves that integer in the low bits. A cast
/// would work too, but its saturation costs four times as much in vector code.
const ROUND: f32 = 12_582_912.0; // 1.5 · 2²³

// ln 2 in two parts; the first has 10 significant bits, so its product with an
// exponent is exact.
const LN_2_HIGH: f32 = 0.693_359_4; // 355 / 512
const LN_2_LOW: f32 = (std::f64::consts::LN_2 - 355.0 / 512.0) as f32;

/// `2ⁿ` for `-126 ≤ n ≤ 127`.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23) as u32)
}

/// `(n, r, c)` with `x = n·ln 2 + r + c`, where `c` is the rounding error of `r`.
#[inline(always)]
fn reduce(x: f32) -> (i32, f32, f32) {
    let t = x * std::f32::consts::LOG2_E + ROUND;
    let n = (t.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let k = t - ROUND;
    let high = x - k * LN_2_HIGH;
    let low = k * LN_2_LOW;
    let r = high - low;
    (n, r, (high - r) - low)
}

/// `(eʳ - 1 - r)` for a reduced `r`.
#[inline(always)]
fn tail(r: f32) -> f32 {
    let p = horner32(
        r,
        [
            0.5,
            0.166_665_23,
            0.041_666_61,
            0.008_369_203,
            0.001_391_815_7,
        ],
    );
    r * r * p
}

/// `mantissa · 2ⁿ` for any `n` that `exp` produces: in two steps, so that neither factor overflows and a subnormal
/// result is rounded once.
#[inline(always)]
pub(super) fn scale(mantissa: f32, n: i32) -> f32 {
    let half = n >> 1;
    mantissa * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// `(n, m)` with `e^(x + rest) = 2ⁿ (1 + m)`, where `rest` is the rounding error of `x`.
#[inline(always)]
pub(super) fn expm1_reduced(x: f32, rest: f32) -> (i32, f32) {
    let t = (x + rest) * std::f32::consts::LOG2_E + ROUND;
    let n = (t.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let k = t - ROUND;
    let high = x - k * LN_2_HIGH;
    let low = k * LN_2_LOW;
    let part = high - low;
    let c = (high - part) - low;
    let r = part + rest;
    let c = c + ((part - r) + rest);
    (n, r + (c + tail(r)))
}

/// `eˣ` for `-87 ≤ x ≤ 88`, where one scaling step is enough.
#[inline(always)]
pub(super) fn exp_middle(x: f32) -> f32 {
    let (n, r, _) = reduce(x);
    (1.0 + (r + tail(r))) * power_of_two(n)
}

/// `eˣ`. Vectorizes.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Beyond these the result is 0 or infinite anyway. NaN passes both.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -104.0 { -104.0 } else { x };
    let (n, r, _) = reduce(x);
    scale(1.0 + (r + tail(r)), n)
}

/// `target[i] = e^f(source[i])`, over the shorter length, bit-identical to [`exp`]. Vectorizes. Most blocks have no
/// argument that needs the second scaling step or is out of range.
#[inline(always)]
pub fn exp_slice(target: &mut [f32], source: &[f32], f: impl Fn(f32) -> f32) {
    const BLOCK: usize = 256;
    for (target, source) in target.chunks_mut(BLOCK).zip(source.chunks(BLOCK)) {
        let mut middle = true;
        for (y, &x) in target.iter_mut().zip(source) {
            let x = f(x);
            middle &= x.abs() <= 87.0;
            *y = exp_middle(x);
        }
        if !middle {
            for (y, &x) in target.iter_mut().zip(source) {
                *y = exp(f(x));
            }
        }
    }
}

/// `2ˣ`, exact for integers. Vectorizes.
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    let x = if x > 129.0 { 129.0 } else { x };
    let x = if x < -151.0 { -151.0 } else { x };
    let t = x + ROUND;
    let n = (t.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let r = (x - (t - ROUND)) * std::f32::consts::LN_2;
    scale(1.0 + (r + tail(r)), n)
}

/// `eˣ - 1`, accurate near zero. Vectorizes.
#[inline(always)]
pub fn expm1(x: f32) -> f32 {
    let y = if x > 89.0 { 89.0 } else { x };
    // Below -18 the result is -1, and 2⁻ⁿ stays in range.
    let y = if y < -18.0 { -18.0 } else { y };
    let (n, r, c) = reduce(y);
    let p = r + (c + tail(r));
    // 2ⁿ·(p + 1) - 1 = 2ⁿ·(p + (1 - 2⁻ⁿ)); 2⁻ⁿ does not matter beyond 2⁻³⁰.
    let inverse = power_of_two(if n > 64 { -64 } else { n.wrapping_neg() });
    let value = scale(p + (1.0 - inverse), n);
    // Only -0 needs its sign from here.
    value.copysign(x)
}

/// Hyperbolic tangent. Vectorizes.
///
/// With `|x| = k·ln 2 / 2 + u`, `s = 2ᵏ` and `w = tanh u`, it is `n / (n + r)` where `n = (s - 1) + (s + 1) w` and `r =
/// 2 (1 - w)`: for `k = 0` that is `w` itself. From `k = 2` on it is `1 - r / (n + r)`, which is accurate enough near
/// ±1 for the derivative `1 - tanh²`. A quarter is subtracted before `k` is rounded, so that `u` lies in -0.09 to 0.26
/// and `n` is not a difference of nearly equal numbers. The polynomial is a minimax fit of `(tanh u - u) / u³`.
///
/// Uses fused multiply-add: a fifth less time from `Avx2` on, at the cost of the base level, where each is a library
/// call.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let a = x.abs();
    // 1 in f32 from 9.02 on.
    let a = if a > 10.0 { 10.0 } else { a };
    let t = a.mul_add(2.0 * std::f32::consts::LOG2_E, -0.25) + ROUND;
    let k = t - ROUND;
    let u = k.mul_add(-LN_2_LOW / 2.0, k.mul_add(-LN_2_HIGH / 2.0, a));
    let v = u * u;
    let p = (-0.051_226_31f32).mul_add(v, 0.133_226_98);
    let p = p.mul_add(v, -0.333_332_15);
    let w = (u * v).mul_add(p, u);
    // The low bits of `t` are those of `k`.
    let s = f32::from_bits((t.to_bits() << 23).wrapping_add(1.0f32.to_bits()));
    let n = (s + 1.0).mul_add(w, s - 1.0);
    let rest = (-2.0f32).mul_add(w, 2.0);
    let is_far = k > 1.5;
    let quotient = (if is_far { rest } else { n }) / (n + rest);
    (if is_far { 1.0 - quotient } else { quotient }).copysign(x)
}

/// `1 / (1 + e⁻ˣ)`, accurate in the far left tail. Vectorizes.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    // e^-|x| never overflows, and for negative x it is the numerator. Two more
    // roundings follow, so this one keeps the low part of the reduction.
    let a = -x.abs();
    let (n, r, c) = reduce(if a < -104.0 { -104.0 } else { a });
    let z = scale(1.0 + (r + (c + tail(r))), n);
    let numerator = if x < 0.0 { z } else { 1.0 };
    let denominator = 1.0 + z;
    let quotient = numerator / denominator;
    // First-order correction for the rounding error of the denominator.
    let lost = z - (denominator - 1.0);
    let inverse = if x < 0.0 { 1.0 - quotient } else { quotient };
    quotient - quotient * (lost * inverse)
}
