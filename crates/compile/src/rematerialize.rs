//! Rematerialization: recomputes a value in each fusion group that reads it, instead of storing it, if it is one cheap
//! elementwise op away from a value that is stored anyway. This saves a write and a read of memory for one more
//! instruction in the group.

use crate::fusion::fuse;
use crate::iteration_domain::{FusionRole, role, value};
use clematis_core::graph::{Arg, Graph, Node};
use clematis_core::op::{Binary, Unary};
use clematis_core::{Op, Result};
use clematis_passes::GraphRewriter;
use std::collections::HashMap;

/// The fewest elements for which rematerialization pays; smaller values stay in cache.
const MIN_ELEMENTS: usize = 1 << 16;
/// Operands this many times smaller than the result are ignored.
const NEGLIGIBLE_RATIO: usize = 16;

/// Producers and consumers of each value, by fusion group.
struct Uses {
    /// The group of each node, by its position in the order.
    group: Vec<usize>,
    /// Whether a node is part of a fused kernel.
    fused: Vec<bool>,
    producer: Vec<Option<usize>>,
    readers: Vec<Vec<usize>>,
    is_output: Vec<bool>,
}

impl Uses {
    fn new(graph: &Graph) -> Self {
        let mut uses = Uses {
            group: vec![0; graph.nodes.len()],
            fused: vec![false; graph.nodes.len()],
            producer: vec![None; graph.values.len()],
            readers: vec![Vec::new(); graph.values.len()],
            is_output: vec![false; graph.values.len()],
        };
        for (u, group) in fuse(graph).iter().enumerate() {
            for n in group.all() {
                (uses.group[n], uses.fused[n]) = (u, group.domain.is_some());
            }
        }
        for (n, node) in graph.nodes.iter().enumerate() {
            node.outs
                .clone()
                .for_each(|v| uses.producer[v as usize] = Some(n));
            let args = node.args.iter().filter_map(value);
            args.for_each(|v| uses.readers[v].push(n));
        }
        let outputs = graph.outputs.iter().filter_map(|o| value(&o.arg));
        outputs.for_each(|v| uses.is_output[v] = true);
        uses
    }

    /// Whether a node reads a value that another group produces.
    fn crosses_groups(&self, v: usize, reader: usize) -> bool {
        self.producer[v].is_some_and(|n| self.group[n] != self.group[reader])
    }

    /// The last other group that reads a value, if all its readers are fused.
    fn last_consumer_group(&self, v: usize) -> Option<usize> {
        let consumers = self.readers[v]
            .iter()
            .filter(|&&n| self.crosses_groups(v, n));
        let mut last = None;
        for &n in consumers {
            if !self.fused[n] {
                return None;
            }
            last = last.max(Some(self.group[n]));
        }
        last
    }

    /// Whether a value is still live in a group, whatever else is rematerialized.
    fn is_live_until(&self, v: usize, group: usize) -> bool {
        let used_later = self.readers[v].iter().any(|&n| self.group[n] >= group);
        self.is_output[v] || self.producer[v].is_none() || used_later
    }
}

/// The only large operand of a cheap op, if there is exactly one.
fn large_operand(graph: &Graph, node: &Node) -> Option<usize> {
    let cheap = matches!(
        node.op,
        Op::Binary(Binary::Add | Binary::Sub | Binary::Mul) | Op::Unary(Unary::Neg | Unary::Square)
    );
    let count = graph.values[node.outs.start as usize].shape.count();
    if !cheap || count < MIN_ELEMENTS || role(graph, node) != Some(FusionRole::Elementwise) {
        return None;
    }
    let size = |arg: &&Arg| graph.arg_spec(arg).shape.count();
    let mut large = node
        .args
        .iter()
        .filter(|a| size(a) * NEGLIGIBLE_RATIO > count);
    let first = large.next().and_then(value)?;
    large
        .all(|a| value(a) == Some(first))
        .then_some(first)
        .filter(|&v| graph.values[v].shape.count() == count)
}

/// The values to recompute in each group that reads them.
fn selected(graph: &Graph, uses: &Uses) -> Vec<usize> {
    let mut candidates: Vec<(usize, usize, usize)> = Vec::new();
    for node in &graph.nodes {
        let v = node.outs.start as usize;
        if let (Some(from), Some(last), false) = (
            large_operand(graph, node),
            uses.last_consumer_group(v),
            node.outs.len() != 1 || uses.is_output[v],
        ) {
            candidates.push((v, from, last));
        }
    }
    let is_recomputed = |v: usize| candidates.iter().any(|(w, ..)| *w == v);
    let sharing = |from: usize| candidates.iter().filter(|(_, f, _)| *f == from).count();
    let profitable = candidates.iter().filter(|&&(_, from, last)| {
        !is_recomputed(from) && (uses.is_live_until(from, last) || sharing(from) > 1)
    });
    profitable.map(|&(v, ..)| v).collect()
}

/// Gives each selected value one node per group that reads it.
pub fn run(graph: &Graph) -> Result<Graph> {
    let uses = Uses::new(graph);
    let selected = selected(graph, &uses);
    if selected.is_empty() {
        return Ok(graph.clone());
    }
    let mut rewriter = GraphRewriter::new(graph, |_| true);
    let mut copies: HashMap<(usize, usize), Arg> = HashMap::new();
    for (n, node) in graph.nodes.iter().enumerate() {
        let mut args = Vec::with_capacity(node.args.len());
        for arg in &node.args {
            let recomputed =
                value(arg).filter(|v| selected.contains(v) && uses.crosses_groups(*v, n));
            let Some((v, producer)) = recomputed.and_then(|v| Some((v, uses.producer[v]?))) else {
                args.push(rewriter.lookup(arg)?);
                continue;
            };
            let key = (v, uses.group[n]);
            if !copies.contains_key(&key) {
                let from = &graph.nodes[producer];
                let args = from.args.iter().map(|a| rewriter.lookup(a));
                let args = args.collect::<Result<Vec<Arg>>>()?;
                let made = rewriter.add_node(from.op.clone(), &args, &graph.values[v..=v], from);
                copies.extend(made.into_iter().map(|arg| (key, arg)));
            }
            args.extend(copies.get(&key).cloned());
        }
        let outs = node.outs.start as usize..node.outs.end as usize;
        let made = rewriter.add_node(node.op.clone(), &args, &graph.values[outs.clone()], node);
        for (old, arg) in outs.zip(made) {
            rewriter.map[old] = Some(arg);
        }
    }
    rewriter.finish(graph)
}
