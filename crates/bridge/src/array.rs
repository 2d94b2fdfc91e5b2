//! A framework's array as a tensor's data, and back.

use crate::call::is_held_once;
use crate::error::{failed, unless_error};
use crate::framework::Framework;
use crate::introspect::Reader;
use crate::load::Loaded;
use clematis_core::{DType, Dim, Result, Shape, Spec, Tensor, bail};
use pyo3::Borrowed;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A framework's array.
pub struct FrameworkArray {
    array: Py<PyAny>,
    /// The framework.
    pub framework: &'static Framework,
    /// Whether a program created it and no caller has seen it since. A caller may have created another array over the same
    /// memory, which the array cannot report.
    untouched: AtomicBool,
}

impl FrameworkArray {
    pub(crate) fn new(
        array: Bound<'_, PyAny>,
        framework: &'static Framework,
        untouched: bool,
    ) -> Self {
        FrameworkArray {
            array: array.unbind(),
            framework,
            untouched: AtomicBool::new(untouched),
        }
    }

    /// The array, given to a caller; it cannot be donated afterwards.
    #[inline(always)]
    pub fn array(&self) -> &Py<PyAny> {
        self.untouched.store(false, Ordering::Relaxed);
        &self.array
    }

    /// Borrows the array, for callers that keep no reference to it.
    #[inline(always)]
    pub fn as_borrowed(&self) -> &Py<PyAny> {
        &self.array
    }

    /// Whether a program created it and no caller has seen it since.
    #[inline(always)]
    pub fn is_untouched(&self) -> bool {
        self.untouched.load(Ordering::Relaxed)
    }

    /// Whether this tensor is the only owner of its memory, so that the memory may be donated.
    pub fn is_uniquely_owned(x: &mut Tensor, py: Python<'_>) -> bool {
        let own = x.data_mut::<FrameworkArray>();
        own.is_some_and(|own| own.is_untouched() && is_held_once(own.array.bind(py)))
    }
}

/// The shape of a framework's array.
///
/// A size that a tensorflow function does not know yet becomes a symbolic dimension, named by its axis: the batch sizes of
/// several arrays are assumed equal, which tensorflow checks at run time.
pub(crate) fn shape(x: &Bound<'_, PyAny>) -> PyResult<Shape> {
    let size = |(axis, n): (usize, PyResult<Borrowed<'_, '_, PyAny>>)| -> PyResult<Dim> {
        let n = n?;
        if n.is_none() {
            let unknown = Dim::symbol(&format!("unknown_{axis}"));
            return unknown.map_err(|e| PyValueError::new_err(e.to_string()));
        }
        n.extract::<i64>().map(Dim::number)
    };
    let mut shape = x.getattr(pyo3::intern!(x.py(), "shape"))?;
    if shape.cast::<PyTuple>().is_err()
        && let Some(own) = shape.getattr_opt(pyo3::intern!(x.py(), "_dims"))?
        && own.cast::<PyTuple>().is_ok()
    {
        // Iterating over tensorflow's shape object is slow; it holds a tuple.
        shape = own;
    }
    let dims = match shape.cast::<PyTuple>() {
        Ok(sizes) => sizes
            .iter_borrowed()
            .map(Ok)
            .enumerate()
            .map(size)
            .collect::<PyResult<SmallVec<[Dim; 6]>>>()?,
        Err(_) => shape
            .try_iter()?
            .enumerate()
            .map(|(axis, n)| size((axis, Ok(n?.as_borrowed()))))
            .collect::<PyResult<SmallVec<[Dim; 6]>>>()?,
    };
    Ok(Shape::from_dims(dims))
}

/// The dtype and shape of a framework's array.
pub fn spec(py: Python<'_>, loaded: &Loaded, x: &Bound<'_, PyAny>) -> Result<Spec> {
    let read = || -> PyResult<Option<(DType, Shape)>> {
        let object = x.getattr(pyo3::intern!(py, "dtype"))?;
        // Most frameworks have one object for each dtype.
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
            // A tensorflow function traced without a shape.
            Ok(shape) if shape.contains("unknown") => bail!(
                Unsupported,
                "asarray: {} does not know yet how many axes there are; give its function a shape, with None for a size",
                loaded.name
            ),
            _ => Err(failed(py, "asarray", e)),
        },
    }
}

/// Incremented when a framework is added, which invalidates the caches of all threads.
static ADDED: AtomicUsize = AtomicUsize::new(0);

#[derive(Default)]
struct Classes {
    added: usize,
    /// Cached classes by address. Each is kept alive, so that no other class gets its address.
    known: FxHashMap<usize, (Py<PyType>, Option<Belongs>)>,
}

/// The framework of a class's instances.
#[derive(Clone, Copy)]
pub(crate) struct Belongs {
    pub(crate) framework: &'static Framework,
    /// The method that returns the array, for classes that only hold one.
    method: Option<&'static str>,
    /// How to read dtype and shape without calling Python.
    pub(crate) reader: Reader,
    /// Whether an instance that the reader refuses must be passed to the dialect's `array` function.
    pub(crate) asked: bool,
}

/// A cached class.
struct TypeCache {
    /// Its address; 0 if the entry is empty.
    class: AtomicUsize,
    belongs: OnceLock<Belongs>,
}

/// The first classes seen, shared by all threads and searched linearly: few programs have more. Entries are never removed.
static TYPE_CACHE: [TypeCache; 12] = [const {
    TypeCache {
        class: AtomicUsize::new(0),
        belongs: OnceLock::new(),
    }
}; 12];

/// How to get the array of a variable.
const HOLDERS: [(&str, &str); 3] = [
    ("tensorflow", "read_value"),
    ("tensorflow", "__tf_tensor__"),
    ("jax", "__jax_array__"),
];

thread_local! {
    static CLASSES: RefCell<Classes> = RefCell::default();
}

/// The framework of an array; `None` for other objects. Imports no framework.
pub fn framework_of(x: &Bound<'_, PyAny>) -> Result<Option<&'static Framework>> {
    let found = belongs(x)?.filter(|b| b.method.is_none());
    Ok(found.map(|b| b.framework))
}

/// A tensor of a framework's array or variable; `None` if it is neither.
pub fn tensor(x: &Bound<'_, PyAny>) -> Result<Option<Tensor>> {
    let Some(own) = belongs(x)? else {
        return Ok(None);
    };
    let Some(method) = own.method else {
        return own.framework.wrap_seen(x, own.reader, own.asked).map(Some);
    };
    let held = x
        .call_method0(method)
        .map_err(|e| failed(x.py(), "asarray", e))?;
    own.framework.wrap(&held).map(Some)
}

/// The framework of an array whose class is in the shared cache.
#[inline(always)]
pub(crate) fn met(x: &Bound<'_, PyAny>) -> Option<&'static Belongs> {
    let class = x.get_type_ptr() as usize;
    let found = TYPE_CACHE
        .iter()
        .find(|met| met.class.load(Ordering::Acquire) == class)?;
    found.belongs.get()
}

/// The framework of an array or variable.
#[inline]
pub(crate) fn owner(x: &Bound<'_, PyAny>) -> Result<Option<Belongs>> {
    match met(x) {
        Some(own) => Ok(Some(*own)),
        None => Ok(belongs(x)?.filter(|own| own.method.is_none())),
    }
}

fn belongs(x: &Bound<'_, PyAny>) -> Result<Option<Belongs>> {
    if let Some(known) = met(x) {
        return Ok(Some(*known));
    }
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
    if let Some(own) = found
        && own.method.is_none()
    {
        note(&class, own);
    }
    CLASSES.with_borrow_mut(|c| {
        if c.added != added {
            c.known.clear();
            c.added = added;
        }
        c.known.insert(address, (class.unbind(), found));
    });
    Ok(found)
}

/// Adds a class to the shared cache if an entry is free. A later framework cannot claim it: earlier ones take precedence.
fn note(class: &Bound<'_, PyType>, own: Belongs) {
    for met in &TYPE_CACHE {
        // The value first: a thread that sees the address must find the value.
        if met.class.load(Ordering::Acquire) == 0 && met.belongs.set(own).is_ok() {
            // Never freed, so that no other class gets its address.
            let address = class.clone().into_ptr() as usize;
            met.class.store(address, Ordering::Release);
            return;
        }
    }
}

fn search(x: &Bound<'_, PyAny>, class: &Bound<'_, PyType>) -> PyResult<Option<Belongs>> {
    let py = x.py();
    for framework in Framework::all() {
        if let Some(loaded) = framework.ready(py, class)?
            && x.is_instance(loaded.arrays.bind(py))?
        {
            let first = loaded.arrays.bind(py).get_item(0)?;
            let reader = Reader::find(class, &loaded.dtypes)?;
            return Ok(Some(Belongs {
                framework,
                method: None,
                reader,
                asked: !matches!(reader, Reader::Structure) && x.is_instance(&first)?,
            }));
        }
    }
    for (name, method) in HOLDERS {
        if class.hasattr(method)?
            && let Some(framework) = Framework::find(name)
            && unless_error(py, framework.loaded(py))?.is_some()
        {
            return Ok(Some(Belongs {
                framework,
                method: Some(method),
                reader: Reader::None,
                asked: false,
            }));
        }
    }
    Ok(None)
}

/// Invalidates the caches: a new framework may claim cached classes.
pub fn forget() {
    ADDED.fetch_add(1, Ordering::Relaxed);
}

/// The array inside a tensor, if it lives in a framework.
pub fn of(x: &Tensor) -> Option<&Py<PyAny>> {
    x.lowest()
        .data::<FrameworkArray>()
        .map(FrameworkArray::array)
}
