use super::*;
use crate::math::reference::{Bits, ulps32};

/// Largest error over floats of every exponent and sign, and its argument.
fn worst(f: impl Fn(f32) -> f32, reference: impl Fn(f64) -> f64) -> (f64, f32) {
    worst_in(f32::NEG_INFINITY, f32::INFINITY, f, reference)
}

/// The same for arguments between two bounds.
fn worst_in(
    low: f32,
    high: f32,
    f: impl Fn(f32) -> f32,
    reference: impl Fn(f64) -> f64,
) -> (f64, f32) {
    let mut worst = (0.0, 0.0);
    for bits in (0..=u32::MAX).step_by(2_003) {
        let x = f32::from_bits(bits);
        if !(x >= low && x <= high) {
            continue;
        }
        let error = ulps32(f(x), reference(x as f64));
        if error > worst.0 {
            worst = (error, x);
        }
    }
    println!("{:.3} ulp at {:e}", worst.0, worst.1);
    worst
}

/// A finer sampling where the function is neither 0, 1 nor infinite.
fn worst_near(
    low: f64,
    high: f64,
    f: impl Fn(f32) -> f32,
    reference: impl Fn(f64) -> f64,
) -> (f64, f32) {
    let mut bits = Bits(7);
    let mut worst = (0.0, 0.0);
    for _ in 0..1_000_000 {
        let x = bits.between(low, high) as f32;
        let error = ulps32(f(x), reference(x as f64));
        if error > worst.0 {
            worst = (error, x);
        }
    }
    println!("{:.3} ulp at {:e}", worst.0, worst.1);
    worst
}

macro_rules! accurate {
    ($($test:ident: $f:expr, $reference:expr, $low:expr, $high:expr, $limit:expr;)*) => {$(
        #[test]
        fn $test() {
            let (everywhere, near) = (worst($f, $reference), worst_near($low, $high, $f, $reference));
            assert!(everywhere.0 <= $limit, "{everywhere:?}");
            assert!(near.0 <= $limit, "{near:?}");
        }
    )*};
}

type Function = fn(f32) -> f32;

fn erf64(x: f64) -> f64 {
    libm::erf(x)
}

fn sigmoid64(x: f64) -> f64 {
    if x < 0.0 {
        x.exp() / (1.0 + x.exp())
    } else {
        1.0 / (1.0 + (-x).exp())
    }
}

accurate! {
    exp_is_accurate: exp, f64::exp, -104.0, 89.0, 1.5;
    exp2_is_accurate: exp2, f64::exp2, -150.0, 128.5, 1.5;
    expm1_is_accurate: expm1, f64::exp_m1, -20.0, 5.0, 2.0;
    log_is_accurate: log, f64::ln, 0.0, 3.0, 1.5;
    log2_is_accurate: log2, f64::log2, 0.0, 3.0, 1.5;
    log10_is_accurate: log10, f64::log10, 0.0, 3.0, 2.0;
    log1p_is_accurate: log1p, f64::ln_1p, -1.0, 3.0, 2.0;
    tanh_is_accurate: tanh, f64::tanh, -10.0, 10.0, 2.0;
    sigmoid_is_accurate: sigmoid, sigmoid64, -110.0, 20.0, 2.0;
    erf_is_accurate: erf, erf64, -4.5, 4.5, 2.0;
    erfc_is_accurate: erfc, libm::erfc, -4.5, 10.5, 3.0;
    sin_is_accurate: sin, f64::sin, -100.0, 100.0, 1.5;
    cos_is_accurate: cos, f64::cos, -100.0, 100.0, 1.5;
    large_sines_are_accurate: sin, f64::sin, -2.0e6, 2.0e6, 1.5;
    large_cosines_are_accurate: cos, f64::cos, -2.0e6, 2.0e6, 1.5;
    cbrt_is_accurate: cbrt, f64::cbrt, -10.0, 10.0, 0.6;
    rsqrt_is_accurate: rsqrt, |x: f64| 1.0 / x.sqrt(), 0.0, 10.0, 1.5;
    erfinv_is_accurate: erfinv, special::erfinv, -1.0, 1.0, 1.0;
}

#[test]
fn zeros_keep_their_sign() {
    for f in [expm1, log1p, tanh, erf, erfinv, sin, cbrt] {
        assert_eq!(f(0.0).to_bits(), 0.0f32.to_bits());
        assert_eq!(f(-0.0).to_bits(), (-0.0f32).to_bits());
    }
    for f in [exp, exp2, cos] {
        assert_eq!(f(0.0), 1.0);
        assert_eq!(f(-0.0), 1.0);
    }
    assert_eq!(sigmoid(-0.0), 0.5);
}

#[test]
fn infinities_and_nan() {
    let inf = f32::INFINITY;
    let table: [(Function, f32, f32); 15] = [
        (exp, inf, 0.0),
        (exp2, inf, 0.0),
        (expm1, inf, -1.0),
        (log, inf, f32::NAN),
        (log2, inf, f32::NAN),
        (log10, inf, f32::NAN),
        (log1p, inf, f32::NAN),
        (tanh, 1.0, -1.0),
        (sigmoid, 1.0, 0.0),
        (erf, 1.0, -1.0),
        (erfinv, f32::NAN, f32::NAN),
        (sin, f32::NAN, f32::NAN),
        (cos, f32::NAN, f32::NAN),
        (cbrt, inf, -inf),
        (rsqrt, 0.0, f32::NAN),
    ];
    for (i, (f, at_plus, at_minus)) in table.into_iter().enumerate() {
        assert!(f(f32::NAN).is_nan(), "row {i}");
        for (x, want) in [(inf, at_plus), (-inf, at_minus)] {
            let got = f(x);
            assert!(
                got == want || (got.is_nan() && want.is_nan()),
                "row {i}: f({x}) = {got}"
            );
        }
    }
    assert_eq!(log(0.0), -inf);
    assert_eq!(log(-0.0), -inf);
    assert_eq!(log1p(-1.0), -inf);
    assert!(log(-1.0).is_nan() && log1p(-1.5).is_nan());
    assert_eq!((erfinv(1.0), erfinv(-1.0)), (inf, -inf));
    assert!(erfinv(1.25).is_nan());
    assert_eq!(rsqrt(0.0), inf);
}

#[test]
fn thresholds_of_overflow_and_underflow() {
    assert!(exp(88.722_83).is_finite());
    assert_eq!(exp(88.722_84), f32::INFINITY);
    assert_eq!(exp(-103.97), f32::from_bits(1));
    assert_eq!(exp(-104.0), 0.0);
    assert_eq!(exp2(127.999_99), 2f64.powf(127.999_99f32 as f64) as f32);
    assert_eq!(exp2(128.0), f32::INFINITY);
    assert_eq!(exp2(-149.0), f32::from_bits(1));
    assert_eq!(exp2(-151.0), 0.0);
    assert_eq!(expm1(-17.5), -1.0);
    assert!(sigmoid(-100.0) > 0.0);
}

#[test]
fn powers_have_exact_logarithms() {
    for k in -149..128 {
        assert_eq!(log2(exp2(k as f32)), k as f32);
    }
    for k in 0..=10 {
        assert_eq!(log10(10f32.powi(k)), k as f32, "10^{k}");
    }
}

#[test]
fn logaddexp_at_its_edges() {
    let inf = f32::INFINITY;
    assert_eq!(logaddexp(inf, -inf), inf);
    assert_eq!(logaddexp(inf, inf), inf);
    assert_eq!(logaddexp(-inf, -inf), -inf);
    assert_eq!(logaddexp(-inf, 3.0), 3.0);
    assert_eq!(logaddexp(1000.0, 1000.0), 1000.0 + std::f32::consts::LN_2);
    assert!(logaddexp(f32::NAN, 1.0).is_nan() && logaddexp(1.0, f32::NAN).is_nan());
    let want = (1f64.exp() + 2f64.exp()).ln();
    assert!(ulps32(logaddexp(1.0, 2.0), want) < 2.0);
}

#[test]
fn hypot_does_not_overflow() {
    assert_eq!(hypot(3.0e38, 0.0), 3.0e38);
    assert_eq!(hypot(3.0, 4.0), 5.0);
    assert_eq!(hypot(f32::NAN, f32::NEG_INFINITY), f32::INFINITY);
    assert!(hypot(f32::NAN, 1.0).is_nan());
    assert_eq!(
        hypot(3.0e-45, 4.0e-45),
        ((3.0e-45f32 as f64).hypot(4.0e-45f32 as f64)) as f32
    );
}

#[test]
fn slices_of_angles_agree_with_single_ones() {
    let mut bits = Bits(1);
    let mut source: Vec<f32> = (0..1000).map(|_| bits.between(-1e5, 1e5) as f32).collect();
    source[300] = 1.0e30;
    source[301] = f32::INFINITY;
    source[999] = -3.0e7;
    let mut target = vec![0.0; 1000];
    sin_slice(&mut target, &source);
    for (x, y) in source.iter().zip(&target) {
        assert_eq!(sin(*x).to_bits(), y.to_bits());
    }
    cos_slice(&mut target, &source);
    for (x, y) in source.iter().zip(&target) {
        assert_eq!(cos(*x).to_bits(), y.to_bits());
    }
}

#[test]
fn the_rest_is_finite_where_it_should_be() {
    assert_eq!(pow(2.0, 10.0), 1024.0);
    assert_eq!(pow(0.0, 0.0), 1.0);
    assert_eq!(atan2(0.0, -1.0), std::f32::consts::PI);
    assert!((polygamma(1, 1.0) - 1.644_934).abs() < 1e-6);
    for f in [
        tan, asin, acos, atan, sinh, cosh, asinh, atanh, erfc, lgamma, digamma,
    ] {
        assert!(f(0.5).is_finite());
        assert!(f(f32::NAN).is_nan());
    }
    assert_eq!(acosh(1.0), 0.0);
}

#[test]
fn exponentials_of_a_slice_are_those_of_its_elements() {
    let mut x: Vec<f32> = (0..3000).map(|i| (i as f32 - 1500.0) * 0.07).collect();
    x.extend([
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        -0.0,
        87.5,
        -87.5,
        88.7,
        -103.9,
    ]);
    // Blocks without an argument that is out of range, and with some.
    for x in [&x[..], &x[800..2100], &x[1500..1501]] {
        let mut out = vec![0.0; x.len()];
        exp_slice(&mut out, x, |x| x - 1.0);
        for (&x, &y) in x.iter().zip(&out) {
            let want = exp(x - 1.0);
            assert!(
                want.to_bits() == y.to_bits() || want.is_nan() && y.is_nan(),
                "{x}: {y}, not {want}"
            );
        }
    }
}
