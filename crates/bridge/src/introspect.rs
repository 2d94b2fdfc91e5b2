//! Reads an array's dtype and shape in C, without calling Python.
//!
//! The submodules do so for NumPy and torch. Other arrays have no reader.
#![allow(unsafe_code)]

mod numpy;
mod torch;

use crate::error::unless_failed;
use clematis_core::{DType, Dim, Shape, Spec};
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::ffi::c_int;

/// How to read the arrays of a class.
#[derive(Clone, Copy)]
pub(crate) enum Reader {
    /// Through NumPy's C structure.
    Structure,
    /// Through torch's C functions.
    Functions(&'static torch::Functions),
    /// No reader.
    None,
}

/// A summary of dtype and shape that suffices to choose a fast path.
#[derive(Clone, Copy)]
pub struct Seen {
    /// The element type.
    pub dtype: DType,
    /// The number of axes.
    pub rank: usize,
    /// The size of the first axis; 0 without axes.
    pub first: i64,
}

impl Seen {
    /// The summary of a spec.
    #[inline(always)]
    pub fn of(spec: &Spec) -> Option<Seen> {
        let dims = spec.shape.dims();
        Some(Seen {
            dtype: spec.dtype,
            rank: dims.len(),
            first: dims.first().map_or(Some(0), |d| d.value())?,
        })
    }
}

type Dtypes = [Option<Py<PyAny>>; 15];

impl Reader {
    /// The reader of instances of exactly this class.
    pub(crate) fn find(class: &Bound<'_, PyType>, dtypes: &Dtypes) -> PyResult<Reader> {
        let found = || -> PyResult<Reader> {
            let (module, name) = (class.module()?, class.name()?);
            match (&*module.to_string_lossy(), &*name.to_string_lossy()) {
                ("numpy", "ndarray") => numpy::find(class, dtypes),
                ("torch", "Tensor") | ("torch.nn.parameter", "Parameter") => torch::find(class),
                _ => Ok(Reader::None),
            }
        };
        Ok(unless_failed(class.py(), found())?.unwrap_or(Reader::None))
    }

    /// The dtype of an instance of its class.
    #[inline]
    pub(crate) fn dtype(&self, dtypes: &Dtypes, x: &Bound<'_, PyAny>) -> Option<DType> {
        match self {
            Reader::None => None,
            Reader::Structure => numpy::read(dtypes, x, |dtype, _| dtype),
            Reader::Functions(f) => f.read(dtypes, x, |dtype, _| dtype, |spec| Some(spec.dtype)),
        }
    }

    /// The summary of an instance of its class.
    #[inline]
    pub(crate) fn seen(&self, dtypes: &Dtypes, x: &Bound<'_, PyAny>) -> Option<Seen> {
        let short = |dtype, sizes: &[i64]| Seen {
            dtype,
            rank: sizes.len(),
            first: sizes.first().copied().unwrap_or(0),
        };
        match self {
            Reader::None => None,
            Reader::Structure => numpy::read(dtypes, x, short),
            Reader::Functions(f) => f.read(dtypes, x, short, |spec| Seen::of(&spec)),
        }
    }

    /// The spec of an instance of its class.
    #[inline]
    pub(crate) fn spec(&self, dtypes: &Dtypes, x: &Bound<'_, PyAny>) -> Option<Spec> {
        let whole = |dtype, sizes: &[i64]| Spec::new(dtype, shape(sizes.iter().copied()));
        match self {
            Reader::None => None,
            Reader::Structure => numpy::read(dtypes, x, whole),
            Reader::Functions(f) => f.read(dtypes, x, whole, Some),
        }
    }
}

#[inline]
fn shape(sizes: impl Iterator<Item = i64>) -> Shape {
    Shape::from_dims(sizes.map(Dim::number))
}

#[inline]
fn own_dtype(dtypes: &Dtypes, object: *mut PyObject) -> Option<DType> {
    let is = |d: &DType| {
        let own = dtypes[*d as usize].as_ref();
        own.is_some_and(|own| own.as_ptr() == object)
    };
    // The most common dtype first.
    if is(&DType::F32) {
        return Some(DType::F32);
    }
    DType::ALL.into_iter().find(is)
}

/// The sizes at a pointer, which may be null without axes.
#[inline]
unsafe fn slice<'a>(sizes: *const i64, rank: c_int) -> Option<&'a [i64]> {
    let rank = usize::try_from(rank).ok()?;
    if rank == 0 {
        return Some(&[]);
    }
    // SAFETY: by the caller, there are `rank` of them.
    Some(unsafe { std::slice::from_raw_parts(sizes, rank) })
}
