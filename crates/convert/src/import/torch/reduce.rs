//! Reductions, sorting, cumulative ops, quantiles, histograms.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{axis, out};
use clematis_core::expr::Expr;
use clematis_core::op::{CumulativeKind, ScatterKind};
use clematis_core::{DType, Result, Tensor, bail, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("sum", |_, a| over(a, ops::sum)),
    ("mean", |_, a| over(a, ops::mean)),
    ("prod", |_, a| over(a, ops::prod)),
    ("amax", |_, a| over(a, ops::max)),
    ("amin", |_, a| over(a, ops::min)),
    ("any", |_, a| {
        over(a, |x, axes| ops::any(ops::cast(x, DType::Bool), axes))
    }),
    ("all", |_, a| {
        over(a, |x, axes| ops::all(ops::cast(x, DType::Bool), axes))
    }),
    ("logsumexp", |_, a| over(a, ops::logsumexp)),
    ("max", |_, a| extreme(a, true)),
    ("min", |_, a| extreme(a, false)),
    ("argmax", |_, a| place(a, ops::argmax)),
    ("argmin", |_, a| place(a, ops::argmin)),
    ("var", |_, a| spread(a, ops::var)),
    ("std", |_, a| spread(a, ops::std)),
    ("cumsum", |_, a| {
        Ok(ops::cumsum(counted(a)?, a.int(1, "dim", 0)?).done()?.into())
    }),
    ("cumprod", |_, a| {
        Ok(ops::cumprod(counted(a)?, a.int(1, "dim", 0)?)
            .done()?
            .into())
    }),
    ("sort", sort),
    ("argsort", argsort),
    ("topk", topk),
    ("linalg_vector_norm", vector_norm),
    ("var_mean", |_, a| spread_and_mean(a, ops::var)),
    ("std_mean", |_, a| spread_and_mean(a, ops::std)),
    ("aminmax", extremes),
    ("_aminmax", extremes),
    ("cummax", |_, a| running(a, CumulativeKind::Max)),
    ("cummin", |_, a| running(a, CumulativeKind::Min)),
    ("logcumsumexp", |_, a| {
        out(ops::cumulative(
            CumulativeKind::LogSumExp,
            a.expr(0, "self"),
            a.int(1, "dim", 0)?,
            false,
        ))
    }),
    ("_logcumsumexp", |_, a| {
        out(ops::cumulative(
            CumulativeKind::LogSumExp,
            a.expr(0, "self"),
            a.int(1, "dim", 0)?,
            false,
        ))
    }),
    ("kthvalue", |_, a| {
        let x = a.tensor(0, "self")?;
        chosen(a, &x, a.int(1, "k", 1)? - 1, a.int(2, "dim", -1)?)
    }),
    ("median", |_, a| middle(a, false)),
    ("nanmedian", |_, a| middle(a, true)),
    ("mode", most_frequent),
    ("histc", histogram),
    ("count_nonzero", |_, a| {
        let x = a.tensor(0, "self")?;
        kept(
            a,
            ops::sum(ops::cast(ops::not_equal(&x, 0), DType::I64), axes(a, &x)?),
        )
    }),
];

/// The operand in the dtype of the result, in which torch accumulates.
fn counted(a: &Args<'_>) -> Result<Tensor> {
    let x = a.tensor(0, "self")?;
    ops::cast(&x, a.recorded_spec(0)?.dtype).done()
}

/// The given axes, or all.
fn axes(a: &Args<'_>, x: &Tensor) -> Result<Vec<i64>> {
    let given = a.ints(1, "dim").unwrap_or_default();
    Ok(if given.is_empty() {
        (0..x.rank() as i64).collect()
    } else {
        given
    })
}

/// Reshapes a reduction to the recorded shape, which has axes of size 1 for keepdim.
fn kept(a: &Args<'_>, x: Expr) -> Result<Slot> {
    Ok(ops::reshape(x, a.recorded_spec(0)?.shape).done()?.into())
}

fn over(a: &Args<'_>, f: impl FnOnce(Tensor, Vec<i64>) -> Expr) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let recorded = a.recorded_spec(0)?.dtype;
    let axes = axes(a, &x)?;
    let x = if recorded == DType::Bool {
        x
    } else {
        ops::cast(&x, recorded).done()?
    };
    kept(a, f(x, axes))
}

fn extreme(a: &Args<'_>, largest: bool) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let reduce = |x: &Tensor, axes: Vec<i64>| {
        if largest {
            ops::max(x, axes)
        } else {
            ops::min(x, axes)
        }
    };
    if !a.has(1, "dim") {
        return kept(a, reduce(&x, (0..x.rank() as i64).collect()));
    }
    if let Slot::Tensor(y) = a.slot(1, "other") {
        let out = if largest {
            ops::maximum(x, y)
        } else {
            ops::minimum(x, y)
        };
        return Ok(out.done()?.into());
    }
    let along = axis(&x, a.int(1, "dim", 0)?);
    let at = if largest {
        ops::argmax(&x, Some(along))
    } else {
        ops::argmin(&x, Some(along))
    };
    let values = ops::reshape(reduce(&x, vec![along]), a.recorded_spec(0)?.shape).done()?;
    let at = ops::reshape(ops::cast(at, DType::I64), a.recorded_spec(1)?.shape).done()?;
    Ok(vec![values, at].into())
}

fn place(a: &Args<'_>, f: impl FnOnce(Tensor, Option<i64>) -> Expr) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let along = if a.has(1, "dim") {
        Some(a.int(1, "dim", 0)?)
    } else {
        None
    };
    kept(a, ops::cast(f(x, along), DType::I64))
}

fn spread(a: &Args<'_>, f: impl FnOnce(Tensor, Vec<i64>, f64) -> Expr) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let axes = match a.slot(1, "dim") {
        Slot::List(_) | Slot::Int(_) => axes(a, &x)?,
        _ => (0..x.rank() as i64).collect(),
    };
    let correction = match (a.node.variant.contains("correction"), a.slot(2, "unbiased")) {
        (true, _) => match a.kwargs.get("correction") {
            Some(Slot::Int(d)) => d.value().unwrap_or(1) as f64,
            Some(Slot::Float(x)) => *x,
            _ => 1.0,
        },
        (false, Slot::Bool(unbiased)) => f64::from(u8::from(*unbiased)),
        _ => 1.0,
    };
    kept(a, f(x, axes, correction))
}

/// Standard deviation or variance, and the mean.
fn spread_and_mean(a: &Args<'_>, f: impl FnOnce(Tensor, Vec<i64>, f64) -> Expr) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let over = match a.slot(1, "dim") {
        Slot::List(_) | Slot::Int(_) => axes(a, &x)?,
        _ => (0..x.rank() as i64).collect(),
    };
    let mean = ops::reshape(ops::mean(&x, over), a.recorded_spec(1)?.shape).done()?;
    let spread = spread(a, f)?;
    Ok(Slot::List(vec![spread, mean.into()]))
}

fn extremes(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let over = match a.slot(1, "dim") {
        Slot::Int(_) => axes(a, &x)?,
        _ => (0..x.rank() as i64).collect(),
    };
    let shape = a.recorded_spec(0)?.shape;
    let low = ops::reshape(ops::min(&x, over.clone()), shape.clone()).done()?;
    Ok(vec![low, ops::reshape(ops::max(&x, over), shape).done()?].into())
}

/// Cumulative max or min with indices; of equal elements the last one.
fn running(a: &Args<'_>, kind: CumulativeKind) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    if x.rank() == 0 {
        return Ok(vec![x, ops::zeros((), DType::I64).done()?].into());
    }
    let along = axis(&x, a.int(1, "dim", 0)?);
    let best = ops::cumulative(kind, ops::stop_gradient(&x), along, false).done()?;
    let place = ops::iota(x.shape().clone(), along as usize, DType::I64);
    let mut new = ops::equal(&x, best);
    if x.dtype().is_float() {
        new = ops::logical_or(new, ops::isnan(&x));
    }
    let at = ops::cumulative(
        CumulativeKind::Max,
        ops::where_(new, place, 0),
        along,
        false,
    )
    .done()?;
    Ok(vec![ops::take_along_axis(&x, &at, along).done()?, at].into())
}

/// The k-th smallest element along an axis, and its index.
fn chosen(a: &Args<'_>, x: &Tensor, rank: i64, along: i64) -> Result<Slot> {
    if x.rank() == 0 {
        return Ok(vec![x.clone(), ops::zeros((), DType::I64).done()?].into());
    }
    let at = ops::slice_axis(ops::argsort(x, along, false), along, rank, rank + 1).done()?;
    let value = ops::take_along_axis(x, &at, along);
    let value = ops::reshape(value, a.recorded_spec(0)?.shape).done()?;
    Ok(vec![
        value,
        ops::reshape(ops::cast(at, DType::I64), a.recorded_spec(1)?.shape).done()?,
    ]
    .into())
}

/// The median: the lower of the two middle elements.
fn middle(a: &Args<'_>, skip_nan: bool) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let whole = !a.has(1, "dim");
    let row = if whole {
        ops::reshape(&x, [-1i64]).done()?
    } else {
        x.clone()
    };
    let along = if whole {
        0
    } else {
        axis(&row, a.int(1, "dim", 0)?)
    };
    if row.rank() == 0 {
        return Ok(vec![row, ops::zeros((), DType::I64).done()?].into());
    }
    let order = ops::argsort(&row, along, false).done()?;
    let float = row.dtype().is_float();
    // NaN is sorted to the end: nanmedian takes the middle of the others, median of a row with NaN is the last element.
    let valid = ops::keepdims(&row, [along as i32], |x, axes| {
        let counted = if float {
            ops::logical_not(ops::isnan(x))
        } else {
            ops::equal(&x, &x)
        };
        ops::sum(ops::cast(counted, DType::I64), axes)
    })
    .done()?;
    let size = Slot::Int(row.shape().dims()[along as usize])
        .as_number()
        .unwrap_or_else(|| Tensor::number(0));
    let count = if skip_nan {
        valid.clone().into_expr()
    } else {
        ops::where_(ops::equal(&valid, &size), &valid, &size * 2 - 1)
    };
    let rank = ops::maximum(ops::floor_divide(count - 1, 2), 0);
    let at = ops::take_along_axis(&order, rank, along).done()?;
    let value = ops::reshape(
        ops::take_along_axis(&row, &at, along),
        a.recorded_spec(0)?.shape,
    )
    .done()?;
    if whole {
        return Ok(value.into());
    }
    Ok(vec![
        value,
        ops::reshape(ops::cast(at, DType::I64), a.recorded_spec(1)?.shape).done()?,
    ]
    .into())
}

/// The mode: the smallest of the most frequent elements.
fn most_frequent(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    if x.rank() == 0 {
        return Ok(vec![x, ops::zeros((), DType::I64).done()?].into());
    }
    let along = axis(&x, a.int(1, "dim", -1)?);
    let row = ops::move_axis(&x, along, -1).done()?;
    let sorted = ops::sort(&row, -1, false).done()?;
    let same = ops::equal(ops::expand_dims(&sorted, -1), ops::expand_dims(&sorted, -2));
    let best = ops::argmax(ops::sum(ops::cast(same, DType::I64), -1i64), Some(-1));
    let value = ops::take_along_axis(&sorted, ops::expand_dims(best, -1), -1).done()?;
    let place = ops::iota(row.shape().clone(), row.rank() - 1, DType::I64);
    let at = ops::max(ops::where_(ops::equal(&row, &value), place, -1), -1i64).done()?;
    let value = ops::take_along_axis(&row, ops::expand_dims(&at, -1), -1);
    let value = ops::reshape(value, a.recorded_spec(0)?.shape).done()?;
    Ok(vec![value, ops::reshape(at, a.recorded_spec(1)?.shape).done()?].into())
}

fn histogram(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = ops::reshape(a.expr(0, "self"), [-1i64]).done()?;
    let bins = a.int(1, "bins", 100)?;
    let (low, high) = (a.float(2, "min", 0.0)?, a.float(3, "max", 0.0)?);
    if bins < 1 {
        bail!(
            Value,
            "convert: histc: expected one or more bins, got {bins}"
        );
    }
    let recorded = a.recorded_spec(0)?;
    let wide = if x.dtype().is_float() {
        x.clone()
    } else {
        ops::cast(&x, DType::F64).done()?
    };
    let (low, high) = if low == high && low == 0.0 {
        // The range of the values themselves; if they are all equal, one bin around them.
        let (low, high) = (ops::min(&wide, ..).done()?, ops::max(&wide, ..).done()?);
        let flat = ops::equal(&low, &high).done()?;
        (
            ops::where_(&flat, &low - 1.0, &low).done()?,
            ops::where_(&flat, &high + 1.0, &high).done()?,
        )
    } else if low == high {
        (Tensor::number(low - 1.0), Tensor::number(high + 1.0))
    } else {
        (Tensor::number(low), Tensor::number(high))
    };
    let inside = ops::logical_and(
        ops::greater_equal(&wide, &low),
        ops::less_equal(&wide, &high),
    );
    let place = (&wide - &low) * (bins as f64) / (&high - &low);
    let place = ops::minimum(ops::maximum(ops::floor(place), 0.0), (bins - 1) as f64);
    let counts = ops::zeros(recorded.shape, recorded.dtype);
    out(ops::put(
        ScatterKind::Add,
        counts,
        ops::cast(place, DType::I64),
        ops::cast(inside, recorded.dtype),
        0,
    ))
}

fn sort(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let stable = a.node.variant == "stable";
    let (dim_at, desc_at) = if stable { (2, 3) } else { (1, 2) };
    let along = a.int(dim_at, "dim", -1)?;
    let descending = a.flag(desc_at, "descending", false)?;
    let at = ops::argsort(&x, along, descending).done()?;
    let values = ops::take_along_axis(&x, &at, along).done()?;
    Ok(vec![values, ops::cast(at, DType::I64).done()?].into())
}

fn argsort(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (along, descending) = (a.int(1, "dim", -1)?, a.flag(2, "descending", false)?);
    Ok(ops::cast(
        ops::argsort(a.expr(0, "self"), along, descending),
        DType::I64,
    )
    .done()?
    .into())
}

fn topk(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let along = axis(&x, a.int(2, "dim", -1)?);
    let largest = a.flag(3, "largest", true)?;
    let moved = ops::move_axis(&x, along, -1).done()?;
    let k = a.dim(1, "k")?;
    let (values, at) = if largest {
        ops::top_k(&moved, k)?
    } else {
        let at = ops::slice_axis(ops::argsort(&moved, -1, false), -1, 0, k).done()?;
        (ops::take_along_axis(&moved, &at, -1).done()?, at)
    };
    let back = |x: Tensor| ops::move_axis(x, -1, along);
    Ok(vec![
        back(values).done()?,
        ops::cast(back(at), DType::I64).done()?,
    ]
    .into())
}

fn vector_norm(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let order = a.float(1, "ord", 2.0)?;
    let given = a.ints(2, "dim").unwrap_or_default();
    let axes: Vec<i64> = if given.is_empty() {
        (0..x.rank() as i64).collect()
    } else {
        given
    };
    let size = ops::abs(ops::cast(
        &x,
        if x.dtype().is_complex() {
            x.dtype()
        } else {
            a.recorded_spec(0)?.dtype
        },
    ));
    let out = if order == 2.0 {
        size.then(|x| rooted(ops::sum(&x * &x, axes)))
    } else if order == f64::INFINITY {
        ops::max(size, axes)
    } else if order == f64::NEG_INFINITY {
        ops::min(size, axes)
    } else if order == 0.0 {
        ops::sum(ops::cast(ops::not_equal(size, 0.0), x.dtype()), axes)
    } else if order == 1.0 {
        ops::sum(size, axes)
    } else {
        ops::pow(ops::sum(ops::pow(size, order), axes), 1.0 / order)
    };
    kept(a, out)
}

/// The square root of a sum of squares, with a zero gradient at zero.
fn rooted(sum: Expr) -> Expr {
    sum.then(|sum| {
        let zero = ops::equal(&sum, 0.0).done()?;
        ops::where_(&zero, 0.0, ops::sqrt(ops::where_(&zero, 1.0, &sum))).done()
    })
}

use clematis_core::expr::IntoExpr;
