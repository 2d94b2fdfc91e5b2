//! Cases of infinities and NaNs that go through several steps: rows of softmax, complex quotients and powers.
//!
//! Which of two zeros an extremum gives is unspecified, as in the Array API: vector instructions and their scalar remainders
//! differ within one call of one framework.

use super::Case;
use super::elementwise::{pair, push, single};
use crate::array::{Array, C, Num};
use crate::compare::Tolerance;
use clematis_core::op::{Binary, Unary};
use clematis_core::{Axes, Composite, DType, Result};

/// Adds all of them.
pub fn add(all: &mut Vec<Case>) -> Result<()> {
    for dtype in DType::ALL {
        if dtype.is_float() {
            softmaxes(all, dtype);
        }
        if dtype.is_complex() {
            complex(all, dtype);
        }
    }
    Ok(())
}

/// A row with NaN is NaN, and so is one whose largest element is infinite: inf - inf has no value.
fn softmaxes(all: &mut Vec<Case>, dtype: DType) {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    for (label, row, sum) in [
        ("NaN", [nan, 1.0, 2.0], nan),
        ("inf", [inf, 1.0, 2.0], inf),
        ("two infs", [inf, 1.0, inf], inf),
        ("-inf alone", [-inf, -inf, -inf], -inf),
        ("NaN and -inf", [1.0, -inf, nan], nan),
    ] {
        let x = Array::real(dtype, &[1, 3], &row);
        let axes = Axes::new(&[1]);
        let rows = Array::real(dtype, &[1, 3], &[nan; 3]);
        for (c, want) in [
            (Composite::Softmax { axis: 1 }, rows.clone()),
            (Composite::LogSoftmax { axis: 1 }, rows),
            (
                Composite::LogSumExp { axes },
                Array::real(dtype, &[1], &[sum]),
            ),
        ] {
            let name = format!("{} {dtype} of {label}", c.name());
            let case = Case::new(name, c, dtype, vec![x.clone()], move |_| {
                Ok(vec![want.clone()])
            });
            push(all, case.within(Tolerance::exact()).special());
        }
    }
}

/// Quotients by zero, powers of zero and its logarithm.
fn complex(all: &mut Vec<Case>, dtype: DType) {
    let values = [(0.0, 0.0), (1.0, 0.0), (-1.0, 0.0), (0.0, 2.0), (0.5, -2.0)];
    let values: Vec<Num> = values
        .iter()
        .map(|&(re, im)| Num::Inexact(C::new(re, im)))
        .collect();
    let n = values.len();
    for b in [Binary::Div, Binary::Pow] {
        let x = Array::new(dtype, &[n, 1], values.clone());
        let y = Array::new(dtype, &[n], values.clone());
        let name = format!("{} {dtype} of zero", b.name());
        push(all, unsigned(pair(name, b, dtype, x, y)));
    }
    let x = Array::new(dtype, &[n], values);
    for u in [Unary::Log, Unary::Sqrt, Unary::Sign] {
        let name = format!("{} {dtype} of zero", u.name());
        push(all, unsigned(single(name, u, dtype, x.clone())));
    }
}

/// Signs of zeros, of which C99 leaves most open, are not compared.
fn unsigned(mut case: Case) -> Case {
    case.tolerance.signed_zeros = false;
    case.special()
}
