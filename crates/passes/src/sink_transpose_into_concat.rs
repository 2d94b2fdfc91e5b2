//! Moves transposes of a concat into its operands: `transpose(concat(a, b)) → concat(transpose(a), transpose(b))`, so that
//! elements are copied once.

use crate::graph_rewriter::{GraphRewriter, value};
use clematis_core::graph::{Arg, Graph, Node};
use clematis_core::{Op, Result, Shape};

/// Rewrites a graph; concats without remaining uses are left dead.
pub fn run(graph: &Graph) -> Result<Graph> {
    let mut producer = vec![None; graph.values.len()];
    let mut count = vec![0usize; graph.values.len()];
    for node in &graph.nodes {
        node.outs
            .clone()
            .for_each(|v| producer[v as usize] = Some(node));
        let read = node.args.iter().filter_map(value);
        read.for_each(|v| count[v] += 1);
    }
    let outputs = graph.outputs.iter().filter_map(|o| value(&o.arg));
    outputs.for_each(|v| count[v] += 1);
    let transposed_concat = |node: &Node| {
        let Op::Transpose(axes) = &node.op else {
            return None;
        };
        let v = value(&node.args[0]).filter(|&v| count[v] == 1)?;
        let parts: &Node = producer[v]?;
        match parts.op {
            Op::Concat(axis) => Some((axes.clone(), axes.iter().position(|&a| a == axis)?, parts)),
            _ => None,
        }
    };
    if !graph.nodes.iter().any(|n| transposed_concat(n).is_some()) {
        return Ok(graph.clone());
    }
    let mut rewriter = GraphRewriter::new(graph, |_| true);
    for node in &graph.nodes {
        let outs = node.outs.start as usize..node.outs.end as usize;
        let specs = &graph.values[outs.clone()];
        let made = match transposed_concat(node) {
            Some((axes, axis, parts)) => {
                let mut transposed = Vec::with_capacity(parts.args.len());
                for part in &parts.args {
                    let spec = graph.arg_spec(part);
                    let sizes: Vec<usize> = axes.iter().map(|&a| spec.shape.size(a)).collect();
                    let spec = spec.with_shape(Shape::from_sizes(&sizes));
                    let part = rewriter.lookup(part)?;
                    transposed.extend(rewriter.add_node(
                        Op::Transpose(axes.clone()),
                        &[part],
                        &[spec],
                        node,
                    ));
                }
                rewriter.add_node(Op::Concat(axis), &transposed, specs, node)
            }
            None => {
                let args = node.args.iter().map(|a| rewriter.lookup(a));
                let args = args.collect::<Result<Vec<Arg>>>()?;
                rewriter.add_node(node.op.clone(), &args, specs, node)
            }
        };
        for (old, arg) in outs.zip(made) {
            rewriter.map[old] = Some(arg);
        }
    }
    rewriter.finish(graph)
}
