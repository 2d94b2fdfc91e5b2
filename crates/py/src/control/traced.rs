//! Control flow on values that a framework is tracing: uses the framework's own cond and while_loop.
//!
//! A dialect has `traced_cond(predicate, then, otherwise, xs)` and `traced_while(test, body, xs)`. The functions take the
//! framework's arrays one by one and return a tuple of them; a test returns one array.

use super::{Branches, chooser, same};
use crate::error::{OrRaise, exception};
use crate::pytree::{Leaves, Structure, called, flatten};
use crate::transform::Object;
use crate::transform::seen::{raw, tensors, word};
use clematis_bridge::array::{self, FrameworkArray};
use clematis_core::{Backend, DType, Kind, Tensor, backend, ops};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::rc::Rc;

/// A framework's own cond or while_loop.
pub struct TracedControl<'py> {
    /// The dialect's function.
    pub function: Object<'py>,
    backend: &'static dyn Backend,
}

/// The cond or while_loop of a framework that is tracing one of these values; `None` if none is, or if it has none.
pub fn traced_control<'py>(
    py: Python<'py>,
    values: &[Tensor],
    name: &str,
) -> PyResult<Option<TracedControl<'py>>> {
    for x in values {
        if let (Some(backend), Some(own)) = (x.backend(), x.data::<FrameworkArray>())
            && !backend.has_values(x)
        {
            let found = word(py, own.framework.name(), name)?;
            return Ok(found.map(|function| TracedControl { function, backend }));
        }
    }
    Ok(None)
}

impl<'py> TracedControl<'py> {
    /// Converts values to the framework's arrays; numbers become arrays.
    pub fn arrays(&self, values: &[Tensor]) -> PyResult<Bound<'py, PyTuple>> {
        let py = self.function.py();
        let each = values.iter().map(|x| {
            let x = backend::with(self.backend, || ops::materialize(x)).or_raise()?;
            match array::of(&x) {
                Some(array) => Ok(array.bind(py).clone()),
                None => Err(exception(
                    Kind::Backend,
                    format!("a branch or loop on {} with {x:?}", self.backend.name()),
                )),
            }
        });
        PyTuple::new(py, each.collect::<PyResult<Vec<_>>>()?)
    }

    /// One of our functions as the framework calls it.
    pub fn part(&self, leaves: &Leaves, f: &Object<'py>, role: Role) -> PyResult<Bound<'py, Part>> {
        let part = Part {
            role,
            function: f.clone().unbind(),
            like: leaves.clone(),
            backend: self.backend,
        };
        Bound::new(f.py(), part)
    }

    /// The results of the framework's function as leaves.
    pub fn leaves(&self, out: &Object<'py>) -> PyResult<Vec<Tensor>> {
        tensors(out)
    }
}

/// The role of a function.
pub enum Role {
    /// A branch.
    Branch(Rc<Branches>),
    /// The loop condition.
    Test(Rc<Structure>),
    /// The loop body.
    Body(Rc<Structure>),
}

/// One of our functions as the framework calls it, with its own arrays.
#[pyclass(unsendable)]
pub struct Part {
    role: Role,
    function: Py<PyAny>,
    /// Leaves of the same kinds as those that it takes.
    like: Leaves,
    backend: &'static dyn Backend,
}

#[pymethods]
impl Part {
    #[pyo3(signature = (*xs))]
    fn __call__<'py>(&self, xs: &Bound<'py, PyTuple>) -> PyResult<Object<'py>> {
        let py = xs.py();
        let mut leaves = self.like.clone();
        leaves.tensors = tensors(xs.as_any())?;
        let f = self.function.bind(py);
        backend::with(self.backend, || match &self.role {
            Role::Branch(ways) => {
                let out = ways.run(f, &leaves).or_raise()?;
                self.given(py, &out.tensors)
            }
            Role::Test(structure) => {
                let out = f.call1((structure.build(py, &leaves.tensors, true)?,))?;
                let out = chooser("while_loop", &out, |d| d == DType::Bool, "a bool")?;
                let out = ops::reshape(&out, clematis_core::Shape::scalar())
                    .done()
                    .or_raise()?;
                self.given(py, &[out])?.get_item(0)
            }
            Role::Body(structure) => {
                let run = || -> PyResult<Leaves> {
                    let out = f.call1((structure.build(py, &leaves.tensors, true)?,))?;
                    let out = flatten(&out)?.0;
                    let what = "the body changes the structure";
                    same("while_loop", what, self.like.paths(), &out)?;
                    Ok(out)
                };
                let out = called(py, run()).or_raise()?;
                self.given(py, &out.tensors)
            }
        })
    }
}

impl Part {
    fn given<'py>(&self, py: Python<'py>, out: &[Tensor]) -> PyResult<Object<'py>> {
        let out = out.iter().map(ops::materialize);
        let out = out.collect::<clematis_core::Result<Vec<_>>>().or_raise()?;
        Ok(PyTuple::new(py, raw(py, out.into_iter().map(Some))?)?.into_any())
    }
}
