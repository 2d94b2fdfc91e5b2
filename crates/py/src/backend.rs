//! Backends by name: list, select, register.

use crate::args::find;
use crate::error::OrRaise;
use clematis_bridge::Framework;
use clematis_bridge::error::{own, unless_error};
use clematis_bridge::is_python_thread;
use clematis_core::Backend;
use clematis_core::backend as core;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

type Object<'py> = Bound<'py, PyAny>;

/// Names of the installed backends; none is imported.
///
///     >>> "native" in cm.backends()
///     True
#[pyfunction]
fn backends(py: Python<'_>) -> PyResult<Vec<&'static str>> {
    let mut names = Vec::new();
    for name in core::all().iter().map(|b| b.name()) {
        if Framework::find(name).map_or(Ok(true), |f| f.is_installed(py))? {
            names.push(name);
        }
    }
    Ok(names)
}

/// Sets the default backend of new tensors, for the whole process.
#[pyfunction]
#[pyo3(signature = (name, /))]
fn set_backend(py: Python<'_>, name: &str) -> PyResult<()> {
    let found = ready(py, name)?;
    core::set_default(found);
    Ok(())
}

/// Name of the backend that new tensors are created on.
///
///     >>> cm.current_backend()
///     'native'
#[pyfunction]
fn current_backend() -> PyResult<&'static str> {
    Ok(core::current().or_raise()?.name())
}

/// Finds a backend that is installed and can be loaded.
fn ready(py: Python<'_>, name: &str) -> PyResult<&'static dyn Backend> {
    let found = find(name)?;
    if let Some(framework) = Framework::find(name) {
        framework.loaded(py).or_raise()?;
    }
    Ok(found)
}

/// Context manager that sets the backend of new tensors, in this thread or task: `with backend("torch"):`.
///
///     >>> with cm.backend("numpy"):
///     ...     cm.ones(2)
///     Tensor([1.0, 1.0], float32, numpy)
#[pyclass(frozen, name = "backend", module = "clematis")]
struct Scope {
    name: String,
}

/// The value of the context variable: the innermost open scope.
#[pyclass(frozen)]
struct Open {
    backend: &'static dyn Backend,
    /// The number of open scopes of the core when it was opened, and its thread.
    depth: usize,
    thread: ThreadId,
    /// The previous value of the variable.
    outer: Py<PyAny>,
}

/// The context variable, its method `get`, and whether any scope was ever opened.
static VARIABLE: PyOnceLock<(Py<PyAny>, Py<PyAny>)> = PyOnceLock::new();
static IS_USED: AtomicBool = AtomicBool::new(false);

fn variable(py: Python<'_>) -> PyResult<&(Py<PyAny>, Py<PyAny>)> {
    VARIABLE.get_or_try_init(py, || {
        let keywords = PyDict::new(py);
        keywords.set_item("default", py.None())?;
        let class = py.import("contextvars")?.getattr("ContextVar")?;
        let variable = class.call(("clematis_backend",), Some(&keywords))?;
        let get = variable.getattr("get")?;
        Ok((variable.unbind(), get.unbind()))
    })
}

/// A backend and the number of open scopes of the core when its scope was opened.
type Found = Option<(&'static dyn Backend, usize)>;

thread_local! {
    /// The scope found before the GIL was released: a new lookup would have to wait for the GIL.
    static KNOWN: Cell<Option<Found>> = const { Cell::new(None) };
}

/// Sets the scope for as long as it lives.
struct Knowing(Option<Found>);

impl Knowing {
    fn new(known: Option<Found>) -> Self {
        Knowing(KNOWN.replace(known))
    }
}

impl Drop for Knowing {
    fn drop(&mut self) {
        KNOWN.set(self.0);
    }
}

/// Runs a computation without the GIL, so that other Python threads run meanwhile.
pub fn detached<R: Send>(py: Python<'_>, f: impl FnOnce() -> R + Send) -> R {
    let found = innermost();
    py.detach(|| {
        let _knowing = Knowing::new(Some(found));
        f()
    })
}

/// The same for the engine, which does not depend on Python.
pub fn released(work: &mut dyn FnMut()) {
    let found = innermost();
    clematis_bridge::released(&mut || {
        let _knowing = Knowing::new(Some(found));
        work();
    });
}

/// Runs signal handlers, which may open scopes of their own, if the interpreter is attached.
pub fn check_signals() -> clematis_core::Result<()> {
    // Worker threads would deadlock with a thread that waits for them.
    if !is_python_thread() {
        return Ok(());
    }
    let _knowing = Knowing::new(None);
    let asked = Python::try_attach(|py| py.check_signals().map_err(|e| own(py, e)));
    asked.unwrap_or(Ok(()))
}

/// The open scope of this thread or task, for the core.
fn innermost() -> Found {
    if let Some(known) = KNOWN.get() {
        return known;
    }
    // Threads that Python does not know have no context, and must not wait for Python.
    if !IS_USED.load(Ordering::Relaxed) || !is_python_thread() {
        return None;
    }
    Python::attach(|py| {
        let (_, get) = variable(py).ok()?;
        let open = get.bind(py).call0().ok()?;
        let open = open.cast::<Open>().ok()?.get();
        // A context that was copied to another thread is below every scope there.
        let depth = if open.thread == current_thread() {
            open.depth
        } else {
            0
        };
        Some((open.backend, depth))
    })
}

fn current_thread() -> ThreadId {
    thread_local! {
        static ID: ThreadId = std::thread::current().id();
    }
    ID.with(|id| *id)
}

#[pymethods]
impl Scope {
    #[new]
    fn new(py: Python<'_>, name: &str) -> PyResult<Self> {
        ready(py, name)?;
        Ok(Scope { name: name.into() })
    }

    fn __enter__(slf: &Bound<'_, Self>) -> PyResult<Py<Self>> {
        let py = slf.py();
        // Python runs again inside a computation that released the GIL.
        KNOWN.set(None);
        let (variable, get) = variable(py)?;
        let open = Open {
            backend: find(&slf.get().name)?,
            depth: core::open_scopes(),
            thread: current_thread(),
            outer: get.call0(py)?,
        };
        variable.call_method1(py, "set", (open,))?;
        IS_USED.store(true, Ordering::Relaxed);
        Ok(slf.clone().unbind())
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Object<'_>) -> PyResult<bool> {
        let (variable, get) = variable(py)?;
        // Nothing is restored if a block is left in another context than it was entered in.
        if let Ok(open) = get.bind(py).call0()?.cast::<Open>() {
            variable.call_method1(py, "set", (&open.get().outer,))?;
        }
        Ok(false)
    }

    fn __repr__(&self) -> String {
        format!("clematis.backend({:?})", self.name)
    }
}

/// Registers a backend: a module of functions named after the ops.
#[pyfunction]
#[pyo3(signature = (name, module, /))]
fn register_backend(name: &str, module: &Bound<'_, PyModule>) -> PyResult<()> {
    clematis_bridge::register(name, module).or_raise()
}

/// Describes each backend: name, version, description, and why it cannot be used if so.
#[pyfunction]
fn _backend_facts(py: Python<'_>) -> PyResult<Vec<Fact>> {
    let fact = |b: &&'static dyn Backend| -> PyResult<Fact> {
        let loaded = Framework::find(b.name()).map(|f| f.loaded(py).map(|_| ()));
        let why = loaded.and_then(Result::err);
        let (version, why) = match why {
            None => (b.version(), None),
            Some(e) => {
                let text = e.to_string();
                // Ctrl-C during loading is raised.
                unless_error(py, Err::<(), _>(e))?;
                (String::new(), Some(text))
            }
        };
        Ok((b.name().to_string(), version, b.about(), why))
    };
    core::all().iter().map(fact).collect()
}

/// Name, version, description, and why it cannot be used.
type Fact = (String, String, String, Option<String>);

/// The environment variable that names the default backend.
const ENVIRONMENT: &str = "CLEMATIS_BACKEND";

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    // Not loaded here: importing clematis imports no framework.
    if let Some(name) = std::env::var_os(ENVIRONMENT).filter(|name| !name.is_empty()) {
        core::set_default(find(&name.to_string_lossy())?);
    }
    core::set_outer(innermost);
    m.add_class::<Scope>()?;
    crate::plain_functions!(m; backends set_backend current_backend register_backend _backend_facts);
    Ok(())
}
