//! Functions of a complex number.
//!
//! Computed in `f64` for both precisions; a `Complex<f32>` is widened and the
//! result rounded once. Infinities, NaNs, signed zeros and branch cuts follow
//! the Array API standard, which follows Annex G of C.

mod elementary;
mod inverse;

use num_complex::Complex;

/// The real type of complex numbers.
pub trait Part: Copy {
    /// The value as `f64`, exact.
    fn to_f64(self) -> f64;
    /// The nearest value to an `f64`.
    fn from_f64(x: f64) -> Self;
}

impl Part for f32 {
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self as f64
    }
    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x as f32
    }
}

impl Part for f64 {
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x
    }
}

#[inline(always)]
fn to_f64<T: Part>(z: Complex<T>) -> Complex<f64> {
    Complex::new(z.re.to_f64(), z.im.to_f64())
}

#[inline(always)]
fn from_f64<T: Part>(z: Complex<f64>) -> Complex<T> {
    Complex::new(T::from_f64(z.re), T::from_f64(z.im))
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $f:path;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name<T: Part>(z: Complex<T>) -> Complex<T> {
            from_f64($f(to_f64(z)))
        }
    )*};
}

functions! {
    /// `eᶻ`.
    exp = elementary::exp;
    /// `eᶻ - 1`, accurate near zero.
    expm1 = elementary::expm1;
    /// Natural logarithm; cut along the negative real axis.
    log = elementary::log;
    /// `ln(1 + z)`, accurate near zero.
    log1p = elementary::log1p;
    /// Logarithm to base 2.
    log2 = elementary::log2;
    /// Logarithm to base 10.
    log10 = elementary::log10;
    /// Square root with non-negative real part.
    sqrt = elementary::sqrt;
    /// Sine.
    sin = elementary::sin;
    /// Cosine.
    cos = elementary::cos;
    /// Tangent.
    tan = elementary::tan;
    /// Hyperbolic sine.
    sinh = elementary::sinh;
    /// Hyperbolic cosine.
    cosh = elementary::cosh;
    /// Hyperbolic tangent.
    tanh = elementary::tanh;
    /// Arc sine; cut outside `[-1, 1]` on the real axis.
    asin = inverse::asin;
    /// Arc cosine; cut outside `[-1, 1]` on the real axis.
    acos = inverse::acos;
    /// Arc tangent; cut outside `[-i, i]` on the imaginary axis.
    atan = inverse::atan;
    /// Inverse hyperbolic sine; cut outside `[-i, i]` on the imaginary axis.
    asinh = inverse::asinh;
    /// Inverse hyperbolic cosine; cut below 1 on the real axis.
    acosh = inverse::acosh;
    /// Inverse hyperbolic tangent; cut outside `[-1, 1]` on the real axis.
    atanh = inverse::atanh;
    /// `z / |z|`, and 0 for 0.
    sign = elementary::sign;
    /// `1 / z`; of 0 an infinite real part, consistent with division by 0.
    reciprocal = elementary::reciprocal;
    /// `z²`.
    square = elementary::square;
    /// Each part rounded to the nearest integer, ties to even.
    round = elementary::round;
}

/// `z` to the power `w`, `z⁰ = 1`.
#[inline]
pub fn pow<T: Part>(z: Complex<T>, w: Complex<T>) -> Complex<T> {
    from_f64(elementary::pow(to_f64(z), to_f64(w)))
}

/// `z / w` without intermediate overflow.
#[inline]
pub fn divide<T: Part>(z: Complex<T>, w: Complex<T>) -> Complex<T> {
    from_f64(elementary::divide(to_f64(z), to_f64(w)))
}

/// Magnitude, without intermediate overflow.
#[inline]
pub fn abs<T: Part>(z: Complex<T>) -> T {
    T::from_f64(libm::hypot(z.re.to_f64(), z.im.to_f64()))
}

/// Argument, between -π and π.
#[inline]
pub fn angle<T: Part>(z: Complex<T>) -> T {
    T::from_f64(libm::atan2(z.im.to_f64(), z.re.to_f64()))
}

/// Whether both parts are finite.
#[inline(always)]
pub fn isfinite<T: Part>(z: Complex<T>) -> bool {
    z.re.to_f64().is_finite() && z.im.to_f64().is_finite()
}

/// Whether a part is NaN.
#[inline(always)]
pub fn isnan<T: Part>(z: Complex<T>) -> bool {
    z.re.to_f64().is_nan() || z.im.to_f64().is_nan()
}

/// Whether a part is infinite.
#[inline(always)]
pub fn isinf<T: Part>(z: Complex<T>) -> bool {
    z.re.to_f64().is_infinite() || z.im.to_f64().is_infinite()
}

#[cfg(test)]
mod tests;
