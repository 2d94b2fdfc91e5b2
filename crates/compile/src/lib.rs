//! Compiles whole graphs for the CPU engine: operator fusion, memory planning and in-place updates.
//!
//! Owns what the engine's `compile` calls, after the passes of `clematis-passes`: rematerialization (`rematerialize`), operator fusion (`fusion`), lowering of a fusion group to a program (`program`,
//! `fuse_pairs`, `register_allocation`), its tile-by-tile execution (`tile`, `tile_interpreter`), and the plan of a whole graph
//! (`plan`, `run`) and of its scans (`scan`, `scan_blocks`). The kernels are the engine's own. A compiled graph is bit-identical
//! to op-by-op execution wherever each element is computed independently.

mod iteration_domain;
mod matmul;
mod skinny_gemm;
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

use clematis_native::{COMPILERS, Compiler};

#[linkme::distributed_slice(COMPILERS)]
static LINK: Compiler = plan::compile;
