//! Loss scaling for half-precision gradients.

use super::put;
use crate::functional::optimizer_rule::clip;
use clematis_core::tree::{self, Tree};
use clematis_core::{Result, Tensor, ensure};

/// Dynamic loss scaling: the loss is multiplied by `scale` and the gradients are divided by it.
///
/// A step with non-finite gradients is skipped and the scale shrinks; after `every` finite steps it grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScale {
    /// The current scale.
    pub scale: f64,
    /// Growth factor.
    pub growth: f64,
    /// Backoff factor.
    pub backoff: f64,
    /// Number of finite steps after which it grows; 0 for never.
    pub every: u64,
    /// Finite steps since the last change.
    pub good: u64,
}

impl Default for LossScale {
    fn default() -> Self {
        LossScale {
            scale: 65536.0,
            growth: 2.0,
            backoff: 0.5,
            every: 2000,
            good: 0,
        }
    }
}

impl LossScale {
    /// Checks the hyperparameters.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.scale > 0.0 && self.scale.is_finite(),
            Value,
            "LossScale: expected a positive scale, got {}",
            self.scale
        );
        ensure!(
            self.growth >= 1.0 && self.growth.is_finite(),
            Value,
            "LossScale: expected a growth of at least 1, got {}",
            self.growth
        );
        ensure!(
            self.backoff > 0.0 && self.backoff <= 1.0,
            Value,
            "LossScale: expected backoff in (0, 1], got {}",
            self.backoff
        );
        Ok(())
    }

    /// The scaled loss, to be differentiated.
    pub fn scaled(&self, loss: &Tensor) -> Result<Tensor> {
        (loss * self.scale).done()
    }

    /// Divides gradients by the scale, half precision as f32; returns whether all are finite.
    pub fn unscale(&self, grads: &mut dyn Tree) -> Result<bool> {
        let new = clip::scaled(&tree::leaves(grads), self.scale.recip())?;
        let finite = clip::all_finite(&new)?;
        put(grads, new);
        Ok(finite)
    }

    /// The scale after a step, depending on whether its gradients were finite.
    pub fn next(&self, finite: bool) -> LossScale {
        let mut next = *self;
        if !finite {
            // A scale of zero would make every gradient NaN.
            next.scale = (self.scale * self.backoff).max(f64::from(f32::MIN_POSITIVE));
            next.good = 0;
            return next;
        }
        next.good += 1;
        if self.every > 0 && next.good >= self.every {
            // A larger scale would overflow f32.
            next.scale = (self.scale * self.growth).min(2f64.powi(127));
            next.good = 0;
        }
        next
    }
}
