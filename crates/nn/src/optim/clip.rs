//! Gradient clipping of trees.

use super::put;
use crate::functional::optimizer_rule::clip;
use clematis_core::tree::{self, Tree};
use clematis_core::{Result, Tensor};

/// The global norm: the 2-norm of all leaves as one vector.
pub fn global_norm(tree: &dyn Tree) -> Result<Tensor> {
    clip::global_norm(&tree::leaves(tree))
}

/// Clips a tree by global norm: scales all leaves if the norm exceeds `most`. Returns the norm.
pub fn clip_by_global_norm(tree: &mut dyn Tree, most: f64) -> Result<Tensor> {
    let (clipped, norm) = clip::clip_by_global_norm(&tree::leaves(tree), most)?;
    put(tree, clipped);
    Ok(norm)
}

/// Clips each element to [low, high].
pub fn clip_by_value(tree: &mut dyn Tree, low: f64, high: f64) -> Result<()> {
    let clipped = clip::clip_by_value(&tree::leaves(tree), low, high)?;
    put(tree, clipped);
    Ok(())
}
