//! Scatter, index_put, masked and slice updates.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::index::{brackets, cropped};
use super::{axis, out};
use clematis_core::expr::IntoExpr;
use clematis_core::op::ScatterKind;
use clematis_core::ops::Subscript;
use clematis_core::{DType, Dim, Result, Scalar, Shape, Tensor, bail, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("index_put", index_put),
    ("_unsafe_index_put", index_put),
    ("index_add", |_, a| {
        let x = a.tensor(0, "self")?;
        let source = a.expr(3, "source");
        let source = if a.has(4, "alpha") {
            source * a.expr(4, "alpha")
        } else {
            source
        };
        along(a, &x, ScatterKind::Add, source.done()?)
    }),
    ("index_copy", |_, a| {
        along(
            a,
            &a.tensor(0, "self")?,
            ScatterKind::Set,
            a.tensor(3, "source")?,
        )
    }),
    ("index_fill", |_, a| {
        along(
            a,
            &a.tensor(0, "self")?,
            ScatterKind::Set,
            a.tensor(3, "value")?,
        )
    }),
    ("index_reduce", |_, a| {
        let (x, at) = (
            a.tensor(0, "self")?,
            ops::reshape(a.expr(2, "index"), [-1i64]).done()?,
        );
        let along = axis(&x, a.int(1, "dim", 0)?);
        let source = a.tensor(3, "source")?;
        let write = |kind, x: &Tensor, y: &Tensor| ops::put(kind, x, &at, y, along).done();
        reduced(a, &x, &source, a.text(4, "reduce", "")?, write)
    }),
    ("scatter", |_, a| {
        let word = match a.slot(4, "reduce") {
            Slot::Text(word) => word.as_str(),
            _ => "set",
        };
        let kind = match word {
            "set" => ScatterKind::Set,
            "add" => ScatterKind::Add,
            _ => ScatterKind::Mul,
        };
        let (x, at, source) = side_by_side(a)?;
        out(written_at(kind, &x, &at, &source, axis(&x, a.int(1, "dim", 0)?))?.into_expr())
    }),
    ("scatter_add", |_, a| {
        let (x, at, source) = side_by_side(a)?;
        out(written_at(
            ScatterKind::Add,
            &x,
            &at,
            &source,
            axis(&x, a.int(1, "dim", 0)?),
        )?
        .into_expr())
    }),
    ("scatter_reduce", |_, a| {
        let (x, at, source) = side_by_side(a)?;
        let along = axis(&x, a.int(1, "dim", 0)?);
        reduced(a, &x, &source, a.text(4, "reduce", "")?, |kind, x, y| {
            written_at(kind, x, &at, y, along)
        })
    }),
    ("put", |_, a| {
        let (x, at) = (
            a.tensor(0, "self")?,
            ops::reshape(a.expr(1, "index"), [-1i64]),
        );
        let kind = if a.flag(3, "accumulate", false)? {
            ScatterKind::Add
        } else {
            ScatterKind::Set
        };
        let flat = ops::put(
            kind,
            ops::reshape(&x, [-1i64]),
            at,
            ops::reshape(a.expr(2, "source"), [-1i64]),
            0,
        );
        out(ops::reshape(flat, x.shape().clone()))
    }),
    ("masked_scatter", |_, a| {
        let recorded = a.recorded_spec(0)?;
        let x = ops::broadcast_to(a.expr(0, "self"), recorded.shape.clone()).done()?;
        let mask = ops::broadcast_to(a.expr(1, "mask"), recorded.shape.clone()).done()?;
        let source = ops::reshape(a.expr(2, "source"), [-1i64]);
        // The n-th true element takes the n-th source element.
        let order = ops::cumsum(ops::cast(ops::reshape(&mask, [-1i64]), DType::I64), 0) - 1;
        let found = ops::take(source, ops::maximum(order, 0), 0);
        out(ops::where_(
            &mask,
            ops::cast(ops::reshape(found, recorded.shape), x.dtype()),
            &x,
        ))
    }),
    ("slice_scatter", slice_scatter),
    ("select_scatter", select_scatter),
    ("diagonal_scatter", |_, a| {
        let x = a.tensor(0, "self")?;
        let (first, second) = (
            axis(&x, a.int(3, "dim1", 0)?),
            axis(&x, a.int(4, "dim2", 1)?),
        );
        let k = a.int(2, "offset", 0)?;
        let row = ops::iota(x.shape().clone(), first as usize, DType::I64);
        let column = ops::iota(x.shape().clone(), second as usize, DType::I64).done()?;
        let on = ops::equal(row + k, &column);
        // The index on the diagonal is the smaller of row and column.
        let at = if k >= 0 {
            (&column - k).done()?
        } else {
            column
        };
        let values = super::view::diagonal_back(&x, &a.tensor(1, "src")?, first, second)?;
        let size = values.shape().dims()[second as usize];
        let last = Slot::Int(size - Dim::from(1))
            .as_number()
            .unwrap_or_else(|| Tensor::number(0));
        let at = ops::minimum(ops::maximum(at, 0), last);
        let wide = ops::take_along_axis(&values, at, second);
        out(ops::where_(on, ops::cast(wide, x.dtype()), &x))
    }),
];

/// Scatters slices along an axis.
fn along(a: &Args<'_>, x: &Tensor, kind: ScatterKind, source: Tensor) -> Result<Slot> {
    if x.rank() == 0 {
        return out(ops::reshape(ops::cast(source, x.dtype()), ()));
    }
    let at = ops::reshape(a.expr(2, "index"), [-1i64]);
    out(ops::put(
        kind,
        x,
        at,
        ops::cast(source, x.dtype()),
        a.int(1, "dim", 0)?,
    ))
}

/// Operand, index and source, with one source element per index.
fn side_by_side(a: &Args<'_>) -> Result<(Tensor, Tensor, Tensor)> {
    let (x, at) = (a.tensor(0, "self")?, a.tensor(2, "index")?);
    let source = if a.has(3, "src") {
        a.tensor(3, "src")?
    } else {
        a.tensor(3, "value")?
    };
    let source = ops::cast(source, x.dtype()).done()?;
    let source = if source.rank() == 0 {
        ops::broadcast_to(source, at.shape().clone()).done()?
    } else {
        cropped(&source, &at, -1)?
    };
    Ok((x, at, source))
}

/// Scatters along one axis; on the other axes the coordinates are those of the index itself.
fn written_at(
    kind: ScatterKind,
    x: &Tensor,
    at: &Tensor,
    source: &Tensor,
    along: i64,
) -> Result<Tensor> {
    if x.rank() == 0 {
        return ops::cast(ops::reshape(source, ()), x.dtype()).done();
    }
    let mut parts = Vec::new();
    for i in 0..x.rank() {
        parts.push(Subscript::Array(if i as i64 == along {
            at.clone()
        } else {
            ops::iota(at.shape().clone(), i, DType::I64).done()?
        }));
    }
    ops::subscript_put(kind, x, &parts, source).done()
}

/// scatter_reduce: combines sources with each other, and with the operand unless include_self is false.
fn reduced(
    a: &Args<'_>,
    x: &Tensor,
    source: &Tensor,
    word: &str,
    write: impl Fn(ScatterKind, &Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Slot> {
    let with_own = a.flag(5, "include_self", true)?;
    let (low, high) = match x.dtype() {
        d if d.is_float() => (Scalar::from(f64::NEG_INFINITY), Scalar::from(f64::INFINITY)),
        DType::I8 => (i64::from(i8::MIN).into(), i64::from(i8::MAX).into()),
        DType::I16 => (i64::from(i16::MIN).into(), i64::from(i16::MAX).into()),
        DType::I32 => (i64::from(i32::MIN).into(), i64::from(i32::MAX).into()),
        DType::U8 => (0i64.into(), i64::from(u8::MAX).into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    };
    let (kind, neutral): (_, Scalar) = match word {
        "sum" | "mean" | "add" => (ScatterKind::Add, 0i64.into()),
        "prod" | "multiply" => (ScatterKind::Mul, 1i64.into()),
        "amax" => (ScatterKind::Max, low),
        "amin" => (ScatterKind::Min, high),
        _ => bail!(Unsupported, "convert: `{}` by `{word}`", a.node.op),
    };
    let touched = || {
        write(
            ScatterKind::Set,
            &ops::zeros(x.shape().clone(), DType::Bool).done()?,
            &ops::full(source.shape().clone(), true, DType::Bool).done()?,
        )
    };
    let start = match with_own {
        true => x.clone(),
        false => ops::where_(touched()?, Tensor::scalar(neutral, x.dtype()), x).done()?,
    };
    let y = write(kind, &start, &ops::cast(source, x.dtype()).done()?)?;
    if word != "mean" {
        return Ok(y.into());
    }
    let ones = ops::ones(source.shape().clone(), x.dtype()).done()?;
    let first = if with_own {
        ops::ones_like(x)
    } else {
        ops::zeros_like(x)
    };
    let count = ops::maximum(write(ScatterKind::Add, &first.done()?, &ones)?, 1).done()?;
    out(if x.dtype().is_inexact() {
        y / count
    } else {
        ops::floor_divide(y, count)
    })
}

fn index_put(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let values = ops::cast(a.expr(2, "values"), x.dtype()).done()?;
    let adds = a.flag(3, "accumulate", false)?;
    let Slot::List(parts) = a.slot(1, "indices") else {
        bail!(Convert, "convert: `index_put` without indices");
    };
    let masks = parts
        .iter()
        .filter(|p| matches!(p, Slot::Tensor(m) if m.dtype() == DType::Bool))
        .count();
    let arrays = parts
        .iter()
        .filter(|p| matches!(p, Slot::Tensor(_)))
        .count();
    if masks == 1 && arrays == 1 {
        return masked_put(&x, parts, &values, adds);
    }
    let kind = if adds {
        ScatterKind::Add
    } else {
        ScatterKind::Set
    };
    let parts = brackets(a, 1)?;
    // Indexed axes are moved to the front, and those of the source likewise.
    let indexed: Vec<usize> = (0..parts.len())
        .filter(|&i| matches!(parts[i], Subscript::Array(_)))
        .collect();
    if indexed.iter().enumerate().all(|(i, &at)| i == at) {
        return out(ops::subscript_put(kind, &x, &parts, &values));
    }
    let order: Vec<i64> = indexed
        .iter()
        .copied()
        .chain((0..x.rank()).filter(|i| !indexed.contains(i)))
        .map(|i| i as i64)
        .collect();
    let moved = ops::permute(&x, order.clone()).done()?;
    let places: Vec<Tensor> = parts
        .iter()
        .filter_map(|p| match p {
            Subscript::Array(at) => Some(at.clone()),
            Subscript::At(_) => None,
        })
        .collect();
    let shape = places.iter().try_fold(Shape::scalar(), |s, p| {
        s.broadcast_with(p.shape(), "index_put")
    })?;
    let apart = indexed.windows(2).any(|w| w[1] != w[0] + 1);
    let at = if apart { 0 } else { indexed[0] };
    let rest: Vec<Dim> = moved.shape().dims()[indexed.len()..].to_vec();
    let target = rest[..at]
        .iter()
        .chain(shape.dims())
        .chain(&rest[at..])
        .copied();
    let wide = ops::broadcast_to(&values, Shape::from_dims(target)).done()?;
    let width = shape.rank();
    let permutation: Vec<i64> = (at..at + width)
        .chain(0..at)
        .chain(at + width..wide.rank())
        .map(|i| i as i64)
        .collect();
    let wide = ops::permute(&wide, permutation).done()?;
    let places: Vec<Subscript> = places.into_iter().map(Subscript::Array).collect();
    let written = ops::subscript_put(kind, &moved, &places, &wide);
    let mut back = vec![0i64; order.len()];
    for (i, &from) in order.iter().enumerate() {
        back[from as usize] = i as i64;
    }
    out(ops::permute(written, back))
}

/// A put at a boolean mask is a `where`, if the values do not depend on the mask's elements.
fn masked_put(x: &Tensor, parts: &[Slot], values: &Tensor, adds: bool) -> Result<Slot> {
    let mut before = 0;
    for part in parts {
        let Slot::Tensor(mask) = part else {
            before += 1;
            continue;
        };
        let tail = x.rank().saturating_sub(before + mask.rank());
        // The values may vary along the axes after the mask only.
        let mut new = values.clone();
        while new.rank() > tail {
            if new.shape().dims()[0] != 1usize {
                bail!(
                    Unsupported,
                    "convert: index_put of several values at a boolean mask; use `where` or `masked_scatter`"
                );
            }
            new = ops::squeeze(&new, 0i64).done()?;
        }
        let wide = (0..tail).fold(mask.clone().into_expr(), |m, _| ops::expand_dims(m, -1));
        let new = if adds { (x + new).done()? } else { new };
        return out(ops::where_(wide, new, x));
    }
    bail!(Convert, "convert: `index_put` without a mask")
}

/// The first operand with a slice along an axis replaced by the second.
fn written(x: &Tensor, y: &Tensor, along: i64, start: Dim, end: Dim, step: i64) -> Result<Slot> {
    let size = x.shape().dims()[along as usize];
    let y = ops::broadcast_to(y, {
        let count = (end - start + Dim::number(step - 1)).floor_div(Dim::number(step))?;
        x.shape().with(along as usize, count)
    })
    .done()?;
    if step == 1 {
        let before = ops::slice_axis(x, along, 0, start).done()?;
        let after = ops::slice_axis(x, along, end, size).done()?;
        return out(ops::concat(&[before, y, after], along));
    }
    let count = y.shape().dims()[along as usize];
    let start = Slot::Int(start)
        .as_number()
        .unwrap_or_else(|| Tensor::number(0));
    let places = ops::iota([count], 0, DType::I64) * step + start;
    out(ops::put(ScatterKind::Set, x, places, y, along))
}

fn slice_scatter(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let y = ops::cast(a.expr(1, "src"), x.dtype()).done()?;
    let along = axis(&x, a.int(2, "dim", 0)?);
    let size = x.shape().dims()[along as usize];
    let start = if a.has(3, "start") {
        a.dim(3, "start")?
    } else {
        0.into()
    };
    let end = if a.has(4, "end") {
        a.dim(4, "end")?
    } else {
        size
    };
    let (start, end) = (
        super::shape::place(start, size, size),
        super::shape::place(end, size, size),
    );
    written(&x, &y, along, start, end, a.int(5, "step", 1)?)
}

fn select_scatter(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let along = axis(&x, a.int(2, "dim", 0)?);
    let y = ops::expand_dims(ops::cast(a.expr(1, "src"), x.dtype()), along).done()?;
    let at = super::shape::place(
        a.dim(3, "index")?,
        x.shape().dims()[along as usize],
        0.into(),
    );
    written(&x, &y, along, at, at + Dim::from(1), 1)
}
