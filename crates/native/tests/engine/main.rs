//! The engine against plain references: every family on random shapes, views, dtypes and special values.

#![allow(clippy::unwrap_used, clippy::panic)] // every line of a test may fail it

mod elementwise;
mod index;
mod linear;
mod norm;
mod reduce;
mod invariance;
mod shape;
mod sort;
mod tensors;
