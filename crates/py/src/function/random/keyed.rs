//! `clematis.random`: keys, and random functions with the key as first argument.

use super::drawn;
use super::key::{self, PyKey};
use super::parameters::by_parameters;
use crate::args::{self, new_shape};
use crate::dtype;
use crate::error::OrRaise;
use crate::operand::{Call, give};
use clematis_core::expr::Expr;
use clematis_core::random::{self as core, Key};
use clematis_core::{DType, Shape, Tensor};
use clematis_nn::functional::random;
use pyo3::prelude::*;
use pyo3::types::PyModule;

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

fn sizes(op: &str, x: Maybe<'_, '_>) -> PyResult<Shape> {
    match x {
        Some(x) => new_shape(op, x),
        None => Ok(Shape::scalar()),
    }
}

/// Calls a random function without array arguments on the current backend.
fn made<'py>(
    py: Python<'py>,
    op: &'static str,
    key: &PyKey,
    shape: &Shape,
    f: impl FnOnce(&Key) -> Expr + Send,
) -> PyResult<Object<'py>> {
    let call = Call::new(py, op);
    let out = drawn(py, &call, &key.0, shape, &[], |key, _| f(key))?;
    give(py, out, false)
}

/// Random bits as unsigned integers.
#[pyfunction]
#[pyo3(signature = (key, shape=None, *, dtype=None))]
fn bits<'py>(
    py: Python<'py>,
    key: &PyKey,
    shape: Maybe<'_, 'py>,
    dtype: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let dtype = dtype::maybe(dtype)?.unwrap_or(DType::U32);
    let shape = sizes("bits", shape)?;
    made(py, "bits", key, &shape, |key| key.bits(dtype, &shape))
}

/// Samples from the uniform distribution over [low, high).
#[pyfunction]
#[pyo3(signature = (key, shape=None, *, low=0.0, high=1.0, dtype=None))]
fn uniform<'py>(
    py: Python<'py>,
    key: &PyKey,
    shape: Maybe<'_, 'py>,
    low: f64,
    high: f64,
    dtype: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let dtype = dtype::maybe(dtype)?.unwrap_or(DType::FLOAT);
    let wide = random::draw_dtype("uniform", dtype).or_raise()?;
    let shape = sizes("uniform", shape)?;
    let (low, high) = (Tensor::number(low), Tensor::number(high));
    random::check_uniform("uniform", &low, &high, dtype).or_raise()?;
    made(py, "uniform", key, &shape, |key| {
        random::unit(key, &shape, wide).then(|u| random::to_uniform(&u, &low, &high, dtype))
    })
}

/// Samples from the normal distribution.
#[pyfunction]
#[pyo3(signature = (key, shape=None, *, mean=0.0, std=1.0, dtype=None))]
fn normal<'py>(
    py: Python<'py>,
    key: &PyKey,
    shape: Maybe<'_, 'py>,
    mean: f64,
    std: f64,
    dtype: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let dtype = dtype::maybe(dtype)?.unwrap_or(DType::FLOAT);
    let wide = random::draw_dtype("normal", dtype).or_raise()?;
    let shape = sizes("normal", shape)?;
    let (mean, std) = (Tensor::number(mean), Tensor::number(std));
    random::check_normal("normal", &std).or_raise()?;
    made(py, "normal", key, &shape, |key| {
        random::standard_normal(key, &shape, wide)
            .then(|z| random::to_normal(&z, &mean, &std, dtype))
    })
}

/// Samples from the normal distribution truncated to [low, high].
#[pyfunction]
#[pyo3(
    signature = (key, shape=None, *, low=-2.0, high=2.0, dtype=None),
    text_signature = "(key, shape=None, *, low=-2.0, high=2.0, dtype=None)"
)]
fn truncated_normal<'py>(
    py: Python<'py>,
    key: &PyKey,
    shape: Maybe<'_, 'py>,
    low: f64,
    high: f64,
    dtype: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let dtype = dtype::maybe(dtype)?.unwrap_or(DType::FLOAT);
    let shape = sizes("truncated_normal", shape)?;
    made(py, "truncated_normal", key, &shape, |key| {
        core::truncated_normal(key, &shape, low, high, dtype)
    })
}

/// Random integers in [low, high).
#[pyfunction]
#[pyo3(signature = (key, shape=None, *, low=0, high, dtype=None))]
fn randint<'py>(
    py: Python<'py>,
    key: &PyKey,
    shape: Maybe<'_, 'py>,
    low: i64,
    high: i64,
    dtype: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let dtype = dtype::maybe(dtype)?.unwrap_or(DType::INDEX);
    let shape = sizes("randint", shape)?;
    made(py, "randint", key, &shape, |key| {
        core::randint(key, &shape, low, high, dtype)
    })
}

/// Samples from the Bernoulli distribution: True with probability p.
#[pyfunction]
#[pyo3(signature = (key, shape=None, *, p=0.5))]
fn bernoulli<'py>(
    py: Python<'py>,
    key: &PyKey,
    shape: Maybe<'_, 'py>,
    p: f64,
) -> PyResult<Object<'py>> {
    let shape = sizes("bernoulli", shape)?;
    made(py, "bernoulli", key, &shape, |key| {
        core::bernoulli(key, &shape, p)
    })
}

/// Random permutation of the numbers 0 … n-1.
#[pyfunction]
#[pyo3(signature = (key, n, /))]
fn permutation<'py>(key: &PyKey, n: &Object<'py>) -> PyResult<Object<'py>> {
    let py = n.py();
    let n = args::count("permutation", "n", n)?;
    made(py, "permutation", key, &Shape::from_sizes(&[n]), |key| {
        core::permutation(key, n)
    })
}

macro_rules! standard {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (key, shape=None, *, dtype=None))]
        fn $name<'py>(
            py: Python<'py>,
            key: &PyKey,
            shape: Maybe<'_, 'py>,
            dtype: Maybe<'_, 'py>,
        ) -> PyResult<Object<'py>> {
            let dtype = dtype::maybe(dtype)?.unwrap_or(DType::FLOAT);
            let shape = sizes(stringify!($name), shape)?;
            made(py, stringify!($name), key, &shape, |key| core::$name(key, &shape, dtype))
        }
    )* };
}
standard! {
    /// Samples from the Laplace distribution with mean 0 and scale 1.
    laplace;
    /// Samples from the standard Gumbel distribution.
    gumbel;
}

/// Samples from the exponential distribution with a rate.
#[pyfunction]
#[pyo3(signature = (key, rate, /, shape=None, *, dtype=None))]
fn exponential<'py>(
    key: &PyKey,
    rate: &Object<'py>,
    shape: Maybe<'_, 'py>,
    dtype: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let asked = (shape, dtype);
    by_parameters(
        rate.py(),
        "exponential",
        || Ok(key.0.clone()),
        &[rate],
        asked,
        |key, shape, p, dtype| core::exponential(key, shape, &p[0], dtype),
    )
}

/// Samples from the gamma distribution with shape (alpha) and rate (beta).
#[pyfunction]
#[pyo3(signature = (key, alpha, rate=None, /, shape=None, *, dtype=None))]
fn gamma<'py>(
    key: &PyKey,
    alpha: &Object<'py>,
    rate: Maybe<'_, 'py>,
    shape: Maybe<'_, 'py>,
    dtype: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let mut both = vec![alpha];
    both.extend(rate);
    let asked = (shape, dtype);
    by_parameters(
        alpha.py(),
        "gamma",
        || Ok(key.0.clone()),
        &both,
        asked,
        |key, shape, p, dtype| match p {
            [alpha, rate] => random::gamma(key, shape, alpha, rate, dtype),
            _ => core::gamma(key, shape, &p[0], dtype),
        },
    )
}

/// Samples from the beta distribution with parameters alpha and beta.
#[pyfunction]
#[pyo3(signature = (key, a, b, /, shape=None, *, dtype=None))]
fn beta<'py>(
    key: &PyKey,
    a: &Object<'py>,
    b: &Object<'py>,
    shape: Maybe<'_, 'py>,
    dtype: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let asked = (shape, dtype);
    by_parameters(
        a.py(),
        "beta",
        || Ok(key.0.clone()),
        &[a, b],
        asked,
        |key, shape, p, dtype| core::beta(key, shape, &p[0], &p[1], dtype),
    )
}

/// Samples from the Poisson distribution with a rate.
#[pyfunction]
#[pyo3(signature = (key, rate, /, shape=None, *, dtype=None))]
fn poisson<'py>(
    key: &PyKey,
    rate: &Object<'py>,
    shape: Maybe<'_, 'py>,
    dtype: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let asked = (shape, dtype);
    by_parameters(
        rate.py(),
        "poisson",
        || Ok(key.0.clone()),
        &[rate],
        asked,
        |key, shape, p, dtype| core::poisson(key, shape, &p[0], dtype),
    )
}

/// Samples from the Dirichlet distribution: vectors that sum to 1, one concentration parameter per element.
#[pyfunction]
#[pyo3(signature = (key, alpha, /, shape=None, *, dtype=None))]
fn dirichlet<'py>(
    key: &PyKey,
    alpha: &Object<'py>,
    shape: Maybe<'_, 'py>,
    dtype: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let py = alpha.py();
    let mut call = Call::new(py, "dirichlet");
    let alpha = call.take(alpha)?;
    let shape = sizes("dirichlet", shape)?;
    random::real_parameters("dirichlet", &[&alpha]).or_raise()?;
    let dtype = random::float_dtype(&[&alpha], dtype::maybe(dtype)?);
    let out = drawn(py, &call, &key.0, &shape, &[&alpha], |key, p| {
        core::dirichlet(key, &shape, &p[0], dtype)
    })?;
    call.give(out)
}

/// Samples one category per row of logits; the last axis holds the categories.
#[pyfunction]
#[pyo3(signature = (key, logits, /))]
fn categorical<'py>(key: &PyKey, logits: &Object<'py>) -> PyResult<Object<'py>> {
    let py = logits.py();
    let mut call = Call::new(py, "categorical");
    let logits = call.take(logits)?;
    let out = drawn(py, &call, &key.0, &Shape::scalar(), &[&logits], |key, p| {
        core::categorical(key, &p[0])
    })?;
    call.give(out)
}

/// Samples categories per row of weights, with or without replacement; the last axis holds the categories.
#[pyfunction]
#[pyo3(signature = (key, weights, count, /, *, replace=true))]
fn multinomial<'py>(
    key: &PyKey,
    weights: &Object<'py>,
    count: &Object<'py>,
    replace: bool,
) -> PyResult<Object<'py>> {
    let py = weights.py();
    let count = args::count("multinomial", "count", count)?;
    let mut call = Call::new(py, "multinomial");
    let weights = call.take(weights)?;
    let out = drawn(
        py,
        &call,
        &key.0,
        &Shape::scalar(),
        &[&weights],
        |key, p| random::multinomial(key, None, 1, p.first(), count, replace, DType::I64),
    )?;
    call.give(out)
}

/// Shuffles the rows randomly.
#[pyfunction]
#[pyo3(signature = (key, x, /))]
fn shuffle<'py>(key: &PyKey, x: &Object<'py>) -> PyResult<Object<'py>> {
    let py = x.py();
    let mut call = Call::new(py, "shuffle");
    let x = call.take(x)?;
    if x.rank() == 0 {
        return call.give(x);
    }
    let n = x.shape().known_size(0, "shuffle").or_raise()?;
    let order = drawn(
        py,
        &call,
        &key.0,
        &Shape::from_sizes(&[n]),
        &[],
        |key, _| core::permutation(key, n),
    )?;
    call.one(|| random::reordered(&x, &order, 0))
}

/// Adds the functions to `random`.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    key::install(m)?;
    // Added unwrapped: with the key as first argument they cannot be methods of tensors.
    crate::plain_functions!(m;
        bits uniform normal truncated_normal randint bernoulli permutation laplace gumbel exponential gamma beta poisson
        dirichlet categorical multinomial shuffle);
    super::state::install(m)
}
