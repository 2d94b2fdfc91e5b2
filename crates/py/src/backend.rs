//! Backends by name: listing, choosing, adding.

use crate::args::find;
use crate::error::OrRaise;
use clematis_bridge::Framework;
use clematis_core::backend as core;
use pyo3::prelude::*;
use pyo3::types::PyModule;
use std::cell::RefCell;

type Object<'py> = Bound<'py, PyAny>;

/// The names of the backends that are installed; none is imported for it.
///
///     >>> "native" in cm.backends()
///     True
#[pyfunction]
fn backends(py: Python<'_>) -> Vec<&'static str> {
    core::all()
        .iter()
        .map(|b| b.name())
        .filter(|name| Framework::find(name).is_none_or(|f| f.is_installed(py)))
        .collect()
}

/// Makes new tensors on this backend from now on, in the whole process.
#[pyfunction]
#[pyo3(signature = (name, /))]
fn set_backend(py: Python<'_>, name: &str) -> PyResult<()> {
    let found = ready(py, name)?;
    core::set_default(found);
    Ok(())
}

/// The name of the backend that new tensors are made on.
///
///     >>> cm.current_backend()
///     'native'
#[pyfunction]
fn current_backend() -> PyResult<&'static str> {
    Ok(core::current().or_raise()?.name())
}

/// A backend that is there and loads.
fn ready(py: Python<'_>, name: &str) -> PyResult<&'static dyn clematis_core::Backend> {
    let found = find(name)?;
    if let Some(framework) = Framework::find(name) {
        framework.loaded(py).or_raise()?;
    }
    Ok(found)
}

/// `with backend("torch"):` makes new tensors there.
///
///     >>> with cm.backend("numpy"):
///     ...     cm.ones(2)
///     Tensor([1.0, 1.0], float32, numpy)
#[pyclass(frozen, name = "backend", module = "clematis")]
struct Scope {
    name: String,
}

thread_local! {
    /// The scopes that are open on this thread.
    static OPEN: RefCell<Vec<core::Scope>> = const { RefCell::new(Vec::new()) };
}

#[pymethods]
impl Scope {
    #[new]
    fn new(py: Python<'_>, name: &str) -> PyResult<Self> {
        ready(py, name)?;
        Ok(Scope { name: name.into() })
    }

    fn __enter__(slf: &Bound<'_, Self>) -> PyResult<Py<Self>> {
        let scope = core::enter(find(&slf.get().name)?);
        OPEN.with_borrow_mut(|open| open.push(scope));
        Ok(slf.clone().unbind())
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Object<'_>) -> bool {
        OPEN.with_borrow_mut(Vec::pop);
        false
    }

    fn __repr__(&self) -> String {
        format!("clematis.backend({:?})", self.name)
    }
}

/// Makes a backend of a module of functions named after the ops.
#[pyfunction]
#[pyo3(signature = (name, module, /))]
fn register_backend(name: &str, module: &Bound<'_, PyModule>) -> PyResult<()> {
    clematis_bridge::register(name, module).or_raise()
}

/// What each backend is: name, version, what it says of itself, and why it cannot be used if so.
#[pyfunction]
fn _backend_facts(py: Python<'_>) -> Vec<(String, String, String, Option<String>)> {
    core::all()
        .iter()
        .map(|b| {
            let why = Framework::find(b.name())
                .and_then(|f| f.loaded(py).err())
                .map(|e| e.to_string());
            let version = if why.is_none() {
                b.version()
            } else {
                String::new()
            };
            (b.name().to_string(), version, b.about(), why)
        })
        .collect()
}

/// The variable that names the backend on which new tensors are made.
const VARIABLE: &str = "CLEMATIS_BACKEND";

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    // Not loaded here: importing us imports no framework.
    if let Some(name) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
        core::set_default(find(&name.to_string_lossy())?);
    }
    m.add_class::<Scope>()?;
    crate::plain_functions!(m; backends set_backend current_backend register_backend _backend_facts);
    Ok(())
}
