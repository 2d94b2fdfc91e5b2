//! Functions as programs: traced once for each kind of arguments, shortened, compiled, kept.
//!
//! A `Program` is what one trace gave; it is compiled for a backend when it first runs there. `jit` keeps programs by the
//! structure and the specs of what a function is called with. Called inside a trace, a jitted function is the function
//! itself, so derivatives, batches and other programs see what it is made of. What random numbers it draws from the
//! implicit stream come from keys that it takes at each call.

mod cache;

pub use cache::{Cache, Stats};

use crate::backend::{self, Backend, Executable};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Graph, Node, Role, ValueId};
use crate::op::Op;
use crate::ops;
use crate::pass::Options;
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

/// A function on its way to become a program.
pub struct Recorder {
    open: Open,
    keys: Rc<RefCell<Vec<ValueId>>>,
}

impl Recorder {
    /// Begins to record; `name` is what messages call the function.
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

    /// The trace that inputs are made in.
    pub fn trace(&self) -> &Arc<Trace> {
        &self.open.trace
    }

    /// Runs what is recorded; each draw from the implicit stream takes a key of its own as one more input.
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

    /// What is to be checked before and after a run. What is not an input is summarised as one more result.
    #[allow(clippy::type_complexity)] // two lists, named where they are kept
    fn preconditions(
        &self,
        outputs: &mut Vec<Tensor>,
    ) -> Result<(Vec<(usize, Precondition)>, Vec<Precondition>)> {
        let trace = self.trace();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for kept in trace.take_kept() {
            let keys = self.keys.borrow();
            let inputs = trace.recording().graph.inputs.clone();
            let mut given = inputs.iter().filter(|i| !keys.contains(&i.value));
            match given.position(|i| i.value == kept.value) {
                Some(at) if !kept.is_summary => before.push((at, kept.precondition)),
                _ => {
                    let x = trace.tensor_of(kept.value);
                    let summary = ops::require::summary(&x, kept.precondition, kept.is_summary)?;
                    outputs.push(summary);
                    after.push(kept.precondition);
                }
            }
        }
        Ok((before, after))
    }

    /// Ends the recording. An output may be the new value of an input, by its number among those that were given.
    pub fn close(self, outputs: &[(Tensor, Option<usize>)], options: Options) -> Result<Program> {
        let settled = outputs.iter().map(|(x, _)| ops::materialize(x));
        let mut settled = settled.collect::<Result<Vec<_>>>()?;
        let (before, after) = self.preconditions(&mut settled)?;
        let closed = Trace::close(self.open, &settled);
        let mut graph = closed.graph.prune();
        let keys = self.keys.take();
        // Pruning renumbers values, but leaves inputs where they were.
        let is_key: Vec<bool> = closed
            .graph
            .inputs
            .iter()
            .map(|i| keys.contains(&i.value))
            .collect();
        let mut inputs: Vec<_> = graph.inputs.drain(..).zip(is_key).collect();
        let own = inputs.len() - closed.captured.len();
        // Keys follow what is given; what was captured stays last.
        inputs[..own].sort_by_key(|(_, is_key)| *is_key);
        graph.inputs = inputs.into_iter().map(|(input, _)| input).collect();
        for (out, (_, updates)) in graph.outputs.iter_mut().zip(outputs) {
            out.updates = *updates;
        }
        for at in outputs.iter().filter_map(|(_, updates)| *updates) {
            let Some(input) = graph.inputs.get_mut(at) else {
                bail!(
                    Internal,
                    "jit: an output updates input {at}, which is not there"
                );
            };
            // What is replaced is state, whatever it was called before.
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
            ready: Mutex::default(),
        })
    }
}

/// What one trace of a function gave.
pub struct Program {
    graph: Graph,
    keys: usize,
    captured: Vec<Tensor>,
    /// What must hold of inputs, by their number, before it runs.
    before: Vec<(usize, Precondition)>,
    /// What must hold of its last results, which are summaries, when it has run.
    after: Vec<Precondition>,
    options: Options,
    /// What it has become on each backend that it ran on.
    ready: Mutex<Vec<(&'static str, Arc<Ready>)>>,
}

/// A program on one backend.
struct Ready {
    /// What is run.
    graph: Graph,
    /// The values of its last inputs that the passes brought to light.
    more: Vec<Tensor>,
    /// None: op by op.
    compiled: Option<Box<dyn Executable>>,
}

/// Whether the values of a tensor can be read: not in a trace of ours, nor in one of a framework's.
pub fn has_values(x: &Tensor) -> bool {
    match x.repr() {
        Repr::Scalar { .. } => true,
        Repr::Concrete { backend, .. } => backend.has_values(x),
        Repr::Traced { .. } => false,
    }
}

impl Program {
    /// What was recorded: what is given first, then the keys, then what was found at hand.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// How many keys of the implicit stream a run takes.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// The values of the last inputs, which were found at hand.
    pub fn captured(&self) -> &[Tensor] {
        &self.captured
    }

    /// How many inputs are given at each call.
    pub fn given(&self) -> usize {
        self.graph.inputs.len() - self.keys - self.captured.len()
    }

    /// Whether it holds nothing that lives only as long as a trace around it; else it is not to be kept.
    pub fn lasts(&self) -> bool {
        self.captured.iter().all(has_values)
    }

    /// Runs it on what is given; after an error the list is as it was. See `Executable::run` for what happens to it else.
    pub fn run(&self, inputs: &mut Vec<Tensor>) -> Result<Vec<Tensor>> {
        let given = self.given();
        ensure!(
            inputs.len() == given,
            Value,
            "jit: the program takes {given} inputs, not {}",
            inputs.len()
        );
        for &(at, precondition) in &self.before {
            ops::require(&inputs[at], precondition)?;
        }
        if !self.lasts() {
            // A trace around it is to see what it is made of.
            let keys = (0..self.keys).map(|_| stream::next_key().words().done());
            let keys = keys.collect::<Result<Vec<_>>>()?;
            let all: Vec<&Tensor> = inputs.iter().chain(&keys).chain(&self.captured).collect();
            let mut out = self.graph.call(&all)?;
            self.check_results(&mut out)?;
            return Ok(out);
        }
        let home = self.home(inputs)?;
        let ready = self.ready(home)?;
        backend::with(home, || {
            for (input, x) in self.graph.inputs.iter().zip(inputs.iter_mut()) {
                let want = self.graph.spec(input.value);
                if x.as_number().is_some() && x.shape() == &want.shape {
                    *x = ops::materialize(&ops::cast(&*x, want.dtype).done()?)?;
                }
                ensure!(
                    x.spec() == want,
                    Shape,
                    "jit: input `{}` is {want}, not {}",
                    input.name,
                    x.spec()
                );
            }
            // Where a check follows nothing is overwritten: the list refers to all of it a second time.
            let held = (!self.after.is_empty()).then(|| inputs.clone());
            for _ in 0..self.keys {
                inputs.push(stream::next_key().words().done()?);
            }
            inputs.extend(self.captured.iter().chain(&ready.more).cloned());
            let out = match &ready.compiled {
                Some(compiled) => compiled.run(inputs),
                None => ready.graph.call(&inputs.iter().collect::<Vec<_>>()),
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

    /// Takes summaries off the results, and refuses those that break their precondition.
    fn check_results(&self, out: &mut Vec<Tensor>) -> Result<()> {
        let own = out.len().saturating_sub(self.after.len());
        for (summary, &precondition) in out.split_off(own).iter().zip(&self.after) {
            ops::require::require_summary(summary, precondition)?;
        }
        Ok(())
    }

    /// The one backend that all inputs live on; the current one if there is none.
    fn home(&self, inputs: &[Tensor]) -> Result<&'static dyn Backend> {
        let mut found: Option<&'static dyn Backend> = None;
        for x in inputs.iter().chain(&self.captured) {
            let Repr::Concrete { backend, .. } = x.repr() else {
                continue;
            };
            match found {
                Some(b) if !backend::same(b, *backend) => {
                    bail!(
                        Backend,
                        "jit: tensors of {} and {}",
                        b.name(),
                        backend.name()
                    )
                }
                _ => found = Some(*backend),
            }
        }
        found.map_or_else(backend::current, Ok)
    }

    fn table(&self) -> MutexGuard<'_, Vec<(&'static str, Arc<Ready>)>> {
        self.ready.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn ready(&self, home: &'static dyn Backend) -> Result<Arc<Ready>> {
        let known = |table: &[(&'static str, Arc<Ready>)]| {
            let own = table.iter().find(|(name, _)| *name == home.name());
            own.map(|(_, ready)| ready.clone())
        };
        if let Some(ready) = known(&self.table()) {
            return Ok(ready);
        }
        // Without the lock: compiling takes long, and may run Python.
        let made = Arc::new(self.prepare(home)?);
        let mut table = self.table();
        if let Some(ready) = known(&table) {
            return Ok(ready);
        }
        table.push((home.name(), made.clone()));
        Ok(made)
    }

    fn prepare(&self, home: &'static dyn Backend) -> Result<Ready> {
        // What a user brought is opaque to every engine; what it is made of is not.
        let is_custom = |node: &Node| Ok(matches!(node.op, Op::Custom(_)));
        let (graph, more) = backend::with(home, || self.graph.opened(is_custom))?;
        let graph = graph.optimise(self.options)?;
        let compiled = home.compile(&graph).transpose()?;
        Ok(Ready {
            graph,
            more,
            compiled,
        })
    }

    /// The graph that runs on a backend, and the plan that it has there.
    pub fn explain(&self, home: &'static dyn Backend) -> Result<(Graph, String)> {
        let ready = self.ready(home)?;
        let plan = match &ready.compiled {
            Some(compiled) => compiled.describe(),
            None => "op by op".into(),
        };
        Ok((ready.graph.clone(), plan))
    }
}

type Function<S, T, O> = Box<dyn Fn(&S, &T) -> Result<O> + Send + Sync>;

/// A function that runs as a program.
pub struct Jitted<S, T, O> {
    function: Function<S, T, O>,
    options: Options,
    cache: Mutex<Cache<Kind<S>, Made<O>>>,
}

/// What one program is for: statics, structure, specs, and where new tensors are made if nothing else tells it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Kind<S> {
    statics: S,
    structure: u64,
    specs: Vec<Spec>,
    home: Option<&'static str>,
}

struct Made<O> {
    program: Program,
    /// What results look like.
    like: O,
}

/// A function of a tree as a program that is traced once for each structure and specs of its leaves.
///
/// What is in the tree besides tensors must be the same at each call, or be given to `jit_with`.
pub fn jit<T, O>(f: impl Fn(&T) -> Result<O> + Send + Sync + 'static) -> Jitted<(), T, O>
where
    T: Tree + Clone,
    O: Tree + Clone,
{
    jit_with(move |(): &(), x: &T| f(x))
}

/// The same for a function that takes a static argument first, of which each value has a program of its own.
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
    /// Calls it.
    pub fn call(&self, x: &T) -> Result<O> {
        self.call_with(&(), x)
    }

    /// Calls it and gives the argument away: what nobody else holds may be overwritten with results.
    pub fn take(&self, x: T) -> Result<O> {
        self.take_with(&(), x)
    }
}

impl<S: Clone + Eq + Hash, T: Tree + Clone, O: Tree + Clone> Jitted<S, T, O> {
    /// Keeps at most so many programs; the one that was not used for longest goes first.
    #[must_use]
    pub fn limit(self, limit: usize) -> Self {
        self.locked().set_limit(limit);
        self
    }

    /// Lets the passes lose NaN, infinities and the sign of zero.
    #[must_use]
    pub fn fast_math(mut self, fast: bool) -> Self {
        self.options.fast_math = fast;
        self
    }

    /// How many programs there are, were made and were dropped.
    pub fn stats(&self) -> Stats {
        self.locked().stats()
    }

    /// Calls it with a static argument.
    pub fn call_with(&self, statics: &S, x: &T) -> Result<O> {
        let mut leaves = tree::leaves(x);
        if !leaves.iter().all(has_values) {
            return (self.function)(statics, x);
        }
        let made = self.made(statics, x, &leaves)?;
        let out = made.program.run(&mut leaves)?;
        tree::with_leaves(&made.like, &out)
    }

    /// Calls it with a static argument and gives the other away.
    pub fn take_with(&self, statics: &S, x: T) -> Result<O> {
        let mut leaves = tree::leaves(&x);
        if !leaves.iter().all(has_values) {
            return (self.function)(statics, &x);
        }
        let made = self.made(statics, &x, &leaves)?;
        drop(x);
        let out = made.program.run(&mut leaves)?;
        tree::with_leaves(&made.like, &out)
    }

    fn locked(&self) -> MutexGuard<'_, Cache<Kind<S>, Made<O>>> {
        self.cache.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn made(&self, statics: &S, x: &T, leaves: &[Tensor]) -> Result<Arc<Made<O>>> {
        let homeless = leaves.iter().all(|x| x.backend().is_none());
        let kind = Kind {
            statics: statics.clone(),
            structure: structure(x),
            specs: leaves.iter().map(|x| x.spec().clone()).collect(),
            home: if homeless {
                Some(backend::current()?.name())
            } else {
                None
            },
        };
        if let Some(made) = self.locked().get(&kind) {
            return Ok(made);
        }
        let made = Arc::new(self.trace(statics, x, leaves)?);
        if made.program.lasts() {
            self.locked().put(kind, made.clone());
        }
        Ok(made)
    }

    fn trace(&self, statics: &S, x: &T, leaves: &[Tensor]) -> Result<Made<O>> {
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
        Ok(Made { program, like })
    }
}

/// A number for the places and roles of a tree's leaves.
fn structure(x: &impl Tree) -> u64 {
    let mut hasher = DefaultHasher::new();
    x.visit(&mut Path::default(), &mut |at, role, _| {
        at.names().hash(&mut hasher);
        role.hash(&mut hasher);
    });
    hasher.finish()
}
