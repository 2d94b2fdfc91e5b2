//! Kernels: from operands and a spec to a result.

pub mod binary;
pub mod cast;
pub mod create;
pub mod dot;
pub mod fft;
pub mod linalg;
pub mod map;
pub mod reduce;
pub mod select;
pub mod shape;
pub mod unary;
