use super::*;
use crate::math::reference::{Bits, Dd, ulps64};
use proptest::prelude::*;

fn worst(low: f64, high: f64, f: impl Fn(f64) -> f64, reference: impl Fn(Dd) -> Dd) -> f64 {
    let mut bits = Bits(11);
    let mut worst = (0.0, 0.0);
    for _ in 0..20_000 {
        let x = bits.between(low, high);
        let error = ulps64(f(x), reference(Dd::from(x)));
        if error > worst.0 {
            worst = (error, x);
        }
    }
    println!("{:.3} ulp at {:e}", worst.0, worst.1);
    worst.0
}

type Function = fn(f64) -> f64;

fn one() -> Dd {
    Dd::from(1.0)
}

#[test]
fn exp_is_accurate() {
    assert!(worst(-708.0, 709.0, exp, Dd::exp) < 1.5);
    assert!(worst(-1.0, 1.0, exp, Dd::exp) < 1.5);
    assert!(worst(-1000.0, 1000.0, exp2, |x| (x * Dd::LN_2).exp()) < 1.5);
}

#[test]
fn expm1_is_accurate() {
    assert!(worst(-30.0, 30.0, expm1, Dd::expm1) < 2.0);
    assert!(worst(-1.0, 1.0, expm1, Dd::expm1) < 2.0);
    assert!(worst(-1e-6, 1e-6, expm1, Dd::expm1) < 2.0);
}

#[test]
fn log_is_accurate() {
    assert!(worst(1e-12, 4.0, log, Dd::ln) < 1.5);
    assert!(worst(0.9, 1.1, log, Dd::ln) < 1.5);
    assert!(worst(1.0, 1e300, log, Dd::ln) < 1.5);
    assert!(worst(-0.999, 4.0, log1p, |x| (x + one()).ln()) < 2.0);
    assert!(worst(-0.5, 0.5, log1p, |x| (x + one()).ln()) < 2.0);
}

#[test]
fn tanh_is_accurate() {
    assert!(worst(-20.0, 20.0, tanh, Dd::tanh) < 2.0);
    assert!(worst(-0.7, 0.7, tanh, Dd::tanh) < 2.0);
}

#[test]
fn sigmoid_is_accurate() {
    assert!(worst(-700.0, 40.0, sigmoid, |x| one() / (one() + (-x).exp())) < 2.0);
    assert!(worst(-5.0, 5.0, sigmoid, |x| one() / (one() + (-x).exp())) < 2.0);
}

#[test]
fn erf_is_accurate() {
    assert!(worst(-6.5, 6.5, erf, Dd::erf) < 2.0);
    assert!(worst(-1.1, 1.1, erf, Dd::erf) < 2.0);
}

#[test]
fn subnormal_results_and_arguments() {
    assert_eq!(exp(-745.0), 5e-324);
    assert_eq!(exp(-746.0), 0.0);
    assert_eq!(exp(-740.0), libm::exp(-740.0));
    assert_eq!(exp2(-1074.0), 5e-324);
    assert_eq!(exp2(1024.0), f64::INFINITY);
    assert_eq!(exp(709.78), libm::exp(709.78));
    assert_eq!(exp(709.79), f64::INFINITY);
    assert!((log(5e-324) - -744.4400719213812).abs() < 1e-12);
    assert_eq!(log1p(5e-324), 5e-324);
    assert_eq!(expm1(-5e-324), -5e-324);
}

#[test]
fn infinities_nan_and_zeros() {
    let inf = f64::INFINITY;
    let table: [(Function, f64, f64, f64); 8] = [
        (exp, inf, 0.0, 1.0),
        (exp2, inf, 0.0, 1.0),
        (expm1, inf, -1.0, -0.0),
        (log, inf, f64::NAN, -inf),
        (log1p, inf, f64::NAN, -0.0),
        (tanh, 1.0, -1.0, -0.0),
        (sigmoid, 1.0, 0.0, 0.5),
        (erf, 1.0, -1.0, -0.0),
    ];
    for (i, (f, plus, minus, zero)) in table.into_iter().enumerate() {
        assert!(f(f64::NAN).is_nan(), "row {i}");
        assert_eq!(f(inf), plus, "row {i}");
        assert!(
            f(-inf) == minus || (f(-inf).is_nan() && minus.is_nan()),
            "row {i}"
        );
        assert_eq!(f(-0.0).to_bits(), zero.to_bits(), "row {i}");
    }
    assert_eq!(log1p(-1.0), -inf);
    assert!(log(-1.0).is_nan());
    assert_eq!(logaddexp(-inf, -inf), -inf);
    assert_eq!(logaddexp(inf, -inf), inf);
    assert_eq!(logaddexp(0.0, 0.0), std::f64::consts::LN_2);
    assert_eq!(rsqrt(4.0), 0.5);
    assert_eq!(log10(1000.0), 3.0);
}

proptest! {
    #[test]
    fn any_bits_agree_with_libm(bits: u64) {
        let x = f64::from_bits(bits);
        let pairs: [(Function, Function); 7] = [
            (exp, libm::exp), (exp2, libm::exp2), (expm1, libm::expm1), (log, libm::log),
            (log1p, libm::log1p), (tanh, libm::tanh), (erf, libm::erf),
        ];
        for (i, (ours, theirs)) in pairs.into_iter().enumerate() {
            let (a, b) = (ours(x), theirs(x));
            let close = (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= 4.0 * f64::EPSILON * b.abs();
            prop_assert!(close, "function {i} at {x:e}: {a:e} and {b:e}");
        }
    }
}
