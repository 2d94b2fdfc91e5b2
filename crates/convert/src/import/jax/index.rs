//! Gather and scatter.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{NAMED, e, places, x};
use clematis_core::op::{Gather, OutOfRange, Scatter, ScatterKind};
use clematis_core::shape::Axes;
use clematis_core::{DType, Result, Shape, Tensor, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("gather", gather),
    ("scatter", |_, a| scatter(a, ScatterKind::Set)),
    ("scatter-add", |_, a| scatter(a, ScatterKind::Add)),
    ("scatter_add", |_, a| scatter(a, ScatterKind::Add)),
    ("scatter-mul", |_, a| scatter(a, ScatterKind::Mul)),
    ("scatter_mul", |_, a| scatter(a, ScatterKind::Mul)),
    ("scatter-min", |_, a| scatter(a, ScatterKind::Min)),
    ("scatter_min", |_, a| scatter(a, ScatterKind::Min)),
    ("scatter-max", |_, a| scatter(a, ScatterKind::Max)),
    ("scatter_max", |_, a| scatter(a, ScatterKind::Max)),
    ("dynamic_slice", |_, a| {
        let x = x(a, 0)?;
        Ok(
            ops::dynamic_slice(&x, starts(a, 1, x.rank())?, a.recorded_spec(0)?.shape)
                .done()?
                .into(),
        )
    }),
    ("dynamic_update_slice", |_, a| {
        let x = x(a, 0)?;
        let start = starts(a, 2, x.rank())?;
        Ok(ops::dynamic_update_slice(&x, e(a, 1), start).done()?.into())
    }),
];

fn axes(a: &Args<'_>, name: &str) -> Result<Axes> {
    Ok(Axes::new(&places(a, name)?))
}

/// The treatment of indices out of range. jax's `fill_or_drop` fills with NaN where ours fills with zero; its `clip` is ours,
/// and for `promise_in_bounds` any will do.
fn mode(a: &Args<'_>) -> Result<OutOfRange> {
    Ok(match a.text(NAMED, "mode", "clip")? {
        "fill" => OutOfRange::Drop,
        _ => OutOfRange::Clip,
    })
}

fn gather(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let params = Gather {
        offset_axes: axes(a, "offset_dims")?,
        collapsed: axes(a, "collapsed_slice_dims")?,
        index_map: axes(a, "start_index_map")?,
        operand_batch: axes(a, "operand_batching_dims")?,
        index_batch: axes(a, "start_indices_batching_dims")?,
        slice_sizes: a.dims(NAMED, "slice_sizes")?.into(),
        mode: mode(a)?,
    };
    if params.mode == OutOfRange::Drop && a.has(NAMED, "fill_value") {
        return filled(a, params);
    }
    Ok(ops::gather(e(a, 0), indices(a)?, params).done()?.into())
}

/// A gather with `fill_value` where the index is out of range.
fn filled(a: &Args<'_>, params: Gather) -> Result<Slot> {
    let (x, at) = (x(a, 0)?, indices(a)?);
    let mut inside: Option<Tensor> = None;
    for (i, &axis) in params.index_map.iter().enumerate() {
        let i = i as i64;
        let place = ops::squeeze(ops::slice_axis(&at, -1, i, i + 1), -1i64).done()?;
        let room = x.shape().dims()[axis] - params.slice_sizes[axis];
        let Some(last) = Slot::Int(room).as_number() else {
            return Err(a.bad("a size"));
        };
        let fits = ops::logical_and(
            ops::greater_equal(&place, 0),
            ops::less_equal(&place, ops::cast(last, place.dtype())),
        );
        inside = Some(match inside {
            Some(before) => ops::logical_and(before, fits).done()?,
            None => fits.done()?,
        });
    }
    let Some(mut inside) = inside else {
        return Ok(ops::gather(x, at, params).done()?.into());
    };
    // The slice axes are between those of the indices.
    for &axis in params.offset_axes.iter() {
        inside = ops::expand_dims(&inside, axis as i64).done()?;
    }
    let fill = ops::cast(a.tensor(NAMED, "fill_value")?, x.dtype());
    let found = ops::gather(x, at, params);
    Ok(ops::where_(inside, found, fill).done()?.into())
}

/// Indices as signed integers.
fn indices(a: &Args<'_>) -> Result<Tensor> {
    let at = x(a, 1)?;
    if at.dtype() == DType::I32 || at.dtype() == DType::I64 {
        return Ok(at);
    }
    ops::cast(at, DType::I64).done()
}

fn scatter(a: &Args<'_>, kind: ScatterKind) -> Result<Slot> {
    let params = Scatter {
        kind,
        window_axes: axes(a, "update_window_dims")?,
        inserted: axes(a, "inserted_window_dims")?,
        index_map: axes(a, "scatter_dims_to_operand_dims")?,
        operand_batch: axes(a, "operand_batching_dims")?,
        index_batch: axes(a, "scatter_indices_batching_dims")?,
        mode: match mode(a)? {
            OutOfRange::Clip if a.text(NAMED, "mode", "")? != "clip" => OutOfRange::Drop,
            mode => mode,
        },
    };
    Ok(ops::scatter(e(a, 0), indices(a)?, e(a, 2), params)
        .done()?
        .into())
}

/// Scalar start indices stacked to a vector.
fn starts(a: &Args<'_>, first: usize, rank: usize) -> Result<Tensor> {
    let one = Shape::from_sizes(&[1]);
    let all = (first..first + rank)
        .map(|i| ops::reshape(ops::cast(e(a, i), DType::I64), one.clone()).done());
    let all = all.collect::<Result<Vec<_>>>()?;
    if all.is_empty() {
        return ops::zeros(Shape::from_sizes(&[0]), DType::I64).done();
    }
    ops::concat(&all, 0).done()
}
