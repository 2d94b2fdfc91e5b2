//! Rewrites sums of zero-padded parts as a concat: `pad(a) + pad(b) → concat(a, b)`, the form that the VJP of a split
//! has.

use crate::graph_view::value;
use clematis_core::graph::{Arg, Graph, Node};
use clematis_core::op::Binary;
use clematis_core::pass::Options;
use clematis_core::{Op, Result};
use std::collections::HashMap;

/// Parts of an axis, each with its offset and size.
#[derive(Clone)]
struct Pads {
    axis: usize,
    list: Vec<(usize, usize, Arg)>,
}

/// The part that a zero pad places along an axis, if it pads exactly one axis.
fn zero_pad(graph: &Graph, node: &Node) -> Option<Pads> {
    let Op::Pad(p) = &node.op else { return None };
    let zero = match &node.args[1] {
        Arg::Const(t) => t.as_number().is_some_and(|n| n.as_f64() == 0.0),
        Arg::Value(_) => false,
    };
    let size = &graph.arg_spec(&node.args[0]).shape;
    let mut axis = None;
    for i in 0..size.rank() {
        let (low, high) = (p.low[i].value()?, p.high[i].value()?);
        if low < 0 || high < 0 || p.interior[i] != 0 {
            return None;
        }
        if low + high > 0 && axis.replace((i, low as usize)).is_some() {
            return None;
        }
    }
    let (axis, low) = axis.filter(|_| zero)?;
    let part = (low, size.size(axis), node.args[0].clone());
    Some(Pads {
        axis,
        list: vec![part],
    })
}

/// Rewrites a graph; nodes that are no longer needed are left dead.
pub fn run(graph: &Graph, _: Options) -> Result<Option<Graph>> {
    let has_pads = graph.nodes.iter().any(|n| matches!(n.op, Op::Pad(_)));
    if !has_pads || graph.is_symbolic() {
        return Ok(None);
    }
    let mut graph = graph.clone();
    let mut pads: HashMap<usize, Pads> = HashMap::new();
    for n in 0..graph.nodes.len() {
        let node = &graph.nodes[n];
        let out = node.outs.start as usize;
        if let Some(parts) = zero_pad(&graph, node) {
            pads.insert(out, parts);
            continue;
        }
        if node.op != Op::Binary(Binary::Add) {
            continue;
        }
        let of = |at: usize| value(&node.args[at]).and_then(|v| pads.get(&v));
        let (Some(a), Some(b)) = (of(0), of(1)) else {
            continue;
        };
        let alike = graph.arg_spec(&node.args[0]).shape == graph.arg_spec(&node.args[1]).shape;
        if a.axis != b.axis || !alike {
            continue;
        }
        let mut both = Pads {
            axis: a.axis,
            list: a.list.iter().chain(&b.list).cloned().collect(),
        };
        both.list.sort_by_key(|part| part.0);
        if both.list.windows(2).any(|w| w[0].0 + w[0].1 > w[1].0) {
            continue;
        }
        let mut end = 0;
        let whole = both.list.iter().all(|part| {
            let fits = part.0 == end;
            end += part.1;
            fits
        });
        if whole && end == graph.values[out].shape.size(both.axis) {
            graph.nodes[n].op = Op::Concat(both.axis);
            graph.nodes[n].args = both.list.into_iter().map(|part| part.2).collect();
        } else {
            pads.insert(out, both);
        }
    }
    Ok(Some(graph))
}
