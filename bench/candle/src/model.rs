//! The five models, of candle's layers where it has them.

use candle_core::{DType, Device, IndexOp, Module, Result, Tensor, bail};
use candle_nn::rnn::{LSTMConfig, RNN};
use candle_nn::{Conv2dConfig, Init, VarBuilder, VarMap};
use candle_nn::{conv2d, linear, ops, rnn, seq};

/// What makes logits of a batch, or a part of it.
pub type Model = Box<dyn Fn(&Tensor) -> Result<Tensor>>;

fn mlp(vb: VarBuilder) -> Result<Model> {
    let layers = seq()
        .add(linear(784, 256, vb.pp("first"))?)
        .add(Tensor::relu)
        .add(linear(256, 256, vb.pp("second"))?)
        .add(Tensor::relu)
        .add(linear(256, 10, vb.pp("head"))?);
    Ok(Box::new(move |x| layers.forward(x)))
}

fn cnn(vb: VarBuilder) -> Result<Model> {
    let plain = Conv2dConfig::default();
    let layers = seq()
        .add(conv2d(1, 32, 3, plain, vb.pp("first"))?)
        .add(Tensor::relu)
        .add(conv2d(32, 64, 3, plain, vb.pp("second"))?)
        .add(Tensor::relu)
        .add_fn(|x| x.max_pool2d(2)?.flatten_from(1))
        .add(linear(9216, 10, vb.pp("head"))?);
    Ok(Box::new(move |x| layers.forward(x)))
}

fn lstm(vb: VarBuilder) -> Result<Model> {
    let one_bias = LSTMConfig {
        b_hh_init: None,
        ..LSTMConfig::default()
    };
    let cell = rnn::lstm(128, 128, one_bias, vb.pp("cell"))?;
    let head = linear(128, 10, vb.pp("head"))?;
    Ok(Box::new(move |x| match cell.seq(x)?.last() {
        Some(state) => head.forward(&state.h),
        None => bail!("lstm: an empty sequence"),
    }))
}

/// `candle_nn::LayerNorm` takes a kernel without a derivative, so this is the composed one.
fn layer_norm(vb: VarBuilder) -> Result<Model> {
    let scale = vb.get_with_hints(256, "weight", Init::Const(1.0))?;
    let bias = vb.get_with_hints(256, "bias", Init::Const(0.0))?;
    Ok(Box::new(move |x| {
        ops::layer_norm_slow(x, &scale, &bias, 1e-5)
    }))
}

fn block(vb: VarBuilder) -> Result<Model> {
    let qkv = linear(256, 768, vb.pp("qkv"))?;
    let out = linear(256, 256, vb.pp("out"))?;
    let up = linear(256, 1024, vb.pp("up"))?;
    let down = linear(1024, 256, vb.pp("down"))?;
    let first = layer_norm(vb.pp("first"))?;
    let second = layer_norm(vb.pp("second"))?;
    Ok(Box::new(move |x| {
        let heads = qkv.forward(x)?.reshape((8, 128, 3, 4, 64))?;
        let heads = heads.permute((2, 0, 3, 1, 4))?.contiguous()?;
        let (q, k, v) = (heads.i(0)?, heads.i(1)?, heads.i(2)?);
        let scores = (q.matmul(&k.t()?)? * 0.125)?;
        // `softmax_last_dim` has no derivative either.
        let mixed = ops::softmax(&scores, 3)?.matmul(&v)?;
        let mixed = mixed.transpose(1, 2)?.reshape((8, 128, 256))?;
        let x = first(&(x + out.forward(&mixed)?)?)?;
        second(&(&x + down.forward(&up.forward(&x)?.gelu_erf()?)?)?)
    }))
}

fn tfm(vb: VarBuilder) -> Result<Model> {
    let blocks = [block(vb.pp("0"))?, block(vb.pp("1"))?];
    let head = linear(256, 10, vb.pp("head"))?;
    Ok(Box::new(move |x| {
        let x = blocks[1](&blocks[0](x)?)?;
        head.forward(&x.mean(1)?)
    }))
}

/// The model of a name and the shape of its batch.
pub fn build(workload: &str, vars: &VarMap) -> Result<(Model, &'static [usize])> {
    let vb = VarBuilder::from_varmap(vars, DType::F32, &Device::Cpu);
    Ok(match workload {
        "mlp64" => (mlp(vb)?, &[64, 784]),
        "mlp1024" => (mlp(vb)?, &[1024, 784]),
        "cnn64" => (cnn(vb)?, &[64, 1, 28, 28]),
        "lstm" => (lstm(vb)?, &[32, 50, 128]),
        "tfm" => (tfm(vb)?, &[8, 128, 256]),
        _ => bail!("no workload `{workload}`"),
    })
}
