//! Function transforms as users apply them: nested, over trees, with auxiliary outputs and custom rules.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy knows test functions, not what they call

use clematis_conform::Array;
use clematis_core::autodiff::{
    custom_vjp, grad, hessian, jac, jac_forward, jac_reverse, jvp, linearize, value_and_grad,
    value_and_grad_aux, vjp,
};
use clematis_core::op::{Custom, CustomOp};
use clematis_core::ops::{self, Ops};
use clematis_core::{DType, Kind, Op, Result, Spec, Tensor};
use std::sync::Arc;

// Links the engine.
use clematis_native as _;

fn floats(values: &[f64]) -> Tensor {
    ops::from_slice(values, [values.len()]).unwrap()
}

fn number(x: f64) -> Tensor {
    ops::from_slice(&[x], clematis_core::Shape::scalar()).unwrap()
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

#[test]
fn derivatives_of_any_order_compose() {
    let x = number(0.7);
    let f = |x: &Tensor| x.sin();
    close(&grad(f)(&x).unwrap(), &[0.7f64.cos()]);
    close(&grad(grad(f))(&x).unwrap(), &[-0.7f64.sin()]);
    close(&grad(grad(grad(f)))(&x).unwrap(), &[-0.7f64.cos()]);
    close(
        &grad(grad(grad(grad(grad(f)))))(&x).unwrap(),
        &[0.7f64.cos()],
    );
}

#[test]
fn forward_and_reverse_compose_in_either_order() {
    let (x, one) = (number(1.3), number(1.0));
    let f = |x: &Tensor| (x * x.exp()).done();
    let want = (1.3 + 2.0) * 1.3f64.exp();
    let (_, forward_over_reverse) = jvp(grad(f), &x, &one).unwrap();
    close(&forward_over_reverse, &[want]);
    let reverse_over_forward = grad(|x: &Tensor| Ok(jvp(f, x, &one)?.1))(&x).unwrap();
    close(&reverse_over_forward, &[want]);
    let (_, forward_over_forward) = jvp(|x: &Tensor| Ok(jvp(f, x, &one)?.1), &x, &one).unwrap();
    close(&forward_over_forward, &[want]);
}

#[test]
fn levels_are_not_confused() {
    // d/dx (x · d/dy (x + y)) is 1, not 2.
    let x = number(3.0);
    let f = |x: &Tensor| {
        let inner = grad(|y: &Tensor| x + y)(x)?;
        (x * inner).done()
    };
    close(&grad(f)(&x).unwrap(), &[1.0]);
    let g = |x: &Tensor| {
        let inner = grad(|y: &Tensor| x * y * y)(&number(5.0))?;
        (x * inner).done()
    };
    // x · 2·5·x, so 20 x.
    close(&grad(g)(&x).unwrap(), &[60.0]);
}

#[test]
fn the_hessian_is_the_jacobian_of_the_gradient() {
    let x = floats(&[0.5, -1.2, 2.0]);
    let f = |x: &Tensor| (x.square() * x).sum(..) + (x.sin()).sum(..).exp();
    let h = hessian(f)(&x).unwrap();
    assert_eq!(*h.shape(), [3usize, 3]);
    let other = jac_reverse(grad(f))(&x).unwrap();
    close(&h, &all(&other));
    // Symmetric.
    close(&h.matrix_transpose().done().unwrap(), &all(&h));
}

#[test]
fn both_jacobians_are_the_same() {
    let x = floats(&[0.3, 0.9]);
    let f = |x: &Tensor| ops::outer(x, x.exp());
    let forward = jac_forward(f)(&x).unwrap();
    let reverse = jac_reverse(f)(&x).unwrap();
    assert_eq!(*forward.shape(), [2usize, 2, 2]);
    close(&forward, &all(&reverse));
    close(&jac(f)(&x).unwrap(), &all(&reverse));
    let (a, b) = (0.3f64, 0.9f64);
    let (ea, eb) = (a.exp(), b.exp());
    let want = [ea + a * ea, 0.0, eb, a * eb, b * ea, ea, 0.0, eb + b * eb];
    close(&forward, &want);
}

#[test]
fn a_jacobian_may_be_empty() {
    let empty = ops::zeros([0usize], DType::F64).done().unwrap();
    let j = jac_forward(|x: &Tensor| x.sin())(&empty).unwrap();
    assert_eq!(*j.shape(), [0usize, 0]);
    let j = jac_reverse(|x: &Tensor| x.sin())(&empty).unwrap();
    assert_eq!(*j.shape(), [0usize, 0]);
    let j = jac_reverse(|x: &Tensor| ops::sum(x, 0))(&empty).unwrap();
    assert_eq!(*j.shape(), [0usize]);
    let j = jac_forward(|x: &Tensor| ops::sum(x, 0))(&empty).unwrap();
    assert_eq!(*j.shape(), [0usize]);
}

#[test]
fn a_linear_map_can_be_reused() {
    let x = floats(&[1.0, 2.0]);
    let (y, push) = linearize(|x: &Tensor| x.square().done(), &x).unwrap();
    close(&y, &[1.0, 4.0]);
    close(&push.call(&floats(&[1.0, 0.0])).unwrap(), &[2.0, 0.0]);
    close(&push.call(&floats(&[0.0, 1.0])).unwrap(), &[0.0, 4.0]);
    let (_, pull) = vjp(|x: &Tensor| x.square().done(), &x).unwrap();
    close(&pull.call(&floats(&[1.0, 1.0])).unwrap(), &[2.0, 4.0]);
    close(&pull.call(&floats(&[3.0, 0.0])).unwrap(), &[6.0, 0.0]);
}

#[test]
fn aux_comes_back_and_is_not_differentiated() {
    let x = floats(&[1.0, -2.0]);
    let f = |x: &Tensor| {
        let square = x.square().done()?;
        let count = ops::from_slice(&[7i64], [1usize])?;
        Ok((square.sum(..).done()?, (square, count)))
    };
    let ((value, (square, count)), gradient) = value_and_grad_aux(f)(&x).unwrap();
    close(&value, &[5.0]);
    close(&square, &[1.0, 4.0]);
    assert_eq!(count.to_vec::<i64>().unwrap(), [7]);
    close(&gradient, &[2.0, -4.0]);
}

#[test]
fn trees_keep_their_structure() {
    let x = (
        floats(&[1.0, 2.0]),
        vec![number(3.0), number(4.0)],
        Some(number(5.0)),
    );
    let (value, g) = value_and_grad(|(a, b, c): &(Tensor, Vec<Tensor>, Option<Tensor>)| {
        let c = c.as_ref().map_or(number(0.0), Tensor::clone);
        (a.sum(..) * &b[0] + &b[1] * &b[1] * c).done()
    })(&x)
    .unwrap();
    close(&value, &[3.0 * 3.0 + 16.0 * 5.0]);
    close(&g.0, &[3.0, 3.0]);
    close(&g.1[0], &[3.0]);
    close(&g.1[1], &[40.0]);
    close(&g.2.unwrap(), &[16.0]);
}

#[test]
fn unused_inputs_have_zero_gradients() {
    let x = (number(2.0), floats(&[1.0, 1.0]));
    let g = grad(|(a, _): &(Tensor, Tensor)| a.square())(&x).unwrap();
    close(&g.0, &[4.0]);
    close(&g.1, &[0.0, 0.0]);
    // Nor does a constant function.
    let g = grad(|_: &Tensor| number(3.0))(&number(1.0)).unwrap();
    close(&g, &[0.0]);
}

#[test]
fn control_flow_of_rust_follows_the_values() {
    let f = |x: &Tensor| {
        let mut y = x.clone();
        while y.item()?.as_f64() < 10.0 {
            y = (&y * x).done()?;
        }
        Ok::<_, clematis_core::Error>(y)
    };
    // 2·2·2·2 = 16: x⁴.
    close(&grad(f)(&number(2.0)).unwrap(), &[32.0]);
    // 4·4 = 16: x².
    close(&grad(f)(&number(4.0)).unwrap(), &[8.0]);
}

#[test]
fn stop_gradient_stops_both_modes() {
    let x = number(3.0);
    let f = |x: &Tensor| (x * x.stop_gradient()).done();
    close(&grad(f)(&x).unwrap(), &[3.0]);
    close(&jvp(f, &x, &number(1.0)).unwrap().1, &[3.0]);
    close(&grad(grad(f))(&x).unwrap(), &[0.0]);
}

#[test]
fn integers_and_results_of_many_elements_are_refused() {
    let whole = ops::from_slice(&[1i32, 2], [2usize]).unwrap();
    let e = grad(|x: &Tensor| ops::sum(x, ..))(&whole).unwrap_err();
    assert_eq!(e.kind(), Kind::DType);
    let e = grad(|x: &Tensor| x.sin())(&floats(&[1.0, 2.0])).unwrap_err();
    assert_eq!(e.kind(), Kind::Shape);
    let complex = |x: &Tensor| ops::complex(x, x);
    let e = grad(complex)(&number(1.0)).unwrap_err();
    assert_eq!(e.kind(), Kind::DType);
    let (_, pull) = vjp(|x: &Tensor| x.sin().done(), &floats(&[1.0, 2.0])).unwrap();
    assert_eq!(pull.call(&number(1.0)).unwrap_err().kind(), Kind::Shape);
    let e = jvp(
        |x: &Tensor| x.sin().done(),
        &number(1.0),
        &floats(&[1.0, 2.0]),
    )
    .unwrap_err();
    assert_eq!(e.kind(), Kind::Shape);
}

#[test]
fn a_leaked_tracer_is_reported() {
    let mut kept = None;
    vjp(
        |x: &Tensor| {
            kept = Some(x.clone());
            Ok(x.clone())
        },
        &number(1.0),
    )
    .unwrap();
    let e = kept.unwrap().sin().done().unwrap_err();
    assert_eq!(e.kind(), Kind::Trace);
}

#[test]
fn complex_gradients_follow_jax() {
    // The gradient of |z|² is 2 z̄, since the change is Re(2 z̄ dz).
    let z = ops::from_slice(&[num_complex::Complex::new(1.5, -0.5)], [1usize]).unwrap();
    let g = grad(|z: &Tensor| z.abs().square().sum(..))(&z).unwrap();
    let got = Array::from_tensor(&g).unwrap().values[0].c();
    assert!(
        (got - num_complex::Complex::new(3.0, 1.0)).norm() < 1e-12,
        "{got}"
    );
    // The gradient of Re(z²) is 2 z: holomorphic functions have their usual derivative.
    let g = grad(|z: &Tensor| z.square().real().sum(..))(&z).unwrap();
    let got = Array::from_tensor(&g).unwrap().values[0].c();
    assert!(
        (got - num_complex::Complex::new(3.0, -1.0)).norm() < 1e-12,
        "{got}"
    );
}

#[test]
fn a_function_may_have_a_reverse_rule_of_its_own() {
    // Gradient clipping: the identity, whose cotangents are clipped to [-1, 1].
    let clipped = custom_vjp(
        "clip_gradient",
        |x| Ok(vec![x[0].clone()]),
        |_, _, ct| Ok(vec![Some(ops::clamp(&ct[0], -1.0, 1.0).done()?)]),
    );
    let f = |x: &Tensor| (clipped(&[x])?.remove(0).square().sum(..)).done();
    close(&grad(f)(&floats(&[0.25, 3.0])).unwrap(), &[0.5, 1.0]);
    let e = jvp(
        |x: &Tensor| Ok(clipped(&[x])?.remove(0)),
        &number(1.0),
        &number(1.0),
    )
    .unwrap_err();
    assert_eq!(e.kind(), Kind::Diff);
    assert!(e.to_string().contains("clip_gradient"), "{e}");
}

#[test]
fn a_rule_that_gives_the_wrong_shape_is_refused() {
    let wrong = custom_vjp(
        "wrong",
        |x| Ok(vec![x[0].clone()]),
        |_, _, ct| {
            Ok(vec![Some(
                ops::stack(&[ct[0].clone(), ct[0].clone()], 0).done()?,
            )])
        },
    );
    let e = grad(|x: &Tensor| Ok(wrong(&[x])?.remove(0)))(&number(1.0)).unwrap_err();
    assert_eq!(e.kind(), Kind::Diff);
    let few = custom_vjp("few", |x| Ok(vec![x[0].clone()]), |_, _, _| Ok(vec![]));
    let e = grad(|x: &Tensor| Ok(few(&[x])?.remove(0)))(&number(1.0)).unwrap_err();
    assert_eq!(e.kind(), Kind::Diff);
}

/// The square, by its expansion or with rules that double the true derivative, to show which one is used.
struct Square {
    rules: bool,
}

impl CustomOp for Square {
    fn name(&self) -> &str {
        "square_of_mine"
    }
    fn infer(&self, inputs: &[&Spec]) -> Result<Vec<Spec>> {
        Ok(vec![inputs[0].clone()])
    }
    fn expand(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![(inputs[0] * inputs[0]).done()?])
    }
    fn vjp(
        &self,
        x: &[&Tensor],
        _: &[&Tensor],
        ct: &[Tensor],
    ) -> Option<Result<Vec<Option<Tensor>>>> {
        self.rules
            .then(|| Ok(vec![Some((x[0] * &ct[0] * 4.0).done()?)]))
    }
    fn jvp(
        &self,
        x: &[&Tensor],
        _: &[&Tensor],
        dx: &[Option<Tensor>],
    ) -> Option<Result<Vec<Tensor>>> {
        self.rules.then(|| {
            let dx = dx[0]
                .clone()
                .map_or_else(|| ops::zeros_like(x[0]).done(), Ok)?;
            Ok(vec![(x[0] * dx * 4.0).done()?])
        })
    }
    fn has_vjp(&self) -> bool {
        self.rules
    }
    fn has_jvp(&self) -> bool {
        self.rules
    }
}

#[test]
fn custom_ops_use_their_rules_or_their_expansion() {
    for (rules, factor) in [(false, 2.0), (true, 4.0)] {
        let op = Op::Custom(Custom(Arc::new(Square { rules })));
        let f = |x: &Tensor| ops::call(op.clone(), &[x]);
        let x = number(3.0);
        close(&f(&x).done().unwrap(), &[9.0]);
        close(&grad(f)(&x).unwrap(), &[3.0 * factor]);
        let (_, dy) = jvp(|x: &Tensor| f(x).done(), &x, &number(1.0)).unwrap();
        close(&dy, &[3.0 * factor]);
        // The rule itself is differentiated.
        close(&grad(grad(f))(&x).unwrap(), &[factor]);
    }
}
