//! Benchmark of the dispatch overhead of eager ops: `cargo xtask bench dispatch`. Not a timed test.

use clematis_core::op::Binary;
use clematis_core::ops::{self, Ops};
use clematis_core::{Op, Result, Tensor, dispatch};
use clematis_native as _;
use std::hint::black_box;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Nanoseconds per call: the minimum of many short rounds, since load on the machine only adds time.
fn nanoseconds(mut f: impl FnMut() -> Result<Tensor>) -> Result<f64> {
    const CALLS: u32 = 2_000;
    let mut best = f64::INFINITY;
    for _ in 0..200 {
        let start = Instant::now();
        for _ in 0..CALLS {
            black_box(f()?);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(CALLS));
    }
    Ok(best)
}

fn main() -> Result<()> {
    let x = ops::tensor([1.0f32, 2.0, 3.0, 4.0])?;
    let y = ops::tensor([0.5f32, 0.25, 2.0, -1.0])?;
    let square = ops::full([64usize, 64], 0.5, clematis_core::DType::F32).done()?;
    let add = Op::Binary(Binary::Add);
    let rows: [(&str, f64); 7] = [
        (
            "apply(add), 4 floats",
            nanoseconds(|| dispatch::apply_one(&add, &[black_box(&x), &y]))?,
        ),
        (
            "x + y, 4 floats",
            nanoseconds(|| (black_box(&x) + &y).done())?,
        ),
        (
            "x * 2.0, 4 floats",
            nanoseconds(|| (black_box(&x) * 2.0).done())?,
        ),
        ("exp, 4 floats", nanoseconds(|| black_box(&x).exp().done())?),
        (
            "sum, 4 floats",
            nanoseconds(|| black_box(&x).sum(..).done())?,
        ),
        (
            "reshape, 4 floats",
            nanoseconds(|| black_box(&x).reshape([2usize, 2]).done())?,
        ),
        (
            "matmul 64x64",
            nanoseconds(|| ops::matmul(black_box(&square), &square).done())?,
        ),
    ];
    for (name, ns) in rows {
        println!("{name:<24} {ns:>9.1} ns");
    }
    Ok(())
}
