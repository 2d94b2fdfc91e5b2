//! Keys, the stream, and draws.
//!
//! A draw that Python asks for outside of a trace is made by the built-in engine and handed to the backend that it is for,
//! so its bits are the same on all of them; inside a trace it is recorded as ops.

mod key;
mod keyed;
mod source;
mod state;

pub use keyed::install as install_keyed;
pub use source::{drawn, source};

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

/// The keyword under which a tensor stands in a method of these functions, which take no array by position.
pub fn method_keyword(name: &str) -> Option<&'static str> {
    match name {
        "random_uniform" => Some("low"),
        "random_normal" => Some("mean"),
        "multinomial" => Some("probs"),
        _ => None,
    }
}

/// A shape that may be left out.
fn maybe_shape(op: &str, x: Maybe<'_, '_>) -> PyResult<Option<Shape>> {
    x.map(|x| args::shape(op, x)).transpose()
}

fn number_or<'py>(call: &mut Call<'py>, x: Maybe<'_, 'py>, other: f64) -> PyResult<Tensor> {
    Ok(call.maybe(x)?.unwrap_or_else(|| Tensor::number(other)))
}

/// Uniform numbers in [low, high).
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
    let mut call = Call::new(py, op);
    let (low, high) = (
        number_or(&mut call, low, 0.0)?,
        number_or(&mut call, high, 1.0)?,
    );
    args::device(op, device)?;
    let shape = maybe_shape(op, shape)?;
    let shape = random::shape_of(op, ["low", "high"], &low, &high, shape).or_raise()?;
    let dtype = random::float_dtype(&[&low, &high], dtype::maybe(dtype)?);
    let wide = random::draw_dtype(op, dtype).or_raise()?;
    random::check_uniform(&low, &high).or_raise()?;
    let key = source(op, key, seed)?;
    if low.as_number().is_some() && high.as_number().is_some() {
        let out = drawn(py, &call, &key, &shape, &[], |key, _| {
            random::unit(key, &shape, wide).then(|u| random::to_uniform(&u, &low, &high, dtype))
        })?;
        return call.give(out);
    }
    let unit = drawn(py, &call, &key, &shape, &[], |key, _| {
        random::unit(key, &shape, wide)
    })?;
    call.one(|| random::to_uniform(&unit, &low, &high, dtype))
}

/// Normal numbers.
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
    let mut call = Call::new(py, op);
    let (mean, std) = (
        number_or(&mut call, mean, 0.0)?,
        number_or(&mut call, std, 1.0)?,
    );
    args::device(op, device)?;
    let shape = maybe_shape(op, shape)?;
    let shape = random::shape_of(op, ["mean", "std"], &mean, &std, shape).or_raise()?;
    let dtype = random::float_dtype(&[&mean, &std], dtype::maybe(dtype)?);
    let wide = random::draw_dtype(op, dtype).or_raise()?;
    random::check_normal(&std).or_raise()?;
    let key = source(op, key, seed)?;
    if mean.as_number().is_some() && std.as_number().is_some() {
        let out = drawn(py, &call, &key, &shape, &[], |key, _| {
            random::standard_normal(key, &shape, wide)
                .then(|z| random::to_normal(&z, &mean, &std, dtype))
        })?;
        return call.give(out);
    }
    let z = drawn(py, &call, &key, &shape, &[], |key, _| {
        random::standard_normal(key, &shape, wide)
    })?;
    call.one(|| random::to_normal(&z, &mean, &std, dtype))
}

/// Numbers of categories: by weights, or even ones of so many for each of a batch.
#[pyfunction]
#[pyo3(signature = (population_size, num_samples, /, *, batch_size=1, probs=None, replace=true, device=None, dtype=None,
    seed=None, key=None))]
#[allow(clippy::too_many_arguments)]
fn multinomial<'py>(
    py: Python<'py>,
    population_size: Option<usize>,
    num_samples: usize,
    batch_size: usize,
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

/// Whole numbers in [low, high).
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

/// Parts along an axis in random order.
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

/// 1 with a probability, or with that of a logit; 0 else.
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
    let mut call = Call::new(py, op);
    let (given, by_logits) = match (call.maybe(probs)?, call.maybe(logits)?) {
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
    let shape = random::broadcast_shape(op, &[&given], maybe_shape(op, shape)?).or_raise()?;
    let dtype = random::float_dtype(&[&given], dtype::maybe(dtype)?);
    let key = source(op, key, seed)?;
    let out = drawn(py, &call, &key, &shape, &[&given], |key, p| {
        let (probs, logits) = match by_logits {
            true => (None, p.first()),
            false => (p.first(), None),
        };
        random::bernoulli(key, &shape, probs, logits, dtype)
    })?;
    call.give(out)
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
            let py = $a.py();
            let mut call = Call::new(py, op);
            let (a, b) = (call.take($a)?, call.take($b)?);
            args::device(op, device)?;
            let shape = random::broadcast_shape(op, &[&a, &b], maybe_shape(op, shape)?).or_raise()?;
            let dtype = random::float_dtype(&[&a, &b], dtype::maybe(dtype)?);
            let key = source(op, key, seed)?;
            let draw: fn(&Key, &Shape, &Tensor, &Tensor, DType) -> Expr = $function;
            let out = drawn(py, &call, &key, &shape, &[&a, &b], |key, p| draw(key, &shape, &p[0], &p[1], dtype))?;
            call.give(out)
        }
    )* };
}
of_two! {
    /// Beta by both parameters.
    beta a b |key, shape, a, b, dtype| clematis_core::random::beta(key, shape, a, b, dtype);
    /// Gamma by shape (alpha) and rate (beta).
    gamma alpha beta random::gamma;
}

/// Vectors that sum to one, by parameters for each of their places.
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
    let dtype = random::float_dtype(&[&alpha], dtype::maybe(dtype)?);
    let key = source(op, key, seed)?;
    let out = drawn(py, &call, &key, &size, &[&alpha], |key, p| {
        clematis_core::random::dirichlet(key, &size, &p[0], dtype)
    })?;
    call.give(out)
}

/// Poisson numbers of a rate.
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
    let py = lam.py();
    let mut call = Call::new(py, op);
    let rate = call.take(lam)?;
    args::device(op, device)?;
    let shape = random::broadcast_shape(op, &[&rate], maybe_shape(op, shape)?).or_raise()?;
    let dtype = random::float_dtype(&[&rate], dtype::maybe(dtype)?);
    let key = source(op, key, seed)?;
    let out = drawn(py, &call, &key, &shape, &[&rate], |key, p| {
        clematis_core::random::poisson(key, &shape, &p[0], dtype)
    })?;
    call.give(out)
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m;
        random_uniform random_normal multinomial randint shuffle bernoulli beta gamma dirichlet poisson);
    state::install_seed(m)
}
