//! Exponential, logarithm, root, power, circular and hyperbolic functions.

use num_complex::Complex64;
use std::f64::consts::{LN_2, LN_10};

#[inline(always)]
fn c(re: f64, im: f64) -> Complex64 {
    Complex64::new(re, im)
}

/// `i · z`.
#[inline(always)]
pub(super) fn times_i(z: Complex64) -> Complex64 {
    c(-z.im, z.re)
}

/// `-i · z`.
#[inline(always)]
pub(super) fn over_i(z: Complex64) -> Complex64 {
    c(z.im, -z.re)
}

/// `factor · eˣ · (cos y, sin y)` for finite `y`, where `eˣ` alone may overflow.
fn polar_exp(x: f64, y: f64, factor: f64) -> Complex64 {
    let (sin, cos) = libm::sincos(y);
    if x <= 709.0 || x == f64::INFINITY {
        let r = factor * libm::exp(x);
        return c(r * cos, r * sin);
    }
    // Apply eˣ in two factors; past twice the range it is infinite for every y.
    let first = factor * libm::exp(709.0);
    let second = libm::exp((x - 709.0).min(709.5));
    c(cos * first * second, sin * first * second)
}

pub(super) fn exp(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if y == 0.0 {
        return c(libm::exp(x), y);
    }
    if y.is_finite() {
        return if x.is_nan() {
            c(x, x)
        } else {
            polar_exp(x, y, 1.0)
        };
    }
    match x {
        f64::NEG_INFINITY => c(0.0, 0.0),
        f64::INFINITY => c(x, f64::NAN),
        _ => c(f64::NAN, f64::NAN),
    }
}

pub(super) fn expm1(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if y == 0.0 {
        return c(libm::expm1(x), y);
    }
    if x.is_infinite() || !y.is_finite() || x > 700.0 {
        let e = exp(z);
        return c(e.re - 1.0, e.im);
    }
    // eˣ cos y - 1 = (eˣ - 1) cos y - 2 sin² (y/2)
    let (sin, cos) = libm::sincos(y);
    let half = libm::sin(0.5 * y);
    c(libm::expm1(x) * cos - 2.0 * half * half, libm::exp(x) * sin)
}

/// `ln |z|`, accurate near the unit circle and across the whole range.
fn log_abs(z: Complex64) -> f64 {
    let (x, y) = (z.re.abs(), z.im.abs());
    let (large, small) = if x < y { (y, x) } else { (x, y) };
    if large == f64::INFINITY {
        return f64::INFINITY;
    }
    if large > f64::MAX / 4.0 {
        return libm::log(libm::hypot(0.5 * large, 0.5 * small)) + LN_2;
    }
    if large < 1.0e-290 && large > 0.0 {
        const SCALE: f64 = 18_014_398_509_481_984.0; // 2⁵⁴
        return libm::log(libm::hypot(large * SCALE, small * SCALE)) - 54.0 * LN_2;
    }
    let r = libm::hypot(large, small);
    if (0.6..=1.8).contains(&r) {
        return 0.5 * libm::log1p(excess(large - 1.0, small));
    }
    libm::log(r)
}

/// `(1 + x)² + y² - 1 = 2x + x² + y²` to nearly full precision even where the terms cancel.
fn excess(x: f64, y: f64) -> f64 {
    let (xx, yy) = (x * x, y * y);
    // The rounding errors of the squares; exact by the definition of fused multiply-add.
    let low = libm::fma(x, x, -xx) + libm::fma(y, y, -yy);
    let (a, a_low) = two_sum(2.0 * x, yy);
    let (sum, sum_low) = two_sum(a, xx);
    sum + (sum_low + a_low + low)
}

/// A sum and its rounding error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

pub(super) fn log(z: Complex64) -> Complex64 {
    c(log_abs(z), libm::atan2(z.im, z.re))
}

pub(super) fn log2(z: Complex64) -> Complex64 {
    let w = log(z);
    c(w.re / LN_2, w.im / LN_2)
}

pub(super) fn log10(z: Complex64) -> Complex64 {
    let w = log(z);
    c(w.re / LN_10, w.im / LN_10)
}

pub(super) fn log1p(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if y == 0.0 && x >= -1.0 {
        return c(libm::log1p(x), y);
    }
    let angle = libm::atan2(y, 1.0 + x);
    if x.abs() < 1.0 && y.abs() < 1.0 && x > -0.9 {
        return c(0.5 * libm::log1p(excess(x, y)), angle);
    }
    c(log_abs(c(1.0 + x, y)), angle)
}

pub(super) fn sqrt(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if y.is_infinite() {
        return c(f64::INFINITY, y);
    }
    if x == f64::INFINITY {
        return c(x, if y.is_nan() { y } else { 0f64.copysign(y) });
    }
    if x == f64::NEG_INFINITY {
        let real = if y.is_nan() { y } else { 0.0 };
        return c(real, f64::INFINITY.copysign(y));
    }
    if x.is_nan() || y.is_nan() {
        return c(f64::NAN, f64::NAN);
    }
    if x == 0.0 && y == 0.0 {
        return c(0.0, y);
    }
    // Scaled by powers of four, so that neither |z| + |x| overflows nor |z| loses bits.
    let largest = x.abs().max(y.abs());
    let (x, y, back) = if largest > f64::MAX / 4.0 {
        (x / 16.0, y / 16.0, 4.0)
    } else if largest < 1.0e-290 {
        const SCALE: f64 = 18_014_398_509_481_984.0; // 2⁵⁴
        (x * SCALE, y * SCALE, 1.0 / 134_217_728.0) // 2⁻²⁷
    } else {
        (x, y, 1.0)
    };
    let t = (0.5 * (x.abs() + libm::hypot(x, y))).sqrt();
    let other = y / (2.0 * t);
    if x >= 0.0 {
        c(t * back, other * back)
    } else {
        c(other.abs() * back, t.copysign(y) * back)
    }
}

pub(super) fn cosh(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if y == 0.0 {
        // The product of the signs, also for infinities, whose product with 0 is NaN.
        let zero = if x.is_nan() {
            0.0
        } else {
            1f64.copysign(x) * y
        };
        return c(libm::cosh(x), zero);
    }
    if !y.is_finite() {
        return match x {
            0.0 => c(f64::NAN, 0.0),
            _ if x.is_infinite() => c(f64::INFINITY, f64::NAN),
            _ => c(f64::NAN, f64::NAN),
        };
    }
    if x.abs() > 22.0 {
        let e = polar_exp(x.abs(), y, 0.5);
        return c(e.re, e.im * 1f64.copysign(x));
    }
    let (sin, cos) = libm::sincos(y);
    c(libm::cosh(x) * cos, libm::sinh(x) * sin)
}

pub(super) fn sinh(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if y == 0.0 {
        return c(libm::sinh(x), y);
    }
    if !y.is_finite() {
        return match x {
            0.0 => c(x, f64::NAN),
            _ if x.is_infinite() => c(x, f64::NAN),
            _ => c(f64::NAN, f64::NAN),
        };
    }
    if x.abs() > 22.0 {
        let e = polar_exp(x.abs(), y, 0.5);
        return c(e.re * 1f64.copysign(x), e.im);
    }
    let (sin, cos) = libm::sincos(y);
    c(libm::sinh(x) * cos, libm::cosh(x) * sin)
}

pub(super) fn tanh(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if x.is_nan() {
        return c(x, if y == 0.0 { y } else { x });
    }
    if !y.is_finite() {
        return match x {
            0.0 => c(x, f64::NAN),
            _ if x.is_infinite() => c(1f64.copysign(x), 0f64.copysign(y)),
            _ => c(f64::NAN, f64::NAN),
        };
    }
    if x.abs() > 22.0 {
        // 4 sin y cos y e^(-2|x|), without squaring anything that underflows early.
        let (sin, cos) = libm::sincos(y);
        let e = libm::exp(-x.abs());
        return c(1f64.copysign(x), 4.0 * sin * cos * e * e);
    }
    // With t = tan y, s = sinh x: (s·cosh x·(1 + t²) + i·t) / (1 + s²·(1 + t²)).
    let (tanh, tan, cosh) = (libm::tanh(x), libm::tan(y), libm::cosh(x));
    let product = tanh * tan;
    let denominator = 1.0 + product * product;
    c(
        tanh * (1.0 + tan * tan) / denominator,
        (tan / denominator) / cosh / cosh,
    )
}

pub(super) fn sin(z: Complex64) -> Complex64 {
    over_i(sinh(times_i(z)))
}

pub(super) fn cos(z: Complex64) -> Complex64 {
    cosh(times_i(z))
}

pub(super) fn tan(z: Complex64) -> Complex64 {
    over_i(tanh(times_i(z)))
}

pub(super) fn sign(z: Complex64) -> Complex64 {
    let (x, y) = (z.re, z.im);
    if x.is_nan() || y.is_nan() {
        return c(f64::NAN, f64::NAN);
    }
    let unit = |v: f64| if v == 0.0 { 0.0 } else { 1f64.copysign(v) };
    match (x.is_infinite(), y.is_infinite()) {
        (true, true) => c(f64::NAN, f64::NAN),
        (true, false) => c(unit(x), 0.0),
        (false, true) => c(0.0, unit(y)),
        (false, false) => {
            let largest = x.abs().max(y.abs());
            if largest == 0.0 {
                return c(0.0, 0.0);
            }
            let (x, y) = (x / largest, y / largest);
            let r = libm::hypot(x, y);
            c(x / r, y / r)
        }
    }
}

pub(super) fn divide(z: Complex64, w: Complex64) -> Complex64 {
    let (a, b, x, y) = (z.re, z.im, w.re, w.im);
    if (x.is_infinite() || y.is_infinite()) && a.is_finite() && b.is_finite() {
        // Finite over infinite is zero, with the signs the quotient would have.
        let unit = |v: f64| if v.is_infinite() { 1f64 } else { 0.0 }.copysign(v);
        let (x, y) = (unit(x), unit(y));
        return c(0.0 * (a * x + b * y), 0.0 * (b * x - a * y));
    }
    if x == 0.0 && y == 0.0 {
        // As in NumPy and torch: each part over an unsigned zero.
        return c(a / 0.0, b / 0.0);
    }
    // Smith: divide through by the larger part of w.
    if x.abs() >= y.abs() {
        let ratio = y / x;
        let d = x + y * ratio;
        c((a + b * ratio) / d, (b - a * ratio) / d)
    } else {
        let ratio = x / y;
        let d = x * ratio + y;
        c((a * ratio + b) / d, (b * ratio - a) / d)
    }
}

pub(super) fn reciprocal(z: Complex64) -> Complex64 {
    divide(c(1.0, 0.0), z)
}

pub(super) fn square(z: Complex64) -> Complex64 {
    c((z.re - z.im) * (z.re + z.im), 2.0 * z.re * z.im)
}

pub(super) fn round(z: Complex64) -> Complex64 {
    c(z.re.round_ties_even(), z.im.round_ties_even())
}

pub(super) fn pow(z: Complex64, w: Complex64) -> Complex64 {
    if w.re == 0.0 && w.im == 0.0 {
        return c(1.0, 0.0);
    }
    if z.re == 0.0 && z.im == 0.0 {
        return if w.re > 0.0 {
            c(0.0, 0.0)
        } else {
            c(f64::NAN, f64::NAN)
        };
    }
    // Small integer powers by multiplication: exact where the values are.
    if w.im == 0.0 && w.re.abs() <= 64.0 && w.re == w.re.trunc() {
        let mut rest = w.re.abs() as u32;
        let (mut base, mut product) = (z, None);
        while rest > 0 {
            if rest & 1 == 1 {
                product = Some(product.map_or(base, |p: Complex64| p * base));
            }
            base = square(base);
            rest >>= 1;
        }
        let product = product.unwrap_or(c(1.0, 0.0));
        return if w.re < 0.0 {
            reciprocal(product)
        } else {
            product
        };
    }
    let l = log(z);
    // A real exponent must not multiply the other part, which may be infinite.
    exp(if w.im == 0.0 {
        c(w.re * l.re, w.re * l.im)
    } else {
        w * l
    })
}
