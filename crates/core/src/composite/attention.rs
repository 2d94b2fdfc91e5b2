//! Linear layers, embedding, attention and dropout.

use super::in_f32;
use crate::dtype::DType;
use crate::ensure;
use crate::error::Result;
use crate::op::Dot;
use crate::ops::{self, Ops};
use crate::shape::Axes;
use crate::tensor::Tensor;

/// x wᵀ + b over the last axis.
pub fn linear(x: &Tensor, w: &Tensor, b: Option<&Tensor>) -> Result<Tensor> {
    ensure!(
        x.rank() >= 1 && w.rank() == 2 && x.shape().dims()[x.rank() - 1] == w.shape().dims()[1],
        Shape,
        "linear: the last axis of {} does not match the weight {} [out, in]",
        x.spec(),
        w.spec()
    );
    let p = Dot {
        lhs_batch: Axes::default(),
        rhs_batch: Axes::default(),
        lhs_contract: [x.rank() - 1].into(),
        rhs_contract: [1].into(),
    };
    let y = ops::dot_general(x, w, p);
    match b {
        Some(b) => (y + b).done(),
        None => y.done(),
    }
}

/// Rows of a table by index; negative indices count from the end. Indices must be in range.
pub fn embedding(table: &Tensor, indices: &Tensor) -> Result<Tensor> {
    ensure!(
        table.rank() > 0,
        Shape,
        "embedding: expected a table with rows, got {}",
        table.spec()
    );
    ensure!(
        indices.dtype().is_int(),
        DType,
        "embedding: expected integer indices, got {}",
        indices.spec()
    );
    let indices = match table.shape().dims()[0].value() {
        Some(rows) => {
            let indices = ops::cast(indices, DType::INDEX).done()?;
            ops::where_(ops::less(&indices, 0), &indices + rows, &indices).done()?
        }
        None => ops::index::in_range("embedding", indices, 0, table.shape().dims()[0])?,
    };
    ops::index::take_unchecked(table, &indices, 0)
}

/// softmax(q kᵀ scale) v. Rows that are masked entirely give zeros.
pub fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    scale: f64,
    causal: bool,
) -> Result<Tensor> {
    for x in [q, k, v] {
        ensure!(
            x.rank() >= 2 && x.rank() == q.rank() && x.dtype() == q.dtype(),
            Shape,
            "attention: q {}, k {} and v {} do not match",
            q.spec(),
            k.spec(),
            v.spec()
        );
    }
    let wide = q.dtype().accumulator();
    let scores = ops::matmul(q.cast(wide) * scale, k.cast(wide).matrix_transpose()).done()?;
    let mut keep: Option<Tensor> = None;
    let mut scores = scores;
    if let Some(mask) = mask {
        if mask.dtype() == DType::Bool {
            keep = Some(mask.clone());
        } else {
            scores = (&scores + mask.cast(wide)).done()?;
        }
    }
    if causal {
        let lower = ops::shape::triangle(&scores, 0).done()?;
        keep = Some(match keep {
            Some(keep) => ops::logical_and(&keep, &lower).done()?,
            None => lower,
        });
    }
    let weights = match &keep {
        None => ops::composites::softmax(&scores, -1).done()?,
        Some(keep) => {
            let hidden = ops::where_(keep, &scores, f64::NEG_INFINITY).done()?;
            let weights = ops::composites::softmax(&hidden, -1).done()?;
            // A fully masked row would be NaN.
            let some = ops::keepdims(keep, -1, ops::any);
            ops::where_(some, &weights, 0.0).done()?
        }
    };
    ops::matmul(&weights, v.cast(wide)).cast(q.dtype()).done()
}

/// Zeroes a fraction `rate` of the elements and scales the rest by 1 / (1 - rate).
pub fn dropout(x: &Tensor, key: &Tensor, rate: f64) -> Result<Tensor> {
    ensure!(
        (0.0..=1.0).contains(&rate),
        Value,
        "dropout: rate {rate} is not between 0 and 1"
    );
    if rate == 0.0 {
        return Ok(x.clone());
    }
    if rate == 1.0 {
        // Not x * 0, which is NaN where x is infinite or NaN.
        return ops::zeros_like(x).done();
    }
    let uniform = ops::bits::unit_uniform(key, DType::F32, x.shape())?;
    let keep = ops::greater_equal(&uniform, rate).done()?;
    in_f32(x, |x| {
        ops::where_(&keep, &x * (1.0 / (1.0 - rate)), 0.0).done()
    })
}
