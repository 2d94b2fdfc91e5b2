//! The Python class `Tensor`: holds a tensor of the core and implements Python's protocols.

mod convert;
pub mod object;
mod operators;
mod subscript;

pub use convert::{_restore, moved};

use crate::dtype::PyDType;
use crate::error::{OrRaise, exception};
use crate::operand::Call;
use clematis_core::op::{Binary, Unary};
use clematis_core::{DType, Kind, Repr, Scalar, Tensor, ops};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyString, PyTuple};

/// Array with a dtype that lives on one backend.
///
/// Created by `asarray`, `zeros`, … and returned by every function; the class is never called directly.
///
///     >>> x = cm.asarray([1.0, 2.0])
///     >>> x.shape, x.dtype, x.backend
///     ((2,), clematis.float32, 'native')
#[pyclass(frozen, name = "Tensor", module = "clematis")]
pub struct PyTensor {
    /// The core's tensor; replaced by `x += y` and `x[i] = y`.
    slot: object::Slot,
}

impl PyTensor {
    /// Wraps a tensor of the core.
    pub fn new(tensor: Tensor) -> Self {
        PyTensor {
            slot: object::Slot::new(tensor),
        }
    }

    /// Converts it to a Python object.
    #[inline]
    pub fn bound(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyTensor>> {
        Bound::new(py, PyTensor::new(tensor))
    }

    /// The current value.
    #[inline]
    pub fn get(&self, py: Python<'_>) -> Tensor {
        self.slot.get(py)
    }

    /// The current value of an object.
    #[inline]
    pub fn of(x: &Bound<'_, Self>) -> Tensor {
        x.get().get(x.py())
    }

    /// Replaces the value.
    pub fn set(x: &Bound<'_, Self>, new: Tensor) {
        x.get().slot.set(x.py(), new);
    }

    /// Replaces the value by one of the same dtype and shape.
    pub fn replace(slf: &Bound<'_, Self>, op: &str, new: Tensor) -> PyResult<()> {
        let own = PyTensor::of(slf);
        let (old, spec) = (own.spec(), new.spec());
        if old.dtype != spec.dtype {
            return Err(exception(
                Kind::DType,
                format!("{op}: {old} cannot hold the result, which is {spec}"),
            ));
        }
        if old.shape != spec.shape {
            return Err(exception(
                Kind::Shape,
                format!("{op}: {old} cannot hold the result, which is {spec}"),
            ));
        }
        PyTensor::set(slf, new);
        Ok(())
    }

    /// The value of a tensor with one element, for Python's conversions.
    fn single(&self, py: Python<'_>, what: &str) -> PyResult<Scalar> {
        let x = &self.get(py);
        if x.shape().count_dim() != 1usize {
            return Err(exception(
                Kind::Shape,
                format!("{what}: {} has more or fewer than one element", x.spec()),
            ));
        }
        if let Repr::Traced { trace, .. } = x.lowest().repr()
            // A tracer that escaped its trace is reported below.
            && !trace.is_closed()
        {
            return Err(exception(
                Kind::Trace,
                format!(
                    "{what}: {} has no value while it is traced; use where, cond or while_loop",
                    x.spec()
                ),
            ));
        }
        x.item().or_raise()
    }
}

/// A scalar as a Python number.
pub fn python_number(py: Python<'_>, value: Scalar, dtype: DType) -> PyResult<Bound<'_, PyAny>> {
    if dtype == DType::Bool {
        return value.as_bool().into_bound_py_any(py);
    }
    if dtype.is_complex() {
        let (re, im) = value.as_complex();
        return Ok(PyComplex::from_doubles(py, re, im).into_any());
    }
    if dtype.is_float() {
        return value.as_f64().into_bound_py_any(py);
    }
    value.as_i128().into_bound_py_any(py)
}

#[pymethods]
impl PyTensor {
    /// Makes NumPy defer `array + tensor` to the tensor; NumPy would otherwise build an object array element by element.
    #[classattr]
    #[pyo3(name = "__array_ufunc__")]
    const ARRAY_UFUNC: Option<u8> = None;

    /// Data type of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyDType {
        PyDType(self.get(py).dtype())
    }

    /// Shape: the sizes of the axes; a symbolic size is shown by name.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let sizes = self
            .get(py)
            .shape()
            .dims()
            .iter()
            .map(|d| match d.value() {
                Some(n) => n.into_bound_py_any(py),
                None => d.to_string().into_bound_py_any(py),
            })
            .collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, sizes)
    }

    /// Number of axes.
    #[getter]
    fn ndim(&self, py: Python<'_>) -> usize {
        self.get(py).rank()
    }

    /// Number of elements.
    #[getter]
    fn size(&self, py: Python<'_>) -> PyResult<usize> {
        self.get(py).shape().known_count("size").or_raise()
    }

    /// Size of one element in bytes.
    #[getter]
    fn itemsize(&self, py: Python<'_>) -> usize {
        self.get(py).dtype().size()
    }

    /// Size of all elements in bytes.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.size(py)? * self.itemsize(py))
    }

    /// Name of the backend that the tensor lives on.
    #[getter]
    fn backend(&self, py: Python<'_>) -> Option<&'static str> {
        self.get(py).backend().map(|b| b.name())
    }

    /// Functions of the library as methods, with the tensor as their first array: `x.conv2d(w, 1, "SAME")`.
    fn __getattr__<'py>(
        slf: &Bound<'py, Self>,
        name: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        crate::method::method(slf.as_any(), name)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        shown(&self.get(py))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let x = self.get(py);
        if x.rank() == 0 {
            return Err(pyo3::exceptions::PyTypeError::new_err(
                "len: a tensor without axes has no length",
            ));
        }
        x.shape().known_size(0, "len").or_raise()
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.single(py, "bool(x)")?.as_bool())
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        if self.get(py).dtype().is_complex() {
            return Err(complex_refused("float(x)"));
        }
        Ok(self.single(py, "float(x)")?.as_f64())
    }

    fn __int__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.get(py).dtype().is_complex() {
            return Err(complex_refused("int(x)"));
        }
        let value = self.single(py, "int(x)")?;
        match value {
            // Python's conversion rejects NaN and infinities with its own message.
            Scalar::Float(v) => v.0.into_bound_py_any(py)?.call_method0("__int__"),
            other => other.as_i128().into_bound_py_any(py),
        }
    }

    fn __complex__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyComplex>> {
        let (re, im) = self.single(py, "complex(x)")?.as_complex();
        Ok(PyComplex::from_doubles(py, re, im))
    }

    fn __index__(&self, py: Python<'_>) -> PyResult<i128> {
        let x = self.get(py);
        if !x.dtype().is_int() || x.rank() != 0 {
            return Err(pyo3::exceptions::PyTypeError::new_err(format!(
                "index: only an integer without axes can be an index, not {}",
                x.spec()
            )));
        }
        Ok(self.single(py, "index(x)")?.as_i128())
    }

    /// A tensor with one element is formatted as a Python number; other tensors support no format specification.
    fn __format__<'py>(slf: &Bound<'py, Self>, spec: &str) -> PyResult<Bound<'py, PyAny>> {
        if spec.is_empty() {
            return Ok(slf.as_any().str()?.into_any());
        }
        let x = PyTensor::of(slf);
        if x.shape().count_dim() != 1usize {
            return Err(pyo3::exceptions::PyTypeError::new_err(format!(
                "format: expected a tensor of one element for the format {spec:?}, got {}",
                x.spec()
            )));
        }
        let number = slf.as_any().call_method0("item")?;
        number.call_method1("__format__", (spec,))
    }

    /// Rounds to a number of decimals, half to even, as NumPy does.
    #[pyo3(signature = (decimals=None))]
    fn __round__<'py>(
        slf: &Bound<'py, Self>,
        decimals: Option<i32>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut call = Call::new(slf.py(), "round");
        let x = call.take(slf.as_any())?;
        let n = decimals.unwrap_or(0);
        if n == 0 || !(x.dtype().is_float() || x.dtype().is_complex()) && n > 0 {
            return call.one(|| ops::unary(Unary::Round, x));
        }
        let factor = Tensor::number(10f64.powi(n.abs().min(300)));
        let dtype = x.dtype();
        let (before, after) = match n > 0 {
            true => (Binary::Mul, Binary::Div),
            false => (Binary::Div, Binary::Mul),
        };
        call.one(|| {
            let rounded = ops::unary(Unary::Round, ops::binary(before, &x, &factor));
            ops::cast(ops::binary(after, rounded, &factor), dtype)
        })
    }

    /// Returns the value of a tensor with one element as a Python number.
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        python_number(py, self.single(py, "item")?, self.get(py).dtype())
    }
}

fn complex_refused(what: &str) -> PyErr {
    pyo3::exceptions::PyTypeError::new_err(format!("{what}: a complex number has no such value"))
}

/// Values in Python's syntax; each literal is as long as ours, so that columns stay aligned.
fn spelled(values: &str, dtype: DType) -> String {
    match dtype {
        DType::Bool => values.replace("true", "True").replace("false", "False"),
        d if d.is_complex() => {
            let text = values.replace("NaN", "nan").replace('i', "j");
            text.replace("jnf", "inf")
        }
        _ => values.replace("NaN", "nan"),
    }
}

/// Readable form: values, dtype, backend.
fn shown(x: &Tensor) -> String {
    let text = x.to_string();
    let spec = x.spec().to_string();
    let backend = x.backend().map_or("traced", |b| b.name());
    match text.strip_suffix(&format!(" {spec}")) {
        Some(values) => {
            // Rows below each other, aligned with the opening bracket.
            let values = spelled(values, x.dtype()).replace('\n', "\n       ");
            format!("Tensor({values}, {}, {backend})", x.dtype().long_name())
        }
        None => format!("Tensor({spec}, {backend})"),
    }
}
