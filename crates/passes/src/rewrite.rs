//! Rewrites a graph node by node: a rule may replace the results of each node.

use clematis_core::ensure;
use clematis_core::error::Result;
use clematis_core::graph::{Arg, Graph, Node, Output, ScopeId, ValueId};
use clematis_core::infer::infer;
use clematis_core::op::Op;
use clematis_core::spec::Spec;
use smallvec::SmallVec;

/// Operands.
pub type Args = SmallVec<[Arg; 3]>;

/// The graph under construction.
pub struct Rewriter {
    /// The new graph so far.
    pub graph: Graph,
    /// Maps each value of the old graph to its operand in the new one.
    known: Vec<Option<Arg>>,
    /// The defining node of each value in the new graph.
    made_by: Vec<Option<usize>>,
}

impl Rewriter {
    fn new(old: &Graph) -> Self {
        let mut graph = Graph {
            scopes: old.scopes.clone(),
            ..Graph::default()
        };
        let mut known = vec![None; old.values.len()];
        for input in &old.inputs {
            let id = graph.input(
                old.spec(input.value).clone(),
                input.role,
                input.name.clone(),
            );
            known[input.value.0 as usize] = Some(Arg::Value(id));
        }
        let made_by = vec![None; graph.values.len()];
        Rewriter {
            graph,
            known,
            made_by,
        }
    }

    /// Maps an operand of the old graph to the new one.
    pub fn follow(&self, arg: &Arg) -> Arg {
        match arg {
            Arg::Value(id) => self.known[id.0 as usize]
                .clone()
                .unwrap_or(Arg::Value(ValueId(u32::MAX))),
            Arg::Const(t) => Arg::Const(t.clone()),
        }
    }

    /// The defining node of an operand, unless it is an input or a number.
    pub fn maker(&self, arg: &Arg) -> Option<&Node> {
        match arg {
            Arg::Value(id) => {
                let at = self.made_by.get(id.0 as usize).copied().flatten()?;
                self.graph.nodes.get(at)
            }
            Arg::Const(_) => None,
        }
    }

    /// The spec of an operand.
    pub fn spec<'a>(&'a self, arg: &'a Arg) -> &'a Spec {
        self.graph.arg_spec(arg)
    }

    /// Adds a node with one result.
    pub fn one(&mut self, op: Op, args: Args, scope: ScopeId) -> Result<Arg> {
        let mut outs = self.several(op, args, scope)?;
        ensure!(
            outs.len() == 1,
            Internal,
            "pass: expected one result, got {}",
            outs.len()
        );
        Ok(outs.remove(0))
    }

    /// Adds a node and returns all of its results.
    pub fn several(&mut self, op: Op, args: Args, scope: ScopeId) -> Result<Vec<Arg>> {
        let out = {
            let specs: SmallVec<[&Spec; 4]> = args.iter().map(|a| self.graph.arg_spec(a)).collect();
            infer(&op, &specs)?
        };
        let outs = self.add(op, args, out.as_slice(), scope);
        Ok(outs.map(|id| Arg::Value(ValueId(id))).collect())
    }

    fn add(&mut self, op: Op, args: Args, out: &[Spec], scope: ScopeId) -> std::ops::Range<u32> {
        let at = self.graph.nodes.len();
        let outs = self.graph.node(op, args, out, scope);
        self.made_by.resize(self.graph.values.len(), Some(at));
        outs
    }
}

/// Copies a graph, letting a rule replace the results of nodes by other operands.
///
/// The rule gets each node with its operands in the new graph. `None` keeps the node.
pub fn rewrite(
    old: &Graph,
    mut rule: impl FnMut(&mut Rewriter, &Node, &Args) -> Result<Option<Vec<Arg>>>,
) -> Result<Graph> {
    let mut new = Rewriter::new(old);
    for node in &old.nodes {
        let args: Args = node.args.iter().map(|a| new.follow(a)).collect();
        let specs = &old.values[node.outs.start as usize..node.outs.end as usize];
        let found = rule(&mut new, node, &args)?;
        // A replacement with another dtype or shape is a bug of the rule.
        let found = found.filter(|found| {
            found.len() == specs.len()
                && found
                    .iter()
                    .zip(specs)
                    .all(|(arg, spec)| new.spec(arg) == spec)
        });
        let found = match found {
            Some(found) => found,
            None => {
                let outs = new.add(node.op.clone(), args, specs, node.scope);
                outs.map(|id| Arg::Value(ValueId(id))).collect()
            }
        };
        for (id, arg) in node.outs.clone().zip(found) {
            new.known[id as usize] = Some(arg);
        }
    }
    let outputs = old.outputs.iter().map(|output| Output {
        arg: new.follow(&output.arg),
        updates: output.updates,
    });
    let outputs: Vec<_> = outputs.collect();
    new.graph.outputs = outputs;
    Ok(new.graph)
}
