//! Reductions, running reductions and statistics.

use crate::args::axes;
use crate::dtype;
use crate::operand::Call;
use clematis_core::expr::Expr;
use clematis_core::op::CumulativeKind;
use clematis_core::{DType, Tensor, ops};
use pyo3::prelude::*;
use pyo3::types::PyModule;

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// The Array API's type of sums: small integers become the default ones, so that sums do not wrap early.
pub fn sum_type(x: DType) -> DType {
    match x {
        DType::Bool => DType::INDEX,
        DType::I8 | DType::I16 => DType::INT,
        DType::U8 | DType::U16 => DType::U32,
        other => other,
    }
}

fn reduced(
    x: Tensor,
    axes: Option<Vec<i64>>,
    keep: bool,
    f: fn(Tensor, Option<Vec<i64>>) -> Expr,
) -> Expr {
    if keep {
        ops::keepdims(x, axes, |x, axes| f(x, Some(axes)))
    } else {
        f(x, axes)
    }
}

macro_rules! sums {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /, *, axis=None, dtype=None, keepdims=false))]
        fn $name<'py>(x: &Object<'py>, axis: Maybe<'_, 'py>, dtype: Maybe<'_, 'py>, keepdims: bool) -> PyResult<Object<'py>> {
            let mut call = Call::new(x.py(), stringify!($name));
            let x = call.take(x)?;
            let axes = axes(stringify!($name), axis)?;
            let dtype = dtype::maybe(dtype)?.unwrap_or(sum_type(x.dtype()));
            call.one(|| ops::cast(x, dtype).then(|x| reduced(x, axes, keepdims, |x, a| ops::$name(x, a))))
        }
    )* };
}
sums! {
    /// The sum over axes; of nothing, 0.
    sum;
    /// The product over axes; of nothing, 1.
    prod;
}

macro_rules! extremes {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /, *, axis=None, keepdims=false))]
        fn $name<'py>(x: &Object<'py>, axis: Maybe<'_, 'py>, keepdims: bool) -> PyResult<Object<'py>> {
            let mut call = Call::new(x.py(), stringify!($name));
            let x = call.take(x)?;
            let axes = axes(stringify!($name), axis)?;
            call.one(|| reduced(x, axes, keepdims, |x, a| ops::$name(x, a)))
        }
    )* };
}
extremes! {
    /// The largest over axes; NaN if one is.
    max;
    /// The smallest over axes; NaN if one is.
    min;
    /// Whether one is not zero.
    any;
    /// Whether none is zero.
    all;
    /// The mean over axes; integers become floats; of nothing, NaN.
    mean;
    /// log of the sum of exp(x) over axes.
    logsumexp;
    /// How many elements are not zero.
    count_nonzero;
}

fn spread<'py>(
    op: &'static str,
    x: &Object<'py>,
    axis: Maybe<'_, 'py>,
    keepdims: bool,
    f: impl FnOnce(Tensor, Option<Vec<i64>>) -> Expr + Send,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), op);
    let x = call.take(x)?;
    let axes = axes(op, axis)?;
    call.one(|| {
        if keepdims {
            ops::keepdims(x, axes, |x, axes| f(x, Some(axes)))
        } else {
            f(x, axes)
        }
    })
}

/// The variance over axes; divides by n - correction.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis=None, correction=0.0, keepdims=false))]
fn var<'py>(
    x: &Object<'py>,
    axis: Maybe<'_, 'py>,
    correction: f64,
    keepdims: bool,
) -> PyResult<Object<'py>> {
    spread("var", x, axis, keepdims, |x, axes| {
        ops::var(x, axes, correction)
    })
}

/// The square root of the variance.
#[pyfunction]
#[pyo3(name = "std", signature = (x, /, *, axis=None, correction=0.0, keepdims=false))]
fn deviation<'py>(
    x: &Object<'py>,
    axis: Maybe<'_, 'py>,
    correction: f64,
    keepdims: bool,
) -> PyResult<Object<'py>> {
    spread("std", x, axis, keepdims, |x, axes| {
        ops::std(x, axes, correction)
    })
}

macro_rules! places {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /, *, axis=None, keepdims=false))]
        fn $name<'py>(x: &Object<'py>, axis: Option<i64>, keepdims: bool) -> PyResult<Object<'py>> {
            let mut call = Call::new(x.py(), stringify!($name));
            let x = call.take(x)?;
            call.one(|| {
                let shape = x.shape().clone();
                let out = ops::$name(x, axis);
                if keepdims { ops::keep_axis(out, &shape, axis) } else { out }
            })
        }
    )* };
}
places! {
    /// The first place of the largest.
    argmax;
    /// The first place of the smallest.
    argmin;
}

fn running<'py>(
    op: &'static str,
    kind: CumulativeKind,
    x: &Object<'py>,
    axis: Option<i64>,
    dtype: Maybe<'_, 'py>,
    include_initial: bool,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), op);
    let x = call.take(x)?;
    let given = dtype::maybe(dtype)?;
    let dtype = match kind {
        CumulativeKind::Sum | CumulativeKind::Prod => given.unwrap_or(sum_type(x.dtype())),
        _ => given.unwrap_or(x.dtype()),
    };
    call.one(|| ops::running(kind, ops::cast(x, dtype), axis, include_initial))
}

macro_rules! runs {
    ($($(#[$doc:meta])* $name:ident $kind:ident;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /, *, axis=None, dtype=None, include_initial=false))]
        fn $name<'py>(x: &Object<'py>, axis: Option<i64>, dtype: Maybe<'_, 'py>, include_initial: bool) -> PyResult<Object<'py>> {
            running(stringify!($name), CumulativeKind::$kind, x, axis, dtype, include_initial)
        }
    )* };
}
runs! {
    /// The sum of all elements up to each one.
    cumulative_sum Sum;
    /// The product of all elements up to each one.
    cumulative_prod Prod;
    /// The largest of all elements up to each one.
    cumulative_max Max;
    /// The smallest of all elements up to each one.
    cumulative_min Min;
    /// log of the sum of exp(x) up to each element.
    cumulative_logsumexp LogSumExp;
}

/// The median along an axis.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis=None))]
fn median<'py>(x: &Object<'py>, axis: Option<i64>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "median");
    let x = call.take(x)?;
    call.one(|| match axis {
        Some(axis) => ops::median(x, axis),
        None => ops::median(ops::flatten(x, 0), 0),
    })
}

/// Differences of neighbours along an axis, n times.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis=-1, n=1, prepend=None, append=None), text_signature = "(x, /, *, axis=-1, n=1, prepend=None, append=None)")]
fn diff<'py>(
    x: &Object<'py>,
    axis: i64,
    n: usize,
    prepend: Maybe<'_, 'py>,
    append: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "diff");
    let x = call.take(x)?;
    let (before, after) = (call.maybe(prepend)?, call.maybe(append)?);
    call.one(|| {
        let parts: Vec<Tensor> = before.into_iter().chain([x]).chain(after).collect();
        let whole = match <[Tensor; 1]>::try_from(parts) {
            Ok([x]) => Ok(x),
            Err(parts) => ops::concat(&parts, axis).done(),
        };
        ops::diff(whole, n, axis)
    })
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m;
        sum prod max min any all mean logsumexp count_nonzero var deviation argmax argmin
        cumulative_sum cumulative_prod cumulative_max cumulative_min cumulative_logsumexp median diff);
    Ok(())
}
