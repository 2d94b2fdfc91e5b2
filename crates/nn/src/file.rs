//! Atomic writes and safe reads of all files: models, arrays and pages.
//!
//! A written file is complete or absent, even if the process is killed. Only regular files are read and replaced:
//! pipes and devices are rejected by name. File formats are defined elsewhere.

mod kind;
mod read;
mod replace;

pub use kind::{follow, regular};
pub use read::{open, read};
pub use replace::{check_writable, new_folder, replace, write};
