//! Rematerialization: recomputes a value in each fusion group that reads it, instead of storing it, if it is one cheap
//! elementwise op away from a value that is stored anyway. This saves a write and a read of memory for one more
//! instruction in the group.

use crate::fusion::FusionGroup;
use crate::iteration_domain::{FusionRole, role};
use clematis_core::graph::{Arg, Graph, Node};
use clematis_core::op::{Binary, Unary};
use clematis_core::{Op, Result};
use clematis_passes::{Args, GraphView, Rewriter, value};
use std::collections::HashMap;

/// The fewest elements for which rematerialization pays; smaller values stay in cache.
const MIN_ELEMENTS: usize = 1 << 16;
/// Operands this many times smaller than the result are ignored.
const NEGLIGIBLE_RATIO: usize = 16;

/// The uses of each value, by fusion group.
struct GroupUses<'a> {
    view: GraphView<'a>,
    /// The group of each node, by its position in the order.
    group: Vec<usize>,
    /// Whether a node is part of a fused kernel.
    fused: Vec<bool>,
}

impl<'a> GroupUses<'a> {
    fn new(graph: &'a Graph, groups: &[FusionGroup]) -> Self {
        let mut uses = GroupUses {
            view: GraphView::new(graph),
            group: vec![0; graph.nodes.len()],
            fused: vec![false; graph.nodes.len()],
        };
        for (u, group) in groups.iter().enumerate() {
            for n in group.all() {
                (uses.group[n], uses.fused[n]) = (u, group.domain.is_some());
            }
        }
        uses
    }

    /// Whether a node reads a value that another group produces.
    fn crosses_groups(&self, v: usize, reader: usize) -> bool {
        let producer = self.view.producer(v);
        producer.is_some_and(|n| self.group[n] != self.group[reader])
    }

    /// The last other group that reads a value, if all its readers are fused.
    fn last_consumer_group(&self, v: usize) -> Option<usize> {
        let mut last = None;
        for n in self.view.users(v).filter(|&n| self.crosses_groups(v, n)) {
            if !self.fused[n] {
                return None;
            }
            last = last.max(Some(self.group[n]));
        }
        last
    }

    /// Whether a value is still live in a group, whatever else is rematerialized.
    fn is_live_until(&self, v: usize, group: usize) -> bool {
        let is_kept = self.view.is_output(v) || self.view.producer(v).is_none();
        is_kept || self.view.users(v).any(|n| self.group[n] >= group)
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

/// Which values to recompute in each group that reads them, and whether there is one.
fn selected(graph: &Graph, uses: &GroupUses<'_>) -> Option<Vec<bool>> {
    // Values, each with its large operand and the last group that reads it.
    let mut candidates: Vec<(usize, usize, usize)> = Vec::new();
    let mut is_recomputed = vec![false; graph.values.len()];
    // How many candidates have the same large operand.
    let mut sharing = vec![0usize; graph.values.len()];
    for node in &graph.nodes {
        let v = node.outs.start as usize;
        if node.outs.len() != 1 || uses.view.is_output(v) {
            continue;
        }
        let last = uses.last_consumer_group(v);
        if let Some((from, last)) = large_operand(graph, node).zip(last) {
            candidates.push((v, from, last));
            is_recomputed[v] = true;
            sharing[from] += 1;
        }
    }
    let mut selected = vec![false; graph.values.len()];
    let mut any = false;
    for (v, from, last) in candidates {
        let profits = sharing[from] > 1 || uses.is_live_until(from, last);
        selected[v] = !is_recomputed[from] && profits;
        any |= selected[v];
    }
    any.then_some(selected)
}

/// Gives each selected value one node per group that reads it; `None` if there is none.
pub fn run(graph: &Graph, groups: &[FusionGroup]) -> Result<Option<Graph>> {
    let uses = GroupUses::new(graph, groups);
    let Some(selected) = selected(graph, &uses) else {
        return Ok(None);
    };
    let mut rewriter = Rewriter::new(graph);
    let mut copies: HashMap<(usize, usize), Arg> = HashMap::new();
    for (n, node) in graph.nodes.iter().enumerate() {
        let mut args = Args::new();
        for arg in &node.args {
            let recomputed = value(arg).filter(|&v| selected[v] && uses.crosses_groups(v, n));
            let producer = recomputed.and_then(|v| Some((v, uses.view.producer(v)?)));
            let Some((v, producer)) = producer else {
                args.push(rewriter.lookup(arg)?);
                continue;
            };
            let key = (v, uses.group[n]);
            if !copies.contains_key(&key) {
                let from = &graph.nodes[producer];
                let args = rewriter.operands(from)?;
                let specs = &graph.values[v..=v];
                let made = rewriter.add(from.op.clone(), args, specs, from.scope);
                copies.extend(made.into_iter().map(|arg| (key, arg)));
            }
            args.extend(copies.get(&key).cloned());
        }
        rewriter.copy_with(graph, node, node.op.clone(), args);
    }
    rewriter.finish(graph).map(Some)
}
