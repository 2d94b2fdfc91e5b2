//! The key and the device of a random draw.

use super::key::PyKey;
use crate::error::{OrRaise, exception, instead};
use crate::operand::{Call, LARGE};
use crate::tensor::moved;
use clematis_core::expr::Expr;
use clematis_core::random::Key;
use clematis_core::trace::Trace;
use clematis_core::{Kind, Repr, Shape, Tensor, backend};
use clematis_nn::functional::stream;
use pyo3::prelude::*;
use pyo3::types::PyBool;

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// A seed given by the user.
pub fn seed_number(op: &str, seed: &Object<'_>) -> PyResult<u64> {
    let wrong = |kind| {
        let shown = seed.repr().map(|r| r.to_string()).unwrap_or_default();
        exception(
            kind,
            format!("{op}: takes an integer from 0 to 2⁶³ - 1, not {shown}"),
        )
    };
    if seed.is_instance_of::<PyBool>() {
        return Err(wrong(Kind::DType));
    }
    let index = seed
        .call_method0("__index__")
        .map_err(|e| instead(seed.py(), e, || wrong(Kind::DType)))?;
    match index.extract::<i64>() {
        Ok(n) if n >= 0 => Ok(n as u64),
        _ => Err(wrong(Kind::Value)),
    }
}

/// The key of a draw: the given key, the given seed, or the next key of the implicit stream. Call it after all other
/// checks, because it advances the stream.
pub fn source(op: &str, key: Maybe<'_, '_>, seed: Maybe<'_, '_>) -> PyResult<Key> {
    match (key, seed) {
        (None, None) => Ok(stream::next_key()),
        (None, Some(seed)) => Ok(Key::new(seed_number(op, seed)?)),
        (Some(key), None) => match key.cast::<PyKey>() {
            Ok(key) => Ok(key.get().0.clone()),
            Err(_) => Err(exception(
                Kind::DType,
                format!("{op}: key is one of `random.key`, not {}", key.get_type()),
            )),
        },
        (Some(_), Some(_)) => Err(exception(
            Kind::Value,
            format!("{op}: takes a key or a seed, not both"),
        )),
    }
}

/// Draws on the built-in engine from the values of the parameters and moves the result to the backend of the call; inside
/// a trace the draw is recorded. `shape` is the shape of the result.
pub fn drawn(
    py: Python<'_>,
    call: &Call<'_>,
    key: &Key,
    shape: &Shape,
    parameters: &[&Tensor],
    f: impl FnOnce(&Key, &[Tensor]) -> Expr + Send,
) -> PyResult<Tensor> {
    let known = |x: &Tensor| match x.lowest().repr() {
        Repr::Scalar { .. } => true,
        Repr::Concrete { backend, .. } => backend.has_values(x.lowest()),
        Repr::Traced { .. } => false,
    };
    if Trace::innermost_abstract().is_some() || !parameters.iter().all(|x| known(x)) {
        let list: Vec<Tensor> = parameters.iter().map(|&x| x.clone()).collect();
        return call.run(|| f(key, &list).done()).or_raise();
    }
    let engine = backend::find("native").or_raise()?;
    let backend = match call.backend() {
        Some(backend) => backend,
        None => backend::current().or_raise()?,
    };
    let own = parameters
        .iter()
        .map(|x| match x.lowest() {
            x if x.as_number().is_some() => Ok(x.clone()),
            x => moved(py, x, engine),
        })
        .collect::<PyResult<Vec<_>>>()?;
    let draw = || backend::with(engine, || f(key, &own).done());
    let large = own
        .iter()
        .map(|x| x.shape())
        .chain([shape])
        .any(|s| s.count() > LARGE);
    let out = if large {
        crate::backend::detached(py, draw)
    } else {
        draw()
    }
    .or_raise()?;
    moved(py, &out, backend)
}
