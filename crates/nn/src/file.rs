//! Files: the one writer and the one reader of everything that puts models, arrays and pages on disk.
//!
//! A file that is written is whole or not there, whoever reads or kills meanwhile. Only regular files are read and replaced:
//! pipes and devices are refused by name. What the files hold is the business of others.

mod kind;
mod read;
mod replace;

pub use kind::{follow, regular};
pub use read::{open, read};
pub use replace::{check_writable, new_folder, replace, write};
