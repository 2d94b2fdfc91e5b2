//! Inlines the expansions of ops into a graph.

use crate::bail;
use crate::error::Result;
use crate::graph::{Arg, Graph, Node};
use crate::tensor::Tensor;
use crate::trace::{Trace, scope};

impl Graph {
    /// Replaces the selected nodes by their expansions. Tensors that the expansions create become the graph's last
    /// inputs; their values are returned with it.
    pub fn inlined(&self, opens: impl Fn(&Node) -> Result<bool>) -> Result<(Graph, Vec<Tensor>)> {
        let chosen = self
            .nodes
            .iter()
            .map(opens)
            .collect::<Result<Vec<bool>>>()?;
        if !chosen.contains(&true) {
            return Ok((self.clone(), Vec::new()));
        }
        let open = Trace::open(false);
        let mut values: Vec<Option<Tensor>> = vec![None; self.values.len()];
        for input in &self.inputs {
            let spec = self.spec(input.value).clone();
            let x = open.trace.input(spec, input.role, &input.name);
            values[input.value.0 as usize] = Some(x);
        }
        let found = |values: &[Option<Tensor>], arg: &Arg| match arg {
            Arg::Const(x) => Ok(x.clone()),
            Arg::Value(id) => match values.get(id.0 as usize) {
                Some(Some(x)) => Ok(x.clone()),
                _ => bail!(Internal, "graph: %{} is used before it is defined", id.0),
            },
        };
        for (node, &opens) in self.nodes.iter().zip(&chosen) {
            let args = node.args.iter().map(|x| found(&values, x));
            let args = args.collect::<Result<Vec<Tensor>>>()?;
            let args: Vec<&Tensor> = args.iter().collect();
            let path = self.scopes.get(node.scope.0 as usize);
            let outs = scope(path.map_or("", String::as_str), || match opens {
                true => node.op.expand(&args),
                false => open.trace.record(&node.op, &args),
            })?;
            for (at, x) in node.outs.clone().zip(outs.into_vec()) {
                values[at as usize] = Some(x);
            }
        }
        let outputs = self.outputs.iter().map(|o| found(&values, &o.arg));
        let outputs = outputs.collect::<Result<Vec<_>>>()?;
        let closed = Trace::close(open, &outputs);
        let mut new = closed.graph;
        for (out, old) in new.outputs.iter_mut().zip(&self.outputs) {
            out.updates = old.updates;
        }
        Ok((new.prune(), closed.captured))
    }

    /// Expands the selected nodes, and those that their expansions contain, until none is left. Returns the values of the
    /// inputs that this adds, like `inlined`.
    pub fn expanded(&self, selects: impl Fn(&Node) -> bool) -> Result<(Graph, Vec<Tensor>)> {
        let (mut graph, mut captured) = (self.clone(), Vec::new());
        while graph.nodes.iter().any(&selects) {
            let (opened, found) = graph.inlined(|node| Ok(selects(node)))?;
            graph = opened;
            captured.extend(found);
        }
        Ok((graph, captured))
    }
}
