//! What a layer is.

use clematis_core::tree::{self, Role, Tree};
use clematis_core::{Result, Tensor};

/// A tree of parameters with a function.
pub trait Module: Tree {
    /// The function.
    fn forward(&self, x: &Tensor) -> Result<Tensor>;

    /// The function while training, where it differs: `BatchNorm` normalises by the batch and moves its running statistics. A
    /// module that holds others calls theirs. For the gradient of a loss that calls it, see
    /// [`JitStep::with_state`](crate::JitStep::with_state).
    fn forward_train(&mut self, x: &Tensor) -> Result<Tensor> {
        self.forward(x)
    }
}

/// How many numbers are trained.
pub fn parameter_count(tree: &(impl Tree + ?Sized)) -> usize {
    tree::entries(tree)
        .iter()
        .filter(|(_, role, _)| *role == Role::Param)
        .map(|(_, _, x)| x.shape().count())
        .sum()
}
