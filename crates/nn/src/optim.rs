//! Optimisers: one formula over the leaves of a tree.

mod adam;
mod sgd;

pub use adam::{Adam, AdamState};
pub use sgd::{Sgd, SgdState};

use clematis_core::tree::{self, Path, Role, Tree};
use clematis_core::{Result, Tensor, bail, ensure};

/// A rule that moves parameters against their gradients.
pub trait Optimizer {
    /// What it remembers between steps.
    type State: Tree;
    /// The state before the first step.
    fn init(&self, params: &dyn Tree) -> Result<Self::State>;
    /// One step; parameters and state change together or, on an error, not at all.
    fn step(&self, params: &mut dyn Tree, grads: &dyn Tree, state: &mut Self::State) -> Result<()>;
}

/// The trained leaves of a tree with their places among all leaves.
fn trained(params: &dyn Tree) -> Vec<(usize, String, Tensor)> {
    let all = tree::entries(params).into_iter().enumerate();
    all.filter(|(_, (_, role, _))| *role == Role::Param)
        .map(|(i, (path, _, x))| (i, path, x))
        .collect()
}

/// Zeros like each trained leaf.
fn zeros(params: &dyn Tree) -> Result<Vec<Tensor>> {
    trained(params)
        .iter()
        .map(|(_, _, x)| clematis_core::ops::zeros_like(x).done())
        .collect()
}

/// New values for the trained leaves from a function of (leaf, gradient, which one), put in all at once.
fn update(
    params: &mut dyn Tree,
    grads: &dyn Tree,
    mut f: impl FnMut(&Tensor, &Tensor, usize) -> Result<Tensor>,
) -> Result<()> {
    let (own, slopes) = (trained(params), trained(grads));
    ensure!(
        own.len() == slopes.len(),
        Value,
        "step: {} gradients for {} parameters",
        slopes.len(),
        own.len()
    );
    let mut leaves = tree::leaves(params);
    for (n, ((place, path, x), (_, other, g))) in own.iter().zip(&slopes).enumerate() {
        if path != other || x.shape() != g.shape() {
            bail!(
                Value,
                "step: parameter `{path}` {} meets gradient `{other}` {}",
                x.spec(),
                g.spec()
            );
        }
        leaves[*place] = f(x, g, n).map_err(|e| e.note(format!("at {path}")))?;
    }
    let mut next = leaves.into_iter();
    params.visit_mut(&mut Path::default(), &mut |_, _, x| {
        if let Some(new) = next.next() {
            *x = new;
        }
    });
    Ok(())
}
