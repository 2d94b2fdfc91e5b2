//! Library functions as methods of tensors and pytrees.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};

type Object<'py> = Bound<'py, PyAny>;

/// The functions that tensors have as methods, by name.
static METHODS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

/// Registers a function as a method. The first of a name wins: some functions of `linalg` are in the main namespace too.
pub fn note_method(py: Python<'_>, name: &str, function: &Object<'_>) -> PyResult<()> {
    let methods = METHODS
        .get_or_init(py, || PyDict::new(py).unbind())
        .bind(py);
    if !methods.contains(name)? {
        methods.set_item(name, function)?;
    }
    Ok(())
}

/// A function bound to a tensor.
pub fn method<'py>(x: &Object<'py>, name: &Bound<'py, PyString>) -> PyResult<Object<'py>> {
    let py = x.py();
    let found = match METHODS.get(py) {
        Some(methods) => methods.bind(py).get_item(name)?,
        None => None,
    };
    let Some(function) = found else {
        return Err(pyo3::exceptions::PyAttributeError::new_err(format!(
            "'Tensor' object has no attribute '{name}'"
        )));
    };
    let word = name.to_string_lossy();
    if let Some(keyword) = method_keyword(&word) {
        let keywords = PyDict::new(py);
        keywords.set_item(keyword, x)?;
        let partial = py.import("functools")?.getattr("partial")?;
        return partial.call((function,), Some(&keywords));
    }
    let class = py.import("types")?.getattr("MethodType")?;
    class.call1((function, x))
}

/// The keyword argument that receives the tensor in methods of these functions, which take no array by position.
fn method_keyword(name: &str) -> Option<&'static str> {
    match name {
        "random_uniform" => Some("low"),
        "random_normal" => Some("mean"),
        "multinomial" => Some("probs"),
        _ => None,
    }
}

/// A library function bound to a pytree as a method on its leaves.
#[pyfunction]
#[pyo3(signature = (x, name, /))]
pub fn _method<'py>(x: &Object<'py>, name: &Bound<'py, PyString>) -> PyResult<Object<'py>> {
    method(x, name)
}
