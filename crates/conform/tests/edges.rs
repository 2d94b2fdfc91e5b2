//! Derivatives at zeros, ties and infinities: finite wherever a finite answer makes sense.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy knows test functions, not what they call

use clematis_conform::Array;
use clematis_core::autodiff::{jvp, vjp};
use clematis_core::ops::{self, Ops};
use clematis_core::{Result, Tensor};

// Links the engine.
use clematis_native as _;

const INF: f64 = f64::INFINITY;

fn floats(values: &[f64]) -> Tensor {
    ops::from_slice(values, [values.len()]).unwrap()
}

fn all(x: &Tensor) -> Vec<f64> {
    Array::from_tensor(x)
        .unwrap()
        .values
        .iter()
        .map(|v| v.re())
        .collect()
}

/// Checks the gradient of the sum of `f` at `x`, in both modes.
#[track_caller]
fn gradient(f: impl Fn(&Tensor) -> Result<Tensor>, x: &[f64], want: &[f64]) {
    let x = floats(x);
    let (y, pull) = vjp(&f, &x).unwrap();
    let back = all(&pull.call(&ops::ones_like(&y).done().unwrap()).unwrap());
    assert_same("reverse", &back, want);
    let ahead: Vec<f64> = (0..want.len())
        .map(|i| {
            let mut unit = vec![0.0; want.len()];
            unit[i] = 1.0;
            let (_, dy) = jvp(&f, &x, &floats(&unit)).unwrap();
            all(&dy).iter().sum()
        })
        .collect();
    assert_same("forward", &ahead, want);
}

#[track_caller]
fn assert_same(mode: &str, got: &[f64], want: &[f64]) {
    let same = got
        .iter()
        .zip(want)
        .all(|(g, w)| g == w || (g - w).abs() <= 1e-12 * w.abs().max(1.0));
    assert!(
        same && got.len() == want.len(),
        "{mode}: expected {want:?}, got {got:?}"
    );
}

#[test]
fn subgradients_at_a_corner_are_averaged() {
    gradient(|x| x.abs().done(), &[0.0, -0.0], &[0.0, 0.0]);
    gradient(|x| ops::relu(x).done(), &[0.0, -1.0, 1.0], &[0.0, 0.0, 1.0]);
    let tie = |x: &Tensor| {
        let (a, b) = (ops::slice_axis(x, 0, 0, 1), ops::slice_axis(x, 0, 1, 2));
        ops::maximum(a, b).done()
    };
    gradient(tie, &[2.0, 2.0], &[0.5, 0.5]);
    gradient(
        |x| ops::max(x, 0).done(),
        &[1.0, 3.0, 3.0],
        &[0.0, 0.5, 0.5],
    );
    gradient(
        |x| ops::min(x, 0).done(),
        &[1.0, 1.0, 3.0],
        &[0.5, 0.5, 0.0],
    );
    gradient(|x| ops::hypot(x, x * 0.0).done(), &[0.0], &[0.0]);
}

#[test]
fn powers_of_zero_and_zeroth_powers() {
    gradient(|x| x.pow(2.0).done(), &[0.0, -1.5], &[0.0, -3.0]);
    gradient(|x| x.pow(1.0).done(), &[0.0], &[1.0]);
    gradient(|x| x.pow(0.0).done(), &[0.0, 2.0], &[0.0, 0.0]);
    gradient(|x| ops::pow(2.0, x).done(), &[0.0], &[2f64.ln()]);
    gradient(|x| ops::pow(x * 0.0, x).done(), &[2.0], &[0.0]);
    gradient(|x| x.pow(3.0).done(), &[-2.0], &[12.0]);
}

#[test]
fn products_with_zeros_keep_the_zeros_gradient() {
    gradient(
        |x| ops::prod(x, 0).done(),
        &[2.0, 0.0, 3.0],
        &[0.0, 6.0, 0.0],
    );
    gradient(
        |x| ops::prod(x, 0).done(),
        &[0.0, 0.0, 3.0],
        &[0.0, 0.0, 0.0],
    );
    gradient(
        |x| ops::cumprod(x, 0).done(),
        &[2.0, 0.0, 3.0],
        &[1.0, 8.0, 0.0],
    );
}

#[test]
fn masked_elements_have_zero_gradients() {
    gradient(|x| ops::logsumexp(x, 0).done(), &[-INF, 1.0], &[0.0, 1.0]);
    gradient(|x| ops::logsumexp(x, 0).done(), &[-INF, -INF], &[0.0, 0.0]);
    let first = |x: &Tensor| ops::slice_axis(ops::softmax(x, 0), 0, 1, 2).done();
    gradient(first, &[-INF, 0.0, 0.0], &[0.0, 0.25, -0.25]);
    let last = |x: &Tensor| {
        let all = ops::cumulative(clematis_core::op::CumulativeKind::LogSumExp, x, 0, false);
        ops::slice_axis(all, 0, 2, 3).done()
    };
    gradient(last, &[-INF, 0.0, 0.0], &[0.0, 0.5, 0.5]);
    let every = |x: &Tensor| {
        ops::cumulative(clematis_core::op::CumulativeKind::LogSumExp, x, 0, false).done()
    };
    gradient(every, &[-INF, 0.0], &[0.0, 1.0]);
    let masked = |x: &Tensor| {
        let hidden = ops::where_(ops::less(x, 0.0), -INF, x);
        ops::logaddexp(hidden, 0.0).done()
    };
    gradient(masked, &[-1.0, 0.0], &[0.0, 0.5]);
}

#[test]
fn the_branch_not_taken_does_not_affect_gradients() {
    // The usual idiom to keep a function out of its undefined domain.
    let safe = |x: &Tensor| {
        let fine = ops::greater(x, 0.0).done()?;
        let inside = ops::where_(&fine, x, 1.0).done()?;
        ops::where_(&fine, inside.log(), 0.0).done()
    };
    gradient(safe, &[-1.0, 0.0, 2.0], &[0.0, 0.0, 0.5]);
    gradient(|x| ops::elu(x, 1.0).done(), &[900.0, -900.0], &[1.0, 0.0]);
    gradient(|x| ops::softplus(x).done(), &[900.0, -900.0], &[1.0, 0.0]);
    gradient(|x| ops::sigmoid(x).done(), &[900.0, -900.0], &[0.0, 0.0]);
    gradient(
        |x| ops::log_sigmoid(x).done(),
        &[900.0, -900.0],
        &[0.0, 1.0],
    );
    gradient(|x| ops::mish(x).done(), &[900.0, -900.0], &[1.0, 0.0]);
    gradient(|x| ops::silu(x).done(), &[900.0, -900.0], &[1.0, 0.0]);
    gradient(
        |x| ops::gelu(x, false).done(),
        &[900.0, -900.0],
        &[1.0, 0.0],
    );
    gradient(|x| ops::gelu(x, true).done(), &[900.0, -900.0], &[1.0, 0.0]);
    gradient(|x| x.tanh().done(), &[900.0, INF], &[0.0, 0.0]);
}

#[test]
fn norms_and_losses_at_zero() {
    gradient(|x| ops::norm(x, ..).done(), &[3.0, 4.0], &[0.6, 0.8]);
    gradient(
        |x| ops::huber_loss(x, 0.0, 1.0).done(),
        &[0.0, 3.0],
        &[0.0, 1.0],
    );
    gradient(
        |x| ops::binary_cross_entropy(x, ops::sigmoid(x).stop_gradient()).done(),
        &[50.0, -50.0],
        &[0.0, 0.0],
    );
}

#[test]
fn sorting_moves_derivatives_along() {
    let weighted = |x: &Tensor| (ops::sort(x, 0, false) * floats(&[1.0, 10.0, 100.0])).done();
    gradient(weighted, &[3.0, 1.0, 2.0], &[100.0, 1.0, 10.0]);
    // Ties keep their order.
    gradient(weighted, &[2.0, 2.0, 1.0], &[10.0, 100.0, 1.0]);
    gradient(
        |x| ops::median(x, 0).done(),
        &[3.0, 1.0, 2.0],
        &[0.0, 0.0, 1.0],
    );
}

#[test]
fn colliding_scatters_share_gradients() {
    use clematis_core::op::ScatterKind;
    let at = ops::from_slice(&[1i64, 1, 0], [3usize]).unwrap();
    let onto = |kind: ScatterKind| {
        let at = at.clone();
        move |x: &Tensor| ops::put(kind, floats(&[1.0, 2.0, 3.0]), &at, x, 0).done()
    };
    gradient(onto(ScatterKind::Add), &[5.0, 6.0, 7.0], &[1.0, 1.0, 1.0]);
    // The last write wins.
    gradient(onto(ScatterKind::Set), &[5.0, 6.0, 7.0], &[0.0, 1.0, 1.0]);
    gradient(onto(ScatterKind::Mul), &[5.0, 0.0, 7.0], &[0.0, 10.0, 1.0]);
    gradient(onto(ScatterKind::Max), &[6.0, 6.0, 0.5], &[0.5, 0.5, 0.0]);
}
