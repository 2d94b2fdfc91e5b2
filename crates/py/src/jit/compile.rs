//! A graph as a program of a framework: its source goes to the framework's own compiler.
//!
//! A compiler may write results into the memory of inputs that they replace (`Donation`). It is given what nobody else can
//! reach, and a copy of all else.

use crate::convert::PyGraph;
use crate::error::OrRaise;
use crate::transform::Object;
use clematis_bridge::Framework;
use clematis_bridge::array::FrameworkArray;
use clematis_bridge::error::{failed, own, unless_failed};
use clematis_convert::lower::without_held;
use clematis_core::{Error, Executable, Graph, Result, Spec, Tensor, backend, bail};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// What a signal raised while a program ran that had overwritten its inputs already: results are put in their places first.
    static LATE: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Looks for signals, and keeps what they raise for `late`.
pub fn listen(py: Python<'_>) {
    if let Err(e) = py.check_signals() {
        LATE.set(Some(e));
    }
}

/// What was raised meanwhile and has not been told.
pub fn late() -> Option<PyErr> {
    LATE.take()
}

/// A graph as a program of a framework; None where only single ops can run.
pub fn compile(
    framework: &'static Framework,
    graph: &Graph,
) -> Option<Result<Box<dyn Executable>>> {
    let backend = framework.as_backend()?;
    // Graphs that cannot be printed are run op by op, which reports the error where there is one.
    let (graph, held) = backend::with(backend, || without_held(graph)).ok()?;
    let graph = clematis_compile::optimize(&graph).ok()?;
    let outs = graph.output_specs();
    Python::attach(|py| {
        let made = || -> PyResult<Option<Lowered>> {
            let Some(prepared) = prepared(py, framework, graph)? else {
                return Ok(None);
            };
            Lowered::new(framework, &prepared, outs, held).map(Some)
        };
        match unless_failed(py, made()) {
            Ok(program) => {
                let program = program.flatten()?;
                Some(Ok(Box::new(program) as Box<dyn Executable>))
            }
            // Ctrl-C while a compiler ran.
            Err(e) => Some(Err(own(py, e))),
        }
    })
}

/// What Python makes of a graph: `Prepared`.
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

/// How a compiler is given memory to write results to: these share none with anything that goes on living.
struct Donation {
    /// The inputs that it overwrites.
    places: Vec<usize>,
    /// Makes copies of arrays.
    copies: Py<PyAny>,
    /// Whether a call may fail after it has overwritten something.
    is_doubtful: Py<PyAny>,
    /// Until then a call runs the compiler, in Python that can be interrupted at any line.
    has_run: AtomicBool,
}

impl Donation {
    /// What a prepared program says of it; None where results may share memory with inputs.
    fn of(prepared: &Object<'_>) -> PyResult<Option<Self>> {
        let copies = prepared.getattr("copies")?;
        if copies.is_none() {
            return Ok(None);
        }
        Ok(Some(Donation {
            places: prepared.getattr("overwrites")?.extract()?,
            copies: copies.unbind(),
            is_doubtful: prepared.getattr("is_doubtful")?.unbind(),
            has_run: AtomicBool::new(false),
        }))
    }

    /// The places of inputs that are to be copied first, because somebody else can reach them or because the call may fail.
    fn kept(&self, py: Python<'_>, inputs: &mut [Tensor]) -> PyResult<Vec<usize>> {
        let is_sure = self.has_run.load(Ordering::Relaxed)
            && !self.is_doubtful.bind(py).call0()?.is_truthy()?;
        let mut is_given = |at: usize| {
            let own = inputs.get_mut(at);
            is_sure && own.is_some_and(|x| FrameworkArray::is_uniquely_owned(x, py))
        };
        let places = self.places.iter().copied();
        Ok(places.filter(|&at| !is_given(at)).collect())
    }

    /// Puts copies in the places of arrays that are to live.
    fn spare<'py>(
        &self,
        arrays: &mut [Object<'py>],
        kept: &[usize],
        py: Python<'py>,
    ) -> PyResult<()> {
        if kept.is_empty() {
            return Ok(());
        }
        let each = PyTuple::new(py, kept.iter().map(|&at| &arrays[at]))?;
        let copies = self.copies.bind(py).call1(each)?;
        for (&at, copy) in kept.iter().zip(copies.try_iter()?) {
            arrays[at] = copy?;
        }
        Ok(())
    }

    /// How many inputs a call that failed has overwritten.
    fn lost(&self, inputs: &[Tensor], py: Python<'_>) -> usize {
        let is_lost = |at: &&usize| {
            let own = inputs.get(**at).and_then(|x| x.data::<FrameworkArray>());
            let gone = own.map(|own| own.as_borrowed().bind(py).call_method0("is_deleted"));
            gone.is_some_and(|gone| gone.and_then(|x| x.is_truthy()).unwrap_or(false))
        };
        self.places.iter().filter(is_lost).count()
    }
}

/// A program of a framework.
struct Lowered {
    framework: &'static Framework,
    /// A function of the framework's arrays, which returns a tuple or a list of them.
    function: Py<PyAny>,
    /// Makes the context that it is to be called in.
    context: Option<Py<PyAny>>,
    donation: Option<Donation>,
    plan: String,
    outs: Vec<Spec>,
    /// What the graph held, which are its last inputs.
    held: Vec<Tensor>,
}

impl Lowered {
    fn new(
        framework: &'static Framework,
        prepared: &Object<'_>,
        outs: Vec<Spec>,
        held: Vec<Tensor>,
    ) -> PyResult<Self> {
        let context = prepared.getattr("context")?;
        Ok(Lowered {
            framework,
            function: prepared.getattr("run")?.unbind(),
            context: (!context.is_none()).then(|| context.unbind()),
            donation: Donation::of(prepared)?,
            plan: prepared.getattr("plan")?.extract()?,
            outs,
            held,
        })
    }

    /// The arrays to call the function with.
    fn arrays<'py>(&self, py: Python<'py>, inputs: &[Tensor]) -> Result<Vec<Object<'py>>> {
        let mut arrays = Vec::with_capacity(inputs.len() + self.held.len());
        for x in inputs.iter().chain(&self.held) {
            let Some(own) = x.data::<FrameworkArray>() else {
                let name = self.framework.name();
                bail!(Internal, "{name}: {x:?} is an array of another framework");
            };
            let array = match &self.donation {
                Some(_) => own.as_borrowed(),
                None => own.array(),
            };
            arrays.push(array.bind(py).clone());
        }
        Ok(arrays)
    }

    /// Calls the function, without a line of Python in between that could be interrupted before results are here.
    fn call<'py>(
        &self,
        py: Python<'py>,
        mut arrays: Vec<Object<'py>>,
        kept: &[usize],
    ) -> PyResult<Bound<'py, PyTuple>> {
        let context = match &self.context {
            Some(make) => Some(make.bind(py).call0()?),
            None => None,
        };
        if let Some(context) = &context {
            context.call_method0("__enter__")?;
        }
        let run = || {
            if let Some(donation) = &self.donation {
                donation.spare(&mut arrays, kept, py)?;
            }
            self.function.bind(py).call1(PyTuple::new(py, arrays)?)
        };
        let out = run();
        if let Some(context) = &context {
            // A signal that waits would be raised by the first line of the way out.
            listen(py);
            leave(context);
        }
        match out?.cast_into::<PyTuple>() {
            Ok(tuple) => Ok(tuple),
            Err(e) => Ok(e.into_inner().cast_into::<PyList>()?.to_tuple()),
        }
    }

    fn failed(&self, py: Python<'_>, e: PyErr) -> Error {
        failed(py, &format!("jit: {}", self.framework.name()), e)
    }

    /// What the function raised, and what became of its inputs.
    fn failed_with(&self, py: Python<'_>, e: PyErr, inputs: &[Tensor]) -> Error {
        let lost = match &self.donation {
            Some(donation) => donation.lost(inputs, py),
            None => 0,
        };
        if lost == 0 {
            return self.failed(py, e);
        }
        let text = format!(
            "{lost} arrays that the program updates were overwritten before it failed, and are lost: load them again"
        );
        // An exception that is raised as it is shows no notes of ours.
        let _ = e.value(py).call_method1("add_note", (&text,));
        self.failed(py, e).note(text)
    }
}

/// Leaves a context; what is raised on the way is told later.
fn leave(context: &Object<'_>) {
    let py = context.py();
    let out = || context.call_method1("__exit__", (py.None(), py.None(), py.None()));
    // Once more if a signal came in between.
    if let Err(e) = out() {
        LATE.set(Some(e));
        let _ = out();
    }
}

impl Executable for Lowered {
    fn run(&self, inputs: &mut Vec<Tensor>) -> Result<Vec<Tensor>> {
        Python::attach(|py| {
            let kept = match &self.donation {
                // Asked before a list holds the arrays as well.
                Some(donation) => donation.kept(py, inputs),
                None => Ok(Vec::new()),
            };
            let kept = kept.map_err(|e| self.failed(py, e))?;
            let arrays = self.arrays(py, inputs)?;
            let class = arrays.first().map(|x| x.get_type());
            let outs = self.call(py, arrays, &kept);
            let outs = outs.map_err(|e| self.failed_with(py, e, inputs))?;
            if outs.len() != self.outs.len() {
                let (have, name) = (outs.len(), self.framework.name());
                bail!(Internal, "{name}: {have} results, not {}", self.outs.len());
            }
            if let Some(donation) = &self.donation {
                donation.has_run.store(true, Ordering::Relaxed);
            }
            // In a function that the framework traces, results stand for arrays.
            let is_array = |x: &Object<'_>| class.as_ref().is_some_and(|c| x.get_type().is(c));
            let each = outs.iter().zip(&self.outs).map(|(x, spec)| {
                let is_new = self.donation.is_some() && is_array(&x);
                self.framework.tensor(x, spec.clone(), is_new)
            });
            each.collect()
        })
    }

    fn describe(&self) -> String {
        self.plan.clone()
    }
}
