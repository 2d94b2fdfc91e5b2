//! Folds a transpose into the dot that produces its operand: `transpose(dot(a, b)) → dot(b, a)` with swapped operands.
//!
//! Also rewrites `x > 0` to `relu(x) > 0` where `relu(x)` is already computed: the backward pass then needs only
//! `relu(x)`.

use crate::graph_rewriter::value;
use clematis_core::graph::{Arg, Graph, ValueId};
use clematis_core::op::{Compare, Dot};
use clematis_core::{Composite, Op};

/// Rewrites a graph; dots without remaining uses are left dead.
pub fn run(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    let mut producer = vec![None; graph.values.len()];
    let mut count = vec![0usize; graph.values.len()];
    for (n, node) in graph.nodes.iter().enumerate() {
        node.outs
            .clone()
            .for_each(|v| producer[v as usize] = Some(n));
        node.args
            .iter()
            .filter_map(value)
            .for_each(|v| count[v] += 1);
    }
    for v in graph.outputs.iter().filter_map(|o| value(&o.arg)) {
        count[v] += 1;
    }
    let relu: Op = Composite::Relu {}.into();
    let zero = |arg: &Arg| match arg {
        Arg::Const(t) => t.as_number().is_some_and(|n| n.as_f64() == 0.0),
        Arg::Value(_) => false,
    };
    for n in 0..graph.nodes.len() {
        if graph.nodes[n].op != Op::Compare(Compare::Greater) || !zero(&graph.nodes[n].args[1]) {
            continue;
        }
        let x = value(&graph.nodes[n].args[0]);
        let earlier = graph.nodes[..n]
            .iter()
            .find(|m| m.op == relu && x.is_some() && value(&m.args[0]) == x);
        if let Some(v) = earlier.map(|m| m.outs.start) {
            graph.nodes[n].args[0] = Arg::Value(ValueId(v));
        }
    }
    for n in 0..graph.nodes.len() {
        let Op::Transpose(axes) = &graph.nodes[n].op else {
            continue;
        };
        let Some(v) = value(&graph.nodes[n].args[0]) else {
            continue;
        };
        let Some(dot) = producer[v].map(|m: usize| &graph.nodes[m]) else {
            continue;
        };
        let Op::Dot(p) = &dot.op else { continue };
        // `[batch, left, right]` to `[batch, right, left]`.
        let batch = p.lhs_batch.len();
        let left = graph.arg_spec(&dot.args[0]).rank() - batch - p.lhs_contract.len();
        let swap = (0..batch)
            .chain(batch + left..axes.len())
            .chain(batch..batch + left);
        if count[v] != 1 || !axes.iter().copied().eq(swap) {
            continue;
        }
        let swapped = Dot {
            lhs_batch: p.rhs_batch.clone(),
            rhs_batch: p.lhs_batch.clone(),
            lhs_contract: p.rhs_contract.clone(),
            rhs_contract: p.lhs_contract.clone(),
        };
        let args = dot.args.iter().rev().cloned().collect();
        graph.nodes[n].op = swapped.into();
        graph.nodes[n].args = args;
    }
    graph
}
