//! Sums over all axes but the last, as gradients of biases and norms are: a group that has the elements at hand anyway adds
//! them up while it passes by.
//!
//! In the order in which the engine's own kernel adds, so that the bits are those of the op by itself: a task is a piece of
//! the rows, which it adds up in bunches, and what comes of the pieces is added one after the other.

use crate::group::Unit;
use crate::space::{Part, Space, part, value};
use clematis_core::graph::Graph;
use clematis_core::op::ReduceKind;
use clematis_core::{DType, Op, Spec};
use clematis_native::kernel::reduce::{BUNCH, rows_of_piece};
use clematis_native::kernel::rows::accumulate;

/// Sizes of the last axis that are worth it: whole vectors, and few enough for sums of each task.
const COLUMNS: std::ops::RangeInclusive<usize> = 16..=4096;
/// Rows from which on it is.
const FEWEST_ROWS: usize = 8;

/// A sum that a program gives besides its targets.
#[derive(Clone, Debug)]
pub struct Down {
    /// The value of the graph.
    pub id: usize,
    /// What it is.
    pub spec: Spec,
    /// The value of the program that is summed.
    pub value: u16,
}

/// What a unit sums, if it is such a sum and nothing else.
fn summed(graph: &Graph, unit: &Unit) -> Option<usize> {
    let ([n], None) = (&unit.nodes[..], &unit.space) else {
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
        && spec.shape.count() >= FEWEST_ROWS * columns;
    fits.then(|| value(&node.args[0])).flatten()
}

/// Whether a unit has all elements of a value at hand: it makes them, or reads them one by one.
fn has(graph: &Graph, unit: &Unit, v: usize) -> bool {
    let shape = &graph.values[v].shape;
    let whole = unit.space.as_ref().is_some_and(|s| s.shape == *shape);
    whole
        && unit.nodes.iter().any(|&n| {
            let node = &graph.nodes[n];
            let makes = node.outs.contains(&(v as u32));
            let reads = node.args.iter().filter_map(value).any(|arg| arg == v);
            let each = match part(graph, node) {
                Some(Part::Each) => graph.values[node.outs.start as usize].shape == *shape,
                Some(Part::Fold) => true,
                Some(Part::Spread) | None => false,
            };
            makes || reads && each
        })
}

/// Gives such sums to the units that have their elements at hand, where nobody needs them before.
pub fn attach(graph: &Graph, mut units: Vec<Unit>) -> Vec<Unit> {
    for at in 0..units.len() {
        let Some(v) = summed(graph, &units[at]) else {
            continue;
        };
        let n = units[at].nodes[0];
        let sum = graph.nodes[n].outs.start as usize;
        let uses = |unit: &Unit| {
            let args = unit.all().flat_map(|n| &graph.nodes[n].args);
            args.filter_map(value).any(|arg| arg == sum)
        };
        let first_use = units.iter().position(uses).unwrap_or(units.len());
        let host = (0..first_use).find(|&u| u != at && has(graph, &units[u], v));
        if let Some(host) = host {
            units[host].downs.push(n);
            units[at].nodes.clear();
        }
    }
    units.retain(|unit| !unit.nodes.is_empty());
    units
}

/// Elements that a task needs for sums of so many columns: those of all its rows, and of a bunch of them.
pub(crate) fn room(columns: usize) -> usize {
    2 * columns
}

/// Rows of a task.
pub(crate) fn rows_of_task(space: &Space) -> usize {
    let columns = space.columns().max(1);
    rows_of_piece(space.count() / columns, columns)
}

/// Adds rows to the sums of a task, of which `done` have been added before.
pub(crate) fn add_rows(room: &mut [f32], rows: &[f32], done: usize) {
    let columns = room.len() / 2;
    let (all, bunch) = room.split_at_mut(columns);
    for (at, row) in (done..).zip(rows.chunks_exact(columns)) {
        if at > 0 && at.is_multiple_of(BUNCH) {
            accumulate(all, bunch);
            bunch.fill(0.0);
        }
        accumulate(bunch, row);
    }
}

/// Adds the sums of all tasks.
pub(crate) fn collect(out: &mut [f32], rooms: &mut [f32]) {
    let columns = out.len();
    for (at, room) in rooms.chunks_exact_mut(room(columns)).enumerate() {
        let (all, bunch) = room.split_at_mut(columns);
        accumulate(all, bunch);
        match at {
            0 => out.copy_from_slice(all),
            _ => accumulate(out, all),
        }
    }
}
