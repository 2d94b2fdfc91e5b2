//! Reshapes, slices, concatenation.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::axis;
use clematis_core::{Dim, Result, Shape, Tensor, bail, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("getitem", super::getitem),
    ("view", view),
    ("reshape", view),
    ("_unsafe_view", view),
    ("flatten", view),
    ("unflatten", view),
    ("squeeze", view),
    ("unsqueeze", view),
    ("_reshape_alias", view),
    ("view_as", view),
    ("reshape_as", view),
    ("permute", |_, a| {
        Ok(ops::permute(a.expr(0, "self"), a.ints(1, "dims")?)
            .done()?
            .into())
    }),
    ("transpose", |_, a| {
        Ok(ops::swap_axes(
            a.expr(0, "self"),
            a.int(1, "dim0", 0)?,
            a.int(2, "dim1", 1)?,
        )
        .done()?
        .into())
    }),
    ("t", |_, a| {
        let x = a.tensor(0, "self")?;
        if x.rank() < 2 {
            return Ok(x.into());
        }
        Ok(ops::swap_axes(x, 0, 1).done()?.into())
    }),
    ("expand", expand),
    ("expand_as", expand),
    ("broadcast_to", expand),
    ("slice", slice),
    ("select", select),
    ("narrow", narrow),
    ("split_with_sizes", split_with_sizes),
    ("split", split),
    ("chunk", |_, a| recorded_splits(a, 2)),
    ("unbind", unbind),
    ("cat", |_, a| {
        // Legacy empty lists may be among the operands.
        let xs = a.tensors(0, "tensors")?;
        let rank = xs.iter().map(|x| x.rank()).max().unwrap_or(0);
        let recorded = a.recorded_spec(0)?.dtype;
        let xs = xs
            .iter()
            .filter(|x| x.rank() == rank)
            .map(|x| ops::cast(x, recorded).done());
        let xs: Vec<Tensor> = xs.collect::<Result<_>>()?;
        Ok(ops::concat(&xs, a.int(1, "dim", 0)?).done()?.into())
    }),
    ("stack", |_, a| {
        Ok(ops::stack(&a.tensors(0, "tensors")?, a.int(1, "dim", 0)?)
            .done()?
            .into())
    }),
    ("flip", |_, a| {
        Ok(ops::flip(a.expr(0, "self"), a.ints(1, "dims")?)
            .done()?
            .into())
    }),
    ("roll", roll),
    ("repeat", repeat),
    ("tril", |_, a| {
        Ok(ops::tril(a.expr(0, "self"), a.int(1, "diagonal", 0)?)
            .done()?
            .into())
    }),
    ("triu", |_, a| {
        Ok(ops::triu(a.expr(0, "self"), a.int(1, "diagonal", 0)?)
            .done()?
            .into())
    }),
    ("constant_pad_nd", constant_pad),
];

/// Any op that keeps the order of elements: the result shape is recorded.
fn view(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    if a.node.variant == "dtype" {
        return Ok(ops::bitcast(a.expr(0, "self"), a.recorded_spec(0)?.dtype)
            .done()?
            .into());
    }
    Ok(ops::reshape(a.expr(0, "self"), a.recorded_spec(0)?.shape)
        .done()?
        .into())
}

fn expand(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    Ok(
        ops::broadcast_to(a.expr(0, "self"), a.recorded_spec(0)?.shape)
            .done()?
            .into(),
    )
}

/// A slice bound as in torch: counted from the end if negative, and clamped to the axis.
pub fn place(at: Dim, size: Dim, default: Dim) -> Dim {
    match (at.value(), size.value()) {
        // "To the end" is the largest integer.
        (Some(n), _) if n > i64::MAX >> 2 => default,
        (Some(n), Some(size)) => Dim::number(if n < 0 {
            (n + size).max(0)
        } else {
            n.min(size)
        }),
        (Some(n), None) if n < 0 => at + size,
        _ => at,
    }
}

fn slice(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let along = axis(&x, a.int(1, "dim", 0)?);
    let size = x.shape().dims()[along as usize];
    let start = if a.has(2, "start") {
        a.dim(2, "start")?
    } else {
        0.into()
    };
    let end = if a.has(3, "end") {
        a.dim(3, "end")?
    } else {
        size
    };
    let step = a.int(4, "step", 1)?;
    let (start, end) = (place(start, size, size), place(end, size, size));
    let end = match (start.value(), end.value()) {
        (Some(s), Some(e)) if e < s => start,
        _ => end,
    };
    Ok(ops::slice_axis_by(x, along, start, end, step as usize)
        .done()?
        .into())
}

fn select(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let along = axis(&x, a.int(1, "dim", 0)?);
    let at = a.dim(2, "index")?;
    let size = x.shape().dims()[along as usize];
    let at = if at.value().is_some_and(|n| n < 0) {
        at + size
    } else {
        at
    };
    let one = ops::slice_axis(x, along, at, at + Dim::from(1));
    Ok(ops::squeeze(one, along).done()?.into())
}

fn narrow(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let along = axis(&x, a.int(1, "dim", 0)?);
    let start = a.dim(2, "start")?;
    Ok(
        ops::slice_axis(x, along, start, start + a.dim(3, "length")?)
            .done()?
            .into(),
    )
}

fn pieces(x: &Tensor, along: i64, sizes: &[Dim]) -> Result<Slot> {
    let mut start = Dim::from(0);
    let mut out = Vec::with_capacity(sizes.len());
    for &size in sizes {
        out.push(ops::slice_axis(x, along, start, start + size).done()?);
        start = start + size;
    }
    Ok(out.into())
}

fn split_with_sizes(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let along = axis(&x, a.int(2, "dim", 0)?);
    pieces(&x, along, &a.dims(1, "split_sizes")?)
}

fn split(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    match a.slot(1, "split_size") {
        Slot::List(_) => split_with_sizes(w, a),
        _ => recorded_splits(a, 2),
    }
}

/// Splits into pieces whose sizes are recorded.
fn recorded_splits(a: &Args<'_>, axis_at: usize) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let along = axis(&x, a.int(axis_at, "dim", 0)?);
    let sizes =
        (0..a.node.specs.len()).map(|i| Ok(a.recorded_spec(i)?.shape.dims()[along as usize]));
    pieces(&x, along, &sizes.collect::<Result<Vec<_>>>()?)
}

fn unbind(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let along = axis(&x, a.int(1, "dim", 0)?);
    let Some(count) = x.shape().dims()[along as usize].value() else {
        bail!(
            Unsupported,
            "convert: unbind along an axis of unknown size: {}",
            x.spec()
        );
    };
    let one = |i: i64| ops::squeeze(ops::slice_axis(&x, along, i, i + 1), along).done();
    Ok((0..count).map(one).collect::<Result<Vec<_>>>()?.into())
}

fn roll(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    // A roll by a fraction of a symbolic axis is a concatenation of two slices.
    if let (Ok(shifts), Ok(axes)) = (a.dims(1, "shifts"), a.ints(2, "dims"))
        && shifts.iter().any(|d| d.value().is_none())
    {
        let mut parts = shifts.iter().zip(&axes);
        return Ok(parts
            .try_fold(x, |x, (&by, &along)| rolled(&x, by, along))?
            .into());
    }
    let (shifts, axes) = (a.ints(1, "shifts")?, a.ints(2, "dims")?);
    if axes.is_empty() {
        let flat = ops::roll(ops::flatten(&x, 0), shifts.first().copied().unwrap_or(0), 0);
        return Ok(ops::reshape(flat, x.shape().clone()).done()?.into());
    }
    let pairs = shifts.iter().zip(&axes);
    Ok(pairs
        .fold(x.into_expr(), |x, (&by, &along)| ops::roll(x, by, along))
        .done()?
        .into())
}

fn rolled(x: &Tensor, by: Dim, along: i64) -> Result<Tensor> {
    let along = axis(x, along);
    let size = x.shape().dims()[along as usize];
    let by = by.rem(size)?;
    let parts = [
        ops::slice_axis(x, along, size - by, size).done()?,
        ops::slice_axis(x, along, 0, size - by).done()?,
    ];
    ops::concat(&parts, along).done()
}

fn repeat(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let times = a.dims(1, "repeats")?;
    let new = times.len().saturating_sub(x.rank());
    // Each axis gets a new one before it that is broadcast: [1, 2, 3] times [2, 3] is [2, 1, 1, 2, 3, 3] and so on.
    let sizes: Vec<Dim> = (0..new)
        .map(|_| 1.into())
        .chain(x.shape().dims().iter().copied())
        .collect();
    let (mut ones, mut wide, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for (&size, &n) in sizes.iter().zip(&times) {
        ones.extend([Dim::from(1), size]);
        wide.extend([n, size]);
        last.push(size * n);
    }
    let wide = ops::broadcast_to(
        ops::reshape(x, Shape::from_dims(ones)),
        Shape::from_dims(wide),
    );
    Ok(ops::reshape(wide, Shape::from_dims(last)).done()?.into())
}

fn constant_pad(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let pads = a.dims(1, "pad")?;
    let value = if a.has(2, "value") {
        a.scalar(2, "value")?
    } else {
        0i64.into()
    };
    let mut low = vec![Dim::from(0); x.rank()];
    let mut high = low.clone();
    // Pairs are in order from the last axis to the first.
    for (i, pair) in pads.chunks_exact(2).enumerate() {
        let at = x.rank() - 1 - i;
        (low[at], high[at]) = (pair[0], pair[1]);
    }
    let value = Tensor::scalar(value, x.dtype());
    let between = vec![0; x.rank()];
    Ok(ops::pad(x, value, &low, &high, &between).done()?.into())
}

use clematis_core::expr::IntoExpr;
