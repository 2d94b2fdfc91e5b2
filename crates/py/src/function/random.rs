//! Keys and draws.

use crate::args::shape;
use crate::dtype;
use crate::error::{OrRaise, exception};
use crate::tensor::PyTensor;
use clematis_core::expr::Expr;
use clematis_core::random::{self, Key};
use clematis_core::{DType, Kind};
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyTuple};

type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// The source of a draw. Use a key once: split it for more.
#[pyclass(frozen, name = "Key", module = "clematis.random")]
pub struct PyKey(pub Key);

#[pymethods]
impl PyKey {
    /// So many new keys, two unless told otherwise.
    #[pyo3(signature = (n=2, /))]
    fn split<'py>(&self, py: Python<'py>, n: usize) -> PyResult<Bound<'py, PyTuple>> {
        let keys = self
            .0
            .split_n(n)
            .into_iter()
            .map(|k| Bound::new(py, PyKey(k)))
            .collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, keys)
    }

    /// The key for the n-th of something: a step, a layer, a worker.
    fn fold_in(&self, n: u64) -> PyKey {
        PyKey(self.0.fold_in(n))
    }

    /// The two words that it is made of, as a tensor u32[2].
    fn words(&self) -> PyResult<PyTensor> {
        let tensor = self.0.words().done().or_raise()?;
        Ok(PyTensor { tensor })
    }

    fn __repr__(&self) -> String {
        match self.0.words().done().and_then(|w| w.to_vec::<u32>()) {
            Ok(words) => format!("Key({:#010x}, {:#010x})", words[0], words[1]),
            Err(_) => "Key(traced)".into(),
        }
    }
}

/// The key of a seed.
#[pyfunction]
#[pyo3(signature = (seed, /))]
fn key(seed: i64) -> PyResult<PyKey> {
    match u64::try_from(seed) {
        Ok(seed) => Ok(PyKey(Key::new(seed))),
        Err(_) => Err(exception(
            Kind::Value,
            format!("key: seed {seed} is negative"),
        )),
    }
}

fn made(out: Expr) -> PyResult<PyTensor> {
    Ok(PyTensor {
        tensor: out.done().or_raise()?,
    })
}

fn sizes(op: &str, x: Maybe<'_, '_>) -> PyResult<clematis_core::Shape> {
    match x {
        Some(x) => shape(op, x),
        None => Ok(clematis_core::Shape::scalar()),
    }
}

/// Random bits as unsigned integers.
#[pyfunction]
#[pyo3(signature = (key, shape=None, *, dtype=None))]
fn bits(key: &PyKey, shape: Maybe<'_, '_>, dtype: Maybe<'_, '_>) -> PyResult<PyTensor> {
    let dtype = dtype::maybe(dtype)?.unwrap_or(DType::U32);
    made(key.0.bits(dtype, &sizes("bits", shape)?))
}

/// Uniform numbers in [low, high).
#[pyfunction]
#[pyo3(signature = (key, shape=None, *, low=0.0, high=1.0, dtype=None))]
fn uniform(
    key: &PyKey,
    shape: Maybe<'_, '_>,
    low: f64,
    high: f64,
    dtype: Maybe<'_, '_>,
) -> PyResult<PyTensor> {
    let dtype = dtype::maybe(dtype)?.unwrap_or(DType::FLOAT);
    made(random::uniform(
        &key.0,
        &sizes("uniform", shape)?,
        low,
        high,
        dtype,
    ))
}

/// Normal numbers.
#[pyfunction]
#[pyo3(signature = (key, shape=None, *, mean=0.0, std=1.0, dtype=None))]
fn normal(
    key: &PyKey,
    shape: Maybe<'_, '_>,
    mean: f64,
    std: f64,
    dtype: Maybe<'_, '_>,
) -> PyResult<PyTensor> {
    let dtype = dtype::maybe(dtype)?.unwrap_or(DType::FLOAT);
    made(random::normal(
        &key.0,
        &sizes("normal", shape)?,
        mean,
        std,
        dtype,
    ))
}

/// Integers in [low, high).
#[pyfunction]
#[pyo3(signature = (key, shape=None, *, low=0, high, dtype=None))]
fn randint(
    key: &PyKey,
    shape: Maybe<'_, '_>,
    low: i64,
    high: i64,
    dtype: Maybe<'_, '_>,
) -> PyResult<PyTensor> {
    let dtype = dtype::maybe(dtype)?.unwrap_or(DType::INDEX);
    made(random::randint(
        &key.0,
        &sizes("randint", shape)?,
        low,
        high,
        dtype,
    ))
}

/// True with a probability.
#[pyfunction]
#[pyo3(signature = (key, shape=None, *, p=0.5))]
fn bernoulli(key: &PyKey, shape: Maybe<'_, '_>, p: f64) -> PyResult<PyTensor> {
    made(random::bernoulli(&key.0, &sizes("bernoulli", shape)?, p))
}

/// The numbers 0 … n-1 in random order.
#[pyfunction]
#[pyo3(signature = (key, n, /))]
fn permutation(key: &PyKey, n: usize) -> PyResult<PyTensor> {
    made(random::permutation(&key.0, n))
}

/// Adds the functions to `random`.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyKey>()?;
    crate::functions!(m; key bits uniform normal randint bernoulli permutation);
    Ok(())
}
