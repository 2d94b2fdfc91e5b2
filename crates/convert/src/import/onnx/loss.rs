//! Losses and optimizer steps.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{NAMED, maybe, several, t};
use clematis_core::{DType, Result, Shape, Tensor, bail, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("NegativeLogLikelihoodLoss", |_, a| {
        let y = likelihood(a, &t(a, 0)?, &t(a, 1)?, maybe(a, 2)?)?;
        Ok(several(a, vec![y.into()]))
    }),
    ("SoftmaxCrossEntropyLoss", |_, a| {
        let log = ops::log_softmax(t(a, 0)?, 1).done()?;
        let y = likelihood(a, &log, &t(a, 1)?, maybe(a, 2)?)?;
        Ok(several(a, vec![y.into(), log.into()]))
    }),
    ("ai.onnx.preview.training::Momentum", momentum),
    ("ai.onnx.preview.training::Adagrad", adagrad),
    ("ai.onnx.preview.training::Adam", adam),
];

fn likelihood(a: &Args<'_>, x: &Tensor, labels: &Tensor, weight: Option<Tensor>) -> Result<Tensor> {
    let labels = ops::cast(labels, DType::I64).done()?;
    let ignored = match a.has(NAMED, "ignore_index") {
        true => Some(ops::equal(&labels, a.int(NAMED, "ignore_index", -1)?).done()?),
        false => None,
    };
    let zero = Tensor::scalar(0i64, DType::I64);
    let safe = match &ignored {
        Some(ignored) => ops::where_(ignored, &zero, &labels).done()?,
        None => labels.clone(),
    };
    let at = ops::expand_dims(&safe, 1);
    let mut y = ops::squeeze(-ops::take_along_axis(x, at, 1), 1i64).done()?;
    let mut share = match weight {
        Some(weight) => Some(ops::take(weight, &safe, 0).done()?),
        None => None,
    };
    if let Some(ignored) = &ignored {
        let ones = match share {
            Some(share) => share,
            None => ops::ones_like(&y).done()?,
        };
        share = Some(ops::where_(ignored, Tensor::scalar(0.0, y.dtype()), ones).done()?);
    }
    if let Some(share) = &share {
        y = (y * share).done()?;
    }
    match (a.text(NAMED, "reduction", "mean")?, share) {
        ("none", _) => Ok(y),
        ("sum", _) => ops::sum(y, ..).done(),
        ("mean", None) => ops::mean(y, ..).done(),
        ("mean", Some(share)) => (ops::sum(y, ..) / ops::sum(share, ..)).done(),
        (other, _) => bail!(
            Convert,
            "convert: `{}`: unsupported reduction \"{other}\"",
            a.node.op
        ),
    }
}

/// Learning rate, step count, then `kinds` groups of tensors, such as weights, gradients and moments.
fn groups(a: &Args<'_>, kinds: usize) -> Result<(Tensor, Tensor, Vec<Vec<Tensor>>)> {
    let all = (2..a.args.len())
        .map(|i| t(a, i))
        .collect::<Result<Vec<_>>>()?;
    let each = all.len() / kinds;
    if each * kinds != all.len() || each == 0 {
        return Err(a.bad("one gradient and state per weight"));
    }
    let scalar = |i: usize| ops::reshape(t(a, i)?, Shape::scalar()).done();
    Ok((
        scalar(0)?,
        scalar(1)?,
        all.chunks(each).map(<[Tensor]>::to_vec).collect(),
    ))
}

fn momentum(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (rate, step, all) = groups(a, 3)?;
    let (alpha, beta, norm) = (
        a.float(NAMED, "alpha", 0.0)?,
        a.float(NAMED, "beta", 0.0)?,
        a.float(NAMED, "norm_coefficient", 0.0)?,
    );
    let nesterov = a.text(NAMED, "mode", "standard")? == "nesterov";
    let (mut xs, mut vs) = (Vec::new(), Vec::new());
    for ((x, g), v) in all[0].iter().zip(&all[1]).zip(&all[2]) {
        let g = (g + x * norm).done()?;
        let beta = ops::where_(ops::greater(&step, 0), beta, 1.0).done()?;
        let new = (v * alpha + &g * ops::cast(beta, x.dtype())).done()?;
        let by = if nesterov {
            &g + &new * alpha
        } else {
            Ok(new.clone()).into()
        };
        xs.push((x - by * &rate).done()?.into());
        vs.push(new.into());
    }
    xs.append(&mut vs);
    Ok(Slot::List(xs))
}

fn adagrad(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (rate, step, all) = groups(a, 3)?;
    let (decay, epsilon, norm) = (
        a.float(NAMED, "decay_factor", 0.0)?,
        a.float(NAMED, "epsilon", 1e-6)?,
        a.float(NAMED, "norm_coefficient", 0.0)?,
    );
    let (mut xs, mut hs) = (Vec::new(), Vec::new());
    for ((x, g), h) in all[0].iter().zip(&all[1]).zip(&all[2]) {
        let rate = &rate / (1.0 + ops::cast(&step, x.dtype()) * decay);
        let g = (g + x * norm).done()?;
        let new = (h + ops::square(&g)).done()?;
        xs.push((x - rate * &g / (ops::sqrt(&new) + epsilon)).done()?.into());
        hs.push(new.into());
    }
    xs.append(&mut hs);
    Ok(Slot::List(xs))
}

fn adam(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (rate, step, all) = groups(a, 4)?;
    let (alpha, beta) = (
        a.float(NAMED, "alpha", 0.9)?,
        a.float(NAMED, "beta", 0.999)?,
    );
    let (epsilon, norm, after) = (
        a.float(NAMED, "epsilon", 1e-6)?,
        a.float(NAMED, "norm_coefficient", 0.0)?,
        a.float(NAMED, "norm_coefficient_post", 0.0)?,
    );
    let (mut xs, mut vs, mut hs) = (Vec::new(), Vec::new(), Vec::new());
    for (i, x) in all[0].iter().enumerate() {
        let (g, v, h) = (&all[1][i], &all[2][i], &all[3][i]);
        let g = (g + x * norm).done()?;
        let v = (v * alpha + &g * (1.0 - alpha)).done()?;
        let h = (h * beta + ops::square(&g) * (1.0 - beta)).done()?;
        let count = ops::cast(&step, x.dtype()).done()?;
        let fixed = &rate * ops::sqrt(1.0 - ops::pow(Tensor::scalar(beta, x.dtype()), &count))
            / (1.0 - ops::pow(Tensor::scalar(alpha, x.dtype()), &count));
        let rate = ops::where_(ops::greater(&step, 0), fixed, &rate);
        let new = x - rate * &v / (ops::sqrt(&h) + epsilon);
        xs.push((new * (1.0 - after)).done()?.into());
        vs.push(v.into());
        hs.push(h.into());
    }
    xs.append(&mut vs);
    xs.append(&mut hs);
    Ok(Slot::List(xs))
}
