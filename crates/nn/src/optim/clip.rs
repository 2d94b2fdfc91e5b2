//! Gradients made shorter before a step.

use super::put;
use crate::functional::step::clip;
use clematis_core::tree::{self, Tree};
use clematis_core::{Result, Tensor};

/// The length of all leaves as one vector.
pub fn global_norm(tree: &dyn Tree) -> Result<Tensor> {
    clip::global_norm(&tree::leaves(tree))
}

/// Makes all leaves shorter together where their length is more than `most`; returns that length.
pub fn clip_by_global_norm(tree: &mut dyn Tree, most: f64) -> Result<Tensor> {
    let (clipped, norm) = clip::clip_by_global_norm(&tree::leaves(tree), most)?;
    put(tree, clipped);
    Ok(norm)
}

/// Holds each element between two numbers.
pub fn clip_by_value(tree: &mut dyn Tree, low: f64, high: f64) -> Result<()> {
    let clipped = clip::clip_by_value(&tree::leaves(tree), low, high)?;
    put(tree, clipped);
    Ok(())
}
