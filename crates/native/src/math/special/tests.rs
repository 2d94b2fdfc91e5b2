use super::*;
use crate::math::reference::{Bits, Dd, ulps64};
use proptest::prelude::*;
use std::f64::consts::{LN_2, PI};

const EULER: f64 = 0.577_215_664_901_532_9;
const APERY: f64 = 1.202_056_903_159_594_2;

fn close(got: f64, want: f64, tolerance: f64) {
    assert!(
        (got - want).abs() <= tolerance * want.abs().max(1e-300),
        "{got:e}, not {want:e}"
    );
}

#[test]
fn erfinv_inverts() {
    let mut bits = Bits(5);
    for _ in 0..2000 {
        let y = bits.between(-3.0, 3.0);
        let x = Dd::from(y).erf();
        // The effect of rounding x on y: half a unit over the derivative.
        let derivative = 2.0 / PI.sqrt() * (-y * y).exp();
        let limit = 4.0 * f64::EPSILON * y.abs() + 1.2e-16 * x.0.abs() / derivative;
        assert!((erfinv(x.0) - y).abs() <= limit, "{y}");
    }
    assert_eq!(erfinv(0.5), 0.4769362762044699);
    assert_eq!(erfinv(-0.0).to_bits(), (-0.0f64).to_bits());
    assert_eq!(erfinv(1.0), f64::INFINITY);
    assert_eq!(erfinv(-1.0), f64::NEG_INFINITY);
    assert!(erfinv(1.1).is_nan() && erfinv(f64::NAN).is_nan());
    close(erfinv(1e-300), 1e-300 * PI.sqrt() / 2.0, 1e-15);
    // The last number below 1.
    close(
        erfc(erfinv(1.0 - f64::EPSILON / 2.0)),
        f64::EPSILON / 2.0,
        1e-14,
    );
}

#[test]
fn erfc_complements_erf_and_reaches_far() {
    let mut bits = Bits(6);
    for _ in 0..1000 {
        let x = bits.between(-2.0, 2.0);
        let want = Dd::from(1.0) - Dd::from(x).erf();
        assert!(ulps64(erfc(x), want) < 2.0, "{x}");
    }
    // e^(-x²) / (x √π) · (1 - 1/2x² + 3/4x⁴ - 15/8x⁶ + 105/16x⁸)
    let (x, z) = (20.0f64, 1.0 / 800.0);
    let series = 1.0 - z * (1.0 - 3.0 * z * (1.0 - 5.0 * z * (1.0 - 7.0 * z)));
    close(erfc(x), (-400.0f64).exp() / (x * PI.sqrt()) * series, 1e-11);
}

#[test]
fn lgamma_of_integers_and_half_integers() {
    let mut factorial = 1.0f64;
    for n in 1..20 {
        close(
            lgamma(n as f64 + 1.0) + 1.0,
            (factorial * n as f64).ln() + 1.0,
            1e-14,
        );
        factorial *= n as f64;
    }
    close(lgamma(0.5), PI.sqrt().ln(), 1e-15);
    close(lgamma(-0.5), (2.0 * PI.sqrt()).ln(), 1e-15);
    assert_eq!(lgamma(0.0), f64::INFINITY);
    assert_eq!(lgamma(-3.0), f64::INFINITY);
}

#[test]
fn digamma_at_known_points() {
    close(digamma(1.0), -EULER, 1e-15);
    close(digamma(0.5), -EULER - 2.0 * LN_2, 1e-15);
    close(digamma(2.0), 1.0 - EULER, 1e-15);
    close(digamma(0.25), -PI / 2.0 - 3.0 * LN_2 - EULER, 1e-15);
    close(digamma(10.0), 2.251752589066721, 1e-15);
    close(digamma(-0.5), 2.0 - EULER - 2.0 * LN_2, 1e-13);
    close(digamma(1e10), 1e10f64.ln() - 0.5e-10, 1e-15);
    // Its root, where only the product form keeps digits.
    close(digamma(1.4616321449683622), -9.241265521729427e-17, 1e-13);
    assert_eq!(digamma(0.0), f64::NEG_INFINITY);
    assert_eq!(digamma(-0.0), f64::INFINITY);
    assert_eq!(digamma(f64::INFINITY), f64::INFINITY);
    assert!(
        digamma(-2.0).is_nan() && digamma(f64::NEG_INFINITY).is_nan() && digamma(f64::NAN).is_nan()
    );
}

#[test]
fn zeta_at_known_points() {
    close(zeta(2.0, 1.0), PI * PI / 6.0, 1e-15);
    close(zeta(4.0, 1.0), PI.powi(4) / 90.0, 1e-15);
    close(zeta(3.0, 1.0), APERY, 1e-15);
    close(zeta(2.0, 0.5), PI * PI / 2.0, 1e-15);
    close(
        zeta(2.0, 0.25),
        PI * PI + 8.0 * 0.915_965_594_177_219,
        1e-15,
    );
    close(zeta(1.5, 1.0), 2.612375348685488, 1e-14);
    close(zeta(2.0, 2.0), PI * PI / 6.0 - 1.0, 1e-14);
    // Terms on both sides of zero: 4 + 4 + ζ(2, 1.5).
    close(zeta(2.0, -0.5), 4.0 + PI * PI / 2.0, 1e-14);
    close(zeta(3.0, -0.5), -8.0 + 7.0 * APERY, 1e-14);
    close(zeta(2.0, -1.0e9 - 0.5), PI * PI, 1e-8);
    close(zeta(5000.0, 1.0), 1.0, 1e-15);
    assert_eq!(zeta(1.0, 3.0), f64::INFINITY);
    assert_eq!(zeta(2.0, 0.0), f64::INFINITY);
    assert_eq!(zeta(2.0, -3.0), f64::INFINITY);
    assert!(zeta(0.5, 1.0).is_nan() && zeta(2.5, -0.5).is_nan());
    assert_eq!(zeta(2.0, f64::INFINITY), 0.0);
}

#[test]
fn polygamma_at_known_points() {
    close(polygamma(0, 3.0), 1.5 - EULER, 1e-15);
    close(polygamma(1, 1.0), PI * PI / 6.0, 1e-15);
    close(polygamma(1, 0.5), PI * PI / 2.0, 1e-15);
    close(polygamma(2, 1.0), -2.0 * APERY, 1e-15);
    close(polygamma(3, 1.0), PI.powi(4) / 15.0, 1e-14);
    // 200! overflows, ζ(201, 50) underflows, the product is ordinary.
    close(polygamma(200, 50.0), -2.582_971_393_070_535_8e33, 1e-12);
    close(polygamma(180, 3.0), -8.790_717_435_589_678e242, 1e-12);
}

#[test]
fn incomplete_gamma_at_known_points() {
    for x in [1e-8, 0.1, 0.5, 1.0, 3.0, 10.0, 50.0] {
        // P(1, x) = 1 - e^-x, P(½, x) = erf √x, Q(2, x) = (1 + x) e^-x
        close(igamma(1.0, x), -f64::exp_m1(-x), 4e-15);
        close(igammac(1.0, x), (-x).exp(), 1e-14);
        close(igamma(0.5, x), libm::erf(x.sqrt()), 1e-14);
        close(igammac(2.0, x), (1.0 + x) * (-x).exp(), 1e-14);
    }
    // A Poisson sum, for a large integer: Q(n, x) = e^-x Σ_{k<n} xᵏ/k!
    let (n, x) = (150, 140.0f64);
    let sum: f64 = (0..n)
        .map(|k| (k as f64 * x.ln() - x - libm::lgamma(k as f64 + 1.0)).exp())
        .sum();
    close(igammac(n as f64, x), sum, 1e-12);
    assert_eq!(igamma(2.0, 0.0), 0.0);
    assert_eq!(igammac(2.0, 0.0), 1.0);
    assert_eq!(igamma(2.0, f64::INFINITY), 1.0);
    assert_eq!(igamma(0.0, 1.0), 1.0);
    assert!(igamma(-1.0, 1.0).is_nan() && igamma(1.0, -1.0).is_nan() && igamma(0.0, 0.0).is_nan());
}

#[test]
fn the_asymptotic_form_takes_over_where_it_is_exact() {
    use super::incomplete::{asymptotic, fraction, series};
    let a = 1.0e6;
    for ratio in [0.995, 0.999, 0.9999, 1.0] {
        close(asymptotic(a, a * ratio, -1.0), series(a, a * ratio), 2e-11);
    }
    for ratio in [1.00001, 1.0005, 1.002, 1.006] {
        close(asymptotic(a, a * ratio, 1.0), fraction(a, a * ratio), 2e-11);
    }
    close(igamma(2.0e6, 1.995e6), 2.013_952_140_592_908_7e-4, 1e-10);
}

proptest! {
    #[test]
    fn digamma_steps_by_the_reciprocal(x in 1e-3f64..50.0) {
        let step = digamma(x + 1.0) - digamma(x);
        prop_assert!((step * x - 1.0).abs() < 1e-13 * (1.0 + x * digamma(x).abs()));
    }

    #[test]
    fn zeta_sheds_its_first_term(s in 1.1f64..30.0, q in 0.05f64..40.0) {
        let difference = zeta(s, q) - zeta(s, q + 1.0) - q.powf(-s);
        prop_assert!(difference.abs() <= 4e-14 * zeta(s, q));
    }

    #[test]
    fn incomplete_gammas_add_to_one(a in 1e-3f64..500.0, x in 0.0f64..600.0) {
        prop_assert!((igamma(a, x) + igammac(a, x) - 1.0).abs() < 1e-15);
        prop_assert!((0.0..=1.0 + 1e-14).contains(&igamma(a, x)));
    }
}
