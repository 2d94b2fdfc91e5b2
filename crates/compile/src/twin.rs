//! Loops that carry the same: a derivative runs a loop again to keep what each step had.

use clematis_core::Op;
use clematis_core::Role;
use clematis_core::graph::{Arg, Graph, Node};
use clematis_core::op::Scan;

/// Whether both operands are the same.
pub fn same(a: &Arg, b: &Arg) -> bool {
    match (a, b) {
        (Arg::Value(a), Arg::Value(b)) => a == b,
        (Arg::Const(a), Arg::Const(b)) => a.same(b),
        _ => false,
    }
}

/// How a body makes its carries, as text.
fn carrying(scan: &Scan) -> String {
    let mut body = (*scan.body.0).clone();
    body.outputs.truncate(scan.carries);
    for input in &mut body.inputs {
        (input.name, input.role) = (String::new(), Role::Input);
    }
    body.scopes.truncate(1);
    for node in &mut body.nodes {
        node.scope = Default::default();
    }
    body.prune().to_string()
}

/// Loops that give nothing but what a later one carries too, with that one.
pub fn twins(graph: &Graph) -> Vec<(usize, usize)> {
    let loops: Vec<(usize, &Node, &Scan)> = graph
        .nodes
        .iter()
        .enumerate()
        .filter_map(|(n, node)| match &node.op {
            Op::Scan(p) => Some((n, node, &**p)),
            _ => None,
        })
        .collect();
    let mut found: Vec<(usize, usize)> = Vec::new();
    for (i, (n, node, p)) in loops.iter().enumerate() {
        if p.body.outputs.len() != p.carries {
            continue;
        }
        let twin = loops[i + 1..].iter().find(|(m, other, q)| {
            p.consts == q.consts
                && p.carries == q.carries
                && p.length == q.length
                && p.reverse == q.reverse
                && node.args.len() == other.args.len()
                && node.args.iter().zip(&other.args).all(|(a, b)| same(a, b))
                && found.iter().all(|(_, made)| made != m)
                && carrying(p) == carrying(q)
        });
        if let Some((m, ..)) = twin {
            found.push((*n, *m));
        }
    }
    found
}
