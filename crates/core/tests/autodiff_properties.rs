//! Properties of random programs: derivatives agree with finite differences, both modes are transposes of each other,
//! second derivatives are symmetric, and a program that is traced, printed and parsed computes the same.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy knows test functions, not what they call

use clematis_core::autodiff::{grad, jvp, vjp};
use clematis_core::graph::Graph;
use clematis_core::ops::{self, Ops};
use clematis_core::trace::trace;
use clematis_core::{DType, Result, Shape, Spec, Tensor};
use proptest::prelude::*;
use proptest::sample::Index;

// Links the engine.
use clematis_native as _;

/// One step of a program: an op, its operands, and a choice of axis or the like.
#[derive(Clone, Debug)]
struct Step {
    kind: u8,
    x: Index,
    y: Index,
    choice: u8,
}

/// A program: the shapes of its inputs, and steps over all earlier values.
#[derive(Clone, Debug)]
struct Program {
    shapes: Vec<Vec<usize>>,
    steps: Vec<Step>,
}

fn program() -> impl Strategy<Value = Program> {
    let shape = prop::collection::vec(
        prop_oneof![1 => Just(0usize), 2 => Just(1), 6 => 2usize..4],
        0..4,
    );
    let step = (0u8..KINDS, any::<Index>(), any::<Index>(), any::<u8>())
        .prop_map(|(kind, x, y, choice)| Step { kind, x, y, choice });
    (
        prop::collection::vec(shape, 1..4),
        prop::collection::vec(step, 1..9),
    )
        .prop_map(|(shapes, steps)| Program { shapes, steps })
}

const KINDS: u8 = 24;
/// Maximum size of a value: outer products grow fast.
const LARGEST: usize = 200;

impl Program {
    /// Combines the last value with one of each input, so that everything is differentiated.
    fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut values = inputs.to_vec();
        for step in &self.steps {
            let (x, y) = (step.x.get(&values).clone(), step.y.get(&values).clone());
            // Steps that do not match their operands are skipped.
            if let Some(new) = step.run(&x, &y)?
                && new.shape().count() <= LARGEST
            {
                values.push(new);
            }
        }
        Ok(values.split_off(values.len().saturating_sub(3)))
    }

    fn loss(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let mut total = ops::zeros(Shape::scalar(), DType::F64).done()?;
        for y in self.run(inputs)? {
            total = (&total + y.sin().sum(..)).done()?;
        }
        Ok(total)
    }
}

impl Step {
    /// Smooth steps with bounded values, so that finite differences keep their precision.
    fn run(&self, x: &Tensor, y: &Tensor) -> Result<Option<Tensor>> {
        let rank = x.rank();
        let axis = (rank > 0).then(|| i64::from(self.choice) % rank.max(1) as i64);
        let shape = x.shape().sizes();
        let broadcast = || x.shape().broadcast(y.shape()).is_some();
        let made = match self.kind {
            0 => x.sin(),
            1 => x.tanh(),
            2 => (x * 0.3).exp(),
            3 => (x.square() + 1.0).log(),
            4 => ops::sigmoid(x),
            5 => (x.square() + 0.5).rsqrt(),
            6 if broadcast() => x + y * 0.5,
            7 if broadcast() => (x * y).tanh(),
            8 if broadcast() => x / (y.square() + 1.5),
            9 if broadcast() => ops::atan2(x, y.square() + 1.0),
            10 => ops::flatten(x, 0),
            11 if rank > 1 => x.permute((0..rank as i64).rev().collect::<Vec<_>>()),
            12 => match axis {
                Some(axis) => x.sum(axis) * 0.3,
                None => return Ok(None),
            },
            13 => match axis {
                Some(axis) if shape[axis as usize] > 0 => ops::mean(x, axis),
                _ => return Ok(None),
            },
            14 => {
                let mut wide = vec![2usize];
                wide.extend(&shape);
                x.broadcast_to(wide)
            }
            15 => match axis {
                Some(axis) if shape[axis as usize] > 1 => {
                    ops::slice_axis(x, axis, 1i64, shape[axis as usize])
                }
                _ => return Ok(None),
            },
            16 => match axis {
                Some(axis) => ops::concat(&[x.clone(), (x * -0.5).done()?], axis),
                None => return Ok(None),
            },
            17 => match axis {
                Some(axis) => ops::flip(x, axis),
                None => return Ok(None),
            },
            18 => match axis {
                Some(axis) if shape[axis as usize] > 0 => ops::softmax(x, axis),
                _ => return Ok(None),
            },
            19 => match axis {
                Some(axis) => ops::cumsum(x, axis) * 0.5,
                None => return Ok(None),
            },
            20 if rank > 1 => ops::matmul(x, ops::matrix_transpose(x)).tanh(),
            21 => match axis {
                Some(axis) if shape[axis as usize] > 0 => ops::logsumexp(x, axis),
                _ => return Ok(None),
            },
            22 => match axis {
                Some(axis) => ops::expand_dims(x, axis),
                None => return Ok(None),
            },
            23 => match axis {
                Some(axis) if shape[axis as usize] > 0 => {
                    let at = ops::from_slice(&[0i64, -1, 0], [3usize])?;
                    ops::take(x, &at, axis)
                }
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        made.done().map(Some)
    }
}

/// Numbers determined by a program and a word.
fn draw(shapes: &[Vec<usize>], word: u64) -> Vec<Tensor> {
    let mut state = word;
    let mut next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / 2f64.powi(52) - 1.0
    };
    shapes
        .iter()
        .map(|s| {
            let values: Vec<f64> = (0..s.iter().product()).map(|_| next()).collect();
            ops::from_slice(&values, s.clone()).unwrap()
        })
        .collect()
}

fn values(x: &Tensor) -> Vec<f64> {
    x.to_vec().unwrap()
}

fn pairing(a: &[Tensor], b: &[Tensor]) -> f64 {
    a.iter()
        .zip(b)
        .flat_map(|(a, b)| values(a).into_iter().zip(values(b)))
        .map(|(a, b)| a * b)
        .sum()
}

fn shapes_of(xs: &[Tensor]) -> Vec<Vec<usize>> {
    xs.iter().map(|x| x.shape().sizes().to_vec()).collect()
}

fn moved(xs: &[Tensor], dx: &[Tensor], by: f64) -> Vec<Tensor> {
    xs.iter()
        .zip(dx)
        .map(|(x, d)| (x + d * by).done().unwrap())
        .collect()
}

fn near(a: f64, b: f64, tolerance: f64) -> std::result::Result<(), TestCaseError> {
    prop_assert!(
        (a - b).abs() <= tolerance * (1.0 + a.abs() + b.abs()),
        "{a} {b}"
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_gradient_is_the_limit_of_differences(p in program(), seed in any::<u64>()) {
        let (x, dx) = (draw(&p.shapes, seed), draw(&p.shapes, !seed));
        let g = grad(|x: &Vec<Tensor>| p.loss(x))(&x).unwrap();
        let at = |by: f64| values(&p.loss(&moved(&x, &dx, by)).unwrap())[0];
        let h = 1e-3;
        let change = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
        near(pairing(&g, &dx), change, 1e-7)?;
    }

    #[test]
    fn both_modes_are_transposes_of_each_other(p in program(), seed in any::<u64>()) {
        let (x, dx) = (draw(&p.shapes, seed), draw(&p.shapes, !seed));
        let f = |x: &Vec<Tensor>| p.run(x);
        let (y, dy) = jvp(f, &x, &dx).unwrap();
        let ct = draw(&shapes_of(&y), seed ^ 0xABCD);
        let (_, pull) = vjp(f, &x).unwrap();
        near(pairing(&ct, &dy), pairing(&pull.call(&ct).unwrap(), &dx), 1e-11)?;
    }

    #[test]
    fn second_derivatives_are_symmetric(p in program(), seed in any::<u64>()) {
        let x = draw(&p.shapes, seed);
        let (a, b) = (draw(&p.shapes, seed ^ 1), draw(&p.shapes, seed ^ 2));
        let gradient = |x: &Vec<Tensor>| grad(|x: &Vec<Tensor>| p.loss(x))(x);
        let (_, ha) = jvp(gradient, &x, &a).unwrap();
        let (_, hb) = jvp(gradient, &x, &b).unwrap();
        near(pairing(&ha, &b), pairing(&hb, &a), 1e-9)?;
        // Reverse over reverse must equal forward over reverse.
        let (_, pull) = vjp(gradient, &x).unwrap();
        near(pairing(&pull.call(&a).unwrap(), &b), pairing(&ha, &b), 1e-9)?;
    }

    #[test]
    fn traced_programs_round_trip_through_text(p in program(), seed in any::<u64>()) {
        let x = draw(&p.shapes, seed);
        let specs: Vec<Spec> = x.iter().map(|x| x.spec().clone()).collect();
        let closed = trace(&specs, |x| p.run(x)).unwrap();
        closed.graph.verify().unwrap();
        let args: Vec<&Tensor> = x.iter().chain(&closed.captured).collect();
        let eager: Vec<_> = p.run(&x).unwrap().iter().map(values).collect();
        let called: Vec<_> = closed.graph.call(&args).unwrap().iter().map(values).collect();
        prop_assert_eq!(&eager, &called);
        let text = closed.graph.to_string();
        let read = Graph::parse(&text).unwrap();
        prop_assert_eq!(read.to_string(), text);
        let again: Vec<_> = read.call(&args).unwrap().iter().map(values).collect();
        prop_assert_eq!(&eager, &again);
        let pruned: Vec<_> = closed.graph.prune().call(&args).unwrap().iter().map(values).collect();
        prop_assert_eq!(&eager, &pruned);
    }

    #[test]
    fn the_gradient_of_a_program_is_a_program(p in program(), seed in any::<u64>()) {
        let x = draw(&p.shapes, seed);
        let specs: Vec<Spec> = x.iter().map(|x| x.spec().clone()).collect();
        let gradient = |x: &Vec<Tensor>| grad(|x: &Vec<Tensor>| p.loss(x))(x);
        let closed = trace(&specs, |x| gradient(&x.to_vec())).unwrap();
        let args: Vec<&Tensor> = x.iter().chain(&closed.captured).collect();
        let eager: Vec<_> = gradient(&x).unwrap().iter().map(values).collect();
        let called: Vec<_> = closed.graph.call(&args).unwrap().iter().map(values).collect();
        for (a, b) in eager.iter().flatten().zip(called.iter().flatten()) {
            near(*a, *b, 1e-12)?;
        }
    }

    #[test]
    fn a_gradient_can_be_taken_of_a_traced_program(p in program(), seed in any::<u64>()) {
        let x = draw(&p.shapes, seed);
        let specs: Vec<Spec> = x.iter().map(|x| x.spec().clone()).collect();
        let closed = trace(&specs, |x| Ok(vec![p.loss(x)?])).unwrap();
        let whole = |x: &Vec<Tensor>| {
            let args: Vec<&Tensor> = x.iter().chain(&closed.captured).collect();
            Ok(closed.graph.call(&args)?.remove(0))
        };
        let direct = grad(|x: &Vec<Tensor>| p.loss(x))(&x).unwrap();
        for (a, b) in grad(whole)(&x).unwrap().iter().zip(&direct) {
            for (a, b) in values(a).into_iter().zip(values(b)) {
                near(a, b, 1e-12)?;
            }
        }
    }
}
