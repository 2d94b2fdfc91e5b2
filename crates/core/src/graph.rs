//! A program as data: values, nodes in order, what goes in and what comes out.
//!
//! Flat, topological, append-only. `text` prints and parses it, `verify` says what is legal, `bind` puts numbers
//! for named sizes, `prune` drops what no output needs.

pub mod bind;
pub mod open;
pub mod prune;
pub mod text;
pub mod verify;

use crate::dim::Bindings;
use crate::error::Result;
use crate::op::Op;
use crate::spec::Spec;
use crate::tensor::Tensor;
use crate::words;
use smallvec::SmallVec;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

/// A value of a graph, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// A module path of a graph, by number; 0 is the root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScopeId(pub u32);

words! {
    /// What a value is for.
    Role {
        /// Trained.
        Param "param",
        /// A parameter that is held fixed.
        Frozen "frozen",
        /// State that is saved: running statistics.
        State "state",
        /// State that is not saved.
        Transient "transient",
        /// Known when the graph was made.
        Constant "constant",
        /// Given at each call.
        Input "input",
        /// Randomness.
        Key "key",
    }
}

/// What goes in.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its value.
    pub value: ValueId,
    /// What it is for.
    pub role: Role,
    /// Its path or name; may be empty.
    pub name: String,
}

/// What comes out: a result, or the new value of an input that is state.
#[derive(Clone, Debug)]
pub struct Output {
    /// The value.
    pub arg: Arg,
    /// The input that it replaces, if it is a state update.
    pub updates: Option<usize>,
}

/// An operand.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A value of the graph.
    Value(ValueId),
    /// A tensor that was at hand; in a closed graph a number only.
    Const(Tensor),
}

/// One op applied to operands.
#[derive(Clone, Debug)]
pub struct Node {
    /// The op.
    pub op: Op,
    /// Its operands.
    pub args: SmallVec<[Arg; 3]>,
    /// The values it gives, which are numbered one after the other.
    pub outs: Range<u32>,
    /// The module it stands in.
    pub scope: ScopeId,
}

/// A program.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// What is known of each value.
    pub values: Vec<Spec>,
    /// What goes in.
    pub inputs: Vec<Input>,
    /// What is done, in order.
    pub nodes: Vec<Node>,
    /// What comes out.
    pub outputs: Vec<Output>,
    /// Module paths; the first is the root and empty.
    pub scopes: Vec<String>,
}

impl Graph {
    /// Adds a value.
    pub fn value(&mut self, spec: Spec) -> ValueId {
        self.values.push(spec);
        ValueId(self.values.len() as u32 - 1)
    }

    /// Adds an input.
    pub fn input(&mut self, spec: Spec, role: Role, name: impl Into<String>) -> ValueId {
        let value = self.value(spec);
        self.inputs.push(Input {
            value,
            role,
            name: name.into(),
        });
        value
    }

    /// Adds a node; its results are new values.
    pub fn node(
        &mut self,
        op: Op,
        args: SmallVec<[Arg; 3]>,
        out: &[Spec],
        scope: ScopeId,
    ) -> Range<u32> {
        let first = self.values.len() as u32;
        self.values.extend_from_slice(out);
        let outs = first..self.values.len() as u32;
        self.nodes.push(Node {
            op,
            args,
            outs: outs.clone(),
            scope,
        });
        outs
    }

    /// What is known of a value.
    pub fn spec(&self, id: ValueId) -> &Spec {
        &self.values[id.0 as usize]
    }

    /// What is known of an operand.
    pub fn arg_spec<'a>(&'a self, arg: &'a Arg) -> &'a Spec {
        match arg {
            Arg::Value(id) => self.spec(*id),
            Arg::Const(t) => t.spec(),
        }
    }

    /// The specs of the inputs.
    pub fn input_specs(&self) -> Vec<Spec> {
        self.inputs
            .iter()
            .map(|i| self.spec(i.value).clone())
            .collect()
    }

    /// The specs of the outputs.
    pub fn output_specs(&self) -> Vec<Spec> {
        self.outputs
            .iter()
            .map(|o| self.arg_spec(&o.arg).clone())
            .collect()
    }

    /// The sizes that input shapes give to the names in this graph's inputs.
    pub fn bindings(&self, inputs: &[&Spec]) -> Result<Bindings> {
        let mut bindings = Bindings::default();
        for (input, given) in self.inputs.iter().zip(inputs) {
            let want = self.spec(input.value);
            for (dim, size) in want.shape.dims().iter().zip(given.shape.dims()) {
                if let (Some(name), Some(size)) = (dim.as_symbol(), size.value()) {
                    bindings.bind(&name, size).map_err(|e| {
                        e.note(format!("in input `{}`: {want} given {given}", input.name))
                    })?;
                }
            }
        }
        Ok(bindings)
    }
}

/// A graph inside an op: the body of a loop, a branch. Equal to itself only.
#[derive(Clone)]
pub struct Body(pub Arc<Graph>);

impl Body {
    /// Takes a graph.
    pub fn new(graph: Graph) -> Self {
        Body(Arc::new(graph))
    }
}
impl std::ops::Deref for Body {
    type Target = Graph;
    fn deref(&self) -> &Graph {
        &self.0
    }
}
impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for Body {}
impl Hash for Body {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{graph of {} nodes}}", self.0.nodes.len())
    }
}
