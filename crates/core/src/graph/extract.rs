//! Extracts the part of a graph that computes some values from others.

use crate::bail;
use crate::error::Result;
use crate::graph::{Arg, Graph, Output, Role, ValueId};
use smallvec::SmallVec;

impl Graph {
    /// The graph that computes `outputs` from the values `inputs`. What produced an input is left out; an output that
    /// depends on another input of this graph is an error.
    pub fn extract(&self, inputs: &[ValueId], outputs: &[Arg]) -> Result<Graph> {
        let mut map: Vec<Option<ValueId>> = vec![None; self.values.len()];
        let mut part = Graph {
            scopes: self.scopes.clone(),
            ..Graph::default()
        };
        for &id in inputs {
            map[id.0 as usize] = Some(part.input(self.spec(id).clone(), Role::Input, ""));
        }
        let mut needed = vec![false; self.values.len()];
        let need = |needed: &mut Vec<bool>, arg: &Arg| {
            if let Arg::Value(id) = arg {
                needed[id.0 as usize] |= map[id.0 as usize].is_none();
            }
        };
        outputs.iter().for_each(|arg| need(&mut needed, arg));
        let mut kept = vec![false; self.nodes.len()];
        for (n, node) in self.nodes.iter().enumerate().rev() {
            kept[n] = node.outs.clone().any(|v| needed[v as usize]);
            if kept[n] {
                node.args.iter().for_each(|arg| need(&mut needed, arg));
            }
        }
        let lookup = |map: &[Option<ValueId>], arg: &Arg| match arg {
            Arg::Const(_) => Ok(arg.clone()),
            Arg::Value(id) => match map[id.0 as usize] {
                Some(new) => Ok(Arg::Value(new)),
                None => bail!(Internal, "extract: %{} is not one of the inputs", id.0),
            },
        };
        for (node, _) in self.nodes.iter().zip(kept).filter(|(_, kept)| *kept) {
            let args = node.args.iter().map(|arg| lookup(&map, arg));
            let args = args.collect::<Result<SmallVec<[Arg; 3]>>>()?;
            let outs = node.outs.start as usize..node.outs.end as usize;
            let made = part.node(
                node.op.clone(),
                args,
                &self.values[outs.clone()],
                node.scope,
            );
            for (old, new) in outs.zip(made) {
                map[old].get_or_insert(ValueId(new));
            }
        }
        for arg in outputs {
            let arg = lookup(&map, arg)?;
            part.outputs.push(Output { arg, updates: None });
        }
        Ok(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_inputs_and_what_produced_them_is_left_out() {
        let text = "graph {\n  input %0: f32[2] input\n  input %1: f32[2] input\n  %2: f32[2] = exp(%0)\n  \
                    %3: f32[2] = add(%2, %1)\n  %4: f32[2] = mul(%3, %2)\n  return %4\n}";
        let graph = Graph::parse(text).unwrap();
        let part = graph.extract(&[ValueId(2), ValueId(1)], &[Arg::Value(ValueId(4))]);
        let part = part.unwrap();
        part.verify().unwrap();
        let wanted = "graph {\n  input %0: f32[2] input\n  input %1: f32[2] input\n  %2: f32[2] = add(%0, %1)\n  \
                      %3: f32[2] = mul(%2, %0)\n  return %3\n}";
        assert_eq!(part.to_string().trim(), wanted);
        let error = graph.extract(&[ValueId(2)], &[Arg::Value(ValueId(3))]);
        assert!(error.unwrap_err().to_string().contains("%1"));
    }
}
