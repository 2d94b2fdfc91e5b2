//! Fuses column sums (a sum over all axes but the last, such as bias and norm gradients) into the fusion group that
//! already has the elements in registers.
//!
//! The additions run in the order of the engine's own reduction kernel, so the result is bit-identical to the unfused
//! op: each task sums a range of rows in blocks, and the partial sums of the tasks are added in order.

use crate::fusion::FusionGroup;
use crate::iteration_domain::{FusionRole, IterationDomain, role};
use clematis_core::graph::Graph;
use clematis_core::op::ReduceKind;
use clematis_core::{DType, Op, Spec};
use clematis_native::kernel::reduce::{ROW_BLOCK, rows_per_partial};
use clematis_native::kernel::row_kernels::accumulate;
use clematis_passes::{GraphView, value};

/// Sizes of the last axis for which fusing pays: at least one full vector, and few enough for a partial sum per task.
const COLUMNS: std::ops::RangeInclusive<usize> = 16..=4096;
/// The fewest rows for which fusing pays.
const MIN_ROWS: usize = 8;

/// A column sum that a program computes beside its targets.
#[derive(Clone, Debug)]
pub struct ColumnSum {
    /// The value of the graph.
    pub id: usize,
    /// Its shape and dtype.
    pub spec: Spec,
    /// The value of the program that is summed.
    pub value: u16,
}

/// The value that a group sums over its columns, if the group is a single fusible column sum.
fn summed_value(graph: &Graph, group: &FusionGroup) -> Option<usize> {
    let ([n], None) = (&group.nodes[..], &group.domain) else {
        return None;
    };
    let node = &graph.nodes[*n];
    let Op::Reduce(p) = &node.op else {
        return None;
    };
    let spec = graph.arg_spec(&node.args[0]);
    let last = spec.rank().checked_sub(1)?;
    let columns = spec.shape.size(last);
    let fits = p.kind == ReduceKind::Sum
        && spec.dtype == DType::F32
        && graph.values[node.outs.start as usize].dtype == DType::F32
        && p.axes.iter().copied().eq(0..last)
        && COLUMNS.contains(&columns)
        && spec.shape.count() >= MIN_ROWS * columns;
    fits.then(|| value(&node.args[0])).flatten()
}

/// Whether a group has every element of a value in registers: it produces the value, or reads it elementwise.
fn provides(
    view: &GraphView<'_>,
    position: &[usize],
    (at, group): (usize, &FusionGroup),
    v: usize,
) -> bool {
    let graph = view.graph();
    let shape = &graph.values[v].shape;
    let whole = group.domain.as_ref().is_some_and(|s| s.shape == *shape);
    // Column sums on the side of the group have no role, and another shape.
    let own = |n: &usize| position[*n] == at;
    let reads_all = |n: usize| {
        let node = &graph.nodes[n];
        match role(graph, node) {
            Some(FusionRole::Elementwise) => graph.values[node.outs.start as usize].shape == *shape,
            Some(FusionRole::Reduce) => true,
            Some(FusionRole::Broadcast) | None => false,
        }
    };
    whole && (view.producer(v).filter(own).is_some() || view.users(v).filter(own).any(reads_all))
}

/// Moves each column sum into an earlier group that has its elements in registers, if no group before the host reads
/// the sum.
pub fn attach(view: &GraphView<'_>, mut groups: Vec<FusionGroup>) -> Vec<FusionGroup> {
    let graph = view.graph();
    // The position of each node's group.
    let mut position = vec![0; graph.nodes.len()];
    for (u, group) in groups.iter().enumerate() {
        group.all().for_each(|n| position[n] = u);
    }
    for at in 0..groups.len() {
        let Some(v) = summed_value(graph, &groups[at]) else {
            continue;
        };
        let n = groups[at].nodes[0];
        let sum = graph.nodes[n].outs.start as usize;
        let first_use = view.users(sum).map(|user| position[user]).min();
        let before = |u: &usize| first_use.is_none_or(|first| *u < first);
        let nodes = view.producer(v).into_iter().chain(view.users(v));
        let mut hosts: Vec<usize> = nodes.map(|n| position[n]).filter(before).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts.retain(|&u| u != at);
        let host = hosts
            .into_iter()
            .find(|&u| provides(view, &position, (u, &groups[u]), v));
        if let Some(host) = host {
            groups[host].column_sums.push(n);
            groups[at].nodes.clear();
            position[n] = host;
        }
    }
    groups.retain(|group| !group.nodes.is_empty());
    groups
}

/// Floats of scratch that a task needs per column sum: the sums of all its rows, and those of the current row block.
pub(crate) fn scratch_len(columns: usize) -> usize {
    2 * columns
}

/// Rows per task.
pub(crate) fn rows_per_task(domain: &IterationDomain) -> usize {
    let columns = domain.columns().max(1);
    rows_per_partial(domain.count() / columns, columns)
}

/// Adds rows to a task's sums; `done` rows have been added before.
pub(crate) fn add_rows(scratch: &mut [f32], rows: &[f32], done: usize) {
    let columns = scratch.len() / 2;
    let (total, block) = scratch.split_at_mut(columns);
    for (at, row) in (done..).zip(rows.chunks_exact(columns)) {
        if at > 0 && at.is_multiple_of(ROW_BLOCK) {
            accumulate(total, block);
            block.fill(0.0);
        }
        accumulate(block, row);
    }
}

/// Adds the partial sums of all tasks, in order.
pub(crate) fn collect(out: &mut [f32], scratch: &mut [f32]) {
    let columns = out.len();
    for (at, scratch) in scratch.chunks_exact_mut(scratch_len(columns)).enumerate() {
        let (total, block) = scratch.split_at_mut(columns);
        accumulate(total, block);
        match at {
            0 => out.copy_from_slice(total),
            _ => accumulate(out, total),
        }
    }
}
