//! Kernels: from operands and a spec to a result.

pub mod binary;
pub mod cast;
pub mod conv;
pub mod create;
pub mod dot;
pub mod fft;
pub mod gather;
pub mod linalg;
pub mod map;
pub mod norm;
pub mod norm_grad;
pub mod random;
pub mod reduce;
pub mod scan;
pub mod scatter;
pub mod select;
pub mod shape;
pub mod sort;
pub mod unary;
pub mod window;
