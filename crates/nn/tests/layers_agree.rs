//! Layers created from one key in Rust and in Python: equal names, shapes and bits, and byte-identical files.
//!
//! The file is written by Python's `test_agree.py`, which is compared with it too.

use clematis_core::ops::Padding;
use clematis_core::random::Key;
use clematis_core::tree::{self, Role, Tree};
use clematis_core::{Result, Tensor};
use clematis_native as _;
use clematis_nn::checkpoint;
use clematis_nn::functional::adaptive::Pool;
use clematis_nn::functional::conv::ConvConfig;
use clematis_nn::*;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/layers.safetensors");

/// The contents of the file, and the values computed here, in the order of the file.
struct Fixture {
    file: HashMap<String, Tensor>,
    own: Vec<(String, Tensor)>,
}

impl Fixture {
    fn input(&self, layer: &str, i: usize) -> Tensor {
        self.file[&format!("{layer}.x{i}")].clone()
    }

    /// Adds a layer's parameters, inputs, results and state.
    fn add(&mut self, layer: &str, module: &dyn Tree, outs: &[Tensor], kept: &[(&str, Tensor)]) {
        for (path, role, x) in tree::entries(module) {
            if role == Role::Param {
                self.own.push((format!("{layer}.v.{path}"), x));
            }
        }
        for i in 0.. {
            let name = format!("{layer}.x{i}");
            let Some(x) = self.file.get(&name) else { break };
            self.own.push((name, x.clone()));
        }
        for (i, y) in outs.iter().enumerate() {
            self.own.push((format!("{layer}.y{i}"), y.clone()));
        }
        for (name, x) in kept {
            self.own.push((format!("{layer}.state.{name}"), x.clone()));
        }
    }

    fn module(&mut self, layer: &str, module: &impl Module) -> Result<()> {
        let out = module.forward(&self.input(layer, 0))?;
        self.add(layer, module, &[out], &[]);
        Ok(())
    }

    fn recurrent(&mut self, layer: &str, net: &Recurrent) -> Result<()> {
        let run = net.forward(&self.input(layer, 0))?;
        let outs: Vec<Tensor> = [run.out].into_iter().chain(run.h).chain(run.c).collect();
        self.add(layer, net, &outs, &[]);
        Ok(())
    }
}

fn config(op: &'static str, strides: &[usize], dilations: &[usize], groups: usize) -> ConvConfig {
    ConvConfig {
        strides: strides.into(),
        dilations: dilations.into(),
        groups,
        ..ConvConfig::new(op, strides.len())
    }
}

fn convolutions(s: &mut Fixture, key: &Key) -> Result<()> {
    let p = config("conv", &[2], &[1], 2);
    s.module("Conv1D", &Conv1d::with(4, 6, [3], p, key)?)?;
    let p = ConvConfig {
        padding: Padding::Each(vec![(1, 1), (0, 0)]),
        ..config("conv", &[1, 1], &[1, 2], 1)
    };
    s.module("Conv2D", &Conv2d::with(3, 4, [3, 2], p, key)?)?;
    let p = config("conv", &[1, 2, 1], &[1, 1, 1], 1);
    s.module("Conv3D", &Conv3d::with(2, 3, [2, 3, 2], p, key)?)?;
    let p = config("conv", &[2], &[1], 2);
    s.module(
        "Conv1DTranspose",
        &Conv1dTranspose::with(4, 6, [3], p, key)?,
    )?;
    let p = config("conv", &[2, 1], &[1, 1], 1);
    s.module(
        "Conv2DTranspose",
        &Conv2dTranspose::with(3, 4, [3, 2], p, key)?,
    )?;
    let p = config("conv", &[2, 2, 2], &[1, 1, 1], 1);
    s.module(
        "Conv3DTranspose",
        &Conv3dTranspose::with(2, 3, [2, 2, 2], p, key)?,
    )?;
    let p = config("conv", &[1, 1], &[1, 1], 1);
    s.module(
        "DepthwiseConv2D",
        &DepthwiseConv2d::with(3, [2, 3], p, key)?,
    )
}

fn recurrences(s: &mut Fixture, key: &Key) -> Result<()> {
    let options = |layers, bidirectional, with_bias| RecurrentOptions {
        layers,
        bidirectional,
        with_bias,
    };
    let net = |cell, outputs, options| Recurrent::new(cell, 3, outputs, options, key);
    s.recurrent("LSTM", &net(Cell::Lstm, 4, options(2, false, false))?)?;
    s.recurrent("LSTMBoth", &net(Cell::Lstm, 2, options(2, true, true))?)?;
    s.recurrent("GRU", &net(Cell::Gru, 4, options(2, true, true))?)?;
    s.recurrent("RNN", &net(Cell::Rnn, 4, options(1, false, true))?)?;
    s.recurrent("RNNReLU", &net(Cell::RnnRelu, 4, options(1, false, false))?)
}

fn transformers(s: &mut Fixture, key: &Key) -> Result<()> {
    let name = "MultiHeadAttention";
    let net = MultiHeadAttention::new(6, 5, 2, 4, key)?;
    let (context, mask) = (s.input(name, 1), s.input(name, 2));
    let at = AttentionArgs {
        context: Some(&context),
        mask: Some(&mask),
        ..AttentionArgs::default()
    };
    let out = net.forward_with(&s.input(name, 0), at)?;
    s.add(name, &net, &[out], &[]);
    let name = "CausalAttention";
    let net = MultiHeadAttention::new(6, 6, 3, 2, key)?;
    let at = AttentionArgs {
        causal: true,
        ..AttentionArgs::default()
    };
    let out = net.forward_with(&s.input(name, 0), at)?;
    s.add(name, &net, &[out], &[]);

    let options = TransformerOptions {
        hidden: Some(8),
        ..TransformerOptions::default()
    };
    let first = TransformerOptions {
        norm_first: true,
        ..options
    };
    let gelu = TransformerOptions {
        activation: Activation::named("gelu")?,
        ..first
    };
    let name = "TransformerEncoderLayer";
    let net = TransformerLayer::encoder(6, 2, options, key)?;
    let out = net.forward_with(&s.input(name, 0), TransformerArgs::default())?;
    s.add(name, &net, &[out], &[]);
    let name = "TransformerEncoder";
    let net = Transformer::encoder(2, 6, 2, gelu, key)?;
    let out = net.forward_with(&s.input(name, 0), TransformerArgs::default())?;
    s.add(name, &net, &[out], &[]);
    let name = "TransformerDecoderLayer";
    let (net, memory) = (
        TransformerLayer::decoder(6, 2, first, key)?,
        s.input(name, 1),
    );
    let at = TransformerArgs {
        causal: true,
        memory: Some(&memory),
        ..TransformerArgs::default()
    };
    let out = net.forward_with(&s.input(name, 0), at)?;
    s.add(name, &net, &[out], &[]);
    let name = "TransformerDecoder";
    let (net, memory) = (
        Transformer::decoder(2, 6, 2, options, key)?,
        s.input(name, 1),
    );
    let at = TransformerArgs {
        causal: true,
        memory: Some(&memory),
        ..TransformerArgs::default()
    };
    let out = net.forward_with(&s.input(name, 0), at)?;
    s.add(name, &net, &[out], &[]);
    Ok(())
}

fn norms(s: &mut Fixture) -> Result<()> {
    s.module("LayerNorm", &LayerNorm::new(&[3, 4])?)?;
    s.module("RMSNorm", &RmsNorm::new(&[4])?)?;
    s.module("GroupNorm", &GroupNorm::new(2, 4)?)?;
    s.module("InstanceNorm", &InstanceNorm::new(4)?)?;
    let mut net = BatchNorm::new(3)?;
    let moved = net.train(&s.input("BatchNorm", 0))?;
    net.keep(moved.mean, moved.variance);
    let kept = [
        ("running_mean", net.running_mean.0.clone()),
        ("running_var", net.running_var.0.clone()),
    ];
    s.add("BatchNorm", &net, &[moved.out], &kept);
    s.module("PReLU", &PRelu::new(3)?)
}

fn plain(s: &mut Fixture) -> Result<()> {
    for (name, word) in [
        ("ReLU", "relu"),
        ("ReLU6", "relu6"),
        ("SELU", "selu"),
        ("Sigmoid", "sigmoid"),
        ("LogSigmoid", "log_sigmoid"),
        ("Tanh", "tanh"),
        ("SiLU", "silu"),
        ("Mish", "mish"),
        ("HardSigmoid", "hard_sigmoid"),
        ("HardSwish", "hard_swish"),
        ("GEGLU", "geglu"),
        ("Softplus", "softplus"),
        ("GELU", "gelu"),
        ("LeakyReLU", "leaky_relu"),
        ("ELU", "elu"),
        ("ThresholdedReLU", "thresholded_relu"),
        ("Softmax", "softmax"),
        ("LogSoftmax", "log_softmax"),
    ] {
        s.module(name, &Activation::named(word)?)?;
    }
    s.module("MaxPool1D", &MaxPool::new(&[2]))?;
    s.module("AvgPool1D", &AvgPool::new(&[3]))?;
    s.module("AdaptiveAvgPool1D", &AdaptivePool::new(Pool::Mean, &[4]))?;
    s.module("AdaptiveMaxPool1D", &AdaptivePool::new(Pool::Largest, &[4]))?;
    s.module("GlobalAvgPool", &GlobalPool::new(Pool::Mean))?;
    s.module("GlobalMaxPool", &GlobalPool::new(Pool::Largest))?;
    s.module("Flatten", &Flatten::default())
}

fn fixture() -> Result<Fixture> {
    let found = checkpoint::load(FILE)?;
    let mut s = Fixture {
        file: found.tensors.into_iter().collect(),
        own: Vec::new(),
    };
    let key = Key::new(7);
    s.module("Linear", &Linear::new(3, 4, &key)?)?;
    let net = Bilinear::new(3, 2, 4, &key)?;
    let out = net.forward(&s.input("Bilinear", 0), &s.input("Bilinear", 1))?;
    s.add("Bilinear", &net, &[out], &[]);
    let mut net = Embedding::new(5, 3, &key)?;
    net.padding = Some(0);
    s.module("Embedding", &net)?;
    convolutions(&mut s, &key)?;
    recurrences(&mut s, &key)?;
    transformers(&mut s, &key)?;
    norms(&mut s)?;
    let net = Sequential::new()
        .then(Linear::new(3, 4, &key)?)
        .then(Activation::Tanh)
        .then(Linear::new(4, 2, &key)?);
    s.module("Sequential", &net)?;
    plain(&mut s)?;
    Ok(s)
}

/// Runs this test again at the base SIMD level, the only one where the order of summation is the same on every CPU.
fn is_elsewhere(test: &str) -> bool {
    if std::env::var("CLEMATIS_SIMD").is_ok_and(|level| level == "base") {
        return false;
    }
    let exe = std::env::current_exe().expect("this test has a path");
    let done = Command::new(exe)
        .args(["--exact", test, "--nocapture"])
        .env("CLEMATIS_SIMD", "base")
        .status()
        .expect("it runs again");
    assert!(done.success(), "{test} at the base level");
    true
}

#[test]
fn layers_are_bit_identical_to_python() -> Result<()> {
    if is_elsewhere("layers_are_bit_identical_to_python") {
        return Ok(());
    }
    let s = fixture()?;
    let order: Vec<String> = checkpoint::load(FILE)?
        .tensors
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let own: Vec<&String> = s.own.iter().map(|(name, _)| name).collect();
    assert_eq!(own, order.iter().collect::<Vec<_>>());
    for (name, x) in &s.own {
        let want = &s.file[name];
        assert_eq!(x.spec(), want.spec(), "{name}");
        assert!(
            x.to_host()?.bytes().as_slice::<u8>() == want.to_host()?.bytes().as_slice::<u8>(),
            "{name}"
        );
    }
    Ok(())
}

#[test]
fn files_are_byte_identical_to_python() -> Result<()> {
    if is_elsewhere("files_are_byte_identical_to_python") {
        return Ok(());
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join("layers.safetensors");
    checkpoint::save_pairs(&path, &fixture()?.own)?;
    let (own, python) = (std::fs::read(&path), std::fs::read(FILE));
    let (own, python) = (own.expect("it was written"), python.expect("it is there"));
    assert!(
        own == python,
        "CLEMATIS_UPDATE=1 pytest test_agree.py rewrites the file"
    );
    Ok(())
}
