//! Public functions of the composites.

use super::{call, elementwise::promoted, require::require, with2};
use crate::dim::Dim;
use crate::dispatch::{apply, apply_one};
use crate::dtype::{DType, Real};
use crate::ensure;
use crate::error::Result;
use crate::expr::{Expr, IntoExpr};
use crate::op::composite::ResizeMethod;
use crate::op::{Composite, Pads, Takes};
use crate::ops::linear::Padding;
use crate::precondition::Precondition;
use crate::shape::{Axes, IntoShape};
use crate::tensor::Tensor;

pub(crate) fn float(x: impl IntoExpr) -> Expr {
    x.into_expr().then(|x| {
        if x.dtype().is_inexact() {
            Ok(x)
        } else {
            super::elementwise::to_dtype(&x, DType::FLOAT)
        }
    })
}

macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident $variant:ident;)*) => { $(
        $(#[$doc])*
        pub fn $name(x: impl IntoExpr) -> Expr {
            float(x).then(|x| apply_one(&Composite::$variant {}.into(), &[&x]))
        }
    )* };
}
activations! {
    /// elu with the constants that preserve mean and variance.
    selu Selu;
    /// 1 / (1 + exp(-x)).
    sigmoid Sigmoid;
    /// log(sigmoid(x)).
    log_sigmoid LogSigmoid;
    /// x sigmoid(x).
    silu Silu;
    /// log(1 + exp(x)).
    softplus Softplus;
    /// x tanh(softplus(x)).
    mish Mish;
    /// relu6(x + 3) / 6.
    hard_sigmoid HardSigmoid;
    /// x hard_sigmoid(x).
    hard_swish HardSwish;
}

/// max(x, 0).
pub fn relu(x: impl IntoExpr) -> Expr {
    super::call1(Composite::Relu {}, x)
}

/// Leaky ReLU: x where positive, `negative_slope` x elsewhere.
pub fn leaky_relu(x: impl IntoExpr, negative_slope: f64) -> Expr {
    float(x).then(|x| {
        call(
            Composite::LeakyRelu {
                negative_slope: Real(negative_slope),
            },
            &[&x],
        )
    })
}

/// x where positive, `alpha` (exp(x) - 1) elsewhere.
pub fn elu(x: impl IntoExpr, alpha: f64) -> Expr {
    float(x).then(|x| call(Composite::Elu { alpha: Real(alpha) }, &[&x]))
}

/// x Φ(x) with the normal CDF Φ, or its tanh approximation.
pub fn gelu(x: impl IntoExpr, approximate: bool) -> Expr {
    float(x).then(|x| call(Composite::Gelu { approximate }, &[&x]))
}

/// exp(x), scaled to sum to one along an axis.
pub fn softmax(x: impl IntoExpr, axis: i64) -> Expr {
    float(x).then(|x| {
        let axis = x.shape().axis(axis, "softmax")?;
        apply_one(&Composite::Softmax { axis }.into(), &[&x])
    })
}

/// log(softmax(x)).
pub fn log_softmax(x: impl IntoExpr, axis: i64) -> Expr {
    float(x).then(|x| {
        let axis = x.shape().axis(axis, "log_softmax")?;
        apply_one(&Composite::LogSoftmax { axis }.into(), &[&x])
    })
}

/// -log softmax at the label along the last axis; one value per row.
pub fn cross_entropy(logits: impl IntoExpr, labels: impl IntoExpr) -> Expr {
    with2(float(logits), labels, |logits, labels| {
        let rank = logits.rank();
        // The op itself reports a shape that does not match.
        let labels = match rank.checked_sub(1).map(|last| logits.shape().dims()[last]) {
            Some(size) => check_class_labels("cross_entropy", &labels, rank - 1, size)?,
            None => labels,
        };
        call(Composite::CrossEntropy {}, &[&logits, &labels]).done()
    })
}

/// Checks class labels: an error if one is not in `0..size`. Negative labels do not count from the end, since data
/// uses -1 for "no class".
pub fn check_class_labels(
    op: &'static str,
    labels: &Tensor,
    axis: usize,
    size: Dim,
) -> Result<Tensor> {
    ensure!(
        labels.dtype().is_int(),
        DType,
        "{op}: expected integer class labels, got {}",
        labels.spec()
    );
    let Some(size) = size.value() else {
        return Ok(labels.clone());
    };
    let rule = Precondition::Index {
        op,
        axis,
        size,
        wraps: false,
    };
    require(labels, rule)?;
    // A program that will fail its check still needs a valid index to read at.
    if size > 0 && !super::index::has_values(labels) {
        let labels = super::elementwise::to_dtype(labels, DType::INDEX)?;
        return super::clamp(&labels, 0, size - 1).done();
    }
    Ok(labels.clone())
}

fn with_optional(op: Composite, required: &[&Tensor], optional: &[Option<&Tensor>]) -> Expr {
    let mut inputs = required.to_vec();
    // An optional operand requires all earlier ones.
    for (i, x) in optional.iter().enumerate() {
        match x {
            Some(x) => inputs.push(x),
            None if optional[i..].iter().all(Option::is_none) => break,
            None => {
                let message = format!(
                    "{}: operand {} is missing, but a later one is given",
                    op.name(),
                    required.len() + i
                );
                return failed(crate::Error::new(crate::Kind::Value, message));
            }
        }
    }
    call(op, &inputs)
}

/// An optional operand in the dtype of `x`. Next to half precision it keeps its dtype, since those ops compute in
/// f32.
fn beside(x: &Tensor, y: Option<&Tensor>) -> Result<Option<Tensor>> {
    match y {
        Some(y) if x.dtype() != y.dtype() && x.dtype().accumulator() == x.dtype() => {
            super::elementwise::to_dtype(y, x.dtype()).map(Some)
        }
        _ => Ok(y.cloned()),
    }
}

fn failed(e: crate::Error) -> Expr {
    Err(e).into_expr()
}

/// Layer norm over the last axes, from `axis` on, then scale and bias.
pub fn layer_norm(
    x: &Tensor,
    scale: Option<&Tensor>,
    bias: Option<&Tensor>,
    axis: i64,
    epsilon: f64,
) -> Expr {
    let (scale, bias) = match (beside(x, scale), beside(x, bias)) {
        (Ok(scale), Ok(bias)) => (scale, bias),
        (Err(e), _) | (_, Err(e)) => return failed(e),
    };
    match x.shape().axis(axis, "layer_norm") {
        Ok(axis) => with_optional(
            Composite::LayerNorm {
                axis,
                epsilon: Real(epsilon),
            },
            &[x],
            &[scale.as_ref(), bias.as_ref()],
        ),
        Err(e) => failed(e),
    }
}

/// RMS norm over the last axes, from `axis` on, then scale.
pub fn rms_norm(x: &Tensor, scale: Option<&Tensor>, axis: i64, epsilon: f64) -> Expr {
    let scale = match beside(x, scale) {
        Ok(scale) => scale,
        Err(e) => return failed(e),
    };
    match x.shape().axis(axis, "rms_norm") {
        Ok(axis) => with_optional(
            Composite::RmsNorm {
                axis,
                epsilon: Real(epsilon),
            },
            &[x],
            &[scale.as_ref()],
        ),
        Err(e) => failed(e),
    }
}

/// Normalises within groups of channels (`axis`), then applies scale and bias per channel.
pub fn group_norm(
    x: &Tensor,
    scale: Option<&Tensor>,
    bias: Option<&Tensor>,
    axis: i64,
    groups: usize,
    epsilon: f64,
) -> Expr {
    let (scale, bias) = match (beside(x, scale), beside(x, bias)) {
        (Ok(scale), Ok(bias)) => (scale, bias),
        (Err(e), _) | (_, Err(e)) => return failed(e),
    };
    match x.shape().axis(axis, "group_norm") {
        Ok(axis) => with_optional(
            Composite::GroupNorm {
                axis,
                groups,
                epsilon: Real(epsilon),
            },
            &[x],
            &[scale.as_ref(), bias.as_ref()],
        ),
        Err(e) => failed(e),
    }
}

/// Normalises per channel (`axis`) with given statistics, then applies scale and bias.
pub fn batch_norm(
    x: &Tensor,
    mean: &Tensor,
    variance: &Tensor,
    scale: Option<&Tensor>,
    bias: Option<&Tensor>,
    axis: i64,
    epsilon: f64,
) -> Expr {
    let (scale, bias) = match (beside(x, scale), beside(x, bias)) {
        (Ok(scale), Ok(bias)) => (scale, bias),
        (Err(e), _) | (_, Err(e)) => return failed(e),
    };
    match x.shape().axis(axis, "batch_norm") {
        Ok(axis) => with_optional(
            Composite::BatchNorm {
                axis,
                epsilon: Real(epsilon),
            },
            &[x, mean, variance],
            &[scale.as_ref(), bias.as_ref()],
        ),
        Err(e) => failed(e),
    }
}

/// x wᵀ + b over the last axis; `w` is `[out, in]`.
pub fn linear(x: impl IntoExpr, w: impl IntoExpr, b: Option<&Tensor>) -> Expr {
    with2(x, w, |x, w| {
        let (x, w) = promoted(x, w, Takes::Any)?;
        match b {
            Some(b) if b.dtype() != x.dtype() || b.is_weak() => {
                let all = super::elementwise::promote_all(&[&x, &w, b])?;
                call(Composite::Linear {}, &all.iter().collect::<Vec<_>>()).done()
            }
            _ => with_optional(Composite::Linear {}, &[&x, &w], &[b]).done(),
        }
    })
}

/// Embedding: rows of a table.
pub fn embedding(table: impl IntoExpr, indices: impl IntoExpr) -> Expr {
    with2(table, indices, |table, indices| {
        let indices = match table.shape().dims().first() {
            Some(&rows) => super::index::checked("embedding", &indices, 0, rows)?,
            None => indices,
        };
        call(Composite::Embedding {}, &[&table, &indices]).done()
    })
}

/// Scaled dot-product attention: softmax(q kᵀ scale) v over the last two axes.
pub fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    scale: f64,
    causal: bool,
) -> Expr {
    with_optional(
        Composite::Attention {
            scale: Real(scale),
            causal,
        },
        &[q, k, v],
        &[mask],
    )
}

fn pool(
    x: impl IntoExpr,
    size: &[usize],
    strides: &[usize],
    padding: &Padding,
    channels_last: bool,
    make: impl FnOnce(Axes, Axes, Pads, Axes) -> Composite,
) -> Expr {
    x.into_expr().then(|x| {
        let rank = x.rank();
        let spatial = rank.saturating_sub(2);
        ensure!(
            spatial == size.len() && spatial == strides.len(),
            Shape,
            "pool: {} has {spatial} spatial axes, got sizes {size:?} and strides {strides:?}",
            x.spec()
        );
        let first = if channels_last { 1 } else { 2 };
        let pads: Vec<(Dim, Dim)> = match padding {
            Padding::Valid => vec![(0.into(), 0.into()); spatial],
            Padding::Each(pads) => pads.iter().map(|&(a, b)| (a.into(), b.into())).collect(),
            Padding::Same => (0..spatial)
                .map(|i| {
                    ensure!(strides[i] > 0, Value, "pool: stride 0");
                    super::linear::same_padding(
                        x.shape().dims()[first + i],
                        size[i].into(),
                        strides[i],
                    )
                })
                .collect::<Result<_>>()?,
        };
        ensure!(
            pads.len() == spatial,
            Shape,
            "pool: got {} paddings for {spatial} spatial axes",
            pads.len()
        );
        let spread = |list: &[usize]| -> Axes {
            (0..rank)
                .map(|a| {
                    a.checked_sub(first)
                        .and_then(|i| list.get(i))
                        .copied()
                        .unwrap_or(1)
                })
                .collect()
        };
        let zero = (Dim::number(0), Dim::number(0));
        let pads = (0..rank)
            .map(|a| {
                a.checked_sub(first)
                    .and_then(|i| pads.get(i))
                    .copied()
                    .unwrap_or(zero)
            })
            .collect();
        let ones = std::iter::repeat_n(1, rank).collect();
        apply_one(
            &make(spread(size), spread(strides), pads, ones).into(),
            &[&x],
        )
    })
}

/// Max pooling over the spatial axes.
pub fn max_pool(
    x: impl IntoExpr,
    size: &[usize],
    strides: &[usize],
    padding: &Padding,
    channels_last: bool,
) -> Expr {
    pool(
        x,
        size,
        strides,
        padding,
        channels_last,
        |size, strides, padding, dilation| Composite::MaxPool {
            size,
            strides,
            padding,
            dilation,
        },
    )
}

/// Average pooling over the spatial axes; padding counts as zeros if `count_padding` is set.
pub fn avg_pool(
    x: impl IntoExpr,
    size: &[usize],
    strides: &[usize],
    padding: &Padding,
    channels_last: bool,
    count_padding: bool,
) -> Expr {
    pool(
        float(x),
        size,
        strides,
        padding,
        channels_last,
        |size, strides, padding, dilation| Composite::AvgPool {
            size,
            strides,
            padding,
            dilation,
            count_padding,
        },
    )
}

/// Resizes by interpolation.
pub fn resize(
    x: impl IntoExpr,
    shape: impl IntoShape,
    method: ResizeMethod,
    align_corners: bool,
    antialias: bool,
) -> Expr {
    x.into_expr().then(|x| {
        let shape = shape.into_shape()?;
        apply_one(
            &Composite::Resize {
                shape,
                method,
                align_corners,
                antialias,
            }
            .into(),
            &[&x],
        )
    })
}

/// One step of an LSTM: new hidden and cell state.
pub fn lstm_cell(
    x: &Tensor,
    h: &Tensor,
    c: &Tensor,
    wx: &Tensor,
    wh: &Tensor,
    b: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    let mut inputs = vec![x, h, c, wx, wh];
    inputs.extend(b);
    let outs = apply(&Composite::LstmCell {}.into(), &inputs)?.into_vec();
    match <[Tensor; 2]>::try_from(outs) {
        Ok([h, c]) => Ok((h, c)),
        Err(_) => crate::bail!(Internal, "lstm_cell: expected two results"),
    }
}

/// One step of a GRU: the new hidden state.
pub fn gru_cell(
    x: &Tensor,
    h: &Tensor,
    wx: &Tensor,
    wh: &Tensor,
    bx: Option<&Tensor>,
    bh: Option<&Tensor>,
) -> Expr {
    with_optional(Composite::GruCell {}, &[x, h, wx, wh], &[bx, bh])
}

/// Mean squared error.
pub fn mse_loss(x: impl IntoExpr, y: impl IntoExpr) -> Expr {
    super::mean(super::square(x.into_expr() - y), ..)
}

/// Elementwise binary cross entropy of logits, without overflow.
pub fn binary_cross_entropy(logits: impl IntoExpr, targets: impl IntoExpr) -> Expr {
    with2(float(logits), targets, |x, y| {
        let linear = super::maximum(&x, 0.0) - &x * &y;
        linear + super::log1p(super::exp(-super::abs(&x)))
    })
}

/// Huber loss: quadratic near zero, linear beyond `delta`.
pub fn huber_loss(x: impl IntoExpr, y: impl IntoExpr, delta: f64) -> Expr {
    (x.into_expr() - y).then(|d| {
        let size = super::abs(&d).done()?;
        let near = super::square(&d) * 0.5;
        let far = (&size - 0.5 * delta) * delta;
        super::where_(super::less_equal(&size, delta), near, far).done()
    })
}

/// Kullback-Leibler divergence Σ p (log p - log q), where 0 log 0 is 0; takes log q.
pub fn kl_div(log_q: impl IntoExpr, p: impl IntoExpr) -> Expr {
    with2(float(log_q), float(p), |log_q, p| {
        let positive = super::greater(&p, 0.0).done()?;
        let safe = super::where_(&positive, &p, 1.0);
        super::where_(&positive, &p * (super::log(safe) - &log_q), 0.0).done()
    })
}
