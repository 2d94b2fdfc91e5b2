//! Batch normalisation with running statistics.

use super::float;
use super::norm::{along, channel_axis, per_channel};
use clematis_core::trace::Trace;
use clematis_core::{Result, Tensor, ensure, ops};

/// The result of a training step of batch norm.
pub struct BatchNormOutput {
    /// The normalised tensor.
    pub out: Tensor,
    /// The new running mean.
    pub mean: Tensor,
    /// The new running variance.
    pub variance: Tensor,
}

/// Normalises per channel by the statistics of the batch, and updates the running statistics.
///
/// `momentum` is the weight of the new value; the running variance is unbiased. Gradients do not flow through the
/// running statistics. Missing ones start at 0 and 1.
#[allow(clippy::too_many_arguments)]
pub fn batch_norm_update(
    x: &Tensor,
    mean: Option<&Tensor>,
    variance: Option<&Tensor>,
    offset: Option<&Tensor>,
    scale: Option<&Tensor>,
    momentum: f64,
    epsilon: f64,
    channels_second: bool,
) -> Result<BatchNormOutput> {
    let op = "batch_norm_update";
    let x = float(x)?;
    let axis = channel_axis(op, &x, channels_second)?;
    for (what, t) in [
        ("the mean", mean),
        ("the variance", variance),
        ("the offset", offset),
        ("the scale", scale),
    ] {
        per_channel(op, what, &x, t, axis)?;
    }
    ensure!(
        (0.0..=1.0).contains(&momentum),
        Value,
        "{op}: expected momentum between 0 and 1, got {momentum}"
    );
    let others: Vec<i64> = (0..x.rank())
        .filter(|&a| a != axis)
        .map(|a| a as i64)
        .collect();
    let sizes = others.iter().map(|&a| x.shape().known_size(a as usize, op));
    let count = sizes.product::<Result<usize>>()?;
    ensure!(
        count > 1,
        Shape,
        "{op}: expected at least two values per channel for the variance, got {count} in {}",
        x.spec()
    );
    // Half precision is computed in f32 and rounded once.
    let wide = x.dtype().accumulator();
    let own = ops::cast(&x, wide).done()?;
    let batch_mean = ops::mean(&own, others.clone()).done()?;
    let away = (&own - along(&batch_mean, axis, x.rank())).done()?;
    let batch_variance = ops::mean(ops::square(&away), others.clone()).done()?;
    let factor = ops::rsqrt(&batch_variance + epsilon);
    let factor = match scale {
        Some(scale) => factor * ops::cast(scale, wide),
        None => factor,
    };
    let mut out = &away * along(&factor.done()?, axis, x.rank());
    if let Some(offset) = offset {
        out = out + ops::cast(along(offset, axis, x.rank()), wide);
    }
    // A recorded program runs with other sizes too, so no constant in it may depend on them.
    let (spread, unbiased) = match Trace::innermost_abstract() {
        Some(_) => (ops::var(&own, others, 1.0).done()?, 1.0),
        None => (batch_variance.clone(), count as f64 / (count - 1) as f64),
    };
    let moved = |old: Option<&Tensor>, first: f64, new: &Tensor, by: f64| {
        let new = ops::stop_gradient(new) * (momentum * by);
        match old {
            Some(old) => {
                ops::cast(ops::cast(old, wide) * (1.0 - momentum) + new, old.dtype()).done()
            }
            None => ops::cast(new + first * (1.0 - momentum), x.dtype()).done(),
        }
    };
    Ok(BatchNormOutput {
        out: ops::cast(out, x.dtype()).done()?,
        mean: moved(mean, 0.0, &batch_mean, 1.0)?,
        variance: moved(variance, 1.0, &spread, unbiased)?,
    })
}
