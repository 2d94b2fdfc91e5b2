//! Rust calls Python: every framework as a backend.
//!
//! Owns the loading of dialects, the calls by op code, and arrays going in and out. Defines no Python class; what Python
//! sees of us is in `clematis-py`.

mod arguments;
pub mod array;
mod call;
pub mod error;
mod framework;
mod load;
pub mod peek;
pub mod plain;

pub use call::{is_python_thread, is_second_interpreter, released};
pub use framework::{Compiler, Framework, install, register, set_compiler};
