//! `Sequential`, and the `Flatten` layer.

use crate::functional::mask;
use crate::module::Module;
use crate::stack::Stack;
use clematis_core::tree::{Path, Role, Tree};
use clematis_core::{Result, Tensor};
use clematis_derive::Tree;
use std::fmt;

/// A module that can be cloned as a trait object and shared between threads; implemented for every module that is
/// `Clone`, `Send` and `Sync`.
pub trait Layer: Module + Send + Sync {
    /// A boxed clone.
    fn copied(&self) -> Box<dyn Layer>;
}

impl<T: Module + Clone + Send + Sync + 'static> Layer for T {
    fn copied(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}

/// A module as a trait object.
pub struct BoxedLayer(Box<dyn Layer>);

impl Clone for BoxedLayer {
    fn clone(&self) -> Self {
        BoxedLayer((*self.0).copied())
    }
}

impl fmt::Debug for BoxedLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoxedLayer({:?})", clematis_core::tree::paths(&*self.0))
    }
}

impl Tree for BoxedLayer {
    fn visit(&self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &Tensor)) {
        (*self.0).visit(at, f);
    }
    fn visit_mut(&mut self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &mut Tensor)) {
        (*self.0).visit_mut(at, f);
    }
}

/// Applies modules one after the other.
#[derive(Clone, Debug, Tree)]
pub struct Sequential {
    /// The modules.
    pub submodules: Stack<BoxedLayer>,
}

impl Default for Sequential {
    fn default() -> Self {
        Sequential::new()
    }
}

impl Sequential {
    /// An empty sequence.
    pub fn new() -> Self {
        Sequential {
            submodules: Stack::new(Vec::new()),
        }
    }

    /// Appends a module.
    pub fn then(mut self, module: impl Module + Clone + Send + Sync + 'static) -> Self {
        self.submodules.push(BoxedLayer(Box::new(module)));
        self
    }
}

impl Module for Sequential {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut steps = self.submodules.iter();
        steps.try_fold(x.clone(), |x, step| step.0.forward(&x))
    }

    fn forward_train(&mut self, x: &Tensor) -> Result<Tensor> {
        let mut steps = self.submodules.iter_mut();
        steps.try_fold(x.clone(), |x, step| step.0.forward_train(&x))
    }
}

/// Flattens a range of axes into one.
#[derive(Clone, Copy, Debug, Tree)]
pub struct Flatten {
    /// The first axis.
    #[tree(skip)]
    pub start: i64,
    /// The last axis.
    #[tree(skip)]
    pub end: i64,
}

impl Default for Flatten {
    /// Flattens all axes but the batch.
    fn default() -> Self {
        Flatten { start: 1, end: -1 }
    }
}

impl Module for Flatten {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        mask::flatten(x, self.start, self.end).done()
    }
}
