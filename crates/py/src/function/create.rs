//! Creation functions: new tensors on the current backend, or on the backend of another tensor.

use crate::args::beside;
use crate::dtype::{self, PyDType};
use crate::error::{OrRaise, exception};
use crate::operand::nested_sequence;
use crate::operand::{Call, give, number, try_operand};
use crate::tensor::{PyTensor, moved};
use clematis_bridge::array;
use clematis_bridge::error::failed;
use clematis_core::{Category, DType, Kind, Scalar, Tensor, backend, ops};
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyTuple};

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// Converts an object to a tensor: numbers, nested lists of numbers, arrays of any library.
///
/// Numbers, lists and NumPy arrays are placed on the current backend; arrays of torch, jax and tensorflow keep their
/// backend.
#[pyfunction]
#[pyo3(signature = (obj, /, *, dtype=None, device=None, copy=None))]
pub fn asarray<'py>(
    obj: &Object<'py>,
    dtype: Maybe<'_, 'py>,
    device: Maybe<'_, 'py>,
    copy: Option<bool>,
) -> PyResult<Object<'py>> {
    let py = obj.py();
    crate::args::device("asarray", device)?;
    let want = dtype::maybe(dtype)?;
    // The same object, so that in-place updates of one are visible in the other, as with shared memory.
    if copy != Some(true)
        && let Ok(t) = obj.cast::<PyTensor>()
        && want.is_none_or(|d| PyTensor::of(t).dtype() == d)
    {
        return Ok(obj.clone());
    }
    let t = match from_object(py, obj, want, copy)? {
        Some(t) => t,
        None if copy == Some(false) && number(obj)?.is_none() => {
            return Err(exception(
                Kind::Value,
                "asarray: a pytree of numbers cannot be taken without a copy",
            ));
        }
        None => nested_sequence::array(obj, want.map(PyDType))?,
    };
    let t = match want {
        Some(d) if d != t.dtype() => {
            if copy == Some(false) {
                return Err(exception(
                    Kind::Value,
                    format!("asarray: {} to {d} needs a copy", t.spec()),
                ));
            }
            beside(&t, || ops::cast(&t, d).done()).or_raise()?
        }
        _ => t,
    };
    Ok(PyTensor::bound(py, t)?.into_any())
}

/// The tensor of an array of any library; `None` for pytrees.
fn from_object(
    py: Python<'_>,
    obj: &Object<'_>,
    want: Option<DType>,
    copy: Option<bool>,
) -> PyResult<Option<Tensor>> {
    if let Ok(t) = obj.cast::<PyTensor>() {
        return Ok(Some(if copy == Some(true) {
            PyTensor::of(obj.call_method0("copy")?.cast::<PyTensor>()?)
        } else {
            PyTensor::of(t)
        }));
    }
    if let Some(v) = number(obj)? {
        let dtype = want.unwrap_or_else(|| v.default_dtype());
        check_number(v, dtype)?;
        return ops::full((), v, dtype).done().or_raise().map(Some);
    }
    if let Some(x) = try_operand(obj)? {
        let x = x.tensor;
        if x.backend().is_some_and(|b| b.name() == "numpy") {
            let backend = backend::current().or_raise()?;
            if copy == Some(true) {
                return backend::with(backend, || ops::from_host(x.to_host()?))
                    .or_raise()
                    .map(Some);
            }
            return moved(py, &x, backend).map(Some);
        }
        return Ok(Some(x));
    }
    if obj.hasattr("__dlpack__")? {
        return from_dlpack_object(py, obj, copy).map(Some);
    }
    if obj.hasattr("__array__")? {
        let x = py.import("numpy")?.call_method1("asarray", (obj,))?;
        return from_object(py, &x, want, copy);
    }
    // Objects with the buffer protocol, such as `array.array` and `memoryview`, are converted by NumPy.
    if obj.hasattr("__buffer__")? || obj.is_instance_of::<pyo3::types::PyByteArray>() {
        let x = py.import("numpy")?.call_method1("asarray", (obj,))?;
        return from_object(py, &x, want, copy);
    }
    Ok(None)
}

fn check_number(v: Scalar, dtype: DType) -> PyResult<()> {
    let lower = v.category() > dtype.category() && dtype.category() != Category::Bool;
    if lower {
        return Err(exception(
            Kind::DType,
            format!("asarray: {v} does not fit {dtype}"),
        ));
    }
    if dtype.is_int() {
        let bits = dtype.size() as u32 * 8;
        let (low, high) = if dtype.is_unsigned() {
            (0, (1i128 << bits) - 1)
        } else {
            (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
        };
        if !(low..=high).contains(&v.as_i128()) {
            return Err(exception(
                Kind::Value,
                format!("asarray: {v} does not fit {dtype}"),
            ));
        }
    }
    Ok(())
}

/// Imports an array of another library through DLPack, on the current backend, without a copy where possible.
#[pyfunction]
#[pyo3(signature = (x, /, *, device=None, copy=None))]
fn from_dlpack<'py>(
    x: &Object<'py>,
    device: Maybe<'_, 'py>,
    copy: Option<bool>,
) -> PyResult<Object<'py>> {
    let py = x.py();
    crate::args::device("from_dlpack", device)?;
    let t = from_dlpack_object(py, x, copy)?;
    Ok(PyTensor::bound(py, t)?.into_any())
}

fn from_dlpack_object(py: Python<'_>, x: &Object<'_>, copy: Option<bool>) -> PyResult<Tensor> {
    if let Ok(t) = x.cast::<PyTensor>()
        && copy != Some(true)
    {
        return Ok(PyTensor::of(t));
    }
    let backend = backend::current().or_raise()?;
    let keywords = [("max_version", (1u32, 0u32))].into_py_dict(py)?;
    // An array of a known framework is exported by its tensor, which computes lazy values first.
    let exported = match array::tensor(x).or_raise()? {
        Some(own) if copy.is_none() => return moved(py, &own, backend),
        Some(own) => {
            keywords.set_item("copy", copy)?;
            let own = PyTensor::bound(py, own)?;
            own.call_method("__dlpack__", (), Some(&keywords))
        }
        None if !x.hasattr("__dlpack__")? => {
            return Err(exception(
                Kind::DType,
                format!(
                    "from_dlpack: expected an object with `__dlpack__`, got {}",
                    x.get_type().name()?
                ),
            ));
        }
        None => x.call_method("__dlpack__", (), Some(&keywords)),
    };
    let capsule = match exported {
        // A producer that implements DLPack before 1.0.
        Err(e) if e.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => {
            x.call_method0("__dlpack__")
        }
        exported => exported,
    };
    let capsule = capsule
        .map_err(|e| failed(py, "from_dlpack", e))
        .or_raise()?;
    let t = crate::dlpack::from_capsule(&capsule, copy)?;
    moved(py, &t, backend)
}

use pyo3::types::IntoPyDict;

fn made<'py>(py: Python<'py>, out: clematis_core::expr::Expr) -> PyResult<Object<'py>> {
    Ok(PyTensor::bound(py, out.done().or_raise()?)?.into_any())
}

/// Tensor of a shape filled with one value.
#[pyfunction]
#[pyo3(signature = (shape, fill_value, *, dtype=None, device=None))]
fn full<'py>(
    shape: &Object<'py>,
    fill_value: &Object<'py>,
    dtype: Maybe<'_, 'py>,
    device: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    crate::args::device("full", device)?;
    let shape = crate::args::new_shape("full", shape)?;
    let value = scalar("full", fill_value)?;
    let dtype = dtype::maybe(dtype)?.unwrap_or_else(|| value.default_dtype());
    made(fill_value.py(), ops::full(&shape, value, dtype))
}

/// A Python number, or a tensor with one element.
fn scalar(op: &str, x: &Object<'_>) -> PyResult<Scalar> {
    if let Some(v) = number(x)? {
        return Ok(v);
    }
    match try_operand(x)? {
        Some(t) => t.tensor.item().or_raise(),
        None => Err(exception(
            Kind::DType,
            format!("{op}: a number was expected, not {x}"),
        )),
    }
}

macro_rules! constants {
    ($($(#[$doc:meta])* $name:ident $like:ident $value:literal;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (shape, *, dtype=None, device=None))]
        fn $name<'py>(shape: &Object<'py>, dtype: Maybe<'_, 'py>, device: Maybe<'_, 'py>) -> PyResult<Object<'py>> {
            crate::args::device(stringify!($name), device)?;
            let sizes = crate::args::new_shape(stringify!($name), shape)?;
            let dtype = dtype::maybe(dtype)?.unwrap_or(DType::FLOAT);
            made(shape.py(), ops::full(&sizes, $value, dtype))
        }
        $(#[$doc])*
        ///
        /// Uses the shape, dtype and backend of another tensor.
        #[pyfunction]
        #[pyo3(signature = (x, /, *, dtype=None, device=None))]
        fn $like<'py>(x: &Object<'py>, dtype: Maybe<'_, 'py>, device: Maybe<'_, 'py>) -> PyResult<Object<'py>> {
            crate::args::device(stringify!($like), device)?;
            let mut call = Call::new(x.py(), stringify!($like));
            let x = call.take(x)?;
            let dtype = dtype::maybe(dtype)?.unwrap_or(x.dtype());
            call.one(|| ops::full_of(&x, $value, dtype))
        }
    )* };
}
constants! {
    /// Tensor of zeros.
    zeros zeros_like 0;
    /// Tensor of ones.
    ones ones_like 1;
    /// Uninitialized tensor; filled with zeros here, so that it is the same on every backend.
    empty empty_like 0;
}

/// Tensor filled with one value, with the shape, dtype and backend of another tensor.
#[pyfunction]
#[pyo3(signature = (x, /, fill_value, *, dtype=None, device=None))]
fn full_like<'py>(
    x: &Object<'py>,
    fill_value: &Object<'py>,
    dtype: Maybe<'_, 'py>,
    device: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    crate::args::device("full_like", device)?;
    let mut call = Call::new(x.py(), "full_like");
    let x = call.take(x)?;
    let value = scalar("full_like", fill_value)?;
    let dtype = dtype::maybe(dtype)?.unwrap_or(x.dtype());
    call.one(|| ops::full_of(&x, value, dtype))
}

/// Evenly spaced values from `start` up to, but not including, `stop`, with spacing `step`.
#[pyfunction]
#[pyo3(
    signature = (start, /, stop=None, step=None, *, dtype=None, device=None),
    text_signature = "(start, /, stop=None, step=1, *, dtype=None, device=None)"
)]
fn arange<'py>(
    start: &Object<'py>,
    stop: Maybe<'_, 'py>,
    step: Maybe<'_, 'py>,
    dtype: Maybe<'_, 'py>,
    device: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    crate::args::device("arange", device)?;
    let first = scalar("arange", start)?;
    let (from, to) = match stop {
        Some(stop) if !stop.is_none() => (first, scalar("arange", stop)?),
        _ => (Scalar::from(0i64), first),
    };
    let step = match step {
        Some(step) if !step.is_none() => scalar("arange", step)?,
        _ => Scalar::from(1i64),
    };
    let count = (to.as_f64() - from.as_f64()) / step.as_f64();
    if count.is_finite() {
        crate::args::room("arange", [count.max(0.0).ceil() as usize])?;
    }
    let given = dtype::maybe(dtype)?;
    let natural = [from, to, step]
        .into_iter()
        .map(Scalar::default_dtype)
        .fold(DType::INT, DType::promote);
    made(
        start.py(),
        ops::arange(from, to, step, given.unwrap_or(natural)),
    )
}

/// Evenly spaced numbers from `start` to `stop`.
#[pyfunction]
#[pyo3(signature = (start, stop, /, num, *, dtype=None, device=None, endpoint=true))]
fn linspace<'py>(
    start: &Object<'py>,
    stop: &Object<'py>,
    num: &Object<'py>,
    dtype: Maybe<'_, 'py>,
    device: Maybe<'_, 'py>,
    endpoint: bool,
) -> PyResult<Object<'py>> {
    crate::args::device("linspace", device)?;
    let num = crate::args::count("linspace", "num", num)?;
    let (a, b) = (scalar("linspace", start)?, scalar("linspace", stop)?);
    let complex = [a, b].iter().any(|v| v.category() == Category::Complex);
    let natural = if complex { DType::C64 } else { DType::FLOAT };
    let dtype = dtype::maybe(dtype)?.unwrap_or(natural);
    made(
        start.py(),
        ops::linspace_between(a, b, num, endpoint, dtype),
    )
}

/// Identity matrix: ones on the k-th diagonal, zeros elsewhere.
#[pyfunction]
#[pyo3(signature = (n_rows, n_cols=None, /, *, k=0, dtype=None, device=None))]
fn eye<'py>(
    n_rows: &Object<'py>,
    n_cols: Maybe<'_, 'py>,
    #[pyo3(from_py_with = crate::args::diagonal)] k: i64,
    dtype: Maybe<'_, 'py>,
    device: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    crate::args::device("eye", device)?;
    let dtype = dtype::maybe(dtype)?.unwrap_or(DType::FLOAT);
    let rows = crate::args::count("eye", "n_rows", n_rows)?;
    let columns = match n_cols {
        Some(n) => crate::args::count("eye", "n_cols", n)?,
        None => rows,
    };
    crate::args::room("eye", [rows, columns])?;
    made(n_rows.py(), ops::eye(rows, columns, k, dtype))
}

macro_rules! triangles {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /, *, k=0))]
        fn $name<'py>(
            x: &Object<'py>,
            #[pyo3(from_py_with = crate::args::diagonal)] k: i64,
        ) -> PyResult<Object<'py>> {
            let mut call = Call::new(x.py(), stringify!($name));
            let x = call.take(x)?;
            call.one(|| ops::$name(x, k))
        }
    )* };
}
triangles! {
    /// Lower triangle of a matrix; zeros elsewhere.
    tril;
    /// Upper triangle of a matrix; zeros elsewhere.
    triu;
}

/// Coordinate matrices from coordinate vectors.
#[pyfunction]
#[pyo3(signature = (*arrays, indexing="xy"))]
fn meshgrid<'py>(arrays: &Bound<'py, PyTuple>, indexing: &str) -> PyResult<Object<'py>> {
    if !["xy", "ij"].contains(&indexing) {
        return Err(exception(
            Kind::Value,
            format!("meshgrid: indexing is `xy` or `ij`, not `{indexing}`"),
        ));
    }
    let mut call = Call::new(arrays.py(), "meshgrid");
    let xs = call.take_all(arrays.as_any())?;
    let swapped = indexing == "xy";
    call.many(|| ops::meshgrid(&xs, swapped))
}

/// The tensor of a framework's own array.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn wrap<'py>(x: &Object<'py>) -> PyResult<Object<'py>> {
    match try_operand(x)? {
        Some(t) => give(x.py(), t.tensor, false),
        None => Err(exception(
            Kind::DType,
            format!("wrap: {} is no array", x.get_type()),
        )),
    }
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::plain_functions!(m; asarray from_dlpack wrap);
    crate::functions!(m;
        full full_like zeros zeros_like ones ones_like empty empty_like
        arange linspace eye tril triu meshgrid);
    m.add("array", m.getattr("asarray")?)?;
    Ok(())
}
