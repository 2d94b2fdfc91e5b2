//! Calls Python by vectorcall, without allocating a tuple or a dict; reads reference counts.
//!
//! PyO3 offers vectorcall from abi3-py312 on; libpython has exported the function since 3.9, so it is declared here and one wheel
//! serves 3.11 and later.
#![allow(unsafe_code)]

use crate::error::raised_by;
use crate::load::Loaded;
use clematis_core::Result;
use pyo3::Borrowed;
use pyo3::exceptions::PyRecursionError;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;
use std::ffi::{c_int, c_void};

unsafe extern "C" {
    fn PyObject_Vectorcall(
        callable: *mut PyObject,
        args: *const *mut PyObject,
        nargsf: usize,
        kwnames: *mut PyObject,
    ) -> *mut PyObject;

    /// Whether this thread holds the interpreter; exported by every CPython, if not part of the stable interface.
    fn PyGILState_Check() -> c_int;
}

/// The callee may write to the slot before the first argument, which saves bound methods a copy.
const ARGUMENTS_OFFSET: usize = 1 << (usize::BITS - 1);

/// Keyword arguments, built once per parameters of an op.
pub struct Keywords {
    /// Their names.
    pub names: Py<PyTuple>,
    /// Their values, in the same order.
    pub values: Vec<Py<PyAny>>,
}

/// Calls a function with arguments by position; `None` where it refuses them with one of its framework's `REFUSALS`.
///
/// For calls with a fallback. Any other exception is an error: Ctrl-C above all must not start the fallback.
#[inline(always)]
pub fn attempt<'py>(
    py: Python<'py>,
    loaded: &Loaded,
    f: &Py<PyAny>,
    arguments: &[Borrowed<'_, 'py, PyAny>],
) -> Result<Option<Bound<'py, PyAny>>> {
    // SAFETY: the interpreter is attached (`py`); a borrowed object is a pointer and nothing else, and outlives the call.
    unsafe {
        let slots = arguments.as_ptr().cast::<*mut PyObject>();
        let out = PyObject_Vectorcall(f.as_ptr(), slots, arguments.len(), std::ptr::null_mut());
        if out.is_null() {
            return refused(loaded, PyErr::fetch(py), py);
        }
        Ok(Some(Bound::from_owned_ptr(py, out)))
    }
}

/// `None` if an exception is a refusal of arguments by the framework.
#[cold]
#[inline(never)]
pub fn refused<T>(loaded: &Loaded, raised: PyErr, py: Python<'_>) -> Result<Option<T>> {
    let refusals = loaded.refusals.bind(py);
    // A RecursionError is a RuntimeError, which is how torch refuses arguments.
    if raised.is_instance(py, refusals) && !raised.is_instance_of::<PyRecursionError>(py) {
        return Ok(None);
    }
    Err(raised_by(py, loaded.name, raised))
}

/// Raises an exception in the main thread at its next bytecode, for callers that cannot return an error.
#[cold]
pub fn raise_soon(py: Python<'_>, exception: PyErr) {
    extern "C" fn raise(held: *mut c_void) -> c_int {
        // SAFETY: Python calls this once, attached, with the pointer passed below.
        unsafe {
            let py = Python::assume_attached();
            Box::from_raw(held.cast::<PyErr>()).restore(py);
        }
        -1
    }
    let held = Box::into_raw(Box::new(exception)).cast::<c_void>();
    // SAFETY: the function takes ownership of its argument.
    unsafe {
        if pyo3::ffi::Py_AddPendingCall(Some(raise), held) != 0 {
            // The queue of pending calls is full.
            Box::from_raw(held.cast::<PyErr>()).write_unraisable(py, None);
        }
    }
}

/// Whether Python knows this thread; worker threads must never wait for the interpreter.
#[inline]
pub fn is_python_thread() -> bool {
    // SAFETY: asks for a pointer that the thread keeps, which may be done at any time.
    unsafe { !pyo3::ffi::PyGILState_GetThisThreadState().is_null() }
}

/// Whether this is a subinterpreter: statics would be shared between interpreters.
pub fn is_second_interpreter() -> bool {
    // SAFETY: an interpreter is attached, as whenever a module is imported.
    unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) != 0 }
}

/// Releases the interpreter while long work runs, if this thread holds it.
pub fn released(work: &mut dyn FnMut()) {
    struct Alone<'a>(&'a mut dyn FnMut());
    // SAFETY: it stays on this thread; the caller promises that it uses no Python object.
    unsafe impl Send for Alone<'_> {}
    // SAFETY: the function may be called at any time by a thread that Python knows.
    if !is_python_thread() || unsafe { PyGILState_Check() } == 0 {
        return work();
    }
    let alone = Alone(work);
    Python::attach(|py| {
        py.detach(move || {
            let Alone(work) = { alone };
            work();
        });
    });
}

/// Whether an object's reference count is one.
pub fn is_held_once(x: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the interpreter is attached, and the object alive, as `x` says; its count is only read.
    unsafe { pyo3::ffi::Py_REFCNT(x.as_ptr()) == 1 }
}

/// The borrowed arguments of one call.
pub struct Arguments<'a, 'py> {
    slots: SmallVec<[*mut PyObject; 10]>,
    borrowed: std::marker::PhantomData<&'a Bound<'py, PyAny>>,
}

impl<'a, 'py> Arguments<'a, 'py> {
    /// No arguments.
    pub fn new() -> Self {
        let mut slots = SmallVec::new();
        slots.push(std::ptr::null_mut());
        Arguments {
            slots,
            borrowed: std::marker::PhantomData,
        }
    }

    /// Adds an argument.
    pub fn push(&mut self, x: &'a Py<PyAny>) {
        self.slots.push(x.as_ptr());
    }

    /// Adds an argument that this object keeps alive.
    pub fn push_bound(&mut self, x: &'a Bound<'py, PyAny>) {
        self.slots.push(x.as_ptr());
    }

    /// Calls a function with these arguments and with keywords.
    pub fn call(
        mut self,
        py: Python<'py>,
        f: &Py<PyAny>,
        keywords: Option<&Keywords>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let count = self.slots.len() - 1;
        let names = match keywords {
            Some(k) => {
                self.slots.extend(k.values.iter().map(|v| v.as_ptr()));
                k.names.as_ptr()
            }
            None => std::ptr::null_mut(),
        };
        // SAFETY: the interpreter is attached (`py`); every slot but the first holds a borrowed reference that outlives the
        // call by the lifetimes of `push`; the first slot is ours to be overwritten, as the flag says; `names` is a tuple
        // of as many strings as there are values behind the positional arguments.
        unsafe {
            let result = PyObject_Vectorcall(
                f.as_ptr(),
                self.slots.as_ptr().add(1),
                count | ARGUMENTS_OFFSET,
                names,
            );
            Bound::from_owned_ptr_or_err(py, result)
        }
    }
}

impl Default for Arguments<'_, '_> {
    fn default() -> Self {
        Arguments::new()
    }
}
