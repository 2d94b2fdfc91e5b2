//! Special functions in `f64`. The `f32` versions round these.

mod gamma;
mod incomplete;

pub use gamma::{digamma, polygamma, zeta};
pub use incomplete::{igamma, igammac};
pub use libm::{erfc, lgamma};

use super::{double, horner64, single};

/// Inverse of `erf`: infinite at ±1, NaN beyond.
///
/// A polynomial guess good to 2⁻²⁰ or better, then one Halley step, which
/// cubes the error.
pub fn erfinv(x: f64) -> f64 {
    let a = x.abs();
    if a == 0.0 {
        return x;
    }
    if a == 1.0 {
        return f64::INFINITY.copysign(x);
    }
    if a > 1.0 || a.is_nan() {
        return f64::NAN;
    }
    let w = -double::log((1.0 - a) * (1.0 + a));
    let ratio = if w < 16.0 {
        single::erfinv_ratio(w)
    } else {
        // Arguments that f32 cannot hold: within 7e-7 up to the last f64 before 1.
        horner64(
            w.sqrt() - 3.0,
            [
                2.8329762959962346,
                1.001689334067403,
                0.009459535355956705,
                -0.007770862316130376,
                0.005698103544025287,
                -0.0032518901602620384,
                0.001225228937961068,
                -0.0002735615272395353,
                3.1395466010194145e-05,
                -1.3053432777590262e-06,
            ],
        )
    };
    let y = a * ratio;
    // Near 1 the complement is what a holds exactly.
    let excess = if a < 0.5 {
        double::erf(y) - a
    } else {
        (1.0 - a) - erfc(y)
    };
    let step = excess / (std::f64::consts::FRAC_2_SQRT_PI * double::exp(-y * y));
    (y - step / (1.0 + y * step)).copysign(x)
}

#[cfg(test)]
mod tests;
