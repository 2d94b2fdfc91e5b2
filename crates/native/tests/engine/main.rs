//! The engine against plain references: every family on random shapes, views, dtypes and special values.

mod elementwise;
mod index;
mod linear;
mod norm;
mod reduce;
mod runs;
mod shape;
mod sort;
mod tensors;
