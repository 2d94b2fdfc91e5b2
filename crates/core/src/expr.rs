//! `Expr`: the result of an op or the first error, so that formulas chain without `?`.
//!
//! Every op returns an `Expr`, so that derivative rules and layers read as mathematics. Errors are deferred:
//! `.done()?` returns the first one. An `Expr` has no shape to inspect, because it may hold an error.

use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::tensor::Tensor;

/// A tensor, or the first error in the computation of it.
#[must_use = "an expression is checked only by `.done()?`"]
#[derive(Clone, Debug)]
pub struct Expr(Result<Tensor>);

impl Expr {
    /// Returns the tensor or the first error.
    pub fn done(self) -> Result<Tensor> {
        self.0
    }

    /// Chains a fallible function.
    pub fn then<R: IntoExpr>(self, f: impl FnOnce(Tensor) -> R) -> Expr {
        match self.0 {
            Ok(x) => f(x).into_expr(),
            Err(e) => Expr(Err(e)),
        }
    }
}

impl From<Result<Tensor>> for Expr {
    fn from(result: Result<Tensor>) -> Expr {
        Expr(result)
    }
}

/// Anything that can be used in an expression: tensors, numbers, expressions and results.
pub trait IntoExpr {
    /// Converts to an `Expr`.
    fn into_expr(self) -> Expr;
}

impl IntoExpr for Expr {
    fn into_expr(self) -> Expr {
        self
    }
}
impl IntoExpr for &Expr {
    fn into_expr(self) -> Expr {
        self.clone()
    }
}
impl IntoExpr for Tensor {
    fn into_expr(self) -> Expr {
        Expr(Ok(self))
    }
}
impl IntoExpr for &Tensor {
    fn into_expr(self) -> Expr {
        Expr(Ok(self.clone()))
    }
}
impl IntoExpr for &&Tensor {
    fn into_expr(self) -> Expr {
        Expr(Ok((*self).clone()))
    }
}
impl IntoExpr for Result<Tensor> {
    fn into_expr(self) -> Expr {
        Expr(self)
    }
}
impl IntoExpr for Scalar {
    fn into_expr(self) -> Expr {
        Expr(Ok(Tensor::number(self)))
    }
}
macro_rules! numbers {
    ($($ty:ty)*) => { $(
        impl IntoExpr for $ty {
            fn into_expr(self) -> Expr { Expr(Ok(Tensor::number(self))) }
        }
    )* };
}
numbers! { bool i32 i64 u32 u64 usize f32 f64 num_complex::Complex<f32> num_complex::Complex<f64> }

/// A number of this dtype, as an expression.
pub fn constant(value: impl Into<Scalar>, dtype: DType) -> Expr {
    Expr(Ok(Tensor::scalar(value, dtype)))
}
