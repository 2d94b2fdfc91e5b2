//! Adam (Kingma and Ba 2015).

use super::{Optimizer, update, zeros};
use clematis_core::ops::Ops;
use clematis_core::tree::Tree;
use clematis_core::{Result, Tensor, ensure};
use clematis_derive::Tree;

/// Steps by the mean of gradients over the root of the mean of their squares.
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    /// Step size.
    pub lr: f64,
    /// Memory of the mean.
    pub beta1: f64,
    /// Memory of the squares.
    pub beta2: f64,
    /// Keeps the quotient finite.
    pub epsilon: f64,
}

impl Adam {
    /// The usual constants.
    pub fn new(lr: f64) -> Self {
        Adam {
            lr,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
        }
    }
}

/// Running means, and the number of steps taken.
#[derive(Clone, Debug, Tree)]
pub struct AdamState {
    /// Of gradients.
    pub mean: Vec<Tensor>,
    /// Of their squares.
    pub square: Vec<Tensor>,
    /// Steps taken.
    #[tree(skip)]
    pub steps: u64,
}

impl Optimizer for Adam {
    type State = AdamState;

    fn init(&self, params: &dyn Tree) -> Result<AdamState> {
        Ok(AdamState {
            mean: zeros(params)?,
            square: zeros(params)?,
            steps: 0,
        })
    }

    fn step(&self, params: &mut dyn Tree, grads: &dyn Tree, state: &mut AdamState) -> Result<()> {
        let mut next = state.clone();
        next.steps += 1;
        let t = next.steps as f64;
        // Both means start at zero and are scaled up by what is missing.
        let (c1, c2) = (1.0 - self.beta1.powf(t), 1.0 - self.beta2.powf(t));
        let count = next.mean.len();
        update(params, grads, |x, g, i| {
            ensure!(i < count, Value, "step: the state is of {count} parameters");
            next.mean[i] = (&next.mean[i] * self.beta1 + g * (1.0 - self.beta1)).done()?;
            next.square[i] =
                (&next.square[i] * self.beta2 + g.square() * (1.0 - self.beta2)).done()?;
            let root = (&next.square[i] / c2).sqrt() + self.epsilon;
            (x - &next.mean[i] * (self.lr / c1) / root).done()
        })?;
        *state = next;
        Ok(())
    }
}
