//! Tracing and running compiled functions: the Rust half of `cm.jit`.
//!
//! This file records functions, runs programs and computes cache keys. The state of modules and optimizers, and messages
//! to users, are handled in Python (`clematis/_jit`).

mod compile;
mod flat;

use crate::convert::PyGraph;
use crate::error::{OrRaise, exception};
use crate::function::random::PyKey;
use crate::operand::{give, operand};
use crate::tensor::PyTensor;
use crate::transform::Object;
// Linked so that their compilers and optimization passes are registered.
use clematis_compile as _;
use clematis_core::graph::Role;
use clematis_core::jit::{Program, Recorder, has_values};
use clematis_core::pass::Options;
use clematis_core::random::Key;
use clematis_core::trace::Trace;
use clematis_core::{Backend, Kind, Repr, Tensor, backend, interrupt, ops};
use clematis_passes as _;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyModule};
use std::sync::Arc;

/// Creates inputs of the program that is being recorded.
#[pyclass(unsendable, name = "_Lift")]
struct Lift {
    trace: Arc<Trace>,
}

#[pymethods]
impl Lift {
    /// Adds an input with the dtype and shape of an array.
    fn __call__<'py>(&self, x: &Object<'py>, role: &str, name: &str) -> PyResult<Object<'py>> {
        let role = Role::ALL.iter().find(|r| r.name() == role);
        let role = role.copied().unwrap_or(Role::Input);
        if let Ok(key) = x.cast::<PyKey>() {
            let words = key.get().0.words().done().or_raise()?;
            let input = self.trace.input(words.spec().clone(), role, name);
            let key = PyKey(Key::from_tensor(input));
            return Ok(Bound::new(x.py(), key)?.into_any());
        }
        let like = operand("jit", x)?.tensor;
        let input = self.trace.input(like.spec().clone(), role, name);
        Ok(PyTensor::bound(x.py(), input)?.into_any())
    }

    /// Whether a tensor belongs to this recording.
    fn owns(&self, x: &Object<'_>) -> bool {
        match x.cast::<PyTensor>() {
            Ok(x) => match PyTensor::of(x).repr() {
                Repr::Traced { trace, .. } => Arc::ptr_eq(trace, &self.trace),
                _ => false,
            },
            Err(_) => false,
        }
    }

    /// The index of a tensor among the values of this recording; None if it is not one of them.
    fn number(&self, x: &Object<'_>) -> Option<u32> {
        let x = x.cast::<PyTensor>().ok()?;
        self.trace.id_of(&PyTensor::of(x)).map(|id| id.0)
    }
}

/// Results, each with the index of the input that it replaces, or None.
type Results<'py> = Vec<(Object<'py>, Option<usize>)>;

/// A tensor of what a recorded function returns.
fn result(x: &Object<'_>) -> PyResult<Tensor> {
    match x.cast::<PyKey>() {
        Ok(key) => key.get().0.words().done().or_raise(),
        Err(_) => Ok(operand("jit", x)?.tensor),
    }
}

/// Records `f(lift)`, which returns its results and which inputs they replace.
#[pyfunction]
#[pyo3(signature = (f, name, backend, fast_math, /))]
fn _record(
    f: &Object<'_>,
    name: &str,
    backend: Option<&str>,
    fast_math: bool,
) -> PyResult<PyProgram> {
    let py = f.py();
    let record = || -> PyResult<PyProgram> {
        let recorder = Recorder::new(name);
        let trace = recorder.trace().clone();
        let lift = Bound::new(py, Lift { trace })?;
        let out: Results<'_> = recorder.run(|| f.call1((lift,)))?.extract()?;
        let outs = out.iter().map(|(x, at)| Ok((result(x)?, *at)));
        let outs = outs.collect::<PyResult<Vec<_>>>()?;
        // A framework may have one op for a formula of several; on the engine the results stay bit-identical to the
        // formula.
        let fused = backend::current().or_raise()?.name() != "native";
        let options = Options { fast_math, fused };
        let program = recorder.close(&outs, options).or_raise()?;
        Ok(PyProgram { program })
    };
    match backend {
        Some(backend) => backend::with(backend::find(backend).or_raise()?, record),
        None => record(),
    }
}

/// A recorded function.
#[pyclass(frozen, name = "_Program")]
struct PyProgram {
    program: Program,
}

impl PyProgram {
    /// Unwraps the given tensors; None if one of them is a tracer.
    fn tensors(&self, values: &Bound<'_, PyList>) -> PyResult<Option<Vec<Tensor>>> {
        let mut tensors: Vec<Tensor> = Vec::with_capacity(self.program.graph().inputs.len());
        let mut keys = Vec::new();
        for (i, x) in values.iter().enumerate() {
            if let Ok(x) = x.cast::<PyTensor>() {
                tensors.push(PyTensor::of(x));
            } else if let Ok(key) = x.cast::<PyKey>() {
                keys.push((i, key.get().0.clone()));
                tensors.push(Tensor::number(0));
            } else {
                tensors.push(operand("jit", &x)?.tensor);
            }
        }
        if !keys.is_empty() {
            // The words of a key are computed on the backend of the program.
            let backend = tensors.iter().find_map(Tensor::backend);
            for (i, key) in keys {
                tensors[i] = match backend {
                    Some(backend) => backend::with(backend, || key.words().done()),
                    None => key.words().done(),
                }
                .or_raise()?;
            }
        }
        Ok(tensors.iter().all(has_values).then_some(tensors))
    }
}

#[pymethods]
impl PyProgram {
    /// Runs the program on `values` and appends all results to `outs`, the first `count` of them as framework arrays if
    /// `raw`; false if an input is a tracer. An exception of a signal handler that runs meanwhile is raised after the
    /// results have been stored.
    ///
    /// `replaced` are the indices of inputs that this run updates and that only their owners and the list hold: their
    /// buffers are donated, and these tensors hold the results afterwards.
    fn run<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyList>,
        count: usize,
        raw: bool,
        replaced: Vec<usize>,
        outs: &Bound<'py, PyList>,
    ) -> PyResult<bool> {
        let Some(mut tensors) = self.tensors(values)? else {
            return Ok(false);
        };
        let taken = take_out(values, &replaced)?;
        let backend = tensors.iter().find_map(Tensor::backend);
        let is_foreign =
            |b: &'static dyn Backend| clematis_bridge::Framework::find(b.name()).is_some();
        let foreign = match backend {
            Some(backend) => is_foreign(backend),
            None => is_foreign(backend::current().or_raise()?),
        };
        let results = if foreign {
            self.program.run(&mut tensors)
        } else {
            crate::backend::detached(py, || self.program.run(&mut tensors))
        };
        if !taken.is_empty() {
            // Otherwise the next line of Python would raise it, before the donated inputs are replaced.
            compile::listen(py);
        }
        let late = compile::late();
        let results = match results {
            Ok(results) => results,
            Err(e) => {
                put_back(values, &taken, &tensors)?;
                return late.map_or_else(|| Err(e).or_raise(), Err);
            }
        };
        let updates = self.program.graph().outputs.iter().map(|out| out.updates);
        let updates: Vec<_> = updates
            .map(|at| at.filter(|at| taken.binary_search(at).is_ok()))
            .collect();
        put_in(values, &updates, &results)?;
        let each = results.into_iter().zip(&updates).enumerate();
        let each = each.map(|(i, (x, at))| match at {
            Some(at) => values.get_item(*at),
            None => give(py, x, raw && i < count),
        });
        let each = PyList::new(py, each.collect::<PyResult<Vec<_>>>()?)?;
        outs.set_slice(0, outs.len(), &each)?;
        late.map_or(Ok(true), Err)
    }

    /// Whether it holds no tracer of an enclosing trace.
    #[getter]
    fn lasts(&self) -> bool {
        self.program.is_cacheable()
    }

    /// The number of keys of the implicit random stream that a run takes.
    #[getter]
    fn keys(&self) -> usize {
        self.program.keys()
    }

    /// The recorded graph.
    #[getter]
    fn graph(&self) -> PyGraph {
        let graph = Arc::new(self.program.graph().clone());
        PyGraph { graph }
    }

    /// The graph that runs on a backend, and its memory plan there.
    fn explain(&self, backend_name: &str) -> PyResult<(PyGraph, String)> {
        let backend = backend::find(backend_name).or_raise()?;
        let (graph, plan) = self.program.explain(backend).or_raise()?;
        let graph = Arc::new(graph);
        Ok((PyGraph { graph }, plan))
    }
}

/// Backends whose programs update state in place.
const OVERWRITING: [&str; 2] = ["native", "jax"];

/// Takes tensors out of objects whose values are about to be replaced; returns their indices in order.
fn take_out(values: &Bound<'_, PyList>, places: &[usize]) -> PyResult<Vec<usize>> {
    let mut taken = Vec::with_capacity(places.len());
    let mut nothing = None;
    for &at in places {
        let x = values.get_item(at)?;
        let Ok(x) = x.cast::<PyTensor>() else {
            continue;
        };
        match PyTensor::of(x).repr() {
            Repr::Concrete { backend, .. } if OVERWRITING.contains(&backend.name()) => {}
            _ => continue,
        }
        // Meanwhile the object holds an empty tensor.
        let nothing = match &nothing {
            Some(nothing) => nothing,
            None => nothing.insert(empty().or_raise()?),
        };
        PyTensor::set(x, nothing.clone());
        taken.push(at);
    }
    taken.sort_unstable();
    Ok(taken)
}

/// A tensor without elements.
fn empty() -> clematis_core::Result<Tensor> {
    backend::with(backend::find("native")?, || {
        ops::from_slice(&[] as &[f32], [0usize])
    })
}

/// Puts the tensors back after an error.
fn put_back(values: &Bound<'_, PyList>, taken: &[usize], tensors: &[Tensor]) -> PyResult<()> {
    for &at in taken {
        let x = values.get_item(at)?;
        PyTensor::set(x.cast::<PyTensor>()?, tensors[at].clone());
    }
    Ok(())
}

/// Stores results in the objects that the tensors were taken out of.
fn put_in(values: &Bound<'_, PyList>, updates: &[Option<usize>], outs: &[Tensor]) -> PyResult<()> {
    for (at, out) in updates.iter().zip(outs) {
        if let Some(at) = at {
            let x = values.get_item(*at)?;
            PyTensor::set(x.cast::<PyTensor>()?, out.clone());
        }
    }
    Ok(())
}

/// Whether something is being recorded on this thread: a program or the body of a loop.
#[pyfunction]
fn _is_recording() -> bool {
    Trace::innermost_abstract().is_some()
}

/// Whether the values of an array can be read.
#[pyfunction]
fn _has_values(x: &Object<'_>) -> PyResult<bool> {
    Ok(has_values(&operand("jit", x)?.tensor))
}

/// Whether an array is that of one example inside `vmap`.
#[pyfunction]
fn _is_mapped(x: &Object<'_>) -> PyResult<bool> {
    Ok(match operand("jit", x)?.tensor.lowest().repr() {
        Repr::Traced { trace, .. } => trace.is_mapped(),
        _ => false,
    })
}

/// The same values without the derivatives that are being computed.
#[pyfunction]
fn _below<'py>(x: &Object<'py>) -> PyResult<Object<'py>> {
    give(x.py(), operand("jit", x)?.tensor.lowest().clone(), false)
}

/// Stores a result in a tensor that a program updates.
#[pyfunction]
fn _put(x: &Bound<'_, PyTensor>, value: &Bound<'_, PyTensor>) -> PyResult<()> {
    let new = PyTensor::of(value);
    PyTensor::replace(x, "jit", new)
}

/// A random key from two words that a program returned.
#[pyfunction]
fn _key_of(words: &Object<'_>) -> PyResult<PyKey> {
    let words = operand("key", words)?.tensor;
    // A program's result is concrete; a concrete key is cheap to split.
    match words.to_vec::<u32>() {
        Ok(plain) if plain.len() == 2 => Ok(PyKey(Key::new(
            u64::from(plain[0]) << 32 | u64::from(plain[1]),
        ))),
        Ok(_) => Err(exception(Kind::Value, "a key has two words")),
        Err(_) => Ok(PyKey(Key::from_tensor(words))),
    }
}

/// Adds the classes and functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    clematis_bridge::set_compiler(compile::compile);
    // Ctrl-C: Python sets a flag that has to be polled.
    interrupt::listen(crate::backend::check_signals);
    interrupt::release_by(crate::backend::released);
    m.add_class::<PyProgram>()?;
    m.add_function(wrap_pyfunction!(_record, m)?)?;
    m.add_function(wrap_pyfunction!(_is_recording, m)?)?;
    m.add_function(wrap_pyfunction!(_key_of, m)?)?;
    m.add_function(wrap_pyfunction!(_has_values, m)?)?;
    m.add_function(wrap_pyfunction!(_put, m)?)?;
    m.add_function(wrap_pyfunction!(_below, m)?)?;
    m.add_function(wrap_pyfunction!(_is_mapped, m)?)?;
    m.add_function(wrap_pyfunction!(flat::_flat, m)?)
}
