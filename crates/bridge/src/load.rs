//! A dialect made ready: executed, its functions bound by op code.

use crate::error::{failed, is_own, own, unless_failed};
use crate::plain::{self, Plain};
use clematis_core::{DType, Error, Kind, Op, Result};
use clematis_dialect::{Dialect, File};
use pyo3::exceptions::{PyImportError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule, PyTuple};
use std::borrow::Cow;
use std::ffi::CString;
use std::path::Path;

/// One op's function.
pub struct Slot {
    /// What is called.
    pub function: Py<PyAny>,
    /// Whether it takes plain Python numbers for arrays.
    pub numbers: bool,
    /// The framework's own function, which does the same on the usual floats.
    pub plain: Option<Py<PyAny>>,
}

/// Views whose memory does not hold their values: those of torch that conjugate or negate when they are read.
pub struct Lazy {
    /// Whether an array is negated when it is read.
    pub is_negated: Py<PyAny>,
    /// Whether it is conjugated when it is read.
    pub is_conjugated: Py<PyAny>,
    /// An array with the same values whose memory holds them.
    pub resolve: Py<PyAny>,
}

/// A framework that is imported and bound.
pub struct Loaded {
    /// The backend's name.
    pub name: &'static str,
    /// Functions by op code.
    pub slots: Box<[Option<Slot>]>,
    /// The framework's element types by ours.
    pub dtypes: [Option<Py<PyAny>>; 15],
    /// Ours by the framework's: a dict of small numbers.
    pub names: Py<PyDict>,
    /// The classes of its arrays.
    pub arrays: Py<PyTuple>,
    /// The first of them.
    pub array: Py<PyAny>,
    /// Its version.
    pub version: String,
    pub from_bytes: Py<PyAny>,
    pub to_bytes: Py<PyAny>,
    /// Says where an array lies; without it, in main memory.
    pub device: Option<Py<PyAny>>,
    pub from_dlpack: Option<Py<PyAny>>,
    pub to_dlpack: Option<Py<PyAny>>,
    /// Gives an array whose memory others may read, of one of its own.
    pub exported: Option<Py<PyAny>>,
    /// Runs a function with 64-bit types on, where they have to be asked for.
    pub in_64: Option<Py<PyAny>>,
    /// The classes of exceptions by which its functions refuse arguments, so that another way is worth a try.
    pub refusals: Py<PyTuple>,
    /// Views that are computed when they are read.
    pub lazy: Option<Lazy>,
    /// Makes an array of what a function returns for no axes, where that is something else.
    pub scalar_to_array: Option<Py<PyAny>>,
    /// Element types beside which a plain number would widen the result.
    pub numberless: [bool; 15],
    /// Whether an array has no values to read, since the framework itself is tracing it.
    pub is_traced: Option<Py<PyAny>>,
    /// The framework's own functions of our functions' names, which do the same on the usual floats.
    pub plain: Vec<Option<Plain>>,
    /// Says of an object of its classes which plain array it is, or why it is none.
    pub plain_array: Option<Py<PyAny>>,
    /// The function of the op `full`.
    pub full: Option<Py<PyAny>>,
    /// The module itself.
    pub module: Py<PyModule>,
}

/// The package that dialect modules are found in.
const PACKAGE: &str = "clematis._dialects";

/// Imports the framework and its dialect.
pub fn dialect(py: Python<'_>, dialect: &Dialect) -> Result<Loaded> {
    let refused = |e: PyErr| {
        if is_own(py, &e) {
            return own(py, e);
        }
        let kind = if e.is_instance_of::<PyImportError>(py) {
            Kind::Backend
        } else {
            Kind::Foreign
        };
        let text = e.value(py).to_string();
        Error::new(kind, format!("{}: cannot be loaded: {text}", dialect.name)).with_source(
            crate::error::Raised {
                exception: e,
                own: false,
            },
        )
    };
    let modules = py.import("sys").and_then(|sys| sys.getattr("modules"));
    let is_imported = |name: &str| {
        modules
            .as_ref()
            .is_ok_and(|m| m.contains(name).unwrap_or(false))
    };
    if dialect.package == "tensorflow" && is_imported("torch") && !is_imported("tensorflow") {
        // Both register the same options with LLVM, and torch's compiler aborts the process if it comes second.
        unless_failed(py, py.import("torch._dynamo")).map_err(|e| own(py, e))?;
    }
    py.import(dialect.package).map_err(refused)?;
    for part in dialect.parts {
        execute(py, part).map_err(refused)?;
    }
    let module = execute(py, &dialect.ops).map_err(refused)?;
    bind(py, dialect.name, &module)
}

/// The folder that dialects are read from instead of our own, for those who work on one.
const FOLDER: &str = "CLEMATIS_DIALECTS";

/// A file's text: our own, or that of the folder that the environment names.
fn text(file: &File) -> PyResult<Cow<'static, str>> {
    match std::env::var_os(FOLDER) {
        None => Ok(Cow::Borrowed(file.text)),
        Some(folder) => {
            let path = Path::new(&folder).join(format!("{}.py", file.name));
            let text = std::fs::read_to_string(&path).map_err(|e| {
                PyImportError::new_err(format!("{FOLDER}: {}: {e}", path.display()))
            })?;
            Ok(Cow::Owned(text))
        }
    }
}

/// Runs a file as a module that tracebacks can show.
fn execute<'py>(py: Python<'py>, file: &File) -> PyResult<Bound<'py, PyModule>> {
    let modules = py.import("sys")?.getattr("modules")?;
    if !modules.contains(PACKAGE)? {
        let package = PyModule::new(py, PACKAGE)?;
        package.setattr("__path__", PyTuple::empty(py))?;
        modules.set_item(PACKAGE, package)?;
    }
    let name = format!("{PACKAGE}.{}", file.name);
    let path = format!("<clematis dialect {}>", file.name);
    let source = text(file)?;
    let lines: Vec<String> = source.lines().map(|l| format!("{l}\n")).collect();
    py.import("linecache")?
        .getattr("cache")?
        .set_item(&path, (source.len(), py.None(), lines, &path))?;
    let c = |t: &str| CString::new(t).map_err(|e| PyImportError::new_err(e.to_string()));
    let module = PyModule::from_code(py, &c(&source)?, &c(&path)?, &c(&name)?)?;
    modules.set_item(&name, &module)?;
    modules.get_item(PACKAGE)?.setattr(file.name, &module)?;
    Ok(module)
}

/// Binds the functions of a module by the names of ops.
pub fn bind(py: Python<'_>, name: &'static str, module: &Bound<'_, PyModule>) -> Result<Loaded> {
    let whole = || -> PyResult<Loaded> {
        let numbers = match module.getattr_opt("NUMBERS")? {
            Some(set) => set,
            None => PyTuple::empty(py).into_any(),
        };
        let table = match module.getattr_opt("PLAIN")? {
            Some(table) => table.cast_into::<PyDict>()?,
            None => PyDict::new(py),
        };
        let plain = |name: &str| -> PyResult<Option<Plain>> {
            let entry = table.get_item(name)?;
            entry.map(|entry| Plain::read(name, &entry)).transpose()
        };
        let mut slots = Vec::with_capacity(Op::count());
        for (op, _) in Op::all() {
            slots.push(match module.getattr_opt(op)? {
                Some(function) => Some(Slot {
                    function: function.unbind(),
                    numbers: numbers.contains(op)?,
                    plain: plain(op)?.map(|p| p.function),
                }),
                None => None,
            });
        }
        slots.push(None);
        let own = module.getattr("DTYPES")?;
        let mut dtypes = [const { None }; 15];
        let names = PyDict::new(py);
        for dtype in DType::ALL {
            if own.contains(dtype.name())? {
                dtypes[dtype as usize] = Some(own.get_item(dtype.name())?.unbind());
            }
        }
        match module.getattr_opt("NAMES")? {
            Some(pairs) => {
                for pair in pairs.call_method0("items")?.try_iter()? {
                    let (object, word): (Bound<'_, PyAny>, String) = pair?.extract()?;
                    if let Ok(dtype) = word.parse::<DType>() {
                        names.set_item(object, dtype as u8)?;
                    }
                }
            }
            None => {
                for dtype in DType::ALL {
                    if let Some(object) = &dtypes[dtype as usize] {
                        names.set_item(object, dtype as u8)?;
                    }
                }
            }
        }
        let mut numberless = [false; 15];
        if let Some(words) = module.getattr_opt("NUMBERLESS")? {
            for dtype in DType::ALL {
                numberless[dtype as usize] = words.contains(dtype.name())?;
            }
        }
        let arrays = module.getattr("ARRAYS")?.cast_into::<PyTuple>()?;
        let optional = |what: &str| -> PyResult<Option<Py<PyAny>>> {
            Ok(module.getattr_opt(what)?.map(Bound::unbind))
        };
        Ok(Loaded {
            name,
            slots: slots.into(),
            dtypes,
            names: names.unbind(),
            array: arrays.get_item(0)?.unbind(),
            arrays: arrays.unbind(),
            version: match module.getattr_opt("VERSION")? {
                Some(v) => v.to_string(),
                None => String::new(),
            },
            from_bytes: module.getattr("from_bytes")?.unbind(),
            to_bytes: module.getattr("to_bytes")?.unbind(),
            device: optional("device")?,
            from_dlpack: optional("from_dlpack")?,
            to_dlpack: optional("to_dlpack")?,
            exported: optional("exported")?,
            in_64: optional("in_64")?,
            refusals: match module.getattr_opt("REFUSALS")? {
                Some(classes) => classes.cast_into::<PyTuple>()?.unbind(),
                None => {
                    let classes = [py.get_type::<PyTypeError>(), py.get_type::<PyValueError>()];
                    PyTuple::new(py, classes)?.unbind()
                }
            },
            lazy: match module.getattr_opt("LAZY")? {
                Some(functions) => {
                    let (is_negated, is_conjugated, resolve) = functions.extract()?;
                    Some(Lazy {
                        is_negated,
                        is_conjugated,
                        resolve,
                    })
                }
                None => None,
            },
            scalar_to_array: optional("scalar_to_array")?,
            numberless,
            is_traced: optional("is_traced")?,
            plain: plain::NAMES
                .into_iter()
                .map(plain)
                .collect::<PyResult<_>>()?,
            plain_array: table.get_item("array")?.map(Bound::unbind),
            full: optional("full")?,
            module: module.clone().unbind(),
        })
    };
    whole().map_err(|e| failed(py, &format!("{name}: its module cannot be bound"), e))
}
