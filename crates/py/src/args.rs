//! Python arguments that are not operands: axes, shapes, devices.

use crate::error::{OrRaise, exception, instead};
use clematis_bridge::error::unless_failed;
use clematis_core::{Backend, Kind, Shape, Tensor, backend};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PyList, PyTuple};

/// One axis or several; `None` for all of them.
pub fn axes(op: &str, x: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<i64>>> {
    match x {
        None => Ok(None),
        Some(x) if x.is_none() => Ok(None),
        Some(x) => integers(op, "axis", x).map(Some),
    }
}

/// An integer or a sequence of them.
pub fn integers(op: &str, what: &str, x: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let wrong = || {
        let shown = x.repr().map(|r| r.to_string()).unwrap_or_default();
        exception(
            Kind::DType,
            format!("{op}: `{what}` is an integer or a sequence of integers, not {shown}"),
        )
    };
    let whole = |i: &Bound<'_, PyAny>| -> PyResult<i64> {
        i.extract().map_err(|_| {
            exception(
                Kind::Value,
                format!("{op}: `{what}` {i} does not fit an integer of 64 bits"),
            )
        })
    };
    let one = |i: &Bound<'_, PyAny>| -> PyResult<i64> {
        if i.cast_exact::<PyInt>().is_ok() {
            return whole(i);
        }
        let index = i.call_method0("__index__");
        whole(&index.map_err(|e| instead(i.py(), e, wrong))?)
    };
    // Sequences first: asking one for its index costs an exception.
    if let Ok(tuple) = x.cast::<PyTuple>() {
        return tuple.iter().map(|i| one(&i)).collect();
    }
    if let Ok(list) = x.cast::<PyList>() {
        return list.iter().map(|i| one(&i)).collect();
    }
    if x.cast::<PyInt>().is_ok() && x.cast::<PyBool>().is_err() {
        return Ok(vec![whole(x)?]);
    }
    if let Some(i) = unless_failed(x.py(), x.call_method0("__index__"))? {
        return Ok(vec![whole(&i)?]);
    }
    let items = x.try_iter().map_err(|e| instead(x.py(), e, wrong))?;
    items.map(|i| one(&i?)).collect()
}

/// Sizes; negative ones are rejected.
pub fn shape(op: &str, x: &Bound<'_, PyAny>) -> PyResult<Shape> {
    let sizes = integers(op, "shape", x)?;
    if let Some(&n) = sizes.iter().find(|&&n| n < 0) {
        return Err(exception(
            Kind::Shape,
            format!("{op}: size {n} in shape {sizes:?} is negative"),
        ));
    }
    let shape = Shape::new(&sizes).or_raise()?;
    shape.check(op).or_raise()?;
    Ok(shape)
}

/// The maximum number of elements of a new array: 2³⁸, so that no framework is asked to allocate more than any machine
/// has.
const MOST: usize = 1 << 38;

/// Reads the shape of a new array: not negative and not larger than memory can be.
pub fn new_shape(op: &str, x: &Bound<'_, PyAny>) -> PyResult<Shape> {
    let shape = shape(op, x)?;
    room(op, shape.sizes())?;
    Ok(shape)
}

/// Checks that an array with this many elements, a product of sizes, can be allocated.
pub fn room(op: &str, factors: impl IntoIterator<Item = usize>) -> PyResult<()> {
    let factors: Vec<usize> = factors.into_iter().collect();
    let count = factors.iter().try_fold(1usize, |n, &f| n.checked_mul(f));
    if factors.contains(&0) || count.is_some_and(|n| n <= MOST) {
        return Ok(());
    }
    Err(exception(
        Kind::Value,
        format!(
            "{op}: the result would have {} elements, and an array has at most {MOST}",
            factors
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" x ")
        ),
    ))
}

/// A count: an integer from 0 to the maximum number of elements.
pub fn count(op: &str, what: &str, x: &Bound<'_, PyAny>) -> PyResult<usize> {
    let wrong = |kind| {
        let shown = x.repr().map(|r| r.to_string()).unwrap_or_default();
        exception(
            kind,
            format!("{op}: {what} is a whole number from 0 to {MOST}, not {shown}"),
        )
    };
    let index = x
        .call_method0("__index__")
        .map_err(|e| instead(x.py(), e, || wrong(Kind::DType)))?;
    match index.extract::<usize>() {
        Ok(n) if n <= MOST => Ok(n),
        _ => Err(wrong(Kind::Value)),
    }
}

/// The offset of a diagonal. An offset beyond every matrix selects nothing, however large it is, so it is clamped here:
/// arithmetic with rows and columns cannot overflow then.
pub fn diagonal(x: &Bound<'_, PyAny>) -> PyResult<i64> {
    const BEYOND: i64 = 1 << 40;
    let index = x.call_method0("__index__").map_err(|e| {
        instead(x.py(), e, || {
            exception(
                Kind::DType,
                format!("a diagonal has a whole number, not {x}"),
            )
        })
    })?;
    match index.extract::<i64>() {
        Ok(k) => Ok(k.clamp(-BEYOND, BEYOND)),
        Err(_) if index.lt(0)? => Ok(-BEYOND),
        Err(_) => Ok(BEYOND),
    }
}

/// Checks a device argument; the only device is `cpu`.
pub fn device(op: &str, x: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    match x {
        None => Ok(()),
        Some(x) if x.is_none() || x.to_string() == "cpu" => Ok(()),
        Some(x) => Err(exception(
            Kind::Value,
            format!("{op}: there is `cpu`, not {x}"),
        )),
    }
}

/// Runs on the backend of a tensor, so that new tensors are created there.
pub fn beside<R>(x: &Tensor, f: impl FnOnce() -> R) -> R {
    match x.backend() {
        Some(backend) => backend::with(backend, f),
        None => f(),
    }
}

/// A backend by name.
pub fn find(name: &str) -> PyResult<&'static dyn Backend> {
    backend::find(name).or_raise()
}
