//! Integer arithmetic that is defined for every input.
//!
//! Overflow wraps, division and remainder by zero give zero, and a shift by
//! the width or more shifts everything out. Nothing here can panic.

/// Total arithmetic on one integer type.
pub trait Integer: Copy {
    /// Quotient rounded down; 0 for a zero divisor, wrapping for `MIN / -1`.
    fn floor_divide(self, divisor: Self) -> Self;
    /// Quotient rounded toward zero; 0 for a zero divisor, wrapping for `MIN / -1`.
    fn trunc_divide(self, divisor: Self) -> Self;
    /// Remainder with the sign of the divisor; 0 for a zero divisor.
    fn remainder(self, divisor: Self) -> Self;
    /// Remainder with the sign of the dividend; 0 for a zero divisor.
    fn fmod(self, divisor: Self) -> Self;
    /// Power, wrapping. A negative exponent gives 0, except for bases 1 and -1.
    fn power(self, exponent: Self) -> Self;
    /// Left shift; 0 for a count that is negative or at least the width. Vectorizes.
    fn shift_left(self, count: Self) -> Self;
    /// Right shift, filling with the sign; a count of at least the width leaves
    /// only the fill, a negative one gives 0. Vectorizes.
    fn shift_right(self, count: Self) -> Self;
    /// -1, 0 or 1.
    fn sign(self) -> Self;
    /// Magnitude, wrapping for `MIN`.
    fn absolute(self) -> Self;
    /// Negation, wrapping.
    fn negative(self) -> Self;
}

macro_rules! common {
    ($t:ty) => {
        #[inline]
        fn trunc_divide(self, divisor: Self) -> Self {
            if divisor == 0 {
                0
            } else {
                self.wrapping_div(divisor)
            }
        }

        #[inline]
        fn fmod(self, divisor: Self) -> Self {
            if divisor == 0 {
                0
            } else {
                self.wrapping_rem(divisor)
            }
        }

        #[inline(always)]
        fn shift_left(self, count: Self) -> Self {
            // A negative count becomes a huge one.
            let shifted = self.wrapping_shl(count as u32);
            if (count as u64) < <$t>::BITS as u64 {
                shifted
            } else {
                0
            }
        }

        #[inline(always)]
        fn negative(self) -> Self {
            self.wrapping_neg()
        }
    };
}

/// Wrapping power by squaring, for a non-negative exponent.
macro_rules! by_squaring {
    ($base:expr, $exponent:expr) => {{
        let (mut base, mut rest, mut product) = ($base, $exponent, 1);
        while rest > 0 {
            if rest & 1 == 1 {
                product = base.wrapping_mul(product);
            }
            base = base.wrapping_mul(base);
            rest >>= 1;
        }
        product
    }};
}

macro_rules! signed {
    ($($t:ty)*) => {$(
        impl Integer for $t {
            common!($t);

            #[inline]
            fn floor_divide(self, divisor: Self) -> Self {
                if divisor == 0 {
                    return 0;
                }
                let quotient = self.wrapping_div(divisor);
                let remainder = self.wrapping_rem(divisor);
                let down = remainder != 0 && (remainder < 0) != (divisor < 0);
                quotient - Self::from(down)
            }

            #[inline]
            fn remainder(self, divisor: Self) -> Self {
                if divisor == 0 {
                    return 0;
                }
                let remainder = self.wrapping_rem(divisor);
                let other_side = remainder != 0 && (remainder < 0) != (divisor < 0);
                if other_side { remainder + divisor } else { remainder }
            }

            #[inline]
            fn power(self, exponent: Self) -> Self {
                if exponent < 0 {
                    return match self {
                        1 => 1,
                        -1 if exponent & 1 == 0 => 1,
                        -1 => -1,
                        _ => 0,
                    };
                }
                by_squaring!(self, exponent)
            }

            #[inline(always)]
            fn shift_right(self, count: Self) -> Self {
                const LAST: $t = (<$t>::BITS - 1) as $t;
                let within = if count > LAST { LAST } else { count };
                let shifted = self.wrapping_shr(within as u32);
                if count < 0 { 0 } else { shifted }
            }

            #[inline(always)]
            fn sign(self) -> Self {
                self.signum()
            }

            #[inline(always)]
            fn absolute(self) -> Self {
                self.wrapping_abs()
            }
        }
    )*};
}

macro_rules! unsigned {
    ($($t:ty)*) => {$(
        impl Integer for $t {
            common!($t);

            #[inline]
            fn floor_divide(self, divisor: Self) -> Self {
                self.trunc_divide(divisor)
            }

            #[inline]
            fn remainder(self, divisor: Self) -> Self {
                self.fmod(divisor)
            }

            #[inline]
            fn power(self, exponent: Self) -> Self {
                by_squaring!(self, exponent)
            }

            #[inline(always)]
            fn shift_right(self, count: Self) -> Self {
                let shifted = self.wrapping_shr(count as u32);
                if (count as u64) < <$t>::BITS as u64 { shifted } else { 0 }
            }

            #[inline(always)]
            fn sign(self) -> Self {
                Self::from(self != 0)
            }

            #[inline(always)]
            fn absolute(self) -> Self {
                self
            }
        }
    )*};
}

signed!(i8 i16 i32 i64);
unsigned!(u8 u16 u32 u64);

#[cfg(test)]
mod tests;
