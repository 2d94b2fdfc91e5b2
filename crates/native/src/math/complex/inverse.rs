//! Inverse circular and hyperbolic functions, after Kahan's "Branch cuts for
//! complex elementary functions": products of square roots, whose signed zeros
//! put every cut on its proper side.

use super::elementary::{over_i, sqrt, times_i};
use num_complex::Complex64;
use std::f64::consts::{FRAC_PI_2, LN_2};

/// Above this, squares overflow and `|z|² ± 1` is `|z|²`.
const LARGE: f64 = f64::MAX / 4.0;
/// √LARGE, and √ of the smallest normal number.
const ROOT_LARGE: f64 = 6.7e153;
const ROOT_SMALL: f64 = 1.5e-154;

#[inline(always)]
fn c(re: f64, im: f64) -> Complex64 {
    Complex64::new(re, im)
}

fn infinite(z: Complex64) -> bool {
    z.re.is_infinite() || z.im.is_infinite()
}

fn large(z: Complex64) -> bool {
    z.re.abs() > LARGE || z.im.abs() > LARGE
}

/// `ln(2|z|)` for a large `z`; infinite for an infinite one, whatever its other part.
fn log_twice_abs(z: Complex64) -> f64 {
    libm::log(libm::hypot(0.5 * z.re, 0.5 * z.im)) + 2.0 * LN_2
}

pub(super) fn acos(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if infinite(z) || large(z) {
        // atan2 has the right multiple of π/4 for every pair of infinities.
        return c(libm::atan2(y.abs(), x), -log_twice_abs(z).copysign(y));
    }
    if y.is_nan() {
        return c(if x == 0.0 { FRAC_PI_2 } else { y }, y);
    }
    let a = sqrt(c(1.0 - x, -y));
    let b = sqrt(c(1.0 + x, y));
    c(
        2.0 * libm::atan2(a.re, b.re),
        libm::asinh(b.re * a.im - b.im * a.re),
    )
}

pub(super) fn acosh(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if infinite(z) || large(z) {
        return c(log_twice_abs(z), libm::atan2(y, x));
    }
    if y.is_nan() {
        return c(y, if x == 0.0 { FRAC_PI_2 } else { y });
    }
    let a = sqrt(c(x - 1.0, y));
    let b = sqrt(c(x + 1.0, y));
    c(
        libm::asinh(a.re * b.re + a.im * b.im),
        2.0 * libm::atan2(a.im, b.re),
    )
}

pub(super) fn asinh(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if infinite(z) || large(z) {
        return c(log_twice_abs(z).copysign(x), libm::atan2(y, x.abs()));
    }
    if x.is_nan() && y == 0.0 {
        return z;
    }
    let a = sqrt(c(1.0 + y, -x));
    let b = sqrt(c(1.0 - y, x));
    c(
        libm::asinh(a.re * b.im - b.re * a.im),
        libm::atan2(y, a.re * b.re - a.im * b.im),
    )
}

pub(super) fn atanh(z: Complex64) -> Complex64 {
    // Odd: work in the right half plane.
    if z.re.is_sign_negative() {
        return -atanh(-z);
    }
    let (x, y) = (z.re, z.im);
    if infinite(z) {
        let angle = if y.is_nan() { y } else { FRAC_PI_2.copysign(y) };
        return c(0.0, angle);
    }
    if x.is_nan() || y.is_nan() {
        return c(if x == 0.0 { x } else { f64::NAN }, f64::NAN);
    }
    let a = y.abs();
    if x > ROOT_LARGE || a > ROOT_LARGE {
        let h = libm::hypot(0.5 * x, 0.5 * a);
        return c(0.25 * x / h / h, FRAC_PI_2.copysign(y));
    }
    if x == 1.0 && a < ROOT_SMALL {
        if a == 0.0 {
            return c(f64::INFINITY, y);
        }
        let real = -libm::log(a.sqrt() / libm::hypot(a, 2.0).sqrt());
        return c(real, (0.5 * libm::atan2(2.0, -a)).copysign(y));
    }
    let d = 1.0 - x;
    c(
        0.25 * libm::log1p(4.0 * x / (d * d + a * a)),
        -0.5 * libm::atan2(-2.0 * y, d * (1.0 + x) - a * a),
    )
}

pub(super) fn asin(z: Complex64) -> Complex64 {
    over_i(asinh(times_i(z)))
}

pub(super) fn atan(z: Complex64) -> Complex64 {
    over_i(atanh(times_i(z)))
}
