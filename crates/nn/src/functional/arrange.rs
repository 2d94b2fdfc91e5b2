//! Shapes and masks that layers need: axes put together, and who may look at whom.

use clematis_core::expr::{Expr, IntoExpr};
use clematis_core::{DType, Result, Shape, Tensor, ensure, ops};

/// The axes from `start` to `end` as one.
pub fn flatten(x: impl IntoExpr, start: i64, end: i64) -> Expr {
    x.into_expr().then(|x| -> Result<Tensor> {
        let op = "flatten";
        if x.rank() == 0 {
            ensure!(
                (-1..=0).contains(&start) && (-1..=0).contains(&end),
                Index,
                "{op}: axes {start} to {end} of a single number"
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

/// True where a query at a place may look at a key: not behind it, and where `mask` is not 0.
///
/// Queries and keys are `[…, places, features]`; the result is `[places of queries, places of keys]`, or broader by the mask.
pub fn causal_mask(queries: &Tensor, keys: &Tensor, mask: Option<&Tensor>) -> Expr {
    let build = || -> Result<Tensor> {
        let op = "causal_mask";
        for x in [queries, keys] {
            ensure!(
                x.rank() >= 2,
                Shape,
                "{op}: {} needs an axis of places and one of features",
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
            Some(home) => clematis_core::backend::with(home, make)?,
            None => make()?,
        };
        match mask {
            Some(mask) => ops::logical_and(open, ops::not_equal(mask, 0)).done(),
            None => Ok(open),
        }
    };
    build().into()
}
