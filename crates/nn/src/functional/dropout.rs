//! Dropout by a given mask, so that where it is drawn is the caller's matter.

use clematis_core::expr::{Expr, IntoExpr};
use clematis_core::{DType, Dim, Result, Shape, Tensor, ensure, ops};

/// A probability, checked.
pub fn probability(op: &str, p: f64) -> Result<f64> {
    ensure!(
        (0.0..=1.0).contains(&p),
        Value,
        "{op}: prob {p} is not between 0 and 1"
    );
    Ok(p)
}

/// The shape of the mask: each entry is a size of `x`, 1 for a value shared along that axis, or left open.
pub fn noise_shape(op: &str, x: &Tensor, noise: &[Option<i64>]) -> Result<Shape> {
    ensure!(
        noise.len() == x.rank(),
        Shape,
        "{op}: noise_shape {noise:?} for {}",
        x.spec()
    );
    let dims = x.shape().dims();
    let mut out = Vec::with_capacity(noise.len());
    for (&own, asked) in dims.iter().zip(noise) {
        let size = asked.map_or(own, Dim::from);
        ensure!(
            size == own || size == 1usize,
            Shape,
            "{op}: noise_shape {noise:?} for {}: {size} is neither {own} nor 1",
            x.spec()
        );
        out.push(size);
    }
    Ok(Shape::from_dims(out))
}

/// The mask's shape that drops whole channels of `[batch, spatial…, channels]`; the batch may be left out.
pub fn channel_noise(op: &str, x: &Tensor, spatial: usize, channels_first: bool) -> Result<Shape> {
    let rank = x.rank();
    ensure!(
        rank == spatial + 1 || rank == spatial + 2,
        Shape,
        "{op}: {} has {rank} axes, not {} or {}",
        x.spec(),
        spatial + 1,
        spatial + 2
    );
    let first = if channels_first {
        rank - spatial
    } else {
        rank - spatial - 1
    };
    let mut shape = x.shape().clone();
    for axis in first..first + spatial {
        shape = shape.with(axis, 1usize);
    }
    Ok(shape)
}

/// `x` where the mask holds, 0 elsewhere; scaled up by what is kept of 1 - `prob` if told so.
pub fn dropout(x: impl IntoExpr, keep: impl IntoExpr, prob: f64, scale: bool) -> Expr {
    x.into_expr().then(|x| {
        if !scale || prob >= 1.0 {
            // A number without a home would not be the zero of an integer type.
            return ops::where_(keep, &x, ops::cast(0, x.dtype())).done();
        }
        let x = super::float(&x)?;
        super::rounded_once(&x, |x| ops::where_(keep, &x * (1.0 / (1.0 - prob)), 0.0))
    })
}

/// The element type of the draw, unless told.
pub const DRAW: DType = DType::F32;
