//! What is rather computed again than kept: a value that a later group reads, and that comes in one light step of another
//! one that is kept anyway. Memory is read and written once less, and a step of a group costs next to nothing.

use crate::group::group;
use crate::hoist::start;
use crate::space::{Part, part, value};
use clematis_core::graph::{Arg, Graph, Node};
use clematis_core::op::{Binary, Unary};
use clematis_core::{Op, Result};
use std::collections::HashMap;

/// Elements from which on it is worth it: smaller ones stay in the caches.
const FEWEST: usize = 1 << 16;
/// Operands so many times smaller than the result do not count.
const SMALLER: usize = 16;

/// Who makes and who reads each value, by units.
struct Uses {
    /// The unit of each node, by its place in the order.
    unit: Vec<usize>,
    /// Whether a node runs in a group.
    fused: Vec<bool>,
    maker: Vec<Option<usize>>,
    readers: Vec<Vec<usize>>,
    comes_out: Vec<bool>,
}

impl Uses {
    fn new(graph: &Graph) -> Self {
        let mut uses = Uses {
            unit: vec![0; graph.nodes.len()],
            fused: vec![false; graph.nodes.len()],
            maker: vec![None; graph.values.len()],
            readers: vec![Vec::new(); graph.values.len()],
            comes_out: vec![false; graph.values.len()],
        };
        for (u, unit) in group(graph).iter().enumerate() {
            for n in unit.all() {
                (uses.unit[n], uses.fused[n]) = (u, unit.space.is_some());
            }
        }
        for (n, node) in graph.nodes.iter().enumerate() {
            node.outs
                .clone()
                .for_each(|v| uses.maker[v as usize] = Some(n));
            let args = node.args.iter().filter_map(value);
            args.for_each(|v| uses.readers[v].push(n));
        }
        let outputs = graph.outputs.iter().filter_map(|o| value(&o.arg));
        outputs.for_each(|v| uses.comes_out[v] = true);
        uses
    }

    /// Whether a node reads a value that another unit made.
    fn is_far(&self, v: usize, reader: usize) -> bool {
        self.maker[v].is_some_and(|n| self.unit[n] != self.unit[reader])
    }

    /// The last unit of another kind that reads a value, if groups alone do.
    fn last_far(&self, v: usize) -> Option<usize> {
        let far = self.readers[v].iter().filter(|&&n| self.is_far(v, n));
        let mut last = None;
        for &n in far {
            if !self.fused[n] {
                return None;
            }
            last = last.max(Some(self.unit[n]));
        }
        last
    }

    /// Whether a value is at hand in a unit whoever else is computed again.
    fn stays_until(&self, v: usize, unit: usize) -> bool {
        let read_later = self.readers[v].iter().any(|&n| self.unit[n] >= unit);
        self.comes_out[v] || self.maker[v].is_none() || read_later
    }
}

/// The large operand of a light step, if there is one alone.
fn origin(graph: &Graph, node: &Node) -> Option<usize> {
    let light = matches!(
        node.op,
        Op::Binary(Binary::Add | Binary::Sub | Binary::Mul) | Op::Unary(Unary::Neg | Unary::Square)
    );
    let count = graph.values[node.outs.start as usize].shape.count();
    if !light || count < FEWEST || part(graph, node) != Some(Part::Each) {
        return None;
    }
    let size = |arg: &&Arg| graph.arg_spec(arg).shape.count();
    let mut large = node.args.iter().filter(|a| size(a) * SMALLER > count);
    let first = large.next().and_then(value)?;
    large
        .all(|a| value(a) == Some(first))
        .then_some(first)
        .filter(|&v| graph.values[v].shape.count() == count)
}

/// The values that are computed again where other groups read them.
fn chosen(graph: &Graph, uses: &Uses) -> Vec<usize> {
    let mut found: Vec<(usize, usize, usize)> = Vec::new();
    for node in &graph.nodes {
        let v = node.outs.start as usize;
        if let (Some(from), Some(last), false) = (
            origin(graph, node),
            uses.last_far(v),
            node.outs.len() != 1 || uses.comes_out[v],
        ) {
            found.push((v, from, last));
        }
    }
    let is_made_again = |v: usize| found.iter().any(|(w, ..)| *w == v);
    let together = |from: usize| found.iter().filter(|(_, f, _)| *f == from).count();
    let worth = found.iter().filter(|&&(_, from, last)| {
        !is_made_again(from) && (uses.stays_until(from, last) || together(from) > 1)
    });
    worth.map(|&(v, ..)| v).collect()
}

/// The same graph, in which such values have a node for each unit that reads them.
pub fn run(graph: &Graph) -> Result<Graph> {
    let uses = Uses::new(graph);
    let chosen = chosen(graph, &uses);
    if chosen.is_empty() {
        return Ok(graph.clone());
    }
    let mut new = start(graph, |_| true);
    let mut copies: HashMap<(usize, usize), Arg> = HashMap::new();
    for (n, node) in graph.nodes.iter().enumerate() {
        let mut args = Vec::with_capacity(node.args.len());
        for arg in &node.args {
            let far = value(arg).filter(|v| chosen.contains(v) && uses.is_far(*v, n));
            let Some((v, maker)) = far.and_then(|v| Some((v, uses.maker[v]?))) else {
                args.push(new.follow(arg)?);
                continue;
            };
            let key = (v, uses.unit[n]);
            if !copies.contains_key(&key) {
                let from = &graph.nodes[maker];
                let again = from.args.iter().map(|a| new.follow(a));
                let again = again.collect::<Result<Vec<Arg>>>()?;
                let made = new.add(from.op.clone(), &again, &graph.values[v..=v], from);
                copies.extend(made.into_iter().map(|arg| (key, arg)));
            }
            args.extend(copies.get(&key).cloned());
        }
        let outs = node.outs.start as usize..node.outs.end as usize;
        let made = new.add(node.op.clone(), &args, &graph.values[outs.clone()], node);
        for (old, arg) in outs.zip(made) {
            new.known[old] = Some(arg);
        }
    }
    new.finish(graph)
}
