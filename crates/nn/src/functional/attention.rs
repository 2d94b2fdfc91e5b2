//! Scaled dot-product and multi-head attention.

use super::{common, real};
use clematis_core::expr::Expr;
use clematis_core::{DType, Dim, Result, Shape, Tensor, ensure, ops};

/// `softmax(q kᵀ scale) v`; positions where `mask` is 0 are masked out.
///
/// A fully masked row gives the mean of `v`. Integers are computed in f64.
pub fn scaled_dot_product_attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    scale: &Tensor,
    mask: Option<&Tensor>,
) -> Expr {
    attend("scaled_dot_product_attention", q, k, v, scale, mask).into()
}

fn attend(
    op: &str,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    scale: &Tensor,
    mask: Option<&Tensor>,
) -> Result<Tensor> {
    for x in [q, k, v] {
        ensure!(
            x.rank() >= 2,
            Shape,
            "{op}: expected axes of length and features, got {}",
            x.spec()
        );
    }
    let last = |x: &Tensor, back: usize| x.shape().dims()[x.rank() - back];
    ensure!(
        last(q, 1) == last(k, 1),
        Shape,
        "{op}: queries {} and keys {} differ in width: {} and {}",
        q.spec(),
        k.spec(),
        last(q, 1),
        last(k, 1)
    );
    ensure!(
        last(k, 2) == last(v, 2),
        Shape,
        "{op}: {} keys {} and {} values {}",
        last(k, 2),
        k.spec(),
        last(v, 2),
        v.spec()
    );
    real(op, &[q, k, v, scale])?;
    let met = common(&[q, k, v]);
    let dtype = if met.is_float() { met } else { DType::F64 };
    let batch_of = |x: &Tensor| Shape::from_dims(x.shape().dims()[..x.rank() - 2].iter().copied());
    let batch = batch_of(q)
        .broadcast_with(&batch_of(k), op)?
        .broadcast_with(&batch_of(v), op)?;
    let ready = |x: &Tensor| -> Result<Tensor> {
        let x = ops::cast(x, dtype).done()?;
        if batch_of(&x) == batch {
            return Ok(x);
        }
        let matrix = Shape::from_dims([last(&x, 2), last(&x, 1)]);
        ops::broadcast_to(&x, batch.join(&matrix)).done()
    };
    let (q, k, v) = (ready(q)?, ready(k)?, ready(v)?);
    let wide = dtype.accumulator();
    if let (None, Some(scale)) = (mask, scale.as_number()) {
        return ops::attention(&q, &k, &v, None, scale.as_f64(), false).done();
    }
    let (q, k, v) = (
        ops::cast(&q, wide),
        ops::cast(&k, wide),
        ops::cast(&v, wide),
    );
    let scores = ops::matmul(q * ops::cast(scale, wide), ops::matrix_transpose(k)).done()?;
    let scores = match mask {
        Some(mask) => {
            let fits = mask.rank() >= 2
                && last(mask, 1) == last(&scores, 1)
                && last(mask, 2) == last(&scores, 2)
                && batch_of(mask).broadcast(&batch).is_some_and(|s| s == batch);
            ensure!(
                fits,
                Shape,
                "{op}: the mask {} does not match {} queries and {} keys in a batch of {batch:?}",
                mask.spec(),
                last(&scores, 2),
                last(&scores, 1)
            );
            // The lowest finite number, so that a fully masked row is uniform, not NaN.
            let lowest = match wide {
                DType::F64 => f64::MIN,
                _ => f64::from(f32::MIN),
            };
            ops::where_(ops::not_equal(mask, 0), &scores, lowest).done()?
        }
        None => scores,
    };
    ops::cast(ops::matmul(ops::softmax(&scores, -1), v), dtype).done()
}

/// Multi-head attention: the last axis of queries, keys and values holds `heads` heads.
pub fn attention_of_heads(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    scale: &Tensor,
    heads: usize,
    mask: Option<&Tensor>,
) -> Expr {
    let build = || -> Result<Tensor> {
        let op = "multi_head_attention";
        let width = |x: &Tensor| x.shape().dims().last().copied().unwrap_or(Dim::number(0));
        ensure!(
            width(q) == width(k),
            Shape,
            "{op}: queries {} and keys {} differ in width: {} and {}",
            q.spec(),
            k.spec(),
            width(q),
            width(k)
        );
        let mask = match mask {
            Some(mask) => {
                ensure!(
                    mask.rank() >= 2,
                    Shape,
                    "{op}: expected a mask with axes of queries and keys, got {}",
                    mask.spec()
                );
                Some(ops::expand_dims(mask, -3).done()?)
            }
            None => None,
        };
        let (q, k, v) = (
            split(op, q, heads)?,
            split(op, k, heads)?,
            split(op, v, heads)?,
        );
        let out = attend(op, &q, &k, &v, scale, mask.as_ref())?;
        // Merges [… heads, length, features] to [… length, heads·features].
        let rank = out.rank();
        let dims = out.shape().dims();
        let flat = dims[..rank - 3]
            .iter()
            .copied()
            .chain([dims[rank - 2], dims[rank - 3] * dims[rank - 1]]);
        ops::reshape(ops::swap_axes(&out, -2, -3), Shape::from_dims(flat)).done()
    };
    build().into()
}

/// Splits [… length, heads·features] to [… heads, length, features].
fn split(op: &str, x: &Tensor, heads: usize) -> Result<Tensor> {
    let rank = x.rank();
    ensure!(
        rank >= 2,
        Shape,
        "{op}: expected axes of length and features, got {}",
        x.spec()
    );
    let width = x.shape().dims()[rank - 1];
    ensure!(
        heads > 0 && width.rem(Dim::from(heads))? == 0usize,
        Shape,
        "{op}: {width} features of {} are not divisible into {heads} heads",
        x.spec()
    );
    let wide = x
        .shape()
        .with(rank - 1, heads)
        .insert(rank, width.floor_div(Dim::from(heads))?);
    ops::swap_axes(ops::reshape(x, &wide), -2, -3).done()
}

/// Splits the last axis into two equal parts.
pub fn split_last(op: &str, x: &Tensor) -> Result<(Tensor, Tensor)> {
    let width = x.shape().dims().last().copied().unwrap_or(Dim::number(1));
    ensure!(
        x.rank() > 0 && width.rem(Dim::number(2))? == 0usize,
        Shape,
        "{op}: expected an even number of features for keys and values, got {width} in {}",
        x.spec()
    );
    let half = width.floor_div(Dim::number(2))?;
    let low = ops::slice_axis(x, -1, Dim::number(0), half).done()?;
    Ok((low, ops::slice_axis(x, -1, half, width).done()?))
}
