//! Reshapes, slices, concatenation, constants, reductions, top-k.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{NAMED, e, ints, list, sizes, t};
use clematis_core::expr::Expr;
use clematis_core::{DType, Dim, Result, Shape, Tensor, bail, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("getitem", super::super::torch::getitem),
    ("Shape", |_, a| Ok(list(t(a, 0)?.shape().dims().to_vec()))),
    ("Size", |_, a| Ok(Slot::Int(t(a, 0)?.shape().count_dim()))),
    ("Rank", |_, a| Ok(Slot::Int(t(a, 0)?.rank().into()))),
    ("Reshape", reshape),
    ("ShapeN", |_, a| {
        let one = |i: usize| Ok(list(t(a, i)?.shape().dims().to_vec()));
        Ok(Slot::List(
            (0..a.args.len()).map(one).collect::<Result<_>>()?,
        ))
    }),
    ("ExpandDims", |_, a| {
        if let Slot::Int(d) = a.slot(0, "size") {
            return Ok(list(vec![*d]));
        }
        Ok(ops::expand_dims(e(a, 0), ints(a, 1)?[0]).done()?.into())
    }),
    ("Squeeze", squeeze),
    ("Transpose", |_, a| {
        Ok(ops::permute(e(a, 0), ints(a, 1)?).done()?.into())
    }),
    ("BroadcastTo", |_, a| {
        Ok(ops::broadcast_to(e(a, 0), shape(a, 1)?).done()?.into())
    }),
    ("Fill", |_, a| {
        Ok(ops::broadcast_to(e(a, 1), shape(a, 0)?).done()?.into())
    }),
    ("full", |_, a| {
        let recorded = a.recorded_spec(0)?;
        Ok(
            ops::broadcast_to(ops::cast(e(a, 0), recorded.dtype), recorded.shape)
                .done()?
                .into(),
        )
    }),
    ("ZerosLike", |_, a| {
        Ok(ops::zeros_like(&t(a, 0)?).done()?.into())
    }),
    ("OnesLike", |_, a| {
        Ok(ops::ones_like(&t(a, 0)?).done()?.into())
    }),
    ("Range", range),
    ("Pack", pack),
    ("Unpack", unpack),
    ("ConcatV2", concat),
    ("Split", split),
    ("SplitV", split_v),
    ("Slice", slice),
    ("StridedSlice", strided_slice),
    ("Pad", pad),
    ("PadV2", pad),
    ("Tile", tile),
    ("ReverseV2", |_, a| {
        Ok(ops::flip(e(a, 0), ints(a, 1)?).done()?.into())
    }),
    ("OneHot", |_, a| {
        let depth = sizes(a, 1)
            .and_then(|d| d.first().copied())
            .unwrap_or(Dim::from(1));
        let hot = ops::one_hot(e(a, 0), depth, a.recorded_spec(0)?.dtype);
        let (on, off) = (e(a, 2), e(a, 3));
        Ok((hot.then(|hot| &hot * on + (1.0 - &hot) * off))
            .done()?
            .into())
    }),
    ("Sum", |_, a| folded(a, |x, y| x + y, ops::sum)),
    ("Mean", |_, a| over(a, ops::mean)),
    ("Max", |_, a| folded(a, |x, y| x.max(y), ops::max)),
    ("Min", |_, a| folded(a, |x, y| x.min(y), ops::min)),
    ("Prod", |_, a| folded(a, |x, y| x * y, ops::prod)),
    ("Any", |_, a| over(a, ops::any)),
    ("All", |_, a| over(a, ops::all)),
    ("ArgMax", |_, a| {
        Ok(ops::cast(
            ops::argmax(e(a, 0), ints(a, 1)?.first().copied()),
            a.recorded_spec(0)?.dtype,
        )
        .done()?
        .into())
    }),
    ("ArgMin", |_, a| {
        Ok(ops::cast(
            ops::argmin(e(a, 0), ints(a, 1)?.first().copied()),
            a.recorded_spec(0)?.dtype,
        )
        .done()?
        .into())
    }),
    ("Cumsum", |_, a| {
        let reverse = a.flag(NAMED, "reverse", false)?;
        let x = t(a, 0)?;
        let axis = ints(a, 1)?[0];
        let sum = ops::cumulative(clematis_core::op::CumulativeKind::Sum, &x, axis, reverse);
        let sum = if a.flag(NAMED, "exclusive", false)? {
            sum - &x
        } else {
            sum
        };
        Ok(sum.done()?.into())
    }),
    ("TopKV2", |_, a| {
        let k = sizes(a, 1)
            .and_then(|d| d.first().copied())
            .unwrap_or(Dim::from(1));
        let (values, at) = ops::top_k(&t(a, 0)?, k)?;
        Ok(vec![values, ops::cast(at, DType::I32).done()?].into())
    }),
    ("MatrixBandPart", |_, a| {
        let x = t(a, 0)?;
        let (low, high) = (ints(a, 1)?[0], ints(a, 2)?[0]);
        let kept = if low < 0 {
            ops::triu(&x, -(i64::MAX >> 8))
        } else {
            ops::triu(&x, -low)
        };
        Ok(if high < 0 {
            kept
        } else {
            ops::tril(kept, high)
        }
        .done()?
        .into())
    }),
];

/// Sizes in an operand as a shape; -1 is inferred from the others.
fn shape(a: &Args<'_>, i: usize) -> Result<Shape> {
    match sizes(a, i) {
        Some(dims) => Ok(Shape::from_dims(dims)),
        None => bail!(
            Unsupported,
            "convert: `{}`: a shape that depends on values",
            a.node.op
        ),
    }
}

fn reshape(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let Some(mut dims) = sizes(a, 1) else {
        bail!(
            Unsupported,
            "convert: `Reshape`: a shape that depends on values"
        );
    };
    // A list of sizes stays one.
    if let Some(own) = sizes(a, 0) {
        match (dims.len(), own.first()) {
            (0, Some(&one)) => return Ok(Slot::Int(one)),
            (1, _) => return Ok(list(own)),
            _ => {}
        }
    }
    let x = t(a, 0)?;
    if let Some(open) = dims.iter().position(|d| d.value() == Some(-1)) {
        let known = dims.iter().enumerate().filter(|(i, _)| *i != open);
        let known = known.fold(Dim::from(1), |n, (_, &d)| n * d);
        dims[open] = x.shape().count_dim().floor_div(known)?;
    }
    Ok(ops::reshape(x, Shape::from_dims(dims)).done()?.into())
}

fn squeeze(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    if let Some([one]) = sizes(a, 0).as_deref() {
        return Ok(Slot::Int(*one));
    }
    let x = t(a, 0)?;
    let mut axes = a.ints(NAMED, "squeeze_dims")?;
    if axes.is_empty() {
        let ones = x
            .shape()
            .dims()
            .iter()
            .enumerate()
            .filter(|(_, d)| d.value() == Some(1));
        axes = ones.map(|(i, _)| i as i64).collect();
    }
    Ok(ops::squeeze(x, axes).done()?.into())
}

fn range(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let recorded = a.recorded_spec(0)?;
    let one = |i: usize| sizes(a, i).and_then(|d| d.first().copied());
    if let (Some(start), Some(limit), Some(step)) = (one(0), one(1), one(2)) {
        let count = (limit - start).ceil_div(step)?;
        if let (Some(n), Some(from), Some(by)) = (count.value(), start.value(), step.value())
            && n <= SMALL
        {
            let all = (0..n.max(0)).map(|i| Dim::number(from + i * by));
            return Ok(list(all.collect()));
        }
        let places = ops::iota(Shape::from_dims([count]), 0, recorded.dtype);
        let step = ops::cast(super::counted(step)?, recorded.dtype);
        let start = ops::cast(super::counted(start)?, recorded.dtype);
        return Ok((places * step + start).done()?.into());
    }
    let Some(count) = recorded
        .shape
        .dims()
        .first()
        .filter(|d| d.value().is_some())
    else {
        bail!(Unsupported, "convert: `Range` between values");
    };
    let places = ops::iota(Shape::from_dims([*count]), 0, recorded.dtype);
    let part = |i: usize| ops::cast(e(a, i), recorded.dtype);
    Ok((places * part(2) + part(0)).done()?.into())
}

/// Constants of up to this many integers are kept as lists: they are axes and indices.
const SMALL: i64 = 64;

fn pack(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let parts: Option<Vec<Dim>> = (0..a.args.len())
        .map(|i| match a.slot(i, "part") {
            Slot::Int(d) => Some(*d),
            _ => None,
        })
        .collect();
    if let Some(dims) = parts {
        return Ok(list(dims));
    }
    // Rows of sizes, such as paddings.
    if (0..a.args.len()).all(|i| sizes(a, i).is_some()) && a.int(NAMED, "axis", 0)? == 0 {
        return Ok(Slot::List(a.args.clone()));
    }
    let xs = (0..a.args.len())
        .map(|i| t(a, i))
        .collect::<Result<Vec<_>>>()?;
    Ok(ops::stack(&xs, a.int(NAMED, "axis", 0)?).done()?.into())
}

fn unpack(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    if let Some(dims) = sizes(a, 0) {
        return Ok(list(dims));
    }
    let x = t(a, 0)?;
    let axis = a.int(NAMED, "axis", 0)?;
    let count = a.int(NAMED, "num", 0)?;
    let one = |i: i64| ops::squeeze(ops::slice_axis(&x, axis, i, i + 1), axis).done();
    Ok((0..count).map(one).collect::<Result<Vec<_>>>()?.into())
}

fn concat(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let count = a.args.len().saturating_sub(1);
    let all: Option<Vec<Vec<Dim>>> = (0..count).map(|i| sizes(a, i)).collect();
    if let Some(all) = all {
        return Ok(list(all.concat()));
    }
    let xs = (0..count).map(|i| t(a, i)).collect::<Result<Vec<_>>>()?;
    Ok(ops::concat(&xs, ints(a, count)?[0]).done()?.into())
}

fn split(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let parts = a.int(NAMED, "num_split", 1)? as usize;
    Ok(ops::split(&t(a, 1)?, parts, ints(a, 0)?[0])?.into())
}

fn split_v(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, axis) = (t(a, 0)?, ints(a, 2)?[0]);
    let mut start = 0;
    let mut out = Vec::new();
    for size in ints(a, 1)? {
        out.push(ops::slice_axis(&x, axis, start, start + size).done()?);
        start += size;
    }
    Ok(out.into())
}

fn slice(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (Some(begin), Some(size)) = (sizes(a, 1), sizes(a, 2)) else {
        bail!(
            Unsupported,
            "convert: `Slice`: bounds that depend on values"
        );
    };
    if let Some(own) = sizes(a, 0) {
        let from = begin.first().and_then(|d| d.value()).unwrap_or(0) as usize;
        let count = size.first().and_then(|d| d.value()).unwrap_or(-1);
        let to = if count < 0 {
            own.len()
        } else {
            from + count as usize
        };
        return Ok(list(own.get(from..to).unwrap_or_default().to_vec()));
    }
    let x = t(a, 0)?;
    let ends = begin.iter().zip(&size).zip(x.shape().dims());
    let ends: Vec<Dim> = ends
        .map(|((&b, &n), &whole)| if n.value() == Some(-1) { whole } else { b + n })
        .collect();
    Ok(ops::slice(&x, &begin, &ends, &vec![1; x.rank()])
        .done()?
        .into())
}

/// A slice of a list of sizes, or of a tensor.
fn strided_slice(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let mask = |name: &str| a.int(NAMED, name, 0);
    let (begin_mask, end_mask, shrink) = (
        mask("begin_mask")?,
        mask("end_mask")?,
        mask("shrink_axis_mask")?,
    );
    let (ellipsis, new_axis) = (mask("ellipsis_mask")?, mask("new_axis_mask")?);
    let (begin, end, strides) = (sizes(a, 1), sizes(a, 2), ints(a, 3)?);
    let (Some(begin), Some(end)) = (begin, end) else {
        bail!(
            Unsupported,
            "convert: `StridedSlice`: bounds that depend on values"
        );
    };
    let bit = |mask: i64, i: usize| mask >> i & 1 == 1;
    if let Some(own) = sizes(a, 0) {
        let count = own.len() as i64;
        let place = |d: Dim| {
            d.value()
                .map_or(0, |n| if n < 0 { n + count } else { n.min(count) })
        };
        let from = if bit(begin_mask, 0) {
            0
        } else {
            place(begin[0])
        };
        if bit(shrink, 0) {
            return Ok(Slot::Int(
                own.get(from as usize).copied().unwrap_or(Dim::from(0)),
            ));
        }
        let to = if bit(end_mask, 0) {
            count
        } else {
            place(end[0])
        };
        let part = own
            .get(from as usize..to.max(from) as usize)
            .unwrap_or_default();
        return Ok(list(
            part.iter()
                .copied()
                .step_by(strides[0].max(1) as usize)
                .collect(),
        ));
    }
    let mut x = t(a, 0)?;
    let parts = begin.len();
    let explicit = (0..parts)
        .filter(|&i| !bit(ellipsis, i) && !bit(new_axis, i))
        .count();
    let mut axis = 0usize;
    let mut gone: Vec<i64> = Vec::new();
    for i in 0..parts {
        if bit(ellipsis, i) {
            axis +=
                x.rank() - (explicit + (0..i).filter(|&j| bit(new_axis, j)).count()).min(x.rank());
            continue;
        }
        if bit(new_axis, i) {
            x = ops::expand_dims(&x, axis as i64).done()?;
            axis += 1;
            continue;
        }
        let size = x.shape().dims()[axis];
        let place = |d: Dim| match (d.value(), size.value()) {
            (Some(n), Some(size)) => Dim::number(if n < 0 {
                (n + size).max(0)
            } else {
                n.min(size)
            }),
            (Some(n), None) if n < 0 => d + size,
            _ => d,
        };
        let stride = strides[i];
        let from = if bit(begin_mask, i) {
            Dim::from(0)
        } else {
            place(begin[i])
        };
        if bit(shrink, i) {
            x = ops::slice_axis(&x, axis as i64, from, from + Dim::from(1)).done()?;
            gone.push(axis as i64);
        } else if stride > 0 {
            let to = if bit(end_mask, i) {
                size
            } else {
                place(end[i])
            };
            x = ops::slice_axis_by(&x, axis as i64, from, to, stride as usize).done()?;
        } else if stride == -1 && bit(begin_mask, i) && bit(end_mask, i) {
            x = ops::flip(&x, axis as i64).done()?;
        } else {
            bail!(
                Unsupported,
                "convert: `StridedSlice` with a negative step and bounds"
            );
        }
        axis += 1;
    }
    if gone.is_empty() {
        return Ok(x.into());
    }
    Ok(ops::squeeze(x, gone).done()?.into())
}

fn pad(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = t(a, 0)?;
    // Pairs are rows of a matrix of sizes.
    let Slot::List(rows) = a.slot(1, "paddings") else {
        bail!(
            Unsupported,
            "convert: `{}`: paddings that depend on values",
            a.node.op
        );
    };
    let number = |slot: Option<&Slot>| match slot {
        Some(Slot::Int(d)) => *d,
        _ => Dim::from(0),
    };
    let pair = |row: &Slot| match row {
        Slot::List(two) => (number(two.first()), number(two.get(1))),
        _ => (Dim::from(0), Dim::from(0)),
    };
    let (low, high): (Vec<Dim>, Vec<Dim>) = rows.iter().map(pair).unzip();
    let value: Expr = if a.args.len() > 2 {
        e(a, 2)
    } else {
        Ok(Tensor::scalar(0i64, x.dtype())).into()
    };
    Ok(ops::pad(&x, value, &low, &high, &vec![0; x.rank()])
        .done()?
        .into())
}

fn over(a: &Args<'_>, f: impl Fn(Tensor, Vec<i64>) -> Expr) -> Result<Slot> {
    let x = t(a, 0)?;
    let axes = ints(a, 1)?;
    if a.flag(NAMED, "keep_dims", false)? {
        return Ok(ops::keepdims(x, axes, &f).done()?.into());
    }
    Ok(f(x, axes).done()?.into())
}

/// A reduction of sizes is a size.
fn folded(
    a: &Args<'_>,
    two: fn(Dim, Dim) -> Dim,
    f: impl Fn(Tensor, Vec<i64>) -> Expr,
) -> Result<Slot> {
    let Some(dims) = sizes(a, 0) else {
        return over(a, f);
    };
    if matches!(a.slot(0, "operand"), Slot::Int(_)) || ints(a, 1)?.is_empty() {
        return Ok(a.slot(0, "operand").clone());
    }
    match dims.iter().copied().reduce(two) {
        Some(d) if a.flag(NAMED, "keep_dims", false)? => Ok(list(vec![d])),
        Some(d) => Ok(Slot::Int(d)),
        // The empty product is one and the empty sum zero.
        None => Ok(Slot::Int(Dim::from(usize::from(a.node.op == "Prod")))),
    }
}

/// Repeats the operand along each axis.
fn tile(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let times = shape(a, 1)?;
    if let (Some(own), Some(n)) = (sizes(a, 0), times.dims().first().and_then(|d| d.value())) {
        return Ok(list(own.repeat(n.max(0) as usize)));
    }
    let x = t(a, 0)?;
    let (mut wide, mut out) = (Vec::new(), Vec::new());
    for (&size, &n) in x.shape().dims().iter().zip(times.dims()) {
        wide.extend([n, size]);
        out.push(size * n);
    }
    let axes: Vec<usize> = (0..x.rank()).map(|i| 2 * i + 1).collect();
    let wide = ops::broadcast_in(&x, &Shape::from_dims(wide), &axes);
    Ok(ops::reshape(wide, Shape::from_dims(out)).done()?.into())
}
