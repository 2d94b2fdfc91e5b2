//! The `Module` trait.

use clematis_core::tree::{self, Role, Tree};
use clematis_core::{Result, Tensor};

/// A layer or model: a tree of parameters with a forward function.
pub trait Module: Tree {
    /// The forward pass.
    fn forward(&self, x: &Tensor) -> Result<Tensor>;

    /// The forward pass in training, where it differs: `BatchNorm` normalises by the batch and updates its running
    /// statistics. A module with submodules calls their `forward_train`. For the gradient of a loss that calls it,
    /// see [`JitStep::with_state`](crate::JitStep::with_state).
    fn forward_train(&mut self, x: &Tensor) -> Result<Tensor> {
        self.forward(x)
    }
}

/// Number of trained scalars.
pub fn parameter_count(tree: &(impl Tree + ?Sized)) -> usize {
    tree::entries(tree)
        .iter()
        .filter(|(_, role, _)| *role == Role::Param)
        .map(|(_, _, x)| x.shape().count())
        .sum()
}
