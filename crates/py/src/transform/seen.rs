//! Interoperation with a framework's own autodiff: custom VJP rules, and which of its arrays are variables.
//!
//! The dialect of a framework implements it: `custom_vjp(forward, backward, xs)` runs `forward` so that the framework
//! uses `backward` as its derivative, or returns `NotImplemented` if it records nothing; `variable_like(x, y)` makes `y`
//! a variable if `x` is one. A dialect without them has no autodiff.

use super::Object;
use super::custom::{Shaped, owned};
use crate::error::{OrRaise, exception};
use clematis_bridge::Framework;
use clematis_bridge::array::{self, FrameworkArray};
use clematis_core::{Kind, Tensor, backend};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;

/// A function of a dialect, if the framework of this name has it.
pub fn word<'py>(py: Python<'py>, framework: &str, name: &str) -> PyResult<Option<Object<'py>>> {
    match Framework::find(framework) {
        Some(f) => f.loaded(py).or_raise()?.module.bind(py).getattr_opt(name),
        None => Ok(None),
    }
}

/// Runs a function with a custom VJP so that the framework of its arguments uses the rule; None if no framework records
/// the call.
pub fn forward(
    py: Python<'_>,
    rule: &Arc<Shaped>,
    xs: &[&Tensor],
) -> PyResult<Option<Vec<Tensor>>> {
    let Some(backend) = xs.iter().find(|x| x.data::<FrameworkArray>().is_some()) else {
        return Ok(None);
    };
    let name = backend.backend().map_or("", |b| b.name());
    let Some(f) = word(py, name, "custom_vjp")? else {
        return Ok(None);
    };
    let arrays: Vec<_> = xs
        .iter()
        .filter_map(|x| x.data::<FrameworkArray>())
        .collect();
    let arrays = PyTuple::new(py, arrays.iter().map(|a| a.array().bind(py)))?;
    let seen = Seen {
        rule: rule.clone(),
        xs: owned(xs),
    };
    let seen = Bound::new(py, seen)?;
    let out = f.call1((seen.getattr("forward")?, seen.getattr("backward")?, arrays))?;
    if out.is(py.NotImplemented()) {
        return Ok(None);
    }
    tensors(&out).map(Some)
}

/// One call of a function with a custom VJP, as a dialect sees it: framework arrays in and out.
#[pyclass(frozen)]
struct Seen {
    rule: Arc<Shaped>,
    /// The arguments of the call; numbers among them are not in the list of arrays.
    xs: Vec<Tensor>,
}

impl Seen {
    /// All arguments, with the arrays of the call replaced by these.
    fn arguments(&self, arrays: &Object<'_>) -> PyResult<Vec<Tensor>> {
        let mut arrays = tensors(arrays)?.into_iter();
        let all = self.xs.iter().map(|x| match x.data::<FrameworkArray>() {
            None => Ok(x.clone()),
            Some(_) => arrays
                .next()
                .ok_or_else(|| exception(Kind::Internal, "custom_vjp: an argument is missing")),
        });
        all.collect()
    }

    fn on_backend<R>(&self, f: impl FnOnce() -> R) -> R {
        match self.xs.iter().find_map(Tensor::backend) {
            Some(backend) => backend::with(backend, f),
            None => f(),
        }
    }
}

#[pymethods]
impl Seen {
    #[pyo3(signature = (*xs))]
    fn forward<'py>(&self, xs: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
        let all = self.arguments(xs.as_any())?;
        let all: Vec<&Tensor> = all.iter().collect();
        let out = self.on_backend(|| self.rule.compute(&all)).or_raise()?;
        PyTuple::new(xs.py(), raw(xs.py(), out.into_iter().map(Some))?)
    }

    /// One gradient per array among the arguments; None means zeros.
    fn backward<'py>(
        &self,
        xs: &Object<'py>,
        ys: &Object<'py>,
        cts: &Object<'py>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let (all, ys, cts) = (self.arguments(xs)?, tensors(ys)?, tensors(cts)?);
        let (all, ys): (Vec<&Tensor>, Vec<&Tensor>) = (all.iter().collect(), ys.iter().collect());
        let back = self
            .on_backend(|| self.rule.backward(&all, &ys, &cts))
            .or_raise()?;
        let of_arrays = back.into_iter().zip(&self.xs);
        let of_arrays = of_arrays.filter(|(_, x)| x.data::<FrameworkArray>().is_some());
        let exact = |x: &Tensor| !x.dtype().is_inexact();
        let back = of_arrays.map(|(back, x)| back.filter(|_| !exact(x)));
        PyTuple::new(xs.py(), raw(xs.py(), back)?)
    }
}

/// Converts a sequence of framework arrays to tensors.
pub fn tensors(arrays: &Object<'_>) -> PyResult<Vec<Tensor>> {
    let each = |x: PyResult<Object<'_>>| -> PyResult<Tensor> {
        let x = x?;
        match array::tensor(&x).or_raise()? {
            Some(tensor) => Ok(tensor),
            None => Err(exception(
                Kind::Internal,
                format!("custom_vjp: an array was expected, not {}", x.get_type()),
            )),
        }
    };
    arrays.try_iter()?.map(each).collect()
}

/// Converts tensors of a framework to its own arrays.
pub fn raw<'py>(
    py: Python<'py>,
    tensors: impl Iterator<Item = Option<Tensor>>,
) -> PyResult<Vec<Option<Object<'py>>>> {
    let each = |x: Option<Tensor>| -> PyResult<Option<Object<'py>>> {
        let Some(x) = x else { return Ok(None) };
        match array::of(&x) {
            Some(array) => Ok(Some(array.bind(py).clone())),
            None => Err(exception(
                Kind::Backend,
                format!("custom_vjp: {x:?} came out, which is not where the arguments are"),
            )),
        }
    };
    tensors.map(each).collect()
}

/// A result of the kind of array that `x` is: a variable of a framework's autodiff if `x` is one.
pub fn variable_like<'py>(x: &Object<'py>, out: Object<'py>) -> PyResult<Object<'py>> {
    let Ok(Some(tensor)) = array::tensor(x) else {
        return Ok(out);
    };
    let name = tensor.backend().map_or("", |b| b.name());
    match word(x.py(), name, "variable_like")? {
        Some(f) => f.call1((x, out)),
        None => Ok(out),
    }
}
