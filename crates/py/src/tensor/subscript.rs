//! Indexing: `x[…]` and `x[…] = y`.

use super::{PyTensor, moved};
use crate::error::{OrRaise, exception};
use crate::operand::{Call, give, numpy_number, operand, try_operand};
use clematis_core::jit::has_values;
use clematis_core::op::ScatterKind;
use clematis_core::ops::{At, Subscript};
use clematis_core::{DType, Kind, Result, Tensor, backend, ops};
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyInt, PyList, PySlice, PyTuple};

/// Reads the index.
pub fn parts(key: &Bound<'_, PyAny>) -> PyResult<Vec<Subscript>> {
    match key.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().map(|k| part(&k)).collect(),
        Err(_) => Ok(vec![part(key)?]),
    }
}

fn part(key: &Bound<'_, PyAny>) -> PyResult<Subscript> {
    if key.is_none() {
        return Ok(Subscript::At(At::New));
    }
    if key.cast::<PyEllipsis>().is_ok() {
        return Ok(Subscript::At(At::Rest));
    }
    if let Ok(slice) = key.cast::<PySlice>() {
        let end = |name: &str| -> PyResult<Option<i64>> {
            let value = slice.getattr(name)?;
            if value.is_none() {
                return Ok(None);
            }
            place(&value).map(Some)
        };
        return Ok(Subscript::At(At::Range(
            end("start")?,
            end("stop")?,
            end("step")?.unwrap_or(1),
        )));
    }
    if key.cast::<PyBool>().is_err() && key.cast::<PyInt>().is_ok() {
        return Ok(Subscript::At(At::Place(place(key)?)));
    }
    if let Some(found) = try_operand(key)? {
        // Every library accepts NumPy arrays as indices: they are moved to the tensor's backend.
        let x = match found.tensor.backend() {
            Some(backend) if found.raw && backend.name() == "numpy" => {
                moved(key.py(), &found.tensor, backend::current().or_raise()?)?
            }
            _ => found.tensor,
        };
        if x.rank() == 0 && x.dtype().is_int() && x.backend().is_some() {
            let value = x.item().or_raise()?.as_i128();
            return Ok(Subscript::At(At::Place(value as i64)));
        }
        if !x.dtype().is_int() && x.dtype() != DType::Bool {
            return Err(exception(
                Kind::Index,
                format!("index: {} is neither of integers nor a mask", x.spec()),
            ));
        }
        return Ok(Subscript::Array(ops::materialize(&x).or_raise()?));
    }
    if key.cast::<PyList>().is_ok() {
        let x = operand("index", key)?.tensor;
        // An empty list selects nothing; it has no dtype of its own.
        let x = if x.shape().count() == 0 && x.dtype().is_float() {
            ops::cast(&x, DType::INDEX).done().or_raise()?
        } else {
            x
        };
        return Ok(Subscript::Array(x));
    }
    match key.call_method0("__index__") {
        Ok(index) => return Ok(Subscript::At(At::Place(place(&index)?))),
        Err(e) if is_no_index(&e, key.py()) => {}
        Err(e) => return Err(e),
    }
    let class = key.get_type();
    Err(exception(
        Kind::Index,
        format!("index: {} cannot be an index", class.name()?),
    ))
}

/// Whether an object cannot be an index: it has no `__index__` method, or the method raises.
fn is_no_index(raised: &PyErr, py: Python<'_>) -> bool {
    raised.is_instance_of::<PyTypeError>(py) || raised.is_instance_of::<PyAttributeError>(py)
}

fn place(x: &Bound<'_, PyAny>) -> PyResult<i64> {
    let index = x.call_method0("__index__")?;
    // Indices beyond the ends of an axis are equivalent.
    match index.extract::<i64>() {
        Ok(i) => Ok(i),
        Err(_) => Ok(if index.lt(0)? {
            i64::MIN / 2
        } else {
            i64::MAX / 2
        }),
    }
}

/// Assignment with one boolean for the whole tensor: all of it is written, or nothing.
fn put_by_truth(mask: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let mut y = ops::cast(y, x.dtype()).done()?;
    if has_values(mask.lowest()) && !mask.item()?.as_bool() {
        // The shape is checked even if nothing is written.
        ops::broadcast_to(&y, x.shape().insert(0, 0usize)).done()?;
        return Ok(x.clone());
    }
    if y.rank() > x.rank() && y.shape().dims()[0] == 1usize {
        y = ops::squeeze(&y, 0).done()?;
    }
    ops::where_(mask, ops::broadcast_to(&y, x.shape()), x).done()
}

#[pymethods]
impl PyTensor {
    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let mut call = Call::new(py, "index");
        let x = call.take(slf.as_any())?;
        let parts = call.run_attached(|| parts(key))?;
        let out = call.run(|| ops::subscript(&x, &parts).done()).or_raise()?;
        give(py, out, false)
    }

    fn __setitem__(
        slf: &Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let mut call = Call::new(slf.py(), "index");
        let x = call.take(slf.as_any())?;
        let parts = call.run_attached(|| parts(key))?;
        let found = call.run_attached(|| operand("index", value))?;
        let y = match numpy_number(value, &found)? {
            Some(number) => number,
            None => found.tensor,
        };
        if y.dtype().category() > x.dtype().category() {
            return Err(exception(
                Kind::DType,
                format!("index: {} cannot be written into {}", y.spec(), x.spec()),
            ));
        }
        let out = call
            .run(|| match &parts[..] {
                [Subscript::Array(mask)] if mask.dtype() == DType::Bool && mask.rank() == 0 => {
                    put_by_truth(mask, &x, &y)
                }
                _ => ops::subscript_put(ScatterKind::Set, &x, &parts, &y).done(),
            })
            .or_raise()?;
        PyTensor::replace(slf, "index", out)
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let count = slf.as_any().len()?;
        let rows = (0..count)
            .map(|i| slf.as_any().get_item(i))
            .collect::<PyResult<Vec<_>>>()?;
        PyList::new(slf.py(), rows)?
            .as_any()
            .call_method0("__iter__")
    }
}
