//! Element types as Python objects: `cm.float32`, or the string.

use crate::error::{OrRaise, exception};
use clematis_core::{DType, Kind};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyString, PyType};

/// Data type (dtype) of the elements of a tensor.
///
///     >>> cm.DType("float32") == cm.float32
///     True
#[pyclass(frozen, name = "DType", module = "clematis")]
#[derive(Clone, Copy)]
pub struct PyDType(pub DType);

#[pymethods]
impl PyDType {
    #[new]
    fn new(x: &Bound<'_, PyAny>) -> PyResult<Self> {
        dtype(x)
    }

    /// The Array API name.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.long_name()
    }

    /// Size of one element in bytes.
    #[getter]
    fn itemsize(&self) -> usize {
        self.0.size()
    }

    /// NumPy's character code of the kind: b, i, u, f or c.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0 {
            DType::Bool => "b",
            d if d.is_unsigned() => "u",
            d if d.is_int() => "i",
            d if d.is_float() => "f",
            _ => "c",
        }
    }

    fn __repr__(&self) -> String {
        format!("clematis.{}", self.0.long_name())
    }

    fn __str__(&self) -> &'static str {
        self.0.long_name()
    }

    fn __hash__(&self) -> u64 {
        self.0 as u64 + 7001
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let same = match try_dtype(other)? {
            Some(d) => d.0 == self.0,
            None => false,
        };
        Ok(match op {
            CompareOp::Eq => PyBool::new(py, same).to_owned().into_any().unbind(),
            CompareOp::Ne => PyBool::new(py, !same).to_owned().into_any().unbind(),
            _ => py.NotImplemented(),
        })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyType>, (&'static str,)) {
        (py.get_type::<PyDType>(), (self.0.long_name(),))
    }
}

fn try_dtype(x: &Bound<'_, PyAny>) -> PyResult<Option<PyDType>> {
    if let Ok(d) = x.cast::<PyDType>() {
        return Ok(Some(*d.get()));
    }
    if let Ok(name) = x.cast::<PyString>() {
        return Ok(name.to_string_lossy().parse().ok().map(PyDType));
    }
    if let Ok(class) = x.cast::<PyType>() {
        let py = x.py();
        let builtin = [
            (py.get_type::<PyBool>(), DType::Bool),
            (py.get_type::<PyInt>(), DType::INT),
            (py.get_type::<PyFloat>(), DType::FLOAT),
            (py.get_type::<PyComplex>(), DType::C64),
        ];
        return Ok(builtin
            .into_iter()
            .find(|(b, _)| b.is(class))
            .map(|(_, d)| PyDType(d)));
    }
    Ok(None)
}

/// Converts a dtype argument.
pub fn dtype(x: &Bound<'_, PyAny>) -> PyResult<PyDType> {
    if let Some(d) = try_dtype(x)? {
        return Ok(d);
    }
    if let Ok(name) = x.cast::<PyString>() {
        return name.to_string_lossy().parse().map(PyDType).or_raise();
    }
    // A framework's dtype by its name, as `torch.float32` or `float32`.
    let name = match x.cast::<PyType>() {
        // A class such as `numpy.float16`.
        Ok(class) => Some(class.name()?.into_any()),
        Err(_) => x.getattr_opt("name")?,
    };
    let shown = match name {
        Some(name) => name.to_string(),
        None => x.to_string(),
    };
    let word = shown.rsplit('.').next().unwrap_or_default();
    match word.parse() {
        Ok(d) => Ok(PyDType(d)),
        Err(_) => Err(exception(
            Kind::DType,
            format!("dtype: {shown} is no dtype"),
        )),
    }
}

/// An optional dtype argument.
pub fn maybe(x: Option<&Bound<'_, PyAny>>) -> PyResult<Option<DType>> {
    match x {
        Some(x) if !x.is_none() => Ok(Some(dtype(x)?.0)),
        _ => Ok(None),
    }
}
