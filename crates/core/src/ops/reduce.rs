//! Reductions, cumulative reductions, statistics and sorting.

use super::{IntoAxes, create::dim_number, elementwise::to_dtype};
use crate::dim::Dim;
use crate::dispatch::{apply, apply_one};
use crate::dtype::{DType, Real};
use crate::error::Result;
use crate::expr::{Expr, IntoExpr};
use crate::op::{
    ArgReduce, Composite, Cumulative, CumulativeKind, Extreme, Op, Reduce, ReduceKind, Sort,
};
use crate::shape::{Axes, Shape};
use crate::tensor::Tensor;
use crate::{bail, ensure};

fn reduce(kind: ReduceKind, x: impl IntoExpr, axes: impl IntoAxes) -> Expr {
    x.into_expr().then(|x| {
        let dtype = match kind {
            ReduceKind::Any | ReduceKind::All => DType::Bool,
            ReduceKind::Sum | ReduceKind::Prod if x.dtype() == DType::Bool => DType::INDEX,
            _ => x.dtype(),
        };
        let x = to_dtype(&x, dtype)?;
        let axes = axes.resolve(x.shape(), kind.name())?.sorted();
        if axes.is_empty() {
            return super::materialize(&x);
        }
        apply_one(&Reduce { kind, axes }.into(), &[&x])
    })
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $kind:ident;)*) => { $(
        $(#[$doc])*
        pub fn $name(x: impl IntoExpr, axes: impl IntoAxes) -> Expr { reduce(ReduceKind::$kind, x, axes) }
    )* };
}
reductions! {
    /// The sum over axes; 0 for empty axes.
    sum Sum;
    /// The product over axes; 1 for empty axes.
    prod Prod;
    /// The maximum over axes; NaN if any element is NaN.
    max Max;
    /// The minimum over axes; NaN if any element is NaN.
    min Min;
    /// Whether any element is nonzero.
    any Any;
    /// Whether all elements are nonzero.
    all All;
}

/// A reduction that keeps the reduced axes with size 1: `keepdims(x, -1, sum)`.
pub fn keepdims<A: IntoAxes>(
    x: impl IntoExpr,
    axes: A,
    f: impl FnOnce(Tensor, Vec<i64>) -> Expr,
) -> Expr {
    x.into_expr().then(|x| {
        let axes = axes.resolve(x.shape(), "keepdims")?;
        let mut shape = x.shape().clone();
        for &axis in axes.iter() {
            shape = shape.with(axis, 1usize);
        }
        let list = axes.iter().map(|&a| a as i64).collect();
        super::reshape(f(x, list), &shape).done()
    })
}

/// The number of elements over axes.
fn count(shape: &Shape, axes: &[usize], op: &str) -> Result<f64> {
    let n = axes
        .iter()
        .fold(Dim::number(1), |n, &a| n * shape.dims()[a]);
    dim_number(n, op)
}

fn as_float(x: Tensor) -> Result<Tensor> {
    if x.dtype().is_inexact() {
        Ok(x)
    } else {
        to_dtype(&x, DType::FLOAT)
    }
}

/// The mean over axes; integers become floats; NaN for empty axes.
pub fn mean(x: impl IntoExpr, axes: impl IntoAxes) -> Expr {
    x.into_expr().then(|x| {
        let x = as_float(x)?;
        let axes = axes.resolve(x.shape(), "mean")?.sorted();
        apply_one(&Composite::Mean { axes }.into(), &[&x])
    })
}

pub(crate) fn mean_body(x: &Tensor, axes: &Axes) -> Expr {
    // A symbolic size has no number here: summing ones computes the count when the program runs.
    match count(x.shape(), axes, "mean") {
        Ok(n) => sum(x, axes) / n,
        Err(_) => sum(x, axes) / sum(super::ones_like(x), axes),
    }
}

/// The variance over axes, dividing by n - correction.
pub fn var(x: impl IntoExpr, axes: impl IntoAxes, correction: f64) -> Expr {
    x.into_expr().then(|x| {
        let x = as_float(x)?;
        let axes = axes.resolve(x.shape(), "var")?.sorted();
        apply_one(
            &Composite::Var {
                axes,
                correction: Real(correction),
            }
            .into(),
            &[&x],
        )
    })
}

pub(crate) fn var_body(x: &Tensor, axes: &Axes, correction: f64) -> Expr {
    let list: Vec<i64> = axes.iter().map(|&a| a as i64).collect();
    let centre = keepdims(x, list, mean);
    let square = (x - centre).then(|d| {
        if d.dtype().is_complex() {
            super::real(super::conj(&d) * &d)
        } else {
            super::square(&d)
        }
    });
    match count(x.shape(), axes, "var") {
        Ok(n) => sum(square, axes) / (n - correction).max(0.0),
        Err(_) => {
            let n = sum(super::ones_like(x), axes);
            sum(square, axes) / super::maximum(super::real(n) - correction, 0.0)
        }
    }
}

/// The standard deviation over axes.
pub fn std(x: impl IntoExpr, axes: impl IntoAxes, correction: f64) -> Expr {
    super::sqrt(var(x, axes, correction))
}

/// log of the sum of exp over axes, without overflow.
pub fn logsumexp(x: impl IntoExpr, axes: impl IntoAxes) -> Expr {
    x.into_expr().then(|x| {
        let x = as_float(x)?;
        let axes = axes.resolve(x.shape(), "logsumexp")?.sorted();
        apply_one(&Composite::LogSumExp { axes }.into(), &[&x])
    })
}

/// The number of nonzero elements.
pub fn count_nonzero(x: impl IntoExpr, axes: impl IntoAxes) -> Expr {
    sum(super::not_equal(x, 0), axes)
}

fn arg_reduce(kind: Extreme, x: impl IntoExpr, axis: Option<i64>) -> Expr {
    x.into_expr().then(|x| {
        let (x, axis) = match axis {
            Some(axis) => {
                let axis = x.shape().axis(axis, "argmax")?;
                (x, axis)
            }
            None => (super::flatten(&x, 0).done()?, 0),
        };
        apply_one(&ArgReduce { kind, axis }.into(), &[&x])
    })
}

/// Index of the maximum along an axis (or of all elements); the first among ties.
pub fn argmax(x: impl IntoExpr, axis: Option<i64>) -> Expr {
    arg_reduce(Extreme::Max, x, axis)
}

/// Index of the minimum along an axis (or of all elements); the first among ties.
pub fn argmin(x: impl IntoExpr, axis: Option<i64>) -> Expr {
    arg_reduce(Extreme::Min, x, axis)
}

/// A cumulative reduction along an axis.
pub fn cumulative(kind: CumulativeKind, x: impl IntoExpr, axis: i64, reverse: bool) -> Expr {
    x.into_expr().then(|x| {
        let axis = x.shape().axis(axis, "cumulative")?;
        apply_one(
            &Cumulative {
                kind,
                axis,
                reverse,
            }
            .into(),
            &[&x],
        )
    })
}

/// The cumulative sum.
pub fn cumsum(x: impl IntoExpr, axis: i64) -> Expr {
    cumulative(CumulativeKind::Sum, x, axis, false)
}

/// The cumulative product.
pub fn cumprod(x: impl IntoExpr, axis: i64) -> Expr {
    cumulative(CumulativeKind::Prod, x, axis, false)
}

/// Sorts along an axis; NaN last in either direction.
pub fn sort(x: impl IntoExpr, axis: i64, descending: bool) -> Expr {
    x.into_expr().then(|x| {
        let axis = x.shape().axis(axis, "sort")?;
        apply_one(
            &Sort {
                axis,
                keys: 1,
                descending,
                stable: true,
            }
            .into(),
            &[&x],
        )
    })
}

/// Sorts several tensors together by the first `keys` of them.
pub fn sort_many(xs: &[&Tensor], keys: u8, axis: i64, descending: bool) -> Result<Vec<Tensor>> {
    let Some(first) = xs.first() else {
        bail!(Value, "sort: expected at least one tensor");
    };
    let axis = first.shape().axis(axis, "sort")?;
    Ok(apply(
        &Sort {
            axis,
            keys,
            descending,
            stable: true,
        }
        .into(),
        xs,
    )?
    .into_vec())
}

/// The indices that sort the elements along an axis.
pub fn argsort(x: impl IntoExpr, axis: i64, descending: bool) -> Expr {
    x.into_expr().then(|x| {
        let at = x.shape().axis(axis, "argsort")?;
        let places = super::create::iota_like(&x, x.shape(), at, DType::INDEX).done()?;
        match sort_many(&[&x, &places], 1, axis, descending)?.pop() {
            Some(order) => Ok(order),
            None => bail!(Internal, "argsort: no result"),
        }
    })
}

/// The k largest elements along the last axis in descending order, and their indices; NaN counts as the largest.
pub fn top_k(x: &Tensor, k: impl Into<Dim>) -> Result<(Tensor, Tensor)> {
    let mut outs = apply(&Op::TopK(k.into()), &[x])?.into_vec();
    match (outs.pop(), outs.pop()) {
        (Some(places), Some(values)) => Ok((values, places)),
        _ => bail!(Internal, "top_k: expected two results"),
    }
}

/// The insertion index of each value into a sorted tensor.
pub fn searchsorted(sorted: impl IntoExpr, values: impl IntoExpr, right: bool) -> Expr {
    super::with2(sorted, values, |sorted, values| {
        let (sorted, values) = super::elementwise::promoted(sorted, values, crate::op::Takes::Any)?;
        if values.rank() == 0 {
            let row = super::reshape(&values, [1usize]).done()?;
            let found = apply_one(&Op::SearchSorted(right), &[&sorted, &row])?;
            return super::reshape(&found, ()).done();
        }
        apply_one(&Op::SearchSorted(right), &[&sorted, &values])
    })
}

/// The median along an axis: the mean of the two middle elements for even sizes.
pub fn median(x: impl IntoExpr, axis: i64) -> Expr {
    x.into_expr().then(|x| {
        let x = as_float(x)?;
        let at = x.shape().axis(axis, "median")?;
        let n = x.shape().known_size(at, "median")?;
        ensure!(n > 0, Value, "median: axis {at} of {} is empty", x.spec());
        let sorted = sort(&x, axis, false).done()?;
        let middle = super::slice_axis(&sorted, axis, (n - 1) / 2, n / 2 + 1);
        mean(middle, axis).done()
    })
}

/// The `n`-th discrete difference along an axis.
pub fn diff(x: impl IntoExpr, n: usize, axis: i64) -> Expr {
    x.into_expr().then(|mut x| {
        let at = x.shape().axis(axis, "diff")?;
        for _ in 0..n {
            let size = x.shape().dims()[at];
            if size == 0usize {
                return Ok(x);
            }
            crate::interrupt::check()?;
            let (a, b) = (
                super::slice_axis(&x, axis, 1, size),
                super::slice_axis(&x, axis, 0, size - Dim::number(1)),
            );
            x = if x.dtype() == DType::Bool {
                super::not_equal(a, b).done()?
            } else {
                (a - b).done()?
            };
        }
        Ok(x)
    })
}
