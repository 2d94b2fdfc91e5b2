//! Activation functions and normalization.

use crate::args::{axes, integers};
use crate::error::{OrRaise, exception};
use crate::operand::Call;
use clematis_core::{Kind, Tensor, ops};
use clematis_nn::functional::{activation, norm};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule, PyString};

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

macro_rules! activations {
    ($($(#[$doc:meta])* $name:ident $function:path;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /))]
        fn $name<'py>(x: &Object<'py>) -> PyResult<Object<'py>> {
            let mut call = Call::new(x.py(), stringify!($name));
            let x = call.take(x)?;
            call.one(|| $function(x))
        }
    )* };
}
activations! {
    /// Rectified linear unit: max(x, 0).
    relu ops::relu;
    /// ReLU6: x clipped to [0, 6].
    relu6 activation::relu6;
    /// SELU: scaled exponential linear unit, with the constants that preserve mean and variance.
    selu ops::selu;
    /// Sigmoid: 1 / (1 + exp(-x)).
    sigmoid ops::sigmoid;
    /// Logarithm of the sigmoid: log(sigmoid(x)).
    log_sigmoid ops::log_sigmoid;
    /// SiLU (swish): x sigmoid(x).
    silu ops::silu;
    /// Mish: x tanh(softplus(x)).
    mish ops::mish;
    /// Hard sigmoid: relu6(x + 3) / 6.
    hard_sigmoid ops::hard_sigmoid;
    /// Hard swish: x hard_sigmoid(x).
    hard_swish ops::hard_swish;
}

/// Logarithm of the sigmoid; alias of `log_sigmoid`.
#[pyfunction]
#[pyo3(signature = (input))]
fn logsigmoid<'py>(input: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(input.py(), "logsigmoid");
    let x = call.take(input)?;
    call.one(|| ops::log_sigmoid(x))
}

/// Leaky ReLU: x where positive, alpha x elsewhere.
#[pyfunction]
#[pyo3(signature = (x, /, *, alpha=0.2))]
fn leaky_relu<'py>(x: &Object<'py>, alpha: f64) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "leaky_relu");
    let x = call.take(x)?;
    call.one(|| ops::leaky_relu(x, alpha))
}

/// PReLU: x where positive, weight x elsewhere. The weight broadcasts.
#[pyfunction]
#[pyo3(signature = (x, weight, /))]
fn prelu<'py>(x: &Object<'py>, weight: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "prelu");
    let (x, weight) = (call.take(x)?, call.take(weight)?);
    call.one(|| activation::prelu(x, weight))
}

/// Thresholded ReLU: x where it is above the threshold, 0 elsewhere.
#[pyfunction]
#[pyo3(signature = (x, /, *, threshold=0.0))]
fn thresholded_relu<'py>(x: &Object<'py>, threshold: f64) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "thresholded_relu");
    let x = call.take(x)?;
    call.one(|| activation::thresholded_relu(x, threshold))
}

/// ELU: x where positive, alpha (exp(x) - 1) elsewhere.
#[pyfunction]
#[pyo3(signature = (x, /, *, alpha=1.0))]
fn elu<'py>(x: &Object<'py>, alpha: f64) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "elu");
    let x = call.take(x)?;
    call.one(|| ops::elu(x, alpha))
}

/// GELU: x times the normal cumulative distribution function of x, or its tanh approximation.
#[pyfunction]
#[pyo3(signature = (x, /, *, approximate=false))]
fn gelu<'py>(x: &Object<'py>, approximate: bool) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "gelu");
    let x = call.take(x)?;
    call.one(|| ops::gelu(x, approximate))
}

/// Softplus: log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold.
#[pyfunction]
#[pyo3(signature = (x, /, *, beta=None, threshold=None))]
fn softplus<'py>(
    x: &Object<'py>,
    beta: Option<f64>,
    threshold: Option<f64>,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "softplus");
    let x = call.take(x)?;
    call.one(|| activation::softplus(x, beta, threshold))
}

/// Logit: log(x / (1 - x)). With `eps`, x is clipped to [eps, 1 - eps] first.
#[pyfunction]
#[pyo3(signature = (x, /, *, eps=None))]
fn logit<'py>(x: &Object<'py>, eps: Option<f64>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "logit");
    let x = call.take(x)?;
    call.one(|| activation::logit(x, eps))
}

/// Softmax along an axis, the last one by default.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis=None))]
fn softmax<'py>(x: &Object<'py>, axis: Option<i64>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "softmax");
    let x = call.take(x)?;
    call.one(|| ops::softmax(x, axis.unwrap_or(-1)))
}

/// Logarithm of the softmax along an axis, the last one by default.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis=None))]
fn log_softmax<'py>(x: &Object<'py>, axis: Option<i64>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "log_softmax");
    let x = call.take(x)?;
    call.one(|| ops::log_softmax(x, axis.unwrap_or(-1)))
}

/// Layer normalization over axes: (x̂ scale + b) new_std. Without a scale, b is ignored.
#[pyfunction]
#[pyo3(signature = (x, normalized_idxs, /, *, scale=None, b=None, epsilon=1e-5, new_std=1.0))]
fn layer_norm<'py>(
    x: &Object<'py>,
    normalized_idxs: &Object<'py>,
    scale: Maybe<'_, 'py>,
    b: Maybe<'_, 'py>,
    epsilon: f64,
    new_std: f64,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "layer_norm");
    let x = call.take(x)?;
    let (scale, b) = (call.maybe(scale)?, call.maybe(b)?);
    let over = integers("layer_norm", "normalized_idxs", normalized_idxs)?;
    call.one(|| norm::layer_norm(&x, &over, scale.as_ref(), b.as_ref(), epsilon, new_std))
}

/// RMS normalization: divides by the root mean square over the axes from `axis` on, then multiplies by the scale.
#[pyfunction]
#[pyo3(
    signature = (x, /, scale=None, *, axis=-1, epsilon=1e-5),
    text_signature = "(x, /, scale=None, *, axis=-1, epsilon=1e-5)"
)]
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

/// Batch normalization per channel, with the given statistics, or with those of the batch in training. Channels are axis
/// 1.
#[pyfunction]
#[pyo3(signature = (x, mean, variance, /, *, offset=None, scale=None, training=false, eps=1e-5, data_format="NCS"))]
#[allow(clippy::too_many_arguments)]
fn batch_norm<'py>(
    x: &Object<'py>,
    mean: &Object<'py>,
    variance: &Object<'py>,
    offset: Maybe<'_, 'py>,
    scale: Maybe<'_, 'py>,
    training: bool,
    eps: f64,
    data_format: &str,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "batch_norm");
    let (x, mean, variance) = (call.take(x)?, call.take(mean)?, call.take(variance)?);
    let (offset, scale) = (call.maybe(offset)?, call.maybe(scale)?);
    let second = norm::channels_second("batch_norm", data_format).or_raise()?;
    call.one(|| {
        let (offset, scale) = (offset.as_ref(), scale.as_ref());
        norm::batch_norm(&x, &mean, &variance, offset, scale, training, eps, second)
    })
}

/// Group normalization: normalizes within groups of channels. Channels are axis 1.
#[pyfunction]
#[pyo3(signature = (x, num_groups=1, /, *, offset=None, scale=None, eps=1e-5, data_format="NCS"))]
fn group_norm<'py>(
    x: &Object<'py>,
    num_groups: i64,
    offset: Maybe<'_, 'py>,
    scale: Maybe<'_, 'py>,
    eps: f64,
    data_format: &str,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "group_norm");
    let x = call.take(x)?;
    let (offset, scale) = (call.maybe(offset)?, call.maybe(scale)?);
    let second = norm::channels_second("group_norm", data_format).or_raise()?;
    let Ok(groups @ 1..) = usize::try_from(num_groups) else {
        return Err(exception(
            Kind::Value,
            format!("group_norm: num_groups is positive, not {num_groups}"),
        ));
    };
    call.one(|| norm::group_norm(&x, groups, scale.as_ref(), offset.as_ref(), eps, second))
}

/// Instance normalization: normalizes per sample and channel.
///
/// With running statistics returns a triple of the result and their new values. `momentum` is the weight of the new
/// value.
#[pyfunction]
#[pyo3(signature = (x, /, *, scale=None, bias=None, eps=1e-5, momentum=0.1, data_format="NCHW", running_mean=None,
    running_stddev=None, affine=true, track_running_stats=false))]
#[allow(clippy::too_many_arguments)]
fn instance_norm<'py>(
    x: &Object<'py>,
    scale: Maybe<'_, 'py>,
    bias: Maybe<'_, 'py>,
    eps: f64,
    momentum: f64,
    data_format: &str,
    running_mean: Maybe<'_, 'py>,
    running_stddev: Maybe<'_, 'py>,
    affine: bool,
    track_running_stats: bool,
) -> PyResult<Object<'py>> {
    let op = "instance_norm";
    let mut call = Call::new(x.py(), op);
    let x = call.take(x)?;
    let (scale, bias) = (call.maybe(scale)?, call.maybe(bias)?);
    let (mean, stddev) = (call.maybe(running_mean)?, call.maybe(running_stddev)?);
    let second = norm::channels_second(op, data_format).or_raise()?;
    let (scale, bias) = match affine {
        true => (scale, bias),
        false => (None, None),
    };
    let work = || norm::instance_norm(&x, scale.as_ref(), bias.as_ref(), eps, second);
    if !track_running_stats {
        return call.one(|| work().map(|found| found.out).into());
    }
    let (Some(mean), Some(stddev)) = (mean, stddev) else {
        return Err(exception(
            Kind::Value,
            "instance_norm: track_running_stats needs running_mean and running_stddev",
        ));
    };
    let moved = |old: &Tensor, new: Tensor| (old * (1.0 - momentum) + new * momentum).done();
    call.many(|| {
        let found = work()?;
        let (mean, stddev) = (moved(&mean, found.mean)?, moved(&stddev, found.stddev)?);
        Ok(vec![found.out, mean, stddev])
    })
}

macro_rules! normalized {
    ($($(#[$doc:meta])* $name:ident $p:literal;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /, *, axis=None))]
        fn $name<'py>(x: &Object<'py>, axis: Maybe<'_, 'py>) -> PyResult<Object<'py>> {
            let op = stringify!($name);
            let mut call = Call::new(x.py(), op);
            let x = call.take(x)?;
            let over = axes(op, axis)?;
            call.one(|| norm::lp_normalize(op, &x, $p, over.as_deref()))
        }
    )* };
}
normalized! {
    /// Divides x by its l1 norm, over an axis or all elements.
    l1_normalize 1.0;
    /// Divides x by its l2 norm, over an axis or all elements.
    l2_normalize 2.0;
}

/// Divides x by its p-norm, over an axis or all elements.
#[pyfunction]
#[pyo3(signature = (x, /, *, p=2.0, axis=None))]
fn lp_normalize<'py>(x: &Object<'py>, p: f64, axis: Maybe<'_, 'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "lp_normalize");
    let x = call.take(x)?;
    let over = axes("lp_normalize", axis)?;
    call.one(|| norm::lp_normalize("lp_normalize", &x, p, over.as_deref()))
}

/// The names that `deserialize` and `get` accept.
const ACTIVATIONS: [&str; 20] = [
    "elu",
    "gelu",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "logit",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "tanh",
    "thresholded_relu",
];

/// Returns an activation function by name; `custom_objects` are searched first.
#[pyfunction]
#[pyo3(signature = (name, /, *, custom_objects=None))]
fn deserialize<'py>(
    py: Python<'py>,
    name: Maybe<'_, 'py>,
    custom_objects: Option<&Bound<'py, PyDict>>,
) -> PyResult<Object<'py>> {
    let Some(name) = name else {
        return Ok(py.None().into_bound(py));
    };
    if let Some(own) = custom_objects
        && let Some(found) = own.get_item(name)?
    {
        return Ok(found);
    }
    if name.is_callable() {
        return Ok(name.clone());
    }
    let word = name
        .cast::<PyString>()
        .map(|n| n.to_string_lossy().into_owned());
    match word {
        Ok(word) if ACTIVATIONS.contains(&word.as_str()) => py.import("clematis")?.getattr(word),
        _ => Err(exception(
            Kind::Value,
            format!("deserialize: no activation is called {}", name.repr()?),
        )),
    }
}

/// Returns an activation function by name; `None` gives the identity.
#[pyfunction]
#[pyo3(signature = (name, /, *, custom_objects=None))]
fn get<'py>(
    py: Python<'py>,
    name: Maybe<'_, 'py>,
    custom_objects: Option<&Bound<'py, PyDict>>,
) -> PyResult<Object<'py>> {
    match name {
        None => py.import("clematis")?.getattr("positive"),
        Some(_) => deserialize(py, name, custom_objects),
    }
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m;
        relu relu6 selu sigmoid log_sigmoid logsigmoid silu softplus mish hard_sigmoid hard_swish leaky_relu prelu
        thresholded_relu elu gelu logit softmax log_softmax layer_norm rms_norm batch_norm group_norm instance_norm
        l1_normalize l2_normalize lp_normalize);
    crate::plain_functions!(m; deserialize get);
    Ok(())
}
