//! First values of parameters.

use clematis_core::random::{self, Key};
use clematis_core::{DType, IntoShape, Result, Tensor, ops};

/// Uniform on [-bound, bound).
pub fn uniform(shape: impl IntoShape, bound: f64, key: &Key) -> Result<Tensor> {
    random::uniform(key, shape, -bound, bound, DType::F32).done()
}

/// Normal with a variance of 2 / fan in, which keeps the size of signals through rectifiers (He et al. 2015).
pub fn he_normal(shape: impl IntoShape, fan_in: usize, key: &Key) -> Result<Tensor> {
    let std = (2.0 / fan_in.max(1) as f64).sqrt();
    random::normal(key, shape, 0.0, std, DType::F32).done()
}

/// Zeros.
pub fn zeros(shape: impl IntoShape) -> Result<Tensor> {
    ops::zeros(shape, DType::F32).done()
}
