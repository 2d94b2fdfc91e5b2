//! Whole graphs on the CPU engine: fused, planned, in place.
//!
//! Owns what stands behind the engine's `compile`: which ops run together (`group`), what they become (`code`), how
//! that runs (`tile`, `room`), the plan of a whole graph (`plan`) and of its loops (`scan`, `rows`). The kernels are the engine's own, so a compiled graph
//! gives the bits that its ops give one by one wherever each element is computed by itself.

mod again;
mod batch;
mod code;
mod describe;
mod down;
mod group;
mod hoist;
mod join;
mod keep;
mod narrow;
mod pair;
mod plan;
mod product;
mod register;
mod room;
mod rows;
mod run;
mod scan;
mod space;
mod tile;
mod turn;
mod twin;

pub use plan::Plan;

use clematis_core::{Graph, Result};
use clematis_native::{COMPILERS, Compiler};

/// The same graph with less in its loops and products that come out as they are used, for whatever runs it. A graph whose sizes
/// are not all known stays as it is.
pub fn lighter(graph: &Graph) -> Result<Graph> {
    if graph.values.iter().any(|s| s.shape.is_symbolic()) {
        return Ok(graph.clone());
    }
    let graph = hoist::run(&keep::run(graph)?)?;
    let joined = join::run(&turn::run(&graph)).prune();
    Ok(join::turn_parts(&joined)?.prune())
}

#[linkme::distributed_slice(COMPILERS)]
static LINK: Compiler = plan::compile;
