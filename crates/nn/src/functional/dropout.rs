//! Dropout with a given mask; the caller draws the mask.

use clematis_core::expr::{Expr, IntoExpr};
use clematis_core::{DType, Dim, Result, Shape, Tensor, ensure, ops};

/// Checks a probability.
pub fn probability(op: &str, p: f64) -> Result<f64> {
    ensure!(
        (0.0..=1.0).contains(&p),
        Value,
        "{op}: expected prob between 0 and 1, got {p}"
    );
    Ok(p)
}

/// The probability with which an element is dropped.
#[derive(Clone, Debug)]
pub enum Probability {
    /// A number between 0 and 1.
    Known(f64),
    /// A traced tensor of one element.
    Traced(Tensor),
}

impl Probability {
    /// Reads a tensor of one element; concrete values are checked.
    pub fn of(op: &str, p: &Tensor) -> Result<Probability> {
        super::real(op, &[p])?;
        ensure!(
            p.shape().count_dim() == 1usize,
            Shape,
            "{op}: expected prob of one element, got {}",
            p.spec()
        );
        if super::has_values(p) {
            let value = probability(op, p.lowest().item()?.as_f64())?;
            if !super::is_traced(p) {
                return Ok(Probability::Known(value));
            }
        }
        Ok(Probability::Traced(ops::reshape(p, ()).done()?))
    }

    /// Whether nothing is dropped.
    pub fn is_zero(&self) -> bool {
        matches!(self, Probability::Known(p) if *p == 0.0)
    }

    /// As a tensor.
    pub fn tensor(&self) -> Tensor {
        match self {
            Probability::Known(p) => Tensor::number(*p),
            Probability::Traced(p) => p.clone(),
        }
    }
}

/// The shape of the mask from an explicit `noise_shape`: each entry is a size of `x`, 1 to share a value along that
/// axis, or `None` for the size of `x`.
pub fn noise_shape(op: &str, x: &Tensor, noise: &[Option<i64>]) -> Result<Shape> {
    ensure!(
        noise.len() == x.rank(),
        Shape,
        "{op}: noise_shape {} for {}",
        shown(noise),
        x.spec()
    );
    let dims = x.shape().dims();
    let mut out = Vec::with_capacity(noise.len());
    for (&own, asked) in dims.iter().zip(noise) {
        let size = asked.map_or(own, Dim::from);
        ensure!(
            size == own || size == 1usize,
            Shape,
            "{op}: expected {own} or 1 in noise_shape {} for {}, got {size}",
            shown(noise),
            x.spec()
        );
        out.push(size);
    }
    Ok(Shape::from_dims(out))
}

fn shown(noise: &[Option<i64>]) -> String {
    let text = |n: &Option<i64>| n.map_or("None".to_string(), |n| n.to_string());
    format!(
        "[{}]",
        noise.iter().map(text).collect::<Vec<_>>().join(", ")
    )
}

/// The shape of the mask that drops whole channels of `[batch, spatial…, channels]`; the batch axis is optional.
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

/// `x` where the mask holds, 0 elsewhere; divided by 1 - `prob` if `scale` is set.
pub fn dropout(
    x: impl IntoExpr,
    keep: impl IntoExpr,
    prob: impl Into<Probability>,
    scale: bool,
) -> Expr {
    let prob = prob.into();
    x.into_expr().then(|x| {
        let all = matches!(prob, Probability::Known(p) if p >= 1.0);
        if !scale || all {
            // A plain number would not be the zero of an integer dtype.
            return ops::where_(keep, &x, ops::cast(0, x.dtype())).done();
        }
        let x = super::float(&x)?;
        super::rounded_once(&x, |x| match &prob {
            Probability::Known(p) => ops::where_(keep, &x * (1.0 / (1.0 - p)), 0.0),
            Probability::Traced(p) => {
                // If everything is dropped, the mask zeroes the result, so any divisor will do.
                (1.0 - ops::cast(p, x.dtype())).then(|rest| {
                    let some = ops::greater(&rest, 0.0);
                    ops::where_(keep, &x / ops::where_(some, &rest, 1.0), 0.0)
                })
            }
        })
    })
}

impl From<f64> for Probability {
    fn from(p: f64) -> Self {
        Probability::Known(p)
    }
}

/// The default dtype of the draw.
pub const DRAW: DType = DType::F32;
