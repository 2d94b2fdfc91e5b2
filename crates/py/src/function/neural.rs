//! Activations, norms, losses, attention.

use crate::operand::Call;
use clematis_core::ops;
use pyo3::prelude::*;
use pyo3::types::PyModule;

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /))]
        fn $name<'py>(x: &Object<'py>) -> PyResult<Object<'py>> {
            let mut call = Call::new(x.py(), stringify!($name));
            let x = call.take(x)?;
            call.one(|| ops::$name(x))
        }
    )* };
}
activations! {
    /// max(x, 0).
    relu;
    /// elu with the constants that keep mean and variance.
    selu;
    /// 1 / (1 + exp(-x)).
    sigmoid;
    /// log(sigmoid(x)).
    log_sigmoid;
    /// x sigmoid(x).
    silu;
    /// log(1 + exp(x)).
    softplus;
    /// x tanh(softplus(x)).
    mish;
    /// relu6(x + 3) / 6.
    hard_sigmoid;
    /// x hard_sigmoid(x).
    hard_swish;
}

/// x where positive, slope times x elsewhere.
#[pyfunction]
#[pyo3(signature = (x, /, *, slope=0.01))]
fn leaky_relu<'py>(x: &Object<'py>, slope: f64) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "leaky_relu");
    let x = call.take(x)?;
    call.one(|| ops::leaky_relu(x, slope))
}

/// x where positive, alpha (exp(x) - 1) elsewhere.
#[pyfunction]
#[pyo3(signature = (x, /, *, alpha=1.0))]
fn elu<'py>(x: &Object<'py>, alpha: f64) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "elu");
    let x = call.take(x)?;
    call.one(|| ops::elu(x, alpha))
}

/// x times the normal distribution function of x, or its tanh approximation.
#[pyfunction]
#[pyo3(signature = (x, /, *, approximate=false))]
fn gelu<'py>(x: &Object<'py>, approximate: bool) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "gelu");
    let x = call.take(x)?;
    call.one(|| ops::gelu(x, approximate))
}

/// exp(x), scaled to sum to one along an axis.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis=-1))]
fn softmax<'py>(x: &Object<'py>, axis: i64) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "softmax");
    let x = call.take(x)?;
    call.one(|| ops::softmax(x, axis))
}

/// log(softmax(x)).
#[pyfunction]
#[pyo3(signature = (x, /, *, axis=-1))]
fn log_softmax<'py>(x: &Object<'py>, axis: i64) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "log_softmax");
    let x = call.take(x)?;
    call.one(|| ops::log_softmax(x, axis))
}

/// -log softmax at the label along the last axis, one per row.
#[pyfunction]
#[pyo3(signature = (logits, labels, /))]
fn cross_entropy<'py>(logits: &Object<'py>, labels: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(logits.py(), "cross_entropy");
    let (logits, labels) = (call.take(logits)?, call.take(labels)?);
    call.one(|| ops::cross_entropy(logits, labels))
}

/// Normalised over the last axes from `axis` on, then scaled and moved.
#[pyfunction]
#[pyo3(signature = (x, /, scale=None, bias=None, *, axis=-1, epsilon=1e-5))]
fn layer_norm<'py>(
    x: &Object<'py>,
    scale: Maybe<'_, 'py>,
    bias: Maybe<'_, 'py>,
    axis: i64,
    epsilon: f64,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "layer_norm");
    let x = call.take(x)?;
    let (scale, bias) = (call.maybe(scale)?, call.maybe(bias)?);
    call.one(|| ops::layer_norm(&x, scale.as_ref(), bias.as_ref(), axis, epsilon))
}

/// Divided by the root mean square over the last axes from `axis` on, then scaled.
#[pyfunction]
#[pyo3(signature = (x, /, scale=None, *, axis=-1, epsilon=1e-5))]
fn rms_norm<'py>(
    x: &Object<'py>,
    scale: Maybe<'_, 'py>,
    axis: i64,
    epsilon: f64,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "rms_norm");
    let x = call.take(x)?;
    let scale = call.maybe(scale)?;
    call.one(|| ops::rms_norm(&x, scale.as_ref(), axis, epsilon))
}

/// x wᵀ + b over the last axis; w is [out, in].
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
    call.one(|| ops::linear(x, w, b.as_ref()))
}

/// Rows of a table.
#[pyfunction]
#[pyo3(signature = (table, indices, /))]
fn embedding<'py>(table: &Object<'py>, indices: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(table.py(), "embedding");
    let (table, i) = (call.take(table)?, call.take(indices)?);
    call.one(|| ops::embedding(table, i))
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m;
        relu selu sigmoid log_sigmoid silu softplus mish hard_sigmoid hard_swish leaky_relu elu gelu softmax log_softmax
        cross_entropy layer_norm rms_norm linear embedding);
    Ok(())
}
