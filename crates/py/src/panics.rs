//! Panics as exceptions: a bug of ours raises `InternalError`, and the interpreter continues.
//!
//! PyO3 catches the panics of the functions and methods that it wraps, and raises a class of its own. That class is
//! patched here to create our exception instead, so that every entry point behaves alike.

use crate::error::exception;
use clematis_core::Kind;
use pyo3::exceptions::PyBaseException;
use pyo3::ffi::PyObject;
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyTuple};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Mutex;

/// The last panic: its message and location.
static LAST: Mutex<Option<(String, String)>> = Mutex::new(None);

const NAMELESS: &str = "a panic without a message";

thread_local! {
    /// The op that panicked.
    static OP: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Names the op that runs while this lives, for the message of a panic.
pub struct Running(pub &'static str);

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The innermost one is reported.
            OP.set(OP.get().or(Some(self.0)));
        }
    }
}

/// Runs a callback of C that returns an object: a panic becomes an exception.
#[inline(always)]
pub fn caught(f: impl FnOnce() -> *mut PyObject) -> *mut PyObject {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(out) => out,
        Err(payload) => raised(&*payload),
    }
}

/// Runs a callback of C that returns nothing and cannot fail: a panic is printed as Python prints errors in destructors.
pub fn noted(op: &'static str, f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        // Not after Python has been finalized.
        let _ = Python::try_attach(|py| {
            OP.set(Some(op));
            internal(&text(&*payload)).write_unraisable(py, None);
        });
    }
}

#[cold]
fn raised(payload: &(dyn Any + Send)) -> *mut PyObject {
    Python::attach(|py| internal(&text(payload)).restore(py));
    std::ptr::null_mut()
}

fn text(payload: &(dyn Any + Send)) -> String {
    match (
        payload.downcast_ref::<String>(),
        payload.downcast_ref::<&str>(),
    ) {
        (Some(text), _) => text.clone(),
        (None, Some(text)) => (*text).to_string(),
        (None, None) => NAMELESS.into(),
    }
}

/// The exception of a panic.
#[cold]
fn internal(message: &str) -> PyErr {
    let op = OP.take().unwrap_or("internal");
    let last = LAST.lock().unwrap_or_else(|e| e.into_inner()).take();
    let place = match last {
        Some((own, place)) if own == message => format!(" ({place})"),
        _ => String::new(),
    };
    exception(
        Kind::Internal,
        format!(
            "{op}: {message}{place}\n  note: this is a bug of Clematis; please report it, with the backtrace that \
             RUST_BACKTRACE=1 prints"
        ),
    )
}

/// Replaces the constructor of PyO3's panic class.
#[pyfunction]
#[pyo3(signature = (_class, *args))]
fn _panicked(_class: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> Py<PyAny> {
    let py = args.py();
    let Ok(given) = args.get_item(0) else {
        return internal(NAMELESS).into_value(py).into_any();
    };
    // Python calls this again with the exception, because it is no instance of the class.
    if given.is_instance_of::<PyBaseException>() {
        return given.unbind();
    }
    internal(&given.to_string()).into_value(py).into_any()
}

/// Panics, for tests.
#[pyfunction]
#[allow(clippy::panic)] // what it is for
fn _panic_for_tests(py: Python<'_>, place: &str, message: &str) -> PyResult<()> {
    match place {
        "function" => panic!("{message}"),
        "op" => {
            let _op = Running("add");
            panic!("{message}")
        }
        "detached" => py.detach(|| panic!("{message}")),
        "destructor" => noted("__dlpack__", || panic!("{message}")),
        _ => {
            let out = caught(|| panic!("{message}"));
            if out.is_null() {
                return Err(PyErr::fetch(py));
            }
        }
    }
    Ok(())
}

/// Whether the standard library prints panics with a backtrace.
fn is_wanted() -> bool {
    std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0")
}

/// Installs the panic hook and the exception class.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let last = Some((text(info.payload()), place));
        *LAST.lock().unwrap_or_else(|e| e.into_inner()) = last;
        if is_wanted() {
            print(info);
        }
    }));
    let class = m.py().get_type::<PanicException>();
    class.setattr("__new__", pyo3::wrap_pyfunction!(_panicked, m)?)?;
    crate::plain_functions!(m; _panic_for_tests);
    Ok(())
}
