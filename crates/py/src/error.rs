//! Errors as Python exceptions: one class per error kind; each is also a subclass of the builtin it resembles.

use clematis_bridge::error::Raised;
use clematis_core::{Error, Kind};
use pyo3::exceptions::{PyAttributeError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::error::Error as _;

static MODULE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

const fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Shape => "ShapeError",
        Kind::DType => "DTypeError",
        Kind::Index => "AxisError",
        Kind::Value => "ArgumentError",
        Kind::Backend => "BackendError",
        Kind::Unsupported => "UnsupportedError",
        Kind::Diff => "DiffError",
        Kind::Structure => "StructureError",
        Kind::Trace => "TraceError",
        Kind::Convert => "ConvertError",
        Kind::Io => "CheckpointError",
        Kind::Framework => "FrameworkError",
        Kind::Internal => "InternalError",
    }
}

/// Converts an error to a Python exception; an exception of a framework is its cause.
#[cold]
pub fn raise(error: Error) -> PyErr {
    Python::attach(|py| {
        let source = error.source().and_then(|s| s.downcast_ref::<Raised>());
        if let Some(raised) = source
            && raised.own
        {
            return raised.exception.clone_ref(py);
        }
        let made = || -> PyResult<PyErr> {
            let module = MODULE
                .get_or_try_init(py, || Ok::<_, PyErr>(py.import("clematis.errors")?.into()))?;
            let class = module
                .bind(py)
                .getattr(class(error.kind()))?
                .cast_into::<PyType>()?;
            let exception = PyErr::from_value(class.call1((error.to_string(),))?);
            if let Some(raised) = source {
                exception.set_cause(py, Some(raised.exception.clone_ref(py)));
            }
            Ok(exception)
        };
        made().unwrap_or_else(|e| e)
    })
}

/// `?` for results of the core.
pub trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for clematis_core::Result<T> {
    #[inline]
    fn or_raise(self) -> PyResult<T> {
        self.map_err(raise)
    }
}

/// An exception of this kind.
#[cold]
pub fn exception(kind: Kind, message: impl Into<String>) -> PyErr {
    raise(Error::new(kind, message))
}

/// Replaces an exception that rejects an argument, for its type or its value. Exceptions of the user's own code, and
/// Ctrl-C, are kept.
pub fn instead(py: Python<'_>, raised: PyErr, made: impl FnOnce() -> PyErr) -> PyErr {
    let is_refusal = raised.is_instance_of::<PyTypeError>(py)
        || raised.is_instance_of::<PyAttributeError>(py)
        || raised.is_instance_of::<PyOverflowError>(py)
        || raised.is_instance_of::<PyValueError>(py);
    if is_refusal { made() } else { raised }
}
