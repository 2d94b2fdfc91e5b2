//! Deterministic random operands, seeded by the case's name.

use crate::array::{Array, C, Num, extremes};
use clematis_core::op::Domain;
use clematis_core::{DType, Result};

/// A counter-based generator (splitmix64), seeded by a string.
pub struct Draw {
    state: u64,
}

impl Draw {
    /// Seeded by a name.
    pub fn new(name: &str) -> Draw {
        // FNV-1a.
        let state = name.bytes().fold(0xCBF2_9CE4_8422_2325u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01B3)
        });
        Draw { state }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in `[low, high)`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.bits() >> 11) as f64 / 2f64.powi(53))
    }

    /// An integer in `low..=high`.
    pub fn whole(&mut self, low: i128, high: i128) -> i128 {
        low + (i128::from(self.bits()) % (high - low + 1))
    }

    /// A random sign.
    pub fn sign(&mut self) -> f64 {
        if self.bits() & 1 == 0 { 1.0 } else { -1.0 }
    }

    /// A number in the domain.
    fn number(&mut self, dtype: DType, domain: Domain, operand: usize) -> Num {
        if dtype == DType::Bool {
            return Num::Whole(i128::from(self.bits() >> 40 & 1));
        }
        if !dtype.is_inexact() {
            return Num::Whole(self.integer(dtype, domain, operand));
        }
        let re = self.float(domain, operand);
        if !dtype.is_complex() {
            return Num::real(re);
        }
        // Away from the real axis, where complex functions have branch cuts.
        let im = match domain {
            Domain::Unit => self.between(0.15, 0.8) * self.sign(),
            _ => self.between(0.2, 1.5) * self.sign(),
        };
        Num::Inexact(C::new(re, im))
    }

    fn float(&mut self, domain: Domain, operand: usize) -> f64 {
        match (domain, operand) {
            (Domain::Everywhere, _) => self.between(-3.0, 3.0),
            (Domain::Nonzero, _) => self.between(0.3, 2.5) * self.sign(),
            (Domain::Positive, 0) => self.between(0.2, 4.0),
            // The exponent of a power.
            (Domain::Positive, _) => self.between(-2.0, 2.0),
            (Domain::Unit, _) => self.between(-0.9, 0.9),
            (Domain::AboveOne, _) => self.between(1.2, 4.0),
            (Domain::Order, 0) => self.whole(1, 4) as f64,
            (Domain::Order, _) => self.between(0.5, 4.0),
            (Domain::Shift, _) => self.between(0.0, 4.0),
        }
    }

    fn integer(&mut self, dtype: DType, domain: Domain, operand: usize) -> i128 {
        let (low, high) = extremes(dtype);
        let small = |draw: &mut Draw, a: i128, b: i128| draw.whole(a.max(low), b.min(high));
        match (domain, operand) {
            (Domain::Nonzero, 1) => match small(self, -9, 9) {
                0 => 1,
                v => v,
            },
            (Domain::Positive, 0) => small(self, -5, 5),
            (Domain::Positive, _) | (Domain::Shift, 1) => self.whole(0, 6),
            (Domain::Shift, _) => i128::from(self.bits()).rem_euclid(high - low + 1) + low,
            _ => small(self, -100, 100),
        }
    }

    /// An array with elements in the domain, rounded to its dtype.
    pub fn array(
        &mut self,
        dtype: DType,
        shape: &[usize],
        domain: Domain,
        operand: usize,
    ) -> Result<Array> {
        Array::from_fn(dtype, shape, |_| self.number(dtype, domain, operand)).rounded()
    }

    /// An array with any elements near zero.
    pub fn any(&mut self, dtype: DType, shape: &[usize]) -> Result<Array> {
        self.array(dtype, shape, Domain::Everywhere, 0)
    }

    /// Small values, so that products and sums stay exact in every integer dtype and in range in half precision.
    pub fn small(&mut self, dtype: DType, shape: &[usize]) -> Result<Array> {
        Array::from_fn(dtype, shape, |_| {
            if dtype == DType::Bool {
                return Num::Whole(i128::from(self.bits() >> 40 & 1));
            }
            if dtype.is_inexact() {
                let im = if dtype.is_complex() {
                    self.between(-1.0, 1.0)
                } else {
                    0.0
                };
                return Num::Inexact(C::new(self.between(-1.0, 1.0), im));
            }
            let low = if dtype.is_unsigned() { 0 } else { -3 };
            Num::Whole(self.whole(low, 3))
        })
        .rounded()
    }

    /// Distinct values in random order, so that sorts and extremes are differentiable.
    pub fn distinct(&mut self, dtype: DType, shape: &[usize]) -> Result<Array> {
        let n = shape.iter().product::<usize>();
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            let j = self.whole(0, i as i128) as usize;
            order.swap(i, j);
        }
        let half = n as i128 / 2;
        let values = order
            .into_iter()
            .map(|k| {
                if dtype.is_inexact() {
                    Num::real((k as f64 - half as f64) * 0.25 + 0.125)
                } else if dtype.is_unsigned() || dtype == DType::Bool {
                    Num::of(dtype, k as i128)
                } else {
                    Num::of(dtype, k as i128 - half)
                }
            })
            .collect();
        Array::new(dtype, shape, values).rounded()
    }

    /// Integers in `low..=high`.
    pub fn indices(&mut self, dtype: DType, shape: &[usize], low: i128, high: i128) -> Array {
        Array::from_fn(dtype, shape, |_| Num::Whole(self.whole(low, high)))
    }

    /// A direction for derivatives: every component is away from zero.
    pub fn direction(&mut self, dtype: DType, shape: &[usize]) -> Result<Array> {
        Array::from_fn(dtype, shape, |_| {
            let mut part = || self.between(0.3, 1.0) * self.sign();
            let re = part();
            let im = if dtype.is_complex() { part() } else { 0.0 };
            Num::Inexact(C::new(re, im))
        })
        .rounded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_gives_the_same_numbers_again() {
        let draw = |name: &str| Draw::new(name).any(DType::F32, &[4]).unwrap().values;
        assert_eq!(draw("exp"), draw("exp"));
        assert_ne!(draw("exp"), draw("log"));
    }

    #[test]
    fn distinct_values_differ() {
        let x = Draw::new("d").distinct(DType::F64, &[5, 5]).unwrap();
        for (i, a) in x.values.iter().enumerate() {
            assert!(x.values[..i].iter().all(|b| a != b));
        }
    }
}
