//! The five training steps: forward, gradients, Adam, as one function of a list of tensors.

use clematis_core::ops::{self, ConvOptions, Ops, Padding};
use clematis_core::random::Key;
use clematis_core::{DType, Result, Tensor, bail, control};
use clematis_nn::init;

/// What a model makes of its parameters and a batch.
type Logits = fn(&[Tensor], &Tensor) -> Result<Tensor>;

/// A model: what it is called with, its parameters, and its loss.
pub struct Workload {
    pub params: Vec<Tensor>,
    pub x: Tensor,
    pub y: Tensor,
    pub logits: Logits,
    /// Floating-point operations of the products of a step.
    pub flops: f64,
}

pub const NAMES: [&str; 5] = ["mlp64", "mlp1024", "cnn64", "lstm", "tfm"];

fn dense(inputs: usize, outputs: usize, key: &Key) -> Result<[Tensor; 2]> {
    let w = init::normal([inputs, outputs], (inputs as f64).powf(-0.5), key)?;
    Ok([w, init::zeros([outputs])?])
}

fn affine(x: &Tensor, p: &[Tensor]) -> Result<Tensor> {
    (ops::matmul(x, &p[0]) + &p[1]).done()
}

fn mlp(p: &[Tensor], x: &Tensor) -> Result<Tensor> {
    let x = ops::relu(affine(x, &p[0..2])?).done()?;
    let x = ops::relu(affine(&x, &p[2..4])?).done()?;
    affine(&x, &p[4..6])
}

fn cnn(p: &[Tensor], x: &Tensor) -> Result<Tensor> {
    let options = ConvOptions {
        padding: Padding::Valid,
        ..ConvOptions::new(2)
    };
    let x = ops::relu(ops::conv(x, &p[0], &options) + &p[1]).done()?;
    let x = ops::relu(ops::conv(&x, &p[2], &options) + &p[3]).done()?;
    let x = ops::max_pool(&x, &[2, 2], &[2, 2], &Padding::Valid, true);
    let x = ops::reshape(x, [64usize, 9216]).done()?;
    affine(&x, &p[4..6])
}

fn lstm(p: &[Tensor], x: &Tensor) -> Result<Tensor> {
    let inputs = ops::permute((ops::matmul(x, &p[0]) + &p[2]).done()?, [1, 0, 2]).done()?;
    let zero = ops::zeros([32usize, 128], DType::F32).done()?;
    let ((h, _), ()) = control::scan(
        &(zero.clone(), zero),
        &inputs,
        None,
        false,
        |(h, c): &(Tensor, Tensor), u: &Tensor| {
            let gates = (u + ops::matmul(h, &p[1])).done()?;
            let gates = ops::split(&gates, 4, -1)?;
            let [i, f, g, o] = &gates[..] else {
                bail!(Internal, "lstm: four gates");
            };
            let c = (ops::sigmoid(f) * c + ops::sigmoid(i) * g.tanh()).done()?;
            let h = (ops::sigmoid(o) * c.tanh()).done()?;
            Ok(((h, c), ()))
        },
    )?;
    affine(&h, &p[3..5])
}

fn encoder(p: &[Tensor], x: &Tensor) -> Result<Tensor> {
    let qkv = ops::reshape(affine(x, &p[0..2])?, [8usize, 128, 3, 4, 64]).done()?;
    let qkv = ops::permute(&qkv, [2, 0, 3, 1, 4]).done()?;
    let part = |i: usize| ops::squeeze(ops::slice_axis(&qkv, 0, i, i + 1), 0).done();
    let (q, k, v) = (part(0)?, part(1)?, part(2)?);
    let o = ops::attention(&q, &k, &v, None, 0.125, false);
    let o = ops::reshape(ops::permute(o, [0, 2, 1, 3]), [8usize, 128, 256]).done()?;
    let x = (x + affine(&o, &p[2..4])?).done()?;
    let x = ops::layer_norm(&x, Some(&p[8]), Some(&p[9]), -1, 1e-5).done()?;
    let h = ops::gelu(affine(&x, &p[4..6])?, false).done()?;
    let x = (&x + affine(&h, &p[6..8])?).done()?;
    ops::layer_norm(&x, Some(&p[10]), Some(&p[11]), -1, 1e-5).done()
}

fn tfm(p: &[Tensor], x: &Tensor) -> Result<Tensor> {
    let x = encoder(&p[0..12], x)?;
    let x = encoder(&p[12..24], &x)?;
    affine(&ops::mean(&x, 1).done()?, &p[24..26])
}

fn params(name: &str, key: &Key) -> Result<Vec<Tensor>> {
    let keys = key.split_n(16);
    let mut all = Vec::new();
    match name {
        "mlp64" | "mlp1024" => {
            for ((i, o), key) in [(784, 256), (256, 256), (256, 10)].into_iter().zip(&keys) {
                all.extend(dense(i, o, key)?);
            }
        }
        "cnn64" => {
            all.push(init::normal([3usize, 3, 1, 32], 0.33, &keys[0])?);
            all.push(init::zeros([32usize])?);
            all.push(init::normal([3usize, 3, 32, 64], 0.06, &keys[1])?);
            all.push(init::zeros([64usize])?);
            all.extend(dense(9216, 10, &keys[2])?);
        }
        "lstm" => {
            all.push(dense(128, 512, &keys[0])?[0].clone());
            all.extend(dense(128, 512, &keys[1])?);
            all.extend(dense(128, 10, &keys[2])?);
        }
        _ => {
            for key in &keys[..2] {
                let sizes = [(256, 768), (256, 256), (256, 1024), (1024, 256)];
                for ((i, o), key) in sizes.into_iter().zip(key.split_n(4)) {
                    all.extend(dense(i, o, &key)?);
                }
                for _ in 0..2 {
                    all.extend([init::ones([256usize])?, init::zeros([256usize])?]);
                }
            }
            all.extend(dense(256, 10, &keys[2])?);
        }
    }
    Ok(all)
}

/// The workload of a name.
pub fn workload(name: &str) -> Result<Workload> {
    let Some(&name) = NAMES.iter().find(|n| **n == name) else {
        bail!(
            Value,
            "no workload `{name}`; there are: {}",
            NAMES.join(", ")
        );
    };
    let (shape, logits, flops): (&[usize], Logits, f64) = match name {
        "mlp64" => (&[64, 784], mlp, 0.0775e9),
        "mlp1024" => (&[1024, 784], mlp, 1.24e9),
        "cnn64" => (&[64, 28, 28, 1], cnn, 4.15e9),
        "lstm" => (&[32, 50, 128], lstm, 1.05e9),
        _ => (&[8, 128, 256], tfm, 10.0e9),
    };
    let key = Key::new(0);
    let (own, data) = key.split();
    let y: Vec<i64> = (0..shape[0] as i64).map(|i| i % 10).collect();
    Ok(Workload {
        params: params(name, &own)?,
        x: init::normal(clematis_core::Shape::from_sizes(shape), 1.0, &data)?,
        y: ops::tensor(y)?,
        logits,
        flops,
    })
}
