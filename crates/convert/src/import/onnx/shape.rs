//! Reshape, Slice, Concat, Pad, Tile, Range and other shape operators.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{
    NAMED, axes, dims, floats, int, ints, known_sizes, list, maybe, out, ranked, recorded, several,
    sizes, t, to_tensor, unknown, values, wanted,
};
use clematis_core::expr::Expr;
use clematis_core::{DType, Dim, Result, Shape, Tensor, bail, ops, random};

pub const RULES: &[(&str, Rule)] = &[
    ("getitem", super::super::torch::getitem),
    ("Constant", constant),
    ("Shape", shape),
    ("Size", |_, a| match a.slot(0, "x") {
        Slot::Tensor(x) => Ok(Slot::Int(x.shape().count_dim())),
        other => Ok(Slot::Int(to_tensor(other)?.shape().count_dim())),
    }),
    ("Reshape", reshape),
    ("Flatten", flatten),
    ("Squeeze", squeeze),
    ("Unsqueeze", unsqueeze),
    ("Transpose", |_, a| {
        let x = t(a, 0)?;
        let mut order = a.ints(NAMED, "perm")?;
        if !a.has(NAMED, "perm") {
            order = (0..x.rank() as i64).rev().collect();
        }
        out(ops::permute(x, order))
    }),
    ("Concat", concat),
    ("Split", split),
    ("Slice", slice),
    ("Expand", expand),
    ("Tile", tile),
    ("Pad", pad),
    ("ConstantOfShape", constant_of_shape),
    ("Range", range),
    ("EyeLike", |_, a| {
        let x = ranked(a, 0, 2)?;
        let dtype = kind(a, x.dtype())?;
        let k = a.int(NAMED, "k", 0)?;
        let row = ops::iota(x.shape().clone(), 0, DType::I64);
        let column = ops::iota(x.shape().clone(), 1, DType::I64);
        out(ops::cast(ops::equal(row + k, column), dtype))
    }),
    ("OneHot", one_hot),
    ("DepthToSpace", depth_to_space),
    ("SpaceToDepth", |_, a| {
        let (x, b) = (ranked(a, 0, 4)?, a.int(NAMED, "blocksize", 1)?);
        let d = x.shape().dims().to_vec();
        let (b, by) = (Dim::number(b), |n: Dim| n.floor_div(Dim::number(b)));
        let wide = ops::reshape(
            &x,
            Shape::from_dims([d[0], d[1], by(d[2])?, b, by(d[3])?, b]),
        );
        let order = if a.text(NAMED, "mode", "DCR")? == "CRD" {
            [0i64, 1, 3, 5, 2, 4]
        } else {
            [0i64, 3, 5, 1, 2, 4]
        };
        let permuted = ops::permute(wide, order.to_vec());
        out(ops::reshape(
            permuted,
            Shape::from_dims([d[0], d[1] * b * b, by(d[2])?, by(d[3])?]),
        ))
    }),
    ("Trilu", |_, a| {
        let x = t(a, 0)?;
        let k = if a.has(1, "k") { int(a, 1)? } else { 0 };
        // Beyond the matrix the offset has no effect, and a huge number would overflow.
        let k = k.clamp(-(1 << 40), 1 << 40);
        out(if a.flag(NAMED, "upper", true)? {
            ops::triu(x, k)
        } else {
            ops::tril(x, k)
        })
    }),
    ("ReverseSequence", reverse_sequence),
    ("CenterCropPad", center_crop_pad),
    ("RandomUniform", |w, a| {
        drawn(w, a, given_shape(a)?, DType::F32, true)
    }),
    ("RandomNormal", |w, a| {
        drawn(w, a, given_shape(a)?, DType::F32, false)
    }),
    ("RandomUniformLike", |w, a| {
        let x = t(a, 0)?;
        drawn(w, a, x.shape().clone(), x.dtype(), true)
    }),
    ("RandomNormalLike", |w, a| {
        let x = t(a, 0)?;
        drawn(w, a, x.shape().clone(), x.dtype(), false)
    }),
];

/// The dtype of the attribute `dtype`.
fn kind(a: &Args<'_>, default: DType) -> Result<DType> {
    match a.has(NAMED, "dtype") {
        true => crate::onnx::tensor::dtype(a.int(NAMED, "dtype", 1)?),
        false => Ok(default),
    }
}

fn given_shape(a: &Args<'_>) -> Result<Shape> {
    Ok(Shape::from_dims(a.dims(NAMED, "shape")?))
}

fn drawn(
    w: &mut Importer<'_>,
    a: &Args<'_>,
    shape: Shape,
    default: DType,
    uniform: bool,
) -> Result<Slot> {
    let dtype = kind(a, default)?;
    if uniform {
        let (low, high) = (a.float(NAMED, "low", 0.0)?, a.float(NAMED, "high", 1.0)?);
        return out(random::uniform(&w.key(), shape, low, high, dtype));
    }
    let (mean, scale) = (a.float(NAMED, "mean", 0.0)?, a.float(NAMED, "scale", 1.0)?);
    out(random::normal(&w.key(), shape, mean, scale, dtype))
}

fn constant(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    if let Slot::Tensor(x) = a.slot(NAMED, "value") {
        return Ok(x.clone().into());
    }
    for name in ["value_int", "value_ints"] {
        if a.has(NAMED, name) {
            return Ok(to_tensor(a.slot(NAMED, name))?.into());
        }
    }
    if a.has(NAMED, "value_float") {
        return Ok(ops::from_slice(
            &[a.float(NAMED, "value_float", 0.0)? as f32],
            Shape::scalar(),
        )?
        .into());
    }
    if a.has(NAMED, "value_floats") {
        let xs: Vec<f32> = super::numbers(a, "value_floats")?
            .into_iter()
            .map(|x| x as f32)
            .collect();
        return Ok(ops::from_slice(&xs, [xs.len()])?.into());
    }
    bail!(
        Unsupported,
        "convert: `Constant` with a string or without a value"
    )
}

fn shape(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = t(a, 0)?;
    let all = x.shape().dims();
    let rank = all.len() as i64;
    let place = |n: i64| (if n < 0 { n + rank } else { n }).clamp(0, rank);
    let from = place(a.int(NAMED, "start", 0)?);
    let to = place(a.int(NAMED, "end", rank)?);
    Ok(list(all[from as usize..to.max(from) as usize].to_vec()))
}

fn reshape(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let mut to = match a.has(1, "shape") {
        true => known_sizes(a, 1)?,
        false => a.dims(NAMED, "shape")?,
    };
    // A list of sizes stays one.
    if !matches!(a.slot(0, "x"), Slot::Tensor(_))
        && let Some(own) = sizes(a, 0)
    {
        if to.len() == 1 {
            return Ok(list(own));
        }
        if to.is_empty() && own.len() == 1 {
            return Ok(Slot::Int(own[0]));
        }
    }
    let x = t(a, 0)?;
    if !a.flag(NAMED, "allowzero", false)? {
        for (i, d) in to.iter_mut().enumerate() {
            if d.value() == Some(0) {
                match x.shape().dims().get(i) {
                    Some(own) => *d = *own,
                    None => bail!(
                        Convert,
                        "convert: `Reshape` copies size {i} of an operand {}",
                        x.spec()
                    ),
                }
            }
        }
    }
    reshaped(&x, to)
}

/// Reshapes to sizes of which one may be -1.
fn reshaped(x: &Tensor, mut to: Vec<Dim>) -> Result<Slot> {
    if let Some(open) = to.iter().position(|d| d.value() == Some(-1)) {
        let known = to.iter().enumerate().filter(|(i, _)| *i != open);
        let known = known.fold(Dim::from(1), |n, (_, &d)| n * d);
        to[open] = match known.value() {
            Some(0) => Dim::from(0),
            _ => left(x.shape().dims(), &to, open, known)?,
        };
    }
    out(ops::reshape(x, Shape::from_dims(to)))
}

/// The size that -1 stands for. Sizes that occur on both sides cancel first, since symbolic sizes do not divide.
fn left(own: &[Dim], to: &[Dim], open: usize, known: Dim) -> Result<Dim> {
    let mut rest: Vec<Dim> = own.to_vec();
    let mut by = Dim::from(1);
    for (i, d) in to.iter().enumerate().filter(|(i, _)| *i != open) {
        match rest.iter().position(|r| r == d && r.is_symbolic()) {
            Some(at) => {
                rest.remove(at);
            }
            None => by = by * to[i],
        }
    }
    let rest = rest.into_iter().fold(Dim::from(1), |n, d| n * d);
    if known.value() == Some(1) {
        Ok(rest)
    } else {
        rest.floor_div(by)
    }
}

fn flatten(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = t(a, 0)?;
    let rank = x.rank() as i64;
    let at = a.int(NAMED, "axis", 1)?;
    let at = (if at < 0 { at + rank } else { at }).clamp(0, rank) as usize;
    let part = |dims: &[Dim]| dims.iter().fold(Dim::from(1), |n, &d| n * d);
    let (first, last) = x.shape().dims().split_at(at);
    out(ops::reshape(
        &x,
        Shape::from_dims([part(first), part(last)]),
    ))
}

fn squeeze(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    if let (Slot::List(xs), true) = (a.slot(0, "x"), sizes(a, 0).is_some_and(|d| d.len() == 1)) {
        return Ok(xs[0].clone());
    }
    let x = t(a, 0)?;
    let at = match axes(a, 1, "axes")? {
        Some(at) => at,
        None => {
            let ones = x
                .shape()
                .dims()
                .iter()
                .enumerate()
                .filter(|(_, d)| d.value() == Some(1));
            ones.map(|(i, _)| i as i64).collect()
        }
    };
    out(ops::squeeze(x, at))
}

fn unsqueeze(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let at = axes(a, 1, "axes")?.unwrap_or_default();
    if let (Slot::Int(_), 1) = (a.slot(0, "x"), at.len()) {
        return Ok(Slot::List(vec![a.slot(0, "x").clone()]));
    }
    let x = t(a, 0)?;
    let rank = (x.rank() + at.len()) as i64;
    let mut at: Vec<i64> = at
        .into_iter()
        .map(|n| if n < 0 { n + rank } else { n })
        .collect();
    at.sort_unstable();
    let mut y = x;
    for n in at {
        y = ops::expand_dims(y, n).done()?;
    }
    Ok(y.into())
}

fn concat(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let count = a.args.len();
    let any = (0..count).any(|i| matches!(a.slot(i, "x"), Slot::List(_)));
    if any && let Some(all) = (0..count).map(|i| sizes(a, i)).collect::<Option<Vec<_>>>() {
        let all = all.concat();
        if all.len() > 4096 {
            bail!(Convert, "convert: `Concat` of {} sizes", all.len());
        }
        return Ok(list(all));
    }
    let xs = (0..count).map(|i| t(a, i)).collect::<Result<Vec<_>>>()?;
    let axis = a.int(NAMED, "axis", 1)?;
    let whole = xs
        .iter()
        .fold(Dim::from(0), |n, x| n + x.shape().count_dim());
    let xs = xs
        .into_iter()
        .map(|x| recorded(x, Some(whole)))
        .collect::<Result<Vec<_>>>()?;
    out(ops::concat(&xs, axis))
}

fn split(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let axis = a.int(NAMED, "axis", 0)?;
    if let (false, Some(own)) = (matches!(a.slot(0, "x"), Slot::Tensor(_)), sizes(a, 0)) {
        let parts = match axes(a, 1, "split")? {
            Some(parts) => parts,
            None => vec![(own.len() / wanted(a).max(1)) as i64; wanted(a)],
        };
        let mut rest = own.as_slice();
        let mut all = Vec::new();
        for n in parts {
            let (part, after) = rest.split_at((n.max(0) as usize).min(rest.len()));
            all.push(list(part.to_vec()));
            rest = after;
        }
        return Ok(several(a, all));
    }
    let x = t(a, 0)?;
    let at = x.shape().axis(axis, "split")?;
    let whole = x.shape().dims()[at];
    let parts: Vec<Dim> = match a.has(1, "split") {
        true => known_sizes(a, 1)?,
        false if a.has(NAMED, "split") => a.dims(NAMED, "split")?,
        false => {
            let count = a.int(NAMED, "num_outputs", wanted(a) as i64)?;
            if !(1..1 << 16).contains(&count) {
                bail!(Convert, "convert: `Split` into {count} parts");
            }
            let each = whole.ceil_div(Dim::number(count))?;
            let before = |i: i64| (each * Dim::number(i)).min(whole);
            (0..count).map(|i| before(i + 1) - before(i)).collect()
        }
    };
    let mut start = Dim::from(0);
    let mut all = Vec::new();
    for n in parts {
        all.push(ops::slice_axis(&x, axis, start, start + n).done()?.into());
        start = start + n;
    }
    Ok(several(a, all))
}

/// Starts, ends, axes and steps: attributes up to version 9, operands after it.
fn slice(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (starts, ends) = match a.has(1, "starts") {
        true => (known_sizes(a, 1)?, known_sizes(a, 2)?),
        false => (a.dims(NAMED, "starts")?, a.dims(NAMED, "ends")?),
    };
    let at = axes(a, 3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = if a.has(4, "steps") {
        ints(a, 4)?
    } else {
        vec![1; starts.len()]
    };
    if ends.len() != starts.len() || at.len() != starts.len() || steps.len() != starts.len() {
        bail!(
            Convert,
            "convert: `Slice` with {} starts, {} ends, {} axes, {} steps",
            starts.len(),
            ends.len(),
            at.len(),
            steps.len()
        );
    }
    if !matches!(a.slot(0, "x"), Slot::Tensor(_))
        && let Some(own) = sizes(a, 0)
        && let ([start], [end]) = (starts.as_slice(), ends.as_slice())
        && let (Some(start), Some(end)) = (start.value(), end.value())
    {
        let (from, to) = bounds(start, end, steps[0], own.len() as i64);
        let mut part = Vec::new();
        let mut i = from;
        while (steps[0] > 0 && i < to) || (steps[0] < 0 && i > to) {
            part.push(own[i as usize]);
            i = i.saturating_add(steps[0]);
        }
        return Ok(list(part));
    }
    let mut x = t(a, 0)?;
    for (i, axis) in at.iter().enumerate() {
        x = part(&x, *axis, starts[i], ends[i], steps[i])?;
    }
    Ok(x.into())
}

/// The first index and the end of a slice with `step` over an axis of `size`.
fn bounds(start: i64, end: i64, step: i64, size: i64) -> (i64, i64) {
    let place = |n: i64| if n < 0 { n.saturating_add(size) } else { n };
    if step < 0 {
        (
            place(start).clamp(-1, size - 1),
            place(end).clamp(-1, size - 1),
        )
    } else {
        (place(start).clamp(0, size), place(end).clamp(0, size))
    }
}

fn part(x: &Tensor, axis: i64, start: Dim, end: Dim, step: i64) -> Result<Tensor> {
    let size = x.shape().dims()[x.shape().axis(axis, "slice")?];
    if step == 0 {
        bail!(Convert, "convert: `Slice` with a step of 0");
    }
    let step = step.clamp(-(1 << 40), 1 << 40);
    if let (Some(start), Some(end), Some(size)) = (start.value(), end.value(), size.value()) {
        let (from, to) = bounds(start, end, step, size);
        if step > 0 {
            return ops::slice_axis_by(x, axis, from, to.max(from), step.min(size.max(1)) as usize)
                .done();
        }
        // Negative step: the same elements in ascending order, then reversed.
        let count = if from > to {
            (from - to - 1) / -step + 1
        } else {
            0
        };
        if count == 0 {
            return ops::slice_axis(x, axis, 0, 0).done();
        }
        let first = from + (count - 1) * step;
        let forwards =
            ops::slice_axis_by(x, axis, first, from + 1, (-step).min(size.max(1)) as usize);
        return ops::flip(forwards, axis).done();
    }
    let place = |d: Dim| match d.value() {
        Some(n) if n < 0 => (size + d).max(Dim::from(0)),
        // Larger than every size.
        Some(n) if n >= i64::from(i32::MAX) => size,
        _ => d.min(size),
    };
    if step < 0 {
        let whole = start
            .value()
            .is_some_and(|n| n == -1 || n >= i64::from(i32::MAX))
            && end.value().is_some_and(|n| n <= -i64::from(i32::MAX));
        if step == -1 && whole {
            return ops::flip(x, axis).done();
        }
        bail!(
            Unsupported,
            "convert: `Slice` with a negative step and bounds over a symbolic axis"
        );
    }
    let (from, to) = (place(start), place(end));
    let to = if from.value() == Some(0) {
        to
    } else {
        to.max(from)
    };
    ops::slice_axis_by(x, axis, from, to, step as usize).done()
}

fn expand(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = t(a, 0)?;
    let to = Shape::from_dims(known_sizes(a, 1)?);
    let whole = x.shape().broadcast_with(&to, "expand")?;
    let x = recorded(x, Some(whole.count_dim()))?;
    out(ops::broadcast_to(x, whole))
}

fn tile(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = t(a, 0)?;
    let times = known_sizes(a, 1)?;
    if times.len() != x.rank() {
        bail!(
            Convert,
            "convert: `Tile`: expected one repeat per axis, got operand {} and {} repeats",
            x.spec(),
            times.len()
        );
    }
    let whole = times.iter().fold(x.shape().count_dim(), |n, &d| n * d);
    let mut y = recorded(x, Some(whole))?;
    for (axis, &n) in times
        .iter()
        .enumerate()
        .filter(|(_, n)| n.value() != Some(1))
    {
        // A new axis before this one is broadcast, then merged with it.
        let wide = ops::expand_dims(&y, axis as i64).done()?;
        let more = wide.shape().with(axis, n);
        let own = y.shape().with(axis, y.shape().dims()[axis] * n);
        y = ops::reshape(ops::broadcast_to(wide, more), own).done()?;
    }
    Ok(y.into())
}

fn pad(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let mut x = t(a, 0)?;
    let pads = match (a.has(1, "pads"), a.has(NAMED, "pads")) {
        (true, _) => known_sizes(a, 1)?,
        (false, true) => a.dims(NAMED, "pads")?,
        _ => a.dims(NAMED, "paddings")?,
    };
    let rank = x.rank();
    let at: Vec<usize> = match a.has(3, "axes") {
        true => ints(a, 3)?
            .into_iter()
            .map(|n| x.shape().axis(n, "pad"))
            .collect::<Result<_>>()?,
        false => (0..rank).collect(),
    };
    if pads.len() != 2 * at.len() {
        bail!(
            Convert,
            "convert: `Pad`: expected two pads per axis, got {} axes and {} pads",
            at.len(),
            pads.len()
        );
    }
    let (mut low, mut high) = (vec![Dim::from(0); rank], vec![Dim::from(0); rank]);
    for (i, &axis) in at.iter().enumerate() {
        (low[axis], high[axis]) = (pads[i], pads[i + at.len()]);
    }
    match a.text(NAMED, "mode", "constant")? {
        "constant" => {
            let value: Expr = match maybe(a, 2)? {
                Some(v) => ops::cast(ops::reshape(v, Shape::scalar()), x.dtype()),
                None => Ok(Tensor::scalar(a.float(NAMED, "value", 0.0)?, x.dtype())).into(),
            };
            let whole = x
                .shape()
                .dims()
                .iter()
                .zip(&low)
                .zip(&high)
                .fold(Dim::from(1), |n, ((&d, &l), &h)| n * (d + l + h));
            let x = recorded(x, Some(whole))?;
            out(ops::pad(&x, value, &low, &high, &vec![0; rank]))
        }
        mode @ ("reflect" | "edge" | "wrap") => {
            for axis in 0..rank {
                let (Some(l), Some(h)) = (low[axis].value(), high[axis].value()) else {
                    return unknown(a, 1);
                };
                if (l, h) != (0, 0) {
                    x = continued(&x, axis, l, h, mode)?;
                }
            }
            Ok(x.into())
        }
        other => bail!(Unsupported, "convert: `Pad` by \"{other}\""),
    }
}

/// Padding with elements of the axis itself (edge, reflect, wrap).
fn continued(x: &Tensor, axis: usize, low: i64, high: i64, mode: &str) -> Result<Tensor> {
    let size = x.shape().dims()[axis];
    let Some(n) = size.value() else {
        return parted(x, axis, low, high, mode);
    };
    // The indices are stored in the program, so there must not be many more than the file has bytes.
    let most = 1 << 22;
    if n == 0 || n > most || low.unsigned_abs().max(high.unsigned_abs()) > most as u64 {
        bail!(
            Convert,
            "convert: `Pad`: expected an axis of 1 to {most} elements and pads of at most {most}, got {n} and ({low}, {high})"
        );
    }
    let place = |i: i64| match mode {
        "edge" => i.clamp(0, n - 1),
        "wrap" => i.rem_euclid(n),
        _ if n == 1 => 0,
        _ => {
            let at = i.rem_euclid(2 * (n - 1));
            at.min(2 * (n - 1) - at)
        }
    };
    let places: Vec<i64> = (-low..n + high).map(place).collect();
    ops::take(x, ops::from_slice(&places, [places.len()])?, axis as i64).done()
}

/// The same for a symbolic axis: slices of its ends.
fn parted(x: &Tensor, axis: usize, low: i64, high: i64, mode: &str) -> Result<Tensor> {
    let (size, at) = (x.shape().dims()[axis], axis as i64);
    if low < 0 || high < 0 {
        bail!(
            Unsupported,
            "convert: `Pad` with negative pads of a symbolic axis"
        );
    }
    let (l, h) = (Dim::number(low), Dim::number(high));
    let piece = |from: Dim, to: Dim| ops::slice_axis(x, at, from, to);
    let (before, after) = match mode {
        "edge" => {
            let one = Dim::from(1);
            let wide =
                |part: Expr, n: Dim| part.then(|p| ops::broadcast_to(&p, p.shape().with(axis, n)));
            (
                wide(piece(Dim::from(0), one), l),
                wide(piece(size - one, size), h),
            )
        }
        "wrap" => (piece(size - l, size), piece(Dim::from(0), h)),
        _ => {
            let one = Dim::from(1);
            (
                ops::flip(piece(one, l + one), at),
                ops::flip(piece(size - h - one, size - one), at),
            )
        }
    };
    ops::concat(&[before.done()?, x.clone(), after.done()?], at).done()
}

fn constant_of_shape(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let to = known_sizes(a, 0)?;
    let value = match a.slot(NAMED, "value") {
        Slot::Tensor(x) => x.clone(),
        _ => ops::from_slice(&[0f32], [1usize])?,
    };
    let Some(host) = values(&value) else {
        bail!(Convert, "convert: `ConstantOfShape` without a value");
    };
    let number = host.get(0)?;
    // A vector of integers may be used as sizes later.
    if let ([n], DType::I64) = (to.as_slice(), value.dtype())
        && let Some(n) = n.value().filter(|n| (0..=64).contains(n))
    {
        let one = Slot::Int(Dim::number(number.as_i128() as i64));
        return Ok(Slot::List(vec![one; n as usize]));
    }
    out(ops::full(Shape::from_dims(to), number, value.dtype()))
}

fn range(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = t(a, 0)?;
    let dtype = x.dtype();
    let one = |i: usize| dims(a.slot(i, "x")).and_then(|d| d.first().copied());
    if dtype.is_int()
        && let (Some(start), Some(limit), Some(step)) = (one(0), one(1), one(2))
    {
        let count = (limit - start).ceil_div(step)?.max(Dim::from(0));
        let places = ops::iota(Shape::from_dims([count]), 0, dtype);
        let (step, start) = (
            ops::cast(super::counted(step)?, dtype),
            ops::cast(super::counted(start)?, dtype),
        );
        return out(places * step + start);
    }
    let (start, limit, step) = (floats(a, 0)?, floats(a, 1)?, floats(a, 2)?);
    let (Some(start), Some(limit), Some(step)) = (start.first(), limit.first(), step.first())
    else {
        return unknown(a, 0);
    };
    let count = ((limit - start) / step).ceil().max(0.0);
    if !count.is_finite() || count > 1e12 {
        bail!(
            Convert,
            "convert: `Range` from {start} to {limit} by {step}"
        );
    }
    let places = ops::iota(Shape::from_dims([Dim::number(count as i64)]), 0, dtype);
    out(places * Tensor::scalar(*step, dtype) + Tensor::scalar(*start, dtype))
}

fn one_hot(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let at = recorded(t(a, 0)?, None)?;
    let depth = match sizes(a, 1) {
        Some(d) if d.len() == 1 => d[0],
        _ => Dim::number(floats(a, 1)?.first().copied().unwrap_or(0.0) as i64),
    };
    let pair = t(a, 2)?;
    let one = |i: i64| ops::reshape(ops::slice_axis(&pair, 0, i, i + 1), Shape::scalar());
    let at = ops::cast(at, DType::I64).done()?;
    let depth_number = super::counted(depth)?;
    let at = ops::where_(ops::less(&at, 0), &at + &depth_number, &at);
    let hot = ops::one_hot(at, depth, DType::Bool).done()?;
    let axis = a.int(NAMED, "axis", -1)?;
    let hot = ops::move_axis(hot, -1, axis);
    out(ops::where_(hot, one(1), one(0)))
}

fn depth_to_space(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, b) = (t(a, 0)?, Dim::number(a.int(NAMED, "blocksize", 1)?));
    let d = x.shape().dims().to_vec();
    let [n, c, h, w] = d.as_slice() else {
        return Err(a.bad("an image"));
    };
    let inner = c.floor_div(b * b)?;
    let (wide, order) = if a.text(NAMED, "mode", "DCR")? == "CRD" {
        ([*n, inner, b, b, *h, *w], [0i64, 1, 4, 2, 5, 3])
    } else {
        ([*n, b, b, inner, *h, *w], [0i64, 3, 4, 1, 5, 2])
    };
    let permuted = ops::permute(ops::reshape(&x, Shape::from_dims(wide)), order.to_vec());
    out(ops::reshape(
        permuted,
        Shape::from_dims([*n, inner, *h * b, *w * b]),
    ))
}

fn reverse_sequence(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, lengths) = (t(a, 0)?, t(a, 1)?);
    let axis = |name: &str, default: i64| {
        x.shape()
            .axis(a.int(NAMED, name, default)?, "reverse_sequence")
    };
    let (batch, time) = (axis("batch_axis", 1)?, axis("time_axis", 0)?);
    let place = ops::iota(x.shape().clone(), time, DType::I64).done()?;
    let mut wide = vec![1i64; x.rank()];
    wide[batch] = -1;
    let lengths = ops::reshape(ops::cast(lengths, DType::I64), wide).done()?;
    let from = ops::where_(ops::less(&place, &lengths), &lengths - 1 - &place, &place);
    out(ops::take_along_axis(x, from, time as i64))
}

fn center_crop_pad(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = t(a, 0)?;
    let to = ints(a, 1)?;
    let at = match a.has(NAMED, "axes") {
        true => a.ints(NAMED, "axes")?,
        false => (0..x.rank() as i64).collect(),
    };
    let (mut low, mut high) = (vec![Dim::from(0); x.rank()], vec![Dim::from(0); x.rank()]);
    for (&axis, &n) in at.iter().zip(&to) {
        let axis = x.shape().axis(axis, "center_crop_pad")?;
        let own = x.shape().known_size(axis, "center_crop_pad")? as i64;
        let more = n - own;
        // A crop removes half of it at the start, as padding adds.
        let before = if more < 0 { -(-more / 2) } else { more / 2 };
        (low[axis], high[axis]) = (Dim::number(before), Dim::number(more - before));
    }
    let zero = Tensor::scalar(0i64, x.dtype());
    let x = recorded(x, None)?;
    out(ops::pad(&x, zero, &low, &high, &vec![0; x.rank()]))
}
