//! Rebuilds a graph node by node: the base of all passes that replace, add or move nodes.

use clematis_core::graph::{Arg, Graph, Node, Output, ValueId};
use clematis_core::{Op, Result, Spec, bail};
use smallvec::SmallVec;

/// A new graph under construction, with the map from the old graph's values to its own.
pub struct GraphRewriter {
    /// The new graph.
    pub graph: Graph,
    /// The new operand that replaces each value of the old graph, once there is one.
    pub map: Vec<Option<Arg>>,
}

impl GraphRewriter {
    /// Starts a graph with those inputs of an old one for which `keep_input` holds.
    pub fn new(old: &Graph, keep_input: impl Fn(usize) -> bool) -> Self {
        let mut rewriter = GraphRewriter {
            graph: Graph {
                scopes: old.scopes.clone(),
                ..Graph::default()
            },
            map: vec![None; old.values.len()],
        };
        for (_, input) in old
            .inputs
            .iter()
            .enumerate()
            .filter(|(i, _)| keep_input(*i))
        {
            let spec = old.spec(input.value).clone();
            let id = rewriter.graph.input(spec, input.role, input.name.clone());
            rewriter.map[input.value.0 as usize] = Some(Arg::Value(id));
        }
        rewriter
    }

    /// The new operand for an operand of the old graph.
    pub fn lookup(&self, arg: &Arg) -> Result<Arg> {
        match arg {
            Arg::Const(_) => Ok(arg.clone()),
            Arg::Value(id) => match &self.map[id.0 as usize] {
                Some(new) => Ok(new.clone()),
                None => bail!(Internal, "compile: %{} is used before it is defined", id.0),
            },
        }
    }

    /// Adds a node in the scope of the node `like`; returns its results.
    pub fn add_node(&mut self, op: Op, args: &[Arg], out: &[Spec], like: &Node) -> Vec<Arg> {
        let args: SmallVec<[Arg; 3]> = args.iter().cloned().collect();
        let made = self.graph.node(op, args, out, like.scope);
        made.map(|v| Arg::Value(ValueId(v))).collect()
    }

    /// Adds the outputs of the old graph; returns the new graph.
    pub fn finish(mut self, old: &Graph) -> Result<Graph> {
        for output in &old.outputs {
            let arg = self.lookup(&output.arg)?;
            self.graph.outputs.push(Output {
                arg,
                updates: output.updates,
            });
        }
        Ok(self.graph)
    }
}

/// The index of the value that an operand refers to, unless it is a constant.
pub(crate) fn value(arg: &Arg) -> Option<usize> {
    match arg {
        Arg::Value(id) => Some(id.0 as usize),
        Arg::Const(_) => None,
    }
}
