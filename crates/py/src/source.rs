//! Export of programs as framework source code, and module scopes during a trace.

use crate::error::OrRaise;
use crate::transform::Object;
use clematis_core::trace::scope;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule, PyTuple};

/// Writes a program as source code; request and answer are JSON.
#[pyfunction]
fn _write_source(request: &str) -> PyResult<String> {
    clematis_convert::source::write(request).or_raise()
}

/// A Python string literal, on one line, whose value is the text.
#[pyfunction]
fn _python_string(text: &str) -> String {
    clematis_convert::literal::python_string(text)
}

/// Calls `function(*args, **words)` in a named scope: ops that are recorded meanwhile get its path.
#[pyfunction]
fn _in_scope<'py>(
    name: &str,
    function: &Object<'py>,
    args: &Bound<'py, PyTuple>,
    words: &Bound<'py, PyDict>,
) -> PyResult<Object<'py>> {
    scope(name, || Ok(function.call(args, Some(words)))).or_raise()?
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_write_source, m)?)?;
    m.add_function(wrap_pyfunction!(_python_string, m)?)?;
    m.add_function(wrap_pyfunction!(_in_scope, m)?)
}
