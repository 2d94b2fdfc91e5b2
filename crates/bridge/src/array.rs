//! A framework's array as a tensor's data, and back.

use crate::error::failed;
use crate::framework::Framework;
use crate::load::Loaded;
use clematis_core::{DType, Dim, Result, Shape, Spec, Tensor, bail};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A framework's array.
pub struct Foreign(pub Py<PyAny>);

/// The element type and shape that a framework's array says it has.
pub fn spec(py: Python<'_>, loaded: &Loaded, x: &Bound<'_, PyAny>) -> Result<Spec> {
    let read = || -> PyResult<Option<(DType, Shape)>> {
        let object = x.getattr(pyo3::intern!(py, "dtype"))?;
        let Some(code) = loaded.names.bind(py).get_item(&object)? else {
            return Ok(None);
        };
        let dtype = DType::ALL[usize::from(code.extract::<u8>()?)];
        let shape = x.getattr(pyo3::intern!(py, "shape"))?;
        let dims = match shape.cast::<PyTuple>() {
            Ok(sizes) => sizes
                .iter()
                .map(|n| n.extract::<i64>().map(Dim::number))
                .collect::<PyResult<Vec<_>>>()?,
            Err(_) => shape
                .try_iter()?
                .map(|n| n?.extract::<i64>().map(Dim::number))
                .collect::<PyResult<Vec<_>>>()?,
        };
        Ok(Some((dtype, Shape::from_dims(dims))))
    };
    match read() {
        Ok(Some((dtype, shape))) => Ok(Spec::new(dtype, shape)),
        Ok(None) => {
            let dtype = x.getattr("dtype").map(|d| d.to_string());
            bail!(
                DType,
                "asarray: {} has an array of {}, which is no dtype of ours",
                loaded.name,
                dtype.unwrap_or_default()
            )
        }
        Err(e) => Err(failed(py, "asarray", e)),
    }
}

/// How often frameworks were added: what threads have found out about classes before is void.
static ADDED: AtomicUsize = AtomicUsize::new(0);

#[derive(Default)]
struct Classes {
    added: usize,
    /// Which framework a class belongs to. The class is kept, so that its address is not given to another.
    known: FxHashMap<usize, (Py<PyType>, Option<&'static Framework>)>,
}

thread_local! {
    static CLASSES: RefCell<Classes> = RefCell::default();
}

/// The framework whose array this is, if it is one. Imports none that is not imported already.
pub fn home(x: &Bound<'_, PyAny>) -> Result<Option<&'static Framework>> {
    let class = x.get_type();
    let address = class.as_ptr() as usize;
    let added = ADDED.load(Ordering::Relaxed);
    let found = CLASSES.with_borrow(|c| {
        let (_, found) = c.known.get(&address)?;
        (c.added == added).then_some(*found)
    });
    if let Some(found) = found {
        return Ok(found);
    }
    let py = x.py();
    let find = || -> PyResult<Option<&'static Framework>> {
        for framework in Framework::all() {
            if let Some(loaded) = framework.ready(py, &class)?
                && x.is_instance(loaded.arrays.bind(py))?
            {
                return Ok(Some(framework));
            }
        }
        Ok(None)
    };
    let found = find().map_err(|e| failed(py, "asarray", e))?;
    CLASSES.with_borrow_mut(|c| {
        if c.added != added {
            c.known.clear();
            c.added = added;
        }
        c.known.insert(address, (class.unbind(), found));
    });
    Ok(found)
}

/// Forgets which class belongs to whom: a new framework may claim some.
pub fn forget() {
    ADDED.fetch_add(1, Ordering::Relaxed);
}

/// The array inside a tensor, if it lives in a framework.
pub fn of(x: &Tensor) -> Option<&Py<PyAny>> {
    x.lowest().data::<Foreign>().map(|f| &f.0)
}
