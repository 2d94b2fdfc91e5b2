//! Reads NumPy arrays through `PyArrayObject`, whose layout is part of NumPy's ABI, which every extension compiled against
//! relies on.
#![allow(unsafe_code)]

use super::{Dtypes, Reader, own_dtype, slice};
use clematis_core::DType;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::ffi::{c_int, c_void};

/// The first fields of NumPy's array (`PyArrayObject_fields`).
#[repr(C)]
struct Structure {
    head: ffi::PyObject,
    data: *mut c_void,
    rank: c_int,
    sizes: *const i64,
    strides: *const i64,
    base: *mut PyObject,
    dtype: *mut PyObject,
    flags: c_int,
}

/// Calls `f` with the dtype object and sizes; `f` must not run Python.
#[inline]
pub(super) fn read<R>(
    dtypes: &Dtypes,
    x: &Bound<'_, PyAny>,
    f: impl Fn(DType, &[i64]) -> R,
) -> Option<R> {
    // SAFETY: `find` gives this reader to numpy's own class alone, after a trial; numpy holds `rank` sizes there for as long as the array lives, and nobody runs meanwhile.
    unsafe {
        let own = &*x.as_ptr().cast::<Structure>();
        let dtype = own_dtype(dtypes, own.dtype)?;
        Some(f(dtype, slice(own.sizes, own.rank)?))
    }
}

/// The reader, if a test array reads as expected.
pub(super) fn find(class: &Bound<'_, PyType>, dtypes: &Dtypes) -> PyResult<Reader> {
    let size: usize = class.getattr("__basicsize__")?.extract()?;
    let Some(dtype) = &dtypes[DType::F32 as usize] else {
        return Ok(Reader::None);
    };
    let trial = class.call1(((2, 3), dtype))?;
    if size < size_of::<Structure>() || !trial.get_type().is(class) {
        return Ok(Reader::None);
    }
    if size_of::<isize>() != size_of::<i64>() {
        return Ok(Reader::None);
    }
    // SAFETY: the object is at least as long as what is read of it; the sizes are followed only where the rank is right.
    let fits = unsafe {
        let own = trial.as_ptr().cast::<Structure>();
        (*own).dtype == dtype.as_ptr()
            && (*own).rank == 2
            && *(*own).sizes == 2
            && *(*own).sizes.add(1) == 3
    };
    Ok(if fits {
        Reader::Structure
    } else {
        Reader::None
    })
}
