//! Where optimization passes are linked: `Options`, and the passes' entry point.
//!
//! The passes are in the crate `clematis-passes`. A program that does not link them runs its graphs as they were traced.

use crate::error::Result;
use crate::graph::Graph;

/// What the passes may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// Allows optimizations that ignore NaN, infinities and the sign of zero: `x * 0` is 0, `x + 0` is x, `x - x` is
    /// 0.
    pub fast_math: bool,
    /// Allows composites that round differently from the formula they replace: for frameworks, which have fused ops
    /// for them.
    pub fused: bool,
}

/// Optimizes a graph.
pub type Optimizer = fn(&Graph, Options) -> Result<Graph>;

/// The linked optimizers; the first one optimizes the graphs of programs.
#[linkme::distributed_slice]
pub static OPTIMIZERS: [Optimizer];

/// Optimizes a graph with the linked passes; without them the graph stays as it is.
pub fn optimize(graph: Graph, options: Options) -> Result<Graph> {
    match OPTIMIZERS.first() {
        Some(optimizer) => optimizer(&graph, options),
        None => Ok(graph),
    }
}
