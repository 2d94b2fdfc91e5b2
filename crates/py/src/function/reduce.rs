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

/// The Array API's dtype of sums: small integers are promoted to the default integer, so that sums do not overflow early.
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
    /// Sums elements over axes. The sum of no elements is 0.
    sum;
    /// Multiplies elements over axes. The product of no elements is 1.
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
    /// Maximum over axes; NaN if an element is NaN.
    max;
    /// Minimum over axes; NaN if an element is NaN.
    min;
    /// Tests whether any element is nonzero.
    any;
    /// Tests whether all elements are nonzero.
    all;
    /// Mean over axes. Integers are promoted to floats; the mean of no elements is NaN.
    mean;
    /// Logarithm of the sum of exponentials over axes: log(sum(exp(x))).
    logsumexp;
    /// Counts the nonzero elements.
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

/// Variance over axes; the divisor is n - correction.
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

/// Standard deviation over axes: the square root of the variance.
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
    /// Index of the first maximum.
    argmax;
    /// Index of the first minimum.
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
    /// Cumulative sum.
    cumulative_sum Sum;
    /// Cumulative product.
    cumulative_prod Prod;
    /// Cumulative maximum.
    cumulative_max Max;
    /// Cumulative minimum.
    cumulative_min Min;
    /// Cumulative logsumexp: the logarithm of the cumulative sum of exp(x).
    cumulative_logsumexp LogSumExp;
}

/// Median along an axis.
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

/// n-th discrete difference along an axis.
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
