use super::*;
use crate::math::reference::{Bits, ulps32};

/// Largest error over floats of every exponent and sign, and the place of it.
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

/// A finer look where the function is neither 0, 1 nor infinite.
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

#[cfg(target_arch = "x86_64")]
mod speed {
    //! Not run by default: `cargo test --release -p clematis-native speed -- --ignored --nocapture`.
    #![allow(unsafe_code)]
    use super::*;
    use std::hint::black_box;
    use std::time::Instant;

    macro_rules! timed {
        ($($name:ident = $t:ty, $f:expr;)*) => {$({
            #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl")]
            fn wide(target: &mut [$t], source: &[$t]) {
                for (y, &x) in target.iter_mut().zip(source) {
                    *y = $f(x);
                }
            }
            #[target_feature(enable = "avx2")]
            fn middle(target: &mut [$t], source: &[$t]) {
                for (y, &x) in target.iter_mut().zip(source) {
                    *y = $f(x);
                }
            }
            fn base(target: &mut [$t], source: &[$t]) {
                for (y, &x) in target.iter_mut().zip(source) {
                    *y = $f(x);
                }
            }
            let mut bits = Bits(3);
            let source: Vec<$t> = (0..4096).map(|_| bits.between(0.0, 0.99) as $t).collect();
            let mut outputs = [vec![0.0; 4096], vec![0.0; 4096], vec![0.0; 4096]];
            let mut times = [f64::INFINITY; 3];
            for (level, (output, time)) in outputs.iter_mut().zip(&mut times).enumerate() {
                for _ in 0..20 {
                    let start = Instant::now();
                    for _ in 0..100 {
                        let (target, source) = (black_box(&mut output[..]), black_box(&source[..]));
                        // SAFETY: the caller checked that the machine has these features.
                        match level {
                            0 => unsafe { wide(target, source) },
                            1 => unsafe { middle(target, source) },
                            _ => base(target, source),
                        }
                    }
                    let elapsed = start.elapsed().as_secs_f64() / (100.0 * 4096.0) * 1e9;
                    *time = time.min(elapsed);
                }
            }
            println!(
                "{:16} avx512 {:.3}  avx2 {:.3}  base {:.3} ns/element",
                stringify!($name), times[0], times[1], times[2]
            );
            let same = |a: &[$t], b: &[$t]| a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same(&outputs[0], &outputs[2]) && same(&outputs[1], &outputs[2]));
        })*};
    }

    #[test]
    #[ignore = "a measurement"]
    fn nanoseconds_per_element() {
        if !is_x86_feature_detected!("avx512bw") {
            return;
        }
        timed! {
            exp = f32, exp;
            exp2 = f32, exp2;
            expm1 = f32, expm1;
            log = f32, log;
            log1p = f32, log1p;
            log2 = f32, log2;
            log10 = f32, log10;
            tanh = f32, tanh;
            sigmoid = f32, sigmoid;
            erf = f32, erf;
            erfinv = f32, erfinv;
            sin_reduced = f32, sin_reduced;
            cos_reduced = f32, cos_reduced;
            cbrt = f32, cbrt;
            rsqrt = f32, rsqrt;
            hypot = f32, |x: f32| hypot(x, 0.5);
            logaddexp = f32, |x: f32| logaddexp(x, 0.5);
            exp_f64 = f64, double::exp;
            exp2_f64 = f64, double::exp2;
            expm1_f64 = f64, double::expm1;
            log_f64 = f64, double::log;
            log1p_f64 = f64, double::log1p;
            tanh_f64 = f64, double::tanh;
            sigmoid_f64 = f64, double::sigmoid;
            erf_f64 = f64, double::erf;
        }
    }
}
