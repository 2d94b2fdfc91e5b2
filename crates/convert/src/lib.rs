//! Models of other frameworks and formats, into Clematis and out of it.
//!
//! A reader in Python flattens a live graph into a `foreign::Program`, plain data; the tables here say what each of its
//! ops is made of, by calling the core's functions under a trace. What comes out is an ordinary graph that knows no
//! framework. Nothing here looks at a backend.

pub mod foreign;
pub mod identifiers;
pub mod literal;
pub mod onnx;
pub mod lower;
pub mod export;
pub mod import;
pub mod source;

pub use foreign::Program;
pub use import::{Imported, import};
