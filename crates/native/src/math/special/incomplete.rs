//! Regularized incomplete gamma functions `P(a, x)` and `Q(a, x) = 1 - P(a, x)`.

use crate::math::horner64;

/// Past this the iterations grow as `√a` and the asymptotic form is exact enough.
const LARGE: f64 = 1.0e6;

/// Lower function `P(a, x)`, for `a ≥ 0`, `x ≥ 0`; NaN elsewhere.
pub fn igamma(a: f64, x: f64) -> f64 {
    match edge(a, x) {
        Some(lower) => lower,
        None if a > LARGE => asymptotic(a, x, -1.0),
        None if x < a + 1.0 => series(a, x),
        None => 1.0 - fraction(a, x),
    }
}

/// Upper function `Q(a, x)`, for `a ≥ 0`, `x ≥ 0`; NaN elsewhere.
pub fn igammac(a: f64, x: f64) -> f64 {
    match edge(a, x) {
        Some(lower) => 1.0 - lower,
        None if a > LARGE => asymptotic(a, x, 1.0),
        None if x < a + 1.0 => 1.0 - series(a, x),
        None => fraction(a, x),
    }
}

/// `P` at arguments that need no computation.
fn edge(a: f64, x: f64) -> Option<f64> {
    if a.is_nan() || x.is_nan() || a < 0.0 || x < 0.0 {
        return Some(f64::NAN);
    }
    if (a == 0.0 && x == 0.0) || (a == f64::INFINITY && x == f64::INFINITY) {
        return Some(f64::NAN);
    }
    if x == 0.0 || a == f64::INFINITY {
        return Some(0.0);
    }
    (a == 0.0 || x == f64::INFINITY).then_some(1.0)
}

/// `λ - 1 - ln λ` for `λ = x / a`, without cancellation near 1.
fn deviance(a: f64, x: f64) -> f64 {
    let d = (x - a) / a;
    if d.abs() > 0.1 {
        return d - libm::log1p(d);
    }
    // d²/2 - d³/3 + d⁴/4 …
    let mut sum = 0.0;
    for k in (2..=18).rev() {
        sum = 1.0 / f64::from(k) - d * sum;
    }
    d * d * sum
}

/// `xᵃ e⁻ˣ / Γ(a + 1)`.
fn prefix(a: f64, x: f64) -> f64 {
    if a < 10.0 {
        return libm::exp(a * libm::log(x) - x - libm::lgamma(a + 1.0));
    }
    // Stirling, with the large parts cancelled by hand: the exponent stays small
    // wherever the value is not.
    let z = 1.0 / (a * a);
    let correction = horner64(
        z,
        [
            1.0 / 12.0,
            -1.0 / 360.0,
            1.0 / 1260.0,
            -1.0 / 1680.0,
            1.0 / 1188.0,
            -691.0 / 360360.0,
        ],
    ) / a;
    libm::exp(-a * deviance(a, x) - correction) / (std::f64::consts::TAU * a).sqrt()
}

/// `P` by its power series, for `x < a + 1`.
pub(super) fn series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (1.0, 1.0, a);
    for _ in 0..100_000 {
        n += 1.0;
        term *= x / n;
        sum += term;
        if term <= sum * 1.0e-17 {
            break;
        }
    }
    prefix(a, x) * sum
}

/// `Q` by its continued fraction (Lentz), for `x ≥ a + 1`.
pub(super) fn fraction(a: f64, x: f64) -> f64 {
    const TINY: f64 = 1.0e-300;
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut value = d;
    for i in 1..100_000 {
        let i = f64::from(i);
        let numerator = -i * (i - a);
        b += 2.0;
        d = numerator * d + b;
        d = 1.0 / if d.abs() < TINY { TINY } else { d };
        c = b + numerator / c;
        c = if c.abs() < TINY { TINY } else { c };
        let step = d * c;
        value *= step;
        if (step - 1.0).abs() < 1.0e-16 {
            break;
        }
    }
    prefix(a, x) * a * value
}

/// Leading terms of Temme's uniform expansion; `side` is 1 for `Q`, -1 for `P`.
pub(super) fn asymptotic(a: f64, x: f64, side: f64) -> f64 {
    let deviance = deviance(a, x);
    let eta = (2.0 * deviance).sqrt().copysign(x - a);
    // 1/(λ - 1) - 1/η, by its Taylor series where both blow up.
    let c = if eta.abs() < 0.05 {
        horner64(
            eta,
            [
                -1.0 / 3.0,
                1.0 / 12.0,
                -2.0 / 135.0,
                1.0 / 864.0,
                1.0 / 2835.0,
            ],
        )
    } else {
        a / (x - a) - 1.0 / eta
    };
    let normal = 0.5 * libm::erfc(side * eta * (0.5 * a).sqrt());
    let correction = libm::exp(-a * deviance) / (std::f64::consts::TAU * a).sqrt() * c;
    normal + side * correction
}
