//! CSE for scans: merges a scan with a later one that has the same carries, such as the forward scan that a VJP
//! repeats.

use crate::graph_view::same_arg;
use clematis_core::graph::{Graph, Node};
use clematis_core::op::Scan;
use clematis_core::{Op, Role};

/// The text of the part of a body that computes the carries.
fn carry_text(scan: &Scan) -> String {
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

/// Pairs of scans: one that returns only carries, and a later one with the same carries.
pub fn duplicate_scans(graph: &Graph) -> Vec<(usize, usize)> {
    let loops: Vec<(usize, &Node, &Scan)> = graph
        .nodes
        .iter()
        .enumerate()
        .filter_map(|(n, node)| match &node.op {
            Op::Scan(p) => Some((n, node, &**p)),
            _ => None,
        })
        .collect();
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for (i, (n, node, p)) in loops.iter().enumerate() {
        if p.body.outputs.len() != p.carries {
            continue;
        }
        let duplicate = loops[i + 1..].iter().find(|(m, other, q)| {
            p.consts == q.consts
                && p.carries == q.carries
                && p.length == q.length
                && p.reverse == q.reverse
                && node.args.len() == other.args.len()
                && node
                    .args
                    .iter()
                    .zip(&other.args)
                    .all(|(a, b)| same_arg(a, b))
                && pairs.iter().all(|(_, target)| target != m)
                && carry_text(p) == carry_text(q)
        });
        if let Some((m, ..)) = duplicate {
            pairs.push((*n, *m));
        }
    }
    pairs
}
