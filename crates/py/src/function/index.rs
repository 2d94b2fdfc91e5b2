//! Reading at indices, searching, sorting, sets.

use crate::args;
use crate::operand::Call;
use clematis_core::{DType, ops};
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyTuple};

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// Slices along an axis at these indices. Negative ones count from the end; one out of range is an `AxisError`, also in programs.
#[pyfunction]
#[pyo3(signature = (x, indices, /, *, axis=None))]
fn take<'py>(x: &Object<'py>, indices: &Object<'py>, axis: Option<i64>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "take");
    let (x, i) = (call.take(x)?, call.take(indices)?);
    call.one(|| match axis {
        Some(axis) => ops::take(x, i, axis),
        None => ops::take(ops::flatten(x, 0), i, 0),
    })
}

/// One element per index along an axis, the other axes going side by side.
#[pyfunction]
#[pyo3(signature = (x, indices, /, *, axis=-1), text_signature = "(x, indices, /, *, axis=-1)")]
fn take_along_axis<'py>(
    x: &Object<'py>,
    indices: &Object<'py>,
    axis: i64,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "take_along_axis");
    let (x, i) = (call.take(x)?, call.take(indices)?);
    call.one(|| ops::take_along(x, i, axis))
}

/// The places of the elements that are not zero, one tensor per axis.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn nonzero<'py>(x: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "nonzero");
    let x = call.take(x)?;
    call.many(|| ops::nonzero_by_axis(&x))
}

/// Where each value would be put into the sorted elements.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, side="left", sorter=None))]
fn searchsorted<'py>(
    x1: &Object<'py>,
    x2: &Object<'py>,
    side: &str,
    sorter: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    if !["left", "right"].contains(&side) {
        return Err(crate::error::exception(
            clematis_core::Kind::Value,
            format!("searchsorted: side is `left` or `right`, not `{side}`"),
        ));
    }
    let mut call = Call::new(x1.py(), "searchsorted");
    let (sorted, values) = (call.take(x1)?, call.take(x2)?);
    let order = call.maybe(sorter)?;
    let right = side == "right";
    call.one(|| {
        let sorted = match order {
            Some(order) => ops::take(sorted, order, 0),
            None => clematis_core::expr::IntoExpr::into_expr(sorted),
        };
        ops::searchsorted(sorted, values, right)
    })
}

/// The elements in rising order along an axis; NaN last.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis=-1, descending=false, stable=true), text_signature = "(x, /, *, axis=-1, descending=False, stable=True)")]
fn sort<'py>(x: &Object<'py>, axis: i64, descending: bool, stable: bool) -> PyResult<Object<'py>> {
    let _ = stable; // always
    let mut call = Call::new(x.py(), "sort");
    let x = call.take(x)?;
    call.one(|| ops::sort(x, axis, descending))
}

/// Where the elements in rising order stand.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis=-1, descending=false, stable=true), text_signature = "(x, /, *, axis=-1, descending=False, stable=True)")]
fn argsort<'py>(
    x: &Object<'py>,
    axis: i64,
    descending: bool,
    stable: bool,
) -> PyResult<Object<'py>> {
    let _ = stable; // always
    let mut call = Call::new(x.py(), "argsort");
    let x = call.take(x)?;
    call.one(|| ops::argsort(x, axis, descending))
}

/// The k largest along the last axis, falling, and where they stood.
#[pyfunction]
#[pyo3(signature = (x, k, /))]
fn top_k<'py>(x: &Object<'py>, k: usize) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "top_k");
    let x = call.take(x)?;
    call.many(|| ops::top_k(&x, k).map(|(values, places)| vec![values, places]))
}

/// Whether each element stands among others.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, invert=false))]
fn isin<'py>(x1: &Object<'py>, x2: &Object<'py>, invert: bool) -> PyResult<Object<'py>> {
    let mut call = Call::new(x1.py(), "isin");
    let (x, among) = (call.take(x1)?, call.take(x2)?);
    call.one(|| ops::isin(x, among, invert))
}

macro_rules! uniques {
    ($($(#[$doc:meta])* $name:ident [$($field:ident),*];)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /))]
        fn $name<'py>(x: &Object<'py>) -> PyResult<Object<'py>> {
            let py = x.py();
            let mut call = Call::new(py, stringify!($name));
            let x = call.take(x)?;
            let out = call.many(|| ops::unique(&x).map(|u| vec![$(u.$field),*]))?;
            named(py, stringify!($name), out)
        }
    )* };
}
uniques! {
    /// The distinct elements, where each stood first, which one each element is, and how often each stands.
    unique_all [values, indices, inverse, counts];
    /// The distinct elements and how often each stands.
    unique_counts [values, counts];
    /// The distinct elements and which one each element is.
    unique_inverse [values, inverse];
}

/// The distinct elements in rising order.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn unique_values<'py>(x: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "unique_values");
    let x = call.take(x)?;
    call.one(|| ops::unique(&x).map(|u| u.values).into())
}

/// A named tuple, where the standard asks for one.
pub fn named<'py>(py: Python<'py>, name: &str, parts: Object<'py>) -> PyResult<Object<'py>> {
    let class = py.import("clematis._results")?.getattr(name)?;
    class.call1(parts.cast::<PyTuple>()?)
}

/// 1 at the index along a new last axis, 0 elsewhere; zeros for an index out of range.
#[pyfunction]
#[pyo3(signature = (indices, depth, /, *, dtype=None))]
fn one_hot<'py>(
    indices: &Object<'py>,
    depth: &Object<'py>,
    dtype: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(indices.py(), "one_hot");
    let i = call.take(indices)?;
    let depth = args::count("one_hot", "depth", depth)?;
    args::room("one_hot", i.shape().sizes().into_iter().chain([depth]))?;
    let dtype = crate::dtype::maybe(dtype)?.unwrap_or(DType::FLOAT);
    call.one(|| ops::one_hot(i, depth, dtype))
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m;
        take take_along_axis nonzero searchsorted sort argsort top_k isin one_hot
        unique_all unique_counts unique_inverse unique_values);
    Ok(())
}
