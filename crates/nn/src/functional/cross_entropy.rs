//! Cross entropy of logits.

use super::loss::Reduction;
use super::{common, float};
use clematis_core::expr::{Expr, IntoExpr};
use clematis_core::{DType, Result, Tensor, ensure, ops};

/// `-Σ true log(softmax(logits))` over an axis: one loss per row, then reduced over rows.
///
/// `true` holds probabilities in the shape of the logits, or class labels without that axis.
pub fn cross_entropy_with_logits(
    truth: impl IntoExpr,
    logits: impl IntoExpr,
    axis: i64,
    reduction: Reduction,
) -> Expr {
    let build = || -> Result<Tensor> {
        let op = "cross_entropy_with_logits";
        let (truth, logits) = (
            truth.into_expr().done()?,
            float(&logits.into_expr().done()?)?,
        );
        let at = logits.shape().axis(axis, op)?;
        let rows = logits.shape().without(&[at]);
        let is_number = truth.dtype().is_int() && *truth.shape() == rows;
        ensure!(
            is_number || truth.shape() == logits.shape(),
            Shape,
            "{op}: expected class labels {rows:?} or probabilities like {1}, got {0}",
            truth.spec(),
            logits.spec()
        );
        let met = if is_number {
            logits.dtype()
        } else {
            common(&[&truth, &logits])
        };
        let dtype = if met.is_inexact() { met } else { DType::FLOAT };
        let wide = ops::cast(&logits, dtype.accumulator()).done()?;
        let loss = match is_number {
            true => {
                let truth = ops::check_class_labels(op, &truth, at, logits.shape().dims()[at])?;
                ops::cross_entropy(ops::move_axis(&wide, at as i64, -1), &truth)
            }
            false => {
                let truth = ops::cast(&truth, wide.dtype());
                -ops::sum(truth * ops::log_softmax(&wide, at as i64), at as i64)
            }
        };
        let loss = match reduction {
            Reduction::None => loss,
            Reduction::Sum => ops::sum(loss, ..),
            Reduction::Mean => ops::mean(loss, ..),
        };
        ops::cast(loss, dtype).done()
    };
    build().into()
}
