//! What ops compute, said slowly: naive loops over exact numbers, formulas and series from textbooks.
//!
//! Shares nothing with any engine. Results are not rounded; `compare` does that.

pub mod complex;
pub mod elementwise;
pub mod number;
pub mod special;
