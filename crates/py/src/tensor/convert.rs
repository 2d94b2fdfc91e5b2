//! Converts tensors: to other backends, framework arrays, NumPy, lists, bytes.

use super::{PyTensor, python_number};
use crate::dtype;
use crate::error::{OrRaise, exception};
use crate::operand::Call;
use clematis_bridge::array;
use clematis_core::host::{Bytes, Host};
use clematis_core::{Backend, DType, Kind, Repr, Shape, Spec, Tensor, backend, ops};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

/// Moves the tensor to another backend, without a copy where possible.
pub fn moved(py: Python<'_>, x: &Tensor, to: &'static dyn Backend) -> PyResult<Tensor> {
    if x.backend().is_some_and(|b| backend::same(b, to)) {
        return Ok(x.clone());
    }
    if let Repr::Traced { .. } = x.repr() {
        return Err(exception(
            Kind::Trace,
            format!("to: {} cannot be moved while it is traced", x.spec()),
        ));
    }
    if let Some(shared) = crate::dlpack::share(py, x, to)? {
        return Ok(shared);
    }
    ops::to_backend(x, to).or_raise()
}

#[pymethods]
impl PyTensor {
    /// Returns the framework's own array, without a copy; on the built-in engine the tensor itself.
    #[getter]
    fn native<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let own = PyTensor::of(slf);
        if let Repr::Traced { .. } = own.repr() {
            return Err(exception(
                Kind::Trace,
                format!("native: {} has no array while it is traced", own.spec()),
            ));
        }
        Ok(match array::of(&own) {
            Some(x) => x.bind(slf.py()).clone(),
            None => slf.clone().into_any(),
        })
    }

    /// Converts to another backend or dtype.
    fn to(&self, py: Python<'_>, target: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        let name: String = match target.extract() {
            Ok(name) => name,
            Err(_) => {
                let dtype = dtype::dtype(target)?.0;
                let tensor = ops::cast(self.get(py), dtype).done().or_raise()?;
                return Ok(PyTensor::new(tensor));
            }
        };
        if let Ok(dtype) = name.parse::<DType>() {
            let tensor = ops::cast(self.get(py), dtype).done().or_raise()?;
            return Ok(PyTensor::new(tensor));
        }
        let to = backend::find(&name).or_raise()?;
        Ok(PyTensor::new(moved(py, &self.get(py), to)?))
    }

    /// Converts to a NumPy array, without a copy where possible.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let own = self.get(py);
        let lowest = own.lowest();
        if let Repr::Traced { .. } = lowest.repr() {
            return Err(exception(
                Kind::Trace,
                format!("numpy: {} has no values while it is traced", lowest.spec()),
            ));
        }
        let moved = moved(py, lowest, backend::find("numpy").or_raise()?)?;
        match array::of(&moved) {
            Some(x) => Ok(x.bind(py).clone()),
            None => Err(exception(Kind::Internal, "numpy: no array came out")),
        }
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // tensorflow would treat the tensor in `array * tensor` as a constant; raising here makes it use our operator.
        let own = self.get(py);
        if let Repr::Traced { .. } = own.repr() {
            return Err(exception(
                Kind::Trace,
                format!(
                    "asarray: {} is being differentiated or traced, which other libraries do not see; \
                     x.numpy() gives its values alone",
                    own.spec()
                ),
            ));
        }
        let x = self.numpy(py)?;
        let keywords = PyDict::new(py);
        keywords.set_item("dtype", dtype)?;
        keywords.set_item("copy", copy)?;
        py.import("numpy")?
            .call_method("array", (x,), Some(&keywords))
    }

    /// Converts to nested lists of Python numbers.
    fn tolist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let own = self.get(py);
        let host = own.to_host().or_raise()?;
        let sizes = own.shape().sizes();
        nested(py, &host, &sizes, 0).map(|(list, _)| list)
    }

    fn __copy__(&self, py: Python<'_>) -> PyTensor {
        PyTensor::new(self.get(py))
    }

    fn __deepcopy__(&self, memo: &Bound<'_, PyAny>) -> PyResult<PyTensor> {
        copied(&self.get(memo.py()))
    }

    /// Copies the tensor to memory of its own.
    fn copy(&self, py: Python<'_>) -> PyResult<PyTensor> {
        copied(&self.get(py))
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let own = self.get(py);
        let host = own.to_host().or_raise()?;
        let restore = py.import("clematis._clematis")?.getattr("_restore")?;
        let backend = own.backend().map_or("native", |b| b.name());
        let bytes = PyBytes::new(py, host.bytes().as_slice::<u8>());
        let shape = PyTuple::new(py, own.shape().sizes())?;
        let arguments = (backend, own.dtype().long_name(), shape, bytes);
        Ok((restore, arguments.into_pyobject(py)?))
    }

    /// Returns the Array API namespace.
    #[pyo3(signature = (*, api_version=None))]
    fn __array_namespace__<'py>(
        &self,
        py: Python<'py>,
        api_version: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let known = ["2021.12", "2022.12", "2023.12", "2024.12", "2025.12"];
        if let Some(version) = api_version
            && !known.contains(&version)
        {
            return Err(exception(
                Kind::Value,
                format!("__array_namespace__: version {version} is not one of {known:?}"),
            ));
        }
        Ok(py.import("clematis")?.into_any())
    }

    /// Device of the tensor: `"cpu"`, or `"gpu:0"`.
    #[getter]
    fn device(&self, py: Python<'_>) -> PyResult<String> {
        let own = self.get(py);
        let framework = own
            .backend()
            .and_then(|b| clematis_bridge::Framework::find(b.name()));
        match (framework, array::of(&own)) {
            (Some(f), Some(x)) => f.device(py, x).or_raise(),
            _ => Ok("cpu".into()),
        }
    }

    /// Moves the tensor to a device; the engine has only one.
    #[pyo3(signature = (device, /, *, stream=None))]
    fn to_device(
        slf: &Bound<'_, Self>,
        device: &str,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyTensor>> {
        if stream.is_some() {
            return Err(exception(
                Kind::Unsupported,
                "to_device: streams are a framework's affair; move its own array",
            ));
        }
        let own = slf.get().device(slf.py())?;
        if device == own {
            return Ok(slf.clone().unbind());
        }
        Err(exception(
            Kind::Value,
            format!("to_device: there is {own}, not {device}"),
        ))
    }

    /// Transpose of a matrix.
    #[getter(T)]
    fn transposed<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let mut call = Call::new(slf.py(), "T");
        let x = call.take(slf.as_any())?;
        if x.rank() != 2 {
            return Err(exception(
                Kind::Shape,
                format!(
                    "T: a matrix was expected, not {}; use permute_dims",
                    x.spec()
                ),
            ));
        }
        call.one(|| ops::matrix_transpose(&x))
    }

    /// Transposes the last two axes.
    #[getter(mT)]
    fn matrix_transposed<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let mut call = Call::new(slf.py(), "mT");
        let x = call.take(slf.as_any())?;
        call.one(|| ops::matrix_transpose(&x))
    }
}

fn copied(x: &Tensor) -> PyResult<PyTensor> {
    let Some(backend) = x
        .backend()
        .filter(|_| !matches!(x.repr(), Repr::Traced { .. }))
    else {
        return Ok(PyTensor::new(x.clone()));
    };
    let host = x.to_host().or_raise()?;
    let mut bytes = Bytes::zeroed(host.bytes().len()).or_raise()?;
    bytes
        .as_mut_slice::<u8>()
        .copy_from_slice(host.bytes().as_slice());
    let host = Host::new(x.spec().clone(), bytes).or_raise()?;
    let tensor = backend::with(backend, || ops::from_host(host)).or_raise()?;
    Ok(PyTensor::new(tensor))
}

fn nested<'py>(
    py: Python<'py>,
    host: &Host,
    sizes: &[usize],
    at: usize,
) -> PyResult<(Bound<'py, PyAny>, usize)> {
    let Some((&n, rest)) = sizes.split_first() else {
        let value = host.get(at).or_raise()?;
        return Ok((python_number(py, value, host.spec().dtype)?, at + 1));
    };
    let mut items = Vec::with_capacity(n);
    let mut at = at;
    for _ in 0..n {
        let (item, next) = nested(py, host, rest, at)?;
        items.push(item);
        at = next;
    }
    Ok((PyList::new(py, items)?.into_any(), at))
}

/// Rebuilds a tensor from its pickled state; on the engine if its backend is not installed.
#[pyfunction]
pub fn _restore(
    py: Python<'_>,
    backend: &str,
    dtype: &str,
    shape: Vec<usize>,
    bytes: &[u8],
) -> PyResult<PyTensor> {
    let spec = Spec::new(dtype.parse().or_raise()?, Shape::from_sizes(&shape));
    if bytes.len() != spec.bytes() {
        return Err(exception(
            Kind::Value,
            format!("pickle: {} bytes for {spec}", bytes.len()),
        ));
    }
    let mut own = Bytes::zeroed(bytes.len()).or_raise()?;
    own.as_mut_slice::<u8>().copy_from_slice(bytes);
    let host = Host::new(spec, own).or_raise()?;
    let native = clematis_native::backend();
    let backend = backend::find(backend).unwrap_or(native);
    let tensor = backend::with(native, || ops::from_host(host)).or_raise()?;
    Ok(PyTensor::new(moved(py, &tensor, backend)?))
}
