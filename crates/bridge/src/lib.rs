//! Rust calls Python: every framework as a backend.
//!
//! Loads dialects, dispatches ops by op code, and converts arrays to tensors and back. Defines no Python class: the
//! extension module is in `clematis-py`.

mod arguments;
pub mod array;
mod call;
pub mod error;
mod framework;
mod load;
pub mod introspect;
pub mod fast_path;

pub use call::{is_python_thread, is_second_interpreter, released};
pub use framework::{Compiler, Framework, install, register, set_compiler};
