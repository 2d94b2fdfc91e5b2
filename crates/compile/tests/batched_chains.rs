//! Batched chains of matmuls run one matrix at a time: correct, bit-identical for any number of threads, and without holding
//! intermediate values for all matrices at once.

use clematis_compile::Plan;
use clematis_core::autodiff::vjp;
use clematis_core::ops::{self, Ops};
use clematis_core::random::Key;
use clematis_core::trace::trace;
use clematis_core::{Executable, Result, Tensor};
use clematis_passes::{Options, optimize};

fn normal(shape: &[usize], seed: u64) -> Tensor {
    let shape = clematis_core::Shape::from_sizes(shape);
    clematis_nn::init::normal(shape, 1.0, &Key::new(seed)).expect("it runs")
}

/// Compares the compiled graph with the interpreter; returns the plan's description.
fn agree(inputs: &[Tensor], f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> String {
    let specs: Vec<_> = inputs.iter().map(|x| x.spec().clone()).collect();
    let graph = trace(&specs, f).expect("it runs").graph;
    let plan = Plan::new(&optimize(&graph, Options::default()).expect("it runs")).expect("it runs");
    let floats = |x: &Tensor| x.to_vec::<f32>().expect("it runs");
    let want = graph
        .call(&inputs.iter().collect::<Vec<_>>())
        .expect("it runs");
    let run = |threads| {
        clematis_native::set_thread_limit(threads);
        let out = plan.run(&mut inputs.to_vec()).expect("it runs");
        clematis_native::set_thread_limit(None);
        out
    };
    let (one, many) = (run(Some(1)), run(None));
    assert_eq!((want.len(), want.len()), (one.len(), many.len()));
    for ((want, one), many) in want.iter().zip(&one).zip(&many) {
        assert_eq!(want.spec(), one.spec());
        assert_eq!(floats(one), floats(many));
        for (a, b) in floats(want).iter().zip(floats(one)) {
            assert!((a - b).abs() < 1e-4, "{a} {b}");
        }
    }
    plan.describe()
}

fn attention(x: &[Tensor]) -> Result<Tensor> {
    ops::attention(&x[0], &x[1], &x[2], None, 0.2, false).done()
}

#[test]
fn attention_never_holds_all_scores() {
    let shape = [2, 5, 160, 24];
    let x: Vec<Tensor> = (0..4).map(|seed| normal(&shape, seed)).collect();
    let text = agree(&x[..3], |x| Ok(vec![attention(x)?]));
    assert!(text.contains("10 matrices, each"), "{text}");
    assert!(!text.contains("f32[2,5,160,160]"), "{text}");
    let text = agree(&x, |x| {
        let (value, back) = vjp(|x: &Vec<Tensor>| attention(x), &x[..3].to_vec())?;
        let grads = back.call(&x[3])?;
        Ok(std::iter::once(value).chain(grads).collect())
    });
    assert!(text.contains("10 matrices, each"), "{text}");
    assert!(!text.contains("f32[2,5,160,160]"), "{text}");
}

#[test]
fn operands_are_read_as_views() {
    let packed = normal(&[3, 160, 3, 4, 24], 1);
    let (shift, scale) = (normal(&[160, 160], 2), normal(&[3, 4, 160, 1], 3));
    let text = agree(&[packed, shift, scale], |x| {
        let parts = ops::permute(&x[0], [2, 0, 3, 1, 4]).done()?;
        let part = |i: i64| ops::squeeze(ops::slice_axis(&parts, 0, i, i + 1), 0);
        let scores = ops::matmul(part(0), part(1).matrix_transpose()).done()?;
        // An operand that all matrices share, and one with one number per row of each matrix.
        let scores = (scores * 0.2 + &x[1]) * &x[2];
        let weights = ops::softmax(scores.done()?, -1);
        Ok(vec![ops::matmul(weights, part(2)).done()?])
    });
    assert!(text.contains("12 matrices, each"), "{text}");
}

#[test]
fn small_or_single_matmuls_are_not_chained() {
    let (x, y) = (normal(&[10, 16, 8], 1), normal(&[10, 8, 16], 2));
    let text = agree(&[x, y], |x| {
        let first = ops::matmul(&x[0], &x[1]).done()?;
        Ok(vec![ops::matmul(first, &x[0]).done()?])
    });
    assert!(!text.contains("matrices, each"), "{text}");
    let (x, y) = (normal(&[10, 200, 20], 1), normal(&[10, 20, 200], 2));
    let text = agree(&[x, y], |x| {
        Ok(vec![ops::matmul(&x[0], &x[1]).exp().done()?])
    });
    assert!(!text.contains("matrices, each"), "{text}");
}
