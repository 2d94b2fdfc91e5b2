//! Dropout.

use clematis_core::random::{self, Key};
use clematis_core::{Result, Tensor};

/// Zeroes a share of the elements while training and scales up the rest.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// The share.
    pub rate: f64,
}

impl Dropout {
    /// Drops by this key; without one, as in evaluation, leaves `x` as it is.
    pub fn forward(&self, x: &Tensor, key: Option<&Key>) -> Result<Tensor> {
        match key {
            Some(key) => random::dropout(x, key, self.rate).done(),
            None => Ok(x.clone()),
        }
    }
}
