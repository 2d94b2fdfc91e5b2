//! Calling Python by vectorcall: the arguments stay on the stack, no tuple and no dict is made.
//!
//! PyO3 offers vectorcall from abi3-py312 on; libpython has exported the function since 3.9, so it is declared here and one wheel
//! serves 3.11 and later. The only file of the bridge with `unsafe`.
#![allow(unsafe_code)]

use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use smallvec::SmallVec;

unsafe extern "C" {
    fn PyObject_Vectorcall(
        callable: *mut PyObject,
        args: *const *mut PyObject,
        nargsf: usize,
        kwnames: *mut PyObject,
    ) -> *mut PyObject;
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

    /// Calls a function with them, the last of which go by these names.
    pub fn call_named(
        self,
        py: Python<'py>,
        f: &Py<PyAny>,
        names: Option<&Bound<'py, PyTuple>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let named = names.map_or(0, |names| names.len());
        let names = names.map_or(std::ptr::null_mut(), |names| names.as_ptr());
        let count = self.slots.len() - 1 - named;
        // SAFETY: as in `call`.
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
