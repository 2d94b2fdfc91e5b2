//! The linear layer.

use crate::init;
use crate::module::Module;
use clematis_core::random::Key;
use clematis_core::{Result, Tensor, ops};
use clematis_derive::Tree;

/// `y = x wᵀ + b` over the last axis.
#[derive(Clone, Debug, Tree)]
pub struct Linear {
    /// `[outputs, inputs]`.
    pub w: Tensor,
    /// `[outputs]`.
    pub b: Option<Tensor>,
}

impl Linear {
    /// Uniform within 1/√inputs, as in torch.
    pub fn new(inputs: usize, outputs: usize, key: &Key) -> Result<Self> {
        let (w, b) = key.split();
        let bound = (inputs.max(1) as f64).sqrt().recip();
        Ok(Linear {
            w: init::uniform([outputs, inputs], bound, &w)?,
            b: Some(init::uniform([outputs], bound, &b)?),
        })
    }
}

impl Module for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::linear(x, &self.w, self.b.as_ref()).done()
    }
}
