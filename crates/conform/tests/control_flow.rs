//! Control flow functions: values, both derivative modes, captured tensors, nesting.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy knows test functions, not what they call

use clematis_conform::Array;
use clematis_core::autodiff::{grad, hessian, jvp, vjp};
use clematis_core::control::{cond, map, scan, switch, while_loop};
use clematis_core::ops::{self, Ops};
use clematis_core::trace::trace;
use clematis_core::{DType, Kind, Result, Shape, Spec, Tensor};

// Links the engine.
use clematis_native as _;

fn floats(values: &[f64]) -> Tensor {
    ops::from_slice(values, [values.len()]).unwrap()
}

fn number(x: f64) -> Tensor {
    ops::from_slice(&[x], Shape::scalar()).unwrap()
}

fn whole(x: i64) -> Tensor {
    ops::from_slice(&[x], Shape::scalar()).unwrap()
}

fn all(x: &Tensor) -> Vec<f64> {
    Array::from_tensor(x)
        .unwrap()
        .values
        .iter()
        .map(|v| v.re())
        .collect()
}

fn close(got: &Tensor, want: &[f64]) {
    let got = all(got);
    assert_eq!(got.len(), want.len(), "{got:?} {want:?}");
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() <= 1e-9 * w.abs().max(1.0), "{got:?} {want:?}");
    }
}

/// Compiles a function, so that bodies are traced abstractly.
fn traced<F: Fn(&[Tensor]) -> Result<Tensor>>(
    inputs: &[&Tensor],
    f: F,
) -> impl Fn(&[&Tensor]) -> Result<Tensor> + use<F> {
    let specs: Vec<Spec> = inputs.iter().map(|x| x.spec().clone()).collect();
    let closed = trace(&specs, |x| Ok(vec![f(x)?])).unwrap();
    move |x| {
        let mut all: Vec<&Tensor> = x.to_vec();
        all.extend(&closed.captured);
        Ok(closed.graph.call(&all)?.remove(0))
    }
}

/// Central difference of a function of one number.
fn finite_difference(f: impl Fn(f64) -> f64, x: f64) -> f64 {
    let h = 1e-4;
    (8.0 * (f(x + h) - f(x - h)) - (f(x + 2.0 * h) - f(x - 2.0 * h))) / (12.0 * h)
}

#[test]
fn cond_runs_and_differentiates_the_branch_that_was_chosen() {
    // Each branch captures its own tensor, and both take the operand.
    let (a, b) = (number(2.0), number(5.0));
    let f = |p: &Tensor, x: &Tensor| cond(p, x, |x| (x * x * &a).done(), |x| (x.sin() * &b).done());
    let (yes, no) = (ops::tensor(true).unwrap(), ops::tensor(false).unwrap());
    let x = number(0.6);
    let program = traced(&[&yes, &x], |v| f(&v[0], &v[1]));
    for (p, value, derivative) in [
        (&yes, 0.72, 2.4),
        (&no, 5.0 * 0.6f64.sin(), 5.0 * 0.6f64.cos()),
    ] {
        close(&f(p, &x).unwrap(), &[value]);
        close(&program(&[p, &x]).unwrap(), &[value]);
        close(&grad(|x: &Tensor| f(p, x))(&x).unwrap(), &[derivative]);
        close(
            &grad(|x: &Tensor| program(&[p, x]))(&x).unwrap(),
            &[derivative],
        );
        let (_, dy) = jvp(|x: &Tensor| program(&[p, x]), &x, &number(1.0)).unwrap();
        close(&dy, &[derivative]);
    }
}

#[test]
fn captured_tensors_of_branches_have_gradients() {
    let x = number(0.6);
    let p = ops::tensor(true).unwrap();
    // Traced inside grad: the branch captures the differentiated tensor.
    let f = |w: &Tensor| {
        let program = {
            let specs = [p.spec().clone(), x.spec().clone(), w.spec().clone()];
            trace(&specs, |v| {
                Ok(vec![cond(
                    &v[0],
                    &v[1],
                    |x| (x * &v[2]).done(),
                    |x| (x + &v[2] * &v[2]).done(),
                )?])
            })?
        };
        Ok::<_, clematis_core::Error>(program.graph.call(&[&p, &x, w])?.remove(0))
    };
    close(&grad(f)(&number(3.0)).unwrap(), &[0.6]);
}

type Branch<'a> = &'a dyn Fn(&Tensor) -> Result<Tensor>;

#[test]
fn switch_chooses_among_many_and_clips() {
    let branches: &[Branch] = &[&|x| (x * 2.0).done(), &|x| x.square().done(), &|x| {
        x.exp().done()
    }];
    let x = number(1.5);
    let program = traced(&[&whole(0), &x], |v| switch(&v[0], &v[1], branches));
    for (i, value, derivative) in [
        (-4, 3.0, 2.0),
        (0, 3.0, 2.0),
        (1, 2.25, 3.0),
        (2, 1.5f64.exp(), 1.5f64.exp()),
        (9, 1.5f64.exp(), 1.5f64.exp()),
    ] {
        let i = whole(i);
        close(&switch(&i, &x, branches).unwrap(), &[value]);
        close(&program(&[&i, &x]).unwrap(), &[value]);
        close(
            &grad(|x: &Tensor| program(&[&i, x]))(&x).unwrap(),
            &[derivative],
        );
    }
}

/// x ← x² / y + y, until it exceeds 10.
fn grow(x: &Tensor, y: &Tensor) -> Result<Tensor> {
    while_loop(
        x.clone(),
        |x| ops::less(x, 10.0).done(),
        |x| (x.square() / y + y).done(),
    )
}

#[test]
fn while_has_forward_mode_only() {
    let plain = |x: f64, y: f64| {
        let mut x = x;
        while x < 10.0 {
            x = x * x / y + y;
        }
        x
    };
    let (x, y) = (number(1.0), number(1.5));
    close(&grow(&x, &y).unwrap(), &[plain(1.0, 1.5)]);
    let (_, dx) = jvp(|x: &Tensor| grow(x, &y), &x, &number(1.0)).unwrap();
    let want = finite_difference(|x| plain(x, 1.5), 1.0);
    assert!((all(&dx)[0] / want - 1.0).abs() < 1e-7);
    // The body captures y.
    let (_, dy) = jvp(|y: &Tensor| grow(&x, y), &y, &number(1.0)).unwrap();
    let want = finite_difference(|y| plain(1.0, y), 1.5);
    assert!((all(&dy)[0] / want - 1.0).abs() < 1e-7);
    let e = grad(|x: &Tensor| grow(x, &y))(&x).unwrap_err();
    assert_eq!(e.kind(), Kind::Diff);
    assert!(e.to_string().contains("scan"), "{e}");
}

#[test]
fn reverse_mode_works_outside_of_a_constant_loop() {
    // The loop's operands do not depend on x.
    let f = |x: &Tensor| {
        let n = while_loop(
            number(1.0),
            |n| ops::less(n, 100.0).done(),
            |n| (n * 3.0).done(),
        )?;
        (x * n).done()
    };
    close(&grad(f)(&number(2.0)).unwrap(), &[243.0]);
}

/// hₙ = tanh(w hₙ₋₁ + xₙ); returns the last one and the squares of all.
fn recurrence(w: &Tensor, h: &Tensor, xs: &Tensor, reverse: bool) -> Result<(Tensor, Tensor)> {
    scan(h, xs, None, reverse, |h, x| {
        let next = (w * h + x).tanh().done()?;
        let square = next.square().done()?;
        Ok((next, square))
    })
}

/// The same, unrolled.
fn unrolled(w: &Tensor, h: &Tensor, xs: &Tensor, reverse: bool) -> Result<(Tensor, Tensor)> {
    let n = xs.shape().size(0);
    let mut h = h.clone();
    let mut rows = vec![h.clone(); n];
    for step in 0..n {
        let at = if reverse { n - 1 - step } else { step };
        let x = ops::slice_axis(xs, 0, at, at + 1).squeeze(0).done()?;
        h = (w * &h + x).tanh().done()?;
        rows[at] = h.square().done()?;
    }
    Ok((h, ops::stack(&rows, 0).done()?))
}

type Step = fn(&Tensor, &Tensor, &Tensor, bool) -> Result<(Tensor, Tensor)>;

fn recurrent_loss(step: Step, reverse: bool) -> impl Fn(&Vec<Tensor>) -> Result<Tensor> {
    move |x| {
        let (h, rows) = step(&x[0], &x[1], &x[2], reverse)?;
        (h.sum(..) + (rows.square() * 3.0).sum(..)).done()
    }
}

fn recurrent_operands() -> Vec<Tensor> {
    let xs = ops::from_slice(&[0.1, -0.4, 0.9, 0.3, -0.7, 0.2], [3usize, 2]).unwrap();
    vec![floats(&[0.8, -0.5]), floats(&[0.2, 0.1]), xs]
}

#[test]
fn scan_equals_the_unrolled_loop() {
    let operands = recurrent_operands();
    for reverse in [false, true] {
        let (a, b) = (
            recurrent_loss(recurrence, reverse),
            recurrent_loss(unrolled, reverse),
        );
        close(&a(&operands).unwrap(), &all(&b(&operands).unwrap()));
        let (ga, gb) = (grad(&a)(&operands).unwrap(), grad(&b)(&operands).unwrap());
        for (x, y) in ga.iter().zip(&gb) {
            close(x, &all(y));
        }
        let dx: Vec<Tensor> = operands
            .iter()
            .map(|x| (x * 0.5 + 0.25).done().unwrap())
            .collect();
        let (_, ta) = jvp(&a, &operands, &dx).unwrap();
        let (_, tb) = jvp(&b, &operands, &dx).unwrap();
        close(&ta, &all(&tb));
    }
}

#[test]
fn second_derivatives_go_through_a_scan() {
    let operands = recurrent_operands();
    let at = |step: Step| {
        let (h, xs) = (operands[1].clone(), operands[2].clone());
        hessian(move |w: &Tensor| {
            recurrent_loss(step, false)(&vec![w.clone(), h.clone(), xs.clone()])
        })(&operands[0])
        .unwrap()
    };
    close(&at(recurrence), &all(&at(unrolled)));
}

#[test]
fn loops_can_be_nested() {
    // An outer loop over rows, an inner loop over their elements, and a branch inside.
    let xs = ops::from_slice(&[0.5, -0.4, 0.9, -0.3, 0.7, 0.2], [2usize, 3]).unwrap();
    let nested = |w: &Tensor| {
        let (total, _) = scan(&number(0.0), &xs, None, false, |total, row| {
            let (sum, rows) = scan(total, row, None, true, |sum, x| {
                let p = ops::greater(x, 0.0).done()?;
                let term = cond(&p, x, |x| (x * w).done(), |x| (x * w * w).done())?;
                let next = (sum * 0.5 + &term).done()?;
                Ok((next, term))
            })?;
            Ok(((sum + rows.sum(..)).done()?, ()))
        })?;
        Ok::<_, clematis_core::Error>(total)
    };
    let plain = |w: f64| {
        let rows = [[0.5, -0.4, 0.9], [-0.3, 0.7, 0.2]];
        let mut total = 0.0;
        for row in rows {
            let terms = row.map(|x: f64| if x > 0.0 { x * w } else { x * w * w });
            let sum = terms.iter().rev().fold(total, |s, t| s * 0.5 + t);
            total = sum + terms.iter().sum::<f64>();
        }
        total
    };
    let w = number(1.3);
    close(&nested(&w).unwrap(), &[plain(1.3)]);
    let want = finite_difference(plain, 1.3);
    assert!((all(&grad(nested)(&w).unwrap())[0] - want).abs() < 1e-8);
    let (_, dy) = jvp(nested, &w, &number(1.0)).unwrap();
    assert!((all(&dy)[0] - want).abs() < 1e-8);
    let second = grad(grad(nested))(&w).unwrap();
    let want = finite_difference(|w| finite_difference(plain, w), 1.3);
    assert!((all(&second)[0] - want).abs() < 1e-5, "{second:?} {want}");
}

#[test]
fn a_gradient_may_be_taken_inside_of_a_loop() {
    // Gradient descent as a scan, differentiated with respect to its starting point.
    let f = |start: &Tensor| {
        let (end, _) = scan(start, &(), Some(3), false, |x, ()| {
            let g = grad(|x: &Tensor| (x.square() * x).sum(..))(x)?;
            Ok(((x - g * 0.1).done()?, ()))
        })?;
        Ok::<_, clematis_core::Error>(end)
    };
    let plain = |x: f64| (0..3).fold(x, |x, _| x - 0.3 * x * x);
    let x = number(0.4);
    close(&f(&x).unwrap(), &[plain(0.4)]);
    let want = finite_difference(plain, 0.4);
    assert!((all(&grad(f)(&x).unwrap())[0] - want).abs() < 1e-8);
}

#[test]
fn map_goes_over_rows() {
    let xs = ops::from_slice(&[1.0, 2.0, 3.0, 4.0], [2usize, 2]).unwrap();
    let f = |xs: &Tensor| map(xs, |x| x.square().sum(..).done());
    close(&f(&xs).unwrap(), &[5.0, 25.0]);
    let (_, pull) = vjp(f, &xs).unwrap();
    close(
        &pull.call(&floats(&[1.0, 10.0])).unwrap(),
        &[2.0, 4.0, 60.0, 80.0],
    );
    let (_, dy) = jvp(f, &xs, &xs).unwrap();
    close(&dy, &[10.0, 50.0]);
}

#[test]
fn loops_of_no_steps_are_differentiated() {
    let empty = ops::zeros([0usize, 2], DType::F64).done().unwrap();
    let x = vec![floats(&[0.8, -0.5]), floats(&[0.2, 0.1]), empty];
    let g = grad(recurrent_loss(recurrence, false))(&x).unwrap();
    close(&g[0], &[0.0, 0.0]);
    close(&g[1], &[1.0, 1.0]);
    assert_eq!(*g[2].shape(), [0usize, 2]);
}

#[test]
fn mismatched_bodies_are_rejected() {
    let xs = floats(&[1.0, 2.0]);
    let grown = scan(&number(0.0), &xs, None, false, |h, x| {
        Ok((ops::stack(&[h.clone(), x.clone()], 0).done()?, ()))
    });
    assert_eq!(grown.unwrap_err().kind(), Kind::Shape);
    let e = scan(&number(0.0), &(), None, false, |h, ()| Ok((h.clone(), ()))).unwrap_err();
    assert_eq!(e.kind(), Kind::Value);
    let e = scan(&number(0.0), &number(1.0), None, false, |h, _| {
        Ok((h.clone(), ()))
    })
    .unwrap_err();
    assert_eq!(e.kind(), Kind::Shape);
    let e = while_loop(number(0.0), |x| x.sin().done(), |x| Ok(x.clone())).unwrap_err();
    assert_eq!(e.kind(), Kind::DType);
    let p = ops::tensor(true).unwrap();
    let specs = [p.spec().clone(), xs.spec().clone()];
    let differ = trace(&specs, |v| {
        Ok(vec![cond(
            &v[0],
            &v[1],
            |x| Ok(x.clone()),
            |x| x.sum(..).done(),
        )?])
    });
    assert_eq!(differ.err().map(|e| e.kind()), Some(Kind::Shape));
}
