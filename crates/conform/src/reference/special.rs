//! Special functions that the standard library lacks, by series.

use std::f64::consts::PI;

/// 2/√π e^(-x²) Σ 2ⁿ x^(2n+1) / (2n+1)!!: every term has the same sign.
pub fn erf(x: f64) -> f64 {
    if x.is_nan() || x == 0.0 {
        return x;
    }
    if x.abs() > 6.0 {
        return 1f64.copysign(x);
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > sum.abs() * 1e-18 {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    sum * (-x * x).exp() * 2.0 / PI.sqrt()
}

/// 1 - erf(x), above 1 by its continued fraction, to keep precision in the tail.
pub fn erfc(x: f64) -> f64 {
    if x < 1.0 || x.is_nan() {
        return 1.0 - erf(x);
    }
    if x > 30.0 {
        return 0.0;
    }
    // x² as a sum of two parts, since e^(-x²) amplifies its error.
    let square = x * x;
    let rest = x.mul_add(x, -square);
    let mut fraction = 0.0;
    for k in (1..=1000).rev() {
        fraction = f64::from(k) / 2.0 / (x + fraction);
    }
    (-square).exp() * (1.0 - rest) / ((x + fraction) * PI.sqrt())
}

/// The inverse of erf, by bisection and Newton's method.
pub fn erfinv(y: f64) -> f64 {
    if y.is_nan() || y.abs() > 1.0 {
        return f64::NAN;
    }
    if y.abs() == 1.0 {
        return f64::INFINITY.copysign(y);
    }
    if y == 0.0 {
        return y;
    }
    let (mut low, mut high) = (0.0, 6.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        // Above ½ the complement is more accurate.
        let below = if y.abs() > 0.5 {
            erfc(middle) > 1.0 - y.abs()
        } else {
            erf(middle) < y.abs()
        };
        if below { low = middle } else { high = middle }
    }
    let mut x = (low + high) / 2.0;
    for _ in 0..3 {
        let miss = if y.abs() > 0.5 {
            1.0 - y.abs() - erfc(x)
        } else {
            erf(x) - y.abs()
        };
        x -= miss / (2.0 / PI.sqrt() * (-x * x).exp());
    }
    x.copysign(y)
}

/// log |Γ(x)|: shifted by Γ(x) = Γ(x + 1) / x, then Stirling's series; for negative x by reflection.
pub fn lgamma(x: f64) -> f64 {
    if x.is_infinite() || x == 0.0 || x < 0.0 && x == x.floor() {
        return f64::INFINITY;
    }
    if x < 0.0 {
        return (PI / (PI * (x - x.round())).sin().abs()).ln() - lgamma(1.0 - x);
    }
    let (mut x, mut product) = (x, 1.0);
    while x < 20.0 {
        product *= x;
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    let tail = (1.0 / 12.0 - r * (1.0 / 360.0 - r * (1.0 / 1260.0 - r / 1680.0))) / x;
    // In this order large x overflow no earlier than the result.
    x * (x.ln() - 1.0) - 0.5 * (x.ln() - (2.0 * PI).ln()) + tail - product.ln()
}

/// log(x + √(x² + 1)), without overflow.
pub fn asinh(x: f64) -> f64 {
    if x.abs() > 1e15 && x.is_finite() {
        return (x.abs().ln() + std::f64::consts::LN_2).copysign(x);
    }
    x.asinh()
}

/// log(x + √(x² - 1)), without overflow.
pub fn acosh(x: f64) -> f64 {
    if x > 1e15 && x.is_finite() {
        return x.ln() + std::f64::consts::LN_2;
    }
    x.acosh()
}

/// ψ(x): shifted by ψ(x) = ψ(x + 1) - 1/x, then Stirling's series; for negative x by reflection.
pub fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x == f64::INFINITY {
        return x;
    }
    if x < 0.0 {
        if x == x.floor() {
            return f64::NAN;
        }
        return digamma(1.0 - x) - PI / (PI * (x - x.round())).tan();
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < 20.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let r = 1.0 / (x * x);
    let tail =
        r * (1.0 / 12.0 - r * (1.0 / 120.0 - r * (1.0 / 252.0 - r * (1.0 / 240.0 - r / 132.0))));
    sum + x.ln() - 0.5 / x - tail
}

/// ψ⁽ⁿ⁾(x) = (-1)ⁿ⁺¹ n! ζ(n + 1, x), with the Hurwitz zeta function by Euler-Maclaurin summation.
pub fn polygamma(n: f64, x: f64) -> f64 {
    if n == 0.0 {
        return digamma(x);
    }
    if n < 0.0 || n != n.floor() {
        return f64::NAN;
    }
    let s = n + 1.0;
    let factorial: f64 = (1..=n as u32).map(f64::from).product();
    const TERMS: u32 = 30;
    let mut sum: f64 = (0..TERMS).map(|k| (x + f64::from(k)).powf(-s)).sum();
    let a = x + f64::from(TERMS);
    sum += a.powf(1.0 - s) / (s - 1.0) + 0.5 * a.powf(-s);
    // B₂ₖ / (2k)!
    let numbers = [1.0 / 12.0, -1.0 / 720.0, 1.0 / 30240.0, -1.0 / 1_209_600.0];
    let mut rising = s;
    for (k, b) in numbers.iter().enumerate() {
        let k = k as f64;
        sum += b * rising * a.powf(-s - 2.0 * k - 1.0);
        rising *= (s + 2.0 * k + 1.0) * (s + 2.0 * k + 2.0);
    }
    let sign = if n as u32 % 2 == 1 { 1.0 } else { -1.0 };
    sign * factorial * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        for (got, want) in [
            (erf(1.0), 0.842_700_792_949_714_9),
            (erfc(3.0), 2.209_049_699_858_544e-5),
            (erfc(10.0), 2.088_487_583_762_545e-45),
            (erfinv(0.5), 0.476_936_276_204_469_9),
            (lgamma(0.5), PI.sqrt().ln()),
            (lgamma(10.0), 362_880f64.ln()),
            (digamma(1.0), -0.577_215_664_901_532_9),
            (digamma(-0.5), 0.036_489_973_978_576_52),
            (polygamma(1.0, 1.0), PI * PI / 6.0),
            (polygamma(2.0, 1.0), -2.404_113_806_319_188_6),
            (polygamma(3.0, 0.5), PI.powi(4)),
        ] {
            assert!((got / want - 1.0).abs() < 1e-14, "{got} {want}");
        }
    }
}
