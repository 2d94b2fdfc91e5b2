//! Parts that are padded with zeros and added are put side by side instead: that is how a split is differentiated. What is turned
//! afterwards is put there turned, so that elements move once.

use crate::hoist::start;
use crate::space::value;
use clematis_core::graph::{Arg, Graph, Node};
use clematis_core::op::Binary;
use clematis_core::{Op, Result, Shape};
use std::collections::HashMap;

/// Parts of an axis, each with its place.
#[derive(Clone)]
struct Parts {
    axis: usize,
    list: Vec<(usize, usize, Arg)>,
}

/// What a pad of zeros puts where, if it pads one axis.
fn padded(graph: &Graph, node: &Node) -> Option<Parts> {
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
    Some(Parts {
        axis,
        list: vec![part],
    })
}

/// The same graph; what is not needed any more is dead.
pub fn run(graph: &Graph) -> Graph {
    let mut graph = graph.clone();
    let mut known: HashMap<usize, Parts> = HashMap::new();
    for n in 0..graph.nodes.len() {
        let node = &graph.nodes[n];
        let out = node.outs.start as usize;
        if let Some(parts) = padded(&graph, node) {
            known.insert(out, parts);
            continue;
        }
        if node.op != Op::Binary(Binary::Add) {
            continue;
        }
        let of = |at: usize| value(&node.args[at]).and_then(|v| known.get(&v));
        let (Some(a), Some(b)) = (of(0), of(1)) else {
            continue;
        };
        let alike = graph.arg_spec(&node.args[0]).shape == graph.arg_spec(&node.args[1]).shape;
        if a.axis != b.axis || !alike {
            continue;
        }
        let mut both = Parts {
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
            known.insert(out, both);
        }
    }
    graph
}

/// The same graph, in which parts are turned before they are put side by side.
pub fn turn_parts(graph: &Graph) -> Result<Graph> {
    let mut maker = vec![None; graph.values.len()];
    let mut count = vec![0usize; graph.values.len()];
    for node in &graph.nodes {
        node.outs
            .clone()
            .for_each(|v| maker[v as usize] = Some(node));
        let read = node.args.iter().filter_map(value);
        read.for_each(|v| count[v] += 1);
    }
    let outputs = graph.outputs.iter().filter_map(|o| value(&o.arg));
    outputs.for_each(|v| count[v] += 1);
    let joined = |node: &Node| {
        let Op::Transpose(axes) = &node.op else {
            return None;
        };
        let v = value(&node.args[0]).filter(|&v| count[v] == 1)?;
        let parts: &Node = maker[v]?;
        match parts.op {
            Op::Concat(axis) => Some((axes.clone(), axes.iter().position(|&a| a == axis)?, parts)),
            _ => None,
        }
    };
    if !graph.nodes.iter().any(|n| joined(n).is_some()) {
        return Ok(graph.clone());
    }
    let mut new = start(graph, |_| true);
    for node in &graph.nodes {
        let outs = node.outs.start as usize..node.outs.end as usize;
        let specs = &graph.values[outs.clone()];
        let made = match joined(node) {
            Some((axes, axis, parts)) => {
                let mut turned = Vec::with_capacity(parts.args.len());
                for part in &parts.args {
                    let spec = graph.arg_spec(part);
                    let sizes: Vec<usize> = axes.iter().map(|&a| spec.shape.size(a)).collect();
                    let spec = spec.with_shape(Shape::from_sizes(&sizes));
                    let part = new.follow(part)?;
                    turned.extend(new.add(Op::Transpose(axes.clone()), &[part], &[spec], node));
                }
                new.add(Op::Concat(axis), &turned, specs, node)
            }
            None => {
                let args = node.args.iter().map(|a| new.follow(a));
                let args = args.collect::<Result<Vec<Arg>>>()?;
                new.add(node.op.clone(), &args, specs, node)
            }
        };
        for (old, arg) in outs.zip(made) {
            new.known[old] = Some(arg);
        }
    }
    new.finish(graph)
}
