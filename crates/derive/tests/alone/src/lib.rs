//! Tests `#[derive(Tree)]` in a crate that depends on `clematis` only.

use clematis::Tree;

/// A user-defined layer.
#[derive(Clone, Tree)]
pub struct Layer {
    /// Trained.
    pub w: clematis::Tensor,
    /// Not a tree.
    #[tree(skip)]
    pub outputs: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_derived_where_clematis_is_the_only_dependency() {
        let layer = Layer {
            w: clematis::Tensor::number(1.0),
            outputs: 1,
        };
        assert_eq!(clematis::tree::paths(&layer), ["w"]);
    }
}
