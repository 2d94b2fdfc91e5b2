//! The storage of a tensor's Python object, with fast paths for small calls.
#![allow(unsafe_code)]

use super::PyTensor;
use crate::error::OrRaise;
use clematis_bridge::Framework;
use clematis_bridge::array::FrameworkArray;
use clematis_bridge::fast_path::{Argument, Names, ReadyElementwise, elementwise_spec};
use clematis_core::op::Takes;
use clematis_core::{Backend, Op, Outs, Repr, Result, Tensor, backend};
use pyo3::ffi::PyTypeObject;
use pyo3::prelude::*;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A cell for a tensor that is read and written under the GIL, that is by one thread at a time.
pub struct Slot(UnsafeCell<Tensor>);

// SAFETY: every method takes a proof that the interpreter is attached, and the module declares that it needs the GIL;
// free-threaded Pythons do not load modules of the stable ABI.
unsafe impl Sync for Slot {}

impl Slot {
    /// Creates a cell.
    pub fn new(tensor: Tensor) -> Self {
        Slot(UnsafeCell::new(tensor))
    }

    /// The current tensor.
    #[inline]
    pub fn get(&self, _: Python<'_>) -> Tensor {
        // SAFETY: the interpreter is attached, and cloning runs no Python.
        unsafe { &*self.0.get() }.clone()
    }

    /// Replaces the tensor.
    pub fn set(&self, _: Python<'_>, new: Tensor) {
        // SAFETY: the interpreter is attached. There is no reader: references into the cell are dropped before Python can
        // run.
        let old = unsafe { std::mem::replace(&mut *self.0.get(), new) };
        // Dropping the old tensor may run Python; the new one is stored by then.
        drop(old);
    }
}

/// The Tensor class, which has no subclasses.
static CLASS: AtomicPtr<PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());

/// Stores the class, which `is_tensor` compares with.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyTensor>()?;
    let class = m.py().get_type::<PyTensor>();
    CLASS.store(class.into_ptr().cast(), Ordering::Release);
    Ok(())
}

/// Whether it is a tensor.
#[inline]
pub fn is_tensor(x: &Bound<'_, PyAny>) -> bool {
    x.get_type_ptr() == CLASS.load(Ordering::Acquire)
}

/// The tensor in the object, if it is one.
///
/// # Safety
///
/// The reference must not be used after Python may have run: `x += y` replaces the tensor.
#[inline]
unsafe fn inside<'a>(x: &'a Bound<'_, PyAny>) -> Option<&'a Tensor> {
    // SAFETY: the class was checked; the interpreter is attached, so that there is no writer.
    is_tensor(x).then(|| unsafe { &*x.cast_unchecked::<PyTensor>().get().slot.0.get() })
}

/// The framework's array in a concrete tensor.
#[inline]
fn foreign<'a>(x: &'a Bound<'_, PyAny>) -> Option<&'a FrameworkArray> {
    // SAFETY: callers clone what they need before Python runs.
    unsafe { inside(x) }?.data::<FrameworkArray>()
}

/// The maximum number of arguments of a framework fast path.
const FAST_PATH_ARGUMENTS: usize = 4;

/// A framework fast path: calls the framework's own function on the arrays of tensors; see `clematis_bridge::fast_path`.
#[inline(always)]
pub fn fast_path_tensors<'py>(
    place: usize,
    arguments: &[Argument<'_, 'py>],
    names: Names<'_, 'py>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(first) = arguments.first() else {
        return Ok(None);
    };
    // Owned: Python code that runs meanwhile may replace the tensors.
    let mut owned: [Option<Bound<'py, PyAny>>; FAST_PATH_ARGUMENTS] =
        [const { None }; FAST_PATH_ARGUMENTS];
    let Some(framework) = arrays(arguments, &mut owned) else {
        return Ok(None);
    };
    let mut arrays = [*first; FAST_PATH_ARGUMENTS];
    for ((x, own), array) in arguments.iter().zip(&owned).zip(&mut arrays) {
        *array = own.as_ref().map_or(*x, |own| own.as_borrowed());
    }
    // SAFETY: the tensors are read before the framework runs, as `fast_path_tensors` requires.
    let given = |i: usize| unsafe { inside(arguments.get(i)?) };
    let (py, arrays) = (first.py(), &arrays[..arguments.len()]);
    match framework
        .fast_path_tensors(py, place, arrays, names, given)
        .or_raise()?
    {
        Some(out) => Ok(Some(PyTensor::bound(py, out)?.into_any())),
        None => Ok(None),
    }
}

/// The arrays of the tensors among the arguments, and the framework that they all belong to.
#[inline(always)]
fn arrays<'py>(
    arguments: &[Argument<'_, 'py>],
    owned: &mut [Option<Bound<'py, PyAny>>; FAST_PATH_ARGUMENTS],
) -> Option<&'static Framework> {
    let first = arguments.first()?;
    if arguments.len() > FAST_PATH_ARGUMENTS {
        return None;
    }
    let framework = foreign(first)?.framework;
    for (x, own) in arguments.iter().zip(owned) {
        if is_tensor(x) {
            let found = foreign(x).filter(|x| std::ptr::eq(x.framework, framework))?;
            *own = Some(found.array().bind(first.py()).clone());
        }
    }
    Some(framework)
}

/// An elementwise op on tensors of a framework.
#[inline(always)]
pub fn prepare<'py>(
    op: &Op,
    takes: Takes,
    operands: &[&Bound<'py, PyAny>],
) -> Option<ReadyElementwise<'py>> {
    let first = operands.first()?;
    let backend = foreign(first)?.framework;
    // SAFETY: the prepared call owns the arrays that it needs.
    unsafe {
        match operands {
            [x] => backend.prepare_elementwise(x.py(), op, takes, &[inside(x)?]),
            [x, y] => backend.prepare_elementwise(x.py(), op, takes, &[inside(x)?, inside(y)?]),
            _ => None,
        }
    }
}

/// Runs an elementwise op on small tensors of one dtype and one backend; `None` for all other operands.
#[inline]
pub fn elementwise<'py>(
    op: &Op,
    takes: Takes,
    operands: &[&Bound<'py, PyAny>],
    large: usize,
) -> Option<Result<Tensor>> {
    // SAFETY: the engine runs no Python, and other backends are not handled here.
    unsafe {
        match operands {
            [x] => one(op, takes, &[inside(x)?], large),
            [x, y] => one(op, takes, &[inside(x)?, inside(y)?], large),
            _ => None,
        }
    }
}

/// Whether both are the same backend. Compares addresses before names.
#[inline]
fn is_same(a: &'static dyn Backend, b: &'static dyn Backend) -> bool {
    std::ptr::eq(a, b) || backend::same(a, b)
}

#[inline]
fn one(op: &Op, takes: Takes, inputs: &[&Tensor], large: usize) -> Option<Result<Tensor>> {
    let dtype = inputs[0].dtype();
    if !takes.includes(dtype) {
        return None;
    }
    if inputs[0].data::<FrameworkArray>().is_some() {
        return None;
    }
    let Repr::Concrete { backend, .. } = inputs[0].repr() else {
        return None;
    };
    for x in inputs {
        // On another backend Python may run, and operands of two backends are an error: both go through `apply`.
        let Repr::Concrete { backend: own, .. } = x.repr() else {
            return None;
        };
        if !is_same(*own, *backend) || x.dtype() != dtype || x.shape().count() > large {
            return None;
        }
    }
    // The rest is the same as in `apply`.
    let spec = elementwise_spec(op, inputs)?;
    // Long computations release the GIL, so other threads may replace the inputs.
    if spec.shape.count() > large {
        return None;
    }
    match backend.execute(op, inputs, std::slice::from_ref(&spec)) {
        Ok(Outs::One(data)) => Some(Ok(Tensor::concrete(spec, *backend, data))),
        Ok(Outs::Many(_)) => None,
        Err(e) => Some(Err(e)),
    }
}
