//! The conformance suite for backends: cases for each op and dtype, independent references, derivative checks.
//!
//! Owns cases as data, slow reference implementations in plain f64 and i128, the derivative checks, and the support
//! matrix, in memory, in files and on pages. Depends on no backend: one is passed to `run`. Known limits of backends
//! are data too, in `limits/`; a limit that no longer holds fails the run.

pub mod array;
pub mod draw;
pub mod compare;
mod reference;
pub mod case;
pub mod report;
mod case_group;
pub mod dashboard;
pub mod named_test;
pub mod known_limit;
mod derivative;
mod run;
pub mod cell;
pub mod matrix;
pub mod history;
pub mod markdown;
pub mod page;

pub use array::{Array, upload};
pub use case::{Case, cases};
pub use case_group::{CaseGroup, case_groups, group_cases};
pub use cell::Cell;
pub use compare::Tolerance;
pub use dashboard::Dashboard;
pub use known_limit::KnownLimit;
pub use matrix::{Matrix, Tally};
pub use report::{Check, Report, Row, State};
pub use run::{NATIVE, Runner, run};
