//! The cost of a call.

use crate::error::OrRaise;
use crate::pytree::flatten;
use crate::transform::Object;
use clematis_core::graph::Role;
use clematis_core::trace::Trace;
use clematis_core::{Repr, Tensor, backend};
use clematis_nn::cost;
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyTuple};

/// Counts the operations of `f(*args, **kwargs)` by tracing it on abstract values.
#[pyfunction]
fn _flops<'py>(f: &Object<'py>, args: &Object<'py>, kwargs: &Object<'py>) -> PyResult<u64> {
    let py = f.py();
    let (leaves, structure) = flatten(PyTuple::new(py, [args, kwargs])?.as_any())?;
    let run = || -> PyResult<u64> {
        let open = Trace::open(false);
        let inputs: Vec<Tensor> = leaves
            .tensors
            .iter()
            .map(|x| match x.repr() {
                // Numbers are constants of the program.
                Repr::Scalar { .. } => x.clone(),
                _ => open.trace.input(x.spec().clone(), Role::Input, ""),
            })
            .collect();
        let given = structure.build(py, &inputs, true)?;
        let (out, _) = flatten(&f.call1(given.cast_into::<PyTuple>()?)?)?;
        cost::flops(&Trace::close(open, &out.tensors).graph).or_raise()
    };
    match leaves.backend() {
        Some(backend) => backend::with(backend, run),
        None => run(),
    }
}

/// Adds the function to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_flops, m)?)
}
