//! Passes: a graph in, a graph out that computes the same with less.
//!
//! Each pass is one function; `optimise` runs all of them until nothing gets shorter, and verifies what each one made.
//! Nothing here changes a bit of a result, but for what `Options` allow.

mod bodies;
mod cse;
mod fold;
mod layout;
mod recognise;
mod rewrite;
mod simplify;

use crate::error::Result;
use crate::graph::Graph;

/// What the passes may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// Whether NaN, infinities and the sign of zero may be lost: `x * 0` is 0, `x + 0` is x, `x - x` is 0.
    pub fast_math: bool,
    /// Whether a composite may stand for a formula that rounds otherwise: for frameworks, which have ops of their own for them.
    pub fused: bool,
}

/// A pass.
pub type Pass = fn(&Graph, Options) -> Result<Graph>;

/// Every pass by its name, in the order in which they run.
pub const PASSES: &[(&str, Pass)] = &[
    ("bodies", bodies::run),
    ("simplify", simplify::run),
    ("fold", fold::run),
    ("layout", layout::run),
    ("common", cse::run),
    ("recognise", recognise::run),
    ("dead", |graph, _| Ok(graph.prune())),
];

/// How often the passes run at most: each round only finds what the one before it laid open.
const ROUNDS: usize = 4;

impl Graph {
    /// The same program, shorter where it can be.
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
