//! Independent references for the tests: distances in units of the last place,
//! and double-double arithmetic (about 31 digits) with plain series on top.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// Distance of `got` from `want`, in units of the last place of an `f32` at `want`.
pub fn ulps32(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got.to_bits() == rounded.to_bits() || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    if !got.is_finite() || !rounded.is_finite() {
        // An overflow on the wrong side of the threshold counts by its neighbour.
        let step = |v: f32| {
            if v.is_finite() {
                v as f64
            } else {
                2f64.powi(128).copysign(v as f64)
            }
        };
        return (step(got) - step(rounded)).abs() / 2f64.powi(104);
    }
    let exponent = if rounded == 0.0 {
        -126
    } else {
        (rounded.abs().log2().floor() as i32).max(-126)
    };
    (got as f64 - want).abs() / 2f64.powi(exponent - 23)
}

/// Distance of `got` from `want`, in units of the last place of an `f64` at `want`.
pub fn ulps64(got: f64, want: Dd) -> f64 {
    if got == want.0 && want.1 == 0.0 || (got.is_nan() && want.0.is_nan()) {
        return 0.0;
    }
    if !got.is_finite() || !want.0.is_finite() {
        return if got == want.0 { 0.0 } else { f64::INFINITY };
    }
    let exponent = ((want.0.abs().to_bits() >> 52) as i32 - 1023).max(-1022);
    let unit = 2f64.powi(exponent) * f64::EPSILON;
    ((got - want.0) - want.1).abs() / unit
}

/// Pseudo-random bits for tests: a splitmix sequence.
pub struct Bits(pub u64);

impl Bits {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in `[low, high)`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.next() >> 11) as f64 / 2f64.powi(53))
    }
}

/// An unevaluated sum of two floats, the second below half a unit of the first.
#[derive(Clone, Copy, Debug)]
pub struct Dd(pub f64, pub f64);

fn two_sum(a: f64, b: f64) -> Dd {
    let s = a + b;
    let v = s - a;
    Dd(s, (a - (s - v)) + (b - v))
}

impl From<f64> for Dd {
    fn from(x: f64) -> Self {
        Dd(x, 0.0)
    }
}

impl Add for Dd {
    type Output = Dd;
    fn add(self, o: Dd) -> Dd {
        let s = two_sum(self.0, o.0);
        let t = two_sum(self.1, o.1);
        let s = two_sum(s.0, s.1 + t.0);
        two_sum(s.0, s.1 + t.1)
    }
}

impl Neg for Dd {
    type Output = Dd;
    fn neg(self) -> Dd {
        Dd(-self.0, -self.1)
    }
}

impl Sub for Dd {
    type Output = Dd;
    fn sub(self, o: Dd) -> Dd {
        self + -o
    }
}

impl Mul for Dd {
    type Output = Dd;
    fn mul(self, o: Dd) -> Dd {
        let p = self.0 * o.0;
        let e = self.0.mul_add(o.0, -p) + (self.0 * o.1 + self.1 * o.0);
        two_sum(p, e)
    }
}

impl Div for Dd {
    type Output = Dd;
    fn div(self, o: Dd) -> Dd {
        let q = self.0 / o.0;
        let r = self - o * Dd::from(q);
        let q2 = r.0 / o.0;
        let r = r - o * Dd::from(q2);
        two_sum(q, q2) + Dd::from(r.0 / o.0)
    }
}

impl Dd {
    pub const PI: Dd = Dd(std::f64::consts::PI, 1.2246467991473532e-16);
    pub const LN_2: Dd = Dd(std::f64::consts::LN_2, 2.3190468138462996e-17);

    fn scale(self, k: i32) -> Dd {
        let s = 2f64.powi(k);
        Dd(self.0 * s, self.1 * s)
    }

    /// `eˣ - 1` by the series, for a small argument.
    fn expm1_small(self) -> Dd {
        let (mut term, mut sum) = (self, self);
        for n in 2..30 {
            term = term * self / Dd::from(n as f64);
            sum = sum + term;
        }
        sum
    }

    pub fn expm1(self) -> Dd {
        let n = (self.0 / Dd::LN_2.0).round();
        let r = (self - Dd::LN_2 * Dd::from(n)).scale(-6);
        let mut e = r.expm1_small();
        for _ in 0..6 {
            e = e * e + e.scale(1); // (1 + e)² - 1
        }
        let n = n as i32;
        let half = n / 2;
        if n == 0 {
            return e;
        }
        (e + Dd::from(1.0)).scale(half).scale(n - half) - Dd::from(1.0)
    }

    /// For results that are normal numbers.
    pub fn exp(self) -> Dd {
        let n = (self.0 / Dd::LN_2.0).round() as i32;
        let r = self - Dd::LN_2 * Dd::from(n as f64);
        let half = n / 2;
        (r.expm1() + Dd::from(1.0)).scale(half).scale(n - half)
    }

    /// Newton's iteration on `exp`.
    pub fn ln(self) -> Dd {
        let k = ((self.0.to_bits() >> 52) as i32) - 1023;
        let m = self.scale(-k);
        let mut y = Dd::from(m.0.ln());
        for _ in 0..2 {
            y = y + m * (-y).exp() - Dd::from(1.0);
        }
        y + Dd::LN_2 * Dd::from(k as f64)
    }

    pub fn sqrt(self) -> Dd {
        let r = Dd::from(self.0.sqrt());
        (r + self / r).scale(-1)
    }

    pub fn tanh(self) -> Dd {
        let e = self.scale(1).expm1();
        e / (e + Dd::from(2.0))
    }

    /// `2/√π e^(-x²) Σ 2ⁿ x²ⁿ⁺¹ / (2n+1)!!`: every term positive, so nothing cancels.
    pub fn erf(self) -> Dd {
        let square = self * self;
        let (mut term, mut sum) = (self, self);
        for n in 1..400 {
            term = term * square.scale(1) / Dd::from((2 * n + 1) as f64);
            sum = sum + term;
            if term.0.abs() < 1e-40 * sum.0.abs() {
                break;
            }
        }
        sum * (-square).exp().scale(1) / Dd::PI.sqrt()
    }
}

#[test]
fn double_double_knows_e_and_its_logarithm() {
    let e = Dd::from(1.0).exp();
    assert_eq!(e.0, std::f64::consts::E);
    assert!((e.1 - 1.4456468917292502e-16).abs() < 1e-31);
    let one = e.ln() - Dd::from(1.0);
    assert!(one.0.abs() < 1e-30);
}
