//! Folds a transpose into the dot that produces its operand: `transpose(dot(a, b)) → dot(b, a)`.

use crate::graph_view::{GraphView, value};
use clematis_core::graph::Graph;
use clematis_core::op::Dot;
use clematis_core::pass::Options;
use clematis_core::{Op, Result};

/// Rewrites a graph; dots without remaining uses are left dead.
pub fn run(graph: &Graph, _: Options) -> Result<Option<Graph>> {
    if graph.is_symbolic() {
        return Ok(None);
    }
    let view = GraphView::new(graph);
    let mut folded: Vec<(usize, Dot, usize)> = Vec::new();
    for (n, node) in graph.nodes.iter().enumerate() {
        let Op::Transpose(axes) = &node.op else {
            continue;
        };
        let Some(v) = value(&node.args[0]).filter(|&v| view.uses(v) == 1) else {
            continue;
        };
        let Some(from) = view.producer(v) else {
            continue;
        };
        let dot = &graph.nodes[from];
        let Op::Dot(p) = &dot.op else { continue };
        // `[batch, left, right]` to `[batch, right, left]`.
        let batch = p.lhs_batch.len();
        let left = graph.arg_spec(&dot.args[0]).rank() - batch - p.lhs_contract.len();
        let swap = (0..batch)
            .chain(batch + left..axes.len())
            .chain(batch..batch + left);
        if axes.iter().copied().eq(swap) {
            let swapped = Dot {
                lhs_batch: p.rhs_batch.clone(),
                rhs_batch: p.lhs_batch.clone(),
                lhs_contract: p.rhs_contract.clone(),
                rhs_contract: p.lhs_contract.clone(),
            };
            folded.push((n, swapped, from));
        }
    }
    if folded.is_empty() {
        return Ok(None);
    }
    let mut new = graph.clone();
    for (n, swapped, from) in folded {
        new.nodes[n].op = swapped.into();
        new.nodes[n].args = graph.nodes[from].args.iter().rev().cloned().collect();
    }
    Ok(Some(new))
}
