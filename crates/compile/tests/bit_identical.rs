//! Compiled graphs are bit-identical to the interpreter.

use clematis_compile::Plan;
use clematis_core::ops::{self, Ops};
use clematis_core::random::Key;
use clematis_core::trace::trace;
use clematis_core::{DType, Executable, Graph, Result, Tensor};
use clematis_passes::{Options, optimize};

fn normal(shape: &[usize], seed: u64) -> Tensor {
    clematis_nn::init::normal(
        clematis_core::Shape::from_sizes(shape),
        1.0,
        &Key::new(seed),
    )
    .expect("it runs")
}

fn graph_of(inputs: &[Tensor], f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Graph {
    let specs: Vec<_> = inputs.iter().map(|x| x.spec().clone()).collect();
    let closed = trace(&specs, f).expect("it runs");
    assert!(closed.captured.is_empty());
    optimize(&closed.graph, Options::default()).expect("it runs")
}

fn bits(x: &Tensor) -> Vec<u32> {
    match x.dtype() {
        DType::F32 => x
            .to_vec::<f32>()
            .expect("it runs")
            .iter()
            .map(|x| x.to_bits())
            .collect(),
        _ => x
            .to_host()
            .expect("it runs")
            .to_f64()
            .iter()
            .map(|&x| x as u32)
            .collect(),
    }
}

/// Compares the interpreter with the compiled graph, on one thread and on all; returns the plan's description.
fn assert_bit_identical(
    inputs: &[Tensor],
    f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
) -> String {
    let graph = graph_of(inputs, f);
    let plan = Plan::new(&graph).expect("it runs");
    let text = plan.describe();
    let want = graph
        .call(&inputs.iter().collect::<Vec<_>>())
        .expect("it runs");
    for threads in [None, Some(1), None] {
        clematis_native::set_thread_limit(threads);
        let mut given = inputs.to_vec();
        let out = plan.run(&mut given).expect("it runs");
        assert_eq!(want.len(), out.len());
        for (want, out) in want.iter().zip(&out) {
            assert_eq!(want.spec(), out.spec());
            assert_eq!(bits(want), bits(out), "{graph}\n{text}");
        }
    }
    clematis_native::set_thread_limit(None);
    text
}

#[test]
fn elementwise_chains_fuse_into_one_step() {
    let (x, y) = (normal(&[37, 65], 1), normal(&[37, 65], 2));
    let text = assert_bit_identical(&[x, y], |x| {
        let z = (x[0].exp() * &x[1] + 2.0).done()?;
        let w = ops::where_(ops::greater(&z, &x[1]), z.tanh(), ops::relu(&x[0])).done()?;
        Ok(vec![w, z])
    });
    assert!(text.contains("1 steps"), "{text}");
}

#[test]
fn operands_broadcast_along_any_axis() {
    let (x, row) = (normal(&[40, 3, 129], 1), normal(&[129], 2));
    let (column, one) = (normal(&[40, 1, 1], 3), normal(&[], 4));
    assert_bit_identical(&[x, row, column, one], |x| {
        let y = (&x[0] + &x[1]).done()?;
        let y = (y * &x[2] - &x[3]).done()?;
        Ok(vec![y.square().done()?])
    });
}

#[test]
fn views_are_read_without_a_copy() {
    let (x, y) = (normal(&[50, 70], 1), normal(&[70, 50], 2));
    assert_bit_identical(&[x, y], |x| {
        let t = ops::matrix_transpose(&x[0]).done()?;
        let part = ops::slice_axis(&t, 1, 3, 40).done()?;
        let other = ops::slice_axis(&x[1], 1, 10, 47).done()?;
        Ok(vec![(part.exp() + &other * 2.0).done()?])
    });
}

#[test]
fn row_reductions_fuse() {
    for (rows, columns) in [(200, 10), (33, 256), (3, 5000)] {
        let (x, g) = (normal(&[rows, columns], 1), normal(&[columns], 2));
        let text = assert_bit_identical(&[x, g], |x| {
            let mean = ops::keepdims(&x[0], -1, ops::mean).done()?;
            let shifted = (&x[0] - mean).done()?;
            let var = ops::keepdims(shifted.square(), -1, ops::mean).done()?;
            let y = (shifted * ops::rsqrt(var + 1e-5) * &x[1]).done()?;
            let top = ops::keepdims(&y, -1, ops::max).done()?;
            let e = (&y - top).exp().done()?;
            let sum = ops::keepdims(&e, -1, ops::sum).done()?;
            Ok(vec![(&e / &sum).done()?, sum])
        });
        assert!(text.contains("1 steps"), "{text}");
    }
}

#[test]
fn a_matmul_between_two_ops_prevents_their_fusion() {
    let (x, w) = (normal(&[64, 64], 1), normal(&[64, 64], 2));
    assert_bit_identical(&[x, w], |x| {
        let y = (&x[0] + 1.0).done()?;
        let z = ops::matmul(&y, &x[1]).done()?;
        // Depends on the matmul: cannot join the group of y.
        Ok(vec![(y * z).exp().done()?])
    });
}

#[test]
fn donated_inputs_are_updated_in_place() {
    let graph = graph_of(&[normal(&[3000], 1), normal(&[3000], 2)], |x| {
        Ok(vec![(&x[0] - &x[1] * 0.1).done()?])
    });
    let plan = Plan::new(&graph).expect("it runs");
    let start = |x: &Tensor| {
        x.data::<clematis_native::Buffer>()
            .expect("it runs")
            .start(4)
    };
    let own = |seed| {
        ops::tensor(normal(&[3000], seed).to_vec::<f32>().expect("it runs")).expect("it runs")
    };
    let mut given = vec![own(1), own(2)];
    let at = [start(&given[0]), start(&given[1])];
    let want = graph.call(&[&given[0], &given[1]]).expect("it runs");
    let out = plan.run(&mut given).expect("it runs");
    assert_eq!(bits(&out[0]), bits(&want[0]));
    assert!(at.contains(&start(&out[0])));
    // An input that somebody else holds is not modified.
    let held = own(3);
    let before = bits(&held);
    let out = plan.run(&mut vec![held.clone(), own(2)]).expect("it runs");
    assert_ne!(start(&out[0]), start(&held));
    assert_eq!(bits(&held), before);
}

#[test]
fn scalars_bools_and_inputs_as_outputs() {
    let x = normal(&[100, 7], 1);
    assert_bit_identical(&[x], |x| {
        let big = ops::greater(&x[0], 0.5).done()?;
        let small = ops::less(&x[0], -0.5).done()?;
        let any = ops::logical_or(&big, &small).done()?;
        let none = ops::logical_not(&any).done()?;
        let y = (ops::cast(&none, DType::F32) * 3.0).done()?;
        Ok(vec![any, y, x[0].clone()])
    });
}

#[test]
fn column_sums_fuse_into_the_group_of_their_operand() {
    // One task and several, with a partial row block.
    for rows in [8, 100, 1000, 9000] {
        let (x, y) = (normal(&[rows, 24], 1), normal(&[rows, 24], 2));
        let text = assert_bit_identical(&[x, y], |x| {
            let z = (x[0].exp() * &x[1]).done()?;
            // Sums of an intermediate value, of an output and of an input of the group.
            let hidden = ops::sum(z.tanh().done()?, 0).done()?;
            let written = ops::sum(&z, 0).done()?;
            let read = ops::sum(&x[1], 0).done()?;
            Ok(vec![hidden, z, written, read])
        });
        assert_eq!(text.matches("column_sum").count(), 3, "{text}");
        assert!(!text.contains("reduce_sum"), "{text}");
    }
}

#[test]
fn column_sums_that_a_group_reads_run_before_it() {
    let x = normal(&[64, 32], 1);
    let text = assert_bit_identical(&[x], |x| {
        let z = x[0].exp().done()?;
        let mean = ops::mean(&z, 0).done()?;
        let apart = (&z - &mean).done()?;
        let spread = ops::sum((&apart * &apart).done()?, [0]).done()?;
        Ok(vec![(&apart / &spread).done()?])
    });
    assert_eq!(text.matches("column_sum").count(), 2, "{text}");
}

#[test]
fn column_sums_of_few_columns_or_rows_do_not_fuse() {
    let (x, y) = (normal(&[64, 8], 1), normal(&[4, 32], 2));
    let text = assert_bit_identical(&[x, y], |x| {
        let first = ops::sum(x[0].exp().done()?, 0).done()?;
        let second = ops::sum(x[1].exp().done()?, 0).done()?;
        Ok(vec![first, second])
    });
    assert!(!text.contains("column_sum"), "{text}");
}
