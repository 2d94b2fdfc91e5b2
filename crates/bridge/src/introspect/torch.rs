//! Reads torch tensors through torch's C exchange table (`__dlpack_c_exchange_api__`, part of DLPack), which fills in dtype
//! and sizes. Where it cannot (tensors without memory, older versions), the
//! attributes are read.
#![allow(unsafe_code)]

use super::{Dtypes, Reader, own_dtype, shape, slice};
use clematis_core::{DType, Spec};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many reads use attributes after the table failed: a failure is slow, and torch's transforms wrap every tensor.
const PAUSE: u32 = 512;

static PAUSED: AtomicU32 = AtomicU32::new(0);

type Fill = unsafe extern "C" fn(*mut c_void, *mut Described) -> c_int;

/// `DLTensor`.
#[repr(C)]
struct Described {
    data: *mut c_void,
    device: (i32, i32),
    rank: i32,
    kind: u8,
    bits: u8,
    lanes: u16,
    sizes: *const i64,
    strides: *const i64,
    offset: u64,
}

/// The fields of `DLPackExchangeAPI` that are used here.
#[repr(C)]
struct Table {
    major: u32,
    minor: u32,
    earlier: *const c_void,
    unused: [*const c_void; 3],
    fill: Option<Fill>,
}

/// The reader of torch tensors.
pub(crate) struct Functions {
    fill: Option<Fill>,
    /// The layout object of strided tensors.
    strided: Py<PyAny>,
}

impl Functions {
    /// Reads a tensor through the table or by attributes. `f` must not run Python.
    #[inline]
    pub(super) fn read<R>(
        &self,
        dtypes: &Dtypes,
        x: &Bound<'_, PyAny>,
        f: impl Fn(DType, &[i64]) -> R,
        otherwise: impl Fn(Spec) -> Option<R>,
    ) -> Option<R> {
        if let Some(fill) = self.fill
            && PAUSED.load(Ordering::Relaxed) == 0
        {
            let mut out = MaybeUninit::<Described>::uninit();
            // SAFETY: the interpreter is attached, the object is of a class that has the function, which fills the structure
            // where it returns 0. It is read at once, while the array that owns the sizes lives.
            unsafe {
                if fill(x.as_ptr().cast(), out.as_mut_ptr()) == 0 {
                    let out = out.assume_init();
                    let dtype = described(out.kind, out.bits).filter(|_| out.lanes == 1)?;
                    let sizes = slice(out.sizes, out.rank)?;
                    // Zero tensors without memory.
                    if out.data.is_null() && !sizes.contains(&0) {
                        return None;
                    }
                    return Some(f(dtype, sizes));
                }
                // C++ runs no signal handlers, so the exception is a refusal.
                ffi::PyErr_Clear();
            }
            PAUSED.store(PAUSE, Ordering::Relaxed);
        }
        self.asked(dtypes, x).and_then(otherwise)
    }

    #[cold]
    fn asked(&self, dtypes: &Dtypes, x: &Bound<'_, PyAny>) -> Option<Spec> {
        let py = x.py();
        let left = PAUSED.load(Ordering::Relaxed);
        PAUSED.store(left.saturating_sub(1), Ordering::Relaxed);
        // Attributes of exactly torch's classes are C++ functions, which run no signal handlers.
        let layout = x.getattr(pyo3::intern!(py, "layout")).ok()?;
        if !layout.is(&self.strided) {
            return None;
        }
        let dtype = x.getattr(pyo3::intern!(py, "dtype")).ok()?;
        let dtype = own_dtype(dtypes, dtype.as_ptr())?;
        // Nested tensors have none.
        let sizes = x.getattr(pyo3::intern!(py, "shape")).ok()?;
        let sizes = sizes.cast::<PyTuple>().ok()?;
        let sizes = sizes.iter_borrowed().map(|n| n.extract::<i64>());
        let sizes = sizes.collect::<PyResult<Vec<_>>>().ok()?;
        Some(Spec::new(dtype, shape(sizes.into_iter())))
    }
}

/// The dtype of a DLPack type code.
#[inline]
fn described(kind: u8, bits: u8) -> Option<DType> {
    Some(match (kind, bits) {
        (2, 32) => DType::F32,
        (2, 64) => DType::F64,
        (2, 16) => DType::F16,
        (4, 16) => DType::BF16,
        (0, 8) => DType::I8,
        (0, 16) => DType::I16,
        (0, 32) => DType::I32,
        (0, 64) => DType::I64,
        (1, 8) => DType::U8,
        (1, 16) => DType::U16,
        (1, 32) => DType::U32,
        (1, 64) => DType::U64,
        (5, 64) => DType::C64,
        (5, 128) => DType::C128,
        (6, 8) => DType::Bool,
        _ => return None,
    })
}

/// torch's exchange function, if this version has one.
fn exchange(class: &Bound<'_, PyType>) -> PyResult<Option<Fill>> {
    let Some(capsule) = class.getattr_opt("__dlpack_c_exchange_api__")? else {
        return Ok(None);
    };
    // SAFETY: the capsule's name identifies its contents; by definition the table lives as long as the process.
    unsafe {
        let table = ffi::PyCapsule_GetPointer(capsule.as_ptr(), c"dlpack_exchange_api".as_ptr());
        if table.is_null() {
            ffi::PyErr_Clear();
            return Ok(None);
        }
        let table = &*table.cast::<Table>();
        Ok(table.fill.filter(|_| table.major == 1))
    }
}

/// The reader of a torch class.
pub(super) fn find(class: &Bound<'_, PyType>) -> PyResult<Reader> {
    let strided = class.py().import("torch")?.getattr("strided")?.unbind();
    Ok(Reader::Functions(Box::leak(Box::new(Functions {
        fill: exchange(class)?,
        strided,
    }))))
}
