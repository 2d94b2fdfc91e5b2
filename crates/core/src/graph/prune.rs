//! Dead code elimination.

use crate::graph::{Arg, Graph, Node, Output, ValueId};

impl Graph {
    /// Removes nodes that no output needs. Inputs stay, since callers rely on their positions; values are renumbered.
    #[must_use]
    pub fn prune(&self) -> Graph {
        let mut needed = vec![false; self.values.len()];
        let need = |needed: &mut Vec<bool>, arg: &Arg| {
            if let Arg::Value(id) = arg
                && let Some(slot) = needed.get_mut(id.0 as usize)
            {
                *slot = true;
            }
        };
        for output in &self.outputs {
            need(&mut needed, &output.arg);
        }
        let mut kept: Vec<&Node> = Vec::new();
        for node in self.nodes.iter().rev() {
            let outs = needed.get(node.outs.start as usize..node.outs.end as usize);
            if outs.is_some_and(|outs| outs.contains(&true)) {
                node.args.iter().for_each(|arg| need(&mut needed, arg));
                kept.push(node);
            }
        }
        let mut graph = Graph {
            scopes: self.scopes.clone(),
            ..Graph::default()
        };
        // An id that is out of range stays out of range, for `verify` to report.
        let mut renumbered = vec![ValueId(u32::MAX); self.values.len()];
        for input in &self.inputs {
            if let Some(spec) = self.values.get(input.value.0 as usize) {
                let id = graph.input(spec.clone(), input.role, input.name.clone());
                renumbered[input.value.0 as usize] = id;
            }
        }
        let follow = |renumbered: &[ValueId], arg: &Arg| match arg {
            Arg::Value(id) => {
                Arg::Value(*renumbered.get(id.0 as usize).unwrap_or(&ValueId(u32::MAX)))
            }
            Arg::Const(t) => Arg::Const(t.clone()),
        };
        for node in kept.into_iter().rev() {
            let args = node.args.iter().map(|a| follow(&renumbered, a)).collect();
            let outs = node.outs.start as usize..node.outs.end as usize;
            let specs = &self.values[outs.clone()];
            let ids = graph.node(node.op.clone(), args, specs, node.scope);
            for (old, id) in outs.zip(ids) {
                renumbered[old] = ValueId(id);
            }
        }
        graph.outputs = self
            .outputs
            .iter()
            .map(|output| Output {
                arg: follow(&renumbered, &output.arg),
                updates: output.updates,
            })
            .collect();
        graph
    }
}
