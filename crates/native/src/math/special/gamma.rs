//! Derivatives of `ln Γ` and the Hurwitz zeta function.

use crate::math::horner64;

/// Bernoulli numbers `B₂, B₄, … B₂₄`.
const BERNOULLI: [f64; 12] = [
    1.0 / 6.0,
    -1.0 / 30.0,
    1.0 / 42.0,
    -1.0 / 30.0,
    5.0 / 66.0,
    -691.0 / 2730.0,
    7.0 / 6.0,
    -3617.0 / 510.0,
    43867.0 / 798.0,
    -174611.0 / 330.0,
    854513.0 / 138.0,
    -236364091.0 / 2730.0,
];

/// Derivative of `ln Γ`. Infinite at zero, with the sign of `-x`; NaN at the
/// negative integers and at `-∞`.
pub fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x.is_nan() || x == f64::INFINITY {
        return x;
    }
    if x < 0.0 {
        // The nearest integer, not the next lower one: their difference is exact, so no digit is lost near a pole.
        let whole = x.round();
        if x == whole {
            return f64::NAN;
        }
        // ψ(1 - x) - ψ(x) = π / tan πx; the tangent has period 1 in x.
        let rotation = std::f64::consts::PI * (x - whole);
        return positive_digamma(1.0 - x) - std::f64::consts::PI / libm::tan(rotation);
    }
    positive_digamma(x)
}

fn positive_digamma(x: f64) -> f64 {
    if x >= 10.0 {
        // ln x - 1/2x - Σ B₂ₖ / (2k x²ᵏ)
        let z = 1.0 / (x * x);
        let mut sum = 0.0;
        for k in (1..=8).rev() {
            sum = (sum + BERNOULLI[k - 1] / (2 * k) as f64) * z;
        }
        return libm::log(x) - 0.5 / x - sum;
    }
    if x < 1.0 {
        return near_root(x + 1.0) - 1.0 / x;
    }
    let (mut x, mut sum) = (x, 0.0);
    while x > 2.0 {
        x -= 1.0;
        sum += 1.0 / x;
    }
    sum + near_root(x)
}

/// ψ on `[1, 2]` as `(x - root) · p(x)`: a plain sum would lose every digit at the root.
fn near_root(x: f64) -> f64 {
    const ROOT: f64 = 1.4616321449683622;
    const ROOT_LOW: f64 = 9.549995429965697e-17;
    let p = horner64(
        x - 1.5,
        [
            0.9510558760318328,
            -0.4236274212814606,
            0.24054248424078778,
            -0.14840492305388006,
            0.09498872445276309,
            -0.06192213327556168,
            0.04076083394880453,
            -0.026975796656858876,
            0.017907248062212635,
            -0.011908220170089762,
            0.007927026565772533,
            -0.005279936412225292,
            0.0035180509992759177,
            -0.0023455016846614823,
            0.0015637853129671507,
            -0.0010364223901933155,
            0.0006889282828282728,
            -0.00048606533233576637,
            0.00032991755107222045,
            -0.00014460164469692058,
            8.649364247026976e-05,
            -0.00017837518121305315,
            0.00012612152910518678,
        ],
    );
    ((x - ROOT) - ROOT_LOW) * p
}

/// Hurwitz zeta function `Σ (q + k)⁻ˢ` over `k ≥ 0`.
///
/// Infinite for `s = 1` and where a term is; NaN for `s < 1`, and for negative
/// `q` with an `s` that makes terms complex.
pub fn zeta(s: f64, q: f64) -> f64 {
    if s.is_nan() || q.is_nan() || s < 1.0 {
        return f64::NAN;
    }
    if s == 1.0 {
        return f64::INFINITY;
    }
    if q > 0.0 {
        return positive_zeta(s, q, 1.0);
    }
    let whole = q.floor();
    if q == whole {
        return if q == f64::NEG_INFINITY {
            f64::NAN
        } else {
            f64::INFINITY
        };
    }
    if s != s.floor() {
        return f64::NAN;
    }
    // The terms below zero mirror a stretch of another zeta's, which keeps the
    // cost independent of q: with f = q - ⌊q⌋ they are
    // (-1)ˢ (ζ(s, 1 - f) - ζ(s, 1 - q)).
    let fraction = q - whole;
    let mirrored = positive_zeta(s, 1.0 - fraction, 1.0) - positive_zeta(s, 1.0 - q, 1.0);
    let sign = if s % 2.0 == 0.0 { 1.0 } else { -1.0 };
    positive_zeta(s, fraction, 1.0) + sign * mirrored
}

/// `unitˢ ζ(s, q)` by Euler–Maclaurin summation: ten terms, the integral, and
/// Bernoulli corrections. A unit near `q` keeps large powers in range.
fn positive_zeta(s: f64, q: f64, unit: f64) -> f64 {
    if q == f64::INFINITY {
        return 0.0;
    }
    let term = |a: f64| libm::pow(a / unit, -s);
    // From here all terms but two are negligible beside the first.
    if s > 1.0e3 && q < 1.0e3 {
        return term(q) + term(q + 1.0);
    }
    let mut sum = 0.0;
    let mut a = q;
    for _ in 0..10 {
        sum += term(a);
        a += 1.0;
    }
    let power = term(a);
    sum += a * power / (s - 1.0) + 0.5 * power;
    // B₂ₖ / (2k)! · s (s+1) … (s+2k-2) · a^(1-s-2k)
    let mut factor = s * power / a;
    let mut factorial = 2.0;
    for (k, bernoulli) in BERNOULLI.iter().enumerate() {
        let term = bernoulli * factor / factorial;
        sum += term;
        if term.abs() <= 1.0e-17 * sum.abs() {
            break;
        }
        let m = (2 * k + 1) as f64;
        factor *= (s + m) * (s + m + 1.0) / (a * a);
        factorial *= (m + 2.0) * (m + 3.0);
    }
    sum
}

/// The `n`-th derivative of [`digamma`]: `(-1)ⁿ⁺¹ n! ζ(n + 1, x)`.
pub fn polygamma(n: u32, x: f64) -> f64 {
    if n == 0 {
        return digamma(x);
    }
    let order = f64::from(n) + 1.0;
    let factorial = libm::tgamma(order);
    let size = if factorial.is_finite() || x <= 0.0 {
        factorial * zeta(order, x)
    } else {
        // From 171! on the factors leave the range while the product may not.
        let scaled = positive_zeta(order, x, x);
        libm::exp(libm::lgamma(order) + libm::log(scaled) - order * libm::log(x))
    };
    if n % 2 == 1 { size } else { -size }
}
