//! First values of parameters.

use crate::functional::orthogonal::random_orthogonal;
use clematis_core::random::{self, Key};
use clematis_core::{DType, IntoShape, Result, Tensor, ensure, ops};

/// Uniform on [-bound, bound).
pub fn uniform(shape: impl IntoShape, bound: f64, key: &Key) -> Result<Tensor> {
    random::uniform(key, shape, -bound, bound, DType::F32).done()
}

/// Normal with this standard deviation.
pub fn normal(shape: impl IntoShape, std: f64, key: &Key) -> Result<Tensor> {
    random::normal(key, shape, 0.0, std, DType::F32).done()
}

/// Normal with this standard deviation, drawn anew beyond two of it.
pub fn truncated_normal(shape: impl IntoShape, std: f64, key: &Key) -> Result<Tensor> {
    (random::truncated_normal(key, shape, -2.0, 2.0, DType::F32) * std).done()
}

/// Uniform within √(6 / (fan in + fan out)) (Glorot and Bengio 2010): what layers begin with.
pub fn glorot_uniform(
    shape: impl IntoShape,
    fan_in: usize,
    fan_out: usize,
    key: &Key,
) -> Result<Tensor> {
    uniform(
        shape,
        root("glorot_uniform", 6.0, fan_in.saturating_add(fan_out))?,
        key,
    )
}

/// Normal with a variance of 2 / (fan in + fan out).
pub fn glorot_normal(
    shape: impl IntoShape,
    fan_in: usize,
    fan_out: usize,
    key: &Key,
) -> Result<Tensor> {
    normal(
        shape,
        root("glorot_normal", 2.0, fan_in.saturating_add(fan_out))?,
        key,
    )
}

/// Normal with a variance of 2 / fan in, which keeps the size of signals through rectifiers (He et al. 2015).
pub fn he_normal(shape: impl IntoShape, fan_in: usize, key: &Key) -> Result<Tensor> {
    normal(shape, root("he_normal", 2.0, fan_in)?, key)
}

/// Uniform within √(6 / fan in), for rectifiers.
pub fn he_uniform(shape: impl IntoShape, fan_in: usize, key: &Key) -> Result<Tensor> {
    uniform(shape, root("he_uniform", 6.0, fan_in)?, key)
}

/// Normal with a variance of 1 / fan in.
pub fn lecun_normal(shape: impl IntoShape, fan_in: usize, key: &Key) -> Result<Tensor> {
    normal(shape, root("lecun_normal", 1.0, fan_in)?, key)
}

/// Uniform within √(3 / fan in).
pub fn lecun_uniform(shape: impl IntoShape, fan_in: usize, key: &Key) -> Result<Tensor> {
    uniform(shape, root("lecun_uniform", 3.0, fan_in)?, key)
}

/// Columns, or rows, at right angles and of length `gain`; all axes but the last are one.
pub fn orthogonal(shape: impl IntoShape, gain: f64, key: &Key) -> Result<Tensor> {
    random_orthogonal(key, &shape.into_shape()?, gain, DType::F32).done()
}

/// The square root of a number divided by a fan, as Python's `**` computes it.
fn root(op: &str, numerator: f64, fan: usize) -> Result<f64> {
    ensure!(fan > 0, Value, "{op}: a fan of {fan}");
    Ok((numerator / fan as f64).powf(0.5))
}

/// Zeros.
pub fn zeros(shape: impl IntoShape) -> Result<Tensor> {
    ops::zeros(shape, DType::F32).done()
}

/// Ones.
pub fn ones(shape: impl IntoShape) -> Result<Tensor> {
    ops::ones(shape, DType::F32).done()
}
