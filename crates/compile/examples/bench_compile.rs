//! Compile times by graph size: `cargo xtask bench compile`.
//!
//! Builds deep chains of mixed elementwise ops, matmuls and reductions with fan-out, and prints the milliseconds that
//! tracing, the passes and planning take. Arguments are the numbers of nodes.

use clematis_compile::Plan;
use clematis_core::ops::{self, Ops};
use clematis_core::trace::trace;
use clematis_core::{DType, Graph, Result, Shape, Spec, Tensor};
use clematis_passes::{Options, optimize};
use std::time::Instant;

#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROWS: usize = 512;
const COLUMNS: usize = 256;

/// One block of the chain: `x` continues it, `skip` is a value from blocks before.
fn block(x: &Tensor, skip: &Tensor, weight: &Tensor, bias: &Tensor, at: usize) -> Result<Tensor> {
    // Every fourth block is a matmul; elementwise runs between matmuls are long.
    let y = match at % 4 {
        0 => ops::matmul(x, weight).done()?,
        1 => ops::matrix_transpose(ops::matrix_transpose(x)).done()?,
        _ => x.clone(),
    };
    let y = (y + bias).tanh().done()?;
    let centred = (&y - ops::keepdims(&y, -1, ops::mean)).done()?;
    let gate = ops::sigmoid(&centred * 0.5).done()?;
    (ops::relu(&centred) * gate + skip * 0.125).done()
}

/// The graph of a chain of blocks.
fn chain(blocks: usize) -> Result<Graph> {
    let spec = |sizes: &[usize]| Spec::new(DType::F32, Shape::from_sizes(sizes));
    let specs = [
        spec(&[ROWS, COLUMNS]),
        spec(&[COLUMNS, COLUMNS]),
        spec(&[COLUMNS]),
    ];
    let closed = trace(&specs, |given| {
        let (mut x, mut skip) = (given[0].clone(), given[0].clone());
        for at in 0..blocks {
            let next = block(&x, &skip, &given[1], &given[2], at)?;
            // A value is read by three blocks after it.
            if at % 3 == 0 {
                skip = x;
            }
            x = next;
        }
        Ok(vec![x])
    })?;
    Ok(closed.graph)
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn main() -> Result<()> {
    let given: Vec<usize> = std::env::args().filter_map(|x| x.parse().ok()).collect();
    let sizes = match given.is_empty() {
        true => vec![1_000, 10_000, 100_000],
        false => given,
    };
    let per_block = chain(64)?.nodes.len().div_ceil(64);
    println!("    nodes     trace    passes      plan     total  (ms)");
    for size in sizes {
        let start = Instant::now();
        let graph = chain(size.div_ceil(per_block))?;
        let traced = milliseconds(start);
        let start = Instant::now();
        let optimized = optimize(&graph, Options::default())?;
        let passes = milliseconds(start);
        let start = Instant::now();
        Plan::new(&optimized)?;
        let planned = milliseconds(start);
        println!(
            "{:9} {traced:9.1} {passes:9.1} {planned:9.1} {:9.1}",
            graph.nodes.len(),
            traced + passes + planned
        );
    }
    Ok(())
}
