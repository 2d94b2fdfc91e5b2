//! Softmax, logsumexp and cross entropy.

use super::in_f32;
use crate::dim::Dim;
use crate::dtype::DType;
use crate::ensure;
use crate::error::Result;
use crate::ops::{self, Ops};
use crate::shape::Axes;
use crate::tensor::Tensor;

/// The maximum along some axes, kept as size 1; zeros for empty axes.
fn tops(x: &Tensor, axes: &Axes) -> Result<Tensor> {
    let list: Vec<i64> = axes.iter().map(|&a| a as i64).collect();
    if axes.iter().any(|&a| x.shape().dims()[a] == 0usize) {
        return ops::keepdims(x, list, ops::sum).done();
    }
    ops::keepdims(x, list, ops::max).stop_gradient().done()
}

/// x minus its maximum along an axis. A row with an infinite maximum becomes NaN, as in other frameworks.
fn shifted(x: &Tensor, axis: usize) -> Result<Tensor> {
    (x - tops(x, &[axis].into())?).done()
}

/// exp(x), scaled to sum to one along an axis.
pub fn softmax(x: &Tensor, axis: usize) -> Result<Tensor> {
    let e = shifted(x, axis)?.exp().done()?;
    (&e / e.sum_keepdims(axis)).done()
}

/// log(softmax(x)).
pub fn log_softmax(x: &Tensor, axis: usize) -> Result<Tensor> {
    let x = shifted(x, axis)?;
    (&x - x.exp().sum_keepdims(axis).log()).done()
}

/// log of the sum of exp(x).
pub fn logsumexp(x: &Tensor, axes: &Axes) -> Result<Tensor> {
    let top = tops(x, axes)?;
    // inf - inf would be NaN where the sum is infinite, or 0 where all are -inf.
    let top = ops::where_(ops::isinf(&top), 0.0, &top)
        .cast(x.dtype())
        .done()?;
    let sum = (x - &top).exp().sum(axes).log();
    (sum + top.reshape(x.shape().without(axes))).done()
}

/// -log softmax at the label, along the last axis; one value per row.
pub fn cross_entropy(logits: &Tensor, labels: &Tensor) -> Result<Tensor> {
    let rank = logits.rank();
    ensure!(
        rank > 0
            && labels.rank() + 1 == rank
            && labels.shape().dims() == &logits.shape().dims()[..rank - 1],
        Shape,
        "cross_entropy: labels {} do not match the rows of {}",
        labels.spec(),
        logits.spec()
    );
    in_f32(logits, |logits| {
        let log = ops::composites::log_softmax(&logits, -1).done()?;
        let at = ops::expand_dims(labels, -1).done()?;
        let at = ops::cast(at, DType::INDEX).done()?;
        let picked = ops::index::take_along_unchecked(&log, &at, rank - 1)?;
        (-ops::squeeze(picked, -1)).done()
    })
}

/// One-hot encoding along a new last axis.
pub fn one_hot(indices: &Tensor, depth: Dim, dtype: DType) -> Result<Tensor> {
    let shape = indices.shape().insert(indices.rank(), depth);
    shape.check("one_hot")?;
    let places = ops::create::iota_like(indices, &shape, indices.rank(), DType::INDEX);
    ops::equal(
        ops::expand_dims(ops::cast(indices, DType::INDEX), -1),
        places,
    )
    .cast(dtype)
    .done()
}
