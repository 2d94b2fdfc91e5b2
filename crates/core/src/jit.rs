//! `jit`: functions as compiled programs, traced once per signature and cached.
//!
//! A `Program` is the result of one trace; it is compiled for a backend when it first runs there. `jit` caches
//! programs by the tree structure and the specs of the arguments. Called inside a trace, a jitted function is
//! inlined, so derivatives, `vmap` and other programs see its ops. Draws from the implicit random stream become key
//! inputs that are passed at each call.

mod cache;

pub use cache::{Cache, Stats};

use crate::backend::{self, Backend, Executable, Support};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Graph, Node, Role, ValueId};
use crate::op::Op;
use crate::ops;
use crate::pass::{self, Options};
use crate::precondition::Precondition;
use crate::random::{Key, stream};
use crate::shape::Shape;
use crate::spec::Spec;
use crate::tensor::{Repr, Tensor};
use crate::trace::{Open, Trace};
use crate::tree::{self, Path, Tree};
use crate::{bail, ensure};
use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};

/// Records a function as a program.
pub struct Recorder {
    open: Open,
    keys: Rc<RefCell<Vec<ValueId>>>,
}

impl Recorder {
    /// Starts recording; `name` is the function's name in messages.
    pub fn new(name: &str) -> Self {
        let open = Trace::open(false);
        if !name.is_empty() {
            open.trace.set_name(name);
        }
        Recorder {
            open,
            keys: Rc::default(),
        }
    }

    /// The trace in which inputs are created.
    pub fn trace(&self) -> &Arc<Trace> {
        &self.open.trace
    }

    /// Runs the function to record. Each draw from the implicit stream adds a key input.
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        let (trace, keys) = (self.open.trace.clone(), self.keys.clone());
        let source = move || {
            let words = Spec::new(DType::U32, Shape::from_sizes(&[2]));
            let name = format!("key{}", keys.borrow().len());
            let key = trace.input(words, Role::Key, &name);
            keys.borrow_mut().extend(trace.id_of(&key));
            Key::from_tensor(key)
        };
        stream::with_source(source, f)
    }

    /// Preconditions to check before and after a run. A precondition of a value that is not an input is checked on a
    /// summary, which becomes one more result.
    #[allow(clippy::type_complexity)] // two lists, named where they are kept
    fn preconditions(
        &self,
        outputs: &mut Vec<Tensor>,
    ) -> Result<(Vec<(usize, Precondition)>, Vec<Precondition>)> {
        let trace = self.trace();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for check in trace.take_deferred() {
            let keys = self.keys.borrow();
            let inputs = trace.recording().graph.inputs.clone();
            let mut given = inputs.iter().filter(|i| !keys.contains(&i.value));
            match given.position(|i| i.value == check.value) {
                Some(at) if !check.is_summary => before.push((at, check.precondition)),
                _ => {
                    let x = trace.tensor_of(check.value);
                    let summary = ops::require::summary(&x, check.precondition, check.is_summary)?;
                    outputs.push(summary);
                    after.push(check.precondition);
                }
            }
        }
        Ok((before, after))
    }

    /// Ends the recording. An output may be the new value of an input, given by index.
    pub fn close(self, outputs: &[(Tensor, Option<usize>)], options: Options) -> Result<Program> {
        let settled = outputs.iter().map(|(x, _)| ops::materialize(x));
        let mut settled = settled.collect::<Result<Vec<_>>>()?;
        let (before, after) = self.preconditions(&mut settled)?;
        let closed = Trace::close(self.open, &settled);
        let mut graph = closed.graph.prune();
        let keys = self.keys.take();
        // Pruning renumbers values, but keeps the positions of inputs.
        let is_key: Vec<bool> = closed
            .graph
            .inputs
            .iter()
            .map(|i| keys.contains(&i.value))
            .collect();
        let mut inputs: Vec<_> = graph.inputs.drain(..).zip(is_key).collect();
        let own = inputs.len() - closed.captured.len();
        // Inputs are ordered: given inputs, keys, captured tensors.
        inputs[..own].sort_by_key(|(_, is_key)| *is_key);
        graph.inputs = inputs.into_iter().map(|(input, _)| input).collect();
        for (out, (_, updates)) in graph.outputs.iter_mut().zip(outputs) {
            out.updates = *updates;
        }
        for at in outputs.iter().filter_map(|(_, updates)| *updates) {
            let Some(input) = graph.inputs.get_mut(at) else {
                bail!(
                    Internal,
                    "jit: an output updates input {at}, expected the index of an input"
                );
            };
            // An input that is updated is state, whatever its role was.
            if matches!(input.role, Role::Input | Role::Constant | Role::Frozen) {
                input.role = Role::Transient;
            }
        }
        Ok(Program {
            graph,
            keys: keys.len(),
            captured: closed.captured,
            before,
            after,
            options,
            compiled: Mutex::default(),
        })
    }
}

/// A traced function.
pub struct Program {
    graph: Graph,
    keys: usize,
    captured: Vec<Tensor>,
    /// Preconditions of inputs, by index, checked before a run.
    before: Vec<(usize, Precondition)>,
    /// Preconditions of the last results, which are summaries, checked after a run.
    after: Vec<Precondition>,
    options: Options,
    /// The compiled form for each backend that it ran on.
    compiled: Mutex<Vec<(&'static str, Arc<Compiled>)>>,
}

/// A program prepared for one backend.
struct Compiled {
    /// The graph to run.
    graph: Graph,
    /// Values of the additional last inputs, which the passes created.
    captured: Vec<Tensor>,
    /// `None`: interpreted op by op.
    executable: Option<Box<dyn Executable>>,
}

/// Whether the values of a tensor can be read: false for tracers, ours or a framework's.
pub fn has_values(x: &Tensor) -> bool {
    match x.repr() {
        Repr::Scalar { .. } => true,
        Repr::Concrete { backend, .. } => backend.has_values(x),
        Repr::Traced { .. } => false,
    }
}

impl Program {
    /// The recorded graph. Inputs: given ones, keys, captured tensors.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Number of keys that a run draws from the implicit stream.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// The captured tensors, the values of the last inputs.
    pub fn captured(&self) -> &[Tensor] {
        &self.captured
    }

    /// Number of inputs passed at each call.
    pub fn given(&self) -> usize {
        self.graph.inputs.len() - self.keys - self.captured.len()
    }

    /// Whether it captures no tracer of an enclosing trace; else it must not be cached.
    pub fn is_cacheable(&self) -> bool {
        self.captured.iter().all(has_values)
    }

    /// Runs the program on the given inputs. On an error the list is unchanged; see `Executable::run` for donation
    /// otherwise.
    pub fn run(&self, inputs: &mut Vec<Tensor>) -> Result<Vec<Tensor>> {
        let given = self.given();
        ensure!(
            inputs.len() == given,
            Value,
            "jit: expected {given} inputs, got {}",
            inputs.len()
        );
        for &(at, precondition) in &self.before {
            ops::require(&inputs[at], precondition)?;
        }
        if !self.is_cacheable() {
            // Inside an enclosing trace the ops are recorded there.
            let keys = (0..self.keys).map(|_| stream::next_key().words().done());
            let keys = keys.collect::<Result<Vec<_>>>()?;
            let all: Vec<&Tensor> = inputs.iter().chain(&keys).chain(&self.captured).collect();
            let mut out = self.graph.call(&all)?;
            self.check_results(&mut out)?;
            return Ok(out);
        }
        let backend = self.backend_of(inputs)?;
        let compiled = self.compiled(backend)?;
        backend::with(backend, || {
            for (input, x) in self.graph.inputs.iter().zip(inputs.iter_mut()) {
                let want = self.graph.spec(input.value);
                if x.as_number().is_some() && x.shape() == &want.shape {
                    *x = ops::materialize(&ops::cast(&*x, want.dtype).done()?)?;
                }
                ensure!(
                    x.spec() == want,
                    Shape,
                    "jit: expected {want} for input `{}`, got {}",
                    input.name,
                    x.spec()
                );
            }
            // If checks follow the run, a second reference to the inputs prevents their donation.
            let held = (!self.after.is_empty()).then(|| inputs.clone());
            for _ in 0..self.keys {
                inputs.push(stream::next_key().words().done()?);
            }
            inputs.extend(self.captured.iter().chain(&compiled.captured).cloned());
            let out = match &compiled.executable {
                Some(executable) => executable.run(inputs),
                None => compiled.graph.call(&inputs.iter().collect::<Vec<_>>()),
            };
            if out.is_err() {
                inputs.truncate(given);
            }
            let mut out = out?;
            if let Some(held) = held
                && let Err(e) = self.check_results(&mut out)
            {
                *inputs = held;
                return Err(e);
            }
            Ok(out)
        })
    }

    /// Removes the summaries from the results and returns an error if one violates its precondition.
    fn check_results(&self, out: &mut Vec<Tensor>) -> Result<()> {
        let own = out.len().saturating_sub(self.after.len());
        for (summary, &precondition) in out.split_off(own).iter().zip(&self.after) {
            ops::require::require_summary(summary, precondition)?;
        }
        Ok(())
    }

    /// The backend of all inputs; the current backend if no input has one.
    fn backend_of(&self, inputs: &[Tensor]) -> Result<&'static dyn Backend> {
        let mut found: Option<&'static dyn Backend> = None;
        for x in inputs.iter().chain(&self.captured) {
            let Repr::Concrete { backend, .. } = x.repr() else {
                continue;
            };
            match found {
                Some(b) if !backend::same(b, *backend) => {
                    bail!(
                        Backend,
                        "jit: expected tensors of one backend, got {} and {}",
                        b.name(),
                        backend.name()
                    )
                }
                _ => found = Some(*backend),
            }
        }
        found.map_or_else(backend::current, Ok)
    }

    fn table(&self) -> MutexGuard<'_, Vec<(&'static str, Arc<Compiled>)>> {
        self.compiled.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn compiled(&self, backend: &'static dyn Backend) -> Result<Arc<Compiled>> {
        let known = |table: &[(&'static str, Arc<Compiled>)]| {
            let own = table.iter().find(|(name, _)| *name == backend.name());
            own.map(|(_, compiled)| compiled.clone())
        };
        if let Some(compiled) = known(&self.table()) {
            return Ok(compiled);
        }
        // Not under the lock: compilation takes long, and may run Python.
        let new = Arc::new(self.prepare(backend)?);
        let mut table = self.table();
        if let Some(compiled) = known(&table) {
            return Ok(compiled);
        }
        table.push((backend.name(), new.clone()));
        Ok(new)
    }

    fn prepare(&self, backend: &'static dyn Backend) -> Result<Compiled> {
        // Custom ops are opaque to backends; their expansions are not.
        let is_custom = |node: &Node| Ok(matches!(node.op, Op::Custom(_)));
        let (mut graph, mut captured) = backend::with(backend, || self.graph.inlined(is_custom))?;
        // Composites that the backend lacks are expanded before the passes run, so that they run once. Where composites
        // are to be matched they stay: they are parts of patterns. With symbolic dimensions they are expanded when sizes
        // are known.
        if !self.options.fused && !graph.is_symbolic() {
            let expands = |node: &Node| {
                matches!(node.op, Op::Call(_)) && backend.support(&node.op) == Support::Expands
            };
            let (expanded, found) = backend::with(backend, || graph.expanded(expands))?;
            graph = expanded;
            captured.extend(found);
        }
        let graph = pass::optimize(graph, self.options)?;
        let executable = backend.compile(&graph).transpose()?;
        Ok(Compiled {
            graph,
            captured,
            executable,
        })
    }

    /// The graph that runs on a backend, and the plan of the compiled program.
    pub fn explain(&self, backend: &'static dyn Backend) -> Result<(Graph, String)> {
        let compiled = self.compiled(backend)?;
        let plan = match &compiled.executable {
            Some(executable) => executable.describe(),
            None => "op by op".into(),
        };
        Ok((compiled.graph.clone(), plan))
    }
}

type Function<S, T, O> = Box<dyn Fn(&S, &T) -> Result<O> + Send + Sync>;

/// A function compiled on first call for each signature.
pub struct Jitted<S, T, O> {
    function: Function<S, T, O>,
    options: Options,
    cache: Mutex<Cache<CacheKey<S>, Entry<O>>>,
}

/// Cache key of a program: statics, structure, specs, and the backend of new tensors if no argument determines it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct CacheKey<S> {
    statics: S,
    structure: u64,
    specs: Vec<Spec>,
    backend: Option<&'static str>,
}

struct Entry<O> {
    program: Program,
    /// The structure of the results.
    like: O,
}

/// Compiles a function of a tree; it is traced once for each structure and specs of the leaves.
///
/// Values in the tree other than tensors must be the same at each call, or be passed through `jit_with`.
pub fn jit<T, O>(f: impl Fn(&T) -> Result<O> + Send + Sync + 'static) -> Jitted<(), T, O>
where
    T: Tree + Clone,
    O: Tree + Clone,
{
    jit_with(move |(): &(), x: &T| f(x))
}

/// Compiles a function that takes a static argument first; each value of it is traced separately.
pub fn jit_with<S, T, O>(f: impl Fn(&S, &T) -> Result<O> + Send + Sync + 'static) -> Jitted<S, T, O>
where
    S: Clone + Eq + Hash,
    T: Tree + Clone,
    O: Tree + Clone,
{
    Jitted {
        function: Box::new(f),
        options: Options::default(),
        cache: Mutex::new(Cache::new(cache::LIMIT)),
    }
}

impl<T: Tree + Clone, O: Tree + Clone> Jitted<(), T, O> {
    /// Calls the function.
    pub fn call(&self, x: &T) -> Result<O> {
        self.call_with(&(), x)
    }

    /// Calls the function and donates the argument: buffers without another owner may be reused for results.
    pub fn take(&self, x: T) -> Result<O> {
        self.take_with(&(), x)
    }
}

impl<S: Clone + Eq + Hash, T: Tree + Clone, O: Tree + Clone> Jitted<S, T, O> {
    /// Sets the maximum number of cached programs; the least recently used is evicted.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        self.locked().set_limit(limit);
        self
    }

    /// Allows optimisations that ignore NaN, infinities and the sign of zero.
    #[must_use]
    pub fn fast_math(mut self, fast: bool) -> Self {
        self.options.fast_math = fast;
        self
    }

    /// Cache statistics.
    pub fn stats(&self) -> Stats {
        self.locked().stats()
    }

    /// Calls the function with a static argument.
    pub fn call_with(&self, statics: &S, x: &T) -> Result<O> {
        let mut leaves = tree::leaves(x);
        if !leaves.iter().all(has_values) {
            return (self.function)(statics, x);
        }
        let entry = self.entry(statics, x, &leaves)?;
        let out = entry.program.run(&mut leaves)?;
        tree::with_leaves(&entry.like, &out)
    }

    /// Calls the function with a static argument and donates the other one.
    pub fn take_with(&self, statics: &S, x: T) -> Result<O> {
        let mut leaves = tree::leaves(&x);
        if !leaves.iter().all(has_values) {
            return (self.function)(statics, &x);
        }
        let entry = self.entry(statics, &x, &leaves)?;
        drop(x);
        let out = entry.program.run(&mut leaves)?;
        tree::with_leaves(&entry.like, &out)
    }

    fn locked(&self) -> MutexGuard<'_, Cache<CacheKey<S>, Entry<O>>> {
        self.cache.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn entry(&self, statics: &S, x: &T, leaves: &[Tensor]) -> Result<Arc<Entry<O>>> {
        let any_backend = leaves.iter().all(|x| x.backend().is_none());
        let key = CacheKey {
            statics: statics.clone(),
            structure: structure(x),
            specs: leaves.iter().map(|x| x.spec().clone()).collect(),
            backend: if any_backend {
                Some(backend::current()?.name())
            } else {
                None
            },
        };
        if let Some(entry) = self.locked().get(&key) {
            return Ok(entry);
        }
        let entry = Arc::new(self.trace(statics, x, leaves)?);
        if entry.program.is_cacheable() {
            self.locked().put(key, entry.clone());
        }
        Ok(entry)
    }

    fn trace(&self, statics: &S, x: &T, leaves: &[Tensor]) -> Result<Entry<O>> {
        let recorder = Recorder::new("");
        let mut inputs = Vec::with_capacity(leaves.len());
        for (path, role, leaf) in tree::entries(x) {
            let trace = recorder.trace();
            inputs.push(trace.input(leaf.spec().clone(), role, &path));
        }
        let x = tree::with_leaves(x, &inputs)?;
        let like = recorder.run(|| (self.function)(statics, &x))?;
        let outputs: Vec<_> = tree::leaves(&like).into_iter().map(|x| (x, None)).collect();
        let program = recorder.close(&outputs, self.options)?;
        Ok(Entry { program, like })
    }
}

/// A hash of the paths and roles of a tree's leaves.
fn structure(x: &impl Tree) -> u64 {
    let mut hasher = DefaultHasher::new();
    x.visit(&mut Path::default(), &mut |at, role, _| {
        at.names().hash(&mut hasher);
        role.hash(&mut hasher);
    });
    hasher.finish()
}
