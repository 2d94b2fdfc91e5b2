//! Gradient accumulation.

use super::put;
use crate::functional::optimizer_rule::clip;
use clematis_core::tree::{self, Tree};
use clematis_core::{Result, Tensor, ensure};

/// Sums gradients and returns their mean after every `every` batches.
#[derive(Clone, Debug)]
pub struct Accumulate {
    /// Number of batches per step.
    pub every: u64,
    /// Number of gradients in the sum.
    pub count: u64,
    /// The sum, half precision as f32; empty at first.
    pub sum: Vec<Tensor>,
}

impl Accumulate {
    /// An empty sum.
    pub fn new(every: u64) -> Result<Accumulate> {
        ensure!(
            every > 0,
            Value,
            "Accumulate: expected a positive every, got {every}"
        );
        Ok(Accumulate {
            every,
            count: 0,
            sum: Vec::new(),
        })
    }

    /// Adds gradients. Returns true when a step is due: the gradients are then replaced by the mean, and the sum is
    /// reset.
    pub fn add(&mut self, grads: &mut dyn Tree) -> Result<bool> {
        let new = tree::leaves(grads);
        let sum = match self.count {
            0 => clip::scaled(&new, 1.0)?,
            _ => {
                ensure!(
                    self.sum.len() == new.len(),
                    Structure,
                    "Accumulate: expected {1} gradients, got {0}",
                    new.len(),
                    self.sum.len()
                );
                clip::summed(&self.sum, &new)?
            }
        };
        if self.count + 1 < self.every {
            (self.sum, self.count) = (sum, self.count + 1);
            return Ok(false);
        }
        put(grads, clip::scaled(&sum, 1.0 / self.every as f64)?);
        (self.sum, self.count) = (Vec::new(), 0);
        Ok(true)
    }
}
