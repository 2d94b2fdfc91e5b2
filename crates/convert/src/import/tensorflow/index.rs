//! Gather, scatter, segment reductions, searchsorted, bincount.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{NAMED, e, ints, list, sizes, t};
use clematis_core::op::{Gather, OutOfRange, Scatter, ScatterKind};
use clematis_core::shape::Axes;
use clematis_core::{DType, Dim, Result, Shape, Tensor, bail, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("GatherV2", gather),
    ("ResourceGather", gather),
    ("Gather", gather),
    ("GatherNd", gather_nd),
    ("ScatterNd", |_, a| {
        let Some(dims) = sizes(a, 2) else {
            bail!(
                Unsupported,
                "convert: `ScatterNd` with a shape that depends on values"
            );
        };
        let updates = t(a, 1)?;
        let base = ops::zeros(Shape::from_dims(dims), updates.dtype()).done()?;
        scatter(&base, t(a, 0)?, updates, ScatterKind::Add)
    }),
    ("TensorScatterUpdate", |_, a| into(a, ScatterKind::Set)),
    ("TensorScatterAdd", |_, a| into(a, ScatterKind::Add)),
    ("TensorScatterMax", |_, a| into(a, ScatterKind::Max)),
    ("TensorScatterMin", |_, a| into(a, ScatterKind::Min)),
    ("TensorScatterSub", |_, a| {
        let minus = ops::neg(e(a, 2)).done()?;
        scatter(&t(a, 0)?, t(a, 1)?, minus, ScatterKind::Add)
    }),
    ("UnsortedSegmentSum", |_, a| segments(a, ScatterKind::Add)),
    ("UnsortedSegmentMax", |_, a| segments(a, ScatterKind::Max)),
    ("UnsortedSegmentMin", |_, a| segments(a, ScatterKind::Min)),
    ("InvertPermutation", |_, a| {
        if let Some(order) = ints(a, 0).ok().filter(|o| !o.is_empty()) {
            let mut back = vec![Dim::from(0); order.len()];
            for (i, &at) in order.iter().enumerate() {
                if let Some(place) = back.get_mut(at as usize) {
                    *place = Dim::from(i);
                }
            }
            return Ok(list(back));
        }
        Ok(ops::argsort(e(a, 0), 0, false).done()?.into())
    }),
    ("Bucketize", |_, a| {
        let Slot::List(bounds) = a.slot(NAMED, "boundaries") else {
            bail!(Convert, "convert: `Bucketize` without boundaries");
        };
        let number = |slot: &Slot| match slot {
            Slot::Float(x) => *x as f32,
            Slot::Int(d) => d.value().unwrap_or(0) as f32,
            _ => f32::NAN,
        };
        let bounds: Vec<f32> = bounds.iter().map(number).collect();
        let bounds = ops::from_slice(&bounds, [bounds.len()])?;
        let x = ops::cast(t(a, 0)?, DType::F32);
        Ok(ops::searchsorted(bounds, x, true).done()?.into())
    }),
    ("LowerBound", |_, a| bound(a, false)),
    ("UpperBound", |_, a| bound(a, true)),
    ("DenseBincount", |_, a| bins(a)),
];

/// Indices as signed integers.
fn signed(x: Tensor) -> Result<Tensor> {
    if matches!(x.dtype(), DType::I32 | DType::I64) {
        return Ok(x);
    }
    ops::cast(x, DType::I64).done()
}

fn gather(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let axis = if a.args.len() > 2 { ints(a, 2)?[0] } else { 0 };
    let batched = a.int(NAMED, "batch_dims", 0)?;
    if let (Some(own), Some(at)) = (sizes(a, 0), sizes(a, 1)) {
        let count = own.len() as i64;
        let place = |d: &Dim| {
            let n = d.value()?;
            own.get(if n < 0 { n + count } else { n } as usize).copied()
        };
        if let Some(found) = at.iter().map(place).collect::<Option<Vec<Dim>>>() {
            let alone = matches!(a.slot(1, "indices"), Slot::Int(_));
            return Ok(if alone {
                Slot::Int(found[0])
            } else {
                list(found)
            });
        }
    }
    let x = t(a, 0)?;
    let axis = if axis < 0 {
        axis + x.rank() as i64
    } else {
        axis
    };
    if batched == 0 {
        return Ok(ops::take(x, signed(t(a, 1)?)?, axis).done()?.into());
    }
    // batch_dims: rows of the indices belong to rows of the operand.
    let at = signed(t(a, 1)?)?;
    let batched = if batched < 0 {
        batched + at.rank() as i64
    } else {
        batched
    } as usize;
    let (axis, own) = (axis as usize, at.rank() - batched);
    let lead: Vec<usize> = (0..batched).collect();
    // Axes of the result: batch, operand axes before the indexed one, index axes, the rest.
    let before = axis - batched;
    let rest = x.rank() - axis - 1;
    let offset: Vec<usize> = (batched..batched + before)
        .chain(batched + before + own..batched + before + own + rest)
        .collect();
    let mut sizes: Vec<Dim> = x.shape().dims().to_vec();
    for size in &mut sizes[..batched] {
        *size = Dim::from(1);
    }
    sizes[axis] = Dim::from(1);
    let params = Gather {
        offset_axes: Axes::new(&offset),
        collapsed: Axes::new(&[axis]),
        index_map: Axes::new(&[axis]),
        operand_batch: Axes::new(&lead),
        index_batch: Axes::new(&lead),
        slice_sizes: sizes.into(),
        mode: OutOfRange::Clip,
    };
    Ok(ops::gather(x, ops::expand_dims(at, -1), params)
        .done()?
        .into())
}

/// The size of the last axis of the indices.
fn coordinates(at: &Tensor) -> Result<usize> {
    match at.shape().dims().last().and_then(|d| d.value()) {
        Some(n) => Ok(n as usize),
        None => bail!(
            Unsupported,
            "convert: indices whose last axis has an unknown size"
        ),
    }
}

fn gather_nd(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, at) = (t(a, 0)?, signed(t(a, 1)?)?);
    let count = coordinates(&at)?;
    let axes: Vec<usize> = (0..count).collect();
    let mut sizes: Vec<Dim> = x.shape().dims().to_vec();
    for size in &mut sizes[..count] {
        *size = Dim::from(1);
    }
    let outside = at.rank() - 1;
    let offset: Vec<usize> = (outside..outside + x.rank() - count).collect();
    let params = Gather {
        offset_axes: Axes::new(&offset),
        collapsed: Axes::new(&axes),
        index_map: Axes::new(&axes),
        operand_batch: Axes::default(),
        index_batch: Axes::default(),
        slice_sizes: sizes.into(),
        mode: OutOfRange::Clip,
    };
    Ok(ops::gather(x, at, params).done()?.into())
}

fn into(a: &Args<'_>, kind: ScatterKind) -> Result<Slot> {
    scatter(&t(a, 0)?, t(a, 1)?, t(a, 2)?, kind)
}

fn scatter(base: &Tensor, at: Tensor, updates: Tensor, kind: ScatterKind) -> Result<Slot> {
    let at = signed(at)?;
    let count = coordinates(&at)?;
    let axes: Vec<usize> = (0..count).collect();
    let windows: Vec<usize> = (at.rank() - 1..updates.rank()).collect();
    let params = Scatter {
        kind,
        window_axes: Axes::new(&windows),
        inserted: Axes::new(&axes),
        index_map: Axes::new(&axes),
        operand_batch: Axes::default(),
        index_batch: Axes::default(),
        mode: OutOfRange::Drop,
    };
    Ok(ops::scatter(base, at, updates, params).done()?.into())
}

/// Reduces rows by segment id.
fn segments(a: &Args<'_>, kind: ScatterKind) -> Result<Slot> {
    let (x, at) = (t(a, 0)?, signed(t(a, 1)?)?);
    let Some(count) = sizes(a, 2).and_then(|d| d.first().copied()) else {
        bail!(
            Unsupported,
            "convert: a number of segments that depends on values"
        );
    };
    let rest = x.shape().dims()[at.rank()..].to_vec();
    let shape = Shape::from_dims(std::iter::once(count).chain(rest));
    let dtype = x.dtype();
    let base = match kind {
        ScatterKind::Add => ops::zeros(shape, dtype),
        _ => {
            let (low, high) = ends(dtype);
            ops::full(
                shape,
                if kind == ScatterKind::Max { low } else { high },
                dtype,
            )
        }
    };
    scatter(&base.done()?, ops::expand_dims(at, -1).done()?, x, kind)
}

/// The identities of max and min in TensorFlow.
fn ends(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F64 => (f64::MIN, f64::MAX),
        DType::I64 => (i64::MIN as f64, i64::MAX as f64),
        DType::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        _ => (f64::from(f32::MIN), f64::from(f32::MAX)),
    }
}

/// Lower or upper bounds in sorted rows.
fn bound(a: &Args<'_>, right: bool) -> Result<Slot> {
    let (rows, x) = (t(a, 0)?, t(a, 1)?);
    // The number of smaller elements, counted, so that each row is searched separately.
    let (rows, x) = (
        ops::expand_dims(rows, -2).done()?,
        ops::expand_dims(x, -1).done()?,
    );
    let before = if right {
        ops::less_equal(rows, x)
    } else {
        ops::less(rows, x)
    };
    Ok(
        ops::sum(ops::cast(before, a.recorded_spec(0)?.dtype), -1i64)
            .done()?
            .into(),
    )
}

fn bins(a: &Args<'_>) -> Result<Slot> {
    let Some(size) = sizes(a, 1).and_then(|d| d.first().copied()) else {
        bail!(
            Unsupported,
            "convert: a number of bins that depends on values"
        );
    };
    let recorded = a.recorded_spec(0)?.dtype;
    let x = t(a, 0)?;
    let hot = ops::one_hot(&x, size, recorded).done()?;
    let hot = match a.maybe_tensor(2, "weights") {
        Ok(Some(w)) if w.rank() == x.rank() && w.shape() == x.shape() => {
            (hot * ops::expand_dims(w, -1)).done()?
        }
        _ => hot,
    };
    if a.flag(NAMED, "binary_output", false)? {
        return Ok(ops::max(hot, -2i64).done()?.into());
    }
    Ok(ops::sum(hot, -2i64).done()?.into())
}
