//! What a loop's derivative computes again is kept by the loop itself, where that saves products.
//!
//! A derivative goes through the steps of a loop backwards and begins each with what the loop had computed there. Those
//! values come out of the loop as sequences instead, and go into the derivative's loop.

use crate::hoist::start;
use crate::space::value;
use crate::twin::same;
use clematis_core::graph::{Arg, Graph, Node, Output, ValueId};
use clematis_core::op::Scan;
use clematis_core::{Body, Op, Result, Role, Spec};
use std::collections::HashMap;

/// No more values of a step than this are kept.
const MOST: usize = 12;

/// What one loop is to keep for a later one.
struct Kept {
    /// The nodes of both loops.
    first: usize,
    later: usize,
    /// Values of the later body with those of the first that they equal.
    values: Vec<(usize, usize)>,
}

fn scan(node: &Node) -> Option<&Scan> {
    match &node.op {
        Op::Scan(p) => Some(p),
        _ => None,
    }
}

/// The same graph, in which later loops read what earlier ones keep.
pub fn run(graph: &Graph) -> Result<Graph> {
    let mut graph = graph.clone();
    let mut done: Vec<(usize, usize)> = Vec::new();
    while let Some(kept) = find(&graph, &done) {
        done.push((kept.first, kept.later));
        graph = rebuild(&graph, &kept)?;
    }
    Ok(graph)
}

fn find(graph: &Graph, done: &[(usize, usize)]) -> Option<Kept> {
    let loops = graph.nodes.iter().enumerate();
    let loops: Vec<(usize, &Node, &Scan)> = loops
        .filter_map(|(n, node)| Some((n, node, scan(node)?)))
        .collect();
    for (i, &(later, node, q)) in loops.iter().enumerate() {
        for &(first, before, p) in loops[..i].iter().rev() {
            if p.length != q.length || done.contains(&(first, later)) {
                continue;
            }
            let values = shared((before, p), (node, q));
            if !values.is_empty() {
                return Some(Kept {
                    first,
                    later,
                    values,
                });
            }
        }
    }
    None
}

/// Values of the later loop's body that the first one's body computes too, those alone that something else reads.
fn shared((before, p): (&Node, &Scan), (node, q): (&Node, &Scan)) -> Vec<(usize, usize)> {
    let (a, b) = (&*p.body.0, &*q.body.0);
    let (fixed, later_fixed) = (p.consts + p.carries, q.consts + q.carries);
    let mut known: HashMap<usize, usize> = HashMap::new();
    for (i, arg) in node.args.iter().enumerate() {
        let input = b.inputs[i].value.0 as usize;
        let among =
            |range: std::ops::Range<usize>| range.into_iter().find(|&j| same(arg, &before.args[j]));
        let found = if i < q.consts {
            among(0..p.consts).map(|j| a.inputs[j].value.0 as usize)
        } else if i < later_fixed {
            None
        } else {
            let row =
                value(arg).and_then(|v| v.checked_sub(before.outs.start as usize + p.carries));
            let row = row
                .and_then(|r| a.outputs.get(p.carries + r))
                .and_then(|o| value(&o.arg));
            row.or_else(|| among(fixed..before.args.len()).map(|j| a.inputs[j].value.0 as usize))
        };
        if let Some(v) = found {
            known.insert(input, v);
        }
    }
    let alike = |known: &HashMap<usize, usize>, x: &Arg, y: &Arg| match (x, y) {
        (Arg::Value(x), Arg::Value(y)) => known.get(&(y.0 as usize)) == Some(&(x.0 as usize)),
        (Arg::Const(x), Arg::Const(y)) => x.same(y),
        _ => false,
    };
    // What no step changes is not worth a sequence.
    let mut varies = vec![false; b.values.len()];
    for input in &b.inputs[q.consts.min(b.inputs.len())..] {
        varies[input.value.0 as usize] = true;
    }
    let mut made: Vec<bool> = vec![false; b.nodes.len()];
    for (n, node) in b.nodes.iter().enumerate() {
        let twin = a.nodes.iter().find(|m| {
            m.op == node.op
                && m.args.len() == node.args.len()
                && m.args
                    .iter()
                    .zip(&node.args)
                    .all(|(x, y)| alike(&known, x, y))
        });
        let changes = node.args.iter().filter_map(value).any(|v| varies[v]);
        node.outs.clone().for_each(|v| varies[v as usize] = changes);
        if let Some(twin) = twin {
            made[n] = changes;
            let outs = node.outs.clone().zip(twin.outs.clone());
            known.extend(outs.map(|(y, x)| (y as usize, x as usize)));
        }
    }
    let products = b
        .nodes
        .iter()
        .zip(&made)
        .any(|(n, &m)| m && matches!(n.op, Op::Dot(_)));
    if !products {
        return Vec::new();
    }
    let others = b
        .nodes
        .iter()
        .zip(&made)
        .filter(|(_, m)| !**m)
        .flat_map(|(n, _)| &n.args);
    let read: Vec<usize> = others
        .chain(b.outputs.iter().map(|o| &o.arg))
        .filter_map(value)
        .collect();
    let kept = b
        .nodes
        .iter()
        .zip(&made)
        .filter(|(_, m)| **m)
        .flat_map(|(n, _)| n.outs.clone());
    let kept = kept.map(|v| v as usize).filter(|v| read.contains(v));
    let kept: Vec<(usize, usize)> = kept.map(|v| (v, known[&v])).collect();
    if kept.len() > MOST { Vec::new() } else { kept }
}

fn rebuild(graph: &Graph, kept: &Kept) -> Result<Graph> {
    let mut new = start(graph, |_| true);
    // What the first loop keeps, as sequences.
    let mut sequences: Vec<Arg> = Vec::new();
    for (n, node) in graph.nodes.iter().enumerate() {
        let args = node.args.iter().map(|a| new.follow(a));
        let mut args = args.collect::<Result<Vec<Arg>>>()?;
        let outs = node.outs.start as usize..node.outs.end as usize;
        let mut specs: Vec<Spec> = graph.values[outs.clone()].to_vec();
        let mut op = node.op.clone();
        if let (true, Some(p)) = (n == kept.first, scan(node)) {
            let mut body = (*p.body.0).clone();
            for &(_, v) in &kept.values {
                let arg = Arg::Value(ValueId(v as u32));
                specs.push(body.values[v].with_shape(body.values[v].shape.insert(0, p.length)));
                body.outputs.push(Output { arg, updates: None });
            }
            op = with_body(p, body);
        }
        if let (true, Some(q)) = (n == kept.later, scan(node)) {
            args.extend(sequences.iter().cloned());
            op = with_body(q, reading(&q.body.0, &kept.values)?);
        }
        let made = new.add(op, &args, &specs, node);
        if n == kept.first {
            sequences.extend_from_slice(&made[outs.len()..]);
        }
        for (old, arg) in outs.zip(made) {
            new.known[old] = Some(arg);
        }
    }
    new.finish(graph)
}

fn with_body(p: &Scan, body: Graph) -> Op {
    let body = Body::new(body);
    Scan { body, ..p.clone() }.into()
}

/// A body that reads values instead of computing them.
fn reading(body: &Graph, values: &[(usize, usize)]) -> Result<Graph> {
    let mut new = start(body, |_| true);
    for &(v, _) in values {
        let id = new.graph.input(body.values[v].clone(), Role::Input, "");
        new.known[v] = Some(Arg::Value(id));
    }
    for node in &body.nodes {
        let outs = node.outs.start as usize..node.outs.end as usize;
        let args = node.args.iter().map(|a| new.follow(a));
        let args = args.collect::<Result<Vec<Arg>>>()?;
        let made = new.add(node.op.clone(), &args, &body.values[outs.clone()], node);
        for (old, arg) in outs.zip(made) {
            if !values.iter().any(|(v, _)| *v == old) {
                new.known[old] = Some(arg);
            }
        }
    }
    Ok(new.finish(body)?.prune())
}
