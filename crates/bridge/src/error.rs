//! Converts framework exceptions to errors that keep the exception.

use clematis_core::{Error, Kind, Op, Result};
use pyo3::exceptions::{PyException, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use std::fmt;

/// A Python exception as the source of an error.
#[derive(Debug)]
pub struct Raised {
    /// The exception.
    pub exception: PyErr,
    /// Whether the caller's own code raised it, so that it is raised again unchanged.
    pub own: bool,
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.exception.fmt(f)
    }
}
impl std::error::Error for Raised {}

/// Packages whose exceptions are framework failures. Exceptions of other classes come from the caller's own code.
const PACKAGES: [&str; 16] = [
    "builtins",
    "numpy",
    "ml_dtypes",
    "scipy",
    "torch",
    "torchgen",
    "functorch",
    "sympy",
    "triton",
    "jax",
    "jaxlib",
    "opt_einsum",
    "tensorflow",
    "keras",
    "absl",
    "google",
];

/// Whether an exception is not a framework failure: Ctrl-C, the timeout of a signal handler, an exception class defined by
/// the caller.
pub fn is_own(py: Python<'_>, exception: &PyErr) -> bool {
    if !exception.is_instance_of::<PyException>(py)
        || exception.is_instance_of::<PyTimeoutError>(py)
    {
        return true;
    }
    let module = exception.get_type(py).module();
    let Ok(module) = module.map(|m| m.to_string_lossy().into_owned()) else {
        return false;
    };
    let root = module.split('.').next().unwrap_or_default();
    !PACKAGES.contains(&root)
}

/// `None` after a framework failure, for calls with a fallback; other exceptions are returned as errors.
pub fn unless_failed<T>(py: Python<'_>, result: PyResult<T>) -> PyResult<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if is_own(py, &e) => Err(e),
        Err(_) => Ok(None),
    }
}

/// The error for an exception raised while a framework ran an op.
#[cold]
pub fn foreign(py: Python<'_>, framework: &str, op: &Op, exception: PyErr) -> Error {
    if is_own(py, &exception) {
        return own(py, exception);
    }
    let text = exception.value(py).to_string();
    // Dialects check values themselves, with the engine's messages; that is not a framework failure.
    let refused = exception.is_instance_of::<PyValueError>(py)
        && text
            .strip_prefix(op.name())
            .is_some_and(|rest| rest.starts_with(':'));
    let error = if refused {
        Error::new(Kind::Value, text)
    } else {
        let class = exception.get_type(py);
        Error::new(
            Kind::Framework,
            format!("{}: {framework} raised {class}: {text}", op.name()),
        )
    };
    error.with_source(Raised {
        exception,
        own: false,
    })
}

/// The error for an exception raised by a framework's own function; the caller fills in the function's name.
#[cold]
pub fn raised_by(py: Python<'_>, framework: &str, exception: PyErr) -> Error {
    if is_own(py, &exception) {
        return own(py, exception);
    }
    let (class, text) = (exception.get_type(py), exception.value(py).to_string());
    let words = format!("{framework}: {framework} raised {class}: {text}");
    Error::new(Kind::Framework, words).with_source(Raised {
        exception,
        own: false,
    })
}

/// The error for a framework failure outside ops. Ctrl-C is not a framework failure.
#[cold]
pub fn failed(py: Python<'_>, what: &str, exception: PyErr) -> Error {
    if is_own(py, &exception) {
        return own(py, exception);
    }
    let text = exception.value(py).to_string();
    let class = exception.get_type(py);
    Error::new(Kind::Framework, format!("{what}: {class}: {text}")).with_source(Raised {
        exception,
        own: false,
    })
}

/// The error for an exception of the caller's function or of a signal, to be raised again unchanged.
pub fn own(py: Python<'_>, exception: PyErr) -> Error {
    let text = exception.value(py).to_string();
    Error::new(Kind::Framework, text).with_source(Raised {
        exception,
        own: true,
    })
}

/// Whether an error holds an exception of the caller's function or of a signal.
pub fn is_own_error(error: &Error) -> bool {
    std::error::Error::source(error)
        .and_then(|s| s.downcast_ref::<Raised>())
        .is_some_and(|raised| raised.own)
}

/// `unless_failed` for our own error type.
pub fn unless_error<T>(py: Python<'_>, result: Result<T>) -> PyResult<Option<T>> {
    let error = match result {
        Ok(value) => return Ok(Some(value)),
        Err(error) => error,
    };
    let source = std::error::Error::source(&error).and_then(|s| s.downcast_ref::<Raised>());
    match source {
        Some(raised) if raised.own => Err(raised.exception.clone_ref(py)),
        _ => Ok(None),
    }
}
