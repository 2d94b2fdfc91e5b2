//! Layers: gradients reach each parameter, state is updated, invalid input is reported.

use clematis_core::random::{self, Key};
use clematis_core::tree::{self, Role};
use clematis_core::{DType, Kind, Result, Tensor, autodiff, ops};
use clematis_native as _;
use clematis_nn::checkpoint;
use clematis_nn::*;

fn input(sizes: &[usize]) -> Result<Tensor> {
    let shape = clematis_core::Shape::from_sizes(sizes);
    random::normal(&Key::new(3), shape, 0.0, 1.0, DType::F32).done()
}

/// Checks that each parameter has a nonzero gradient.
fn learns<T: tree::Tree + Clone>(net: &T, f: impl Fn(&T) -> Result<Tensor>) -> Result<()> {
    let grads = autodiff::grad(|net: &T| ops::sum(ops::square(f(net)), ..))(net)?;
    for (path, role, g) in tree::entries(&grads) {
        let size = ops::max(ops::abs(&g), ..).done()?.item()?.as_f64();
        assert!(role == Role::State || size > 0.0, "{path}: {size}");
    }
    Ok(())
}

#[test]
fn gradients_reach_each_parameter() -> Result<()> {
    let key = Key::new(0);
    let x = input(&[2, 5, 4])?;
    learns(&Conv1d::new(4, 3, [3], &key)?, |net| net.forward(&x))?;
    learns(&Conv1dTranspose::new(4, 3, [3], &key)?, |net| {
        net.forward(&x)
    })?;
    learns(&Bilinear::new(4, 4, 3, &key)?, |net| net.forward(&x, &x))?;
    for cell in [Cell::Lstm, Cell::Gru, Cell::Rnn, Cell::RnnRelu] {
        let options = RecurrentOptions {
            layers: 2,
            bidirectional: true,
            ..RecurrentOptions::default()
        };
        let net = Recurrent::new(cell, 4, 3, options, &key)?;
        learns(&net, |net| Ok(net.forward(&x)?.out))?;
    }
    let net = Transformer::decoder(2, 4, 2, TransformerOptions::default(), &key)?;
    let memory = input(&[2, 3, 4])?;
    // After a norm the gradient of a sum of squares is 0, so the result is weighted.
    let weights = input(&[2, 5, 4])?;
    let drop = Key::new(5);
    learns(&net, |net| {
        let at = TransformerArgs {
            causal: true,
            memory: Some(&memory),
            key: Some(&drop),
            ..TransformerArgs::default()
        };
        (net.forward_with(&x, at)? * &weights).done()
    })?;
    let net = Sequential::new()
        .then(Linear::new(4, 3, &key)?)
        .then(PRelu::new(3)?)
        .then(LayerNorm::new(&[3])?)
        .then(Flatten::default());
    learns(&net, |net| {
        let y = net.forward(&x)?;
        (&y * ops::exp(&y)).done()
    })
}

#[test]
fn running_statistics_move_inside_a_derivative() -> Result<()> {
    let mut net = BatchNorm::new(3)?;
    let x = input(&[64, 3])?;
    let step = autodiff::value_and_grad_aux(|net: &BatchNorm| {
        let moved = net.train(&x)?;
        let loss = ops::sum(moved.out * &x, ..).done()?;
        Ok((loss, (moved.mean, moved.variance)))
    });
    let ((_, (mean, variance)), grads) = step(&net)?;
    net.keep(mean, variance);
    assert_eq!(
        tree::paths(&net),
        ["weight", "bias", "running_mean", "running_var"]
    );
    let mean = ops::mean(&x, 0).done()?.to_vec::<f32>()?;
    for (got, want) in net.running_mean.0.to_vec::<f32>()?.iter().zip(mean) {
        assert!((got - 0.1 * want).abs() < 1e-6, "{got} {want}");
    }
    let variance = ops::var(&x, 0, 1.0).done()?.to_vec::<f32>()?;
    for (got, want) in net.running_var.0.to_vec::<f32>()?.iter().zip(variance) {
        assert!((got - 0.9 - 0.1 * want).abs() < 1e-5, "{got} {want}");
    }
    assert_eq!(parameter_count(&grads), 6);
    Ok(())
}

#[test]
fn more_than_ten_layers_stay_in_order_and_come_back_from_a_file() -> Result<()> {
    let options = RecurrentOptions {
        layers: 12,
        with_bias: false,
        ..RecurrentOptions::default()
    };
    let net = Recurrent::new(Cell::Gru, 2, 2, options, &Key::new(0))?;
    let paths = tree::paths(&net);
    let inputs: Vec<String> = (0..12).map(|i| format!("input.layer_{i}.w")).collect();
    assert_eq!(paths[..12], inputs);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("net.safetensors");
    checkpoint::save(&path, &net)?;
    let mut other = Recurrent::new(Cell::Gru, 2, 2, options, &Key::new(1))?;
    checkpoint::load_into(&path, &mut other, true)?;
    let x = input(&[1, 3, 2])?;
    let (a, b) = (net.forward(&x)?.out, other.forward(&x)?.out);
    assert_eq!(a.to_vec::<f32>()?, b.to_vec::<f32>()?);
    Ok(())
}

#[test]
fn errors_name_the_argument() -> Result<()> {
    let key = Key::new(0);
    let named = |found: Result<()>, kind: Kind, words: &[&str]| {
        let e = found.expect_err("a mistake");
        assert_eq!(e.kind(), kind, "{e}");
        for word in words {
            assert!(e.to_string().contains(word), "{e}: {word}");
        }
    };
    named(
        Linear::new(0, 2, &key).map(drop),
        Kind::Value,
        &["Linear", "inputs", "0"],
    );
    named(
        GroupNorm::new(3, 4).map(drop),
        Kind::Value,
        &["4 channels", "3 groups"],
    );
    named(
        Activation::named("sin").map(drop),
        Kind::Value,
        &["\"sin\""],
    );
    let options = TransformerOptions::default();
    named(
        TransformerLayer::encoder(5, 2, options, &key).map(drop),
        Kind::Value,
        &["5 channels", "2 heads"],
    );
    let x = input(&[2, 4, 3])?;
    named(
        LayerNorm::new(&[4])?.forward(&x).map(drop),
        Kind::Shape,
        &["[4]", "f32[2,4,3]"],
    );
    named(
        Conv2d::new(3, 2, [3, 3], &key)?.forward(&x).map(drop),
        Kind::Shape,
        &["f32[2,4,3]", "3 axes"],
    );
    let decoder = TransformerLayer::decoder(3, 1, options, &key)?;
    named(
        decoder
            .forward_with(&x, TransformerArgs::default())
            .map(drop),
        Kind::Value,
        &["a memory"],
    );
    let net = Recurrent::new(Cell::Gru, 3, 2, RecurrentOptions::default(), &key)?;
    named(
        net.forward_from(&x, Some((&[], &[]))).map(drop),
        Kind::Value,
        &["expected 1 hidden", "got 0 and 0"],
    );
    Ok(())
}
