//! Import of programs captured from other frameworks, and graphs as Python objects.

use crate::error::{OrRaise, exception};
use crate::operand::{give, operand};
use crate::transform::Object;
use clematis_convert::{Program, import};
use clematis_core::dim::Bindings;
use clematis_core::graph::{Arg, Graph, Output};
use clematis_core::{Kind, Tensor};
use clematis_nn::functional::stream;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyModule};
use std::sync::Arc;

/// An op for drawings: name, operands, results.
type Drawn = (&'static str, Vec<Option<u32>>, Vec<(u32, String, usize)>);

/// A captured program. A call takes the values of its inputs in order and returns those of its outputs.
#[pyclass(name = "_Graph", module = "clematis._clematis", frozen)]
pub struct PyGraph {
    /// The graph that it runs.
    pub graph: Arc<Graph>,
}

#[pymethods]
impl PyGraph {
    /// Parses the output of `text`.
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        let graph = Arc::new(Graph::parse(text).or_raise()?);
        Ok(PyGraph { graph })
    }

    fn __call__<'py>(&self, py: Python<'py>, values: &Bound<'py, PyList>) -> PyResult<Object<'py>> {
        let values = values.iter().map(|x| Ok(operand("graph", &x)?.tensor));
        let values: Vec<Tensor> = values.collect::<PyResult<_>>()?;
        let inputs: Vec<&Tensor> = values.iter().collect();
        let outs = self.graph.call(&inputs).or_raise()?;
        let outs = outs.into_iter().map(|x| give(py, x, false));
        Ok(PyList::new(py, outs.collect::<PyResult<Vec<_>>>()?)?.into_any())
    }

    /// Name, role, element type and shape of each input.
    fn inputs(&self) -> Vec<(String, &'static str, &'static str, Vec<String>)> {
        let inputs = self.graph.inputs.iter().map(|input| {
            let spec = self.graph.spec(input.value);
            let shape = spec.shape.dims().iter().map(ToString::to_string).collect();
            let name = input.name.clone();
            (name, input.role.name(), spec.dtype.long_name(), shape)
        });
        inputs.collect()
    }

    /// For each output, the index of the input that it replaces, or None.
    fn updates(&self) -> Vec<Option<usize>> {
        let updates = |out: &Output| out.updates;
        self.graph.outputs.iter().map(updates).collect()
    }

    /// Element type and shape of each output.
    fn outputs(&self) -> Vec<(&'static str, Vec<String>)> {
        let specs = self.graph.output_specs();
        let outputs = specs.iter().map(|spec| {
            let shape = spec.shape.dims().iter().map(ToString::to_string).collect();
            (spec.dtype.long_name(), shape)
        });
        outputs.collect()
    }

    /// The same graph with a value for a symbolic dimension.
    fn bound(&self, name: &str, size: i64) -> PyResult<PyGraph> {
        let mut sizes = Bindings::default();
        sizes.bind(name, size).or_raise()?;
        let graph = Arc::new(self.graph.bind(&sizes).or_raise()?);
        Ok(PyGraph { graph })
    }

    /// The names of the ops, in order and with repetitions.
    fn ops(&self) -> Vec<&'static str> {
        self.graph.nodes.iter().map(|node| node.op.name()).collect()
    }

    /// For each op its name, the indices of its operands (None: a constant), and index, spec and bytes of its results.
    fn nodes(&self) -> Vec<Drawn> {
        let value = |arg: &Arg| match arg {
            Arg::Value(id) => Some(id.0),
            Arg::Const(_) => None,
        };
        let nodes = self.graph.nodes.iter().map(|node| {
            let args = node.args.iter().map(value).collect();
            let outs = node.outs.clone().map(|id| {
                let spec = &self.graph.values[id as usize];
                let bytes = if spec.shape.is_symbolic() {
                    0
                } else {
                    spec.bytes()
                };
                (id, spec.to_string(), bytes)
            });
            (node.op.name(), args, outs.collect())
        });
        nodes.collect()
    }

    /// The indices of the inputs and of the outputs.
    fn ends(&self) -> (Vec<u32>, Vec<Option<u32>>) {
        let outs = self.graph.outputs.iter().map(|out| match &out.arg {
            Arg::Value(id) => Some(id.0),
            Arg::Const(_) => None,
        });
        let inputs = self.graph.inputs.iter().map(|input| input.value.0);
        (inputs.collect(), outs.collect())
    }

    /// The program as text, which the constructor parses.
    fn text(&self) -> String {
        // The parser numbers values from 0, so none may be missing.
        self.graph.prune().to_string()
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Object<'py>, (String,))> {
        Ok((slf.get_type().into_any(), (slf.get().text(),)))
    }

    fn __repr__(&self) -> String {
        let (nodes, inputs) = (self.graph.nodes.len(), self.graph.inputs.len());
        format!("<graph of {nodes} ops on {inputs} inputs>")
    }
}

/// Imports a captured program: the graph, its constants, and whether it takes a key.
#[pyfunction]
fn _import_program<'py>(
    py: Python<'py>,
    text: &str,
    framework: &str,
) -> PyResult<(PyGraph, Object<'py>, bool)> {
    let program = Program::parse(text).or_raise()?;
    let made = import(&program, framework).or_raise()?;
    let constants = made.constants.into_iter().map(|x| give(py, x, false));
    let constants = PyList::new(py, constants.collect::<PyResult<Vec<_>>>()?)?;
    let graph = Arc::new(made.graph);
    Ok((PyGraph { graph }, constants.into_any(), made.draws))
}

/// The names of the ops that a capture may leave as they are.
#[pyfunction]
fn _import_rules(framework: &str) -> PyResult<Vec<&'static str>> {
    match framework {
        "torch" => Ok(clematis_convert::import::torch::names()),
        "jax" => Ok(clematis_convert::import::jax::names()),
        "tensorflow" => Ok(clematis_convert::import::tensorflow::names()),
        _ => Err(exception(
            Kind::Value,
            format!("convert: unsupported framework `{framework}`"),
        )),
    }
}

/// The words of the next key of the implicit stream.
#[pyfunction]
fn _next_key(py: Python<'_>) -> PyResult<Object<'_>> {
    give(py, stream::next_key().words().done().or_raise()?, false)
}

/// Adds the class and the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyGraph>()?;
    m.add_function(wrap_pyfunction!(_import_program, m)?)?;
    m.add_function(wrap_pyfunction!(_next_key, m)?)?;
    m.add_function(wrap_pyfunction!(_import_rules, m)?)
}
