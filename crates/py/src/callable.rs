//! The wrapper of every function that Python sees: adds `out=`, and accepts pytrees of arrays in place of arrays.
//!
//! The wrapper passes its arguments on unchanged. Only if `out=` was given or an operand is a pytree, `call_on_leaves`
//! takes over; other calls pay a few nanoseconds. The wrapped function handles neither. This file has `unsafe` because
//! PyO3 cannot create a function that carries data, is called by vectorcall, and can still be pickled by name.
#![allow(unsafe_code)]

use crate::error::{OrRaise, exception};
use crate::function::elementwise;
use crate::method;
use crate::operand::{Elementwise, direct, pytree_error_class};
use crate::panics;
use crate::tensor::object::{fast_path_tensors, is_tensor};
use crate::tree_map;
use clematis_bridge::fast_path::{self, Argument};
use clematis_core::Kind;
use pyo3::exceptions::{
    PyOverflowError, PyStopIteration, PyUnicodeDecodeError, PyUnicodeEncodeError, PyValueError,
};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyModule, PyString, PyTuple, PyType};
use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

unsafe extern "C" {
    // See `clematis_bridge::call` for why it is declared here.
    fn PyObject_Vectorcall(
        callable: *mut PyObject,
        args: *const *mut PyObject,
        nargsf: usize,
        kwnames: *mut PyObject,
    ) -> *mut PyObject;
}

/// The wrapped function, stored in the module object that is its `__self__`.
#[repr(C)]
struct WrappedFunction {
    call: ffi::PyCFunctionFastWithKeywords,
    owner: *mut PyObject,
    object: *mut PyObject,
    /// Its index among the functions with a framework fast path.
    fast_path: Option<usize>,
    /// The elementwise op that it computes.
    elementwise: Option<&'static Elementwise>,
    /// Whether it calls functions of the user, whose exceptions must not be changed.
    takes_functions: bool,
}

/// Functions that call functions of the user.
const TAKE_FUNCTIONS: [&str; 17] = [
    "grad",
    "value_and_grad",
    "jac",
    "hessian",
    "vjp",
    "jvp",
    "linearize",
    "vmap",
    "map",
    "cond",
    "switch",
    "while_loop",
    "scan",
    "custom_vjp",
    "_custom_gradient",
    "multi_head_attention",
    "checkpoint",
];

/// `tree_map::call_on_leaves` as Python sees it.
static CALL_ON_LEAVES: AtomicPtr<PyObject> = AtomicPtr::new(std::ptr::null_mut());

/// A module definition whose instances store a `WrappedFunction`.
struct Definition(ffi::PyModuleDef);
// SAFETY: Python writes to it under its own lock, we never do.
unsafe impl Sync for Definition {}
// SAFETY: as above.
unsafe impl Send for Definition {}

static DEFINITION: PyOnceLock<&'static Definition> = PyOnceLock::new();

/// The C calling convention that passes positional and keyword arguments.
const FLAGS: c_int = ffi::METH_FASTCALL | ffi::METH_KEYWORDS;

/// Adds a function to a module, with `out=` and pytrees.
pub fn add(m: &Bound<'_, PyModule>, function: Bound<'_, PyCFunction>) -> PyResult<()> {
    add_with(m, function, call)
}

/// Adds a function to a module without `out=` and pytrees: one that takes functions, or no array.
pub fn add_bare(m: &Bound<'_, PyModule>, function: Bound<'_, PyCFunction>) -> PyResult<()> {
    add_with(m, function, bare_call)
}

fn add_with(
    m: &Bound<'_, PyModule>,
    function: Bound<'_, PyCFunction>,
    door: ffi::PyCFunctionFastWithKeywords,
) -> PyResult<()> {
    let py = m.py();
    let is_bare = std::ptr::fn_addr_eq(door, bare_call as ffi::PyCFunctionFastWithKeywords);
    if CALL_ON_LEAVES.load(Ordering::Acquire).is_null() {
        let call_on_leaves = pyo3::wrap_pyfunction!(tree_map::call_on_leaves, m)?;
        CALL_ON_LEAVES.store(call_on_leaves.into_ptr(), Ordering::Release);
    }
    let name: String = function.getattr("__name__")?.extract()?;
    // SAFETY: it is a C function, by its type.
    let flags = unsafe { ffi::PyCFunction_GetFlags(function.as_ptr()) };
    if flags != FLAGS {
        // Takes any number of arguments.
        return m.add(name.as_str(), function);
    }
    let text = documentation(&function, &name, is_bare)?;
    let c = |text: String| -> PyResult<&'static CStr> {
        let text = CString::new(text)
            .map_err(|e| pyo3::exceptions::PyValueError::new_err(e.to_string()))?;
        Ok(Box::leak(text.into_boxed_c_str()))
    };
    let method = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: c(name.clone())?.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            PyCFunctionFastWithKeywords: door,
        },
        ml_flags: FLAGS,
        ml_doc: c(text)?.as_ptr(),
    }));
    // The public module name, so that the function can be pickled.
    let module = match m.name()?.to_string_lossy().strip_prefix('_') {
        Some(part @ ("linalg" | "fft" | "random" | "tree")) => format!("clematis.{part}"),
        _ => "clematis".into(),
    };
    let module = PyString::new(py, &module);
    let definition = DEFINITION.get_or_init(py, || {
        Box::leak(Box::new(Definition(ffi::PyModuleDef {
            m_base: ffi::PyModuleDef_HEAD_INIT,
            m_name: c"clematis".as_ptr(),
            m_doc: std::ptr::null(),
            m_size: size_of::<WrappedFunction>() as ffi::Py_ssize_t,
            m_methods: std::ptr::null_mut(),
            m_slots: std::ptr::null_mut(),
            m_traverse: None,
            m_clear: None,
            m_free: None,
        })))
    });
    // SAFETY: the interpreter is attached. The flags were checked above, so the pointer has the type it is cast to. The
    // definition and the method are never freed, as Python requires; neither are the function and its owner, whose
    // reference counts are incremented and never decremented. The state has `m_size` bytes for a `WrappedFunction` and
    // the alignment of malloc.
    let made = unsafe {
        let definition = &raw const definition.0;
        let state_holder = ffi::PyModule_Create2(definition.cast_mut(), ffi::PYTHON_API_VERSION);
        let state_holder = Bound::from_owned_ptr_or_err(py, state_holder)?;
        let state = ffi::PyModule_GetState(state_holder.as_ptr()).cast::<WrappedFunction>();
        let pointer = ffi::PyCFunction_GetFunction(function.as_ptr());
        let owner = ffi::PyCFunction_GetSelf(function.as_ptr());
        ffi::Py_XINCREF(owner);
        state.write(WrappedFunction {
            call: std::mem::transmute::<
                Option<ffi::PyCFunction>,
                Option<ffi::PyCFunctionFastWithKeywords>,
            >(pointer)
            .ok_or_else(|| pyo3::exceptions::PyTypeError::new_err("no function"))?,
            owner,
            object: function.into_ptr(),
            fast_path: fast_path::NAMES.into_iter().position(|own| own == name),
            takes_functions: TAKE_FUNCTIONS.contains(&name.as_str()),
            elementwise: elementwise::named(&name).map(|e| &*Box::leak(Box::new(e))),
        });
        let made = ffi::PyCFunction_NewEx(method, state_holder.as_ptr(), module.as_ptr());
        Bound::from_owned_ptr_or_err(py, made)?
    };
    if !is_bare {
        method::note_method(py, &name, &made)?;
    }
    m.add(name.as_str(), made)
}

/// Examples by function name: a line `## name`, then lines as in a Python session.
const EXAMPLES: &str = include_str!("examples.txt");

fn example(name: &str) -> Option<&'static str> {
    let head = format!("## {name}\n");
    let start = EXAMPLES.find(&head)? + head.len();
    let text = &EXAMPLES[start..];
    Some(text[..text.find("\n## ").unwrap_or(text.len())].trim_end())
}

/// The docstring of the wrapped function with an example, and with `out` in the signature.
fn documentation(function: &Bound<'_, PyCFunction>, name: &str, is_bare: bool) -> PyResult<String> {
    let signature: Option<String> = function.getattr("__text_signature__")?.extract()?;
    let text: Option<String> = function.getattr("__doc__")?.extract()?;
    let text = match (text.unwrap_or_default(), example(name)) {
        (text, Some(example)) => format!("{text}\n\n{example}"),
        (text, None) => text,
    };
    let Some(signature) = signature else {
        return Ok(text);
    };
    let open = signature.trim_end_matches(')');
    let out = match () {
        () if is_bare => "",
        () if open == "(" => "*, out=None",
        () if open.contains('*') => ", out=None",
        () => ", *, out=None",
    };
    Ok(format!("{name}{open}{out})\n--\n\n{text}"))
}

unsafe extern "C" fn call(
    slf: *mut PyObject,
    args: *const *mut PyObject,
    count: ffi::Py_ssize_t,
    names: *mut PyObject,
) -> *mut PyObject {
    // A panic must not cross into Python.
    // SAFETY: Python is attached and calls this as `called` wants to be called.
    panics::caught(|| unsafe { called(slf, args, count, names) })
}

#[inline(always)]
unsafe fn called(
    slf: *mut PyObject,
    args: *const *mut PyObject,
    count: ffi::Py_ssize_t,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: Python calls this with the module that `add` created and filled, with `count` arguments plus one per name;
    // all of them are passed on unchanged.
    unsafe {
        let wrapped = ffi::PyModule_GetState(slf).cast::<WrappedFunction>();
        if !names.is_null() && has_out(names) {
            return take_over((*wrapped).object, args, count, names);
        }
        let fast = if let Some(own) = (*wrapped).elementwise {
            if names.is_null() && count as usize == own.count {
                elementwise_call(own, args)
            } else {
                Ok(None)
            }
        } else if let Some(place) = (*wrapped).fast_path {
            framework_call(place, args, count, names)
        } else {
            Ok(None)
        };
        match fast {
            Ok(None) => {}
            Ok(Some(out)) => return out.into_ptr(),
            Err(e) => {
                e.restore(Python::assume_attached());
                name_the_call(&*wrapped, false);
                return std::ptr::null_mut();
            }
        }
        let out = ((*wrapped).call)((*wrapped).owner, args, count, names);
        if !out.is_null() {
            return out;
        }
        let tree = pytree_error_class();
        if tree.is_null() || ffi::PyErr_ExceptionMatches(tree) == 0 {
            name_the_call(&*wrapped, false);
            return out;
        }
        // An exception of this class only means that: see `operand::tree`.
        ffi::PyErr_Clear();
        take_over((*wrapped).object, args, count, names)
    }
}

/// Converts an exception that our argument parsing raised to one of ours, and names the called function where the message
/// names an inner op, which users did not write.
#[cold]
unsafe fn name_the_call(wrapped: &WrappedFunction, is_bare: bool) {
    // SAFETY: an exception is set and Python is attached, as in `call`; the function lives for ever.
    unsafe {
        let py = Python::assume_attached();
        let Some(raised) = PyErr::take(py) else {
            return;
        };
        let function = Bound::ref_from_ptr(py, &wrapped.object);
        // An exception that cannot be read is kept: it is the one that matters.
        let made = match wrapped.takes_functions {
            true => None,
            false => ours(&raised, function).unwrap_or_default(),
        };
        // An inner function that takes functions is named itself.
        if made.is_none() && !is_bare && !wrapped.takes_functions {
            let _ = renamed(&raised, function);
        }
        made.unwrap_or(raised).restore(py);
    }
}

/// Converts a Python exception that argument parsing raised to one of ours: an integer out of range, an invalid string,
/// an argument of a wrong type.
///
/// An exception from a function of the user has a traceback, and is kept.
fn ours(raised: &PyErr, function: &Bound<'_, PyAny>) -> PyResult<Option<PyErr>> {
    let py = function.py();
    if raised.traceback(py).is_some() {
        return Ok(None);
    }
    let class = raised.get_type(py);
    let is = |kinds: &[Bound<'_, PyType>]| kinds.iter().any(|kind| class.is(kind));
    let text = raised.value(py).to_string();
    if !is(&[
        py.get_type::<PyOverflowError>(),
        py.get_type::<PyStopIteration>(),
        py.get_type::<PyUnicodeEncodeError>(),
        py.get_type::<PyUnicodeDecodeError>(),
        py.get_type::<PyValueError>(),
    ]) {
        return Ok(None);
    }
    let name: String = function.getattr("__name__")?.extract()?;
    let text = if text.is_empty() {
        class.name()?.to_string()
    } else {
        text
    };
    let made = exception(Kind::Value, format!("{name}: {text}"));
    made.set_cause(py, Some(raised.clone_ref(py)));
    Ok(Some(made))
}

fn renamed(raised: &PyErr, function: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = function.py();
    let value = raised.value(py);
    if value.get_type().module()? != "clematis.errors" {
        return Ok(());
    }
    let (text,): (String,) = value.getattr("args")?.extract()?;
    let name: String = function.getattr("__name__")?.extract()?;
    let Some((inner, rest)) = text.split_once(": ") else {
        return Ok(());
    };
    let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if inner == name || !inner.chars().all(is_word) {
        return Ok(());
    }
    value.setattr("args", (format!("{name}: {rest}"),))
}

/// The same for functions without `out=` and pytrees.
unsafe extern "C" fn bare_call(
    slf: *mut PyObject,
    args: *const *mut PyObject,
    count: ffi::Py_ssize_t,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as in `call`.
    unsafe {
        let wrapped = ffi::PyModule_GetState(slf).cast::<WrappedFunction>();
        let out = ((*wrapped).call)((*wrapped).owner, args, count, names);
        if out.is_null() {
            name_the_call(&*wrapped, true);
        }
        out
    }
}

/// An elementwise op on operands that need no conversion; `None` for all others.
#[inline(always)]
unsafe fn elementwise_call<'py>(
    own: &Elementwise,
    args: *const *mut PyObject,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    // SAFETY: as in `call`: the interpreter is attached and the arguments are alive until this returns. A borrowed object
    // is just a pointer.
    let all = unsafe { std::slice::from_raw_parts(args.cast::<Argument<'_, 'py>>(), own.count) };
    match all {
        [x, ..] if !is_tensor(x) => fast_path::elementwise(&own.op, own.takes, all).or_raise(),
        [x] => direct(&own.op, own.takes, &[x]),
        [x, y] => direct(&own.op, own.takes, &[x, y]),
        _ => Ok(None),
    }
}

/// Calls the framework's own function instead, if the arguments are of the types that it takes.
#[inline(always)]
unsafe fn framework_call<'py>(
    place: usize,
    args: *const *mut PyObject,
    count: ffi::Py_ssize_t,
    names: *mut PyObject,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    // SAFETY: as in `elementwise_call`.
    let (all, names) = unsafe {
        let py = Python::assume_attached();
        let named = if names.is_null() {
            0
        } else {
            ffi::PyTuple_Size(names)
        };
        let all = args.cast::<Argument<'_, 'py>>();
        let all = std::slice::from_raw_parts(all, (count + named) as usize);
        let names = if names.is_null() {
            None
        } else {
            Some(Bound::ref_from_ptr(py, &names).cast_unchecked::<PyTuple>())
        };
        (all, names)
    };
    match all.first() {
        None => Ok(None),
        Some(x) if is_tensor(x) => fast_path_tensors(place, all, names),
        Some(_) => match fast_path::prepare(place, all, names).or_raise()? {
            Some(ready) => ready.run().or_raise(),
            None => Ok(None),
        },
    }
}

/// Whether `out` is among the keyword names.
unsafe fn has_out(names: *mut PyObject) -> bool {
    // SAFETY: `names` is a tuple of strings, as the vectorcall protocol requires.
    unsafe {
        (0..ffi::PyTuple_Size(names)).any(|i| {
            let name = ffi::PyTuple_GetItem(names, i);
            // Most names have another length, so no comparison is needed.
            ffi::PyUnicode_GetLength(name) == 3
                && ffi::PyUnicode_CompareWithASCIIString(name, c"out".as_ptr()) == 0
        })
    }
}

/// Calls `call_on_leaves` with the function in front of its arguments.
#[cold]
unsafe fn take_over(
    function: *mut PyObject,
    args: *const *mut PyObject,
    count: ffi::Py_ssize_t,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as in `call`; the slots are borrowed for as long as the caller's own.
    unsafe {
        let named = if names.is_null() {
            0
        } else {
            ffi::PyTuple_Size(names)
        };
        let mut slots = Vec::with_capacity((count + named) as usize + 1);
        slots.push(function);
        slots.extend((0..count + named).map(|i| *args.offset(i)));
        PyObject_Vectorcall(
            CALL_ON_LEAVES.load(Ordering::Acquire),
            slots.as_ptr(),
            count as usize + 1,
            names,
        )
    }
}

const _: () = assert!(align_of::<WrappedFunction>() <= align_of::<*const c_void>());
