//! ONNX import and export.

use crate::convert::PyGraph;
use crate::error::{OrRaise, exception};
use crate::operand::{give, operand};
use crate::transform::Object;
use clematis_convert::export::{model as format, onnx as writer};
use clematis_convert::identifiers::TreePaths;
use clematis_convert::import::onnx as reader;
use clematis_convert::onnx::program::Options;
use clematis_core::graph::Role;
use clematis_core::{Host, Kind, Tensor, backend, ops};
use clematis_nn::file;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyModule};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A file's bytes and its folder, or bytes alone.
fn bytes(model: &Object<'_>) -> PyResult<(Vec<u8>, Option<PathBuf>)> {
    if let Ok(bytes) = model.cast::<PyBytes>() {
        return Ok((bytes.as_bytes().to_vec(), None));
    }
    let path: PathBuf = model.extract()?;
    let read = model
        .py()
        .detach(|| file::read("from_onnx", &path))
        .or_raise()?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    };
    Ok((read, Some(folder)))
}

fn hosts(values: HashMap<String, Object<'_>>) -> PyResult<HashMap<String, Host>> {
    let host = |(name, x): (String, Object<'_>)| {
        let x = operand("from_onnx", &x)?.tensor;
        let x = ops::materialize(&x).or_raise()?;
        Ok((name, x.to_host().or_raise()?))
    };
    values.into_iter().map(host).collect()
}

/// A value of a model: its path, role and value.
type Held<'py> = (String, &'static str, Object<'py>);
/// Graph, values of the model, constants, whether it draws, names of inputs and outputs.
type Read<'py> = (
    PyGraph,
    Vec<Held<'py>>,
    Bound<'py, PyList>,
    bool,
    Vec<String>,
    Vec<String>,
);

/// Imports a model as a graph.
#[pyfunction]
fn _import_onnx<'py>(
    py: Python<'py>,
    model: &Object<'py>,
    values: HashMap<String, Object<'py>>,
    sizes: HashMap<String, i64>,
) -> PyResult<Read<'py>> {
    let (bytes, folder) = bytes(model)?;
    let values = hosts(values)?;
    let native = backend::find("native").or_raise()?;
    // Constants are folded on the built-in engine, which is always available.
    let made = py.detach(|| {
        backend::with(native, || {
            reader::import(&bytes, folder.as_deref(), &Options { values, sizes })
        })
    });
    let made = made.or_raise()?;
    drop(bytes);
    let mut held = Vec::new();
    for x in made.held {
        held.push((
            x.path,
            x.role,
            give(py, ops::from_host(x.host).or_raise()?, false)?,
        ));
    }
    let constants = made.constants.into_iter().map(|x| give(py, x, false));
    let constants = PyList::new(py, constants.collect::<PyResult<Vec<_>>>()?)?;
    let graph = Arc::new(made.graph);
    Ok((
        PyGraph { graph },
        held,
        constants,
        made.draws,
        made.inputs,
        made.outputs,
    ))
}

/// Runs a model once, on the built-in engine.
#[pyfunction]
fn _run_onnx<'py>(
    py: Python<'py>,
    model: &Object<'py>,
    inputs: HashMap<String, Object<'py>>,
) -> PyResult<Vec<(String, Object<'py>)>> {
    let (bytes, folder) = bytes(model)?;
    let inputs = hosts(inputs)?;
    let native = backend::find("native").or_raise()?;
    let outs =
        py.detach(|| backend::with(native, || reader::run(&bytes, folder.as_deref(), inputs)));
    let outs: Vec<(String, Tensor)> = outs.or_raise()?;
    outs.into_iter()
        .map(|(name, x)| Ok((name, give(py, x, false)?)))
        .collect()
}

/// The values of a graph's inputs, by index.
fn placed(what: &str, values: HashMap<usize, Object<'_>>) -> PyResult<HashMap<usize, Host>> {
    let host = |(i, x): (usize, Object<'_>)| {
        let x = operand(what, &x)?.tensor;
        Ok((i, x.to_host().or_raise()?))
    };
    values.into_iter().map(host).collect()
}

/// Saves a graph and its values as a file of our own format.
#[pyfunction]
fn _export_file(
    py: Python<'_>,
    graph: &PyGraph,
    path: PathBuf,
    values: HashMap<usize, Object<'_>>,
    inputs: Vec<String>,
    outputs: Vec<String>,
) -> PyResult<()> {
    let names = writer::Names {
        values: placed("to_file", values)?,
        inputs,
        outputs,
    };
    let graph = graph.graph.clone();
    let native = backend::find("native").or_raise()?;
    py.detach(|| backend::with(native, || format::save(&path, &graph, &names)))
        .or_raise()
}

/// Loads such a file.
#[pyfunction]
fn _import_file<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Read<'py>> {
    let (graph, mut names) = py.detach(|| format::load(&path)).or_raise()?;
    let (mut held, mut constants, mut keys) = (Vec::new(), Vec::new(), 0);
    let named = graph.inputs.iter().enumerate();
    let named = named.filter(|(i, input)| names.values.contains_key(i) && !input.name.is_empty());
    let named: Vec<&str> = named.map(|(_, input)| input.name.as_str()).collect();
    let mut paths = TreePaths::of(&named).into_iter();
    for (i, input) in graph.inputs.iter().enumerate() {
        keys += usize::from(input.role == Role::Key);
        let Some(host) = names.values.remove(&i) else {
            continue;
        };
        let x = give(py, ops::from_host(host).or_raise()?, false)?;
        match input.name.is_empty() {
            true => constants.push(x),
            false => held.push((paths.next().unwrap_or_default(), input.role.name(), x)),
        }
    }
    if keys > 1 {
        let words = "from_file: the program draws several times, which only `clematis run` can do";
        return Err(exception(Kind::Unsupported, words.to_string()));
    }
    let (inputs, outputs) = (names.inputs, names.outputs);
    let constants = PyList::new(py, constants)?;
    let graph = Arc::new(graph);
    Ok((
        PyGraph { graph },
        held,
        constants,
        keys == 1,
        inputs,
        outputs,
    ))
}

/// Exports a graph as an ONNX model; `values` are those of the inputs that a call does not pass, by index.
#[pyfunction]
fn _export_onnx(
    py: Python<'_>,
    graph: &PyGraph,
    path: PathBuf,
    values: HashMap<usize, Object<'_>>,
    inputs: Vec<String>,
    outputs: Vec<String>,
) -> PyResult<()> {
    let values = placed("to_onnx", values)?;
    let graph = graph.graph.clone();
    let native = backend::find("native").or_raise()?;
    let written = py.detach(|| {
        let names = writer::Names {
            values,
            inputs,
            outputs,
        };
        let model = backend::with(native, || writer::export(&graph, &names))?;
        file::replace("to_onnx", &path, |file| {
            model.write(&mut std::io::BufWriter::new(file))
        })
    });
    written.or_raise()
}

/// The names of the supported ops.
#[pyfunction]
fn _onnx_ops() -> Vec<&'static str> {
    reader::names()
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_import_onnx, m)?)?;
    m.add_function(wrap_pyfunction!(_run_onnx, m)?)?;
    m.add_function(wrap_pyfunction!(_export_onnx, m)?)?;
    m.add_function(wrap_pyfunction!(_export_file, m)?)?;
    m.add_function(wrap_pyfunction!(_import_file, m)?)?;
    m.add_function(wrap_pyfunction!(_onnx_ops, m)?)
}
