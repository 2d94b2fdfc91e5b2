//! Sine and cosine in `f32`.
//!
//! The argument is reduced by multiples of π/2 in double precision, where two
//! parts of the constant suffice up to [`TRIG_LIMIT`]; beyond it `libm` does an
//! exact reduction. That choice is a branch, so loops that should vectorize
//! use [`sin_slice`] and [`cos_slice`], which choose once per block.

use crate::math::horner32;

/// Largest magnitude for which [`sin_reduced`] and [`cos_reduced`] are valid.
pub const TRIG_LIMIT: f32 = 1.0e6;

const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5 · 2⁵²
// π/2: the first part has 33 bits, so its product with 20 bits is exact.
const HALF_PI_HIGH: f64 = f64::from_bits(0x3FF9_21FB_5440_0000);
const HALF_PI_LOW: f64 = 6.077_100_506_506_192e-11;

/// `(quadrant, r)` with `x = quadrant · π/2 + r`.
#[inline(always)]
fn reduce(x: f32) -> (i32, f32) {
    let x = x as f64;
    let t = x * std::f64::consts::FRAC_2_PI + ROUND;
    let k = t - ROUND;
    let r = (x - k * HALF_PI_HIGH) - k * HALF_PI_LOW;
    (t.to_bits() as i32, r as f32)
}

/// `sin(quadrant · π/2 + r)`.
#[inline(always)]
fn sine(quadrant: i32, r: f32) -> f32 {
    let t = r * r;
    let p = horner32(
        t,
        [
            -0.166_666_67,
            0.008_333_38,
            -0.000_198_535_11,
            2.837_511_8e-6,
        ],
    );
    let q = horner32(
        t,
        [
            0.041_666_668,
            -0.001_388_898_2,
            2.482_298_3e-5,
            -2.897_696e-7,
        ],
    );
    let sine = r + r * (t * p);
    // 1 - t/2, corrected for its rounding error.
    let half = 0.5 * t;
    let high = 1.0 - half;
    let cosine = high + (((1.0 - high) - half) + t * t * q);
    let value = if quadrant & 1 == 0 { sine } else { cosine };
    let sign = ((quadrant as u32) & 2) << 30;
    f32::from_bits(value.to_bits() ^ sign)
}

/// Sine for `|x| ≤ TRIG_LIMIT` and NaN; meaningless beyond. Vectorizes.
#[inline(always)]
pub fn sin_reduced(x: f32) -> f32 {
    let (quadrant, r) = reduce(x);
    let value = sine(quadrant, r);
    if x == 0.0 { x } else { value }
}

/// Cosine for `|x| ≤ TRIG_LIMIT` and NaN; meaningless beyond. Vectorizes.
#[inline(always)]
pub fn cos_reduced(x: f32) -> f32 {
    let (quadrant, r) = reduce(x);
    sine(quadrant.wrapping_add(1), r)
}

#[cold]
fn sin_exact(x: f32) -> f32 {
    libm::sin(x as f64) as f32
}

#[cold]
fn cos_exact(x: f32) -> f32 {
    libm::cos(x as f64) as f32
}

/// Sine of any number.
#[inline]
pub fn sin(x: f32) -> f32 {
    if x.abs() > TRIG_LIMIT {
        sin_exact(x)
    } else {
        sin_reduced(x)
    }
}

/// Cosine of any number.
#[inline]
pub fn cos(x: f32) -> f32 {
    if x.abs() > TRIG_LIMIT {
        cos_exact(x)
    } else {
        cos_reduced(x)
    }
}

/// Maps blocks by `fast`, then recomputes the few that have a large argument.
#[inline(always)]
fn by_blocks(
    target: &mut [f32],
    source: &[f32],
    fast: impl Fn(f32) -> f32,
    exact: impl Fn(f32) -> f32,
) {
    const BLOCK: usize = 256;
    for (target, source) in target.chunks_mut(BLOCK).zip(source.chunks(BLOCK)) {
        let mut large = false;
        for (y, &x) in target.iter_mut().zip(source) {
            *y = fast(x);
            large |= x.abs() > TRIG_LIMIT;
        }
        if large {
            for (y, &x) in target.iter_mut().zip(source) {
                if x.abs() > TRIG_LIMIT {
                    *y = exact(x);
                }
            }
        }
    }
}

/// `target[i] = sin(source[i])`, over the shorter length. Vectorizes.
#[inline(always)]
pub fn sin_slice(target: &mut [f32], source: &[f32]) {
    by_blocks(target, source, sin_reduced, sin_exact);
}

/// `target[i] = cos(source[i])`, over the shorter length. Vectorizes.
#[inline(always)]
pub fn cos_slice(target: &mut [f32], source: &[f32]) {
    by_blocks(target, source, cos_reduced, cos_exact);
}
