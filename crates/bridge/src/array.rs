//! A framework's array as a tensor's data, and back.

use crate::call::is_held_once;
use crate::error::{failed, unless_error};
use crate::framework::Framework;
use crate::load::Loaded;
use crate::peek::Reader;
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
pub struct Foreign {
    array: Py<PyAny>,
    /// The framework.
    pub home: &'static Framework,
    /// Whether a program made it and nobody was handed it since. Who had it may have made another array of the same memory,
    /// which the array does not tell.
    untouched: AtomicBool,
}

impl Foreign {
    pub(crate) fn new(array: Bound<'_, PyAny>, home: &'static Framework, untouched: bool) -> Self {
        Foreign {
            array: array.unbind(),
            home,
            untouched: AtomicBool::new(untouched),
        }
    }

    /// The array, for whatever is to be done with it.
    #[inline(always)]
    pub fn array(&self) -> &Py<PyAny> {
        self.untouched.store(false, Ordering::Relaxed);
        &self.array
    }

    /// The array, for those who keep nothing of it.
    #[inline(always)]
    pub fn lent(&self) -> &Py<PyAny> {
        &self.array
    }

    /// Whether it is what a program made and nobody was handed since.
    #[inline(always)]
    pub fn is_untouched(&self) -> bool {
        self.untouched.load(Ordering::Relaxed)
    }

    /// Whether nothing but a tensor that is held alone can reach its memory, so that it may be overwritten.
    pub fn is_alone(x: &mut Tensor, py: Python<'_>) -> bool {
        let own = x.data_mut::<Foreign>();
        own.is_some_and(|own| own.is_untouched() && is_held_once(own.array.bind(py)))
    }
}

/// The shape that a framework's array says it has.
///
/// A size that a compiled function of tensorflow does not know yet goes by a name, one for each place: batches of several
/// arrays are then taken to be of one size, which tensorflow looks at when it runs.
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
        // tensorflow's shape holds a tuple; to iterate over it takes longer than all the rest.
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
            // A compiled function of tensorflow that was given no shape.
            Ok(shape) if shape.contains("unknown") => bail!(
                Unsupported,
                "asarray: {} does not know yet how many axes there are; give its function a shape, with None for a size",
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
pub(crate) struct Belongs {
    pub(crate) framework: &'static Framework,
    /// The method that gives the array, where they only hold one.
    method: Option<&'static str>,
    /// How they are read without a call of Python.
    pub(crate) reader: Reader,
    /// Whether those that cannot be read so may be no plain arrays, which the framework's dialect knows.
    pub(crate) asked: bool,
}

/// A class met before.
struct Met {
    /// Its address; 0 while there is none.
    class: AtomicUsize,
    belongs: OnceLock<Belongs>,
}

/// The first classes that were met, for all threads and without a table of hashes: few programs have more. None ever leaves.
static MET: [Met; 12] = [const {
    Met {
        class: AtomicUsize::new(0),
        belongs: OnceLock::new(),
    }
}; 12];

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

/// Whose array this is, if it is one and its class has been met.
#[inline(always)]
pub(crate) fn met(x: &Bound<'_, PyAny>) -> Option<&'static Belongs> {
    let class = x.get_type_ptr() as usize;
    let found = MET
        .iter()
        .find(|met| met.class.load(Ordering::Acquire) == class)?;
    found.belongs.get()
}

/// Whose array this is, if it is one.
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

/// Remembers a class for all threads while there is room. A later framework cannot claim it: earlier ones come first.
fn note(class: &Bound<'_, PyType>, own: Belongs) {
    for met in &MET {
        // The value first: who sees the address must find it.
        if met.class.load(Ordering::Acquire) == 0 && met.belongs.set(own).is_ok() {
            // Kept for ever, so that its address is not given to another.
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

/// Forgets which class belongs to whom: a new framework may claim some.
pub fn forget() {
    ADDED.fetch_add(1, Ordering::Relaxed);
}

/// The array inside a tensor, if it lives in a framework.
pub fn of(x: &Tensor) -> Option<&Py<PyAny>> {
    x.lowest().data::<Foreign>().map(Foreign::array)
}
