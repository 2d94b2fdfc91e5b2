//! Moves a transpose of a concat into its operands: `transpose(concat(a, b)) → concat(transpose(a), transpose(b))`.
//!
//! Elements are then copied once.

use crate::graph_view::{GraphView, value};
use crate::rewriter::{Args, Rewriter};
use clematis_core::graph::{Graph, Node};
use clematis_core::pass::Options;
use clematis_core::shape::Axes;
use clematis_core::{Op, Result, Shape};

/// The concat that a transpose reads, if nothing else does; the axes, and the axis of the transposed concat.
fn transposed_concat<'a>(
    view: &GraphView<'a>,
    node: &'a Node,
) -> Option<(&'a Axes, usize, &'a Node)> {
    let Op::Transpose(axes) = &node.op else {
        return None;
    };
    let v = value(&node.args[0]).filter(|&v| view.uses(v) == 1)?;
    let parts = &view.graph().nodes[view.producer(v)?];
    match parts.op {
        Op::Concat(axis) => Some((axes, axes.iter().position(|&a| a == axis)?, parts)),
        _ => None,
    }
}

/// Rewrites a graph; concats without remaining uses are left dead.
pub fn run(graph: &Graph, _: Options) -> Result<Option<Graph>> {
    let view = GraphView::new(graph);
    let mut nodes = graph.nodes.iter();
    if !nodes.any(|n| transposed_concat(&view, n).is_some()) || graph.is_symbolic() {
        return Ok(None);
    }
    let mut new = Rewriter::new(graph);
    for node in &graph.nodes {
        let Some((axes, axis, parts)) = transposed_concat(&view, node) else {
            new.copy(graph, node)?;
            continue;
        };
        let mut transposed = Args::new();
        for part in &parts.args {
            let spec = graph.arg_spec(part);
            let sizes: Vec<usize> = axes.iter().map(|&a| spec.shape.size(a)).collect();
            let spec = spec.with_shape(Shape::from_sizes(&sizes));
            let part = Args::from_iter([new.lookup(part)?]);
            transposed.extend(new.add(Op::Transpose(axes.clone()), part, &[spec], node.scope));
        }
        new.copy_with(graph, node, Op::Concat(axis), transposed);
    }
    new.finish(graph).map(Some)
}
