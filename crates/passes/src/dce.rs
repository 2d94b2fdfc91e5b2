//! Dead code elimination: `y = exp(x); z = neg(x); return z → z = neg(x); return z`.

use clematis_core::pass::Options;
use clematis_core::{Graph, Result};

/// Removes the nodes that no output needs.
pub fn run(graph: &Graph, _: Options) -> Result<Option<Graph>> {
    let new = graph.prune();
    Ok((new.nodes.len() < graph.nodes.len()).then_some(new))
}
