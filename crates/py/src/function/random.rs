//! Random numbers: keys, the implicit stream, and random functions.
//!
//! Outside of a trace a draw runs on the built-in engine and the result is moved to the target backend, so its bits are
//! the same on every backend. Inside a trace the draw is recorded as ops.

mod key;
mod keyed;
mod parameters;
mod source;
mod state;

pub use key::PyKey;
pub use keyed::install as install_keyed;
pub use source::{drawn, source};

use parameters::{Opened, by_parameters, maybe_shape};

use crate::args;
use crate::dtype;
use crate::error::{OrRaise, exception};
use crate::operand::Call;
use clematis_core::expr::Expr;
use clematis_core::random::Key;
use clematis_core::{DType, Kind, Shape, Tensor};
use clematis_nn::functional::random;
use pyo3::prelude::*;
use pyo3::types::PyModule;

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// Samples from the uniform distribution over [low, high).
#[pyfunction]
#[pyo3(
    signature = (*, low=None, high=None, shape=None, device=None, dtype=None, seed=None, key=None),
    text_signature = "(*, low=0.0, high=1.0, shape=None, device=None, dtype=None, seed=None, key=None)"
)]
#[allow(clippy::too_many_arguments)]
fn random_uniform<'py>(
    py: Python<'py>,
    low: Maybe<'_, 'py>,
    high: Maybe<'_, 'py>,
    shape: Maybe<'_, 'py>,
    device: Maybe<'_, 'py>,
    dtype: Maybe<'_, 'py>,
    seed: Maybe<'_, 'py>,
    key: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let op = "random_uniform";
    let bounds = [("low", low, 0.0), ("high", high, 1.0)];
    let draw = Opened::new(py, op, bounds, [shape, device, dtype])?;
    random::check_uniform(op, &draw.first, &draw.second, draw.dtype).or_raise()?;
    draw.moved(py, key, seed, random::unit, random::to_uniform)
}

/// Samples from the normal distribution.
#[pyfunction]
#[pyo3(
    signature = (*, mean=None, std=None, shape=None, dtype=None, seed=None, device=None, key=None),
    text_signature = "(*, mean=0.0, std=1.0, shape=None, dtype=None, seed=None, device=None, key=None)"
)]
#[allow(clippy::too_many_arguments)]
fn random_normal<'py>(
    py: Python<'py>,
    mean: Maybe<'_, 'py>,
    std: Maybe<'_, 'py>,
    shape: Maybe<'_, 'py>,
    dtype: Maybe<'_, 'py>,
    seed: Maybe<'_, 'py>,
    device: Maybe<'_, 'py>,
    key: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let op = "random_normal";
    let parameters = [("mean", mean, 0.0), ("std", std, 1.0)];
    let draw = Opened::new(py, op, parameters, [shape, device, dtype])?;
    random::check_normal(op, &draw.second).or_raise()?;
    draw.moved(py, key, seed, random::standard_normal, random::to_normal)
}

/// Samples category indices: by weights, or uniformly if none are given.
#[pyfunction]
#[pyo3(signature = (population_size, num_samples, /, *, batch_size=None, probs=None, replace=true, device=None, dtype=None,
    seed=None, key=None), text_signature = "(population_size, num_samples, /, *, batch_size=1, probs=None, replace=True, device=None, dtype=None, seed=None, key=None)")]
#[allow(clippy::too_many_arguments)]
fn multinomial<'py>(
    py: Python<'py>,
    population_size: Maybe<'_, 'py>,
    num_samples: &Object<'py>,
    batch_size: Maybe<'_, 'py>,
    probs: Maybe<'_, 'py>,
    replace: bool,
    device: Maybe<'_, 'py>,
    dtype: Maybe<'_, 'py>,
    seed: Maybe<'_, 'py>,
    key: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let op = "multinomial";
    let mut call = Call::new(py, op);
    let probs = call.maybe(probs)?;
    args::device(op, device)?;
    let dtype = dtype::maybe(dtype)?.unwrap_or(DType::I64);
    let count = |what, x: &Object<'py>| args::count(op, what, x);
    let num_samples = count("num_samples", num_samples)?;
    let batch_size = batch_size.map_or(Ok(1), |n| count("batch_size", n))?;
    let population_size = population_size
        .map(|n| count("population_size", n))
        .transpose()?;
    match &probs {
        Some(p) => args::room(
            op,
            p.shape()
                .sizes()
                .into_iter()
                .rev()
                .skip(1)
                .chain([num_samples]),
        )?,
        None => {
            args::room(op, [batch_size, num_samples])?;
            args::room(op, [batch_size, population_size.unwrap_or(0)])?;
        }
    }
    let key = source(op, key, seed)?;
    let parameters: Vec<&Tensor> = probs.iter().collect();
    let rows = Shape::from_sizes(&[batch_size, num_samples]);
    let out = drawn(py, &call, &key, &rows, &parameters, |key, p| {
        let weights = p.first();
        random::multinomial(
            key,
            population_size,
            batch_size,
            weights,
            num_samples,
            replace,
            dtype,
        )
    })?;
    call.give(out)
}

/// Random integers in [low, high).
#[pyfunction]
#[pyo3(signature = (low, high, /, *, shape=None, device=None, dtype=None, seed=None, key=None))]
#[allow(clippy::too_many_arguments)]
fn randint<'py>(
    low: &Object<'py>,
    high: &Object<'py>,
    shape: Maybe<'_, 'py>,
    device: Maybe<'_, 'py>,
    dtype: Maybe<'_, 'py>,
    seed: Maybe<'_, 'py>,
    key: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let op = "randint";
    let py = low.py();
    let mut call = Call::new(py, op);
    let (low, high) = (call.take(low)?, call.take(high)?);
    args::device(op, device)?;
    let shape = maybe_shape(op, shape)?;
    let shape = random::shape_of(op, ["low", "high"], &low, &high, shape).or_raise()?;
    let dtype = dtype::maybe(dtype)?.unwrap_or(DType::I64);
    let key = source(op, key, seed)?;
    let out = drawn(py, &call, &key, &shape, &[&low, &high], |key, p| {
        random::randint(key, &shape, &p[0], &p[1], dtype)
    })?;
    call.give(out)
}

/// Shuffles randomly along an axis.
#[pyfunction]
#[pyo3(signature = (x, axis=0, /, *, seed=None, key=None))]
fn shuffle<'py>(
    x: &Object<'py>,
    axis: i64,
    seed: Maybe<'_, 'py>,
    key: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let op = "shuffle";
    let py = x.py();
    let mut call = Call::new(py, op);
    let x = call.take(x)?;
    if x.rank() == 0 {
        return call.give(x);
    }
    let at = x.shape().axis(axis, op).or_raise()?;
    let n = x.shape().known_size(at, op).or_raise()?;
    let key = source(op, key, seed)?;
    let places = Shape::from_sizes(&[n]);
    let order = drawn(py, &call, &key, &places, &[], |key, _| {
        clematis_core::random::permutation(key, n)
    })?;
    call.one(|| random::reordered(&x, &order, axis))
}

/// Samples from the Bernoulli distribution, by probabilities or logits: 1 or 0.
#[pyfunction]
#[pyo3(signature = (probs=None, *, logits=None, shape=None, device=None, dtype=None, seed=None, key=None))]
#[allow(clippy::too_many_arguments)]
fn bernoulli<'py>(
    py: Python<'py>,
    probs: Maybe<'_, 'py>,
    logits: Maybe<'_, 'py>,
    shape: Maybe<'_, 'py>,
    device: Maybe<'_, 'py>,
    dtype: Maybe<'_, 'py>,
    seed: Maybe<'_, 'py>,
    key: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let op = "bernoulli";
    let (given, by_logits) = match (probs, logits) {
        (Some(p), None) => (p, false),
        (None, Some(l)) => (l, true),
        _ => {
            return Err(exception(
                Kind::Value,
                "bernoulli: takes probs or logits, and not both",
            ));
        }
    };
    args::device(op, device)?;
    let key = || source(op, key, seed);
    by_parameters(
        py,
        op,
        key,
        &[given],
        (shape, dtype),
        |key, shape, p, dtype| {
            let (probs, logits) = match by_logits {
                true => (None, p.first()),
                false => (p.first(), None),
            };
            random::bernoulli(key, shape, probs, logits, dtype)
        },
    )
}

macro_rules! of_two {
    ($($(#[$doc:meta])* $name:ident $a:ident $b:ident $function:expr;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = ($a, $b, /, *, shape=None, device=None, dtype=None, seed=None, key=None))]
        #[allow(clippy::too_many_arguments)]
        fn $name<'py>(
            $a: &Object<'py>,
            $b: &Object<'py>,
            shape: Maybe<'_, 'py>,
            device: Maybe<'_, 'py>,
            dtype: Maybe<'_, 'py>,
            seed: Maybe<'_, 'py>,
            key: Maybe<'_, 'py>,
        ) -> PyResult<Object<'py>> {
            let op = stringify!($name);
            args::device(op, device)?;
            let draw: fn(&Key, &Shape, &Tensor, &Tensor, DType) -> Expr = $function;
            let key = || source(op, key, seed);
            by_parameters($a.py(), op, key, &[$a, $b], (shape, dtype), |key, shape, p, dtype| {
                draw(key, shape, &p[0], &p[1], dtype)
            })
        }
    )* };
}
of_two! {
    /// Samples from the beta distribution with parameters alpha and beta.
    beta a b |key, shape, a, b, dtype| clematis_core::random::beta(key, shape, a, b, dtype);
    /// Samples from the gamma distribution with shape (alpha) and rate (beta).
    gamma alpha beta random::gamma;
}

/// Samples from the Dirichlet distribution: vectors that sum to 1, one concentration parameter per element.
#[pyfunction]
#[pyo3(signature = (alpha, /, *, size=None, dtype=None, seed=None, key=None))]
fn dirichlet<'py>(
    alpha: &Object<'py>,
    size: Maybe<'_, 'py>,
    dtype: Maybe<'_, 'py>,
    seed: Maybe<'_, 'py>,
    key: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let op = "dirichlet";
    let py = alpha.py();
    let mut call = Call::new(py, op);
    let alpha = call.take(alpha)?;
    let size = maybe_shape(op, size)?.unwrap_or_else(Shape::scalar);
    args::room(op, size.join(alpha.shape()).sizes())?;
    random::real_parameters(op, &[&alpha]).or_raise()?;
    let dtype = random::float_dtype(&[&alpha], dtype::maybe(dtype)?);
    let key = source(op, key, seed)?;
    let out = drawn(py, &call, &key, &size, &[&alpha], |key, p| {
        clematis_core::random::dirichlet(key, &size, &p[0], dtype)
    })?;
    call.give(out)
}

/// Samples from the Poisson distribution with a rate.
#[pyfunction]
#[pyo3(signature = (lam, *, shape=None, device=None, dtype=None, seed=None, key=None))]
fn poisson<'py>(
    lam: &Object<'py>,
    shape: Maybe<'_, 'py>,
    device: Maybe<'_, 'py>,
    dtype: Maybe<'_, 'py>,
    seed: Maybe<'_, 'py>,
    key: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let op = "poisson";
    args::device(op, device)?;
    let key = || source(op, key, seed);
    by_parameters(
        lam.py(),
        op,
        key,
        &[lam],
        (shape, dtype),
        |key, shape, p, dtype| clematis_core::random::poisson(key, shape, &p[0], dtype),
    )
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m;
        random_uniform random_normal multinomial randint shuffle bernoulli beta gamma dirichlet poisson);
    state::install_seed(m)
}
