//! User-defined ops.

use crate::error::Result;
use crate::spec::Spec;
use crate::tensor::Tensor;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A user-defined op: its inference, its expansion into other ops and, optionally, its derivative rules.
pub trait CustomOp: Send + Sync {
    /// The name, for messages and graph text.
    fn name(&self) -> &str;
    /// Infers the specs of the results.
    fn infer(&self, inputs: &[&Spec]) -> Result<Vec<Spec>>;
    /// Computes it with other ops.
    fn expand(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>>;
    /// The reverse-mode rule: one cotangent per input. `None`: differentiate the expansion.
    fn vjp(
        &self,
        _inputs: &[&Tensor],
        _outputs: &[&Tensor],
        _cotangents: &[Tensor],
    ) -> Option<Result<Vec<Option<Tensor>>>> {
        None
    }
    /// The forward-mode rule: one tangent per output. `None`: differentiate the expansion.
    fn jvp(
        &self,
        _inputs: &[&Tensor],
        _outputs: &[&Tensor],
        _tangents: &[Option<Tensor>],
    ) -> Option<Result<Vec<Tensor>>> {
        None
    }
    /// Whether `vjp` returns a rule.
    fn has_vjp(&self) -> bool {
        false
    }
    /// Whether `jvp` returns a rule.
    fn has_jvp(&self) -> bool {
        false
    }
}

/// A custom op; compares by identity.
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
