//! Reshapes, slices, concatenation, constants, reductions.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{NAMED, e, places, x};
use clematis_core::expr::Expr;
use clematis_core::op::CumulativeKind;
use clematis_core::{Dim, Result, Tensor, bail, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("getitem", super::super::torch::getitem),
    ("reshape", view),
    ("squeeze", view),
    ("expand_dims", view),
    ("broadcast_in_dim", |_, a| {
        let to = a.recorded_spec(0)?.shape;
        Ok(
            ops::broadcast_in(e(a, 0), &to, &places(a, "broadcast_dimensions")?)
                .done()?
                .into(),
        )
    }),
    ("transpose", |_, a| {
        Ok(ops::permute(e(a, 0), a.ints(NAMED, "permutation")?)
            .done()?
            .into())
    }),
    ("rev", |_, a| {
        Ok(ops::flip(e(a, 0), a.ints(NAMED, "dimensions")?)
            .done()?
            .into())
    }),
    ("slice", slice),
    ("pad", pad),
    ("concatenate", |_, a| {
        Ok(ops::concat(&all(a)?, a.int(NAMED, "dimension", 0)?)
            .done()?
            .into())
    }),
    ("stack", |_, a| {
        Ok(ops::stack(&all(a)?, a.int(NAMED, "axis", 0)?)
            .done()?
            .into())
    }),
    ("unstack", |_, a| pieces(a, true)),
    ("split", |_, a| pieces(a, false)),
    ("tile", tile),
    ("iota", |_, a| {
        let recorded = a.recorded_spec(0)?;
        Ok(ops::iota(
            recorded.shape,
            a.int(NAMED, "dimension", 0)? as usize,
            recorded.dtype,
        )
        .done()?
        .into())
    }),
    ("empty", zeros),
    ("empty2", zeros),
    ("full", |_, a| {
        let recorded = a.recorded_spec(0)?;
        Ok(
            ops::broadcast_to(ops::cast(e(a, 0), recorded.dtype), recorded.shape)
                .done()?
                .into(),
        )
    }),
    ("dim_as_value", |_, a| {
        let dim = Slot::Int(a.dim(NAMED, "dim")?);
        match dim.as_number() {
            Some(x) => Ok(ops::cast(x, a.recorded_spec(0)?.dtype).done()?.into()),
            None => bail!(Convert, "convert: a size without a value"),
        }
    }),
    ("reduce_sum", |_, a| over(a, ops::sum)),
    ("reduce_max", |_, a| over(a, ops::max)),
    ("reduce_min", |_, a| over(a, ops::min)),
    ("reduce_prod", |_, a| over(a, ops::prod)),
    ("reduce_and", |_, a| over(a, ops::all)),
    ("reduce_or", |_, a| over(a, ops::any)),
    ("argmax", |_, a| arg(a, ops::argmax)),
    ("argmin", |_, a| arg(a, ops::argmin)),
    ("cumsum", |_, a| running(a, CumulativeKind::Sum)),
    ("cumprod", |_, a| running(a, CumulativeKind::Prod)),
    ("cummax", |_, a| running(a, CumulativeKind::Max)),
    ("cummin", |_, a| running(a, CumulativeKind::Min)),
    ("cumlogsumexp", |_, a| running(a, CumulativeKind::LogSumExp)),
    ("sort", sort),
    ("top_k", |_, a| {
        let (values, at) = ops::top_k(&x(a, 0)?, a.dim(NAMED, "k")?)?;
        Ok(vec![values, ops::cast(at, a.recorded_spec(1)?.dtype).done()?].into())
    }),
];

/// All operands.
fn all(a: &Args<'_>) -> Result<Vec<Tensor>> {
    (0..a.args.len()).map(|i| x(a, i)).collect()
}

fn view(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let mut y = e(a, 0);
    if a.has(NAMED, "dimensions") && a.node.op == "reshape" {
        let order = a.ints(NAMED, "dimensions")?;
        if !order.is_empty() {
            y = ops::permute(y, order);
        }
    }
    Ok(ops::reshape(y, a.recorded_spec(0)?.shape).done()?.into())
}

fn zeros(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let recorded = a.recorded_spec(0)?;
    Ok(ops::zeros(recorded.shape, recorded.dtype).done()?.into())
}

fn slice(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = x(a, 0)?;
    let (start, limit) = (
        a.dims(NAMED, "start_indices")?,
        a.dims(NAMED, "limit_indices")?,
    );
    let strides = places(a, "strides")?;
    let strides = if strides.is_empty() {
        vec![1; x.rank()]
    } else {
        strides
    };
    Ok(ops::slice(x, &start, &limit, &strides).done()?.into())
}

fn pad(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let Slot::List(config) = a.slot(NAMED, "padding_config") else {
        bail!(Convert, "convert: `pad` without numbers");
    };
    let (mut low, mut high, mut between) = (Vec::new(), Vec::new(), Vec::new());
    for part in config {
        let Slot::List(three) = part else {
            bail!(Convert, "convert: `pad` with {}", part.kind());
        };
        let dim = |i: usize| match three.get(i) {
            Some(Slot::Int(d)) => *d,
            _ => Dim::from(0),
        };
        low.push(dim(0));
        high.push(dim(1));
        between.push(dim(2).value().unwrap_or(0) as usize);
    }
    Ok(ops::pad(e(a, 0), e(a, 1), &low, &high, &between)
        .done()?
        .into())
}

/// Slices along an axis, whose sizes jax knows.
fn pieces(a: &Args<'_>, vanishes: bool) -> Result<Slot> {
    let x = x(a, 0)?;
    let axis = a.int(NAMED, "axis", 0)?;
    let mut start = Dim::from(0);
    let mut out = Vec::new();
    for i in 0..a.node.specs.len() {
        let recorded = a.recorded_spec(i)?.shape;
        let size = if vanishes {
            1.into()
        } else {
            recorded.dims()[axis as usize]
        };
        out.push(ops::reshape(ops::slice_axis(&x, axis, start, start + size), recorded).done()?);
        start = start + size;
    }
    // A single part is returned as an array, not as a list.
    Ok(match <[Tensor; 1]>::try_from(out) {
        Ok([one]) => one.into(),
        Err(several) => several.into(),
    })
}

fn tile(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    Ok(ops::tile(e(a, 0), &places(a, "reps")?).done()?.into())
}

fn over(a: &Args<'_>, f: impl FnOnce(Tensor, Vec<i64>) -> Expr) -> Result<Slot> {
    let axes = a.ints(NAMED, "axes")?;
    let x = x(a, 0)?;
    if axes.is_empty() {
        return Ok(x.into());
    }
    Ok(f(x, axes).done()?.into())
}

fn arg(a: &Args<'_>, f: impl FnOnce(Tensor, Option<i64>) -> Expr) -> Result<Slot> {
    let axis = a.ints(NAMED, "axes")?.first().copied();
    Ok(ops::cast(f(x(a, 0)?, axis), a.recorded_spec(0)?.dtype)
        .done()?
        .into())
}

fn running(a: &Args<'_>, kind: CumulativeKind) -> Result<Slot> {
    let (axis, reverse) = (a.int(NAMED, "axis", 0)?, a.flag(NAMED, "reverse", false)?);
    Ok(ops::cumulative(kind, e(a, 0), axis, reverse).done()?.into())
}

fn sort(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let xs = all(a)?;
    let keys = a.int(NAMED, "num_keys", 1)? as u8;
    let out = ops::sort_many(
        &xs.iter().collect::<Vec<_>>(),
        keys,
        a.int(NAMED, "dimension", 0)?,
        false,
    )?;
    Ok(match <[Tensor; 1]>::try_from(out) {
        Ok([one]) => one.into(),
        Err(several) => several.into(),
    })
}
