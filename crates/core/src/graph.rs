//! The graph IR: values, nodes in topological order, inputs and outputs.
//!
//! Flat, topological, append-only. `text` prints and parses it, `verify` checks it, `bind` substitutes numbers for
//! symbolic dimensions, `prune` eliminates dead nodes, `extract` cuts out a part.

pub mod bind;
pub mod extract;
pub mod inline;
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

/// The index of a value in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// The index of a module path in a graph; 0 is the root.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScopeId(pub u32);

words! {
    /// The role of an input.
    Role {
        /// A trained parameter.
        Param "param",
        /// A parameter that is not trained.
        Frozen "frozen",
        /// State that is saved, such as running statistics.
        State "state",
        /// State that is not saved.
        Transient "transient",
        /// Known when the graph was built.
        Constant "constant",
        /// Passed at each call.
        Input "input",
        /// A random key.
        Key "key",
    }
}

/// A graph input.
#[derive(Clone, Debug)]
pub struct Input {
    /// The value it defines.
    pub value: ValueId,
    /// The role.
    pub role: Role,
    /// The path or name; may be empty.
    pub name: String,
}

/// A graph output: a result, or the new value of a state input.
#[derive(Clone, Debug)]
pub struct Output {
    /// The value.
    pub arg: Arg,
    /// The index of the input that it updates, if it is a state update.
    pub updates: Option<usize>,
}

/// An operand of a node.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A value of the graph.
    Value(ValueId),
    /// A constant tensor; in a closed graph a number only.
    Const(Tensor),
}

/// An op applied to operands.
#[derive(Clone, Debug)]
pub struct Node {
    /// The op.
    pub op: Op,
    /// The operands.
    pub args: SmallVec<[Arg; 3]>,
    /// The values it defines, numbered consecutively.
    pub outs: Range<u32>,
    /// The module path.
    pub scope: ScopeId,
}

/// A graph.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The spec of each value.
    pub values: Vec<Spec>,
    /// The inputs.
    pub inputs: Vec<Input>,
    /// The nodes, in topological order.
    pub nodes: Vec<Node>,
    /// The outputs.
    pub outputs: Vec<Output>,
    /// Module paths; the first is the empty root.
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

    /// The spec of a value.
    pub fn spec(&self, id: ValueId) -> &Spec {
        &self.values[id.0 as usize]
    }

    /// The spec of an operand.
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

    /// Binds the symbolic dimensions of the graph's inputs by matching them with actual input specs.
    pub fn bindings(&self, inputs: &[&Spec]) -> Result<Bindings> {
        let mut bindings = Bindings::default();
        for (input, given) in self.inputs.iter().zip(inputs) {
            let want = self.spec(input.value);
            for (dim, size) in want.shape.dims().iter().zip(given.shape.dims()) {
                if let (Some(name), Some(size)) = (dim.as_symbol(), size.value()) {
                    bindings.bind(&name, size).map_err(|e| {
                        e.note(format!(
                            "in input `{}`: expected {want}, got {given}",
                            input.name
                        ))
                    })?;
                }
            }
        }
        Ok(bindings)
    }
}

/// A graph nested in an op: a loop body or a branch. Compares by identity.
#[derive(Clone)]
pub struct Body(pub Arc<Graph>);

impl Body {
    /// Wraps a graph.
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
