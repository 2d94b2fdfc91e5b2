//! Arithmetic on exact numbers, as defined for each dtype.

use crate::array::{Num, wrap};
use clematis_core::DType;

/// x + y: wrapping for integers, or for bool.
pub fn add(dtype: DType, x: Num, y: Num) -> Num {
    match (x, y) {
        (Num::Whole(x), Num::Whole(y)) => Num::Whole(wrap(dtype, x + y)),
        _ => Num::Inexact(x.c() + y.c()),
    }
}

/// x y: wrapping for integers, and for bool.
pub fn mul(dtype: DType, x: Num, y: Num) -> Num {
    match (x, y) {
        // Only the low bits count, and overflow does not affect them.
        (Num::Whole(x), Num::Whole(y)) => Num::Whole(wrap(dtype, x.wrapping_mul(y))),
        _ if dtype.is_complex() => Num::Inexact(x.c() * y.c()),
        _ => Num::real(x.re() * y.re()),
    }
}

/// The maximum; NaN if either is, the first among equals.
pub fn max(x: Num, y: Num) -> Num {
    extreme(x, y, |x, y| y > x)
}

/// The minimum; NaN if either is, the first among equals.
pub fn min(x: Num, y: Num) -> Num {
    extreme(x, y, |x, y| y < x)
}

fn extreme(x: Num, y: Num, better: fn(f64, f64) -> bool) -> Num {
    match (x, y) {
        (Num::Whole(a), Num::Whole(b)) => {
            // As differences from zero, since i128 has the same order.
            let second = if better(0.0, 1.0) { b > a } else { b < a };
            if second { y } else { x }
        }
        _ if x.re().is_nan() => x,
        _ if y.re().is_nan() => y,
        _ if better(x.re(), y.re()) => y,
        _ => x,
    }
}

/// Sort order of x and y; NaN last.
pub fn before(x: Num, y: Num) -> std::cmp::Ordering {
    match (x, y) {
        (Num::Whole(x), Num::Whole(y)) => x.cmp(&y),
        _ => {
            let (x, y) = (x.re(), y.re());
            x.partial_cmp(&y)
                .unwrap_or_else(|| x.is_nan().cmp(&y.is_nan()))
        }
    }
}

/// Converts to a dtype, before rounding.
pub fn cast(x: Num, to: DType) -> Num {
    match (x, to) {
        (_, DType::Bool) => Num::from(x.truth()),
        (Num::Whole(v), _) if to.is_inexact() => Num::real(v as f64),
        (Num::Whole(v), _) => Num::Whole(wrap(to, v)),
        (Num::Inexact(v), _) if to.is_complex() => Num::Inexact(v),
        (Num::Inexact(v), _) if to.is_float() => Num::real(v.re),
        (Num::Inexact(v), _) => {
            let (low, high) = crate::array::extremes(to);
            // `as` truncates, saturates and maps NaN to 0.
            Num::Whole((v.re as i128).clamp(low, high))
        }
    }
}
