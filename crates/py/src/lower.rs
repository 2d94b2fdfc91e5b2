//! Graphs from Python functions, and graphs as Python source in a framework's dialect.

use crate::convert::PyGraph;
use crate::error::{OrRaise, exception};
use crate::operand::{give, operand};
use crate::tensor::PyTensor;
use crate::transform::Object;
use clematis_bridge::Framework;
use clematis_convert::lower::{Dialect, lower, without_held};
use clematis_core::graph::Role;
use clematis_core::random::Key;
use clematis_core::trace::Trace;
use clematis_core::{DType, Kind, Op, Shape, Spec, Tensor, backend, ops};
use clematis_nn::functional::stream;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyModule};
use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

/// A value of a model: its path, role and value.
type Held<'py> = (String, String, Object<'py>);
/// Results, and the new values of model values by index.
type Found<'py> = (Vec<Object<'py>>, Vec<(usize, Object<'py>)>);

fn role(word: &str) -> PyResult<Role> {
    let found = Role::ALL.iter().find(|r| r.name() == word);
    let wrong = || exception(Kind::Value, format!("trace: there is no role `{word}`"));
    found.copied().ok_or_else(wrong)
}

/// Records `f(held, inputs)`, which returns results and new values of the model.
///
/// Returns the graph, the values of its last inputs, and the number of keys before those.
#[pyfunction]
fn _trace_call<'py>(
    f: &Object<'py>,
    held: Vec<Held<'py>>,
    inputs: Vec<(String, Vec<usize>)>,
) -> PyResult<(PyGraph, Bound<'py, PyList>, usize)> {
    let py = f.py();
    let values = held.iter().map(|(_, _, x)| Ok(operand("trace", x)?.tensor));
    let values: Vec<Tensor> = values.collect::<PyResult<_>>()?;
    let backend = values.iter().find_map(Tensor::backend);
    let run = || -> PyResult<(PyGraph, Bound<'py, PyList>, usize)> {
        let open = Trace::open(false);
        let lift = |spec: Spec, role: Role, name: &str| {
            PyTensor::bound(py, open.trace.input(spec, role, name))
        };
        let mut own = Vec::new();
        for ((path, word, _), x) in held.iter().zip(&values) {
            own.push(lift(x.spec().clone(), role(word)?, path)?);
        }
        let mut given = Vec::new();
        for (i, (dtype, sizes)) in inputs.iter().enumerate() {
            let dtype: DType = dtype.parse().or_raise()?;
            let spec = Spec::new(dtype, Shape::from_sizes(sizes));
            given.push(lift(spec, Role::Input, &format!("x{i}"))?);
        }
        let arguments = (PyList::new(py, own)?, PyList::new(py, given)?);
        // Each draw has a key of its own, created by the framework: folding one in here would take a hundred small ops.
        let draws = Rc::new(Cell::new(0));
        let (trace, count) = (open.trace.clone(), draws.clone());
        let source = move || {
            let words = Spec::new(DType::U32, Shape::from_sizes(&[2]));
            let name = format!("key{}", count.replace(count.get() + 1));
            Key::from_tensor(trace.input(words, Role::Key, &name))
        };
        let out = stream::with_source(source, || f.call1(arguments))?;
        let (results, updates): Found<'py> = out.extract()?;
        let new = updates.iter().map(|(_, x)| x);
        let outs = results.iter().chain(new).map(|x| {
            let x = operand("trace", x)?.tensor;
            ops::materialize(&x).or_raise()
        });
        let outs: Vec<Tensor> = outs.collect::<PyResult<_>>()?;
        let closed = Trace::close(open, &outs);
        let mut graph = closed.graph.prune();
        for (out, (at, _)) in graph.outputs[results.len()..].iter_mut().zip(&updates) {
            out.updates = Some(*at);
        }
        let constants = closed.captured.into_iter().map(|x| give(py, x, false));
        let constants = PyList::new(py, constants.collect::<PyResult<Vec<_>>>()?)?;
        let graph = Arc::new(graph);
        Ok((PyGraph { graph }, constants, draws.get()))
    };
    match backend {
        Some(backend) => backend::with(backend, run),
        None => run(),
    }
}

fn framework(name: &str) -> PyResult<&'static Framework> {
    let unknown = || {
        exception(
            Kind::Value,
            format!("lower: there is no framework `{name}`"),
        )
    };
    Framework::find(name).ok_or_else(unknown)
}

/// The module of a framework's functions, named after the ops.
#[pyfunction]
fn _dialect<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    let loaded = framework(name)?.loaded(py).or_raise()?;
    Ok(loaded.module.bind(py).clone())
}

/// Prints a graph as source: a function `name(ops, *inputs)` of a framework's functions; `refuses` may reject their
/// arguments.
#[pyfunction]
fn _lower(
    py: Python<'_>,
    graph: &PyGraph,
    framework_name: &str,
    name: &str,
    refuses: HashSet<String>,
) -> PyResult<String> {
    let loaded = framework(framework_name)?.loaded(py).or_raise()?;
    let words = |what: &str| -> PyResult<HashSet<String>> {
        match loaded.module.bind(py).getattr_opt(what)? {
            Some(set) => set.try_iter()?.map(|w| w?.extract()).collect(),
            None => Ok(HashSet::new()),
        }
    };
    let dialect = Dialect {
        has: &|op: &Op| loaded.slots.get(op.code()).is_some_and(Option::is_some),
        refuses: &refuses,
        numbers: &words("NUMBERS")?,
        numberless: &words("NUMBERLESS")?,
        asks_for_64: loaded.in_64.is_some(),
        dynamic_sizes: loaded.module.bind(py).hasattr("for_source")?,
        wraps_scalars: loaded.scalar_to_array.is_some(),
    };
    lower(&graph.graph, name, &dialect).or_raise()
}

/// A graph without ops that hold tensors, and those tensors, which become its last inputs.
#[pyfunction]
fn _without_held<'py>(py: Python<'py>, graph: &PyGraph) -> PyResult<(PyGraph, Bound<'py, PyList>)> {
    let (graph, held) = without_held(&graph.graph).or_raise()?;
    let held = held.into_iter().map(|x| give(py, x, false));
    let held = PyList::new(py, held.collect::<PyResult<Vec<_>>>()?)?;
    let graph = Arc::new(graph);
    Ok((PyGraph { graph }, held))
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_trace_call, m)?)?;
    m.add_function(wrap_pyfunction!(_dialect, m)?)?;
    m.add_function(wrap_pyfunction!(_without_held, m)?)?;
    m.add_function(wrap_pyfunction!(_lower, m)?)
}
