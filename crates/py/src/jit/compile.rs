//! A graph as a program of a framework: its source goes to the framework's own compiler.

use crate::convert::PyGraph;
use crate::error::OrRaise;
use crate::transform::Object;
use clematis_bridge::Framework;
use clematis_bridge::array::Foreign;
use clematis_bridge::error::{failed, own};
use clematis_convert::lower::without_held;
use clematis_core::{Executable, Graph, Result, Spec, Tensor, backend, bail};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::sync::Arc;

/// A graph as a program of a framework; None where only single ops can run.
pub fn compile(
    framework: &'static Framework,
    graph: &Graph,
) -> Option<Result<Box<dyn Executable>>> {
    let home = framework.as_backend()?;
    // What cannot be written down is left to single ops, which say what is wrong where something is.
    let (graph, held) = backend::with(home, || without_held(graph)).ok()?;
    let graph = clematis_compile::lighter(&graph).ok()?;
    let outs = graph.output_specs();
    Python::attach(|py| {
        let function = prepared(py, framework, graph).ok()??;
        let program = Lowered {
            framework,
            function: function.unbind(),
            outs,
            held,
        };
        Some(Ok(Box::new(program) as Box<dyn Executable>))
    })
}

/// What Python makes of a graph: a function of the framework's arrays, which returns a tuple of them.
fn prepared<'py>(
    py: Python<'py>,
    framework: &'static Framework,
    graph: Graph,
) -> PyResult<Option<Object<'py>>> {
    framework.loaded(py).or_raise()?;
    let graph = Arc::new(graph);
    let made = py
        .import("clematis._jit.frameworks")?
        .call_method1("prepared", (PyGraph { graph }, framework.name()))?;
    Ok((!made.is_none()).then_some(made))
}

/// A program of a framework.
struct Lowered {
    framework: &'static Framework,
    function: Py<PyAny>,
    outs: Vec<Spec>,
    /// What the graph held, which are its last inputs.
    held: Vec<Tensor>,
}

impl Lowered {
    fn call<'py>(&self, py: Python<'py>, inputs: &[Tensor]) -> Result<Bound<'py, PyTuple>> {
        let name = self.framework.name();
        let mut arrays = Vec::with_capacity(inputs.len() + self.held.len());
        for x in inputs.iter().chain(&self.held) {
            match x.data::<Foreign>() {
                Some(own) => arrays.push(own.array.bind(py)),
                None => bail!(Internal, "{name}: {x:?} is not at home here"),
            }
        }
        let run = || -> PyResult<Bound<'py, PyTuple>> {
            let out = self.function.bind(py).call1(PyTuple::new(py, arrays)?)?;
            match out.cast_into::<PyTuple>() {
                Ok(tuple) => Ok(tuple),
                Err(e) => Ok(e.into_inner().cast_into::<PyList>()?.to_tuple()),
            }
        };
        run().map_err(|e| match e.is_instance_of::<PyException>(py) {
            true => failed(py, &format!("jit: {name}"), e),
            // Ctrl-C is no failure of the framework.
            false => own(py, e),
        })
    }
}

impl Executable for Lowered {
    fn run(&self, inputs: &mut Vec<Tensor>) -> Result<Vec<Tensor>> {
        Python::attach(|py| {
            let outs = self.call(py, inputs)?;
            if outs.len() != self.outs.len() {
                let (have, name) = (outs.len(), self.framework.name());
                bail!(Internal, "{name}: {have} results, not {}", self.outs.len());
            }
            let each = outs.iter().zip(&self.outs);
            each.map(|(x, spec)| self.framework.tensor(x, spec.clone()))
                .collect()
        })
    }

    fn describe(&self) -> String {
        Python::attach(|py| {
            let text = self.function.bind(py).getattr("clematis_plan");
            text.map_or_else(|_| self.framework.name().into(), |t| t.to_string())
        })
    }
}
