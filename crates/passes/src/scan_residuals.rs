//! Residuals for scans: the forward scan emits the values that the backward scan would recompute, where that saves
//! dots: `scan {f}, scan {g(f)} → r = scan {f, r}, scan {g(r)}`.
//!
//! The VJP of a scan runs its steps in reverse and begins each step by recomputing values of the forward step. This
//! pass adds those values to the outputs of the forward scan, stacked over the steps, and passes them to the backward
//! scan.

use crate::graph_view::{same_arg, value};
use crate::rewriter::Rewriter;
use clematis_core::graph::{Arg, Graph, Node, Output, ValueId};
use clematis_core::op::Scan;
use clematis_core::pass::Options;
use clematis_core::{Body, Op, Result, Role, Spec};
use std::collections::HashMap;

/// The most values of a step that are saved.
const MAX_RESIDUALS: usize = 12;

/// The values that a forward scan saves for a backward scan.
struct Residuals {
    /// The nodes of both scans.
    forward: usize,
    backward: usize,
    /// Values of the backward body, each with the equal value of the forward body.
    values: Vec<(usize, usize)>,
}

fn as_scan(node: &Node) -> Option<&Scan> {
    match &node.op {
        Op::Scan(p) => Some(p),
        _ => None,
    }
}

/// Replaces recomputed values of backward scans by residuals of forward scans.
pub fn run(graph: &Graph, _: Options) -> Result<Option<Graph>> {
    let scans = graph.nodes.iter().filter(|n| as_scan(n).is_some());
    if scans.count() < 2 || graph.is_symbolic() {
        return Ok(None);
    }
    let mut graph = graph.clone();
    let mut visited: Vec<(usize, usize)> = Vec::new();
    while let Some(residuals) = find(&graph, &visited) {
        visited.push((residuals.forward, residuals.backward));
        graph = rebuild(&graph, &residuals)?;
    }
    Ok((!visited.is_empty()).then_some(graph))
}

fn find(graph: &Graph, visited: &[(usize, usize)]) -> Option<Residuals> {
    let loops = graph.nodes.iter().enumerate();
    let loops: Vec<(usize, &Node, &Scan)> = loops
        .filter_map(|(n, node)| Some((n, node, as_scan(node)?)))
        .collect();
    for (i, &(backward, node, q)) in loops.iter().enumerate() {
        for &(forward, forward_node, p) in loops[..i].iter().rev() {
            if p.length != q.length || visited.contains(&(forward, backward)) {
                continue;
            }
            let values = common_values((forward_node, p), (node, q));
            if !values.is_empty() {
                return Some(Residuals {
                    forward,
                    backward,
                    values,
                });
            }
        }
    }
    None
}

/// Values of the backward body that the forward body computes too; only those that something else reads.
fn common_values(
    (forward_node, p): (&Node, &Scan),
    (node, q): (&Node, &Scan),
) -> Vec<(usize, usize)> {
    let (a, b) = (&*p.body.0, &*q.body.0);
    let (fixed, backward_fixed) = (p.consts + p.carries, q.consts + q.carries);
    let mut known: HashMap<usize, usize> = HashMap::new();
    for (i, arg) in node.args.iter().enumerate() {
        let input = b.inputs[i].value.0 as usize;
        let among = |range: std::ops::Range<usize>| {
            range
                .into_iter()
                .find(|&j| same_arg(arg, &forward_node.args[j]))
        };
        let found = if i < q.consts {
            among(0..p.consts).map(|j| a.inputs[j].value.0 as usize)
        } else if i < backward_fixed {
            None
        } else {
            let row = value(arg)
                .and_then(|v| v.checked_sub(forward_node.outs.start as usize + p.carries));
            let row = row
                .and_then(|r| a.outputs.get(p.carries + r))
                .and_then(|o| value(&o.arg));
            row.or_else(|| {
                among(fixed..forward_node.args.len()).map(|j| a.inputs[j].value.0 as usize)
            })
        };
        if let Some(v) = found {
            known.insert(input, v);
        }
    }
    let same_in = |known: &HashMap<usize, usize>, x: &Arg, y: &Arg| match (x, y) {
        (Arg::Value(x), Arg::Value(y)) => known.get(&(y.0 as usize)) == Some(&(x.0 as usize)),
        (Arg::Const(x), Arg::Const(y)) => x.same(y),
        _ => false,
    };
    // Values that are constant over the steps are not worth stacking.
    let mut varies = vec![false; b.values.len()];
    for input in &b.inputs[q.consts.min(b.inputs.len())..] {
        varies[input.value.0 as usize] = true;
    }
    let mut recomputed: Vec<bool> = vec![false; b.nodes.len()];
    for (n, node) in b.nodes.iter().enumerate() {
        let same_node = a.nodes.iter().find(|m| {
            m.op == node.op
                && m.args.len() == node.args.len()
                && m.args
                    .iter()
                    .zip(&node.args)
                    .all(|(x, y)| same_in(&known, x, y))
        });
        let changes = node.args.iter().filter_map(value).any(|v| varies[v]);
        node.outs.clone().for_each(|v| varies[v as usize] = changes);
        if let Some(same_node) = same_node {
            recomputed[n] = changes;
            let outs = node.outs.clone().zip(same_node.outs.clone());
            known.extend(outs.map(|(y, x)| (y as usize, x as usize)));
        }
    }
    let saves_dot = b
        .nodes
        .iter()
        .zip(&recomputed)
        .any(|(n, &m)| m && matches!(n.op, Op::Dot(_)));
    if !saves_dot {
        return Vec::new();
    }
    let others = b
        .nodes
        .iter()
        .zip(&recomputed)
        .filter(|(_, m)| !**m)
        .flat_map(|(n, _)| &n.args);
    let read: Vec<usize> = others
        .chain(b.outputs.iter().map(|o| &o.arg))
        .filter_map(value)
        .collect();
    let residuals = b
        .nodes
        .iter()
        .zip(&recomputed)
        .filter(|(_, m)| **m)
        .flat_map(|(n, _)| n.outs.clone());
    let residuals = residuals.map(|v| v as usize).filter(|v| read.contains(v));
    let residuals: Vec<(usize, usize)> = residuals.map(|v| (v, known[&v])).collect();
    if residuals.len() > MAX_RESIDUALS {
        Vec::new()
    } else {
        residuals
    }
}

fn rebuild(graph: &Graph, residuals: &Residuals) -> Result<Graph> {
    let mut rewriter = Rewriter::new(graph);
    // The residuals of the forward scan, stacked over the steps.
    let mut sequences: Vec<Arg> = Vec::new();
    for (n, node) in graph.nodes.iter().enumerate() {
        let mut args = rewriter.operands(node)?;
        let outs = node.outs.start as usize..node.outs.end as usize;
        let mut specs: Vec<Spec> = graph.values[outs.clone()].to_vec();
        let mut op = node.op.clone();
        if let (true, Some(p)) = (n == residuals.forward, as_scan(node)) {
            let mut body = (*p.body.0).clone();
            for &(_, v) in &residuals.values {
                let arg = Arg::Value(ValueId(v as u32));
                specs.push(body.values[v].with_shape(body.values[v].shape.insert(0, p.length)));
                body.outputs.push(Output { arg, updates: None });
            }
            op = with_body(p, body);
        }
        if let (true, Some(q)) = (n == residuals.backward, as_scan(node)) {
            args.extend(sequences.iter().cloned());
            op = with_body(q, read_residuals(&q.body.0, &residuals.values)?);
        }
        let made = rewriter.add(op, args, &specs, node.scope);
        if n == residuals.forward {
            sequences.extend_from_slice(&made[outs.len()..]);
        }
        for (old, arg) in outs.zip(made) {
            rewriter.map[old] = Some(arg);
        }
    }
    rewriter.finish(graph)
}

fn with_body(p: &Scan, body: Graph) -> Op {
    let body = Body::new(body);
    Scan { body, ..p.clone() }.into()
}

/// A body that reads the residuals as inputs instead of computing them.
fn read_residuals(body: &Graph, values: &[(usize, usize)]) -> Result<Graph> {
    let mut rewriter = Rewriter::new(body);
    for &(v, _) in values {
        let id = rewriter
            .graph
            .input(body.values[v].clone(), Role::Input, "");
        rewriter.map[v] = Some(Arg::Value(id));
    }
    for node in &body.nodes {
        let outs = node.outs.start as usize..node.outs.end as usize;
        let args = rewriter.operands(node)?;
        let specs = &body.values[outs.clone()];
        let made = rewriter.add(node.op.clone(), args, specs, node.scope);
        for (old, arg) in outs.zip(made) {
            if !values.iter().any(|(v, _)| *v == old) {
                rewriter.map[old] = Some(arg);
            }
        }
    }
    Ok(rewriter.finish(body)?.prune())
}
