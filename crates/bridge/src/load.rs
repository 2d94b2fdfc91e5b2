//! Loads a dialect: executes it and binds its functions by op code.

use crate::dialect_fast_paths::{FastPath, NAMES};
use crate::error::{failed, is_own, own, unless_failed};
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
    /// The dialect's function.
    pub function: Py<PyAny>,
    /// Whether it accepts plain Python numbers as operands.
    pub numbers: bool,
    /// The framework's own function, which computes the same on the usual floats.
    pub fast_path: Option<Py<PyAny>>,
}

/// Lazy views, whose memory does not hold their values: torch's conjugated and negated views.
pub struct Lazy {
    /// Whether an array is lazily negated.
    pub is_negated: Py<PyAny>,
    /// Whether it is lazily conjugated.
    pub is_conjugated: Py<PyAny>,
    /// Materializes the view.
    pub resolve: Py<PyAny>,
}

/// An imported framework with its bound dialect.
pub struct Loaded {
    /// The backend's name.
    pub name: &'static str,
    /// Functions by op code.
    pub slots: Box<[Option<Slot>]>,
    /// The framework's dtype objects by our dtypes.
    pub dtypes: [Option<Py<PyAny>>; 15],
    /// Our dtypes, as numbers, by the framework's dtype objects.
    pub names: Py<PyDict>,
    /// The classes of its arrays.
    pub arrays: Py<PyTuple>,
    /// The first of them.
    pub array: Py<PyAny>,
    /// Its version.
    pub version: String,
    pub from_bytes: Py<PyAny>,
    pub to_bytes: Py<PyAny>,
    /// Returns an array's device; without it, arrays are on the CPU.
    pub device: Option<Py<PyAny>>,
    pub from_dlpack: Option<Py<PyAny>>,
    pub to_dlpack: Option<Py<PyAny>>,
    /// Prepares an array for export, so that other libraries may read its memory.
    pub exported: Option<Py<PyAny>>,
    /// Runs a function in 64-bit mode, for frameworks that have it off by default.
    pub in_64: Option<Py<PyAny>>,
    /// The exception classes by which its functions refuse arguments, so that the fallback is tried.
    pub refusals: Py<PyTuple>,
    /// Lazy views.
    pub lazy: Option<Lazy>,
    /// Converts a zero-dimensional result to an array, if functions return something else.
    pub scalar_to_array: Option<Py<PyAny>>,
    /// Dtypes that a plain number operand would promote.
    pub numberless: [bool; 15],
    /// Whether an array is a tracer, without values.
    pub is_traced: Option<Py<PyAny>>,
    /// The fast paths: the framework's own functions that compute the same as ours on the usual floats.
    pub fast_paths: Vec<Option<FastPath>>,
    /// Converts an object of its classes to a plain array, or returns the reason why it cannot.
    pub plain_array: Option<Py<PyAny>>,
    /// The function of the op `full`.
    pub full: Option<Py<PyAny>>,
    /// The module itself.
    pub module: Py<PyModule>,
}

/// Whether a framework's own functions compute the same as ours for this dtype.
#[inline]
pub(crate) fn is_usual(loaded: &Loaded, dtype: DType) -> bool {
    dtype == DType::F32 || dtype == DType::F64 && loaded.in_64.is_none()
}

/// Whether a dtype needs jax's 64-bit mode.
pub(crate) fn is_wide_type(dtype: DType) -> bool {
    matches!(dtype, DType::U64 | DType::I64 | DType::F64 | DType::C128)
}

/// The package of dialect modules.
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
            Kind::Framework
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
        // Both register the same LLVM options, and torch's compiler aborts the process if it is imported second.
        unless_failed(py, py.import("torch._dynamo")).map_err(|e| own(py, e))?;
    }
    py.import(dialect.package).map_err(refused)?;
    for part in dialect.parts {
        execute(py, part).map_err(refused)?;
    }
    let module = execute(py, &dialect.ops).map_err(refused)?;
    bind(py, dialect.name, &module)
}

/// The folder that dialects are read from during development, instead of those built in.
const FOLDER: &str = "CLEMATIS_DIALECTS";

/// A dialect file's text: built in, or from the development folder.
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

/// Executes a file as a module whose source tracebacks can show.
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
        let table = match module.getattr_opt("FAST_PATHS")? {
            Some(table) => table.cast_into::<PyDict>()?,
            None => PyDict::new(py),
        };
        let fast_path = |name: &str| -> PyResult<Option<FastPath>> {
            let entry = table.get_item(name)?;
            entry.map(|entry| FastPath::read(name, &entry)).transpose()
        };
        let mut slots = Vec::with_capacity(Op::count());
        for (op, _) in Op::all() {
            slots.push(match module.getattr_opt(op)? {
                Some(function) => Some(Slot {
                    function: function.unbind(),
                    numbers: numbers.contains(op)?,
                    fast_path: fast_path(op)?.map(|p| p.function),
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
            fast_paths: NAMES.into_iter().map(fast_path).collect::<PyResult<_>>()?,
            plain_array: table.get_item("array")?.map(Bound::unbind),
            full: optional("full")?,
            module: module.clone().unbind(),
        })
    };
    whole().map_err(|e| failed(py, &format!("{name}: its module cannot be bound"), e))
}
