//! Compares results with references.

use crate::array::{Array, C, Num, epsilon, tiny};
use clematis_core::{DType, Result};

/// The tolerance of a result.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Maximum error in units of the dtype's precision (ulp).
    pub units: f64,
    /// Whether the error is relative to the largest element of the result instead of each element: for sums, where
    /// terms cancel.
    pub overall: bool,
    /// Elements below this are measured relative to it: for functions that cross zero, where no digits are
    /// significant.
    pub floor: f64,
    /// Whether the sign of zeros is compared.
    pub signed_zeros: bool,
}

impl Tolerance {
    /// Relative to each element.
    pub fn each(units: f64) -> Tolerance {
        Tolerance {
            units,
            overall: false,
            floor: 0.0,
            signed_zeros: false,
        }
    }

    /// Relative to the largest element.
    pub fn overall(units: f64) -> Tolerance {
        Tolerance {
            overall: true,
            ..Tolerance::each(units)
        }
    }

    /// Bit-exact.
    pub fn exact() -> Tolerance {
        Tolerance {
            signed_zeros: true,
            ..Tolerance::each(0.0)
        }
    }
}

/// The maximum error in units of the dtype's precision, or why the arrays cannot be compared.
pub fn compare(
    got: &Array,
    want: &Array,
    tolerance: &Tolerance,
) -> Result<std::result::Result<f64, String>> {
    compare_where(got, want, tolerance, |_| true)
}

/// The same, over selected elements.
pub fn compare_where(
    got: &Array,
    want: &Array,
    tolerance: &Tolerance,
    counts: impl Fn(usize) -> bool,
) -> Result<std::result::Result<f64, String>> {
    if got.dtype != want.dtype || got.shape != want.shape {
        return Ok(Err(format!(
            "expected {1}, got {0}",
            got.spec(),
            want.spec()
        )));
    }
    let nearest = want.rounded()?;
    let largest = if tolerance.overall {
        want.values
            .iter()
            .map(|v| v.c().norm())
            .filter(|v| v.is_finite())
            .fold(0.0, f64::max)
    } else {
        0.0
    };
    let mut worst = 0.0f64;
    for (i, ((&g, &w), &n)) in got
        .values
        .iter()
        .zip(&want.values)
        .zip(&nearest.values)
        .enumerate()
        .filter(|(i, _)| counts(*i))
    {
        let error = match (g, w, n) {
            (Num::Whole(g), Num::Whole(w), _) => {
                if g == w {
                    0.0
                } else {
                    f64::INFINITY
                }
            }
            _ => distance(got.dtype, g.c(), w.c(), n.c(), largest, tolerance),
        };
        // Also false for NaN.
        let within = error <= tolerance.units;
        if !within {
            return Ok(Err(format!(
                "element {i}: expected {1}, got {0}, off by {error:.3e} units of {2}",
                show(g),
                show(w),
                got.dtype
            )));
        }
        worst = worst.max(error);
    }
    Ok(Ok(worst))
}

fn show(x: Num) -> String {
    match x {
        Num::Whole(v) => v.to_string(),
        Num::Inexact(v) if v.im == 0.0 => format!("{:?}", v.re),
        Num::Inexact(v) => format!("({:?}, {:?})", v.re, v.im),
    }
}

fn distance(dtype: DType, got: C, want: C, nearest: C, largest: f64, tolerance: &Tolerance) -> f64 {
    let parts = [(got.re, nearest.re), (got.im, nearest.im)];
    let same = |(g, n): (f64, f64)| {
        g.is_nan() && n.is_nan()
            || g == n
                && (!tolerance.signed_zeros
                    || g != 0.0
                    || g.is_sign_negative() == n.is_sign_negative())
    };
    if parts.iter().all(|&p| same(p)) {
        return 0.0;
    }
    let finite = parts.iter().all(|(g, n)| g.is_finite() && n.is_finite());
    if !finite || tolerance.units == 0.0 {
        return f64::INFINITY;
    }
    if tolerance.signed_zeros {
        let flipped = |(g, n): (f64, f64)| g == 0.0 && n == 0.0 && !same((g, n));
        if parts.iter().any(|&p| flipped(p)) {
            return f64::INFINITY;
        }
    }
    let scale = want
        .norm()
        .max(largest)
        .max(tolerance.floor)
        .max(tiny(dtype));
    (got - want).norm() / scale / epsilon(dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(got: f64, want: f64, tolerance: Tolerance) -> std::result::Result<f64, String> {
        let one = |v| Array::real(DType::F32, &[1], &[v]);
        compare(&one(got), &one(want), &tolerance).unwrap()
    }

    #[test]
    fn errors_are_counted_in_the_types_own_units() {
        let next = 1.0 + 2f64.powi(-23);
        assert_eq!(check(next, 1.0, Tolerance::each(2.0)), Ok(1.0));
        assert!(check(next, 1.0, Tolerance::exact()).is_err());
        assert_eq!(check(f64::INFINITY, 1e300, Tolerance::exact()), Ok(0.0));
        assert!(check(1.0, f64::NAN, Tolerance::each(1e9)).is_err());
        assert!(check(f64::NAN, 1.0, Tolerance::each(1e9)).is_err());
        assert_eq!(check(f64::NAN, f64::NAN, Tolerance::exact()), Ok(0.0));
    }

    #[test]
    fn signed_zeros_are_compared_if_requested() {
        assert!(check(-0.0, 0.0, Tolerance::exact()).is_err());
        assert_eq!(check(-0.0, 0.0, Tolerance::each(1.0)), Ok(0.0));
    }
}
