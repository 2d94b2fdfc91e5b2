//! Optimiser update functions of one parameter (Ivy's API).
//!
//! Half precision is computed in f32 and rounded once, at the end. Norms are scaled, so that they neither overflow
//! nor underflow; their derivative at 0 is 0.

use super::{common, has_values, is_traced, real, safe_sqrt};
use clematis_core::expr::{Expr, IntoExpr};
use clematis_core::{DType, Result, Shape, Tensor, ensure, ops};

/// Lower bound of a denominator, so that ratios of norms stay finite.
const SMALLEST: f64 = 1e-12;

/// State and hyperparameters of Adam.
#[derive(Clone, Copy, Debug)]
pub struct Moments<'a> {
    /// The moving average of gradients.
    pub m: &'a Tensor,
    /// The moving average of squared gradients.
    pub v: &'a Tensor,
    /// The step number, from 1: a number or a tensor of one element.
    pub step: &'a Tensor,
    /// Decay rate of `m`.
    pub beta1: f64,
    /// Decay rate of `v`.
    pub beta2: f64,
    /// Added to the denominator.
    pub epsilon: f64,
}

/// The dtype to compute in.
fn wide(xs: &[&Tensor]) -> DType {
    let met = common(xs).accumulator();
    if met.is_inexact() { met } else { DType::FLOAT }
}

/// Checks that operands broadcast; an error names the function.
fn fitting(op: &str, xs: &[&Tensor]) -> Result<()> {
    let mut met = Shape::scalar();
    for x in xs {
        met = met.broadcast_with(x.shape(), op)?;
    }
    Ok(())
}

/// Casts to the dtype of the replaced operand; integers and numbers keep the computed dtype.
fn like(x: impl IntoExpr, old: &Tensor) -> Result<Tensor> {
    if old.dtype().is_inexact() && !old.is_weak() {
        ops::cast(x, old.dtype()).done()
    } else {
        x.into_expr().done()
    }
}

fn stopped(x: Result<Tensor>, stop: bool) -> Result<Tensor> {
    match stop {
        true => ops::stop_gradient(x).done(),
        false => x,
    }
}

/// `w - effective_grad lr`.
pub fn optimizer_update(w: &Tensor, grad: &Tensor, lr: &Tensor, stop: bool) -> Expr {
    descend("optimizer_update", w, grad, lr, stop).into()
}

/// The same as `optimizer_update`.
pub fn gradient_descent_update(w: &Tensor, grad: &Tensor, lr: &Tensor, stop: bool) -> Expr {
    descend("gradient_descent_update", w, grad, lr, stop).into()
}

fn descend(op: &str, w: &Tensor, grad: &Tensor, lr: &Tensor, stop: bool) -> Result<Tensor> {
    fitting(op, &[w, grad, lr])?;
    if !w.dtype().is_complex() {
        real(op, &[grad, lr])?;
    }
    let dtype = wide(&[w, grad, lr]);
    let moved = ops::cast(w, dtype) - ops::cast(grad, dtype) * ops::cast(lr, dtype);
    stopped(like(moved, w), stop)
}

/// Adam's update before the learning rate, and the new moments.
pub fn adam_step(grad: &Tensor, p: Moments<'_>) -> Result<[Tensor; 3]> {
    fitting("adam_step", &[grad, p.m, p.v])?;
    real("adam_step", &[grad, p.m, p.v, p.step])?;
    let dtype = wide(&[grad, p.m, p.v]);
    let [delta, m, v] = adam(grad, p, dtype)?;
    Ok([
        like(delta, grad)?,
        like(m, or(p.m, grad))?,
        like(v, or(p.v, grad))?,
    ])
}

/// Returns `x` unless it is a plain number.
fn or<'a>(x: &'a Tensor, other: &'a Tensor) -> &'a Tensor {
    if x.is_weak() { other } else { x }
}

/// Adam's update in one dtype, unrounded.
fn adam(grad: &Tensor, p: Moments<'_>, dtype: DType) -> Result<[Tensor; 3]> {
    let g = ops::cast(grad, dtype).done()?;
    let (old_m, old_v) = (ops::cast(p.m, dtype), ops::cast(p.v, dtype));
    let m = (old_m * p.beta1 + &g * (1.0 - p.beta1)).done()?;
    let v = (old_v * p.beta2 + ops::square(&g) * (1.0 - p.beta2)).done()?;
    let root = safe_sqrt(&v) + p.epsilon;
    let delta = (&m * correction(p, dtype)? / root).done()?;
    Ok([delta, m, v])
}

/// The bias correction √(1 - beta2ᵗ) / (1 - beta1ᵗ + epsilon).
fn correction(p: Moments<'_>, dtype: DType) -> Result<Tensor> {
    ensure!(
        p.step.shape().count_dim() == 1usize,
        Shape,
        "adam_step: expected a step of one element, got {}",
        p.step.spec()
    );
    if !is_traced(p.step) && has_values(p.step) {
        let t = p.step.item()?.as_f64();
        let factor = (1.0 - p.beta2.powf(t)).max(0.0).sqrt() / (1.0 - p.beta1.powf(t) + p.epsilon);
        return Ok(Tensor::scalar(factor, dtype));
    }
    let t = ops::reshape(ops::cast(p.step, dtype), ()).done()?;
    let rest = |beta: f64| 1.0 - ops::pow(Tensor::scalar(beta, dtype), &t);
    let above = rest(p.beta2).done()?;
    (safe_sqrt(&above) / (rest(p.beta1) + p.epsilon)).done()
}

/// An Adam update: the new parameter and the new moments.
pub fn adam_update(
    w: &Tensor,
    grad: &Tensor,
    lr: &Tensor,
    p: Moments<'_>,
    stop: bool,
) -> Result<[Tensor; 3]> {
    fitting("adam_update", &[w, grad, lr, p.m, p.v])?;
    real("adam_update", &[w, grad, lr, p.m, p.v, p.step])?;
    let dtype = wide(&[w, grad, lr, p.m, p.v]);
    let [delta, m, v] = adam(grad, p, dtype)?;
    let moved = ops::cast(w, dtype) - &delta * ops::cast(lr, dtype);
    Ok([
        stopped(like(moved, w), stop)?,
        like(m, or(p.m, w))?,
        like(v, or(p.v, w))?,
    ])
}

/// The largest absolute value as a constant, or 1 if all elements are zero.
fn largest(x: &Tensor) -> Result<Tensor> {
    if x.shape().count_dim() == 0usize {
        return ops::full_like(&ops::sum(x, ..).done()?, 1.0).done();
    }
    let most = ops::stop_gradient(ops::max(ops::abs(x), ..)).done()?;
    let usable = ops::greater(&most, 0.0).done()?;
    ops::where_(usable, &most, 1.0).done()
}

/// LARS update: the norm of the step is proportional to that of the parameter.
///
/// The decay divides: this is Ivy's formula, not the paper's. A parameter of zeros is not updated.
pub fn lars_update(w: &Tensor, grad: &Tensor, lr: &Tensor, decay: f64, stop: bool) -> Expr {
    let build = || -> Result<Tensor> {
        fitting("lars_update", &[w, grad, lr])?;
        real("lars_update", &[w, grad, lr])?;
        let dtype = wide(&[w, grad, lr]);
        let (wide_w, g) = (ops::cast(w, dtype).done()?, ops::cast(grad, dtype).done()?);
        // Norms in units of the largest element: near the dtype's maximum the norms themselves would overflow.
        let (unit_w, unit_g) = (largest(&wide_w)?, largest(&g)?);
        let own = ops::norm(&wide_w / &unit_w, ..).done()?;
        let scaled = (&g / &unit_g).done()?;
        let direction =
            &scaled / (ops::norm(&scaled, ..) + ops::full_like(&unit_g, SMALLEST) / &unit_g);
        let rate = ops::cast(lr, dtype);
        let moved = if decay > 0.0 {
            let some = ops::greater(&own, 0.0);
            let step = direction * (rate / decay);
            &wide_w - ops::where_(some, step, 0.0)
        } else {
            &wide_w - direction * (rate * &own) * &unit_w
        };
        stopped(like(moved, w), stop)
    };
    build().into()
}

/// LAMB update: Adam's step scaled by the ratio of parameter norm to step norm. Returns the new parameter and
/// moments.
#[allow(clippy::too_many_arguments)]
pub fn lamb_update(
    w: &Tensor,
    grad: &Tensor,
    lr: &Tensor,
    p: Moments<'_>,
    most: f64,
    decay: f64,
    stop: bool,
) -> Result<[Tensor; 3]> {
    fitting("lamb_update", &[w, grad, lr, p.m, p.v])?;
    real("lamb_update", &[w, grad, lr, p.m, p.v, p.step])?;
    let dtype = wide(&[w, grad, lr, p.m, p.v]);
    let [delta, m, v] = adam(grad, p, dtype)?;
    let wide_w = ops::cast(w, dtype).done()?;
    let step = if decay > 0.0 {
        (&delta + &wide_w * decay).done()?
    } else {
        delta.clone()
    };
    let ratio = ops::norm(&wide_w, ..) / (ops::norm(&step, ..) + SMALLEST);
    let moved = &wide_w - &delta * (ops::minimum(ratio, most) * ops::cast(lr, dtype));
    Ok([
        stopped(like(moved, w), stop)?,
        like(m, or(p.m, w))?,
        like(v, or(p.v, w))?,
    ])
}
