//! Benchmarks of single ops: `cargo run --release --example bench_engine -p clematis-native`.
//!
//! Large operands are 4096 x 1024 f32; times are the minimum of many runs, in milliseconds. The last lines are the cost
//! of one small op, in nanoseconds. Baselines are measured by their own scripts, in the same session.

use clematis_core::dispatch::apply;
use clematis_core::op::{
    ArgReduce, Binary, Cumulative, CumulativeKind, Extreme, Reduce, ReduceKind, Sort, Unary,
};
use clematis_core::{Axes, Backend, Composite, DType, Device, Host, Op, Shape, Tensor};
use clematis_native::{Native, backend};
use std::time::Instant;

fn tensor(values: &[f32], sizes: &[usize]) -> Option<Tensor> {
    let host = Host::from_slice(values, Shape::from_sizes(sizes)).ok()?;
    let spec = host.spec().clone();
    Some(Tensor::concrete(
        spec,
        backend(),
        backend().from_host(host, Device::Cpu).ok()?,
    ))
}

/// The minimum time of one call, in seconds.
fn best(rounds: usize, mut f: impl FnMut()) -> f64 {
    (0..rounds)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::MAX, f64::min)
}

fn main() {
    if run().is_none() {
        eprintln!("bench_engine: a tensor could not be made");
    }
}

fn run() -> Option<()> {
    let (m, n) = (4096, 1024);
    let values: Vec<f32> = (0..m * n)
        .map(|i| ((i * 7919 % 10007) as f32 - 5000.0) / 2500.0)
        .collect();
    let x = tensor(&values, &[m, n])?;
    let y = tensor(&values, &[m, n])?;
    let row = tensor(&values[..n], &[n])?;
    let column = tensor(&values[..m], &[m, 1])?;
    let two = Tensor::scalar(2.0, DType::F32);
    let t = apply(
        &Op::Transpose(Axes::new(&[1, 0])),
        &[&tensor(&values, &[n, m])?],
    )
    .ok()?
    .one()?;
    let half = apply(&Op::Cast(DType::F16), &[&x]).ok()?.one()?;
    let key = {
        let host = Host::from_slice(&[1u32, 2], [2usize]).ok()?;
        let spec = host.spec().clone();
        Tensor::concrete(
            spec,
            backend(),
            backend().from_host(host, Device::Cpu).ok()?,
        )
    };
    let sum = |axes: &[usize]| {
        Op::from(Reduce {
            kind: ReduceKind::Sum,
            axes: Axes::new(axes),
        })
    };
    let epsilon = 1e-5.into();
    let add = Op::Binary(Binary::Add);
    let cases: Vec<(&str, Op, Vec<&Tensor>)> = vec![
        ("add", add.clone(), vec![&x, &y]),
        ("add scalar", add.clone(), vec![&x, &two]),
        ("add row", add.clone(), vec![&x, &row]),
        ("add column", add.clone(), vec![&x, &column]),
        ("add transposed", add.clone(), vec![&x, &t]),
        ("add f16", add.clone(), vec![&half, &half]),
        ("mul", Op::Binary(Binary::Mul), vec![&x, &y]),
        ("exp", Op::Unary(Unary::Exp), vec![&x]),
        ("log1p", Op::Unary(Unary::Log1p), vec![&y]),
        ("tanh", Op::Unary(Unary::Tanh), vec![&x]),
        ("sin", Op::Unary(Unary::Sin), vec![&x]),
        ("erf", Op::Unary(Unary::Erf), vec![&x]),
        ("relu", Composite::Relu {}.into(), vec![&x]),
        (
            "gelu",
            Composite::Gelu { approximate: false }.into(),
            vec![&x],
        ),
        (
            "gelu tanh",
            Composite::Gelu { approximate: true }.into(),
            vec![&x],
        ),
        ("cast f16", Op::Cast(DType::F16), vec![&x]),
        ("sum", sum(&[0, 1]), vec![&x]),
        ("sum rows", sum(&[1]), vec![&x]),
        ("sum columns", sum(&[0]), vec![&x]),
        (
            "max",
            Reduce {
                kind: ReduceKind::Max,
                axes: Axes::new(&[0, 1]),
            }
            .into(),
            vec![&x],
        ),
        (
            "argmax",
            ArgReduce {
                kind: Extreme::Max,
                axis: 1,
            }
            .into(),
            vec![&x],
        ),
        (
            "cumsum",
            Cumulative {
                kind: CumulativeKind::Sum,
                axis: 1,
                reverse: false,
            }
            .into(),
            vec![&x],
        ),
        ("softmax", Composite::Softmax { axis: 1 }.into(), vec![&x]),
        (
            "log_softmax",
            Composite::LogSoftmax { axis: 1 }.into(),
            vec![&x],
        ),
        (
            "softmax axis 0",
            Composite::Softmax { axis: 0 }.into(),
            vec![&x],
        ),
        (
            "layer_norm",
            Composite::LayerNorm { axis: 1, epsilon }.into(),
            vec![&x, &row, &row],
        ),
        (
            "rms_norm",
            Composite::RmsNorm { axis: 1, epsilon }.into(),
            vec![&x, &row],
        ),
        (
            "random u32",
            Composite::RandomBits {
                dtype: DType::U32,
                shape: Shape::from_sizes(&[m, n]),
            }
            .into(),
            vec![&key],
        ),
        (
            "sort",
            Sort {
                axis: 1,
                keys: 1,
                descending: false,
                stable: true,
            }
            .into(),
            vec![&x],
        ),
    ];
    println!(
        "threads {}, vectors {:?}",
        clematis_native::threads(),
        clematis_native::simd::level()
    );
    // Arguments filter by name: `bench_engine sum softmax`.
    let asked: Vec<String> = std::env::args().skip(1).collect();
    for (name, op, inputs) in &cases {
        if !(asked.is_empty() || asked.iter().any(|a| a == name)) {
            continue;
        }
        let rounds = if *name == "sort" { 3 } else { 100 };
        let seconds = best(rounds, || drop(std::hint::black_box(apply(op, inputs))));
        println!("{name:16} {:8.3} ms", seconds * 1e3);
    }
    let (a, b) = (tensor(&values[..4], &[4])?, tensor(&values[..4], &[4])?);
    let out = [a.spec().clone()];
    let calls = 100_000;
    let per_call = |f: &dyn Fn()| best(20, || (0..calls).for_each(|_| f())) / calls as f64 * 1e9;
    println!(
        "execute add of 4   {:6.1} ns",
        per_call(&|| drop(std::hint::black_box(Native.execute(&add, &[&a, &b], &out))))
    );
    println!(
        "apply add of 4     {:6.1} ns",
        per_call(&|| drop(std::hint::black_box(apply(&add, &[&a, &b]))))
    );
    println!(
        "apply add scalar   {:6.1} ns",
        per_call(&|| drop(std::hint::black_box(apply(&add, &[&a, &two]))))
    );
    Some(())
}
