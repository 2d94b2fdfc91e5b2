//! `exp` and functions derived from it, in `f64`.
//!
//! The same method as in `f32`: `x = n·ln 2 + r`, one minimax polynomial for `(eʳ - 1 - r) / r²`, here with error below
//! 2⁻⁶¹ `/ |r|`.

use crate::math::horner64;

/// Adding this rounds to an integer and leaves it in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5 · 2⁵²

// ln 2 in two parts, the first with 32 bits so that n · high is exact.
const LN_2_HIGH: f64 = f64::from_bits(0x3FE6_2E42_FEE0_0000);
const LN_2_LOW: f64 = 1.9082149292705877e-10;

/// `2ⁿ` for `-1022 ≤ n ≤ 1023`.
#[inline(always)]
fn power_of_two(n: i64) -> f64 {
    f64::from_bits((n.wrapping_add(1023) << 52) as u64)
}

#[inline(always)]
fn integer_of(t: f64) -> i64 {
    (t.to_bits() as i64).wrapping_sub(ROUND.to_bits() as i64)
}

/// `(n, r, c)` with `x = n·ln 2 + r + c`, where `c` is the rounding error of `r`.
#[inline(always)]
fn reduce(x: f64) -> (i64, f64, f64) {
    let t = x * std::f64::consts::LOG2_E + ROUND;
    let k = t - ROUND;
    let high = x - k * LN_2_HIGH;
    let low = k * LN_2_LOW;
    let r = high - low;
    (integer_of(t), r, (high - r) - low)
}

/// `eʳ - 1 - r` for a reduced `r`.
#[inline(always)]
fn tail(r: f64) -> f64 {
    let p = horner64(
        r,
        [
            0.5,
            0.16666666666666677,
            0.04166666666666667,
            0.00833333333332148,
            0.001388888888887879,
            0.00019841269886290187,
            2.480158734974355e-05,
            2.7557244207765033e-06,
            2.755723991839841e-07,
            2.510899704982988e-08,
            2.0928796951660597e-09,
        ],
    );
    r * r * p
}

/// `mantissa · 2ⁿ` in two steps: no intermediate overflow, one rounding if subnormal.
#[inline(always)]
fn scale(mantissa: f64, n: i64) -> f64 {
    // An unsigned shift: AVX2 has no arithmetic one for 64-bit lanes.
    let half = ((n.wrapping_add(4096) as u64) >> 1) as i64 - 2048;
    mantissa * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// `eˣ` for `|x| ≤ 700`, where one scaling step is enough.
#[inline(always)]
fn exp_middle(x: f64) -> f64 {
    let (n, r, c) = reduce(x);
    (1.0 + (r + (c + tail(r)))) * power_of_two(n)
}

/// `eˣ`. Vectorizes.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    // Beyond these the result is 0 or infinite anyway. NaN passes both.
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -746.0 { -746.0 } else { x };
    let (n, r, c) = reduce(x);
    scale(1.0 + (r + (c + tail(r))), n)
}

/// `2ˣ`, exact for integers. Vectorizes.
#[inline(always)]
pub fn exp2(x: f64) -> f64 {
    let x = if x > 1025.0 { 1025.0 } else { x };
    let x = if x < -1077.0 { -1077.0 } else { x };
    let t = x + ROUND;
    let r = (x - (t - ROUND)) * std::f64::consts::LN_2;
    scale(1.0 + (r + tail(r)), integer_of(t))
}

/// `eˣ - 1`, accurate near zero. Vectorizes.
#[inline(always)]
pub fn expm1(x: f64) -> f64 {
    let y = if x > 710.0 { 710.0 } else { x };
    let y = if y < -40.0 { -40.0 } else { y };
    let (n, r, c) = reduce(y);
    let p = r + (c + tail(r));
    let inverse = power_of_two(if n > 128 { -128 } else { n.wrapping_neg() });
    let value = scale(p + (1.0 - inverse), n);
    value.copysign(x)
}

/// Hyperbolic tangent. Vectorizes.
#[inline(always)]
pub fn tanh(x: f64) -> f64 {
    let a = x.abs();
    let t = a * a;
    // Below 0.625: a + a·t·P/Q, with Q from the Padé approximant and P fitted to it.
    let p = horner64(
        t,
        [
            -0.33333333333333337,
            -0.02142857142857076,
            -0.0002442002442037639,
            -1.7619059545971057e-08,
        ],
    );
    let q = horner64(
        t,
        [
            1.0,
            0.4642857142857143,
            0.02454212454212454,
            0.0002553002553002553,
        ],
    );
    // From there on: 1 - 2 / (e²ᵃ + 1), which is 1 past 19.1.
    let b = if a > 20.0 { 20.0 } else { a };
    let e = exp_middle(b + b);
    // Both are base + numerator / denominator; select first and divide once.
    let small = a < 0.625;
    let base = if small { a } else { 1.0 };
    let numerator = if small { a * (t * p) } else { -2.0 };
    let denominator = if small { q } else { e + 1.0 };
    (base + numerator / denominator).copysign(x)
}

/// `1 / (1 + e⁻ˣ)`, accurate in the far left tail. Vectorizes.
#[inline(always)]
pub fn sigmoid(x: f64) -> f64 {
    let z = exp(-x.abs());
    let numerator = if x < 0.0 { z } else { 1.0 };
    let denominator = 1.0 + z;
    let quotient = numerator / denominator;
    // First-order correction for the rounding error of the denominator.
    let lost = z - (denominator - 1.0);
    let inverse = if x < 0.0 { 1.0 - quotient } else { quotient };
    quotient - quotient * (lost * inverse)
}

/// Gauss error function. Vectorizes.
#[inline(always)]
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    let small = horner64(
        a * a,
        [
            0.1283791670955126,
            -0.3761263890318411,
            0.11283791670972065,
            -0.02686617064828135,
            0.0052239776556883815,
            -0.0008548328735476781,
            0.00012055394336075962,
            -1.4927094942547732e-05,
            1.648473066757659e-06,
            -1.659833331869356e-07,
            1.6303714909869623e-08,
            -1.7632607615854e-09,
            1.638574486917993e-10,
        ],
    );
    let small = a + a * small;
    // erfc = e^p with p a fit of its logarithm, weighted by erfc itself; past 6
    // it is below half a unit of 1.
    let b = if a > 6.0 { 6.0 } else { a };
    let p = horner64(
        b,
        [
            -5.132662470886445e-07,
            -1.1283739914743596,
            -0.6366440561507724,
            -0.10270228691586197,
            0.018988036568731027,
            0.0004135441789647522,
            -0.0019189536817441916,
            0.0007730497115238506,
            -0.00013655848883720414,
            -1.952159683997674e-05,
            2.253235035891087e-05,
            -8.578602920422004e-06,
            2.1147507016820587e-06,
            -3.69554739659901e-07,
            4.5931445268052783e-08,
            -3.889805694312822e-09,
            2.0201891013862792e-10,
            -4.864564187675049e-12,
        ],
    );
    let large = 1.0 - exp_middle(p);
    let value = if a < 1.0 { small } else { large };
    value.copysign(x)
}
