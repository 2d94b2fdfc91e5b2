//! The engine's type. `lib.rs` implements `Backend` for it: kernels name the backend of the tensors they make, and stand above
//! their dispatch.

use clematis_core::Backend;

/// The engine.
pub struct Native;

static NATIVE: Native = Native;

/// The engine as a backend of tensors.
pub fn backend() -> &'static dyn Backend {
    &NATIVE
}
