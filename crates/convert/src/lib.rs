//! Import and export of models: torch, jax, TensorFlow, Keras, ONNX, source code.
//!
//! A front end in Python captures a model as a `captured::Program`, plain data. The tables here import each of its
//! ops by calling the core's functions under a trace. The result is an ordinary graph, independent of the
//! framework. Nothing here depends on a backend.

pub mod captured;
pub mod identifiers;
pub mod literal;
pub mod onnx;
pub mod lower;
pub mod export;
pub mod import;
pub mod source;

pub use captured::Program;
pub use import::{Imported, import};
