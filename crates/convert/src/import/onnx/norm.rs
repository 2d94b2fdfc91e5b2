//! Normalization layers.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{NAMED, maybe, out, ranked, several, t, version, wanted};
use clematis_core::expr::Expr;
use clematis_core::op::{Window, WindowKind};
use clematis_core::shape::Axes;
use clematis_core::{DType, Dim, Result, Tensor, bail, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("BatchNormalization", batch),
    ("LayerNormalization", layer),
    ("RMSNormalization", |_, a| {
        let (x, scale) = (t(a, 0)?, t(a, 1)?);
        let axis = x.shape().axis(a.int(NAMED, "axis", -1)?, "rms_norm")?;
        let at: Vec<i64> = (axis as i64..x.rank() as i64).collect();
        let epsilon = a.float(NAMED, "epsilon", 1e-5)?;
        if scale.shape().dims() == &x.shape().dims()[axis..] && x.dtype() == scale.dtype() {
            return out(ops::rms_norm(&x, Some(&scale), axis as i64, epsilon));
        }
        let wide = stashed(a, &x)?;
        let power = ops::keepdims(ops::square(&wide), at, ops::mean);
        let y = ops::cast(&wide * ops::rsqrt(power + epsilon), scale.dtype());
        out(y * scale)
    }),
    ("InstanceNormalization", |_, a| {
        let x = ranked(a, 0, 2)?;
        let channels = x.shape().known_size(1, "instance_norm")?;
        let (scale, bias) = (t(a, 1)?, t(a, 2)?);
        out(ops::group_norm(
            &x,
            Some(&scale),
            Some(&bias),
            1,
            channels,
            a.float(NAMED, "epsilon", 1e-5)?,
        ))
    }),
    ("GroupNormalization", |_, a| {
        let (x, mut scale, mut bias) = (ranked(a, 0, 2)?, ranked(a, 1, 1)?, ranked(a, 2, 1)?);
        let groups = a.int(NAMED, "num_groups", 1)?.max(1) as usize;
        let channels = x.shape().known_size(1, "group_norm")?;
        if version(a) < 21 && scale.shape().known_size(0, "group_norm")? == groups {
            // Before version 21 there is one scale per group.
            scale = ops::repeat(scale, channels / groups, 0).done()?;
            bias = ops::repeat(bias, channels / groups, 0).done()?;
        }
        out(ops::group_norm(
            &x,
            Some(&scale),
            Some(&bias),
            1,
            groups,
            a.float(NAMED, "epsilon", 1e-5)?,
        ))
    }),
    ("LpNormalization", |_, a| {
        let x = t(a, 0)?;
        let (axis, p) = (a.int(NAMED, "axis", -1)?, a.float(NAMED, "p", 2.0)?);
        let size = ops::keepdims(&x, vec![axis], |x, at| ops::vector_norm(x, at, p)).done()?;
        // A vector of norm zero stays as it is.
        let none = ops::equal(&size, 0.0);
        out(ops::where_(
            &none,
            Tensor::scalar(0.0, x.dtype()),
            &x / ops::where_(&none, 1.0, &size),
        ))
    }),
    ("MeanVarianceNormalization", |_, a| {
        let x = t(a, 0)?;
        let at = if a.has(NAMED, "axes") {
            a.ints(NAMED, "axes")?
        } else {
            vec![0, 2, 3]
        };
        let middle = ops::keepdims(&x, at.clone(), ops::mean).done()?;
        let spread = ops::keepdims(ops::square(&x), at, ops::mean) - ops::square(&middle);
        out((&x - &middle) / (ops::sqrt(spread) + 1e-9))
    }),
    ("LRN", lrn),
];

/// Casts to the dtype in which the statistics are computed (`stash_type`): float32 by default.
fn stashed(a: &Args<'_>, x: &Tensor) -> Result<Tensor> {
    let narrow = matches!(x.dtype(), DType::F16 | DType::BF16);
    if narrow && a.int(NAMED, "stash_type", 1)? == 1 {
        return ops::cast(x, DType::F32).done();
    }
    Ok(x.clone())
}

fn batch(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = ranked(a, 0, 2)?;
    let (scale, bias, mean, variance) = (t(a, 1)?, t(a, 2)?, t(a, 3)?, t(a, 4)?);
    let epsilon = a.float(NAMED, "epsilon", 1e-5)?;
    if !a.flag(NAMED, "spatial", true)? && x.rank() > 2 {
        bail!(
            Unsupported,
            "convert: `BatchNormalization` with statistics per position (spatial=0)"
        );
    }
    let training = a.flag(NAMED, "training_mode", false)?;
    if !training {
        let y = ops::batch_norm(&x, &mean, &variance, Some(&scale), Some(&bias), 1, epsilon);
        return Ok(several(a, vec![y.done()?.into()]));
    }
    let others: Vec<i64> = (0..x.rank() as i64).filter(|&i| i != 1).collect();
    let (own_mean, own_variance) = (
        ops::mean(&x, others.clone()).done()?,
        ops::var(&x, others, 0.0).done()?,
    );
    let y = ops::batch_norm(
        &x,
        &own_mean,
        &own_variance,
        Some(&scale),
        Some(&bias),
        1,
        epsilon,
    )
    .done()?;
    let momentum = a.float(NAMED, "momentum", 0.9)?;
    let moved = |old: &Tensor, new: &Tensor| {
        ops::cast(old * momentum + new * (1.0 - momentum), old.dtype()).done()
    };
    let results = vec![
        y.into(),
        moved(&mean, &own_mean)?.into(),
        moved(&variance, &own_variance)?.into(),
    ];
    Ok(several(a, results))
}

fn layer(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, scale, bias) = (t(a, 0)?, t(a, 1)?, maybe(a, 2)?);
    let axis = x.shape().axis(a.int(NAMED, "axis", -1)?, "layer_norm")?;
    let epsilon = a.float(NAMED, "epsilon", 1e-5)?;
    let rest = &x.shape().dims()[axis..];
    let whole = |y: &Tensor| y.shape().dims() == rest;
    if wanted(a) == 1 && whole(&scale) && bias.as_ref().is_none_or(whole) {
        return out(ops::layer_norm(
            &x,
            Some(&scale),
            bias.as_ref(),
            axis as i64,
            epsilon,
        ));
    }
    let wide = stashed(a, &x)?;
    let at: Vec<i64> = (axis as i64..x.rank() as i64).collect();
    let mean = ops::keepdims(&wide, at.clone(), ops::mean).done()?;
    let middle = (&wide - &mean).done()?;
    let spread = ops::keepdims(ops::square(&middle), at, ops::mean);
    let by = ops::rsqrt(spread + epsilon).done()?;
    let mut y: Expr = ops::cast(middle * &by, x.dtype()) * scale;
    if let Some(bias) = bias {
        y = y + bias;
    }
    Ok(several(a, vec![y.done()?.into(), mean.into(), by.into()]))
}

fn lrn(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = ranked(a, 0, 2)?;
    let size = a.int(NAMED, "size", 1)?.clamp(1, 1 << 24);
    let (alpha, beta, bias) = (
        a.float(NAMED, "alpha", 1e-4)?,
        a.float(NAMED, "beta", 0.75)?,
        a.float(NAMED, "bias", 1.0)?,
    );
    let ones: Axes = std::iter::repeat_n(1, x.rank()).collect();
    let at = |n: usize| -> Axes { (0..x.rank()).map(|i| if i == 1 { n } else { 1 }).collect() };
    let none = (Dim::from(0), Dim::from(0));
    let pads = (Dim::number((size - 1) / 2), Dim::number(size / 2));
    let window = Window {
        kind: WindowKind::Sum,
        size: at(size as usize),
        strides: ones.clone(),
        padding: (0..x.rank())
            .map(|i| if i == 1 { pads } else { none })
            .collect(),
        base_dilation: ones.clone(),
        window_dilation: ones,
    };
    let sum = ops::reduce_window(ops::square(&x), window);
    out(&x / ops::pow(sum * (alpha / size as f64) + bias, beta))
}
