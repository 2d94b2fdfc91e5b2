//! Bilinear layers, and embeddings with a padding index.

use super::{common, linear};
use clematis_core::expr::{Expr, IntoExpr};
use clematis_core::{Result, Tensor, ensure, ops};

/// `x1 weight x2 + bias` over the last axes: `weight` is `[out, in1, in2]`, `bias` is `[out]`.
pub fn bilinear(x1: &Tensor, x2: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Expr {
    let build = || -> Result<Tensor> {
        let op = "bilinear";
        let last = |x: &Tensor| x.shape().dims().last().copied();
        let ws = weight.shape().dims();
        let fits = weight.rank() == 3 && last(x1) == Some(ws[1]) && last(x2) == Some(ws[2]);
        ensure!(
            fits,
            Shape,
            "{op}: {} and {} do not match the weight {} [out, in1, in2]",
            x1.spec(),
            x2.spec(),
            weight.spec()
        );
        let same = x1.rank() == x2.rank()
            && x1.shape().dims()[..x1.rank() - 1] == x2.shape().dims()[..x2.rank() - 1];
        ensure!(
            same,
            Shape,
            "{op}: {} and {} differ before the last axis",
            x1.spec(),
            x2.spec()
        );
        if let Some(b) = bias {
            ensure!(
                b.rank() == 1 && b.shape().dims()[0] == ws[0],
                Shape,
                "{op}: the bias {} does not match the weight {} [out, in1, in2]",
                b.spec(),
                weight.spec()
            );
        }
        let mut all = vec![x1, x2, weight];
        all.extend(bias);
        let dtype = common(&all);
        let cast = |x: &Tensor| ops::cast(x, dtype).done();
        let (x1, x2, w) = (cast(x1)?, cast(x2)?, cast(weight)?);
        // Contracts x1 with the weight to one matrix [out, in2] per example, then contracts that with x2.
        let rows = ops::tensordot(&x1, &w, &[-1], &[1]).done()?;
        let y = ops::matmul(&rows, ops::expand_dims(&x2, -1));
        let y = ops::squeeze(y, -1);
        match bias {
            Some(b) => (y + cast(b)?).done(),
            None => y.done(),
        }
    };
    build().into()
}

/// Embedding lookup; the row with index `padding` is zeros and gets no gradient.
pub fn padded_embedding(
    table: impl IntoExpr,
    indices: impl IntoExpr,
    max_norm: Option<f64>,
    padding: Option<i64>,
) -> Expr {
    let Some(padding) = padding else {
        return linear::embedding(table, indices, max_norm);
    };
    table.into_expr().then(|table| {
        indices.into_expr().then(|indices| -> Result<Tensor> {
            let op = "embedding";
            ensure!(
                table.rank() == 2,
                Shape,
                "{op}: expected a table [rows, features], got {}",
                table.spec()
            );
            let rows = table.shape().known_size(0, op)? as i64;
            ensure!(
                (-rows..rows).contains(&padding),
                Value,
                "{op}: padding_idx {padding} is out of range for {rows} rows"
            );
            let padding = if padding < 0 { padding + rows } else { padding };
            let found = linear::embedding(&table, &indices, max_norm).done()?;
            let is_padding = ops::expand_dims(ops::equal(&indices, padding), -1);
            ops::where_(is_padding, ops::cast(0, found.dtype()), &found).done()
        })
    })
}
