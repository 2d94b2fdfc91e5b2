//! Tests of custom gradients.

use super::NamedTest;
use crate::array::Array;
use crate::dashboard::Dashboard;
use clematis_core::autodiff::{custom_vjp, grad};
use clematis_core::ops::{self, Ops, tensor};
use clematis_core::{Result, Tensor};

type Verdict = std::result::Result<(), String>;

fn near(x: &Array, want: &[f64]) -> Verdict {
    let got: Vec<f64> = x.values.iter().map(|v| v.re()).collect();
    let same = |(g, w): (&f64, &f64)| (g - w).abs() <= 1e-5 * w.abs().max(1.0);
    if got.len() == want.len() && got.iter().zip(want).all(same) {
        Ok(())
    } else {
        Err(format!("expected {want:?}, got {got:?}"))
    }
}

fn points() -> Result<Tensor> {
    tensor([-1.5f32, 0.25, 2.0])
}

/// Straight-through estimator: rounds, with the gradient of the identity.
fn straight_through() -> Result<Tensor> {
    let round = custom_vjp(
        "straight_through",
        |x| Ok(vec![ops::round(x[0]).done()?]),
        |_, _, ct| Ok(vec![Some(ct[0].clone())]),
    );
    grad(|x: &Tensor| ops::sum(round(&[x]).map(|mut y| y.remove(0)), ..))(&points()?)
}

/// The square with a replaced gradient, three times its input.
fn replaced() -> Result<Tensor> {
    let square = custom_vjp(
        "square",
        |x| Ok(vec![(x[0] * x[0]).done()?]),
        |x, _, ct| Ok(vec![Some((&ct[0] * x[0] * 3.0).done()?)]),
    );
    grad(|x: &Tensor| ops::sum(square(&[x]).map(|mut y| y.remove(0)), ..))(&points()?)
}

/// A rule that uses the result, for the first of two operands; the second gets no cotangent.
fn of_two_operands() -> Result<Tensor> {
    let f = custom_vjp(
        "exp_mul",
        |x| Ok(vec![(x[0].exp() * x[1]).done()?]),
        |_, y, ct| Ok(vec![Some((&ct[0] * y[0]).done()?), None]),
    );
    let sum = |x: &Vec<Tensor>| ops::sum(f(&[&x[0], &x[1]]).map(|mut y| y.remove(0)), ..);
    let found = grad(sum)(&vec![points()?, tensor([2.0f32, 3.0, 4.0])?])?;
    ops::concat(&found, 0).done()
}

/// The rule itself is differentiated.
fn twice() -> Result<Tensor> {
    let cube = custom_vjp(
        "cube",
        |x| Ok(vec![(x[0] * x[0] * x[0]).done()?]),
        |x, _, ct| Ok(vec![Some((&ct[0] * x[0] * x[0] * 3.0).done()?)]),
    );
    let first = |x: &Tensor| -> Result<Tensor> {
        let grads = grad(|x: &Tensor| ops::sum(cube(&[x]).map(|mut y| y.remove(0)), ..))(x)?;
        ops::sum(grads, ..).done()
    };
    grad(first)(&points()?)
}

/// Clips the cotangent.
fn clipped() -> Result<Tensor> {
    let clip = custom_vjp(
        "clip_gradient",
        |x| Ok(vec![x[0].clone()]),
        |_, _, ct| Ok(vec![Some(ops::clamp(&ct[0], -1.0, 1.0).done()?)]),
    );
    grad(|x: &Tensor| {
        let y = clip(&[x]).map(|mut y| y.remove(0))?;
        ops::sum(y.square(), ..).done()
    })(&points()?)
}

pub fn rows() -> Vec<NamedTest> {
    let named = |row, run, judge| NamedTest {
        dashboard: Dashboard::CustomGradients,
        row,
        run,
        judge,
    };
    vec![
        named("test_custom_vjp", replaced, |x| near(x, &[-4.5, 0.75, 6.0])),
        named("test_custom_vjp_of_two_operands", of_two_operands, |x| {
            let y = [-1.5f64, 0.25, 2.0].map(f64::exp);
            near(x, &[2.0 * y[0], 3.0 * y[1], 4.0 * y[2], 0.0, 0.0, 0.0])
        }),
        named("test_custom_vjp_twice", twice, |x| {
            near(x, &[-9.0, 1.5, 12.0])
        }),
        named("test_clipped_gradient", clipped, |x| {
            near(x, &[-1.0, 0.5, 1.0])
        }),
        named("test_straight_through", straight_through, |x| {
            near(x, &[1.0, 1.0, 1.0])
        }),
    ]
}
