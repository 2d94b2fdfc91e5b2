//! Functions used by layers: recurrent layers, batch norm with running statistics, masks, losses of logits.

use crate::args;
use crate::dtype;
use crate::error::OrRaise;
use crate::function::random::{drawn, source};
use crate::operand::Call;
use clematis_core::DType;
use clematis_nn::functional::data_format::one_of;
use clematis_nn::functional::loss::Reduction;
use clematis_nn::functional::norm::channels_second;
use clematis_nn::functional::{
    activation, batch_norm as norm, bilinear as pairs, cross_entropy, gru, mask as masks,
    orthogonal,
};
use pyo3::prelude::*;
use pyo3::types::PyModule;

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// Bilinear layer over the last axes: x1 weight x2 + bias. A weight is [out, in1, in2].
#[pyfunction]
#[pyo3(signature = (x1, x2, weight, /, *, bias=None))]
fn bilinear<'py>(
    x1: &Object<'py>,
    x2: &Object<'py>,
    weight: &Object<'py>,
    bias: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x1.py(), "bilinear");
    let (x1, x2, w) = (call.take(x1)?, call.take(x2)?, call.take(weight)?);
    let b = call.maybe(bias)?;
    call.one(|| pairs::bilinear(&x1, &x2, &w, b.as_ref()))
}

/// GEGLU: the first half of the last axis times gelu of the second half.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn geglu<'py>(x: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "geglu");
    let x = call.take(x)?;
    call.one(|| activation::geglu(x))
}

/// Gated recurrent unit (GRU) over time: returns all hidden states. The gates are in the order reset, update, new.
#[pyfunction]
#[pyo3(signature = (x, init_h, kernel, recurrent_kernel, /, *, bias=None, recurrent_bias=None))]
fn gru_update<'py>(
    x: &Object<'py>,
    init_h: &Object<'py>,
    kernel: &Object<'py>,
    recurrent_kernel: &Object<'py>,
    bias: Maybe<'_, 'py>,
    recurrent_bias: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "gru_update");
    let (x, h) = (call.take(x)?, call.take(init_h)?);
    let (kernel, recurrent) = (call.take(kernel)?, call.take(recurrent_kernel)?);
    let (b, rb) = (call.maybe(bias)?, call.maybe(recurrent_bias)?);
    call.one(|| gru::gru_update(&x, &h, &kernel, &recurrent, b.as_ref(), rb.as_ref()).into())
}

/// Recurrent layer (Elman RNN) over time: returns all hidden states. The nonlinearity is "tanh" or "relu".
#[pyfunction]
#[pyo3(signature = (x, init_h, kernel, recurrent_kernel, /, *, bias=None, recurrent_bias=None, nonlinearity="tanh"))]
fn rnn_update<'py>(
    x: &Object<'py>,
    init_h: &Object<'py>,
    kernel: &Object<'py>,
    recurrent_kernel: &Object<'py>,
    bias: Maybe<'_, 'py>,
    recurrent_bias: Maybe<'_, 'py>,
    nonlinearity: &str,
) -> PyResult<Object<'py>> {
    let op = "rnn_update";
    let mut call = Call::new(x.py(), op);
    let (x, h) = (call.take(x)?, call.take(init_h)?);
    let (kernel, recurrent) = (call.take(kernel)?, call.take(recurrent_kernel)?);
    let (b, rb) = (call.maybe(bias)?, call.maybe(recurrent_bias)?);
    let relu = one_of(op, "nonlinearity", nonlinearity, ["tanh", "relu"]).or_raise()?;
    call.one(|| gru::rnn_update(&x, &h, &kernel, &recurrent, b.as_ref(), rb.as_ref(), relu).into())
}

/// Batch normalization in training: normalizes each channel by the statistics of the batch.
///
/// Returns the result, the new running mean and the new running variance. `momentum` is the weight of the new value; the
/// running variance is unbiased. Channels are last unless `data_format` says otherwise.
#[pyfunction]
#[pyo3(signature = (x, mean=None, variance=None, /, *, offset=None, scale=None, momentum=0.1, eps=1e-5, data_format="NSC"))]
#[allow(clippy::too_many_arguments)]
fn batch_norm_update<'py>(
    x: &Object<'py>,
    mean: Maybe<'_, 'py>,
    variance: Maybe<'_, 'py>,
    offset: Maybe<'_, 'py>,
    scale: Maybe<'_, 'py>,
    momentum: f64,
    eps: f64,
    data_format: &str,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "batch_norm_update");
    let (x, mean, variance) = (call.take(x)?, call.maybe(mean)?, call.maybe(variance)?);
    let (offset, scale) = (call.maybe(offset)?, call.maybe(scale)?);
    let second = channels_second("batch_norm_update", data_format).or_raise()?;
    call.many(|| {
        let (offset, scale) = (offset.as_ref(), scale.as_ref());
        let moved = norm::batch_norm_update(
            &x,
            mean.as_ref(),
            variance.as_ref(),
            offset,
            scale,
            momentum,
            eps,
            second,
        )?;
        Ok(vec![moved.out, moved.mean, moved.variance])
    })
}

/// Flattens the axes from start_dim to end_dim into one.
#[pyfunction]
#[pyo3(
    signature = (x, /, *, start_dim=0, end_dim=-1),
    text_signature = "(x, /, *, start_dim=0, end_dim=-1)"
)]
fn flatten<'py>(x: &Object<'py>, start_dim: i64, end_dim: i64) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "flatten");
    let x = call.take(x)?;
    call.one(|| masks::flatten(x, start_dim, end_dim))
}

/// Causal mask: True where a query may attend to a key, which is at its position or before, and where the mask is not 0.
/// Both are [..., positions, features].
#[pyfunction]
#[pyo3(signature = (queries, keys=None, /, *, mask=None))]
fn causal_mask<'py>(
    queries: &Object<'py>,
    keys: Maybe<'_, 'py>,
    mask: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(queries.py(), "causal_mask");
    let queries = call.take(queries)?;
    let keys = call.maybe(keys)?.unwrap_or_else(|| queries.clone());
    let mask = call.maybe(mask)?;
    call.one(|| masks::causal_mask(&queries, &keys, mask.as_ref()))
}

/// Softmax cross-entropy of logits: -Σ true log(softmax(pred)) over an axis.
///
/// `true` holds probabilities, or class indices without that axis. There is one loss per row; `reduction` is applied to
/// the rows.
#[pyfunction]
#[pyo3(
    signature = (r#true, pred, /, *, axis=-1, reduction="mean"),
    text_signature = "(true, pred, /, *, axis=-1, reduction=\"mean\")"
)]
fn cross_entropy_with_logits<'py>(
    r#true: &Object<'py>,
    pred: &Object<'py>,
    axis: i64,
    reduction: &str,
) -> PyResult<Object<'py>> {
    let op = "cross_entropy_with_logits";
    let mut call = Call::new(pred.py(), op);
    let (truth, pred) = (call.take(r#true)?, call.take(pred)?);
    let reduction = Reduction::from_word(op, reduction).or_raise()?;
    call.one(|| cross_entropy::cross_entropy_with_logits(truth, pred, axis, reduction))
}

/// Orthogonal matrix scaled by `gain`: its columns or rows are orthogonal and have norm `gain`. All axes but the last
/// count as rows.
#[pyfunction]
#[pyo3(signature = (*, shape, gain=1.0, device=None, dtype=None, seed=None, key=None))]
fn random_orthogonal<'py>(
    py: Python<'py>,
    shape: &Object<'py>,
    gain: f64,
    device: Maybe<'_, 'py>,
    dtype: Maybe<'_, 'py>,
    seed: Maybe<'_, 'py>,
    key: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let op = "random_orthogonal";
    let call = Call::new(py, op);
    args::device(op, device)?;
    let shape = args::new_shape(op, shape)?;
    let dtype = dtype::maybe(dtype)?.unwrap_or(DType::FLOAT);
    let key = source(op, key, seed)?;
    let out = drawn(py, &call, &key, &shape, &[], |key, _| {
        orthogonal::random_orthogonal(key, &shape, gain, dtype)
    })?;
    call.give(out)
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m;
        bilinear geglu gru_update rnn_update batch_norm_update flatten causal_mask cross_entropy_with_logits);
    crate::plain_functions!(m; random_orthogonal);
    Ok(())
}
