//! Normalisation functions.

use super::{float, rounded_once};
use clematis_core::expr::Expr;
use clematis_core::{Dim, Result, Shape, Tensor, bail, ensure, ops};

/// Whether a `data_format` has the channels as axis 1; else they are last.
pub fn channels_second(op: &str, word: &str) -> Result<bool> {
    match word {
        "NCS" | "NCW" | "NCHW" | "NCDHW" | "NC" => Ok(true),
        "NSC" | "NWC" | "NHWC" | "NDHWC" => Ok(false),
        _ => bail!(
            Value,
            "{op}: expected a data_format such as \"NCHW\" or \"NHWC\", got \"{word}\""
        ),
    }
}

/// The channel axis.
pub(super) fn channel_axis(op: &str, x: &Tensor, second: bool) -> Result<usize> {
    ensure!(
        x.rank() >= 2,
        Shape,
        "{op}: expected axes of batch and channels, got {}",
        x.spec()
    );
    Ok(if second { 1 } else { x.rank() - 1 })
}

/// Layer norm: `(x - mean) / √(variance + epsilon)` over axes, then `(x scale + b) new_std`; `b` is ignored without a
/// scale.
pub fn layer_norm(
    x: &Tensor,
    axes: &[i64],
    scale: Option<&Tensor>,
    b: Option<&Tensor>,
    epsilon: f64,
    new_std: f64,
) -> Expr {
    let build = || -> Result<Tensor> {
        let op = "layer_norm";
        let x = float(x)?;
        let axes = x.shape().axes(axes, op)?.sorted();
        let b = scale.and(b);
        let fitting = |t: Option<&Tensor>| -> Result<Option<Tensor>> {
            let Some(t) = t else { return Ok(None) };
            let out = t.shape().broadcast(x.shape());
            ensure!(
                out.is_some_and(|s| s == *x.shape()),
                Shape,
                "{op}: {} does not match {}",
                t.spec(),
                x.spec()
            );
            ops::cast(t, x.dtype()).done().map(Some)
        };
        let (scale, b) = (fitting(scale)?, fitting(b)?);
        let last = axes.first().is_some_and(|&a| a + axes.len() == x.rank());
        let out = if last {
            let axis = axes[0] as i64;
            ops::layer_norm(&x, scale.as_ref(), b.as_ref(), axis, epsilon).done()?
        } else {
            let list: Vec<i64> = axes.iter().map(|&a| a as i64).collect();
            rounded_once(&x, |x| {
                let y = standardized(&x, &list, epsilon);
                affine(y, scale.as_ref(), b.as_ref(), &x)
            })?
        };
        if new_std == 1.0 {
            return Ok(out);
        }
        (out * new_std).done()
    };
    build().into()
}

/// `(x - mean) / √(variance + epsilon)` over axes.
fn standardized(x: &Tensor, axes: &[i64], epsilon: f64) -> Expr {
    let mean = ops::keepdims(x, axes, ops::mean);
    (x - mean).then(|d| {
        let variance = ops::keepdims(ops::square(&d), axes, ops::mean);
        &d * ops::rsqrt(variance + epsilon)
    })
}

fn affine(y: Expr, scale: Option<&Tensor>, bias: Option<&Tensor>, like: &Tensor) -> Expr {
    let y = match scale {
        Some(scale) => y * ops::cast(scale, like.dtype()),
        None => y,
    };
    match bias {
        Some(bias) => y + ops::cast(bias, like.dtype()),
        None => y,
    }
}

/// Checks a parameter with one number per channel.
pub(super) fn per_channel(
    op: &str,
    what: &str,
    x: &Tensor,
    t: Option<&Tensor>,
    axis: usize,
) -> Result<()> {
    let channels = x.shape().dims()[axis];
    if let Some(t) = t {
        ensure!(
            t.rank() == 1 && t.shape().dims()[0] == channels,
            Shape,
            "{op}: {what} {} does not match {channels} channels of {}",
            t.spec(),
            x.spec()
        );
    }
    Ok(())
}

/// Reshapes a vector over channels to broadcast against `x`.
pub(super) fn along(v: &Tensor, axis: usize, rank: usize) -> Expr {
    let size = v.shape().count_dim();
    let dims = (0..rank).map(|a| if a == axis { size } else { Dim::number(1) });
    ops::reshape(v, Shape::from_dims(dims))
}

/// Batch norm: with given statistics, or with those of the batch in training.
#[allow(clippy::too_many_arguments)]
pub fn batch_norm(
    x: &Tensor,
    mean: &Tensor,
    variance: &Tensor,
    offset: Option<&Tensor>,
    scale: Option<&Tensor>,
    training: bool,
    epsilon: f64,
    channels_second: bool,
) -> Expr {
    let build = || -> Result<Tensor> {
        let op = "batch_norm";
        let x = float(x)?;
        let axis = channel_axis(op, &x, channels_second)?;
        for (what, t) in [
            ("the mean", Some(mean)),
            ("the variance", Some(variance)),
            ("the offset", offset),
            ("the scale", scale),
        ] {
            per_channel(op, what, &x, t, axis)?;
        }
        if training {
            let others: Vec<i64> = (0..x.rank())
                .filter(|&a| a != axis)
                .map(|a| a as i64)
                .collect();
            let (scale, offset) = (spread(scale, axis, &x)?, spread(offset, axis, &x)?);
            return rounded_once(&x, |x| {
                let y = standardized(&x, &others, epsilon);
                affine(y, scale.as_ref(), offset.as_ref(), &x)
            });
        }
        let cast = |t: &Tensor| ops::cast(t, x.dtype()).done();
        let (mean, variance) = (cast(mean)?, cast(variance)?);
        let (mut scale, offset) = (scale.map(cast).transpose()?, offset.map(cast).transpose()?);
        if scale.is_none() && offset.is_some() {
            scale = Some(ops::ones_like(&variance).done()?);
        }
        let (scale, offset) = (scale.as_ref(), offset.as_ref());
        ops::batch_norm(&x, &mean, &variance, scale, offset, axis as i64, epsilon).done()
    };
    build().into()
}

fn spread(v: Option<&Tensor>, axis: usize, x: &Tensor) -> Result<Option<Tensor>> {
    v.map(|v| along(v, axis, x.rank()).done()).transpose()
}

/// Group norm: normalises within groups of channels.
pub fn group_norm(
    x: &Tensor,
    groups: usize,
    scale: Option<&Tensor>,
    offset: Option<&Tensor>,
    epsilon: f64,
    channels_second: bool,
) -> Expr {
    let build = || -> Result<Tensor> {
        let op = "group_norm";
        let x = float(x)?;
        let axis = channel_axis(op, &x, channels_second)?;
        per_channel(op, "the scale", &x, scale, axis)?;
        per_channel(op, "the offset", &x, offset, axis)?;
        let cast = |t: &Tensor| ops::cast(t, x.dtype()).done();
        let (mut scale, offset) = (scale.map(cast).transpose()?, offset.map(cast).transpose()?);
        if let (None, Some(offset)) = (&scale, &offset) {
            scale = Some(ops::ones_like(offset).done()?);
        }
        let (scale, offset) = (scale.as_ref(), offset.as_ref());
        ops::group_norm(&x, scale, offset, axis as i64, groups, epsilon).done()
    };
    build().into()
}

/// The result of `instance_norm`: output, mean and standard deviation per channel, averaged over the batch.
pub struct InstanceNormOutput {
    /// The normalised tensor.
    pub out: Tensor,
    /// One mean per channel.
    pub mean: Tensor,
    /// One standard deviation per channel.
    pub stddev: Tensor,
}

/// InstanceNormOutput norm: normalises per sample and channel.
pub fn instance_norm(
    x: &Tensor,
    scale: Option<&Tensor>,
    bias: Option<&Tensor>,
    epsilon: f64,
    channels_second: bool,
) -> Result<InstanceNormOutput> {
    let op = "instance_norm";
    let x = float(x)?;
    let axis = channel_axis(op, &x, channels_second)?;
    per_channel(op, "the scale", &x, scale, axis)?;
    per_channel(op, "the bias", &x, bias, axis)?;
    let spatial: Vec<i64> = (1..x.rank())
        .filter(|&a| a != axis)
        .map(|a| a as i64)
        .collect();
    let (scale, bias) = (spread(scale, axis, &x)?, spread(bias, axis, &x)?);
    let out = rounded_once(&x, |x| {
        let y = standardized(&x, &spatial, epsilon);
        affine(y, scale.as_ref(), bias.as_ref(), &x)
    })?;
    let mean = ops::mean(ops::mean(&x, spatial.clone()), 0).done()?;
    let stddev = ops::mean(ops::std(&x, spatial, 0.0), 0).done()?;
    Ok(InstanceNormOutput { out, mean, stddev })
}

/// `x` divided by its p-norm over axes, or over all elements; zeros stay zeros.
pub fn lp_normalize(op: &str, x: &Tensor, p: f64, axes: Option<&[i64]>) -> Expr {
    let build = || -> Result<Tensor> {
        ensure!(p > 0.0, Value, "{op}: expected a positive order p, got {p}");
        let x = float(x)?;
        let axes = match axes {
            Some(axes) => x.shape().axes(axes, op)?,
            None => clematis_core::Axes::all(x.rank()),
        };
        rounded_once(&x, |x| {
            let size = ops::keepdims(&x, &axes, |x, axes| ops::vector_norm(x, axes, p));
            &x / ops::maximum(size, 1e-12)
        })
    };
    build().into()
}
