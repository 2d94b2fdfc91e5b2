//! Optimiser updates agree with their formulas, including edge cases.

use clematis_core::{DType, Result, Tensor, autodiff, ops};
use clematis_native as _;
use clematis_nn::functional::optimizer_updates::{
    Moments, adam_step, adam_update, lamb_update, lars_update, optimizer_update,
};

fn tensor(values: &[f32]) -> Tensor {
    ops::from_slice(values, [values.len()]).expect("a tensor")
}

fn near(x: &Tensor, want: &[f32]) {
    let got = x.to_vec::<f32>().expect("values");
    assert_eq!(got.len(), want.len(), "{got:?} for {want:?}");
    for (a, b) in got.iter().zip(want) {
        assert!(
            (a - b).abs() <= 2e-6 * b.abs().max(1.0),
            "{got:?} for {want:?}"
        );
    }
}

fn moments<'a>(m: &'a Tensor, v: &'a Tensor, step: &'a Tensor) -> Moments<'a> {
    Moments {
        m,
        v,
        step,
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-7,
    }
}

fn given() -> (Tensor, Tensor, Tensor, Tensor) {
    let (w, g) = (tensor(&[1., 2., 3.]), tensor(&[0.5, 0.2, 0.1]));
    (w, g, Tensor::number(0.1), tensor(&[0., 0., 0.]))
}

#[test]
fn steps_match_the_table() -> Result<()> {
    let (w, g, lr, zero) = given();
    let step = Tensor::number(1);
    let p = moments(&zero, &zero, &step);
    let [delta, m, v] = adam_step(&g, p)?;
    near(&delta, &[0.999993, 0.999983, 0.999967]);
    near(&m, &[0.05, 0.02, 0.01]);
    near(&v, &[2.5e-4, 4e-5, 1e-5]);
    near(
        &adam_update(&w, &g, &lr, p, true)?[0],
        &[0.900001, 1.900002, 2.900003],
    );
    let (ones, third) = (tensor(&[1.]), Tensor::number(3.0));
    let [delta, m, v] = adam_step(&w, moments(&ones, &ones, &third))?;
    near(&delta, &[0.202011, 0.221879, 0.241449]);
    near(&m, &[1., 1.1, 1.2]);
    near(&v, &[1., 1.003, 1.008]);
    let lars = |decay: f64| lars_update(&w, &g, &lr, decay, true).done();
    near(&lars(0.0)?, &[0.658435, 1.863374, 2.931687]);
    near(&lars(0.5)?, &[0.817426, 1.92697, 2.963485]);
    let lamb = |most: f64, decay: f64| lamb_update(&w, &g, &lr, p, most, decay, true);
    near(&lamb(10.0, 0.0)?[0], &[0.783973, 1.783975, 2.783978]);
    near(&lamb(10.0, 0.5)?[0], &[0.89417, 1.894171, 2.894172]);
    near(&lamb(1.0, 0.0)?[0], &[0.900001, 1.900002, 2.900003]);
    Ok(())
}

#[test]
fn the_step_may_be_a_number_or_any_tensor_of_one() -> Result<()> {
    let (_, g, _, zero) = given();
    for step in [
        Tensor::number(2.0),
        ops::tensor(2i32)?,
        ops::tensor([2i64])?,
        ops::tensor([[2f64]])?,
    ] {
        let [delta, ..] = adam_step(&g, moments(&zero, &zero, &step))?;
        near(&delta, &[0.744132, 0.744125, 0.744113]);
    }
    assert!(adam_step(&g, moments(&zero, &zero, &ops::tensor([1, 2])?)).is_err());
    Ok(())
}

#[test]
fn betas_of_one() -> Result<()> {
    let (_, g, _, zero) = given();
    let step = Tensor::number(1);
    let mut p = moments(&zero, &zero, &step);
    (p.beta1, p.beta2) = (1.0, 1.0);
    near(&adam_step(&g, p)?[0], &[0., 0., 0.]);
    Ok(())
}

#[test]
fn norms_neither_overflow_nor_vanish() -> Result<()> {
    let lr = Tensor::number(0.1);
    for size in [1e30f32, 1e-30] {
        let w = tensor(&[size, -size, 3.0 * size]);
        // The same direction at a scale where the lower bound of the denominator has no effect.
        let g = tensor(&[1., -1., 3.]);
        let y = lars_update(&w, &g, &lr, 0.0, true)
            .done()?
            .to_vec::<f32>()?;
        for (y, w) in y.iter().zip(w.to_vec::<f32>()?) {
            assert!((y / w - 0.9).abs() < 1e-5, "{y} from {w}");
        }
    }
    let half = ops::cast(tensor(&[60000., -60000.]), DType::F16).done()?;
    let y = lars_update(&half, &half, &lr, 0.0, true).done()?;
    assert_eq!(y.dtype(), DType::F16);
    near(&ops::cast(&y, DType::F32).done()?, &[54016., -54016.]);
    Ok(())
}

#[test]
fn zero_parameters_stay_zero_with_finite_gradients() -> Result<()> {
    let (_, g, lr, zero) = given();
    near(
        &lars_update(&zero, &g, &lr, 0.5, true).done()?,
        &[0., 0., 0.],
    );
    let step = Tensor::number(1);
    let grad = autodiff::grad(|w: &Tensor| {
        let [y, ..] = lamb_update(w, w, &lr, moments(w, w, &step), 10.0, 0.5, false)?;
        ops::sum(y, ..).done()
    });
    assert!(grad(&zero)?.to_vec::<f32>()?.iter().all(|v| v.is_finite()));
    let grad = autodiff::grad(|w: &Tensor| ops::sum(lars_update(w, w, &lr, 0.0, false), ..));
    assert!(grad(&zero)?.to_vec::<f32>()?.iter().all(|v| v.is_finite()));
    Ok(())
}

#[test]
fn gradients_are_stopped_unless_asked_for() -> Result<()> {
    let (w, g, lr, _) = given();
    for (stop, want) in [(true, 0.0), (false, 1.0)] {
        let grad = autodiff::grad(|w: &Tensor| ops::sum(optimizer_update(w, &g, &lr, stop), ..));
        near(&grad(&w)?, &[want; 3]);
    }
    Ok(())
}
