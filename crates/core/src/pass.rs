//! Optimisation passes over graphs.
//!
//! Each pass is one function; `optimise` runs all of them until the graph stops shrinking, and verifies the output of
//! each. Results stay bit-identical except for what `Options` allow.

mod bodies;
mod cse;
mod fold;
mod fold_transpose;
mod recognise;
mod rewrite;
mod simplify;

use crate::error::Result;
use crate::graph::Graph;

/// What the passes may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// Allows optimisations that ignore NaN, infinities and the sign of zero: `x * 0` is 0, `x + 0` is x, `x - x` is
    /// 0.
    pub fast_math: bool,
    /// Allows composites that round differently from the formula they replace: for frameworks, which have fused ops
    /// for them.
    pub fused: bool,
}

/// A pass.
pub type Pass = fn(&Graph, Options) -> Result<Graph>;

/// All passes by name, in the order in which they run.
pub const PASSES: &[(&str, Pass)] = &[
    ("bodies", bodies::run),
    ("simplify", simplify::run),
    ("fold", fold::run),
    ("fold_transpose", fold_transpose::run),
    ("cse", cse::run),
    ("recognise", recognise::run),
    ("dce", |graph, _| Ok(graph.prune())),
];

/// Maximum number of rounds: each round only finds what the previous one exposed.
const ROUNDS: usize = 4;

impl Graph {
    /// Optimises the graph.
    pub fn optimise(&self, options: Options) -> Result<Graph> {
        let mut graph = self.clone();
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
}
