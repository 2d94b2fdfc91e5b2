//! The dropout layer.

use clematis_core::random::{self, Key};
use clematis_core::{Result, Tensor};

/// Dropout: in training, zeroes a fraction `rate` of the elements and scales the rest by 1 / (1 - rate).
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// The fraction of elements to drop.
    pub rate: f64,
}

impl Dropout {
    /// Applies dropout with this key; without one (in evaluation) returns `x` unchanged.
    pub fn forward(&self, x: &Tensor, key: Option<&Key>) -> Result<Tensor> {
        match key {
            Some(key) => random::dropout(x, key, self.rate).done(),
            None => Ok(x.clone()),
        }
    }
}
