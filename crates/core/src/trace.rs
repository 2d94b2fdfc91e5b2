//! Tracing: records the ops applied to tensors as a graph.
//!
//! A trace with values also runs each op one level below (used by `grad`); an abstract trace has no values and only
//! infers specs (used by loops and `jit`). Traces are nested by level. Differentiation is in `autodiff`.

use crate::bail;
use crate::dispatch::apply;
use crate::error::Result;
use crate::graph::{Arg, Graph, Output, Role, ScopeId, ValueId};
use crate::infer::infer;
use crate::op::Op;
use crate::outs::Outs;
use crate::precondition::Precondition;
use crate::spec::Spec;
use crate::tensor::{Repr, Tensor};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// A recording in progress.
pub struct Trace {
    level: u32,
    abstract_: bool,
    /// Whether it records one example of a batch (`vmap`).
    mapped: AtomicBool,
    /// The name of the recorded function in messages.
    name: OnceLock<String>,
    closed: AtomicBool,
    /// Prepares backward passes; only in a trace that is swept backward.
    prepare: Option<Prepare>,
    recording: Mutex<Recording>,
}

/// The backward pass of an op, prepared when the op was recorded.
pub trait Pullback: Send + Sync {
    /// The op that is recorded: it also returns residuals, as its last results.
    fn forward(&self) -> &Op;
    /// The number of results without residuals.
    fn results(&self) -> usize;
    /// The cotangents of the operands, from operands, results with residuals, and cotangents of the results.
    fn pull(
        &self,
        xs: &[&Tensor],
        ys: &[&Tensor],
        cts: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>>;
}

/// Prepares the backward pass of an op from its operands in the recording and their values; `None` for ops whose
/// derivative rule needs no residuals.
pub type Prepare = fn(&Trace, &Op, &[Arg], &[&Tensor]) -> Result<Option<Arc<dyn Pullback>>>;

/// The recording so far.
#[derive(Default)]
pub struct Recording {
    /// The graph.
    pub graph: Graph,
    /// The concrete value of each graph value, one level below; empty in an abstract trace.
    pub values: Vec<Tensor>,
    /// Prepared backward passes, by node, in ascending order.
    pub pullbacks: Vec<(usize, Arc<dyn Pullback>)>,
    /// Preconditions to check when the program runs.
    deferred: Vec<DeferredCheck>,
}

/// A precondition on a value that is not known yet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeferredCheck {
    /// The value.
    pub value: ValueId,
    /// The condition.
    pub precondition: Precondition,
    /// Whether the value is a summary instead of the operand itself.
    pub is_summary: bool,
}

/// A finished recording of an abstract trace.
pub struct Closed {
    /// The graph; captured tensors have become inputs after its own.
    pub graph: Graph,
    /// The captured tensors, in order.
    pub captured: Vec<Tensor>,
}

thread_local! {
    static LEVEL: Cell<u32> = const { Cell::new(0) };
    /// Open abstract traces on this thread: creation ops are recorded in the innermost.
    static ABSTRACT: RefCell<Vec<Arc<Trace>>> = const { RefCell::new(Vec::new()) };
    static SCOPE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a trace open; closes it when dropped, also when unwinding.
pub struct Open {
    /// The trace.
    pub trace: Arc<Trace>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.trace.closed.store(true, Ordering::Relaxed);
        LEVEL.set(LEVEL.get().saturating_sub(1));
        if self.trace.abstract_ {
            ABSTRACT.with_borrow_mut(|open| open.retain(|t| !Arc::ptr_eq(t, &self.trace)));
        }
    }
}

impl Trace {
    /// Opens a trace above all open traces of this thread.
    pub fn open(with_values: bool) -> Open {
        Trace::open_with(with_values, None)
    }

    /// Opens a trace with values that is going to be swept backward.
    pub fn open_reverse(prepare: Prepare) -> Open {
        Trace::open_with(true, Some(prepare))
    }

    fn open_with(with_values: bool, prepare: Option<Prepare>) -> Open {
        let level = LEVEL.get() + 1;
        LEVEL.set(level);
        let trace = Arc::new(Trace {
            level,
            abstract_: !with_values,
            mapped: AtomicBool::new(false),
            name: OnceLock::new(),
            closed: AtomicBool::new(false),
            prepare,
            recording: Mutex::default(),
        });
        if !with_values {
            ABSTRACT.with_borrow_mut(|open| open.push(trace.clone()));
        }
        Open { trace }
    }

    /// Nesting depth.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Whether it is abstract (has no values).
    pub fn is_abstract(&self) -> bool {
        self.abstract_
    }

    /// Marks that it records one example of a batch.
    pub fn set_mapped(&self) {
        self.mapped.store(true, Ordering::Relaxed);
    }

    /// Whether it records one example of a batch.
    pub fn is_mapped(&self) -> bool {
        self.mapped.load(Ordering::Relaxed)
    }

    /// Sets the name of the recorded function in messages; the first name is kept.
    pub fn set_name(&self, name: impl Into<String>) {
        let _ = self.name.set(name.into());
    }

    /// The name of the recorded function in messages.
    pub fn name(&self) -> &str {
        self.name
            .get()
            .map_or("the traced function", String::as_str)
    }

    /// Whether its function has returned.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// The innermost open abstract trace on this thread.
    pub fn innermost_abstract() -> Option<Arc<Trace>> {
        ABSTRACT.with_borrow(|open| open.last().cloned())
    }

    /// The recording so far.
    pub fn recording(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds an input with its value one level below.
    pub fn lift(self: &Arc<Self>, value: &Tensor) -> Tensor {
        let mut r = self.recording();
        let id = r.graph.input(value.spec().clone(), Role::Input, "");
        r.values.push(value.clone());
        self.tensor(value.spec().clone(), id, Some(value.clone()))
    }

    /// Adds an input without a value.
    pub fn input(self: &Arc<Self>, spec: Spec, role: Role, name: &str) -> Tensor {
        let id = self.recording().graph.input(spec.clone(), role, name);
        self.tensor(spec, id, None)
    }

    fn tensor(self: &Arc<Self>, spec: Spec, id: ValueId, value: Option<Tensor>) -> Tensor {
        Tensor::new(
            spec,
            Repr::Traced {
                trace: self.clone(),
                id,
                value,
            },
        )
    }

    fn arg(self: &Arc<Self>, x: &Tensor) -> Arg {
        match x.repr() {
            Repr::Traced { trace, id, .. } if Arc::ptr_eq(trace, self) => Arg::Value(*id),
            _ => Arg::Const(x.clone()),
        }
    }

    /// Defers the check of a precondition to the run of the program.
    pub fn defer(&self, check: DeferredCheck) {
        let mut r = self.recording();
        if !r.deferred.contains(&check) {
            r.deferred.push(check);
        }
    }

    /// Removes and returns the deferred checks.
    pub fn take_deferred(&self) -> Vec<DeferredCheck> {
        std::mem::take(&mut self.recording().deferred)
    }

    /// The tracer of a value of an abstract trace.
    pub fn tensor_of(self: &Arc<Self>, id: ValueId) -> Tensor {
        let spec = self.recording().graph.spec(id).clone();
        self.tensor(spec, id, None)
    }

    /// Whether a value is an input of an outermost trace.
    pub fn is_outermost_input(&self, id: ValueId) -> bool {
        self.level == 1 && self.recording().graph.inputs.iter().any(|i| i.value == id)
    }

    /// The id of a tensor in this trace, if it is one of its tracers.
    pub fn id_of(self: &Arc<Self>, x: &Tensor) -> Option<ValueId> {
        match self.arg(x) {
            Arg::Value(id) => Some(id),
            Arg::Const(_) => None,
        }
    }

    /// Records an op. A trace with values also runs it one level below.
    pub fn record(self: &Arc<Self>, op: &Op, inputs: &[&Tensor]) -> Result<Outs<Tensor>> {
        if self.is_closed() {
            bail!(
                Trace,
                "{}: leaked tracer: an operand outlived {}; return it from there instead",
                op.name(),
                self.name()
            );
        }
        let args: SmallVec<[Arg; 3]> = inputs.iter().map(|x| self.arg(x)).collect();
        if self.abstract_ {
            let specs: SmallVec<[&Spec; 4]> = inputs.iter().map(|x| x.spec()).collect();
            let out = infer(op, &specs)?;
            let mut r = self.recording();
            let scope = current_scope(&mut r.graph);
            let ids = r.graph.node(op.clone(), args, out.as_slice(), scope);
            drop(r);
            let mut ids = ids.map(ValueId);
            return Ok(out.map(|spec| {
                let id = ids.next().unwrap_or(ValueId(u32::MAX));
                self.tensor(spec, id, None)
            }));
        }
        // With values, a composite without a derivative rule is expanded, so that nothing is computed twice.
        if op.expands_under_grad() {
            return op.expand(inputs);
        }
        let below: SmallVec<[&Tensor; 4]> = inputs
            .iter()
            .map(|x| match x.repr() {
                Repr::Traced {
                    trace,
                    value: Some(value),
                    ..
                } if Arc::ptr_eq(trace, self) => value,
                _ => *x,
            })
            .collect();
        let pullback = match self.prepare {
            Some(prepare) => prepare(self, op, &args, &below)?,
            None => None,
        };
        let op = pullback.as_ref().map_or(op, |p| p.forward());
        let mut outs = apply(op, &below)?;
        let mut r = self.recording();
        let specs: Vec<Spec> = outs.as_slice().iter().map(|t| t.spec().clone()).collect();
        let scope = current_scope(&mut r.graph);
        let mut ids = r.graph.node(op.clone(), args, &specs, scope).map(ValueId);
        r.values.extend_from_slice(outs.as_slice());
        if let Some(pullback) = pullback {
            outs.truncate(pullback.results());
            let node = r.graph.nodes.len() - 1;
            r.pullbacks.push((node, pullback));
        }
        drop(r);
        Ok(outs.map(|value| {
            let id = ids.next().unwrap_or(ValueId(u32::MAX));
            self.tensor(value.spec().clone(), id, Some(value))
        }))
    }

    /// Ends an abstract trace: sets its outputs and turns every captured tensor into an input.
    pub fn close(open: Open, outputs: &[Tensor]) -> Closed {
        let trace = open.trace.clone();
        drop(open);
        let mut graph = std::mem::take(&mut trace.recording().graph);
        graph.outputs = outputs
            .iter()
            .map(|t| Output {
                arg: trace.arg(t),
                updates: None,
            })
            .collect();
        let captured = capture(&mut graph);
        Closed { graph, captured }
    }
}

/// Turns all constant tensors of a graph into inputs; numbers stay.
fn capture(graph: &mut Graph) -> Vec<Tensor> {
    let mut captured: Vec<(Tensor, ValueId)> = Vec::new();
    let mut nodes = std::mem::take(&mut graph.nodes);
    let mut outputs = std::mem::take(&mut graph.outputs);
    let args = nodes
        .iter_mut()
        .flat_map(|n| n.args.iter_mut())
        .chain(outputs.iter_mut().map(|o| &mut o.arg));
    for arg in args {
        let Arg::Const(t) = arg else { continue };
        if matches!(t.repr(), Repr::Scalar { .. }) {
            continue;
        }
        let id = match captured.iter().find(|(seen, _)| seen.same(t)) {
            Some((_, id)) => *id,
            None => {
                let id = graph.input(t.spec().clone(), Role::Constant, "");
                captured.push((t.clone(), id));
                id
            }
        };
        *arg = Arg::Value(id);
    }
    graph.nodes = nodes;
    graph.outputs = outputs;
    captured.into_iter().map(|(t, _)| t).collect()
}

/// Runs `f` inside a named module: recorded nodes carry its path, and errors mention it.
pub fn scope<R>(name: &str, f: impl FnOnce() -> Result<R>) -> Result<R> {
    SCOPE.with_borrow_mut(|s| s.push(name.to_string()));
    let result = f();
    let path = SCOPE.with_borrow(|s| s.join("."));
    SCOPE.with_borrow_mut(|s| s.pop());
    result.map_err(|e| {
        // Only the innermost module is mentioned: its path includes the outer ones.
        if e.notes().iter().any(|n| n.starts_with("in ")) {
            e
        } else {
            e.note(format!("in {path}"))
        }
    })
}

fn current_scope(graph: &mut Graph) -> ScopeId {
    SCOPE.with_borrow(|s| {
        if s.is_empty() {
            return ScopeId(0);
        }
        if graph.scopes.is_empty() {
            graph.scopes.push(String::new());
        }
        let path = s.join(".");
        let at = graph
            .scopes
            .iter()
            .rposition(|p| *p == path)
            .unwrap_or_else(|| {
                graph.scopes.push(path);
                graph.scopes.len() - 1
            });
        ScopeId(at as u32)
    })
}

/// Traces `f` abstractly on inputs of these specs.
pub fn trace(specs: &[Spec], f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Closed> {
    let open = Trace::open(false);
    let inputs: Vec<Tensor> = specs
        .iter()
        .map(|s| open.trace.input(s.clone(), Role::Input, ""))
        .collect();
    let outputs = f(&inputs)?;
    Ok(Trace::close(open, &outputs))
}

impl Op {
    /// Whether a trace with values records the op's expansion instead of the op.
    fn expands_under_grad(&self) -> bool {
        match self {
            Op::Call(_) => !self.has_rule(),
            Op::Custom(c) => !(c.0.has_vjp() || c.0.has_jvp()),
            _ => false,
        }
    }
}
