//! Layers agree with their definition, and optimisers update parameters by their formulas.

use clematis_core::random::{self, Key};
use clematis_core::{DType, Kind, Result, Tensor, autodiff, ops, tree};
use clematis_derive::Tree;
use clematis_native as _;
use clematis_nn::{Adam, Conv2d, Dropout, Linear, Module, Optimizer, Sgd, parameter_count};

#[derive(Clone, Tree)]
struct Mlp {
    layers: Vec<Linear>,
}

impl Mlp {
    fn new(key: &Key) -> Result<Mlp> {
        let keys = key.split_n(2);
        Ok(Mlp {
            layers: vec![Linear::new(3, 16, &keys[0])?, Linear::new(16, 1, &keys[1])?],
        })
    }

    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = ops::tanh(self.layers[0].forward(x)?).done()?;
        self.layers[1].forward(&hidden)
    }
}

fn data() -> Result<(Tensor, Tensor)> {
    let x = random::normal(&Key::new(1), [64usize, 3], 0.0, 1.0, DType::F32).done()?;
    let y = ops::sin(ops::sum(&x, 1)).done()?;
    Ok((x, ops::expand_dims(&y, -1).done()?))
}

fn losses(optimizer: &impl Optimizer) -> Result<Vec<f64>> {
    let (x, y) = data()?;
    let mut net = Mlp::new(&Key::new(0))?;
    let mut state = optimizer.init(&net)?;
    let step = autodiff::value_and_grad(|net: &Mlp| ops::mse_loss(net.forward(&x), &y));
    (0..60)
        .map(|_| {
            let (loss, grads) = step(&net)?;
            optimizer.step(&mut net, &grads, &mut state)?;
            Ok(loss.item()?.as_f64())
        })
        .collect()
}

#[test]
fn both_optimisers_learn() -> Result<()> {
    for losses in [
        losses(&Adam::new(1e-2))?,
        losses(&Sgd {
            momentum: 0.9,
            ..Sgd::new(0.05)
        })?,
    ] {
        assert!(
            losses[59] < 0.3 * losses[0],
            "{} to {}",
            losses[0],
            losses[59]
        );
    }
    Ok(())
}

#[test]
fn the_first_step_of_adam_is_the_sign_of_the_gradient() -> Result<()> {
    let mut w = ops::tensor([1.0f64, -2.0, 3.0])?;
    let adam = Adam::new(0.1);
    let mut state = adam.init(&w)?;
    adam.step(&mut w, &ops::tensor([0.5f64, -4.0, 1e-3])?, &mut state)?;
    for (got, want) in w.to_vec::<f64>()?.iter().zip([0.9, -1.9, 2.9]) {
        assert!((got - want).abs() < 1e-5, "{got} {want}");
    }
    assert_eq!(state.steps, 1);
    Ok(())
}

#[test]
fn paths_and_counts_are_those_of_the_structure() -> Result<()> {
    let net = Mlp::new(&Key::new(0))?;
    assert_eq!(
        tree::paths(&net),
        ["layers.0.w", "layers.0.b", "layers.1.w", "layers.1.b"]
    );
    assert_eq!(parameter_count(&net), 3 * 16 + 16 + 16 + 1);
    let conv = Conv2d::new(3, 8, [3, 3], &Key::new(0))?;
    assert_eq!(tree::paths(&conv), ["w", "b"]);
    let x = ops::ones([2usize, 5, 6, 3], DType::F32).done()?;
    assert_eq!(conv.forward(&x)?.shape(), &[2usize, 5, 6, 8]);
    assert!(Dropout { rate: 0.5 }.forward(&x, None)?.same(&x));
    Ok(())
}

#[test]
fn a_failed_step_changes_nothing() -> Result<()> {
    let mut net = Mlp::new(&Key::new(0))?;
    let before = tree::leaves(&net);
    let adam = Adam::new(1e-2);
    let mut state = adam.init(&net)?;
    let mut grads = net.clone();
    grads.layers[1].w = ops::zeros([2usize, 16], DType::F32).done()?;
    let e = adam
        .step(&mut net, &grads, &mut state)
        .expect_err("shapes differ");
    assert_eq!(e.kind(), Kind::Shape);
    assert!(e.to_string().contains("layers.1.w"), "{e}");
    assert!(
        tree::leaves(&net)
            .iter()
            .zip(&before)
            .all(|(a, b)| a.same(b))
    );
    assert_eq!(state.steps, 0);
    Ok(())
}
