//! What every backend is held to: cases for each op and element type, independent references, derivatives.
//!
//! Owns cases as data, slow references in plain f64 and i128, the checks of derivatives, and the report that the
//! support matrix is made of, in memory, in files and on pages. Knows no backend: one is given to `run`. What a backend cannot do is data too, in
//! `limits/`; a limit that no longer holds fails the run.

pub mod array;
pub mod draw;
pub mod compare;
mod reference;
pub mod case;
pub mod limit;
pub mod report;
mod unit;
mod derivative;
mod run;
pub mod named;
pub mod cell;
pub mod matrix;
pub mod history;
pub mod markdown;
pub mod page;

pub use array::Array;
pub use case::{Case, cases};
pub use cell::{Cell, Dashboard};
pub use compare::Tolerance;
pub use limit::Limit;
pub use matrix::{Matrix, Tally};
pub use report::{Check, Report, Row, State};
pub use run::{NATIVE, Runner, run, upload};
pub use unit::{Unit, units, units_of};
