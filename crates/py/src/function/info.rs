//! Dtype information and type promotion.

use crate::dtype::{self, PyDType};
use crate::error::exception;
use crate::operand::{number, try_operand};
use clematis_core::{Category, DType, Kind, Scalar};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyModule, PyString, PyTuple};

type Object<'py> = Bound<'py, PyAny>;

/// Machine limits of a float dtype.
#[pyclass(frozen, name = "finfo", module = "clematis", get_all)]
struct FInfo {
    bits: usize,
    eps: f64,
    max: f64,
    min: f64,
    smallest_normal: f64,
    dtype: Py<PyDType>,
}

/// Machine limits of an integer dtype.
#[pyclass(frozen, name = "iinfo", module = "clematis", get_all)]
struct IInfo {
    bits: usize,
    max: i128,
    min: i128,
    dtype: Py<PyDType>,
}

#[pymethods]
impl FInfo {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let text = |v: f64| PyFloat::new(py, v).repr().map(|r| r.to_string());
        Ok(format!(
            "finfo(dtype={}, bits={}, eps={}, max={}, min={}, smallest_normal={})",
            self.dtype.get().0.long_name(),
            self.bits,
            text(self.eps)?,
            text(self.max)?,
            text(self.min)?,
            text(self.smallest_normal)?
        ))
    }
}

#[pymethods]
impl IInfo {
    fn __repr__(&self) -> String {
        let dtype = self.dtype.get().0.long_name();
        let (bits, max, min) = (self.bits, self.max, self.min);
        format!("iinfo(dtype={dtype}, bits={bits}, max={max}, min={min})")
    }
}

/// The dtype of a tensor, an array or a dtype itself.
fn of(x: &Object<'_>) -> PyResult<DType> {
    match try_operand(x) {
        Ok(Some(t)) => Ok(t.tensor.dtype()),
        _ => Ok(dtype::dtype(x)?.0),
    }
}

/// Machine limits of a float dtype.
#[pyfunction]
#[pyo3(signature = (r#type, /))]
fn finfo(r#type: &Object<'_>) -> PyResult<FInfo> {
    let py = r#type.py();
    let dtype = of(r#type)?;
    let real = dtype.real();
    let (digits, lowest, max) = match real {
        DType::F16 => (10, -14, 65504.0),
        DType::BF16 => (7, -126, f64::from(half_max())),
        DType::F32 => (23, -126, f64::from(f32::MAX)),
        DType::F64 => (52, -1022, f64::MAX),
        other => {
            return Err(exception(
                Kind::DType,
                format!("finfo: a float type was expected, not {other}"),
            ));
        }
    };
    Ok(FInfo {
        bits: real.size() * 8,
        eps: 2f64.powi(-digits),
        max,
        min: -max,
        smallest_normal: 2f64.powi(lowest),
        dtype: Py::new(py, PyDType(real))?,
    })
}

/// The maximum of bfloat16: that of f32 with the lower 16 bits cleared.
fn half_max() -> f32 {
    f32::from_bits(0x7F7F_0000)
}

/// Machine limits of an integer dtype.
#[pyfunction]
#[pyo3(signature = (r#type, /))]
fn iinfo(r#type: &Object<'_>) -> PyResult<IInfo> {
    let py = r#type.py();
    let dtype = of(r#type)?;
    if !dtype.is_int() {
        return Err(exception(
            Kind::DType,
            format!("iinfo: an integer type was expected, not {dtype}"),
        ));
    }
    let bits = dtype.size() as u32 * 8;
    let (min, max) = if dtype.is_unsigned() {
        (0, (1i128 << bits) - 1)
    } else {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    };
    Ok(IInfo {
        bits: bits as usize,
        max,
        min,
        dtype: Py::new(py, PyDType(dtype))?,
    })
}

/// Tests whether one dtype can be cast to another by the promotion rules.
#[pyfunction]
#[pyo3(signature = (from_, to, /))]
fn can_cast(from_: &Object<'_>, to: &Object<'_>) -> PyResult<bool> {
    let from = of(from_)?;
    let to = dtype::dtype(to)?.0;
    Ok(from.promote(to) == to)
}

/// The dtype that operands are promoted to.
#[pyfunction]
#[pyo3(signature = (*arrays_and_dtypes))]
fn result_type(arrays_and_dtypes: &Bound<'_, PyTuple>) -> PyResult<PyDType> {
    let mut found: Option<DType> = None;
    let mut numbers: Vec<Scalar> = Vec::new();
    for x in arrays_and_dtypes.iter() {
        if let Some(v) = number(&x)? {
            numbers.push(v);
            continue;
        }
        let dtype = of(&x)?;
        found = Some(found.map_or(dtype, |d| d.promote(dtype)));
    }
    if found.is_none() && numbers.is_empty() {
        return Err(exception(Kind::Value, "result_type: nothing was given"));
    }
    let mut out = match found {
        Some(d) => d,
        None => return Ok(PyDType(natural(&numbers))),
    };
    for v in numbers {
        out = v.dtype_beside(out);
    }
    Ok(PyDType(out))
}

fn natural(numbers: &[Scalar]) -> DType {
    numbers
        .iter()
        .map(|v| v.default_dtype())
        .fold(DType::Bool, DType::promote)
}

/// Tests whether a dtype is of a kind: a dtype, the name of a kind, or a tuple of them.
#[pyfunction]
#[pyo3(signature = (dtype, kind))]
fn isdtype(dtype: &Object<'_>, kind: &Object<'_>) -> PyResult<bool> {
    let own = dtype::dtype(dtype)?.0;
    is_kind(own, kind)
}

fn is_kind(own: DType, kind: &Object<'_>) -> PyResult<bool> {
    if let Ok(several) = kind.cast::<PyTuple>() {
        for k in several.iter() {
            if is_kind(own, &k)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    if let Ok(word) = kind.cast::<PyString>() {
        return match word.to_string_lossy().as_ref() {
            "bool" => Ok(own == DType::Bool),
            "signed integer" => Ok(own.is_signed_int()),
            "unsigned integer" => Ok(own.is_unsigned()),
            "integral" => Ok(own.is_int()),
            "real floating" => Ok(own.is_float()),
            "complex floating" => Ok(own.is_complex()),
            "numeric" => Ok(own.category() != Category::Bool),
            other => Err(exception(
                Kind::Value,
                format!("isdtype: no kind is called `{other}`"),
            )),
        };
    }
    Ok(own == dtype::dtype(kind)?.0)
}

/// Information about the namespace, as the Array API defines it.
#[pyclass(frozen, name = "Info", module = "clematis")]
struct Info;

#[pymethods]
impl Info {
    /// Data-dependent shapes, boolean indexing and the maximum rank.
    fn capabilities<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        out.set_item("boolean indexing", true)?;
        out.set_item("data-dependent shapes", true)?;
        out.set_item("max dimensions", 64)?;
        Ok(out)
    }

    /// The default device of new tensors.
    fn default_device(&self) -> &'static str {
        "cpu"
    }

    /// The default dtypes.
    #[pyo3(signature = (*, device=None))]
    fn default_dtypes<'py>(
        &self,
        py: Python<'py>,
        device: Option<&Object<'py>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        crate::args::device("default_dtypes", device)?;
        let out = PyDict::new(py);
        for (kind, dtype) in [
            ("real floating", DType::FLOAT),
            ("complex floating", DType::C64),
            ("integral", DType::INT),
            ("indexing", DType::INDEX),
        ] {
            out.set_item(kind, Py::new(py, PyDType(dtype))?)?;
        }
        Ok(out)
    }

    /// The dtypes of a kind, by name.
    #[pyo3(signature = (*, device=None, kind=None))]
    fn dtypes<'py>(
        &self,
        py: Python<'py>,
        device: Option<&Object<'py>>,
        kind: Option<&Object<'py>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        crate::args::device("dtypes", device)?;
        let out = PyDict::new(py);
        for dtype in DType::ALL {
            // The standard has neither half-precision dtype.
            if matches!(dtype, DType::F16 | DType::BF16) {
                continue;
            }
            let wanted = match kind {
                Some(k) => is_kind(dtype, k)?,
                None => true,
            };
            if wanted {
                out.set_item(dtype.long_name(), Py::new(py, PyDType(dtype))?)?;
            }
        }
        Ok(out)
    }

    /// All devices.
    fn devices(&self) -> (&'static str,) {
        ("cpu",)
    }
}

/// Information about the namespace, as the Array API defines it.
#[pyfunction]
fn __array_namespace_info__() -> Info {
    Info
}

/// Adds the functions and dtypes to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::plain_functions!(m; finfo iinfo can_cast result_type isdtype __array_namespace_info__);
    let py = m.py();
    for dtype in DType::ALL {
        m.add(dtype.long_name(), Py::new(py, PyDType(dtype))?)?;
    }
    Ok(())
}
