//! Random programs and their gradients: compiled results agree with the interpreter.

use clematis_compile::Plan;
use clematis_core::autodiff::value_and_grad;
use clematis_core::ops::{self, Ops};
use clematis_core::random::Key;
use clematis_core::trace::trace;
use clematis_core::{Executable, Result, Shape, Tensor};
use clematis_passes::{Options, optimize};
use proptest::prelude::*;

const ROWS: usize = 21;
const COLUMNS: usize = 40;

fn normal(shape: &[usize], seed: u64) -> Tensor {
    clematis_nn::init::normal(Shape::from_sizes(shape), 1.0, &Key::new(seed)).expect("it runs")
}

/// One step of a program: an op, and the indices of its two operands among the values so far.
type Line = (u8, usize, usize);

/// Runs a program. All values have the shape of the first, so that any two can be combined; none grows without bound.
fn run(lines: &[Line], given: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut values = vec![given[0].clone(), (&given[0] * &given[1]).done()?];
    for &(op, i, j) in lines {
        let (x, y) = (
            values[i % values.len()].clone(),
            values[j % values.len()].clone(),
        );
        let next = match op % 16 {
            0 => (&x + &y).done()?,
            1 => (&x - &y).done()?,
            2 => (x.tanh() * &y).done()?,
            3 => (&x / (y.square() + 1.0)).done()?,
            4 => (x.square() * 0.25 - &y).tanh().done()?,
            5 => ops::relu(&x).done()?,
            6 => ops::sigmoid(&x).done()?,
            7 => ops::where_(ops::greater(&x, &y), &x, &y * 0.5).done()?,
            8 => (&x - ops::keepdims(&x, -1, ops::mean)).done()?,
            9 => (&x * ops::keepdims(y.tanh(), -1, ops::max)).done()?,
            10 => (ops::matmul(&x, &given[2]) * 0.2).done()?,
            11 => ops::softmax(&x, -1).done()?,
            12 => (&x + &given[1]).done()?,
            13 => {
                let transposed = ops::matrix_transpose(&x).done()?;
                let square = (ops::matmul(&transposed, y.tanh()) * 0.05).done()?;
                (ops::matmul(&x, ops::tanh(&square)) * 0.2).done()?
            }
            14 => ops::exp(-x.square().done()?).done()?,
            _ => ops::reshape(ops::reshape(&x, [COLUMNS, ROWS]), [ROWS, COLUMNS]).done()?,
        };
        values.push(next);
    }
    Ok(values.split_off(values.len() - 2))
}

/// The values, then the gradients by all inputs.
fn both(lines: &[Line], given: &[Tensor]) -> Result<Vec<Tensor>> {
    let loss = |given: &Vec<Tensor>| -> Result<Tensor> {
        let [x, y] = &run(lines, given)?[..] else {
            clematis_core::bail!(Internal, "a program returns two values");
        };
        (ops::mean(x.tanh(), ..) + ops::mean(y.tanh(), ..)).done()
    };
    let (loss, grads) = value_and_grad(loss)(&given.to_vec())?;
    let mut out = run(lines, given)?;
    out.push(loss);
    out.extend(grads);
    Ok(out)
}

fn close(a: &Tensor, b: &Tensor) -> bool {
    let (a, b) = (
        a.to_vec::<f32>().expect("it runs"),
        b.to_vec::<f32>().expect("it runs"),
    );
    let scale = a.iter().fold(1e-3f32, |most, x| most.max(x.abs()));
    a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-4 * scale)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn compiled_programs_agree_with_the_interpreter(
        lines in prop::collection::vec((any::<u8>(), any::<usize>(), any::<usize>()), 1..14),
        seed: u64,
    ) {
        let shapes: [&[usize]; 3] = [&[ROWS, COLUMNS], &[COLUMNS], &[COLUMNS, COLUMNS]];
        let given: Vec<Tensor> = (0..3).map(|i| normal(shapes[i], seed.wrapping_add(i as u64))).collect();
        let specs: Vec<_> = given.iter().map(|x| x.spec().clone()).collect();
        let closed = trace(&specs, |x| both(&lines, x)).expect("it runs");
        let graph = optimize(&closed.graph, Options::default()).expect("it runs");
        let want = closed.graph.call(&given.iter().collect::<Vec<_>>()).expect("it runs");
        let out = Plan::new(&graph).expect("it runs").run(&mut given.clone()).expect("it runs");
        prop_assert_eq!(want.len(), out.len());
        for (want, out) in want.iter().zip(&out) {
            prop_assert_eq!(want.spec(), out.spec());
            prop_assert!(close(want, out), "{}", graph);
        }
    }
}
