//! A pending result that ops chain on.
//!
//! Every op returns an `Expr`, so that rules and layers read as mathematics; the first failure is carried to
//! `.done()?`. It has no shape to look at: a failed value cannot be asked anything.

use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::tensor::Tensor;

/// A tensor, or why there is none.
#[must_use = "an expression is checked only by `.done()?`"]
#[derive(Clone, Debug)]
pub struct Expr(Result<Tensor>);

impl Expr {
    /// The tensor, or the first failure on the way to it.
    pub fn done(self) -> Result<Tensor> {
        self.0
    }

    /// Goes on with a function that can fail.
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

/// What can stand in an expression: tensors, numbers, expressions and results.
pub trait IntoExpr {
    /// As a pending result.
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

/// A number of this element type, as an expression.
pub fn constant(value: impl Into<Scalar>, dtype: DType) -> Expr {
    Expr(Ok(Tensor::scalar(value, dtype)))
}
