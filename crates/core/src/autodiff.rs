//! To come.
use crate::Op;
impl Op {
    #[allow(missing_docs)]
    pub fn has_rule(&self) -> bool {
        true
    }
}
