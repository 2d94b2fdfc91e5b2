//! Derivatives of composites that have a rule of their own, cheaper than differentiating their expansion.

use super::rule::Rule;
use super::sweep::{Mode, Recorded};
use crate::bail;
use crate::dispatch::apply;
use crate::error::Result;
use crate::expr::Expr;
use crate::op::{Composite, Op};
use crate::ops::{self, Ops};
use crate::tensor::Tensor;

/// Whether a composite has a derivative rule of its own.
pub fn is_whole(c: &Composite) -> bool {
    own_rule(c).is_some()
}

/// The rule of a composite. Composites without one are differentiated through their expansion.
pub fn rule(c: &Composite) -> Rule {
    own_rule(c).unwrap_or(Rule::General {
        vjp: expanded_vjp,
        jvp: expanded_jvp,
    })
}

fn own_rule(c: &Composite) -> Option<Rule> {
    Some(match c {
        Composite::Relu {} => {
            Rule::Pointwise(|_, _, x, _| ops::cast(ops::greater(x[0], 0), x[0].dtype()))
        }
        Composite::Sigmoid {} => Rule::Pointwise(|_, _, _, y| y * (1.0 - y)),
        Composite::Softmax { .. } => Rule::General {
            vjp: softmax_vjp,
            jvp: softmax_jvp,
        },
        Composite::LogSoftmax { .. } => Rule::General {
            vjp: log_softmax_vjp,
            jvp: log_softmax_jvp,
        },
        Composite::LogSumExp { .. } => Rule::General {
            vjp: logsumexp_vjp,
            jvp: logsumexp_jvp,
        },
        Composite::LayerNorm { .. } => Rule::General {
            vjp: layer_norm_vjp,
            jvp: expanded_jvp,
        },
        Composite::RandomBits { .. } => Rule::Zero,
        _ => return None,
    })
}

fn axis_of(op: &Op) -> Result<i64> {
    match op {
        Op::Call(c) => match **c {
            Composite::Softmax { axis } | Composite::LogSoftmax { axis } => Ok(axis as i64),
            _ => bail!(Internal, "{}: not a softmax", c.name()),
        },
        _ => bail!(Internal, "{}: not a softmax", op.name()),
    }
}

/// y (d - Σ y d). The Jacobian of softmax is symmetric, so VJP and JVP are the same map.
fn softmax_map(op: &Op, y: &Tensor, d: &Tensor) -> Result<Vec<Option<Tensor>>> {
    let sum = (y * d).sum_keepdims(axis_of(op)?);
    Ok(vec![Some((y * (d - sum)).done()?)])
}

fn softmax_vjp(
    op: &Op,
    _: &[&Tensor],
    y: &[&Tensor],
    ct: &[Option<Tensor>],
    _: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    ct[0]
        .as_ref()
        .map_or(Ok(vec![None]), |ct| softmax_map(op, y[0], ct))
}

fn softmax_jvp(
    op: &Op,
    _: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    dx[0]
        .as_ref()
        .map_or(Ok(vec![None]), |dx| softmax_map(op, y[0], dx))
}

fn log_softmax_vjp(
    op: &Op,
    _: &[&Tensor],
    y: &[&Tensor],
    ct: &[Option<Tensor>],
    _: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let Some(ct) = &ct[0] else {
        return Ok(vec![None]);
    };
    Ok(vec![Some(
        (ct - y[0].exp() * ct.sum_keepdims(axis_of(op)?)).done()?,
    )])
}

fn log_softmax_jvp(
    op: &Op,
    _: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let Some(dx) = &dx[0] else {
        return Ok(vec![None]);
    };
    Ok(vec![Some(
        (dx - (y[0].exp() * dx).sum_keepdims(axis_of(op)?)).done()?,
    )])
}

/// exp(x - y), with 0 where both are -inf.
fn shares(op: &Op, x: &Tensor, y: &Tensor) -> Result<(Tensor, crate::shape::Axes)> {
    let Op::Call(c) = op else {
        bail!(Internal, "{}: not a logsumexp", op.name())
    };
    let Composite::LogSumExp { axes } = &**c else {
        bail!(Internal, "{}: not a logsumexp", c.name())
    };
    let y = spread(y, x, axes).done()?;
    let empty = ops::equal(&y, f64::NEG_INFINITY).done()?;
    let gap: Expr = x - ops::where_(&empty, 0.0, &y);
    Ok((gap.exp().done()?, axes.clone()))
}

fn spread(y: &Tensor, x: &Tensor, axes: &crate::shape::Axes) -> Expr {
    let kept: Vec<usize> = (0..x.rank()).filter(|a| !axes.contains(a)).collect();
    ops::broadcast_in(y, x.shape(), &kept)
}

fn logsumexp_vjp(
    op: &Op,
    x: &[&Tensor],
    y: &[&Tensor],
    ct: &[Option<Tensor>],
    _: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let Some(ct) = &ct[0] else {
        return Ok(vec![None]);
    };
    let (share, axes) = shares(op, x[0], y[0])?;
    Ok(vec![Some((share * spread(ct, x[0], &axes)).done()?)])
}

fn logsumexp_jvp(
    op: &Op,
    x: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let Some(dx) = &dx[0] else {
        return Ok(vec![None]);
    };
    let (share, axes) = shares(op, x[0], y[0])?;
    Ok(vec![Some((share * dx).sum(&axes).done()?)])
}

/// Uses the composite `layer_norm_grad`, which computes all three cotangents at once.
fn layer_norm_vjp(
    op: &Op,
    xs: &[&Tensor],
    ys: &[&Tensor],
    ct: &[Option<Tensor>],
    wanted: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let (Op::Call(c), Some(ct_y)) = (op, &ct[0]) else {
        return Ok(vec![None; xs.len()]);
    };
    let Composite::LayerNorm { axis, epsilon } = &**c else {
        bail!(Internal, "{}: not a layer_norm", c.name())
    };
    // Parameters that broadcast along rows, or differ between rows, use the expansion.
    let inner = &xs[0].shape().dims()[*axis..];
    if xs[1..].iter().any(|p| p.shape().dims() != inner) {
        return expanded_vjp(op, xs, ys, ct, wanted);
    }
    let grad = Composite::LayerNormGrad {
        axis: *axis,
        epsilon: *epsilon,
    };
    let given: Vec<&Tensor> = [xs[0], ct_y]
        .into_iter()
        .chain(xs.get(1).copied())
        .collect();
    let parts = apply(&grad.into(), &given)?.into_vec();
    let each = xs.iter().zip(parts).zip(wanted);
    each.map(|((x, part), &wanted)| wanted.then(|| part.cast(x.dtype()).done()).transpose())
        .collect()
}

/// Records the expansion of an op, to be swept.
fn expanded(mode: Mode, op: &Op, xs: &[&Tensor], places: &[usize]) -> Result<Recorded> {
    let inputs: Vec<Tensor> = places.iter().map(|&i| xs[i].clone()).collect();
    Recorded::new(mode, &inputs, |lifted| {
        let mut all: Vec<&Tensor> = xs.to_vec();
        for (&i, x) in places.iter().zip(lifted) {
            all[i] = x;
        }
        Ok(op.expand(&all)?.into_vec())
    })
}

fn expanded_vjp(
    op: &Op,
    xs: &[&Tensor],
    _: &[&Tensor],
    ct: &[Option<Tensor>],
    wanted: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let places: Vec<usize> = (0..xs.len()).filter(|&i| wanted[i]).collect();
    let back = expanded(Mode::Reverse, op, xs, &places)?.backward(ct.to_vec())?;
    let mut out = vec![None; xs.len()];
    for (i, part) in places.into_iter().zip(back) {
        out[i] = part;
    }
    Ok(out)
}

fn expanded_jvp(
    op: &Op,
    xs: &[&Tensor],
    _: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let places: Vec<usize> = (0..xs.len()).filter(|&i| dx[i].is_some()).collect();
    let tangents = places.iter().map(|&i| dx[i].clone()).collect();
    expanded(Mode::Forward, op, xs, &places)?.forward(tangents)
}

pub fn custom_vjp(
    op: &Op,
    xs: &[&Tensor],
    ys: &[&Tensor],
    ct: &[Option<Tensor>],
    wanted: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let Op::Custom(c) = op else {
        bail!(Internal, "{}: not a custom op", op.name())
    };
    if !c.0.has_vjp() {
        return expanded_vjp(op, xs, ys, ct, wanted);
    }
    let cts: Vec<Tensor> = ct
        .iter()
        .zip(ys)
        .map(|(ct, y)| ct.clone().map_or_else(|| ops::zeros_like(y).done(), Ok))
        .collect::<Result<_>>()?;
    let back = match c.0.vjp(xs, ys, &cts) {
        Some(back) => back?,
        None => bail!(
            Diff,
            "{}: has_vjp is true, but vjp returned no rule",
            c.0.name()
        ),
    };
    if back.len() != xs.len() {
        bail!(
            Diff,
            "{}: the vjp rule returned {} cotangents for {} inputs",
            c.0.name(),
            back.len(),
            xs.len()
        );
    }
    for (part, x) in back.iter().zip(xs) {
        if let Some(part) = part
            && part.shape() != x.shape()
        {
            bail!(
                Diff,
                "{}: the vjp rule returned a cotangent of {} for an input of {}",
                c.0.name(),
                part.spec(),
                x.spec()
            );
        }
    }
    back.into_iter()
        .zip(xs)
        .map(|(part, x)| part.map(|p| p.cast(x.dtype()).done()).transpose())
        .collect()
}

pub fn custom_jvp(
    op: &Op,
    xs: &[&Tensor],
    ys: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let Op::Custom(c) = op else {
        bail!(Internal, "{}: not a custom op", op.name())
    };
    match c.0.jvp(xs, ys, dx) {
        Some(out) => Ok(out?.into_iter().map(Some).collect()),
        None if !c.0.has_vjp() => expanded_jvp(op, xs, ys, dx),
        None => bail!(
            Diff,
            "{}: forward mode needs a jvp rule, this op has only a vjp",
            c.0.name()
        ),
    }
}
