//! A framework's failure as ours, with the exception kept.

use clematis_core::{Error, Kind, Op};
use pyo3::exceptions::{PyException, PyValueError};
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

/// What a framework raised while it ran an op, or Ctrl-C.
#[cold]
pub fn foreign(py: Python<'_>, framework: &str, op: &Op, exception: PyErr) -> Error {
    if !exception.is_instance_of::<PyException>(py) {
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

/// Something of a framework outside of ops that failed. Ctrl-C, which came while it ran, is no failure of it.
#[cold]
pub fn failed(py: Python<'_>, what: &str, exception: PyErr) -> Error {
    if !exception.is_instance_of::<PyException>(py) {
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
