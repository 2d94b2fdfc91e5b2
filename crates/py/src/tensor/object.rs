//! What a tensor's Python object holds, and the shortest ways to it: small calls read it where it lies.
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

/// A tensor that those read and replace who hold the interpreter, which is one thread at a time.
pub struct Slot(UnsafeCell<Tensor>);

// SAFETY: every method asks for a proof that the interpreter is held, and the module says that it needs its lock; Pythons without
// one do not load modules of the stable interface.
unsafe impl Sync for Slot {}

impl Slot {
    /// Holds a tensor.
    pub fn new(tensor: Tensor) -> Self {
        Slot(UnsafeCell::new(tensor))
    }

    /// What it holds now.
    #[inline]
    pub fn get(&self, _: Python<'_>) -> Tensor {
        // SAFETY: the interpreter is held, and to clone runs no Python.
        unsafe { &*self.0.get() }.clone()
    }

    /// Puts another tensor in its place.
    pub fn set(&self, _: Python<'_>, new: Tensor) {
        // SAFETY: the interpreter is held. Nobody reads: references into it do not outlive what runs no Python.
        let old = unsafe { std::mem::replace(&mut *self.0.get(), new) };
        // Its end may run Python, when the new one is in its place.
        drop(old);
    }
}

/// Our class, which has no subclasses.
static CLASS: AtomicPtr<PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());

/// Keeps the class, by which `is_tensor` tells tensors.
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

/// What it holds, if it is a tensor.
///
/// # Safety
///
/// Not to be used any more once Python may have run: `x += y` puts another in its place.
#[inline]
unsafe fn inside<'a>(x: &'a Bound<'_, PyAny>) -> Option<&'a Tensor> {
    // SAFETY: the class is ours; the interpreter is attached, so that nobody writes.
    is_tensor(x).then(|| unsafe { &*x.cast_unchecked::<PyTensor>().get().slot.0.get() })
}

/// The framework's array in a tensor that can be read here.
#[inline]
fn foreign<'a>(x: &'a Bound<'_, PyAny>) -> Option<&'a FrameworkArray> {
    // SAFETY: callers take hold of what they need before Python runs.
    unsafe { inside(x) }?.data::<FrameworkArray>()
}

/// No function that a framework has as it is takes more arguments.
const FAST_PATH_ARGUMENTS: usize = 4;

/// A function that a framework has as it is, on tensors of its arrays; see `clematis_bridge::fast_path`.
#[inline(always)]
pub fn fast_path_tensors<'py>(
    place: usize,
    arguments: &[Argument<'_, 'py>],
    names: Names<'_, 'py>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(first) = arguments.first() else {
        return Ok(None);
    };
    // Owned: whoever runs meanwhile may put others in their places.
    let mut owned: [Option<Bound<'py, PyAny>>; FAST_PATH_ARGUMENTS] =
        [const { None }; FAST_PATH_ARGUMENTS];
    let Some(framework) = arrays(arguments, &mut owned) else {
        return Ok(None);
    };
    let mut arrays = [*first; FAST_PATH_ARGUMENTS];
    for ((x, own), array) in arguments.iter().zip(&owned).zip(&mut arrays) {
        *array = own.as_ref().map_or(*x, |own| own.as_borrowed());
    }
    // SAFETY: tensors are asked for before the framework runs, as `fast_path_tensors` says.
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

/// The arrays in the tensors among the arguments, and the framework whose they all are.
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

/// An op on each element of tensors that live in a framework.
#[inline(always)]
pub fn prepare<'py>(
    op: &Op,
    takes: Takes,
    operands: &[&Bound<'py, PyAny>],
) -> Option<ReadyElementwise<'py>> {
    let first = operands.first()?;
    let backend = foreign(first)?.framework;
    // SAFETY: what is prepared owns the arrays that it needs.
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
    // SAFETY: the engine runs no Python, and others are left alone.
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
    // The rest is what `apply` does.
    let spec = elementwise_spec(op, inputs)?;
    // Long work lets other threads run, which may replace the inputs.
    if spec.shape.count() > large {
        return None;
    }
    match backend.execute(op, inputs, std::slice::from_ref(&spec)) {
        Ok(Outs::One(data)) => Some(Ok(Tensor::concrete(spec, *backend, data))),
        Ok(Outs::Many(_)) => None,
        Err(e) => Some(Err(e)),
    }
}
