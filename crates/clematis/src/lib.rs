//! Write a function, a layer or a model once; run, differentiate and train it on any backend.
//!
//! ```
//! use clematis as cm;
//!
//! # fn main() -> cm::Result<()> {
//! let x = cm::tensor([[1.0f32, 2.0], [3.0, 4.0]])?;
//! let w = cm::ones([2usize, 1], cm::DType::F32).done()?;
//! let loss = cm::value_and_grad(|w: &cm::Tensor| cm::mean((cm::matmul(&x, w) - 1.0).square(), ..));
//! let (value, gradient) = loss(&w)?;
//! assert_eq!(value.to_vec::<f32>()?, [20.0]);
//! assert_eq!(gradient.to_vec::<f32>()?, [20.0, 28.0]);
//! # use cm::Ops;
//! # Ok(())
//! # }
//! ```
//!
//! Every function takes tensors, numbers and expressions, and returns an expression; `.done()?` ends it. Axes are
//! given as one number, an array, or `..` for all.

pub use clematis_core::autodiff::{
    custom_vjp, grad, hessian, jac, jac_forward, jac_reverse, jvp, linearize, value_and_grad,
    value_and_grad_aux, vjp,
};
pub use clematis_core::batch::{vmap, vmap_along};
pub use clematis_core::control::{cond, map, scan, switch, while_loop};
pub use clematis_core::expr::{Expr, IntoExpr};
pub use clematis_core::jit::{Jitted, jit, jit_with};
pub use clematis_core::ops::*;
pub use clematis_core::random::{Key, dropout};
pub use clematis_core::tree::{self, State, Tree};
pub use clematis_core::*;
pub use clematis_derive::Tree;

#[cfg(feature = "native")]
pub use clematis_compile as compile;
#[cfg(feature = "native")]
pub use clematis_native as native;
#[cfg(feature = "nn")]
pub use clematis_nn as nn;
pub use clematis_passes as passes;

/// The README's example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
