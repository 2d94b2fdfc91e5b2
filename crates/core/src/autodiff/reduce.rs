//! Derivatives of reductions, cumulative reductions and sorts.

use super::structural::impossible;
use crate::bail;
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Expr;
use crate::op::{Cumulative, CumulativeKind, Op};
use crate::ops::{self, Ops};
use crate::shape::{Axes, Shape};
use crate::tensor::Tensor;

/// Broadcasts a reduced tensor back to the operand's shape.
fn spread(y: &Tensor, x: &Tensor, axes: &Axes) -> Expr {
    let kept: Vec<usize> = (0..x.rank()).filter(|a| !axes.contains(a)).collect();
    ops::broadcast_in(y, x.shape(), &kept)
}

pub fn sum(op: &Op, _: usize, x: &[&Tensor], ct: &Tensor) -> Expr {
    match op {
        Op::Reduce(p) => spread(ct, x[0], &p.axes),
        _ => impossible(op),
    }
}

fn axes_of(op: &Op) -> Result<&Axes> {
    match op {
        Op::Reduce(p) => Ok(&p.axes),
        _ => bail!(Internal, "{}: not a reduction", op.name()),
    }
}

/// The weight of each extreme element: equal parts among ties.
fn shares(op: &Op, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let axes = axes_of(op)?;
    let hit = ops::equal(x, spread(y, x, axes)).cast(x.dtype()).done()?;
    let count = hit.sum(axes).done()?;
    (&hit / spread(&count, x, axes)).done()
}

pub fn extreme_vjp(
    op: &Op,
    x: &[&Tensor],
    y: &[&Tensor],
    ct: &[Option<Tensor>],
    _: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let Some(ct) = &ct[0] else {
        return Ok(vec![None]);
    };
    Ok(vec![Some(
        (shares(op, x[0], y[0])? * spread(ct, x[0], axes_of(op)?)).done()?,
    )])
}

pub fn extreme_jvp(
    op: &Op,
    x: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let Some(dx) = &dx[0] else {
        return Ok(vec![None]);
    };
    Ok(vec![Some(
        (shares(op, x[0], y[0])? * dx).sum(axes_of(op)?).done()?,
    )])
}

/// The product of all other elements: the ones before times the ones after. Exact where elements are zero.
pub fn prod(
    op: &Op,
    x: &[&Tensor],
    _: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let Some(dx) = &dx[0] else {
        return Ok(vec![None]);
    };
    let (x, axes) = (x[0], axes_of(op)?);
    // Merges all reduced axes into the last axis.
    let order: Axes = (0..x.rank())
        .filter(|a| !axes.contains(a))
        .chain(axes.iter().copied())
        .collect();
    let kept = x.shape().without(axes);
    let n = axes
        .iter()
        .fold(crate::dim::Dim::number(1), |n, &a| n * x.shape().dims()[a]);
    let flat = kept.insert(kept.rank(), n);
    let row = |t: &Tensor| ops::reshape(t.permute(&order), &flat);
    let (x, dx) = (row(x).done()?, row(dx));
    let last = x.rank() as i64 - 1;
    // Shifted by one element, with a 1 at the edge. Works for empty axes too.
    let moved = |by: i64| {
        let mut low = vec![crate::dim::Dim::number(0); x.rank()];
        low[x.rank() - 1] = crate::dim::Dim::number(by);
        let high: Vec<_> = low.iter().map(|&d| -d).collect();
        ops::pad(&x, 1, &low, &high, &vec![0; x.rank()])
    };
    let (before, after) = (moved(1), moved(-1));
    let others = ops::cumulative(CumulativeKind::Prod, before, last, false)
        * ops::cumulative(CumulativeKind::Prod, after, last, true);
    Ok(vec![Some((dx * others).sum(-1).done()?)])
}

pub fn cumulative_sum(op: &Op, _: usize, _: &[&Tensor], ct: &Tensor) -> Expr {
    match op {
        Op::Cumulative(p) => ops::cumulative(p.kind, ct, p.axis as i64, !p.reverse),
        _ => impossible(op),
    }
}

fn cumulative(op: &Op) -> Result<&Cumulative> {
    match op {
        Op::Cumulative(p) => Ok(p),
        _ => bail!(Internal, "{}: not a cumulative reduction", op.name()),
    }
}

/// `[…, i, j]`: whether element i contributes to cumulative result j, with the axis moved to the end.
fn counts(x: &Tensor, n: crate::dim::Dim, reverse: bool) -> Expr {
    let square = Shape::from_dims([n, n]);
    let i = ops::create::iota_like(x, &square, 0, DType::I64);
    let j = ops::create::iota_like(x, &square, 1, DType::I64);
    if reverse {
        ops::greater_equal(i, j)
    } else {
        ops::less_equal(i, j)
    }
}

/// Sums `dx[i] weight[i, j]` over i, along the axis of a cumulative reduction.
fn weighted(p: &Cumulative, dx: &Tensor, weights: Tensor) -> Result<Tensor> {
    let moved = ops::move_axis(dx, p.axis as i64, -1).done()?;
    let sum = (ops::expand_dims(&moved, -1) * weights).sum(-2);
    ops::move_axis(sum, -1, p.axis as i64).done()
}

/// Each cumulative product without one of its factors, in O(n²). Exact where factors are zero.
pub fn cumulative_prod(
    op: &Op,
    x: &[&Tensor],
    _: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let (Some(dx), p) = (&dx[0], cumulative(op)?) else {
        return Ok(vec![None]);
    };
    let row = ops::move_axis(x[0], p.axis as i64, -1).done()?;
    let n = x[0].shape().dims()[p.axis];
    let own = {
        let square = Shape::from_dims([n, n]);
        let i = ops::create::iota_like(x[0], &square, 0, DType::I64);
        ops::equal(i, ops::create::iota_like(x[0], &square, 1, DType::I64))
    };
    let others = ops::where_(own, 1, ops::expand_dims(&row, -2)).cast(row.dtype());
    let products = ops::cumulative(CumulativeKind::Prod, others, -1, p.reverse);
    let weights = ops::where_(counts(x[0], n, p.reverse), products, 0)
        .cast(row.dtype())
        .done()?;
    Ok(vec![Some(weighted(p, dx, weights)?)])
}

/// The tangent of the element that holds the cumulative maximum or minimum.
pub fn cumulative_extreme(
    op: &Op,
    x: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let (Some(dx), p) = (&dx[0], cumulative(op)?) else {
        return Ok(vec![None]);
    };
    let places = ops::create::iota_like(x[0], x[0].shape(), p.axis, DType::I64).done()?;
    // The index of the latest element that set a new extreme; in reverse, indices decrease.
    let records = ops::equal(x[0], y[0]).done()?;
    let (none, kind) = if p.reverse {
        (i64::MAX, CumulativeKind::Min)
    } else {
        (-1, CumulativeKind::Max)
    };
    let at = ops::cumulative(
        kind,
        ops::where_(records, &places, none),
        p.axis as i64,
        p.reverse,
    )
    .done()?;
    // NaN never sets an extreme: an element with none before it uses its own index.
    let at = ops::where_(ops::equal(&at, none), &places, &at).done()?;
    Ok(vec![Some(
        ops::take_along_known(dx, &at, p.axis as i64).done()?,
    )])
}

/// exp(x[i] - y[j]) for i up to j.
pub fn cumulative_logsumexp(
    op: &Op,
    x: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let (Some(dx), p) = (&dx[0], cumulative(op)?) else {
        return Ok(vec![None]);
    };
    let axis = p.axis as i64;
    // If all elements so far are -inf, the difference would be NaN, but every weight is 0.
    let empty = ops::equal(y[0], f64::NEG_INFINITY).done()?;
    let y = ops::where_(&empty, 0.0, y[0]).done()?;
    let gap = ops::expand_dims(ops::move_axis(x[0], axis, -1), -1)
        - ops::expand_dims(ops::move_axis(&y, axis, -1), -2);
    let n = x[0].shape().dims()[p.axis];
    let counts = counts(x[0], n, p.reverse).done()?;
    let safe = ops::where_(&counts, gap, f64::NEG_INFINITY);
    let weights = ops::where_(&counts, safe.exp(), 0.0)
        .cast(dx.dtype())
        .done()?;
    Ok(vec![Some(weighted(p, dx, weights)?)])
}

/// Permutes tangents as the values.
pub fn sort(
    op: &Op,
    x: &[&Tensor],
    _: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let Op::Sort(p) = op else {
        bail!(Internal, "{}: not a sort", op.name())
    };
    let places = ops::create::iota_like(x[0], x[0].shape(), p.axis, DType::I64).done()?;
    let keys: Vec<Tensor> = x[..usize::from(p.keys)]
        .iter()
        .map(|k| ops::stop_gradient(*k).done())
        .collect::<Result<_>>()?;
    let mut inputs: Vec<&Tensor> = keys.iter().collect();
    inputs.push(&places);
    let Some(order) = ops::sort_many(&inputs, p.keys, p.axis as i64, p.descending)?.pop() else {
        bail!(Internal, "sort: no result");
    };
    dx.iter()
        .map(|d| {
            d.as_ref()
                .map(|d| ops::take_along_known(d, &order, p.axis as i64).done())
                .transpose()
        })
        .collect()
}

pub fn top_k(
    _: &Op,
    _: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let picked = dx[0]
        .as_ref()
        .map(|d| ops::take_along_known(d, y[1], -1).done())
        .transpose()?;
    Ok(vec![picked, None])
}
