//! Gradient descent with momentum.

use super::{Optimizer, update, zeros};
use clematis_core::tree::Tree;
use clematis_core::{Result, Tensor, ensure};
use clematis_derive::Tree;

/// Steps by a running sum of gradients.
#[derive(Clone, Copy, Debug)]
pub struct Sgd {
    /// Step size.
    pub lr: f64,
    /// Memory of the sum; 0 for plain descent.
    pub momentum: f64,
}

/// The running sums.
#[derive(Clone, Debug, Tree)]
pub struct SgdState {
    /// One per parameter.
    pub velocity: Vec<Tensor>,
}

impl Optimizer for Sgd {
    type State = SgdState;

    fn init(&self, params: &dyn Tree) -> Result<SgdState> {
        Ok(SgdState {
            velocity: zeros(params)?,
        })
    }

    fn step(&self, params: &mut dyn Tree, grads: &dyn Tree, state: &mut SgdState) -> Result<()> {
        let mut next = state.clone();
        let count = next.velocity.len();
        update(params, grads, |x, g, i| {
            ensure!(i < count, Value, "step: the state is of {count} parameters");
            next.velocity[i] = (&next.velocity[i] * self.momentum + g).done()?;
            (x - &next.velocity[i] * self.lr).done()
        })?;
        *state = next;
        Ok(())
    }
}
