//! Layers and optimisers over the core's public functions.
//!
//! A layer is a plain struct of tensors with `#[derive(Tree)]`: its fields are its parameters. Nothing here looks at a
//! backend.

pub mod module;
pub mod init;
pub mod linear;
pub mod conv;
pub mod dropout;
pub mod functional;
pub mod optim;
pub mod checkpoint;

pub use conv::Conv2d;
pub use dropout::Dropout;
pub use linear::Linear;
pub use module::{Module, parameter_count};
pub use optim::{Adam, Optimizer, Sgd};
