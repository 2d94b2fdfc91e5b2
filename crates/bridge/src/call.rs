//! Calling Python by vectorcall: the arguments stay on the stack, no tuple and no dict is made; and counting owners.
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

/// Says that the slot before the first argument may be written to, which saves bound methods a copy.
const ARGUMENTS_OFFSET: usize = 1 << (usize::BITS - 1);

/// Keyword arguments, made once for an op's parameters.
pub struct Keywords {
    /// Their names.
    pub names: Py<PyTuple>,
    /// Their values, in the same order.
    pub values: Vec<Py<PyAny>>,
}

/// Calls a function with arguments by position; `None` where it refuses them with one of its framework's `REFUSALS`.
///
/// For calls that are made again in another way if they are refused. Everything else that is raised is an error: Ctrl-C
/// above all must not start the call again.
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

/// Raises an exception at the next line of Python of the main thread, for those who cannot raise it themselves.
#[cold]
pub fn raise_soon(py: Python<'_>, exception: PyErr) {
    extern "C" fn raise(held: *mut c_void) -> c_int {
        // SAFETY: Python calls this once, attached, with what was given below.
        unsafe {
            let py = Python::assume_attached();
            Box::from_raw(held.cast::<PyErr>()).restore(py);
        }
        -1
    }
    let held = Box::into_raw(Box::new(exception)).cast::<c_void>();
    // SAFETY: the function takes what it is given with it.
    unsafe {
        if pyo3::ffi::Py_AddPendingCall(Some(raise), held) != 0 {
            // Too many wait already.
            Box::from_raw(held.cast::<PyErr>()).write_unraisable(py, None);
        }
    }
}

/// Whether Python knows this thread; those that only compute for others must never wait for it.
#[inline]
pub fn is_python_thread() -> bool {
    // SAFETY: asks for a pointer that the thread keeps, which may be done at any time.
    unsafe { !pyo3::ffi::PyGILState_GetThisThreadState().is_null() }
}

/// Whether this is an interpreter beside the main one: what is static here would be shared between them.
pub fn is_second_interpreter() -> bool {
    // SAFETY: an interpreter is attached, as whenever a module is imported.
    unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) != 0 }
}

/// Runs long work without holding the interpreter, if this thread holds it.
pub fn released(work: &mut dyn FnMut()) {
    struct Alone<'a>(&'a mut dyn FnMut());
    // SAFETY: it does not leave the thread; that nothing of Python is used meanwhile is what its giver says.
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

/// Whether an object has one owner.
pub fn is_held_once(x: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the interpreter is attached, and the object alive, as `x` says; its count is only read.
    unsafe { pyo3::ffi::Py_REFCNT(x.as_ptr()) == 1 }
}

/// The arguments of one call, borrowed from whoever owns them.
pub struct Arguments<'a, 'py> {
    slots: SmallVec<[*mut PyObject; 10]>,
    borrowed: std::marker::PhantomData<&'a Bound<'py, PyAny>>,
}

impl<'a, 'py> Arguments<'a, 'py> {
    /// None yet.
    pub fn new() -> Self {
        let mut slots = SmallVec::new();
        slots.push(std::ptr::null_mut());
        Arguments {
            slots,
            borrowed: std::marker::PhantomData,
        }
    }

    /// One more.
    pub fn push(&mut self, x: &'a Py<PyAny>) {
        self.slots.push(x.as_ptr());
    }

    /// One more, that lives in this call.
    pub fn push_bound(&mut self, x: &'a Bound<'py, PyAny>) {
        self.slots.push(x.as_ptr());
    }

    /// Calls a function with them, and with keywords.
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
