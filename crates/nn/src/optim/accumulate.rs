//! One step for the gradients of several batches.

use super::put;
use crate::functional::step::clip;
use clematis_core::tree::{self, Tree};
use clematis_core::{Result, Tensor, ensure};

/// Adds gradients up and gives their mean after every so many.
#[derive(Clone, Debug)]
pub struct Accumulate {
    /// How many gradients make one step.
    pub every: u64,
    /// How many are in the sum.
    pub count: u64,
    /// The sum, halves as f32; empty at first.
    pub sum: Vec<Tensor>,
}

impl Accumulate {
    /// With nothing in the sum.
    pub fn new(every: u64) -> Result<Accumulate> {
        ensure!(
            every > 0,
            Value,
            "Accumulate: every is a whole number from 1 on, not {every}"
        );
        Ok(Accumulate {
            every,
            count: 0,
            sum: Vec::new(),
        })
    }

    /// Takes gradients. True where a step is due: the gradients are then the mean, and the sum starts anew.
    pub fn add(&mut self, grads: &mut dyn Tree) -> Result<bool> {
        let new = tree::leaves(grads);
        let sum = match self.count {
            0 => clip::scaled(&new, 1.0)?,
            _ => {
                ensure!(
                    self.sum.len() == new.len(),
                    Structure,
                    "Accumulate: {} gradients after {}",
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
