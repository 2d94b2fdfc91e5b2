//! Float arithmetic with defined edge cases.

use half::{bf16, f16};

macro_rules! float_arithmetic {
    ($module:ident, $t:ty) => {
        /// Arithmetic in one float type.
        pub mod $module {
            /// Remainder with the sign of the divisor, as Python's `%`. NaN for a zero divisor.
            #[inline]
            pub fn remainder(x: $t, y: $t) -> $t {
                let r = x % y;
                if r == 0.0 {
                    (0.0 as $t).copysign(y)
                } else if (r < 0.0) != (y < 0.0) {
                    // An infinite y is the result for the other sign.
                    r + y
                } else {
                    r
                }
            }

            /// Quotient rounded down, as Python's `//`, but `x / y` for a zero
            /// divisor. Consistent with [`remainder`]: `floor(x / y)` is not when
            /// the division rounds up to an integer.
            #[inline]
            pub fn floor_divide(x: $t, y: $t) -> $t {
                if y == 0.0 {
                    return x / y;
                }
                let r = x % y;
                let mut quotient = (x - r) / y;
                if r != 0.0 && (r < 0.0) != (y < 0.0) {
                    quotient -= 1.0;
                }
                if quotient == 0.0 {
                    return (0.0 as $t).copysign(x / y);
                }
                let floor = quotient.floor();
                if quotient - floor > 0.5 {
                    floor + 1.0
                } else {
                    floor
                }
            }

            /// Remainder with the sign of the dividend, as C's `fmod`.
            #[inline]
            pub fn fmod(x: $t, y: $t) -> $t {
                x % y
            }

            /// -1, 0 or 1; NaN for NaN. Vectorizes.
            #[inline(always)]
            pub fn sign(x: $t) -> $t {
                let one = (1.0 as $t).copysign(x);
                let value = if x == 0.0 { 0.0 } else { one };
                if x.is_nan() { x } else { value }
            }

            /// Nearest integer, ties to even. Vectorizes.
            #[inline(always)]
            pub fn round(x: $t) -> $t {
                x.round_ties_even()
            }

            /// Integer part. Vectorizes.
            #[inline(always)]
            pub fn trunc(x: $t) -> $t {
                x.trunc()
            }

            /// Magnitude of `x`, sign of `y`. Vectorizes.
            #[inline(always)]
            pub fn copysign(x: $t, y: $t) -> $t {
                x.copysign(y)
            }
        }
    };
}

float_arithmetic!(single, f32);
float_arithmetic!(double, f64);

/// Float types for which [`NextAfter::next_after`] is defined.
pub trait NextAfter: Copy {
    /// The neighbour of `self` in the direction of `toward`; `toward` if they
    /// are equal, NaN if either is.
    fn next_after(self, toward: Self) -> Self;
}

macro_rules! next_after {
    ($t:ty, $bits:ty) => {
        impl NextAfter for $t {
            #[inline]
            fn next_after(self, toward: Self) -> Self {
                if self.is_nan() || toward.is_nan() {
                    return Self::NAN;
                }
                if self == toward {
                    return toward;
                }
                let bits = self.to_bits();
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                if bits & !SIGN == 0 {
                    // Away from zero, on the side of `toward`.
                    return Self::from_bits((toward.to_bits() & SIGN) | 1);
                }
                // Same-sign floats are ordered as their bits.
                let grows = (self < toward) == (bits & SIGN == 0);
                Self::from_bits(if grows { bits + 1 } else { bits - 1 })
            }
        }
    };
}

next_after!(f32, u32);
next_after!(f64, u64);
next_after!(f16, u16);
next_after!(bf16, u16);

/// The neighbour of `x` in the direction of `y`.
#[inline]
pub fn nextafter<T: NextAfter>(x: T, y: T) -> T {
    x.next_after(y)
}

#[cfg(test)]
mod tests;
