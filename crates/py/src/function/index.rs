//! Gather, search, sort and set functions.

use crate::args;
use crate::operand::Call;
use clematis_core::{DType, ops};
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyTuple};

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// Takes slices along an axis at the given indices. Negative indices count from the end; an index out of range raises
/// `AxisError`, also in compiled functions.
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

/// Takes one element per index along an axis; the other axes are matched with those of the indices.
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

/// Indices of the nonzero elements, one tensor per axis.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn nonzero<'py>(x: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "nonzero");
    let x = call.take(x)?;
    call.many(|| ops::nonzero_by_axis(&x))
}

/// Indices at which values would be inserted into sorted elements to keep the order.
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

/// Sorts the elements along an axis in ascending order; NaN last.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis=-1, descending=false, stable=true), text_signature = "(x, /, *, axis=-1, descending=False, stable=True)")]
fn sort<'py>(x: &Object<'py>, axis: i64, descending: bool, stable: bool) -> PyResult<Object<'py>> {
    let _ = stable; // always
    let mut call = Call::new(x.py(), "sort");
    let x = call.take(x)?;
    call.one(|| ops::sort(x, axis, descending))
}

/// Indices that sort the elements along an axis in ascending order.
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

/// The k largest elements along the last axis in descending order, and their indices.
#[pyfunction]
#[pyo3(signature = (x, k, /))]
fn top_k<'py>(x: &Object<'py>, k: usize) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "top_k");
    let x = call.take(x)?;
    call.many(|| ops::top_k(&x, k).map(|(values, places)| vec![values, places]))
}

/// Tests whether each element is among the given values.
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
    /// Unique elements, the index of the first occurrence of each, the inverse indices and the counts.
    unique_all [values, indices, inverse, counts];
    /// Unique elements and their counts.
    unique_counts [values, counts];
    /// Unique elements and the inverse indices, which rebuild the input from them.
    unique_inverse [values, inverse];
}

/// Unique elements in ascending order.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn unique_values<'py>(x: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "unique_values");
    let x = call.take(x)?;
    call.one(|| ops::unique(&x).map(|u| u.values).into())
}

/// A named tuple, where the Array API standard requires one.
pub fn named<'py>(py: Python<'py>, name: &str, parts: Object<'py>) -> PyResult<Object<'py>> {
    let class = py.import("clematis._results")?.getattr(name)?;
    class.call1(parts.cast::<PyTuple>()?)
}

/// One-hot encoding along a new last axis: 1 at the index, 0 elsewhere. An index out of range gives zeros.
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
