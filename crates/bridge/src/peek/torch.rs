//! torch's arrays, as torch describes them: its classes carry a table of C functions (`__dlpack_c_exchange_api__`, part of
//! DLPack) that fill in an array's element type and sizes. Where it cannot (arrays without memory, older versions), the
//! array's attributes are asked for.
#![allow(unsafe_code)]

use super::{Dtypes, Reader, own_dtype, shape, slice};
use clematis_core::{DType, Spec};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

/// So often torch is not asked to describe an array after it could not, which takes it long: its transforms wrap every array.
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

/// `DLPackExchangeAPI`, as far as it is used here.
#[repr(C)]
struct Table {
    major: u32,
    minor: u32,
    earlier: *const c_void,
    unused: [*const c_void; 3],
    fill: Option<Fill>,
}

/// What torch's arrays are read by.
pub(crate) struct Functions {
    fill: Option<Fill>,
    /// The layout of plain arrays.
    strided: Py<PyAny>,
}

impl Functions {
    /// Lets torch describe an array, or asks for its element type and then for what else is needed. `f` runs no Python.
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
                    // Zeros that have no memory until they are needed.
                    if out.data.is_null() && !sizes.contains(&0) {
                        return None;
                    }
                    return Some(f(dtype, sizes));
                }
                // C++ runs no handler of a signal, so what it raised is its refusal.
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
        // Attributes of exactly torch's classes are functions in C++, which run no handler of a signal.
        let layout = x.getattr(pyo3::intern!(py, "layout")).ok()?;
        if !layout.is(&self.strided) {
            return None;
        }
        let dtype = x.getattr(pyo3::intern!(py, "dtype")).ok()?;
        let dtype = own_dtype(dtypes, dtype.as_ptr())?;
        // Nested arrays have none.
        let sizes = x.getattr(pyo3::intern!(py, "shape")).ok()?;
        let sizes = sizes.cast::<PyTuple>().ok()?;
        let sizes = sizes.iter_borrowed().map(|n| n.extract::<i64>());
        let sizes = sizes.collect::<PyResult<Vec<_>>>().ok()?;
        Some(Spec::new(dtype, shape(sizes.into_iter())))
    }
}

/// DLPack's names of element types.
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

/// torch's function that describes an array, if this version has one.
fn exchange(class: &Bound<'_, PyType>) -> PyResult<Option<Fill>> {
    let Some(capsule) = class.getattr_opt("__dlpack_c_exchange_api__")? else {
        return Ok(None);
    };
    // SAFETY: the name says what the capsule holds; the table lives as long as the process, by its definition.
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

/// What torch says of the arrays of a class.
pub(super) fn find(class: &Bound<'_, PyType>) -> PyResult<Reader> {
    let strided = class.py().import("torch")?.getattr("strided")?.unbind();
    Ok(Reader::Functions(Box::leak(Box::new(Functions {
        fill: exchange(class)?,
        strided,
    }))))
}
