//! Optimization passes: graph to graph, for any target.
//!
//! Owns every rewrite of graphs, the `Rewriter` that they build graphs with, and the def-use
//! chains of a graph (`GraphView`). `PASSES` lists the passes in order; `legalize` brings a graph into the form that a
//! `Target` takes. Results stay bit-identical except for what
//! `Options` allow, and for `hoist`, which sums the dots of all steps of a scan in another order.

mod graph_view;
mod rewriter;
mod bodies;
mod algebraic_simplify;
mod constant_fold;
mod fold_transpose;
mod cse;
mod match_composites;
mod dce;
mod relu_mask;
mod fold_dot_transpose;
mod hoist;
mod sink_transpose_into_concat;
mod target;
mod unroll_scans;

pub use clematis_core::pass::Options;
pub use graph_view::{GraphView, same_arg, value};
pub use rewriter::{Args, Rewriter, rewrite};
pub use target::{TARGETS, Target};

use bodies::for_each_body;
use clematis_core::pass::{OPTIMIZERS, Optimizer};
use clematis_core::{Graph, Result};

/// A pass.
pub struct Pass {
    /// The name, which is that of its file.
    pub name: &'static str,
    /// Rewrites a graph; `None` if nothing changes.
    pub run: fn(&Graph, Options) -> Result<Option<Graph>>,
    /// Whether it belongs to the passes that run again while the graph shrinks. They also run on the bodies of loops
    /// before those are moved and merged.
    pub repeats: bool,
}

macro_rules! passes {
    ($($module:ident $repeats:literal)*) => {
        &[$(Pass { name: stringify!($module), run: $module::run, repeats: $repeats }),*]
    };
}

/// All passes, in order; the second column is `repeats`.
pub const PASSES: &[Pass] = passes! {
    algebraic_simplify true
    constant_fold true
    fold_transpose true
    cse true
    match_composites true
    dce true
    hoist false
    relu_mask false
    fold_dot_transpose false
    dce false
    sink_transpose_into_concat false
    dce false
};

/// Maximum number of rounds: each round only finds what the previous one exposed.
const ROUNDS: usize = 4;

/// Optimizes a graph and its bodies.
///
/// Every pass is linear or n log n in the number of nodes. In debug builds the output of each pass is verified, in release
/// builds the result.
///
/// # Errors
///
/// If the graph is invalid, or a pass makes it so.
///
/// # Examples
///
/// ```
/// # fn main() -> clematis_core::Result<()> {
/// use clematis_passes::{Options, optimize};
///
/// let graph = clematis_core::Graph::parse(
///     "graph {
///   input %0: f32[2] input
///   %1: f32[2] = neg(%0)
///   %2: f32[2] = neg(%1)
///   return %2
/// }",
/// )?;
/// assert!(optimize(&graph, Options::default())?.nodes.is_empty());
/// # Ok(())
/// # }
/// ```
pub fn optimize(graph: &Graph, options: Options) -> Result<Graph> {
    let mut graph = simplify(graph, options)?;
    for pass in PASSES.iter().filter(|pass| !pass.repeats) {
        apply(pass, &mut graph, options)?;
    }
    let graph = for_each_body(graph, |body| optimize(body, options))?;
    if !cfg!(debug_assertions) {
        graph.verify()?;
    }
    Ok(graph)
}

/// Runs the repeated passes, first on the bodies.
fn simplify(graph: &Graph, options: Options) -> Result<Graph> {
    let mut graph = for_each_body(graph.clone(), |body| simplify(body, options))?;
    for _ in 0..ROUNDS {
        let before = graph.nodes.len();
        for pass in PASSES.iter().filter(|pass| pass.repeats) {
            apply(pass, &mut graph, options)?;
        }
        if graph.nodes.len() == before {
            break;
        }
    }
    Ok(graph)
}

fn apply(pass: &Pass, graph: &mut Graph, options: Options) -> Result<()> {
    let note = |e: clematis_core::Error| e.note(format!("in the pass `{}`", pass.name));
    if let Some(new) = (pass.run)(graph, options).map_err(note)? {
        if cfg!(debug_assertions) {
            new.verify().map_err(note)?;
        }
        *graph = new;
    }
    Ok(())
}

/// A graph in the form that a target's compiler takes.
pub struct Legalized {
    /// The graph.
    pub graph: Graph,
    /// Whether scans were unrolled.
    pub has_unrolled: bool,
}

/// Brings an optimized graph into the form that a target's compiler takes.
///
/// # Errors
///
/// If a pass makes an invalid graph.
pub fn legalize(graph: &Graph, target: &Target) -> Result<Legalized> {
    let unrolled = match target.unrolled_nodes {
        0 => None,
        limit => {
            unroll_scans::run(graph, limit).map_err(|e| e.note("in the pass `unroll_scans`"))?
        }
    };
    let has_unrolled = unrolled.is_some();
    let graph = unrolled.map_or_else(|| graph.clone(), |unrolled| unrolled.prune());
    if cfg!(debug_assertions) {
        graph.verify()?;
    }
    Ok(Legalized {
        graph,
        has_unrolled,
    })
}

/// Programs are optimized where this crate is linked.
#[linkme::distributed_slice(OPTIMIZERS)]
static LINK: Optimizer = optimize;
