use super::*;
use crate::math::reference::Bits;
use num_complex::Complex64;
use proptest::prelude::*;
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

fn z(re: f64, im: f64) -> Complex64 {
    Complex64::new(re, im)
}

/// Equal as numbers, NaN equal to NaN; zeros by sign where `signed`.
fn same(a: f64, b: f64, signed: bool) -> bool {
    (a.is_nan() && b.is_nan())
        || (a == b && (!signed || a != 0.0 || a.is_sign_negative() == b.is_sign_negative()))
        || (a - b).abs() <= 4e-16 * b.abs()
}

type Function = fn(Complex64) -> Complex64;
type Real = fn(f64) -> f64;
type Row = ((f64, f64), (f64, f64));

/// Checks a table of special values, and its mirror image under conjugation,
/// which all functions here respect.
fn table(f: Function, rows: &[Row]) {
    for &((x, y), (re, im)) in rows {
        let got = f(z(x, y));
        assert!(
            same(got.re, re, true) && same(got.im, im, true),
            "f({x}, {y}) = {got}"
        );
        let got = f(z(x, -y));
        assert!(
            same(got.re, re, true) && same(got.im, -im, true),
            "f({x}, {}) = {got}",
            -y
        );
    }
}

/// The same where the standard leaves signs unspecified.
fn table_up_to_sign(f: Function, rows: &[Row]) {
    for &((x, y), (re, im)) in rows {
        let got = f(z(x, y));
        assert!(
            same(got.re.abs(), re.abs(), false) && same(got.im.abs(), im.abs(), false),
            "f({x}, {y}) = {got}"
        );
    }
}

#[test]
fn special_values_of_exp() {
    table(
        exp,
        &[
            ((0.0, 0.0), (1.0, 0.0)),
            ((-0.0, 0.0), (1.0, 0.0)),
            ((1.0, INF), (NAN, NAN)),
            ((1.0, NAN), (NAN, NAN)),
            ((INF, 0.0), (INF, 0.0)),
            ((-INF, 1.0), (0.0, 0.0)),
            ((-INF, 2.0), (-0.0, 0.0)),
            ((INF, 1.0), (INF, INF)),
            ((INF, 2.0), (-INF, INF)),
            ((NAN, 0.0), (NAN, 0.0)),
            ((NAN, 1.0), (NAN, NAN)),
            ((NAN, NAN), (NAN, NAN)),
        ],
    );
    table_up_to_sign(
        exp,
        &[
            ((-INF, INF), (0.0, 0.0)),
            ((INF, INF), (INF, NAN)),
            ((-INF, NAN), (0.0, 0.0)),
            ((INF, NAN), (INF, NAN)),
        ],
    );
    // e^710 overflows, e^710 cos(π/2 - 1e-5) does not.
    let got = exp(z(710.0, FRAC_PI_2 - 1e-5));
    assert!(got.re.is_finite() && got.im == INF);
}

#[test]
fn special_values_of_expm1() {
    table(
        expm1,
        &[
            ((0.0, 0.0), (0.0, 0.0)),
            ((-0.0, 0.0), (-0.0, 0.0)),
            ((1.0, INF), (NAN, NAN)),
            ((1.0, NAN), (NAN, NAN)),
            ((INF, 0.0), (INF, 0.0)),
            ((-INF, 1.0), (-1.0, 0.0)),
            ((INF, 2.0), (-INF, INF)),
            ((NAN, 0.0), (NAN, 0.0)),
            ((NAN, 1.0), (NAN, NAN)),
        ],
    );
    table_up_to_sign(
        expm1,
        &[
            ((-INF, INF), (-1.0, 0.0)),
            ((INF, INF), (INF, NAN)),
            ((-INF, NAN), (-1.0, 0.0)),
            ((INF, NAN), (INF, NAN)),
        ],
    );
}

#[test]
fn special_values_of_logarithms() {
    let rows = [
        ((1.0, INF), (INF, FRAC_PI_2)),
        ((1.0, NAN), (NAN, NAN)),
        ((-INF, 1.0), (INF, PI)),
        ((INF, 1.0), (INF, 0.0)),
        ((-INF, INF), (INF, 3.0 * FRAC_PI_4)),
        ((INF, INF), (INF, FRAC_PI_4)),
        ((INF, NAN), (INF, NAN)),
        ((-INF, NAN), (INF, NAN)),
        ((NAN, 1.0), (NAN, NAN)),
        ((NAN, INF), (INF, NAN)),
        ((NAN, NAN), (NAN, NAN)),
    ];
    table(log, &rows);
    table(log1p, &rows);
    table(
        log,
        &[
            ((-0.0, 0.0), (-INF, PI)),
            ((0.0, 0.0), (-INF, 0.0)),
            ((-1.0, 0.0), (0.0, PI)),
        ],
    );
    table(
        log1p,
        &[
            ((-1.0, 0.0), (-INF, 0.0)),
            ((0.0, 0.0), (0.0, 0.0)),
            ((-0.0, 0.0), (-0.0, 0.0)),
        ],
    );
}

#[test]
fn special_values_of_sqrt() {
    table(
        sqrt,
        &[
            ((0.0, 0.0), (0.0, 0.0)),
            ((-0.0, 0.0), (0.0, 0.0)),
            ((1.0, INF), (INF, INF)),
            ((NAN, INF), (INF, INF)),
            ((INF, INF), (INF, INF)),
            ((1.0, NAN), (NAN, NAN)),
            ((-INF, 1.0), (0.0, INF)),
            ((INF, 1.0), (INF, 0.0)),
            ((INF, NAN), (INF, NAN)),
            ((NAN, 1.0), (NAN, NAN)),
            ((-4.0, 0.0), (0.0, 2.0)),
        ],
    );
    table_up_to_sign(sqrt, &[((-INF, NAN), (NAN, INF))]);
    let huge = sqrt(z(f64::MAX, f64::MAX));
    assert!(huge.re.is_finite() && huge.im.is_finite());
    let tiny = sqrt(z(5e-324, 0.0));
    assert!((tiny.re / 2.2227587494850775e-162 - 1.0).abs() < 1e-15);
}

#[test]
fn special_values_of_hyperbolic_functions() {
    table(
        cosh,
        &[
            ((0.0, 0.0), (1.0, 0.0)),
            ((1.0, INF), (NAN, NAN)),
            ((1.0, NAN), (NAN, NAN)),
            ((INF, 0.0), (INF, 0.0)),
            ((INF, 2.0), (-INF, INF)),
            ((-INF, 2.0), (-INF, -INF)),
            ((NAN, 1.0), (NAN, NAN)),
        ],
    );
    table_up_to_sign(
        cosh,
        &[
            ((0.0, INF), (NAN, 0.0)),
            ((0.0, NAN), (NAN, 0.0)),
            ((INF, INF), (INF, NAN)),
            ((INF, NAN), (INF, NAN)),
            ((NAN, 0.0), (NAN, 0.0)),
        ],
    );
    table(
        sinh,
        &[
            ((0.0, 0.0), (0.0, 0.0)),
            ((-0.0, 0.0), (-0.0, 0.0)),
            ((1.0, INF), (NAN, NAN)),
            ((INF, 0.0), (INF, 0.0)),
            ((INF, 2.0), (-INF, INF)),
            ((-INF, 2.0), (INF, INF)),
            ((NAN, 0.0), (NAN, 0.0)),
            ((NAN, 1.0), (NAN, NAN)),
        ],
    );
    table_up_to_sign(
        sinh,
        &[
            ((0.0, INF), (0.0, NAN)),
            ((0.0, NAN), (0.0, NAN)),
            ((INF, INF), (INF, NAN)),
            ((INF, NAN), (INF, NAN)),
        ],
    );
    table(
        tanh,
        &[
            ((0.0, 0.0), (0.0, 0.0)),
            ((0.0, INF), (0.0, NAN)),
            ((1.0, INF), (NAN, NAN)),
            ((1.0, NAN), (NAN, NAN)),
            ((INF, 1.0), (1.0, 0.0)),
            ((INF, 2.0), (1.0, -0.0)),
            ((-INF, 1.0), (-1.0, 0.0)),
            ((NAN, 0.0), (NAN, 0.0)),
            ((NAN, 1.0), (NAN, NAN)),
        ],
    );
    table_up_to_sign(tanh, &[((INF, INF), (1.0, 0.0)), ((INF, NAN), (1.0, 0.0))]);
}

#[test]
fn special_values_of_inverse_functions() {
    table(
        acos,
        &[
            ((0.0, 0.0), (FRAC_PI_2, -0.0)),
            ((0.0, NAN), (FRAC_PI_2, NAN)),
            ((1.0, INF), (FRAC_PI_2, -INF)),
            ((1.0, NAN), (NAN, NAN)),
            ((-INF, 1.0), (PI, -INF)),
            ((INF, 1.0), (0.0, -INF)),
            ((-INF, INF), (3.0 * FRAC_PI_4, -INF)),
            ((INF, INF), (FRAC_PI_4, -INF)),
            ((NAN, 1.0), (NAN, NAN)),
            ((NAN, INF), (NAN, -INF)),
            ((1.0, 0.0), (0.0, -0.0)),
        ],
    );
    table_up_to_sign(acos, &[((INF, NAN), (NAN, INF)), ((-INF, NAN), (NAN, INF))]);
    table(
        acosh,
        &[
            ((0.0, 0.0), (0.0, FRAC_PI_2)),
            ((1.0, INF), (INF, FRAC_PI_2)),
            ((1.0, NAN), (NAN, NAN)),
            ((-INF, 1.0), (INF, PI)),
            ((INF, 1.0), (INF, 0.0)),
            ((-INF, INF), (INF, 3.0 * FRAC_PI_4)),
            ((INF, INF), (INF, FRAC_PI_4)),
            ((INF, NAN), (INF, NAN)),
            ((-INF, NAN), (INF, NAN)),
            ((NAN, 1.0), (NAN, NAN)),
            ((NAN, INF), (INF, NAN)),
        ],
    );
    table_up_to_sign(acosh, &[((0.0, NAN), (NAN, FRAC_PI_2))]);
    table(
        asinh,
        &[
            ((0.0, 0.0), (0.0, 0.0)),
            ((-0.0, 0.0), (-0.0, 0.0)),
            ((1.0, INF), (INF, FRAC_PI_2)),
            ((1.0, NAN), (NAN, NAN)),
            ((INF, 1.0), (INF, 0.0)),
            ((INF, INF), (INF, FRAC_PI_4)),
            ((INF, NAN), (INF, NAN)),
            ((NAN, 0.0), (NAN, 0.0)),
            ((NAN, 1.0), (NAN, NAN)),
        ],
    );
    table_up_to_sign(asinh, &[((NAN, INF), (INF, NAN))]);
    table(
        atanh,
        &[
            ((0.0, 0.0), (0.0, 0.0)),
            ((-0.0, 0.0), (-0.0, 0.0)),
            ((0.0, NAN), (0.0, NAN)),
            ((1.0, 0.0), (INF, 0.0)),
            ((1.0, INF), (0.0, FRAC_PI_2)),
            ((1.0, NAN), (NAN, NAN)),
            ((INF, 1.0), (0.0, FRAC_PI_2)),
            ((INF, INF), (0.0, FRAC_PI_2)),
            ((INF, NAN), (0.0, NAN)),
            ((NAN, 1.0), (NAN, NAN)),
        ],
    );
    table_up_to_sign(atanh, &[((NAN, INF), (0.0, FRAC_PI_2))]);
}

#[test]
fn branch_cuts_continue_from_the_side_of_the_signed_zero() {
    let near = 1e-9;
    let cuts: [(Function, Complex64); 7] = [
        (log, z(-2.0, 0.0)),
        (sqrt, z(-2.0, 0.0)),
        (acos, z(2.0, 0.0)),
        (asin, z(-2.0, 0.0)),
        (acosh, z(-2.0, 0.0)),
        (atanh, z(2.0, 0.0)),
        (log1p, z(-3.0, 0.0)),
    ];
    for (i, (f, at)) in cuts.into_iter().enumerate() {
        for side in [1.0, -1.0] {
            let on = f(z(at.re, 0f64.copysign(side)));
            let beside = f(z(at.re, side * near));
            assert!((on - beside).norm() < 1e-7, "cut {i}: {on} and {beside}");
        }
    }
    // These two cut the imaginary axis.
    for f in [asinh::<f64>, atan] {
        for side in [1.0, -1.0] {
            let on = f(z(0f64.copysign(side), 2.0));
            let beside = f(z(side * near, 2.0));
            assert!((on - beside).norm() < 1e-7);
        }
    }
}

#[test]
fn real_arguments_agree_with_the_real_functions() {
    let mut bits = Bits(9);
    let pairs: [(Function, Real); 12] = [
        (exp, libm::exp),
        (expm1, libm::expm1),
        (sin, libm::sin),
        (cos, libm::cos),
        (tan, libm::tan),
        (sinh, libm::sinh),
        (cosh, libm::cosh),
        (tanh, libm::tanh),
        (asin, libm::asin),
        (acos, libm::acos),
        (atan, libm::atan),
        (asinh, libm::asinh),
    ];
    for _ in 0..500 {
        let x = bits.between(-0.99, 0.99);
        for (i, (f, g)) in pairs.into_iter().enumerate() {
            let got = f(z(x, 0.0));
            assert!(
                (got.re - g(x)).abs() <= 1e-15 * (1e-3 + g(x).abs()) * 4.0,
                "function {i} at {x}: {got}"
            );
            assert_eq!(got.im, 0.0);
        }
    }
}

#[test]
fn magnitudes_signs_and_quotients() {
    assert!((abs(z(3e200, 4e200)) / 5e200 - 1.0).abs() < 1e-15);
    assert_eq!(abs(Complex::new(3e38f32, 0.0)), 3e38);
    assert_eq!(abs(z(NAN, -INF)), INF);
    assert_eq!(sign(z(0.0, 0.0)), z(0.0, 0.0));
    assert!((sign(z(3e300, 4e300)) - z(0.6, 0.8)).norm() < 1e-15);
    assert_eq!(sign(z(-INF, 1.0)), z(-1.0, 0.0));
    assert!(isnan(sign(z(INF, INF))));
    assert_eq!(reciprocal(z(0.0, 2.0)), z(0.0, -0.5));
    assert_eq!(reciprocal(z(INF, INF)), z(0.0, 0.0));
    assert!(isnan(reciprocal(z(0.0, 0.0))));
    assert_eq!(divide(z(1e300, 1e300), z(1e300, 1e300)), z(1.0, 0.0));
    assert_eq!(square(z(1.0, 2.0)), z(-3.0, 4.0));
    assert_eq!(round(z(0.5, -1.5)), z(0.0, -2.0));
    assert!(isinf(z(NAN, INF)) && isnan(z(NAN, INF)) && !isfinite(z(0.0, INF)));
    assert_eq!(angle(z(-1.0, 0.0)), PI);
}

#[test]
fn powers() {
    assert_eq!(pow(z(0.0, 0.0), z(0.0, 0.0)), z(1.0, 0.0));
    assert_eq!(pow(z(0.0, 0.0), z(2.0, 0.0)), z(0.0, 0.0));
    assert!(isnan(pow(z(0.0, 0.0), z(-1.0, 0.0))));
    assert_eq!(pow(z(1.0, 2.0), z(2.0, 0.0)), z(-3.0, 4.0));
    assert_eq!(pow(z(0.0, 1.0), z(-2.0, 0.0)), z(-1.0, 0.0));
    assert_eq!(pow(z(1.0, 1.0), z(8.0, 0.0)), z(16.0, 0.0));
    // i to the i
    let got = pow(z(0.0, 1.0), z(0.0, 1.0));
    assert!((got.re - (-FRAC_PI_2).exp()).abs() < 1e-15 && got.im.abs() < 1e-15);
}

#[test]
fn logarithms_near_the_unit_circle_keep_their_digits() {
    // |0.8 + 0.6i| is 1 up to the rounding of 0.8 and 0.6.
    let got = log(z(0.8, 0.6)).re;
    assert!((got - 2.2204460492503132e-17).abs() < 1e-17, "{got:e}");
    // 2x + x² + y² cancels to x² where y² = -2x.
    let (x, y) = (-1e-8f64, (2e-8f64).sqrt());
    let got = log1p(z(x, y)).re;
    assert!((got - 0.5e-16).abs() < 1e-23 * 4.0, "{got:e}");
}

proptest! {
    #[test]
    fn identities(x in -3.0f64..3.0, y in -3.0f64..3.0) {
        let w = z(x, y);
        let near = |a: Complex64, b: Complex64| (a - b).norm() <= 2e-13 * (1.0 + b.norm());
        prop_assert!(near(exp(log(w)), w));
        prop_assert!(near(square(sqrt(w)), w));
        prop_assert!(near(sin(asin(w)), w));
        prop_assert!(near(cos(acos(w)), w));
        prop_assert!(near(sinh(asinh(w)), w));
        prop_assert!(near(cosh(acosh(w)), w));
        prop_assert!(near(expm1(log1p(w)), w));
        prop_assert!(near(divide(sinh(w), cosh(w)), tanh(w)));
        prop_assert!(near(divide(w, w), z(1.0, 0.0)) || w == z(0.0, 0.0));
        prop_assert!(near(sin(w) * sin(w) + cos(w) * cos(w), z(1.0, 0.0)) || y.abs() > 2.0);
        prop_assert!(near(exp(w), num_complex::ComplexFloat::exp(w)));
    }

    #[test]
    fn inverse_tangents_invert(x in -1.0f64..1.0, y in -1.0f64..1.0) {
        let w = z(x, y);
        prop_assert!((atanh(tanh(w)) - w).norm() < 1e-13);
        prop_assert!((atan(tan(w)) - w).norm() < 1e-13);
    }

    #[test]
    fn nothing_panics(a: u64, b: u64, c: u64, d: u64) {
        let (w, v) = (z(f64::from_bits(a), f64::from_bits(b)), z(f64::from_bits(c), f64::from_bits(d)));
        for f in [exp, expm1, log, log1p, sqrt, sin, cos, tan, sinh, cosh, tanh, asin, acos, atan, asinh, acosh, atanh, sign, reciprocal] {
            let _ = f(w);
        }
        let _ = (pow(w, v), divide(w, v), abs(w));
    }

    #[test]
    fn single_precision_is_rounded_double(x in -5.0f32..5.0, y in -5.0f32..5.0) {
        let got = tanh(Complex::new(x, y));
        let want = tanh(z(x as f64, y as f64));
        prop_assert_eq!((got.re, got.im), (want.re as f32, want.im as f32));
    }
}
