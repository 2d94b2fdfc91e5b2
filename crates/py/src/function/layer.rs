//! Layers as functions: linear, attention, LSTM, dropout.

use crate::dtype;
use crate::error::{OrRaise, exception};
use crate::function::random::{drawn, source};
use crate::operand::{Call, operand};
use clematis_core::random::Key;
use clematis_core::{DType, Kind, Repr, Shape, Tensor, ops};
use clematis_nn::functional::dropout::Probability;
use clematis_nn::functional::{
    attention, bilinear, data_format as formats, dropout as drop, linear as lin, lstm, random,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyModule, PyTuple};

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// Linear layer: x weightᵀ + bias over the last axis. A weight is [out, in], or a batch of such matrices, one per index
/// of the leading axes of x.
#[pyfunction]
#[pyo3(signature = (x, weight, /, *, bias=None))]
fn linear<'py>(
    x: &Object<'py>,
    weight: &Object<'py>,
    bias: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "linear");
    let (x, w) = (call.take(x)?, call.take(weight)?);
    let b = call.maybe(bias)?;
    call.one(|| lin::linear(x, w, b.as_ref()))
}

/// Embedding lookup: rows of a table by index. Rows with a norm above `max_norm` are scaled down to it; the row
/// `padding_idx` is zeros.
#[pyfunction]
#[pyo3(signature = (weights, indices, /, *, max_norm=None, padding_idx=None))]
fn embedding<'py>(
    weights: &Object<'py>,
    indices: &Object<'py>,
    max_norm: Option<f64>,
    padding_idx: Option<i64>,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(weights.py(), "embedding");
    let (table, i) = (call.take(weights)?, call.take(indices)?);
    call.one(|| bilinear::padded_embedding(table, i, max_norm, padding_idx))
}

/// Scaled dot-product attention: softmax(q kᵀ scale) v. Positions where the mask is 0 are ignored.
#[pyfunction]
#[pyo3(signature = (q, k, v, scale, /, *, mask=None))]
fn scaled_dot_product_attention<'py>(
    q: &Object<'py>,
    k: &Object<'py>,
    v: &Object<'py>,
    scale: &Object<'py>,
    mask: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(q.py(), "scaled_dot_product_attention");
    let (q, k, v) = (call.take(q)?, call.take(k)?, call.take(v)?);
    let (scale, mask) = (call.take(scale)?, call.maybe(mask)?);
    call.one(|| attention::scaled_dot_product_attention(&q, &k, &v, &scale, mask.as_ref()))
}

/// Multi-head attention. Projections of queries, keys and values and of the output are functions, called with the keyword
/// `v`.
#[pyfunction]
#[pyo3(signature = (x, scale, num_heads, /, *, context=None, mask=None, to_q_fn=None, to_kv_fn=None, to_out_fn=None,
    to_q_v=None, to_kv_v=None, to_out_v=None))]
#[allow(clippy::too_many_arguments)]
fn multi_head_attention<'py>(
    x: &Object<'py>,
    scale: &Object<'py>,
    num_heads: i64,
    context: Maybe<'_, 'py>,
    mask: Maybe<'_, 'py>,
    to_q_fn: Maybe<'_, 'py>,
    to_kv_fn: Maybe<'_, 'py>,
    to_out_fn: Maybe<'_, 'py>,
    to_q_v: Maybe<'_, 'py>,
    to_kv_v: Maybe<'_, 'py>,
    to_out_v: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let (py, op) = (x.py(), "multi_head_attention");
    let mut call = Call::new(py, op);
    // All arrays first, so that a pytree among them is found before a function is called.
    let own = call.take(x)?;
    let (scale, mask) = (call.take(scale)?, call.maybe(mask)?);
    let around = call.maybe(context)?;
    let heads = usize::try_from(num_heads).unwrap_or(0);
    if heads == 0 {
        return Err(exception(
            Kind::Value,
            format!("{op}: num_heads is positive, not {num_heads}"),
        ));
    }
    let called = |f: &Object<'py>, x: Object<'py>, v: Maybe<'_, 'py>| {
        let keywords = PyDict::new(py);
        keywords.set_item("v", v)?;
        f.call((x,), Some(&keywords))
    };
    let q = match to_q_fn {
        Some(f) => call.take(&called(f, call.give(own.clone())?, to_q_v)?)?,
        None => own.clone(),
    };
    let around = around.unwrap_or(own);
    let (k, v) = match to_kv_fn {
        Some(f) => {
            let kv = called(f, call.give(around)?, to_kv_v)?;
            let pair = kv.cast::<PyTuple>().is_ok() || kv.cast::<PyList>().is_ok();
            if pair {
                match <[Tensor; 2]>::try_from(call.take_all(&kv)?) {
                    Ok([k, v]) => (k, v),
                    Err(all) => {
                        return Err(exception(
                            Kind::Value,
                            format!(
                                "{op}: to_kv_fn gave {} arrays, not keys and values",
                                all.len()
                            ),
                        ));
                    }
                }
            } else {
                let kv = call.take(&kv)?;
                call.run(|| attention::split_last(op, &kv)).or_raise()?
            }
        }
        None => call.run(|| attention::split_last(op, &around)).or_raise()?,
    };
    let out = call
        .run(|| attention::attention_of_heads(&q, &k, &v, &scale, heads, mask.as_ref()).done())
        .or_raise()?;
    match to_out_fn {
        Some(f) => {
            let out = called(f, call.give(out)?, to_out_v)?;
            let out = operand(op, &out)?.tensor;
            call.give(out)
        }
        None => call.give(out),
    }
}

/// LSTM over time: returns all hidden states and the last cell state. The gates are in the order input, forget, cell,
/// output.
#[pyfunction]
#[pyo3(signature = (x, init_h, init_c, kernel, recurrent_kernel, /, *, bias=None, recurrent_bias=None))]
fn lstm_update<'py>(
    x: &Object<'py>,
    init_h: &Object<'py>,
    init_c: &Object<'py>,
    kernel: &Object<'py>,
    recurrent_kernel: &Object<'py>,
    bias: Maybe<'_, 'py>,
    recurrent_bias: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "lstm_update");
    let (x, h, c) = (call.take(x)?, call.take(init_h)?, call.take(init_c)?);
    let (kernel, recurrent) = (call.take(kernel)?, call.take(recurrent_kernel)?);
    let (b, rb) = (call.maybe(bias)?, call.maybe(recurrent_bias)?);
    call.many(|| {
        let (b, rb) = (b.as_ref(), rb.as_ref());
        let (hs, c) = lstm::lstm_update(&x, &h, &c, &kernel, &recurrent, b, rb)?;
        Ok(vec![hs, c])
    })
}

/// The input itself where nothing is dropped, if it is an array.
fn unchanged<'py>(call: &Call<'py>, given: &Object<'py>, x: Tensor) -> PyResult<Object<'py>> {
    match x.repr() {
        Repr::Scalar { .. } => call.give(x),
        _ if given.cast::<PyList>().is_ok() || given.cast::<PyTuple>().is_ok() => call.give(x),
        _ => Ok(given.clone()),
    }
}

/// A probability argument. A tracer takes part in the call; other values are numbers.
fn probability<'py>(op: &str, call: &mut Call<'py>, prob: &Object<'py>) -> PyResult<Probability> {
    match Probability::of(op, &operand(op, prob)?.tensor).or_raise()? {
        Probability::Traced(_) => {
            let prob = call.take(prob)?;
            call.run(|| Probability::of(op, &prob)).or_raise()
        }
        known => Ok(known),
    }
}

/// The mask of the elements that are kept.
fn kept(
    py: Python<'_>,
    call: &Call<'_>,
    key: &Key,
    shape: &Shape,
    dtype: DType,
    prob: &Probability,
) -> PyResult<Tensor> {
    let prob = prob.tensor();
    drawn(py, call, key, shape, &[&prob], |key, p| {
        ops::greater_equal(random::unit(key, shape, dtype), &p[0])
    })
}

/// Dropout: zeroes elements with a probability and scales the rest. The mask is broadcast along axes where `noise_shape`
/// is 1.
#[pyfunction]
#[pyo3(signature = (x, prob, /, *, scale=true, dtype=None, training=true, seed=None, noise_shape=None, key=None))]
#[allow(clippy::too_many_arguments)]
fn dropout<'py>(
    x: &Object<'py>,
    prob: &Object<'py>,
    scale: bool,
    dtype: Maybe<'_, 'py>,
    training: bool,
    seed: Maybe<'_, 'py>,
    noise_shape: Option<Vec<Option<i64>>>,
    key: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let op = "dropout";
    let mut call = Call::new(x.py(), op);
    let own = call.take(x)?;
    let prob = probability(op, &mut call, prob)?;
    let dtype = dtype::maybe(dtype)?.unwrap_or(drop::DRAW);
    let shape = match noise_shape {
        Some(noise) => drop::noise_shape(op, &own, &noise).or_raise()?,
        None => own.shape().clone(),
    };
    if prob.is_zero() || !training {
        return unchanged(&call, x, own);
    }
    let key = source(op, key, seed)?;
    let keep = kept(x.py(), &call, &key, &shape, dtype, &prob)?;
    call.one(|| drop::dropout(own, &keep, prob, scale))
}

macro_rules! channel_dropouts {
    ($($(#[$doc:meta])* $name:ident $spatial:literal $format:literal $text:literal;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(
            signature = (x, prob, /, *, training=true, data_format=$format, seed=None, key=None),
            text_signature = $text
        )]
        fn $name<'py>(
            x: &Object<'py>,
            prob: &Object<'py>,
            training: bool,
            data_format: &str,
            seed: Maybe<'_, 'py>,
            key: Maybe<'_, 'py>,
        ) -> PyResult<Object<'py>> {
            let op = stringify!($name);
            let mut call = Call::new(x.py(), op);
            let own = call.take(x)?;
            let prob = probability(op, &mut call, prob)?;
            let first = formats::channels_first(op, data_format, $spatial).or_raise()?;
            let shape = drop::channel_noise(op, &own, $spatial, first).or_raise()?;
            if prob.is_zero() || !training {
                return unchanged(&call, x, own);
            }
            let key = source(op, key, seed)?;
            let keep = kept(x.py(), &call, &key, &shape, drop::DRAW, &prob)?;
            call.one(|| drop::dropout(own, &keep, prob, true))
        }
    )* };
}
channel_dropouts! {
    /// 1D channel dropout: zeroes whole channels.
    dropout1d 1 "NWC" "(x, prob, /, *, training=True, data_format=\"NWC\", seed=None, key=None)";
    /// 2D channel dropout: zeroes whole channels.
    dropout2d 2 "NHWC" "(x, prob, /, *, training=True, data_format=\"NHWC\", seed=None, key=None)";
    /// 3D channel dropout: zeroes whole channels.
    dropout3d 3 "NDHWC" "(x, prob, /, *, training=True, data_format=\"NDHWC\", seed=None, key=None)";
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m;
        linear embedding scaled_dot_product_attention multi_head_attention lstm_update dropout dropout1d dropout2d
        dropout3d);
    Ok(())
}
