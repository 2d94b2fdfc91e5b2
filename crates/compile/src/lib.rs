//! Compiles whole graphs for the CPU engine: operator fusion, memory planning and in-place updates.
//!
//! Owns what the engine's `compile` calls: graph passes (`hoist`, `scan_residuals`, `scan_cse`, `fold_transpose`,
//! `pad_add_to_concat`, `rematerialize`), operator fusion (`fusion`), lowering of a fusion group to a program (`program`,
//! `fuse_pairs`, `register_allocation`), its tile-by-tile execution (`tile`, `tile_interpreter`), and the plan of a whole graph
//! (`plan`, `run`) and of its scans (`scan`, `scan_blocks`). The kernels are the engine's own. A compiled graph is bit-identical
//! to op-by-op execution wherever each element is computed independently.

mod graph_rewriter;
mod iteration_domain;
mod matmul;
mod skinny_gemm;
mod scan_cse;
mod scan_residuals;
mod fold_transpose;
mod hoist;
mod pad_add_to_concat;
mod rematerialize;
mod scan_blocks;
mod fusion;
mod batched_chain;
mod column_reduction;
mod fuse_pairs;
mod program;
mod register_allocation;
mod tile_interpreter;
mod tile;
mod describe;
mod run;
mod scan;
mod plan;

pub use plan::Plan;

use clematis_core::{Graph, Result};
use clematis_native::{COMPILERS, Compiler};

/// Optimizes a graph for any backend: hoists work out of scans, saves residuals of forward scans for their backward scans, and
/// folds transposes into dots and concats. A graph with symbolic dimensions is returned unchanged.
pub fn optimize(graph: &Graph) -> Result<Graph> {
    if graph.values.iter().any(|s| s.shape.is_symbolic()) {
        return Ok(graph.clone());
    }
    let graph = hoist::run(&scan_residuals::run(graph)?)?;
    let concatenated = pad_add_to_concat::run(&fold_transpose::run(&graph)).prune();
    Ok(pad_add_to_concat::sink_transpose_into_concat(&concatenated)?.prune())
}

#[linkme::distributed_slice(COMPILERS)]
static LINK: Compiler = plan::compile;
