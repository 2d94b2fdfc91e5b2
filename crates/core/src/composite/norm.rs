//! Normalisations: layer, RMS, group and batch norm.

use crate::dim::Dim;
use crate::ensure;
use crate::error::Result;
use crate::expr::{Expr, IntoExpr};
use crate::ops::{self, Ops};
use crate::shape::{Axes, Shape};
use crate::tensor::Tensor;

/// x - mean, and 1 / sqrt(variance + epsilon), with reduced axes kept as size 1.
pub(crate) fn centred(x: &Tensor, axes: &Axes, epsilon: f64) -> Result<(Tensor, Tensor)> {
    let list: Vec<i64> = axes.iter().map(|&a| a as i64).collect();
    let d = (x - ops::keepdims(x, list.clone(), ops::mean)).done()?;
    let variance = ops::keepdims(d.square(), list, ops::mean);
    let factor = (variance + epsilon).rsqrt().done()?;
    Ok((d, factor))
}

/// (x - mean) / sqrt(variance + epsilon) over axes.
fn standardize(x: &Tensor, axes: &Axes, epsilon: f64) -> Expr {
    let parts = centred(x, axes, epsilon);
    parts.and_then(|(d, factor)| (d * factor).done()).into()
}

fn affine(x: Expr, scale: Option<&Tensor>, bias: Option<&Tensor>) -> Expr {
    let x = match scale {
        Some(scale) => x.then(|x| &x * scale.cast(x.dtype())),
        None => x,
    };
    match bias {
        Some(bias) => x.then(|x| &x + bias.cast(x.dtype())),
        None => x,
    }
}

/// Layer norm over the last axes, from `axis` on.
pub fn layer_norm(
    x: &Tensor,
    scale: Option<&Tensor>,
    bias: Option<&Tensor>,
    axis: usize,
    epsilon: f64,
) -> Result<Tensor> {
    ensure!(
        axis < x.rank(),
        Index,
        "layer_norm: axis {axis} is out of range for {}",
        x.spec()
    );
    let axes = (axis..x.rank()).collect();
    affine(standardize(x, &axes, epsilon), scale, bias).done()
}

/// The cotangents of a layer norm. With `n` the normalised elements and `c` the cotangent times the scale: `(c - n
/// mean(n c) - mean(c)) / deviation` for the input, `ct n` and `ct` summed over rows for scale and bias, in the
/// accumulator dtype.
pub fn layer_norm_grad(
    x: &Tensor,
    ct: &Tensor,
    scale: Option<&Tensor>,
    axis: usize,
    epsilon: f64,
) -> Result<Vec<Tensor>> {
    ensure!(
        axis < x.rank(),
        Index,
        "layer_norm_grad: axis {axis} is out of range for {}",
        x.spec()
    );
    ensure!(
        ct.spec() == x.spec(),
        Shape,
        "layer_norm_grad: got a cotangent of {} for {}",
        ct.spec(),
        x.spec()
    );
    let inner = Shape::from_dims(x.shape().dims()[axis..].to_vec());
    if let Some(scale) = scale {
        ensure!(
            scale.shape() == &inner,
            Shape,
            "layer_norm_grad: got a scale of {} for rows of {inner}",
            scale.spec()
        );
    }
    let wide = x.dtype().accumulator();
    let (lifted, ct) = (x.cast(wide).done()?, ct.cast(wide).done()?);
    let axes: Axes = (axis..x.rank()).collect();
    let (d, factor) = centred(&lifted, &axes, epsilon)?;
    let normal = (&d * &factor).done()?;
    let scaled = match scale {
        Some(scale) => (&ct * scale.cast(wide)).done()?,
        None => ct.clone(),
    };
    let mean = |x: Expr| {
        let list: Vec<i64> = axes.iter().map(|&a| a as i64).collect();
        ops::keepdims(x, list, ops::mean)
    };
    let along = &normal * mean(&scaled * &normal);
    let ct_x = (&scaled - along - mean(scaled.clone().into_expr())) * factor;
    Ok(vec![
        ct_x.cast(x.dtype()).done()?,
        ops::sum_to(&ct * &normal, &inner).done()?,
        ops::sum_to(&ct, &inner).done()?,
    ])
}

/// Divides by the root mean square over the last axes, from `axis` on.
pub fn rms_norm(x: &Tensor, scale: Option<&Tensor>, axis: usize, epsilon: f64) -> Result<Tensor> {
    ensure!(
        axis < x.rank(),
        Index,
        "rms_norm: axis {axis} is out of range for {}",
        x.spec()
    );
    let list: Vec<i64> = (axis..x.rank()).map(|a| a as i64).collect();
    let mean = ops::keepdims(x.square(), list, ops::mean);
    affine(x * (mean + epsilon).rsqrt(), scale, None).done()
}

/// Reshapes a vector over channels to broadcast against a tensor of `rank` axes.
fn along(v: &Tensor, axis: usize, rank: usize) -> Expr {
    let dims = (0..rank).map(|i| {
        if i == axis {
            v.shape().count_dim()
        } else {
            Dim::number(1)
        }
    });
    ops::reshape(v, Shape::from_dims(dims.collect::<Vec<_>>()))
}

/// Normalises within groups of channels, over all axes but the batch.
pub fn group_norm(
    x: &Tensor,
    scale: Option<&Tensor>,
    bias: Option<&Tensor>,
    axis: usize,
    groups: usize,
    epsilon: f64,
) -> Result<Tensor> {
    ensure!(
        axis > 0 && axis < x.rank(),
        Index,
        "group_norm: axis {axis} of {}",
        x.spec()
    );
    let channels = x.shape().dims()[axis];
    ensure!(
        groups > 0 && channels.rem(Dim::from(groups))? == 0usize,
        Shape,
        "group_norm: {channels} channels are not divisible into {groups} groups"
    );
    let wide = x
        .shape()
        .with(axis, groups)
        .insert(axis + 1, channels.floor_div(Dim::from(groups))?);
    let axes = (1..wide.rank()).filter(|&a| a != axis).collect();
    let y = ops::reshape(x, &wide).then(|x| standardize(&x, &axes, epsilon));
    let y = ops::reshape(y, x.shape());
    let scale = scale.map(|s| along(s, axis, x.rank()).done()).transpose()?;
    let bias = bias.map(|b| along(b, axis, x.rank()).done()).transpose()?;
    affine(y, scale.as_ref(), bias.as_ref()).done()
}

/// Normalises per channel with given statistics.
pub fn batch_norm(
    x: &Tensor,
    mean: &Tensor,
    variance: &Tensor,
    scale: Option<&Tensor>,
    bias: Option<&Tensor>,
    axis: usize,
    epsilon: f64,
) -> Result<Tensor> {
    ensure!(
        axis < x.rank(),
        Index,
        "batch_norm: axis {axis} is out of range for {}",
        x.spec()
    );
    let rank = x.rank();
    let mut factor = (variance + epsilon).rsqrt();
    if let Some(scale) = scale {
        factor = factor * scale;
    }
    let y = (x - along(mean, axis, rank)) * factor.then(|f| along(&f, axis, rank));
    let y = match bias {
        Some(bias) => y + along(bias, axis, rank),
        None => y,
    };
    y.cast(x.dtype()).done()
}
