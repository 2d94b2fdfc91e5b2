//! torch's arrays. What one of them is stands in a structure of torch's, which `inside` reads where it knows the kind of array.
//!
//! Otherwise torch is asked: its classes carry a table of C functions (`__dlpack_c_exchange_api__`) that describe an array at
//! once; where it cannot (arrays without memory, older versions), its attributes are C functions behind descriptors, found
//! once and called without a search for their names.
#![allow(unsafe_code)]

use super::inside::{self, Inside};
use super::{Dtypes, Reader, Seen, own_dtype, shape, slice};
use clematis_core::{DType, Spec};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
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
    /// Where all of it lies, if that was found out.
    inside: Option<Inside>,
    fill: Option<Fill>,
    dtype: Getter,
    layout: Getter,
    rank: Getter,
    sizes: Getter,
    /// The size of the first axis, 0 without axes.
    length: ffi::lenfunc,
    /// The layout of plain arrays.
    strided: Py<PyAny>,
}

/// An attribute's C function.
struct Getter {
    get: ffi::getter,
    closure: *mut c_void,
}
// SAFETY: both point to what lives as long as the class, which is never freed; Python's lock is held when they are used.
unsafe impl Send for Getter {}
// SAFETY: as above.
unsafe impl Sync for Getter {}

/// A descriptor of an attribute (`PyGetSetDescrObject`).
#[repr(C)]
struct Descriptor {
    head: ffi::PyObject,
    class: *mut ffi::PyTypeObject,
    name: *mut PyObject,
    qualified_name: *mut PyObject,
    definition: *mut ffi::PyGetSetDef,
}

impl Getter {
    /// The attribute of an instance of its class.
    #[inline]
    fn get<'py>(&self, x: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        // SAFETY: the interpreter is attached; the function was found on the class of the object, with its closure.
        unsafe {
            let out = (self.get)(x.as_ptr(), self.closure);
            if out.is_null() {
                ffi::PyErr_Clear();
                return None;
            }
            Some(Bound::from_owned_ptr(x.py(), out))
        }
    }
}

impl Functions {
    /// Lets torch describe an array, or asks for its element type and then for what else is needed. `f` runs no Python.
    #[inline]
    pub(super) fn read<R>(
        &self,
        dtypes: &Dtypes,
        x: &Bound<'_, PyAny>,
        f: impl Fn(DType, &[i64]) -> R,
        otherwise: impl Fn(DType) -> Option<R>,
    ) -> Option<R> {
        if let Some((dtype, sizes)) = self.inside.as_ref().and_then(|own| own.read(x)) {
            return Some(f(dtype, sizes));
        }
        self.described(dtypes, x, f, otherwise)
    }

    /// The same for kinds of arrays that have not been met yet, and for those that torch does not describe.
    #[cold]
    fn described<R>(
        &self,
        dtypes: &Dtypes,
        x: &Bound<'_, PyAny>,
        f: impl Fn(DType, &[i64]) -> R,
        otherwise: impl Fn(DType) -> Option<R>,
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
                    if let Some(inside) = &self.inside {
                        inside.learn(x);
                    }
                    return Some(f(dtype, slice(out.sizes, out.rank)?));
                }
                ffi::PyErr_Clear();
            }
            PAUSED.store(PAUSE, Ordering::Relaxed);
        }
        self.asked(dtypes, x).and_then(otherwise)
    }

    #[cold]
    fn asked(&self, dtypes: &Dtypes, x: &Bound<'_, PyAny>) -> Option<DType> {
        let left = PAUSED.load(Ordering::Relaxed);
        PAUSED.store(left.saturating_sub(1), Ordering::Relaxed);
        if !self.layout.get(x)?.is(&self.strided) {
            return None;
        }
        own_dtype(dtypes, self.dtype.get(x)?.as_ptr())
    }

    #[cold]
    pub(super) fn seen(&self, x: &Bound<'_, PyAny>, dtype: DType) -> Option<Seen> {
        let rank = self.rank.get(x)?.extract().ok()?;
        // SAFETY: as in `Getter::get`.
        let first = unsafe { (self.length)(x.as_ptr()) } as i64;
        if first < 0 {
            // SAFETY: the interpreter is attached.
            unsafe { ffi::PyErr_Clear() };
            return None;
        }
        Some(Seen { dtype, rank, first })
    }

    #[cold]
    pub(super) fn spec(&self, x: &Bound<'_, PyAny>, dtype: DType) -> Option<Spec> {
        let sizes = self.sizes.get(x)?;
        let sizes = sizes.cast::<pyo3::types::PyTuple>().ok()?;
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

/// torch's functions, if their descriptors are as expected.
pub(super) fn find(class: &Bound<'_, PyType>, dtypes: &Dtypes) -> PyResult<Reader> {
    let py = class.py();
    let getter = |name: &str| -> PyResult<Option<Getter>> {
        let found = class.getattr(name)?;
        let kind = found.get_type();
        let size: usize = kind.getattr("__basicsize__")?.extract()?;
        if kind.name()? != "getset_descriptor" || size != size_of::<Descriptor>() {
            return Ok(None);
        }
        let owner = found.getattr("__objclass__")?;
        // SAFETY: the object is as long as what is read of it; the definition is followed only where class and name, which
        // lie before it, are where they were expected.
        unsafe {
            let own = &*found.as_ptr().cast::<Descriptor>();
            if own.class.cast() != owner.as_ptr() || own.name.is_null() {
                return Ok(None);
            }
            let text = Bound::from_borrowed_ptr(py, own.name);
            if !text.cast::<PyString>().is_ok_and(|text| text == name) {
                return Ok(None);
            }
            let definition = &*own.definition;
            Ok(definition.get.map(|get| Getter {
                get,
                closure: definition.closure,
            }))
        }
    };
    let owner = class.getattr("dtype")?.getattr("__objclass__")?;
    let owner = owner.cast::<PyType>()?;
    // SAFETY: a class; the slot holds a function of this type, or nothing.
    let length = unsafe {
        let slot = ffi::PyType_GetSlot(owner.as_type_ptr(), ffi::Py_mp_length);
        std::mem::transmute::<*mut c_void, Option<ffi::lenfunc>>(slot)
    };
    let all = (
        getter("dtype")?,
        getter("layout")?,
        getter("ndim")?,
        getter("shape")?,
        length,
    );
    let (Some(dtype), Some(layout), Some(rank), Some(sizes), Some(length)) = all else {
        return Ok(Reader::None);
    };
    let strided = py.import("torch")?.getattr("strided")?.unbind();
    Ok(Reader::Functions(Box::leak(Box::new(Functions {
        inside: inside::find(py, dtypes).unwrap_or(None),
        fill: exchange(class)?,
        dtype,
        layout,
        rank,
        sizes,
        length,
        strided,
    }))))
}
