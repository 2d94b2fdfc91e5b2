//! Matmuls divided into tasks: correct, and bit-identical for any number of threads.

use clematis_compile::Plan;
use clematis_core::ops;
use clematis_core::random::Key;
use clematis_core::trace::trace;
use clematis_core::{Executable, Result, Tensor};
use clematis_passes::{Options, optimize};

fn normal(shape: &[usize], seed: u64) -> Tensor {
    let shape = clematis_core::Shape::from_sizes(shape);
    clematis_nn::init::normal(shape, 1.0, &Key::new(seed)).expect("it runs")
}

fn agree(x: &Tensor, y: &Tensor, f: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>) {
    let specs = [x.spec().clone(), y.spec().clone()];
    let graph = trace(&specs, |x| Ok(vec![f(&x[0], &x[1])?]))
        .expect("it runs")
        .graph;
    let plan = Plan::new(&optimize(&graph, Options::default()).expect("it runs")).expect("it runs");
    let want = graph.call(&[x, y]).expect("it runs")[0]
        .to_vec::<f32>()
        .expect("it runs");
    let run = |threads| {
        clematis_native::set_thread_limit(threads);
        let out = plan.run(&mut vec![x.clone(), y.clone()]).expect("it runs");
        clematis_native::set_thread_limit(None);
        out[0].to_vec::<f32>().expect("it runs")
    };
    let (one, many) = (run(Some(1)), run(None));
    assert_eq!(one, many);
    for (a, b) in want.iter().zip(&one) {
        assert!((a - b).abs() < 1e-3, "{a} {b}");
    }
}

#[test]
fn large_matmuls_divide_by_rows_or_columns() {
    agree(&normal(&[700, 90], 1), &normal(&[90, 300], 2), |x, y| {
        ops::matmul(x, y).done()
    });
    agree(&normal(&[70, 190], 1), &normal(&[190, 900], 2), |x, y| {
        ops::matmul(x, y).done()
    });
    agree(&normal(&[190, 300], 1), &normal(&[190, 500], 2), |x, y| {
        ops::matmul(ops::matrix_transpose(x), y).done()
    });
}

#[test]
fn batched_matmul_of_views() {
    agree(
        &normal(&[6, 50, 4, 32], 1),
        &normal(&[6, 50, 4, 32], 2),
        |x, y| {
            let (x, y) = (ops::permute(x, [0, 2, 1, 3]), ops::permute(y, [0, 2, 3, 1]));
            ops::matmul(x, y).done()
        },
    );
}

#[test]
fn skinny_gemm_with_any_number_of_rows() {
    for rows in [1, 3, 32, 45] {
        agree(&normal(&[rows, 70], 1), &normal(&[70, 256], 2), |x, y| {
            ops::matmul(x, y).done()
        });
    }
}

#[test]
fn transpose_folds_into_the_matmul() {
    agree(&normal(&[64, 40], 1), &normal(&[64, 33], 2), |x, y| {
        let product = ops::matmul(ops::matrix_transpose(x), y);
        ops::matrix_transpose(product).done()
    });
}
