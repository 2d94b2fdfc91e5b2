//! Linear layers and embeddings.

use super::common;
use clematis_core::expr::{Expr, IntoExpr};
use clematis_core::op::Dot;
use clematis_core::{Axes, Dim, Result, Shape, Tensor, ensure, ops};

/// `x weightᵀ + bias` over the last axis.
///
/// A weight of more than two axes is a batch of matrices, batched over the leading axes of `x`.
pub fn linear(x: impl IntoExpr, weight: impl IntoExpr, bias: Option<&Tensor>) -> Expr {
    x.into_expr().then(|x| {
        weight.into_expr().then(|w| -> Result<Tensor> {
            if let Some(b) = bias {
                check_bias(&w, b)?;
                if b.dtype() != x.dtype() || w.dtype() != x.dtype() {
                    let dtype = common(&[&x, &w, b]);
                    let [x, w, b] = [&x, &w, b].map(|t| ops::cast(t, dtype).done());
                    return apply(&x?, &w?, Some(&b?)).done();
                }
            }
            apply(&x, &w, bias).done()
        })
    })
}

fn check_bias(w: &Tensor, b: &Tensor) -> Result<()> {
    let (ws, bs) = (w.shape().dims(), b.shape().dims());
    let outer = ws.len().saturating_sub(2);
    let fits = bs.len() == outer + 1
        && ws.len() >= 2
        && bs[outer] == ws[outer]
        && bs[..outer]
            .iter()
            .zip(ws)
            .all(|(b, w)| b == w || *b == 1usize);
    ensure!(
        fits,
        Shape,
        "linear: the bias {} does not match the weight {} [outer…, out, in]",
        b.spec(),
        w.spec()
    );
    Ok(())
}

fn apply(x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Expr {
    if w.rank() == 2 {
        return ops::linear(x, w, bias);
    }
    batched(x, w, bias).into()
}

fn batched(x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let outer = w.rank().saturating_sub(2);
    let fits = w.rank() > 2
        && x.rank() > outer
        && x.shape().dims()[x.rank() - 1] == w.shape().dims()[w.rank() - 1];
    ensure!(
        fits,
        Shape,
        "linear: {} does not match the weight {} [outer…, out, in]",
        x.spec(),
        w.spec()
    );
    let (xs, ws) = (x.shape().dims(), w.shape().dims());
    let part = |dims: &[Dim]| Shape::from_dims(dims.iter().copied());
    let batch = part(&xs[..outer]).broadcast_with(&part(&ws[..outer]), "linear")?;
    let x = ops::broadcast_to(x, batch.join(&part(&xs[outer..]))).done()?;
    let w = ops::broadcast_to(w, batch.join(&part(&ws[outer..]))).done()?;
    let y = ops::dot_general(
        &x,
        &w,
        Dot {
            lhs_batch: Axes::all(outer),
            rhs_batch: Axes::all(outer),
            lhs_contract: [x.rank() - 1].into(),
            rhs_contract: [outer + 1].into(),
        },
    );
    let Some(bias) = bias else {
        return y.done();
    };
    let bs = bias.shape().dims();
    let inner = std::iter::repeat_n(Dim::number(1), x.rank() - outer - 1);
    let along = bs[..outer].iter().copied().chain(inner).chain([bs[outer]]);
    (y + ops::reshape(bias, Shape::from_dims(along))).done()
}

/// Embedding lookup; rows with a norm above `max_norm` are rescaled to it.
pub fn embedding(table: impl IntoExpr, indices: impl IntoExpr, max_norm: Option<f64>) -> Expr {
    let rows = ops::embedding(table, indices);
    let Some(most) = max_norm else {
        return rows;
    };
    rows.then(|rows| -> Result<Tensor> {
        ensure!(
            most >= 0.0,
            Value,
            "embedding: expected a non-negative max_norm, got {most}"
        );
        let size = ops::keepdims(&rows, -1, ops::norm).done()?;
        let long = ops::greater(&size, most).done()?;
        let factor = most / ops::where_(&long, &size, 1.0);
        ops::where_(&long, &rows * factor, &rows).done()
    })
}
