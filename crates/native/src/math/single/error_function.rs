//! The error function and its inverse in `f32`.

use super::exponential::{exp_middle, expm1_reduced, scale};
use crate::math::{double, horner32, horner64};

/// Gauss error function. Vectorizes.
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let a = x.abs();
    let t = a * a;
    let small = horner32(
        t,
        [
            0.128_379_17,
            -0.376_126_3,
            0.112_836_24,
            -0.026_855_586,
            0.005_191_936_6,
            -0.000_804_362_93,
            7.968_411e-5,
        ],
    );
    let small = a + a * small;
    // erfc = e^p with p a fit of its logarithm; past 4 it no longer shows in f32.
    let b = if a > 4.0 { 4.0 } else { a };
    let p = horner32(
        b,
        [
            -0.000_195_687_62,
            -1.127_675_5,
            -0.637_182_5,
            -0.103_931_345,
            0.022_226_783,
            -0.003_043_183,
            0.000_195_934_45,
        ],
    );
    let large = 1.0 - exp_middle(p);
    let value = if a < 0.921_875 { small } else { large };
    value.copysign(x)
}

/// `1 - erf(x)`, right in the far tail to three units in the last place. Vectorizes.
///
/// `t (1 + (t - 1) p(t)) exp(-x²)` with `t = 1 / (1 + 19x/16)` and `p` a minimax fit. `x²` and `t` are each a sum of two floats, and
/// the factors are multiplied as `1 + small`, so that little is rounded more than once.
#[inline(always)]
pub fn erfc(x: f32) -> f32 {
    let a = x.abs();
    // Zero in f32 from here on.
    let a = if a > 10.6 { 10.6 } else { a };
    let top = high_part(a);
    let (n, m) = expm1_reduced(-(top * top), -((a - top) * (a + top)));
    let scaled = 1.1875 * a;
    let d = 1.0 + scaled;
    let lost = if scaled < 1.0 {
        scaled - (d - 1.0)
    } else {
        1.0 - (d - scaled)
    };
    let t = 1.0 / d;
    let (t_top, d_top) = (high_part(t), high_part(d));
    let rest = ((1.0 - t_top * d_top) - t_top * (d - d_top)) - (t - t_top) * d;
    let rest = rest - t * lost;
    let p = horner32(
        t - 0.25,
        [
            0.2193761,
            -0.5011079,
            -0.039451998,
            0.72822684,
            -0.58304304,
            -0.8966862,
            2.6321042,
            -1.668716,
            -4.367189,
            12.555093,
            -15.11689,
            9.383319,
            -2.440619,
        ],
    );
    // A first-order correction with the derivative in `t`, for the rounding error of the division.
    let s = t * (t - 1.0) * p + t * rest * (1.0 + p * (t + t - 1.0));
    let tail = scale(t + (t * m + (s + s * m)), n);
    if x < 0.0 { 2.0 - tail } else { tail }
}

/// The first 12 bits of a float: products of two such are exact.
#[inline(always)]
fn high_part(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & 0xffff_f000)
}

/// `erfinv(x) / x` from `w = -ln(1 - x²)`, right to 2⁻²⁷ for `w ≤ 16`.
///
/// Split as in Giles (2012): polynomial in `w` below 5, in `√w` above.
#[inline(always)]
pub(in crate::math) fn erfinv_ratio(w: f64) -> f64 {
    let central = horner64(
        w - 2.5,
        [
            1.5014093592801354,
            0.2466402861569217,
            -0.0041773867752515625,
            -0.0012527418859649235,
            0.00021834443834891935,
            -4.963341617412775e-06,
            -3.4627049503752236e-06,
            4.661689881015627e-07,
            2.3232682080955304e-08,
            -8.79091897019272e-09,
        ],
    );
    let tail = horner64(
        w.sqrt() - 3.0,
        [
            2.8329767956875713,
            1.0016750868066409,
            0.009445684247871705,
            -0.00763941058291462,
            0.005683172010336597,
            -0.003586985576489255,
            0.0014958575440021799,
            -7.662259658610966e-05,
            -0.0003187239143159036,
            0.00012896583550473615,
        ],
    );
    if w < 5.0 { central } else { tail }
}

/// Inverse of [`erf`]: infinite at ±1, NaN beyond. Vectorizes.
#[inline(always)]
pub fn erfinv(x: f32) -> f32 {
    // In f64 1 - x² is exact to far below the last bit of an f32.
    let wide = x as f64;
    let w = -double::log((1.0 - wide) * (1.0 + wide));
    let value = (wide * erfinv_ratio(w)) as f32;
    if x.abs() == 1.0 {
        f32::INFINITY.copysign(x)
    } else {
        value
    }
}
