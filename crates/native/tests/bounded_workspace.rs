//! No kernel allocates more than its result and a bounded workspace, whatever the layout of its operands.
//!
//! A process of its own, because the limit is global.

#![allow(clippy::unwrap_used, clippy::panic)] // every line of a test may fail it

use clematis_core::op::{Cholesky, Dot, Window, WindowGather, WindowKind, WindowScatter};
use clematis_core::{Axes, DType, Host, Op, Shape, Tensor, dispatch, ops};
use clematis_native::{memory_used, set_memory_limit};

/// What a kernel may allocate beside its result, including rounding up to whole blocks.
const WORKSPACE: usize = 12 << 20;

fn run(op: &Op, x: &[&Tensor]) -> Vec<Tensor> {
    dispatch::apply(op, x).unwrap().into_vec()
}

/// Small integers, whose sums are exact in any order.
fn numbers(shape: &[usize], seed: usize) -> Tensor {
    let count = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..count)
        .map(|i| ((i * 31 + i / 97 + seed) % 13) as f32 - 6.0)
        .collect();
    let host = Host::from_slice(&values, Shape::from_sizes(shape)).unwrap();
    let (spec, backend) = (host.spec().clone(), clematis_native::backend());
    let data = backend.from_host(host, Default::default()).unwrap();
    Tensor::concrete(spec, backend, data)
}

/// The same elements in memory of their own, contiguous.
fn row_by_row(x: &Tensor) -> Tensor {
    ops::add(x, ops::zeros([1usize], DType::F32))
        .done()
        .unwrap()
}

/// Runs `op` with hardly more memory than its results take.
fn within(op: &Op, x: &[&Tensor]) -> Vec<Tensor> {
    let plain: Vec<Tensor> = x.iter().map(|x| row_by_row(x)).collect();
    let expected = run(op, &plain.iter().collect::<Vec<_>>());
    drop(plain);
    let results: usize = expected.iter().map(|y| y.spec().bytes() * 9 / 8).sum();
    // A failing allocation makes the engine release its cached blocks, none of which is of this size.
    let odd = numbers(&[1_234_567], 0);
    set_memory_limit(1);
    assert!(ops::add(&odd, &odd).done().is_err());
    set_memory_limit(memory_used() + results + WORKSPACE);
    let found = run(op, x);
    set_memory_limit(usize::MAX);
    for (found, expected) in found.iter().zip(&expected) {
        let bytes = |x: &Tensor| x.to_host().unwrap().bytes().as_slice::<u8>().to_vec();
        assert!(bytes(found) == bytes(expected), "{op:?}");
    }
    found
}

fn transposed(x: &Tensor, axes: &[usize]) -> Tensor {
    run(&Op::Transpose(Axes::new(axes)), &[x]).remove(0)
}

#[test]
fn operands_that_lie_otherwise_are_not_copied_whole() {
    let axes = Axes::new;
    // Free axes that cannot be merged: 32 MiB.
    let x = transposed(&numbers(&[64, 256, 512], 1), &[1, 0, 2]);
    let w = numbers(&[512, 8], 2);
    let dot = |lhs: &[usize], rhs: &[usize], batch: &[usize]| {
        Op::from(Dot {
            lhs_contract: axes(lhs),
            rhs_contract: axes(rhs),
            lhs_batch: axes(batch),
            rhs_batch: axes(batch),
        })
    };
    within(&dot(&[2], &[0], &[]), &[&x, &w]);
    within(&dot(&[0], &[2], &[]), &[&w, &x]);
    // Contracted axes that cannot be merged, on either side.
    let v = transposed(&numbers(&[512, 8, 64], 3), &[2, 1, 0]);
    within(&dot(&[1, 2], &[0, 2], &[]), &[&x, &v]);
    // The same in a batch.
    let x = transposed(&numbers(&[128, 16, 16, 256], 4), &[1, 2, 0, 3]);
    let w = numbers(&[16, 256, 4], 5);
    within(&dot(&[3], &[1], &[0]), &[&x, &w]);
    drop((x, v, w));

    // Transposed matrices: 32 MiB.
    let x = transposed(&numbers(&[128, 256, 256], 6), &[0, 2, 1]);
    within(&Op::Lu, &[&x]);
    let id = ops::eye(256, 256, 0, DType::F32).done().unwrap();
    let square = ops::matmul(&x, transposed(&x, &[0, 2, 1])).done().unwrap();
    drop(x);
    let definite = ops::add(square, ops::mul(id, 100.0)).done().unwrap();
    let definite = transposed(&definite, &[0, 2, 1]);
    for upper in [false, true] {
        within(&Cholesky { upper }.into(), &[&definite]);
    }
    drop(definite);

    // Windows over a transposed image: 32 MiB.
    let x = transposed(&numbers(&[8, 512, 2048], 7), &[0, 2, 1]);
    let g = transposed(&numbers(&[8, 256, 1024], 8), &[0, 2, 1]);
    let y = transposed(&numbers(&[2048, 8, 512], 9), &[1, 0, 2]);
    let p = Window {
        kind: WindowKind::Max,
        size: axes(&[1, 2, 2]),
        strides: axes(&[1, 2, 2]),
        padding: [(0, 0); 3]
            .iter()
            .map(|&(a, b): &(i64, i64)| (a.into(), b.into()))
            .collect(),
        base_dilation: axes(&[1, 1, 1]),
        window_dilation: axes(&[1, 1, 1]),
    };
    within(&p.clone().into(), &[&x]);
    let p = WindowScatter::try_from(p).unwrap();
    within(&p.clone().into(), &[&x, &g]);
    within(&WindowGather::from(p).into(), &[&x, &y]);
}
