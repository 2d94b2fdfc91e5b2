//! Rust calls Python: every framework as a backend.
//!
//! Loads dialects, dispatches ops by op code, and converts arrays to tensors and back. Defines no Python class: the
//! extension module is in `clematis-py`.

pub mod error;
pub mod introspect;
mod dialect_fast_paths;
mod load;
mod call;
mod arguments;
pub mod array;
mod framework;
pub mod fast_path;

pub use call::{is_python_thread, is_second_interpreter, released};
pub use framework::{Compiler, Framework, install, register, set_compiler};
