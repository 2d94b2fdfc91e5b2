//! Modules made of modules, and one that puts axes together.

use crate::functional::arrange;
use crate::module::Module;
use crate::stack::Stack;
use clematis_core::tree::{Path, Role, Tree};
use clematis_core::{Result, Tensor};
use clematis_derive::Tree;
use std::fmt;

/// A module that can be cloned behind a pointer and used by several threads; every module that is `Clone`, `Send` and `Sync`
/// is one.
pub trait Layer: Module + Send + Sync {
    /// A copy.
    fn copied(&self) -> Box<dyn Layer>;
}

impl<T: Module + Clone + Send + Sync + 'static> Layer for T {
    fn copied(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}

/// One of the modules.
pub struct Step(Box<dyn Layer>);

impl Clone for Step {
    fn clone(&self) -> Self {
        Step((*self.0).copied())
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Step({:?})", clematis_core::tree::paths(&*self.0))
    }
}

impl Tree for Step {
    fn visit(&self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &Tensor)) {
        (*self.0).visit(at, f);
    }
    fn visit_mut(&mut self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &mut Tensor)) {
        (*self.0).visit_mut(at, f);
    }
}

/// One after the other.
#[derive(Clone, Debug, Tree)]
pub struct Sequential {
    /// The modules.
    pub submodules: Stack<Step>,
}

impl Default for Sequential {
    fn default() -> Self {
        Sequential::new()
    }
}

impl Sequential {
    /// None to begin with.
    pub fn new() -> Self {
        Sequential {
            submodules: Stack::new(Vec::new()),
        }
    }

    /// With one more at the end.
    pub fn then(mut self, module: impl Module + Clone + Send + Sync + 'static) -> Self {
        self.submodules.push(Step(Box::new(module)));
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

/// The axes from one to another as one.
#[derive(Clone, Copy, Debug, Tree)]
pub struct Flatten {
    /// The first of them.
    #[tree(skip)]
    pub start: i64,
    /// The last of them.
    #[tree(skip)]
    pub end: i64,
}

impl Default for Flatten {
    /// All but the batch.
    fn default() -> Self {
        Flatten { start: 1, end: -1 }
    }
}

impl Module for Flatten {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        arrange::flatten(x, self.start, self.end).done()
    }
}
