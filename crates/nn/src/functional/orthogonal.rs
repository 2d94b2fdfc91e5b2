//! Random orthogonal matrices.

use super::random::{draw_dtype, standard_normal};
use clematis_core::expr::Expr;
use clematis_core::random::Key;
use clematis_core::{DType, Result, Shape, Tensor, ensure, ops};

/// Draws uniformly from the orthogonal matrices of `[all other axes, last axis]`, scaled by `gain`.
pub fn random_orthogonal(key: &Key, shape: &Shape, gain: f64, dtype: DType) -> Expr {
    let build = || -> Result<Tensor> {
        let op = "random_orthogonal";
        ensure!(
            shape.rank() >= 2,
            Shape,
            "{op}: expected at least two axes, got {shape:?}"
        );
        let columns = shape.known_size(shape.rank() - 1, op)?;
        let others = (0..shape.rank() - 1).map(|axis| shape.known_size(axis, op));
        let rows = others.product::<Result<usize>>()?;
        let (most, least) = (rows.max(columns), rows.min(columns));
        let tall = Shape::from_sizes(&[most, least]);
        let drawn = standard_normal(key, &tall, draw_dtype(op, dtype)?).done()?;
        let (q, r) = ops::qr(&drawn, false)?;
        // The signs of a QR decomposition are arbitrary, so q alone is not uniformly distributed.
        let signs = ops::where_(ops::less(ops::diagonal(&r, 0), 0.0), -1.0, 1.0);
        let even = (q * signs * gain).done()?;
        let oriented = match rows < columns {
            true => ops::matrix_transpose(&even).done()?,
            false => even,
        };
        ops::cast(ops::reshape(&oriented, shape), dtype).done()
    };
    build().into()
}
