//! The one open door in the closed list of ops.

use crate::error::Result;
use crate::spec::Spec;
use crate::tensor::Tensor;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// An op that a user brings: what comes out, how it is computed from other ops, and, if wished, its own derivative.
pub trait CustomOp: Send + Sync {
    /// The name in messages and graph text.
    fn name(&self) -> &str;
    /// What comes out.
    fn infer(&self, inputs: &[&Spec]) -> Result<Vec<Spec>>;
    /// Computes it with other ops.
    fn expand(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>>;
    /// Its own reverse rule: one cotangent per input. `None`: differentiate the expansion.
    fn vjp(
        &self,
        _inputs: &[&Tensor],
        _outputs: &[&Tensor],
        _cotangents: &[Tensor],
    ) -> Option<Result<Vec<Option<Tensor>>>> {
        None
    }
    /// Its own forward rule: one tangent per output. `None`: differentiate the expansion.
    fn jvp(
        &self,
        _inputs: &[&Tensor],
        _outputs: &[&Tensor],
        _tangents: &[Option<Tensor>],
    ) -> Option<Result<Vec<Tensor>>> {
        None
    }
    /// Whether `vjp` answers.
    fn has_vjp(&self) -> bool {
        false
    }
    /// Whether `jvp` answers.
    fn has_jvp(&self) -> bool {
        false
    }
}

/// A custom op, equal to itself only.
#[derive(Clone)]
pub struct Custom(pub Arc<dyn CustomOp>);

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for Custom {}
impl Hash for Custom {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).cast::<()>().hash(state);
    }
}
impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}
