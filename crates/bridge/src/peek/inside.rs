//! Where the structure behind a torch array keeps its element type and its sizes.
//!
//! torch promises no layout, so nothing is read before arrays made for it have shown where things lie; a torch that lays them
//! out otherwise is asked by its functions. Of an array only the kind is trusted that torch itself has described once:
//! a kind is its set of dispatch keys, its device and its flags, which together tell dense arrays from sparse ones, wrapped
//! ones, and those whose sizes are symbols.
#![allow(unsafe_code)]

use super::{Dtypes, slice};
use clematis_core::DType;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// As many words of the structure are read, no more than the shortest one known has.
const WORDS: usize = 22;
/// Sizes of more axes than this lie elsewhere.
const INLINE: usize = 5;
/// Words from the number of axes to the number of elements, to the element type and flags, and to the set of keys.
const COUNT: usize = 2 * INLINE + 2;
const FLAGS: usize = COUNT + 1;
const KEYS: usize = FLAGS + 1;
/// The part of the word of flags that is the element type.
const TYPE_BITS: u32 = 16;

/// What was found out.
pub(super) struct Inside {
    /// Words from the head of the Python object to the pointer to the structure.
    pointer: usize,
    /// Words from the head of the structure to the number of axes, which the sizes follow.
    rank: usize,
    /// Our element types by torch's numbers for them.
    dtypes: [Option<DType>; 64],
    /// Kinds of arrays that torch has described: their flags and their keys.
    kinds: [(AtomicU64, AtomicU64); 16],
    /// How many kinds there are.
    known: AtomicUsize,
}

impl Inside {
    /// The element type and the sizes of an array, if its kind is known. They are to be used before Python runs again.
    #[inline]
    pub(super) fn read<'a>(&self, x: &'a Bound<'_, PyAny>) -> Option<(DType, &'a [i64])> {
        let (own, (flags, keys)) = self.kind(x)?;
        if !self.is_known(flags, keys) {
            return None;
        }
        let dtype = *self.dtypes.get((flags & ((1 << TYPE_BITS) - 1)) as usize)?;
        // SAFETY: as for `kind`; torch has described an array of this kind, so its sizes are numbers and lie where those of the
        // trials lay. They live as long as the array keeps its shape, which only Python can change.
        let sizes = unsafe {
            let rank = *own.add(self.rank) as usize;
            let here = own.add(self.rank + 1);
            let sizes = if rank > INLINE {
                *here as *const i64
            } else {
                here.cast::<i64>()
            };
            slice(sizes, i32::try_from(rank).ok()?)?
        };
        Some((dtype?, sizes))
    }

    #[inline]
    fn is_known(&self, flags: u64, keys: u64) -> bool {
        let known = self.known.load(Ordering::Acquire).min(self.kinds.len());
        self.kinds[..known].iter().any(|(f, k)| {
            f.load(Ordering::Relaxed) == flags >> TYPE_BITS && k.load(Ordering::Relaxed) == keys
        })
    }

    /// Remembers the kind of an array that torch has just described.
    #[cold]
    pub(super) fn learn(&self, x: &Bound<'_, PyAny>) {
        let Some((_, (flags, keys))) = self.kind(x) else {
            return;
        };
        if self.is_known(flags, keys) {
            return;
        }
        // Python's lock is held: nobody else learns meanwhile.
        let known = self.known.load(Ordering::Relaxed);
        if let Some(kind) = self.kinds.get(known) {
            kind.0.store(flags >> TYPE_BITS, Ordering::Relaxed);
            kind.1.store(keys, Ordering::Relaxed);
            self.known.store(known + 1, Ordering::Release);
        }
    }

    /// The structure behind an array, its word of flags and its keys.
    #[inline]
    fn kind(&self, x: &Bound<'_, PyAny>) -> Option<(*const u64, (u64, u64))> {
        // SAFETY: the object is of a class whose instances hold the pointer there, as was tried; every structure behind one
        // begins with the same fields, whatever follows them.
        unsafe {
            let own = *x.as_ptr().cast::<*const u64>().add(self.pointer);
            if own.is_null() {
                return None;
            }
            let flags = *own.add(self.rank + FLAGS);
            let keys = *own.add(self.rank + KEYS);
            Some((own, (flags, keys)))
        }
    }
}

/// Finds out where things lie, by arrays whose sizes and element types are known.
pub(super) fn find(py: Python<'_>, dtypes: &Dtypes) -> PyResult<Option<Inside>> {
    let torch = py.import("torch")?;
    let make = |sizes: &[i64], dtype: &Py<PyAny>| -> PyResult<Bound<'_, PyAny>> {
        let options = PyDict::new(py);
        options.set_item("dtype", dtype)?;
        options.set_item("device", "cpu")?;
        torch.call_method("empty", (PyTuple::new(py, sizes)?,), Some(&options))
    };
    let Some(float) = &dtypes[DType::F32 as usize] else {
        return Ok(None);
    };
    let trial = make(&[7, 11, 13], float)?;
    let Some(pointer) = pointer(&trial)? else {
        return Ok(None);
    };
    let Some(rank) = rank(&trial, pointer) else {
        return Ok(None);
    };
    let mut found = Inside {
        pointer,
        rank,
        dtypes: [None; 64],
        kinds: Default::default(),
        known: AtomicUsize::new(0),
    };
    for dtype in DType::ALL {
        let Some(own) = &dtypes[dtype as usize] else {
            continue;
        };
        let x = make(&[3], own)?;
        let number = found.kind(&x).map(|(_, (flags, _))| flags as u16);
        match number.and_then(|n| found.dtypes.get_mut(usize::from(n))) {
            Some(place @ None) => *place = Some(dtype),
            // Two that look alike, or a number that is none.
            _ => return Ok(None),
        }
    }
    found.learn(&trial);
    let sparse = trial.call_method0("to_sparse")?;
    if found.read(&sparse).is_some() {
        return Ok(None);
    }
    for sizes in [
        &[][..],
        &[0],
        &[2, 9],
        &[1, 2, 3, 4, 5],
        &[1, 2, 3, 4, 5, 6],
    ] {
        let x = make(sizes, float)?;
        found.learn(&x);
        if found.read(&x) != Some((DType::F32, sizes)) {
            return Ok(None);
        }
    }
    Ok(Some(found))
}

/// Where the object holds the pointer that torch says it has.
fn pointer(trial: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    let own: usize = trial.getattr("_cdata")?.extract()?;
    let size: usize = trial.get_type().getattr("__basicsize__")?.extract()?;
    let head = size_of::<pyo3::ffi::PyObject>() / size_of::<usize>();
    // SAFETY: the object is as long as its class says.
    let words = unsafe {
        let words = trial.as_ptr().cast::<usize>();
        std::slice::from_raw_parts(words, size / size_of::<usize>())
    };
    Ok((head..words.len()).find(|&i| words[i] == own && own != 0))
}

/// Where the structure of an array of 7 x 11 x 13 elements has its axes.
fn rank(trial: &Bound<'_, PyAny>, pointer: usize) -> Option<usize> {
    // SAFETY: the pointer is torch's own word for where the structure lies, which is at least so long in every torch that has
    // the function below; nothing is followed.
    let words = unsafe {
        let own = *trial.as_ptr().cast::<*const u64>().add(pointer);
        std::slice::from_raw_parts(own, WORDS)
    };
    let fits = |i: &usize| {
        let own = &words[*i..];
        own[..4] == [3, 7, 11, 13]
            && own[INLINE + 1..INLINE + 4] == [143, 13, 1]
            && own[COUNT] == 7 * 11 * 13
    };
    (0..WORDS - KEYS).find(fits)
}
