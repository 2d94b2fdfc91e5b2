//! Compiles a graph with a framework: generates source code and passes it to the framework's compiler.
//!
//! A compiler may donate the buffers of inputs to the results that replace them (`Donation`). It gets buffers that nobody
//! else can reach, and copies of all others.

use crate::convert::PyGraph;
use crate::error::OrRaise;
use crate::transform::Object;
use clematis_bridge::Framework;
use clematis_bridge::array::FrameworkArray;
use clematis_bridge::error::{failed, own, unless_failed};
use clematis_convert::lower::without_held;
use clematis_core::{Error, Executable, Graph, Result, Spec, Tensor, backend, bail};
use clematis_passes::{Legalized, Target, legalize};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// The exception of a signal handler that ran during a program that had donated its inputs already: results are
    /// stored first.
    static LATE: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Runs signal handlers, and keeps their exception for `late`.
pub fn listen(py: Python<'_>) {
    if let Err(e) = py.check_signals() {
        LATE.set(Some(e));
    }
}

/// The exception that was kept and not yet raised.
pub fn late() -> Option<PyErr> {
    LATE.take()
}

/// Compiles a graph with a framework; None if it can only run single ops.
pub fn compile(
    framework: &'static Framework,
    graph: &Graph,
) -> Option<Result<Box<dyn Executable>>> {
    let backend = framework.as_backend()?;
    // Graphs that cannot be printed are run op by op, which reports the error if there is one.
    let (graph, held) = backend::with(backend, || without_held(graph)).ok()?;
    let target = Target::named(framework.name())?;
    let legalized = match legalize(&graph, target) {
        Ok(legalized) => legalized,
        Err(e) => return Some(Err(e)),
    };
    let outs = graph.output_specs();
    Python::attach(|py| {
        let made = || -> PyResult<Option<Lowered>> {
            let Some(prepared) = prepared(py, framework, legalized)? else {
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

/// The Python object of a compiled graph: `Prepared`.
fn prepared<'py>(
    py: Python<'py>,
    framework: &'static Framework,
    legalized: Legalized,
) -> PyResult<Option<Object<'py>>> {
    framework.loaded(py).or_raise()?;
    let graph = Arc::new(legalized.graph);
    let made = py.import("clematis._jit.frameworks")?.call_method1(
        "prepared",
        (PyGraph { graph }, framework.name(), legalized.has_unrolled),
    )?;
    Ok((!made.is_none()).then_some(made))
}

/// How a compiler donates inputs: their buffers are shared with nothing that stays alive.
struct Donation {
    /// The indices of the donated inputs.
    places: Vec<usize>,
    /// Copies arrays.
    copies: Py<PyAny>,
    /// Whether a call may fail after it has overwritten a donated input.
    is_doubtful: Py<PyAny>,
    /// Until then a call runs the compiler, in Python code that can be interrupted at any line.
    has_run: AtomicBool,
}

impl Donation {
    /// The donation of a prepared program; None if results may share memory with inputs.
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

    /// The indices of inputs that have to be copied first, because they are reachable elsewhere or because the call may
    /// fail.
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

    /// Replaces arrays that have to stay valid by copies.
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

    /// The number of inputs that a failed call has overwritten.
    fn lost(&self, inputs: &[Tensor], py: Python<'_>) -> usize {
        let is_lost = |at: &&usize| {
            let own = inputs.get(**at).and_then(|x| x.data::<FrameworkArray>());
            let gone = own.map(|own| own.as_borrowed().bind(py).call_method0("is_deleted"));
            gone.is_some_and(|gone| gone.and_then(|x| x.is_truthy()).unwrap_or(false))
        };
        self.places.iter().filter(is_lost).count()
    }
}

/// A compiled program of a framework.
struct Lowered {
    framework: &'static Framework,
    /// A function of the framework's arrays, which returns a tuple or a list of arrays.
    function: Py<PyAny>,
    /// Creates the context manager in which it is called.
    context: Option<Py<PyAny>>,
    donation: Option<Donation>,
    plan: String,
    outs: Vec<Spec>,
    /// The tensors that the graph held, which are its last inputs.
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

    /// The arguments of the function.
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

    /// Calls the function. No line of Python that could be interrupted runs before the results have arrived.
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
            // A pending signal would be raised by the first line of Python on exit.
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

    /// The exception of the function, with a note on lost inputs.
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
        // An exception that is raised unchanged does not show our notes.
        let _ = e.value(py).call_method1("add_note", (&text,));
        self.failed(py, e).note(text)
    }
}

/// Exits a context; an exception meanwhile is raised later.
fn leave(context: &Object<'_>) {
    let py = context.py();
    let out = || context.call_method1("__exit__", (py.None(), py.None(), py.None()));
    // Repeated if a signal arrived in between.
    if let Err(e) = out() {
        LATE.set(Some(e));
        let _ = out();
    }
}

impl Executable for Lowered {
    fn run(&self, inputs: &mut Vec<Tensor>) -> Result<Vec<Tensor>> {
        Python::attach(|py| {
            let kept = match &self.donation {
                // Checked before a list holds the arrays as well.
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
            // In a function that the framework traces, results are tracers.
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
