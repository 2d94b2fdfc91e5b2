//! Kernels: each computes a result from operands and a spec.

pub mod binary;
pub(crate) mod cast;
pub(crate) mod conv;
pub(crate) mod create;
pub mod dot;
pub(crate) mod fft;
pub(crate) mod gather;
pub(crate) mod linalg;
pub mod map;
pub(crate) mod norm;
pub(crate) mod layer_norm_grad;
pub mod random;
pub mod reduce;
pub mod row_kernels;
pub(crate) mod scan;
pub(crate) mod scatter;
pub mod select;
pub(crate) mod shape;
pub(crate) mod sort;
pub mod unary;
pub(crate) mod window;
