//! A framework's array as a tensor's data, and back.

use crate::error::failed;
use crate::framework::Framework;
use crate::load::Loaded;
use clematis_core::{DType, Dim, Result, Shape, Spec, Tensor, bail};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A framework's array.
pub struct Foreign {
    /// The array.
    pub array: Py<PyAny>,
    /// The framework.
    pub home: &'static Framework,
}

/// The shape that a framework's array says it has.
pub(crate) fn shape(x: &Bound<'_, PyAny>) -> PyResult<Shape> {
    let shape = x.getattr(pyo3::intern!(x.py(), "shape"))?;
    let dims = match shape.cast::<PyTuple>() {
        Ok(sizes) => sizes
            .iter_borrowed()
            .map(|n| n.extract::<i64>().map(Dim::number))
            .collect::<PyResult<SmallVec<[Dim; 6]>>>()?,
        Err(_) => shape
            .try_iter()?
            .map(|n| n?.extract::<i64>().map(Dim::number))
            .collect::<PyResult<SmallVec<[Dim; 6]>>>()?,
    };
    Ok(Shape::from_dims(dims))
}

/// The element type and shape that a framework's array says it has.
pub fn spec(py: Python<'_>, loaded: &Loaded, x: &Bound<'_, PyAny>) -> Result<Spec> {
    let read = || -> PyResult<Option<(DType, Shape)>> {
        let object = x.getattr(pyo3::intern!(py, "dtype"))?;
        // Most frameworks keep one object for each element type.
        let same = |d: &DType| {
            let own = loaded.dtypes[*d as usize].as_ref();
            own.is_some_and(|own| own.is(&object))
        };
        let dtype = match DType::ALL.into_iter().find(same) {
            Some(dtype) => dtype,
            None => match loaded.names.bind(py).get_item(&object)? {
                Some(code) => DType::ALL[usize::from(code.extract::<u8>()?)],
                None => return Ok(None),
            },
        };
        Ok(Some((dtype, shape(x)?)))
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
        Err(e) => match x.getattr("shape").map(|s| s.to_string()) {
            // A compiled function of tensorflow that was given no sizes.
            Ok(shape) if shape.contains("None") || shape.contains("unknown") => bail!(
                Unsupported,
                "asarray: {} does not know the shape yet: {shape}; give its function whole shapes",
                loaded.name
            ),
            _ => Err(failed(py, "asarray", e)),
        },
    }
}

/// How often frameworks were added: what threads have found out about classes before is void.
static ADDED: AtomicUsize = AtomicUsize::new(0);

#[derive(Default)]
struct Classes {
    added: usize,
    /// What is known of a class. It is kept, so that its address is not given to another.
    known: FxHashMap<usize, (Py<PyType>, Option<Belongs>)>,
}

/// Whose arrays the instances of a class are.
#[derive(Clone, Copy)]
struct Belongs {
    framework: &'static Framework,
    /// The method that gives the array, where they only hold one.
    method: Option<&'static str>,
}

/// How variables, which hold an array, are asked for it.
const HOLDERS: [(&str, &str); 3] = [
    ("tensorflow", "read_value"),
    ("tensorflow", "__tf_tensor__"),
    ("jax", "__jax_array__"),
];

thread_local! {
    static CLASSES: RefCell<Classes> = RefCell::default();
}

/// The framework whose array this is, if it is one. Imports none that is not imported already.
pub fn home(x: &Bound<'_, PyAny>) -> Result<Option<&'static Framework>> {
    let found = belongs(x)?.filter(|b| b.method.is_none());
    Ok(found.map(|b| b.framework))
}

/// A tensor of a framework's array or variable; `None` if it is neither.
pub fn tensor(x: &Bound<'_, PyAny>) -> Result<Option<Tensor>> {
    match belongs(x)? {
        None => Ok(None),
        Some(Belongs {
            framework,
            method: None,
        }) => framework.wrap(x).map(Some),
        Some(Belongs {
            framework,
            method: Some(method),
        }) => {
            let held = x
                .call_method0(method)
                .map_err(|e| failed(x.py(), "asarray", e))?;
            framework.wrap(&held).map(Some)
        }
    }
}

fn belongs(x: &Bound<'_, PyAny>) -> Result<Option<Belongs>> {
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
    let found = search(x, &class).map_err(|e| failed(x.py(), "asarray", e))?;
    CLASSES.with_borrow_mut(|c| {
        if c.added != added {
            c.known.clear();
            c.added = added;
        }
        c.known.insert(address, (class.unbind(), found));
    });
    Ok(found)
}

fn search(x: &Bound<'_, PyAny>, class: &Bound<'_, PyType>) -> PyResult<Option<Belongs>> {
    let py = x.py();
    for framework in Framework::all() {
        if let Some(loaded) = framework.ready(py, class)?
            && x.is_instance(loaded.arrays.bind(py))?
        {
            return Ok(Some(Belongs {
                framework,
                method: None,
            }));
        }
    }
    for (name, method) in HOLDERS {
        if class.hasattr(method)?
            && let Some(framework) = Framework::find(name)
            && framework.loaded(py).is_ok()
        {
            let method = Some(method);
            return Ok(Some(Belongs { framework, method }));
        }
    }
    Ok(None)
}

/// Forgets which class belongs to whom: a new framework may claim some.
pub fn forget() {
    ADDED.fetch_add(1, Ordering::Relaxed);
}

/// The array inside a tensor, if it lives in a framework.
pub fn of(x: &Tensor) -> Option<&Py<PyAny>> {
    x.lowest().data::<Foreign>().map(|f| &f.array)
}
