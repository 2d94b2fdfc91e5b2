//! Rebuilds a graph node by node: the base of all passes that replace, add or move nodes.

use clematis_core::graph::{Arg, Graph, Node, Output, ScopeId, ValueId};
use clematis_core::infer::infer;
use clematis_core::{Op, Result, Spec, bail, ensure};
use smallvec::SmallVec;

/// Operands.
pub type Args = SmallVec<[Arg; 3]>;

/// A new graph under construction, with the map from the old graph's values to its own.
pub struct Rewriter {
    /// The new graph so far.
    pub graph: Graph,
    /// The new operand that replaces each value of the old graph, once there is one.
    pub map: Vec<Option<Arg>>,
    /// The node of the new graph that produces each of its values.
    producer: Vec<Option<u32>>,
}

impl Rewriter {
    /// Starts a graph with the inputs of an old one.
    pub fn new(old: &Graph) -> Self {
        Rewriter::with_inputs(old, |_| true)
    }

    /// Starts a graph with those inputs of an old one for which `keep` holds.
    pub fn with_inputs(old: &Graph, keep: impl Fn(usize) -> bool) -> Self {
        let mut graph = Graph {
            scopes: old.scopes.clone(),
            ..Graph::default()
        };
        graph.nodes.reserve(old.nodes.len());
        graph.values.reserve(old.values.len());
        let mut map = vec![None; old.values.len()];
        let kept = old.inputs.iter().enumerate().filter(|(i, _)| keep(*i));
        for (_, input) in kept {
            let spec = old.spec(input.value).clone();
            let id = graph.input(spec, input.role, input.name.clone());
            map[input.value.0 as usize] = Some(Arg::Value(id));
        }
        Rewriter {
            graph,
            map,
            producer: Vec::with_capacity(old.values.len()),
        }
    }

    /// The new operand for an operand of the old graph.
    pub fn lookup(&self, arg: &Arg) -> Result<Arg> {
        match arg {
            Arg::Const(_) => Ok(arg.clone()),
            Arg::Value(id) => match self.map.get(id.0 as usize) {
                Some(Some(new)) => Ok(new.clone()),
                _ => bail!(Internal, "passes: %{} is used before it is defined", id.0),
            },
        }
    }

    /// The new operands for those of a node of the old graph.
    pub fn operands(&self, node: &Node) -> Result<Args> {
        node.args.iter().map(|arg| self.lookup(arg)).collect()
    }

    /// The node of the new graph that produces an operand; `None` for inputs and constants.
    pub fn producer(&self, arg: &Arg) -> Option<&Node> {
        match arg {
            Arg::Value(id) => {
                let at = self.producer.get(id.0 as usize).copied().flatten()?;
                self.graph.nodes.get(at as usize)
            }
            Arg::Const(_) => None,
        }
    }

    /// The spec of an operand of the new graph.
    pub fn spec<'a>(&'a self, arg: &'a Arg) -> &'a Spec {
        self.graph.arg_spec(arg)
    }

    /// Adds a node with one result, whose spec is inferred.
    pub fn one(&mut self, op: Op, args: Args, scope: ScopeId) -> Result<Arg> {
        let mut outs = self.several(op, args, scope)?;
        ensure!(
            outs.len() == 1,
            Internal,
            "passes: expected one result, got {}",
            outs.len()
        );
        Ok(outs.remove(0))
    }

    /// Adds a node, whose specs are inferred; returns its results.
    pub fn several(&mut self, op: Op, args: Args, scope: ScopeId) -> Result<Vec<Arg>> {
        let out = {
            let specs: SmallVec<[&Spec; 4]> = args.iter().map(|a| self.graph.arg_spec(a)).collect();
            infer(&op, &specs)?
        };
        Ok(self.add(op, args, out.as_slice(), scope))
    }

    /// Adds a node with results of these specs; returns its results.
    pub fn add(&mut self, op: Op, args: impl Into<Args>, out: &[Spec], scope: ScopeId) -> Vec<Arg> {
        let at = self.graph.nodes.len() as u32;
        let outs = self.graph.node(op, args.into(), out, scope);
        // Inputs may have been added since the last node.
        self.producer.resize(outs.start as usize, None);
        self.producer.resize(outs.end as usize, Some(at));
        outs.map(|v| Arg::Value(ValueId(v))).collect()
    }

    /// Lets operands of the new graph replace the results of a node of the old one.
    pub fn replace(&mut self, node: &Node, by: impl IntoIterator<Item = Arg>) {
        for (old, new) in node.outs.clone().zip(by) {
            self.map[old as usize] = Some(new);
        }
    }

    /// Copies a node of the old graph.
    pub fn copy(&mut self, old: &Graph, node: &Node) -> Result<()> {
        let args = self.operands(node)?;
        self.copy_with(old, node, node.op.clone(), args);
        Ok(())
    }

    /// Copies a node of the old graph with another op and other operands.
    pub fn copy_with(&mut self, old: &Graph, node: &Node, op: Op, args: Args) {
        let specs = &old.values[node.outs.start as usize..node.outs.end as usize];
        let made = self.add(op, args, specs, node.scope);
        self.replace(node, made);
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

/// Copies a graph, letting a rule replace the results of nodes by other operands.
///
/// The rule gets each node with its operands in the new graph. `None` keeps the node; without any replacement there is no
/// new graph.
pub fn rewrite(
    old: &Graph,
    mut rule: impl FnMut(&mut Rewriter, &Node, &Args) -> Result<Option<Vec<Arg>>>,
) -> Result<Option<Graph>> {
    let mut new = Rewriter::new(old);
    let mut changes = false;
    for node in &old.nodes {
        let args = new.operands(node)?;
        let specs = &old.values[node.outs.start as usize..node.outs.end as usize];
        let found = rule(&mut new, node, &args)?;
        // A replacement with another dtype or shape is a bug of the rule.
        let found = found.filter(|found| {
            let specs_agree = |(arg, spec)| new.spec(arg) == spec;
            found.len() == specs.len() && found.iter().zip(specs).all(specs_agree)
        });
        match found {
            Some(found) => {
                changes = true;
                new.replace(node, found);
            }
            None => new.copy_with(old, node, node.op.clone(), args),
        }
    }
    changes.then(|| new.finish(old)).transpose()
}
