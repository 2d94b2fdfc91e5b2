//! Loss functions.

use super::{common, float, has_values, real};
use clematis_core::expr::{Expr, IntoExpr};
use clematis_core::ops::{self, IntoAxes};
use clematis_core::precondition::Precondition;
use clematis_core::{DType, Result, Tensor, bail, ensure};

/// The reduction of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// No reduction.
    None,
    /// The sum.
    Sum,
    /// The mean.
    Mean,
}

impl Reduction {
    /// Parses the name.
    pub fn from_word(op: &str, word: &str) -> Result<Self> {
        Ok(match word {
            "none" => Reduction::None,
            "sum" => Reduction::Sum,
            "mean" => Reduction::Mean,
            _ => bail!(
                Value,
                "{op}: expected reduction \"none\", \"sum\" or \"mean\", got \"{word}\""
            ),
        })
    }

    fn over(self, x: Expr, axes: impl IntoAxes) -> Expr {
        match self {
            Reduction::None => x,
            Reduction::Sum => ops::sum(x, axes),
            Reduction::Mean => ops::mean(x, axes),
        }
    }
}

/// Converts both to a float dtype wide enough to compute in; also returns the dtype of the result.
fn pair(op: &str, x: impl IntoExpr, y: impl IntoExpr) -> Result<(Tensor, Tensor, DType)> {
    let (x, y) = (x.into_expr().done()?, y.into_expr().done()?);
    x.shape().broadcast_with(y.shape(), op)?;
    let met = common(&[&x, &y]);
    let dtype = if met.is_inexact() { met } else { DType::FLOAT };
    let wide = dtype.accumulator();
    Ok((
        ops::cast(&x, wide).done()?,
        ops::cast(&y, wide).done()?,
        dtype,
    ))
}

/// How far rounding may move a probability outside of [0, 1]: less than one ulp of bfloat16 at 1.
const ROUNDING: f64 = 4e-3;

/// Clips probabilities away from 0 and 1, where the logarithm is infinite. Rejects concrete values that look like
/// logits.
fn clipped(op: &'static str, pred: &Tensor, epsilon: f64) -> Result<Tensor> {
    ensure!(
        (0.0..=0.5).contains(&epsilon),
        Value,
        "{op}: expected epsilon between 0 and 0.5, got {epsilon}"
    );
    if has_values(pred) {
        let rule = Precondition::Within {
            op,
            what: "pred",
            low: -ROUNDING,
            high: 1.0 + ROUNDING,
            above: false,
        };
        ops::require(pred, rule).map_err(|e| {
            e.note(format!(
                "pred holds probabilities in [0, 1]; for logits use {}",
                if op.starts_with("binary") {
                    "binary_cross_entropy_with_logits"
                } else {
                    "cross_entropy_with_logits"
                }
            ))
        })?;
    }
    ops::clamp(pred, epsilon, 1.0 - epsilon).done()
}

/// Cross entropy `-Σ true log(pred)` over an axis of probabilities.
pub fn cross_entropy(
    truth: impl IntoExpr,
    pred: impl IntoExpr,
    axis: i64,
    epsilon: f64,
    reduction: Reduction,
) -> Expr {
    entropy("cross_entropy", truth, pred, axis, epsilon, reduction).into()
}

fn entropy(
    op: &'static str,
    truth: impl IntoExpr,
    pred: impl IntoExpr,
    axis: i64,
    epsilon: f64,
    reduction: Reduction,
) -> Result<Tensor> {
    let (truth, pred, dtype) = pair(op, truth, pred)?;
    real(op, &[&truth, &pred])?;
    let pred = clipped(op, &pred, epsilon)?;
    ops::cast(-reduction.over(truth * ops::log(&pred), axis), dtype).done()
}

/// Cross entropy where the truth is a class label.
pub fn sparse_cross_entropy(
    truth: impl IntoExpr,
    pred: impl IntoExpr,
    axis: i64,
    epsilon: f64,
    reduction: Reduction,
) -> Expr {
    let build = || -> Result<Tensor> {
        let op = "sparse_cross_entropy";
        let (truth, pred) = (truth.into_expr().done()?, pred.into_expr().done()?);
        ensure!(
            truth.dtype().is_int(),
            DType,
            "{op}: expected integer class labels, got {}",
            truth.spec()
        );
        real(op, &[&pred])?;
        let pred = float(&pred)?;
        let at = pred.shape().axis(axis, op)?;
        let rows = pred.shape().without(&[at]);
        ensure!(
            *truth.shape() == rows,
            Shape,
            "{op}: the labels {} do not match the rows of {} along axis {axis}",
            truth.spec(),
            pred.spec()
        );
        let depth = pred.shape().dims()[at];
        let truth = ops::check_class_labels(op, &truth, at, depth)?;
        let hot = ops::one_hot(&truth, depth, pred.dtype());
        let hot = ops::move_axis(hot, -1, at as i64);
        entropy(op, hot, &pred, axis, epsilon, reduction)
    };
    build().into()
}

/// Binary cross entropy `-(true log(pred) + (1 - true) log(1 - pred))`.
pub fn binary_cross_entropy(
    truth: impl IntoExpr,
    pred: impl IntoExpr,
    epsilon: f64,
    reduction: Reduction,
) -> Expr {
    let build = || -> Result<Tensor> {
        let (truth, pred, dtype) = pair("binary_cross_entropy", truth, pred)?;
        real("binary_cross_entropy", &[&truth, &pred])?;
        let pred = clipped("binary_cross_entropy", &pred, epsilon)?;
        let loss = &truth * ops::log(&pred) + (1.0 - &truth) * ops::log1p(-&pred);
        ops::cast(-reduction.over(loss, ..), dtype).done()
    };
    build().into()
}

/// Binary cross entropy of logits, without overflow; positive cases are weighted by `pos_weight`.
pub fn binary_cross_entropy_with_logits(
    truth: impl IntoExpr,
    logits: impl IntoExpr,
    pos_weight: Option<&Tensor>,
    reduction: Reduction,
) -> Expr {
    let build = || -> Result<Tensor> {
        let (truth, x, dtype) = pair("binary_cross_entropy_with_logits", truth, logits)?;
        real("binary_cross_entropy_with_logits", &[&truth, &x])?;
        let loss = match pos_weight {
            Some(w) => {
                let weight = (ops::cast(w, x.dtype()) - 1.0) * &truth + 1.0;
                (1.0 - &truth) * &x + weight * ops::softplus(-&x)
            }
            None => (1.0 - &truth) * &x + ops::softplus(-&x),
        };
        ops::cast(reduction.over(loss, ..), dtype).done()
    };
    build().into()
}

/// `|pred - true|`.
pub fn l1_loss(truth: impl IntoExpr, pred: impl IntoExpr, reduction: Reduction) -> Expr {
    let build = || -> Result<Tensor> {
        let (x, y, dtype) = pair("l1_loss", truth, pred)?;
        ops::cast(reduction.over(ops::abs(x - y), ..), dtype).done()
    };
    build().into()
}

/// `(pred - true)²`.
pub fn mse_loss(truth: impl IntoExpr, pred: impl IntoExpr, reduction: Reduction) -> Expr {
    let build = || -> Result<Tensor> {
        let (x, y, dtype) = pair("mse_loss", truth, pred)?;
        ops::cast(reduction.over(ops::square(x - y), ..), dtype).done()
    };
    build().into()
}

/// Huber loss: half the square up to `delta`, linear beyond.
pub fn huber_loss(
    truth: impl IntoExpr,
    pred: impl IntoExpr,
    delta: f64,
    reduction: Reduction,
) -> Expr {
    let build = || -> Result<Tensor> {
        ensure!(
            delta > 0.0,
            Value,
            "huber_loss: expected a positive delta, got {delta}"
        );
        let (x, y, dtype) = pair("huber_loss", truth, pred)?;
        ops::cast(reduction.over(ops::huber_loss(x, y, delta), ..), dtype).done()
    };
    build().into()
}

/// Huber loss divided by `beta`, so that the gradient of the linear part is 1; a `beta` of 0 gives `l1_loss`.
pub fn smooth_l1_loss(
    truth: impl IntoExpr,
    pred: impl IntoExpr,
    beta: f64,
    reduction: Reduction,
) -> Expr {
    if beta == 0.0 {
        return l1_loss(truth, pred, reduction);
    }
    let build = || -> Result<Tensor> {
        ensure!(
            beta > 0.0,
            Value,
            "smooth_l1_loss: expected a non-negative beta, got {beta}"
        );
        let (x, y, dtype) = pair("smooth_l1_loss", truth, pred)?;
        let loss = ops::huber_loss(x, y, beta) / beta;
        ops::cast(reduction.over(loss, ..), dtype).done()
    };
    build().into()
}
