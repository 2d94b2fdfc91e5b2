//! Operands that are pytrees, which `tree_map` flattens: how they are recognized, and the exception that reports one.

use crate::error::OrRaise;
use crate::pytree_node::{DEPTH, is_container, is_protocol, too_deep};
use crate::tensor::PyTensor;
use clematis_bridge::array;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple, PyType};
use std::sync::atomic::{AtomicPtr, Ordering};

type Object<'py> = Bound<'py, PyAny>;

/// The exception class. Null until one is raised.
static PYTREE_ERROR: AtomicPtr<PyObject> = AtomicPtr::new(std::ptr::null_mut());

/// The class of `pytree_error`'s exceptions; null if there was none yet.
pub fn pytree_error_class() -> *mut PyObject {
    PYTREE_ERROR.load(Ordering::Acquire)
}

/// The exception that reports a pytree operand.
#[cold]
pub fn pytree_error(op: &str, x: &Object<'_>) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = x.py();
    let made = || -> PyResult<PyErr> {
        let class = match CLASS.get(py) {
            Some(class) => class.bind(py),
            None => {
                let class = CLASS.import(py, "clematis.errors", "_PytreeError")?;
                PYTREE_ERROR.store(class.clone().into_ptr(), Ordering::Release);
                class
            }
        };
        let kind = x.get_type();
        let message = format!("{op}: an array was expected, not {}", kind.name()?);
        Ok(PyErr::from_value(class.call1((message,))?))
    };
    made().unwrap_or_else(|e| e)
}

/// Whether an operand is a pytree: a dict, a dataclass, a registered object, or a list with an array somewhere inside.
pub fn is_pytree(x: &Object<'_>) -> PyResult<bool> {
    holds_arrays(x, 0)
}

fn holds_arrays(x: &Object<'_>, depth: usize) -> PyResult<bool> {
    if depth > DEPTH {
        return Err(too_deep("tree", false));
    }
    if x.is_instance_of::<PyTensor>() {
        return Ok(false);
    }
    let Some(items) = items(x) else {
        return Ok(is_container(x)? && !is_protocol(x)?);
    };
    for item in items {
        if is_array(&item)? || holds_arrays(&item, depth + 1)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_array(x: &Object<'_>) -> PyResult<bool> {
    Ok(x.is_instance_of::<PyTensor>() || array::framework_of(x).or_raise()?.is_some())
}

/// The items of a list or tuple; `None` for anything else.
pub fn items<'py>(x: &Object<'py>) -> Option<Vec<Object<'py>>> {
    if let Ok(list) = x.cast::<PyList>() {
        return Some(list.iter().collect());
    }
    let tuple = x.cast::<PyTuple>().ok()?;
    Some(tuple.iter().collect())
}
