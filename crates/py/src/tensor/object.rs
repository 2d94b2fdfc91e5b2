//! The shortest ways into a tensor's Python object and out of it.
//!
//! PyO3 counts borrows with atomic instructions and makes objects by way of the base class, which is a third of what an op
//! on four numbers costs. Here an object's content is read where it lies. That it lies there is tried when the module is
//! loaded; if not, nothing is read here and PyO3 does everything.
#![allow(unsafe_code)]

use super::PyTensor;
use crate::error::OrRaise;
use clematis_bridge::Framework;
use clematis_bridge::array::Foreign;
use clematis_bridge::plain::{Argument, Names, ReadyElementwise, elementwise_spec};
use clematis_core::op::Takes;
use clematis_core::{Backend, Op, Outs, Repr, Result, Tensor, backend};
use pyo3::ffi::{self, PyTypeObject};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// An object of our class, as PyO3 lays it out.
#[repr(C)]
struct Object {
    head: ffi::PyObject,
    content: PyTensor,
    borrows: usize,
}

/// Our class, once objects are known to be laid out so.
static CLASS: AtomicPtr<PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());
static TRIED: AtomicBool = AtomicBool::new(false);

/// Finds out whether objects lie as expected.
#[cold]
fn attempt(made: &Bound<'_, PyTensor>) {
    TRIED.store(true, Ordering::Relaxed);
    let size = made.get_type().getattr("__basicsize__");
    let size = size.and_then(|size| size.extract::<usize>());
    let content = made
        .try_borrow()
        .map(|own| std::ptr::from_ref(&*own) as usize);
    let (Ok(size), Ok(content)) = (size, content) else {
        return;
    };
    let at = content.wrapping_sub(made.as_ptr() as usize);
    if size != size_of::<Object>() || at != std::mem::offset_of!(Object, content) {
        return;
    }
    // SAFETY: the object is as long as ours, by its class; nobody has borrowed it.
    let borrows = unsafe { (*made.as_ptr().cast::<Object>()).borrows };
    if borrows == 0 {
        CLASS.store(made.get_type_ptr(), Ordering::Release);
    }
}

/// A tensor as a Python object.
#[inline]
pub fn bound(py: Python<'_>, tensor: Tensor) -> PyResult<Bound<'_, PyTensor>> {
    let class = CLASS.load(Ordering::Acquire);
    if class.is_null() {
        let made = Bound::new(py, PyTensor { tensor })?;
        if !TRIED.load(Ordering::Relaxed) {
            attempt(&made);
        }
        return Ok(made);
    }
    // SAFETY: memory of our class, all zeros behind its head: nobody has borrowed it. What it holds is written before
    // anybody else can see it.
    unsafe {
        let made = ffi::PyType_GenericAlloc(class, 0);
        let made = Bound::from_owned_ptr_or_err(py, made)?;
        (&raw mut (*made.as_ptr().cast::<Object>()).content).write(PyTensor { tensor });
        Ok(made.cast_into_unchecked())
    }
}

/// Whether it is a tensor that can be read here.
#[inline]
pub fn is_tensor(x: &Bound<'_, PyAny>) -> bool {
    x.get_type_ptr() == CLASS.load(Ordering::Acquire)
}

/// What it holds, if it is a tensor that can be read here.
///
/// # Safety
///
/// Not to be used any more once Python may have run: `x += y` puts another in its place.
#[inline]
unsafe fn inside<'a>(x: &'a Bound<'_, PyAny>) -> Option<&'a Tensor> {
    // SAFETY: objects of the class lie like this, as was tried; the interpreter is attached, so that nobody writes.
    is_tensor(x).then(|| unsafe { &(*x.as_ptr().cast::<Object>()).content.tensor })
}

/// The framework's array in a tensor that can be read here.
#[inline]
fn foreign<'a>(x: &'a Bound<'_, PyAny>) -> Option<&'a Foreign> {
    // SAFETY: callers take hold of what they need before Python runs.
    unsafe { inside(x) }?.data::<Foreign>()
}

/// No function that a framework has as it is takes more arguments.
const PLAIN_ARGUMENTS: usize = 4;

/// A function that a framework has as it is, on tensors of its arrays; see `clematis_bridge::plain`.
#[inline(always)]
pub fn plain_tensors<'py>(
    place: usize,
    arguments: &[Argument<'_, 'py>],
    names: Names<'_, 'py>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(first) = arguments.first() else {
        return Ok(None);
    };
    // Owned: whoever runs meanwhile may put others in their places.
    let mut owned: [Option<Bound<'py, PyAny>>; PLAIN_ARGUMENTS] = [const { None }; PLAIN_ARGUMENTS];
    let Some(framework) = arrays(arguments, &mut owned) else {
        return Ok(None);
    };
    let mut arrays = [*first; PLAIN_ARGUMENTS];
    for ((x, own), array) in arguments.iter().zip(&owned).zip(&mut arrays) {
        *array = own.as_ref().map_or(*x, |own| own.as_borrowed());
    }
    // SAFETY: tensors are asked for before the framework runs, as `plain_tensors` says.
    let given = |i: usize| unsafe { inside(arguments.get(i)?) };
    let (py, arrays) = (first.py(), &arrays[..arguments.len()]);
    match framework
        .plain_tensors(py, place, arrays, names, given)
        .or_raise()?
    {
        Some(out) => Ok(Some(bound(py, out)?.into_any())),
        None => Ok(None),
    }
}

/// The arrays in the tensors among the arguments, and the framework whose they all are.
#[inline(always)]
fn arrays<'py>(
    arguments: &[Argument<'_, 'py>],
    owned: &mut [Option<Bound<'py, PyAny>>; PLAIN_ARGUMENTS],
) -> Option<&'static Framework> {
    let first = arguments.first()?;
    if arguments.len() > PLAIN_ARGUMENTS {
        return None;
    }
    let framework = foreign(first)?.home;
    for (x, own) in arguments.iter().zip(owned) {
        if is_tensor(x) {
            let found = foreign(x).filter(|x| std::ptr::eq(x.home, framework))?;
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
    let home = foreign(first)?.home;
    // SAFETY: what is prepared owns the arrays that it needs.
    unsafe {
        match operands {
            [x] => home.prepare_elementwise(x.py(), op, takes, &[inside(x)?]),
            [x, y] => home.prepare_elementwise(x.py(), op, takes, &[inside(x)?, inside(y)?]),
            _ => None,
        }
    }
}

/// An op on each element of small tensors of one element type: `None` where they are anything else.
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

/// Whether both are one backend, mostly without a look at their names.
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
    if inputs[0].data::<Foreign>().is_some() {
        return None;
    }
    let Repr::Concrete { backend: home, .. } = inputs[0].repr() else {
        return None;
    };
    for x in inputs {
        // Others have other homes, and there Python may run.
        let Repr::Concrete { backend, .. } = x.repr() else {
            return None;
        };
        if !is_same(*home, *backend) || x.dtype() != dtype || x.shape().count() > large {
            return None;
        }
    }
    // What `apply` does once it knows all this.
    let spec = elementwise_spec(op, inputs)?;
    match home.execute(op, inputs, std::slice::from_ref(&spec)) {
        Ok(Outs::One(data)) => Some(Ok(Tensor::concrete(spec, *home, data))),
        Ok(Outs::Many(_)) => None,
        Err(e) => Some(Err(e)),
    }
}
