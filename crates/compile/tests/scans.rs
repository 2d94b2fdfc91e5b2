//! Compiled scans agree with the interpreter up to rounding: hoisting changes the order of sums.

use clematis_compile::Plan;
use clematis_core::autodiff::value_and_grad;
use clematis_core::ops::{self, Ops};
use clematis_core::random::Key;
use clematis_core::trace::trace;
use clematis_core::{DType, Executable, Result, Tensor, control};
use clematis_passes::{Options, optimize};

fn normal(shape: &[usize], seed: u64) -> Tensor {
    clematis_nn::init::normal(
        clematis_core::Shape::from_sizes(shape),
        0.5,
        &Key::new(seed),
    )
    .expect("it runs")
}

/// Compares the compiled graph with the interpreter; returns the plan's description.
fn close(inputs: &[Tensor], f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> String {
    let specs: Vec<_> = inputs.iter().map(|x| x.spec().clone()).collect();
    let graph = trace(&specs, f).expect("it runs").graph;
    let graph = optimize(&graph, Options::default()).expect("it runs");
    let plan = Plan::new(&graph).expect("it runs");
    let want = graph
        .call(&inputs.iter().collect::<Vec<_>>())
        .expect("it runs");
    let out = plan.run(&mut inputs.to_vec()).expect("it runs");
    for (want, out) in want.iter().zip(&out) {
        assert_eq!(want.spec(), out.spec());
        let (want, out) = (
            want.to_vec::<f32>().expect("it runs"),
            out.to_vec::<f32>().expect("it runs"),
        );
        for (a, b) in want.iter().zip(&out) {
            assert!((a - b).abs() <= 1e-5 * (1.0 + a.abs()), "{a} {b}\n{graph}");
        }
    }
    plan.describe()
}

fn recurrent(w: &Tensor, x: &Tensor, reverse: bool) -> Result<Tensor> {
    let sizes = [x.shape().size(1), w.shape().size(0)];
    let zero = ops::zeros(sizes, DType::F32).done()?;
    let ((h, _), all) = control::scan(
        &(zero.clone(), zero),
        x,
        None,
        reverse,
        |(h, c): &(Tensor, Tensor), u: &Tensor| {
            let gates = ops::split(&(u + ops::matmul(h, w)).done()?, 2, -1)?;
            let c = (ops::sigmoid(&gates[0]) * c + gates[1].tanh()).done()?;
            let h = c.tanh().done()?;
            Ok(((h.clone(), c), h))
        },
    )?;
    (ops::sum(h.square(), ..) + ops::mean(all, ..)).done()
}

#[test]
fn lstm_values_and_gradients() {
    for reverse in [false, true] {
        let (w, x) = (normal(&[8, 16], 1), normal(&[6, 4, 16], 2));
        close(&[w, x], |x| {
            let loss = |p: &(Tensor, Tensor)| recurrent(&p.0, &p.1, reverse);
            let (value, (dw, dx)) = value_and_grad(loss)(&(x[0].clone(), x[1].clone()))?;
            Ok(vec![value, dw, dx])
        });
    }
}

#[test]
fn a_derivative_runs_one_scan_forward_and_one_backward() {
    let (w, x) = (normal(&[8, 8], 1), normal(&[6, 4, 8], 2));
    let text = close(&[w, x], |x| {
        let loss = |w: &Tensor| -> Result<Tensor> {
            let zero = ops::zeros([4usize, 8], DType::F32).done()?;
            let (h, ()) = control::scan(&zero, &x[1], None, false, |h: &Tensor, u: &Tensor| {
                Ok(((u + ops::matmul(h, w)).tanh().done()?, ()))
            })?;
            ops::sum(h.square(), ..).done()
        };
        let (value, dw) = value_and_grad(loss)(&x[0])?;
        Ok(vec![value, dw])
    });
    assert_eq!(text.matches("scan of").count(), 2, "{text}");
}

#[test]
fn scans_run_in_row_blocks_and_save_residuals_for_backward() {
    for reverse in [false, true] {
        let (w, x) = (normal(&[64, 128], 1), normal(&[5, 48, 128], 2));
        let text = close(&[w, x], |x| {
            let loss = |p: &(Tensor, Tensor)| recurrent(&p.0, &p.1, reverse);
            let (value, (dw, dx)) = value_and_grad(loss)(&(x[0].clone(), x[1].clone()))?;
            Ok(vec![value, dw, dx])
        });
        assert_eq!(text.matches("3 blocks of 16 rows").count(), 2, "{text}");
        // One dot per step forward, one backward; none is recomputed.
        let inside = text
            .lines()
            .filter(|l| l.contains("dot_general -> f32[16,"));
        assert_eq!(inside.count(), 2, "{text}");
    }
}

#[test]
fn scans_whose_rows_depend_on_each_other_are_not_split() {
    let (w, x) = (normal(&[32, 32], 1), normal(&[5, 32, 32], 2));
    let text = close(&[w, x], |x| {
        let zero = ops::zeros([32usize, 32], DType::F32).done()?;
        let (h, ()) = control::scan(&zero, &x[1], None, false, |h: &Tensor, u: &Tensor| {
            // A mean over the batch, and a matmul that contracts it.
            let mean = ops::mean(h, 0);
            let mixed = ops::matmul(&x[0], h);
            Ok((((u + mixed) * 0.1 - mean).tanh().done()?, ()))
        })?;
        Ok(vec![h])
    });
    assert!(!text.contains("blocks of"), "{text}");
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let inputs = [normal(&[64, 128], 1), normal(&[5, 64, 128], 2)];
    let specs: Vec<_> = inputs.iter().map(|x| x.spec().clone()).collect();
    let graph = trace(&specs, |x| {
        let loss = |w: &Tensor| recurrent(w, &x[1], false);
        let (value, dw) = value_and_grad(loss)(&x[0])?;
        Ok(vec![value, dw])
    });
    let graph = optimize(&graph.expect("it runs").graph, Options::default()).expect("it runs");
    let plan = Plan::new(&graph).expect("it runs");
    let mut seen = Vec::new();
    for limit in [Some(1), Some(2), None] {
        clematis_native::set_thread_limit(limit);
        let out = plan.run(&mut inputs.to_vec()).expect("it runs");
        seen.push(out[1].to_vec::<f32>().expect("it runs"));
    }
    clematis_native::set_thread_limit(None);
    assert!(seen.windows(2).all(|w| w[0] == w[1]));
}
