//! A factor that keeps gradients of halves from vanishing.

use super::put;
use crate::functional::step::clip;
use clematis_core::tree::{self, Tree};
use clematis_core::{Result, Tensor, ensure};

/// The loss is multiplied with `scale` and the gradients are divided by it.
///
/// A step whose gradients are not finite is left out, and the scale shrinks; it grows after so many good steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScale {
    /// The factor now.
    pub scale: f64,
    /// What it grows by.
    pub growth: f64,
    /// What it shrinks by.
    pub backoff: f64,
    /// After how many good steps it grows; never for 0.
    pub every: u64,
    /// Good steps since it last changed.
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
    /// Whether its numbers make sense.
    pub fn check(&self) -> Result<()> {
        ensure!(
            self.scale > 0.0 && self.scale.is_finite(),
            Value,
            "LossScale: scale is a number above 0, not {}",
            self.scale
        );
        ensure!(
            self.growth >= 1.0 && self.growth.is_finite(),
            Value,
            "LossScale: growth is at least 1, not {}",
            self.growth
        );
        ensure!(
            self.backoff > 0.0 && self.backoff <= 1.0,
            Value,
            "LossScale: backoff is above 0 and at most 1, not {}",
            self.backoff
        );
        Ok(())
    }

    /// The loss to differentiate.
    pub fn scaled(&self, loss: &Tensor) -> Result<Tensor> {
        (loss * self.scale).done()
    }

    /// Divides gradients by the scale, halves as f32; whether they are all finite.
    pub fn unscale(&self, grads: &mut dyn Tree) -> Result<bool> {
        let new = clip::scaled(&tree::leaves(grads), self.scale.recip())?;
        let finite = clip::all_finite(&new)?;
        put(grads, new);
        Ok(finite)
    }

    /// The scale after a step whose gradients were finite or not.
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
            // Beyond the largest f32 there is no scaled loss.
            next.scale = (self.scale * self.growth).min(2f64.powi(127));
            next.good = 0;
        }
        next
    }
}
