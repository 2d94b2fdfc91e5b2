//! Parameter initialisers.

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

/// Normal with this standard deviation, truncated at two standard deviations.
pub fn truncated_normal(shape: impl IntoShape, std: f64, key: &Key) -> Result<Tensor> {
    (random::truncated_normal(key, shape, -2.0, 2.0, DType::F32) * std).done()
}

/// Glorot uniform: within √(6 / (fan in + fan out)) (Glorot and Bengio 2010). The default of layers.
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

/// Glorot normal: variance 2 / (fan in + fan out).
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

/// He normal: variance 2 / fan in, which preserves variance through ReLUs (He et al. 2015).
pub fn he_normal(shape: impl IntoShape, fan_in: usize, key: &Key) -> Result<Tensor> {
    normal(shape, root("he_normal", 2.0, fan_in)?, key)
}

/// He uniform: within √(6 / fan in), for ReLUs.
pub fn he_uniform(shape: impl IntoShape, fan_in: usize, key: &Key) -> Result<Tensor> {
    uniform(shape, root("he_uniform", 6.0, fan_in)?, key)
}

/// LeCun normal: variance 1 / fan in.
pub fn lecun_normal(shape: impl IntoShape, fan_in: usize, key: &Key) -> Result<Tensor> {
    normal(shape, root("lecun_normal", 1.0, fan_in)?, key)
}

/// LeCun uniform: within √(3 / fan in).
pub fn lecun_uniform(shape: impl IntoShape, fan_in: usize, key: &Key) -> Result<Tensor> {
    uniform(shape, root("lecun_uniform", 3.0, fan_in)?, key)
}

/// Orthogonal columns, or rows, of norm `gain`; all axes but the last are flattened.
pub fn orthogonal(shape: impl IntoShape, gain: f64, key: &Key) -> Result<Tensor> {
    random_orthogonal(key, &shape.into_shape()?, gain, DType::F32).done()
}

/// The square root of `numerator / fan`, computed as Python's `**` does.
fn root(op: &str, numerator: f64, fan: usize) -> Result<f64> {
    ensure!(fan > 0, Value, "{op}: expected a positive fan, got {fan}");
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
