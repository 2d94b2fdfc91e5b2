//! A framework's failure as ours, with the exception kept.

use clematis_core::{Error, Kind, Op, Result};
use pyo3::exceptions::{PyException, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use std::fmt;

/// A Python exception as the source of an error.
#[derive(Debug)]
pub struct Raised {
    /// What was raised.
    pub exception: PyErr,
    /// Whether it is the caller's own and is to be raised again as it is, rather than a framework's.
    pub own: bool,
}

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.exception.fmt(f)
    }
}
impl std::error::Error for Raised {}

/// Packages whose exceptions are failures of a framework. Exceptions of other classes come from the caller's own code.
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

/// Whether an exception is no failure of a framework: Ctrl-C, the timeout of a signal handler, an exception of a class that
/// the caller defined.
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

/// `None` where something failed that has another way; what is no failure of a framework is raised.
pub fn unless_failed<T>(py: Python<'_>, result: PyResult<T>) -> PyResult<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if is_own(py, &e) => Err(e),
        Err(_) => Ok(None),
    }
}

/// What a framework raised while it ran an op, or Ctrl-C.
#[cold]
pub fn foreign(py: Python<'_>, framework: &str, op: &Op, exception: PyErr) -> Error {
    if is_own(py, &exception) {
        return own(py, exception);
    }
    let text = exception.value(py).to_string();
    // Dialects refuse values in the words of the engine; that is no failure of the framework.
    let refused = exception.is_instance_of::<PyValueError>(py)
        && text
            .strip_prefix(op.name())
            .is_some_and(|rest| rest.starts_with(':'));
    let error = if refused {
        Error::new(Kind::Value, text)
    } else {
        let class = exception.get_type(py);
        Error::new(
            Kind::Foreign,
            format!("{}: {framework} raised {class}: {text}", op.name()),
        )
    };
    error.with_source(Raised {
        exception,
        own: false,
    })
}

/// What a framework raised in a call of its own function; whoever called names the function in its place.
#[cold]
pub fn raised_by(py: Python<'_>, framework: &str, exception: PyErr) -> Error {
    if is_own(py, &exception) {
        return own(py, exception);
    }
    let (class, text) = (exception.get_type(py), exception.value(py).to_string());
    let words = format!("{framework}: {framework} raised {class}: {text}");
    Error::new(Kind::Foreign, words).with_source(Raised {
        exception,
        own: false,
    })
}

/// Something of a framework outside of ops that failed. Ctrl-C, which came while it ran, is no failure of it.
#[cold]
pub fn failed(py: Python<'_>, what: &str, exception: PyErr) -> Error {
    if is_own(py, &exception) {
        return own(py, exception);
    }
    let text = exception.value(py).to_string();
    let class = exception.get_type(py);
    Error::new(Kind::Foreign, format!("{what}: {class}: {text}")).with_source(Raised {
        exception,
        own: false,
    })
}

/// An exception of the caller's own function, or of a signal, to be raised again as it is.
pub fn own(py: Python<'_>, exception: PyErr) -> Error {
    let text = exception.value(py).to_string();
    Error::new(Kind::Foreign, text).with_source(Raised {
        exception,
        own: true,
    })
}

/// Whether an error is an exception of the caller's own, or of a signal.
pub fn is_own_error(error: &Error) -> bool {
    std::error::Error::source(error)
        .and_then(|s| s.downcast_ref::<Raised>())
        .is_some_and(|raised| raised.own)
}

/// The same where the failure is an error of ours already.
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
