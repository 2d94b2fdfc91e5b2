//! Custom gradients: Python functions with VJP rules of the user.

use super::seen;
use super::{Object, on_backend};
use crate::error::{OrRaise, exception};
use crate::pytree::{Structure, called, flatten};
use clematis_core::{Kind, Result, Tensor, autodiff, ops};
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyTuple};
use std::sync::{Arc, Mutex};

/// A function with a custom gradient.
#[pyclass(frozen, name = "CustomGradient", module = "clematis", dict)]
struct CustomGradient {
    name: String,
    forward: Py<PyAny>,
    backward: Py<PyAny>,
}

/// One call: the functions, and the structure of its arguments and results.
pub struct Shaped {
    /// The name of the user's function, for errors.
    name: String,
    forward: Py<PyAny>,
    backward: Py<PyAny>,
    inputs: Structure,
    /// The number of leaves of each argument.
    counts: Vec<usize>,
    outputs: Mutex<Option<Structure>>,
}

/// Copies of what is borrowed.
pub fn owned(xs: &[&Tensor]) -> Vec<Tensor> {
    xs.iter().map(|&x| x.clone()).collect()
}

impl Shaped {
    fn outputs<R>(&self, f: impl FnOnce(&Structure) -> PyResult<R>) -> PyResult<R> {
        match &*self.outputs.lock().unwrap_or_else(|e| e.into_inner()) {
            Some(structure) => f(structure),
            None => Err(exception(Kind::Internal, "custom_vjp: nothing was run yet")),
        }
    }

    /// Runs the function and registers its rule with the framework of the arguments.
    fn forward(self: &Arc<Self>, xs: &[&Tensor]) -> Result<Vec<Tensor>> {
        match Python::attach(|py| called(py, seen::forward(py, self, xs)))? {
            Some(out) => Ok(out),
            None => self.compute(xs),
        }
    }

    /// The results.
    pub fn compute(&self, xs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let run = |py: Python<'_>| -> PyResult<Vec<Tensor>> {
            let args = self.inputs.build(py, &owned(xs), true)?;
            let out = self.forward.bind(py).call1(args.cast_into::<PyTuple>()?)?;
            let (leaves, structure) = flatten(&out)?;
            *self.outputs.lock().unwrap_or_else(|e| e.into_inner()) = Some(structure);
            let leaves = leaves.tensors.iter().map(ops::materialize);
            leaves.collect::<Result<_>>().or_raise()
        };
        Python::attach(|py| called(py, run(py)))
    }

    /// One gradient per leaf of the arguments; None means zeros.
    pub fn backward(
        &self,
        xs: &[&Tensor],
        ys: &[&Tensor],
        cts: &[Tensor],
    ) -> Result<Vec<Option<Tensor>>> {
        let run = |py: Python<'_>| -> PyResult<Vec<Option<Tensor>>> {
            let args = self.inputs.build(py, &owned(xs), true)?;
            let one = self.counts.len() == 1;
            let args = if one { args.get_item(0)? } else { args };
            let ys = self.outputs(|s| s.build(py, &owned(ys), true))?;
            let cts = self.outputs(|s| s.build(py, cts, true))?;
            let back = self.backward.bind(py).call1(((args, ys), cts))?;
            let parts: Vec<Object<'_>> = if one {
                vec![back]
            } else {
                back.try_iter()?.collect::<PyResult<_>>()?
            };
            self.gradients(&parts, xs)
        };
        Python::attach(|py| called(py, run(py)))
    }

    /// One gradient per argument, flattened to one per leaf; None means zeros.
    fn gradients(&self, parts: &[Object<'_>], xs: &[&Tensor]) -> PyResult<Vec<Option<Tensor>>> {
        if parts.len() != self.counts.len() {
            return Err(exception(
                Kind::Value,
                format!(
                    "{}: the rule gives {} gradients for {} arguments",
                    self.name,
                    parts.len(),
                    self.counts.len()
                ),
            ));
        }
        let mut all = Vec::with_capacity(xs.len());
        for (i, (part, &count)) in parts.iter().zip(&self.counts).enumerate() {
            if part.is_none() {
                all.extend((0..count).map(|_| None));
                continue;
            }
            let leaves = flatten(part)?.0.tensors;
            if leaves.len() != count {
                return Err(exception(
                    Kind::Value,
                    format!(
                        "{}: the rule gives {} gradients for the {count} tensors of argument {i}",
                        self.name,
                        leaves.len()
                    ),
                ));
            }
            for leaf in leaves {
                let x = xs[all.len()];
                if leaf.shape() != x.shape() && leaf.as_number().is_none() {
                    return Err(exception(
                        Kind::Shape,
                        format!(
                            "{}: the rule gives {} for an input of {}",
                            self.name,
                            leaf.spec(),
                            x.spec()
                        ),
                    ));
                }
                // A plain number is broadcast as the gradient.
                let fitting = ops::broadcast_to(ops::cast(&leaf, x.dtype()), x.shape());
                all.push(Some(fitting.done().or_raise()?));
            }
        }
        Ok(all)
    }
}

#[pymethods]
impl CustomGradient {
    #[pyo3(signature = (*args))]
    fn __call__<'py>(&self, py: Python<'py>, args: &Bound<'py, PyTuple>) -> PyResult<Object<'py>> {
        let args = &super::arrays(args)?;
        let (leaves, inputs) = flatten(args.as_any())?;
        let raw = inputs.is_raw();
        let counts = args
            .iter()
            .map(|x| Ok(flatten(&x)?.0.tensors.len()))
            .collect::<PyResult<_>>()?;
        let shaped = Arc::new(Shaped {
            name: self.name.clone(),
            forward: self.forward.clone_ref(py),
            backward: self.backward.clone_ref(py),
            inputs,
            counts,
            outputs: Mutex::new(None),
        });
        let name = match self.forward.bind(py).getattr_opt("__name__")? {
            Some(name) => name.to_string(),
            None => "custom_vjp".into(),
        };
        let (f, b) = (shaped.clone(), shaped.clone());
        let bound = autodiff::custom_vjp(
            &name,
            move |xs| f.forward(xs),
            move |xs, ys, cts| b.backward(xs, ys, cts),
        );
        let xs: Vec<&Tensor> = leaves.tensors.iter().collect();
        let out = on_backend(&leaves, || bound(&xs)).or_raise()?;
        shaped.outputs(|s| s.results(py, &out, raw))
    }

    #[getter]
    fn __wrapped__(&self, py: Python<'_>) -> Py<PyAny> {
        self.forward.clone_ref(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (name, f) = (&self.name, self.forward.bind(py));
        Ok(format!("clematis.{name}({}, …)", f.repr()?))
    }

    /// The arguments that rebuild it; it can be pickled if both functions can.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let (py, own) = (slf.py(), slf.get());
        let make = py
            .import("clematis._clematis")?
            .getattr("_custom_gradient")?;
        let how = (own.forward.bind(py), own.backward.bind(py), &own.name);
        (make, how, slf.getattr("__dict__")?).into_pyobject(py)
    }
}

/// Defines a custom gradient: the function `forward`, whose gradient is `backward((inputs, outputs), upstream)`: one
/// gradient per argument of `forward`, or None for zeros. With several arguments or results these are tuples. Higher
/// derivatives differentiate the rule.
#[pyfunction]
#[pyo3(signature = (forward, backward, /, *, name="custom_vjp"))]
fn custom_vjp(forward: &Object<'_>, backward: &Object<'_>, name: &str) -> PyResult<CustomGradient> {
    for f in [forward, backward] {
        if !f.is_callable() {
            let class = f.get_type();
            return Err(exception(
                Kind::DType,
                format!("{name}: a function was expected, not {}", class.name()?),
            ));
        }
    }
    Ok(CustomGradient {
        name: name.into(),
        forward: forward.clone().unbind(),
        backward: backward.clone().unbind(),
    })
}

/// The same with positional arguments; used by pickle.
#[pyfunction]
#[pyo3(signature = (forward, backward, name, /))]
fn _custom_gradient(
    forward: &Object<'_>,
    backward: &Object<'_>,
    name: &str,
) -> PyResult<CustomGradient> {
    custom_vjp(forward, backward, name)
}

/// Adds the function to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::plain_functions!(m; custom_vjp);
    m.add_function(wrap_pyfunction!(_custom_gradient, m)?)?;
    Ok(())
}
