//! Flattening of axes, and causal attention masks.

use clematis_core::expr::{Expr, IntoExpr};
use clematis_core::{DType, Result, Shape, Tensor, ensure, ops};

/// Flattens the axes from `start` to `end` into one.
pub fn flatten(x: impl IntoExpr, start: i64, end: i64) -> Expr {
    x.into_expr().then(|x| -> Result<Tensor> {
        let op = "flatten";
        if x.rank() == 0 {
            ensure!(
                (-1..=0).contains(&start) && (-1..=0).contains(&end),
                Index,
                "{op}: expected axes {start} to {end}, got a scalar"
            );
            return ops::reshape(&x, [1usize]).done();
        }
        let (start, end) = (x.shape().axis(start, op)?, x.shape().axis(end, op)?);
        ensure!(
            start <= end,
            Value,
            "{op}: axis {start} is after axis {end} of {}",
            x.spec()
        );
        let dims = x.shape().dims();
        let middle = Shape::from_dims(dims[start..=end].iter().copied()).count_dim();
        let before = dims[..start].iter().copied();
        let after = dims[end + 1..].iter().copied();
        ops::reshape(&x, Shape::from_dims(before.chain([middle]).chain(after))).done()
    })
}

/// A causal mask: true where the key's position is not after the query's, and `mask` is nonzero.
///
/// Queries and keys are `[…, length, features]`; the result is `[query length, key length]`, broadcast with the mask.
pub fn causal_mask(queries: &Tensor, keys: &Tensor, mask: Option<&Tensor>) -> Expr {
    let build = || -> Result<Tensor> {
        let op = "causal_mask";
        for x in [queries, keys] {
            ensure!(
                x.rank() >= 2,
                Shape,
                "{op}: expected axes of length and features, got {}",
                x.spec()
            );
        }
        let places = |x: &Tensor| x.shape().dims()[x.rank() - 2];
        let shape = Shape::from_dims([places(queries), places(keys)]);
        let make = || -> Result<Tensor> {
            let own = ops::iota(&shape, 0, DType::I32);
            ops::greater_equal(own, ops::iota(&shape, 1, DType::I32)).done()
        };
        let open = match queries.backend() {
            Some(backend) => clematis_core::backend::with(backend, make)?,
            None => make()?,
        };
        match mask {
            Some(mask) => ops::logical_and(open, ops::not_equal(mask, 0)).done(),
            None => Ok(open),
        }
    };
    build().into()
}
