//! Optimization passes: graph to graph, for any backend.
//!
//! Owns every rewrite that needs no knowledge of a target. `optimize` runs the passes in order and verifies the output of
//! each. Results stay bit-identical except for what `Options` allow. What depends on a target, such as fusion, is the
//! work of its compiler.

mod algebraic_simplify;
mod bodies;
mod constant_fold;
mod cse;
mod fold_dot_transpose;
mod fold_transpose;
mod graph_rewriter;
mod hoist;
mod match_composites;
mod rewrite;
mod sink_transpose_into_concat;

pub use clematis_core::pass::Options;
pub use graph_rewriter::GraphRewriter;

use clematis_core::pass::{OPTIMIZERS, Optimizer};
use clematis_core::{Graph, Result};

/// A pass.
pub type Pass = fn(&Graph, Options) -> Result<Graph>;

/// The passes that run until the graph stops shrinking, by name, in order.
pub const PASSES: &[(&str, Pass)] = &[
    ("bodies", bodies::run),
    ("algebraic_simplify", algebraic_simplify::run),
    ("constant_fold", constant_fold::run),
    ("fold_transpose", fold_transpose::run),
    ("cse", cse::run),
    ("match_composites", match_composites::run),
    ("dce", |graph, _| Ok(graph.prune())),
];

/// Maximum number of rounds: each round only finds what the previous one exposed.
const ROUNDS: usize = 4;

/// Optimizes a graph.
pub fn optimize(graph: &Graph, options: Options) -> Result<Graph> {
    let mut graph = graph.clone();
    for _ in 0..ROUNDS {
        let before = graph.nodes.len();
        for (name, pass) in PASSES {
            graph = pass(&graph, options)?;
            graph
                .verify()
                .map_err(|e| e.note(format!("after the pass `{name}`")))?;
        }
        if graph.nodes.len() == before {
            break;
        }
    }
    Ok(graph)
}

/// Hoists work out of scans, and folds transposes into dots and concats. A graph with symbolic dimensions is returned
/// unchanged.
pub fn optimize_loops(graph: &Graph) -> Result<Graph> {
    if graph.values.iter().any(|s| s.shape.is_symbolic()) {
        return Ok(graph.clone());
    }
    let folded = fold_dot_transpose::run(&hoist::run(graph)?).prune();
    Ok(sink_transpose_into_concat::run(&folded)?.prune())
}

/// Programs are optimized where this crate is linked.
#[linkme::distributed_slice(OPTIMIZERS)]
static LINK: Optimizer = optimize;
