//! Gather, scatter, Unique, NonZero and cache updates.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{
    NAMED, counted, e, floats, list, maybe, out, several, sizes, t, to_tensor, unknown, values,
};
use clematis_core::host::Host;
use clematis_core::op::{Gather, OutOfRange, Scatter, ScatterKind};
use clematis_core::shape::Axes;
use clematis_core::{DType, Dim, Result, Scalar, Tensor, bail, ops};
use std::cmp::Ordering;

pub const RULES: &[(&str, Rule)] = &[
    ("Gather", gather),
    ("GatherElements", |_, a| {
        let (x, at) = (t(a, 0)?, t(a, 1)?);
        if at.rank() != x.rank() {
            return Err(a.bad("indices of the data's rank"));
        }
        let axis = x
            .shape()
            .axis(a.int(NAMED, "axis", 0)?, "gather_elements")?;
        let at = counted_from_front(&at, x.shape().dims()[axis])?;
        // Other axes may be longer than those of the indices.
        let mut part = x.clone();
        for (i, &n) in at
            .shape()
            .dims()
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != axis)
        {
            if n != x.shape().dims()[i] {
                part = ops::slice_axis(&part, i as i64, 0, n).done()?;
            }
        }
        out(ops::take_along_axis(part, at, axis as i64))
    }),
    ("GatherND", gather_nd),
    ("ScatterElements", scatter_elements),
    ("Scatter", scatter_elements),
    ("ScatterND", scatter_nd),
    ("TensorScatter", tensor_scatter),
    ("NonZero", |_, a| {
        let x = to_tensor(a.slot(0, "operand"))?;
        if values(&x).is_none() {
            return unknown(a, 0);
        }
        let x = if x.rank() == 0 {
            ops::reshape(x, [1i64].to_vec()).done()?
        } else {
            x
        };
        let rows = ops::nonzero_by_axis(&x)?;
        out(ops::cast(ops::stack(&rows, 0), DType::I64))
    }),
    ("Compress", compress),
    ("Unique", unique),
    ("ai.onnx.ml::ArrayFeatureExtractor", |_, a| {
        let at = ops::reshape(e(a, 1), [-1i64].to_vec());
        let x = t(a, 0)?;
        let x = if x.rank() == 1 {
            ops::expand_dims(x, 0).done()?
        } else {
            x
        };
        out(ops::take(x, at, -1))
    }),
    ("ai.onnx.ml::Binarizer", |_, a| {
        let x = t(a, 0)?;
        out(ops::cast(
            ops::greater(&x, a.float(NAMED, "threshold", 0.0)?),
            x.dtype(),
        ))
    }),
];

/// Converts negative indices to non-negative ones.
fn counted_from_front(at: &Tensor, size: Dim) -> Result<Tensor> {
    let at = ops::cast(at, DType::I64).done()?;
    if let Some(host) = values(&at)
        && host.to_f64().iter().all(|&x| x >= 0.0)
    {
        return Ok(at);
    }
    let size = counted(size)?;
    ops::where_(ops::less(&at, 0), &at + size, &at).done()
}

fn gather(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    if let (false, Some(own)) = (matches!(a.slot(0, "x"), Slot::Tensor(_)), sizes(a, 0))
        && let Some(places) =
            sizes(a, 1).and_then(|d| d.iter().map(|d| d.value()).collect::<Option<Vec<i64>>>())
    {
        let one = |i: &i64| {
            let at = if *i < 0 { i + own.len() as i64 } else { *i };
            usize::try_from(at).ok().and_then(|at| own.get(at).copied())
        };
        let Some(found) = places.iter().map(one).collect::<Option<Vec<Dim>>>() else {
            bail!(
                Convert,
                "convert: `Gather`: indices {places:?} out of range for {} sizes",
                own.len()
            );
        };
        let alone = match a.slot(1, "indices") {
            Slot::Int(_) => true,
            Slot::Tensor(x) => x.rank() == 0,
            _ => false,
        };
        return Ok(if alone {
            Slot::Int(found[0])
        } else {
            list(found)
        });
    }
    let (x, at) = (t(a, 0)?, t(a, 1)?);
    let axis = x.shape().axis(a.int(NAMED, "axis", 0)?, "gather")?;
    let at = counted_from_front(&at, x.shape().dims()[axis])?;
    out(ops::take(x, at, axis as i64))
}

fn gather_nd(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, at) = (t(a, 0)?, t(a, 1)?);
    let b = a.int(NAMED, "batch_dims", 0)?.max(0) as usize;
    if at.rank() == 0 || b >= at.rank() {
        return Err(a.bad("indices with more axes than batch_dims"));
    }
    let (q, r) = (at.rank(), x.rank());
    let k = at.shape().known_size(q - 1, "gather_nd")?;
    if b + k > r {
        bail!(
            Convert,
            "convert: `GatherND`: incompatible indices {} and operand {}",
            at.spec(),
            x.spec()
        );
    }
    let at = vectors_from_front(&at, &x.shape().dims()[b..b + k])?;
    let range = |from: usize, to: usize| -> Axes { (from..to).collect() };
    let sizes = x.shape().dims().iter().enumerate();
    let p = Gather {
        offset_axes: range(q - 1, q - 1 + r - b - k),
        collapsed: range(b, b + k),
        index_map: range(b, b + k),
        operand_batch: range(0, b),
        index_batch: range(0, b),
        slice_sizes: sizes
            .map(|(i, &d)| if i < b + k { Dim::from(1) } else { d })
            .collect(),
        mode: OutOfRange::Clip,
    };
    out(ops::gather(x, at, p))
}

/// Converts the components of index vectors to non-negative ones.
fn vectors_from_front(at: &Tensor, dims: &[Dim]) -> Result<Tensor> {
    let at = ops::cast(at, DType::I64).done()?;
    if let Some(host) = values(&at)
        && host.to_f64().iter().all(|&x| x >= 0.0)
    {
        return Ok(at);
    }
    if dims.is_empty() {
        return Ok(at);
    }
    let dims = dims
        .iter()
        .map(|&d| counted(d))
        .collect::<Result<Vec<_>>>()?;
    let whole = ops::stack(&dims, 0).done()?;
    ops::where_(ops::less(&at, 0), &at + whole, &at).done()
}

fn kind(a: &Args<'_>) -> Result<ScatterKind> {
    Ok(match a.text(NAMED, "reduction", "none")? {
        "none" => ScatterKind::Set,
        "add" => ScatterKind::Add,
        "mul" => ScatterKind::Mul,
        "max" => ScatterKind::Max,
        "min" => ScatterKind::Min,
        other => bail!(Convert, "convert: `{}` by \"{other}\"", a.node.op),
    })
}

/// Writes single elements at full index vectors.
fn put(kind: ScatterKind, x: &Tensor, at: &[Tensor], updates: &Tensor) -> Result<Tensor> {
    let rank = x.rank();
    let p = Scatter {
        kind,
        window_axes: Axes::new(&[]),
        inserted: Axes::all(rank),
        index_map: Axes::all(rank),
        operand_batch: Axes::new(&[]),
        index_batch: Axes::new(&[]),
        mode: OutOfRange::Drop,
    };
    ops::scatter(x, ops::stack(at, -1), updates, p).done()
}

fn scatter_elements(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, at, updates) = (t(a, 0)?, t(a, 1)?, t(a, 2)?);
    if at.rank() != x.rank() {
        return Err(a.bad("indices of the data's rank"));
    }
    let axis = x
        .shape()
        .axis(a.int(NAMED, "axis", 0)?, "scatter_elements")?;
    let at = counted_from_front(&at, x.shape().dims()[axis])?;
    let vector = |i: usize| match i == axis {
        true => Ok(at.clone()),
        false => ops::iota(at.shape().clone(), i, DType::I64).done(),
    };
    let all = (0..x.rank()).map(vector).collect::<Result<Vec<_>>>()?;
    Ok(put(kind(a)?, &x, &all, &updates)?.into())
}

fn scatter_nd(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, at, updates) = (t(a, 0)?, t(a, 1)?, t(a, 2)?);
    if at.rank() == 0 {
        return Err(a.bad("indices of rank 1 or more"));
    }
    let q = at.rank();
    let k = at.shape().known_size(q - 1, "scatter_nd")?;
    if k > x.rank() {
        bail!(
            Convert,
            "convert: `ScatterND`: incompatible indices {} and operand {}",
            at.spec(),
            x.spec()
        );
    }
    let at = vectors_from_front(&at, &x.shape().dims()[..k])?;
    let p = Scatter {
        kind: kind(a)?,
        window_axes: (q - 1..q - 1 + x.rank() - k).collect(),
        inserted: (0..k).collect(),
        index_map: (0..k).collect(),
        operand_batch: Axes::new(&[]),
        index_batch: Axes::new(&[]),
        mode: OutOfRange::Drop,
    };
    out(ops::scatter(x, at, updates, p))
}

fn tensor_scatter(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, update) = (t(a, 0)?, t(a, 1)?);
    if update.rank() != x.rank() {
        return Err(a.bad("an update of the cache's rank"));
    }
    let axis = x
        .shape()
        .axis(a.int(NAMED, "axis", -2)?, "tensor_scatter")?;
    let mut place = ops::iota(update.shape().clone(), axis, DType::I64);
    if let Some(start) = maybe(a, 2)? {
        let mut wide = vec![1i64; x.rank()];
        wide[0] = -1;
        place = place + ops::reshape(ops::cast(start, DType::I64), wide);
    }
    if a.text(NAMED, "mode", "linear")? == "circular" {
        place = ops::remainder(place, counted(x.shape().dims()[axis])?);
    }
    let place = place.done()?;
    let vector = |i: usize| match i == axis {
        true => Ok(place.clone()),
        false => ops::iota(update.shape().clone(), i, DType::I64).done(),
    };
    let all = (0..x.rank()).map(vector).collect::<Result<Vec<_>>>()?;
    Ok(put(ScatterKind::Set, &x, &all, &update)?.into())
}

fn compress(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let places: Vec<i64> = floats(a, 1)?
        .iter()
        .enumerate()
        .filter(|(_, x)| **x != 0.0)
        .map(|(i, _)| i as i64)
        .collect();
    let at = ops::from_slice(&places, [places.len()])?;
    if a.has(NAMED, "axis") {
        return out(ops::take(e(a, 0), at, a.int(NAMED, "axis", 0)?));
    }
    out(ops::take(ops::reshape(e(a, 0), [-1i64].to_vec()), at, 0))
}

fn order(x: &Scalar, y: &Scalar) -> Ordering {
    match (x, y) {
        (Scalar::Float(_) | Scalar::Complex(..), _) | (_, Scalar::Float(_)) => {
            x.as_f64().total_cmp(&y.as_f64())
        }
        _ => x.as_i128().cmp(&y.as_i128()),
    }
}

/// The number of results depends on the values, so they have to be known.
fn unique(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = to_tensor(a.slot(0, "operand"))?;
    let (x, axis) = match a.has(NAMED, "axis") {
        true => {
            let axis = x.shape().axis(a.int(NAMED, "axis", 0)?, "unique")?;
            (
                ops::move_axis(&x, axis as i64, 0).done()?,
                Some(axis as i64),
            )
        }
        false => (ops::reshape(&x, [-1i64].to_vec()).done()?, None),
    };
    let Some(host): Option<Host> = values(&x) else {
        return unknown(a, 0);
    };
    let rows = x.shape().known_size(0, "unique")?;
    let width = host.spec().shape.count() / rows.max(1);
    let all = (0..rows * width)
        .map(|i| host.get(i))
        .collect::<Result<Vec<Scalar>>>()?;
    let row = |i: usize| &all[i * width..(i + 1) * width];
    let compare = |i: usize, j: usize| {
        let pairs = row(i).iter().zip(row(j));
        pairs
            .map(|(x, y)| order(x, y))
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    };
    let mut sorted: Vec<usize> = (0..rows).collect();
    sorted.sort_by(|&i, &j| compare(i, j).then(i.cmp(&j)));
    // Groups of equal rows, each represented by its first index.
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for i in sorted {
        match groups.last_mut() {
            Some(group) if compare(group[0], i).is_eq() => group.push(i),
            _ => groups.push(vec![i]),
        }
    }
    if !a.flag(NAMED, "sorted", true)? {
        groups.sort_by_key(|group| group[0]);
    }
    let mut inverse = vec![0i64; rows];
    for (number, group) in groups.iter().enumerate() {
        for &i in group {
            inverse[i] = number as i64;
        }
    }
    let first: Vec<i64> = groups.iter().map(|group| group[0] as i64).collect();
    let counts: Vec<i64> = groups.iter().map(|group| group.len() as i64).collect();
    let plain = |xs: &[i64]| ops::from_slice(xs, [xs.len()]);
    let mut found = ops::take(&x, plain(&first)?, 0);
    if let Some(axis) = axis {
        found = ops::move_axis(found, 0, axis);
    }
    let results = vec![
        found.done()?.into(),
        plain(&first)?.into(),
        plain(&inverse)?.into(),
        plain(&counts)?.into(),
    ];
    Ok(several(a, results))
}
