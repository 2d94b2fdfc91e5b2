//! The public functions: promote dtypes, normalise axes, build an op and apply it.
//!
//! Every function takes any `IntoExpr`. The trait `Ops` has the common ones as methods.

pub mod bits;
pub(crate) mod composites;
pub(crate) mod create;
pub(crate) mod elementwise;
pub(crate) mod index;
pub(crate) mod linalg;
pub(crate) mod linear;
mod operators;
pub(crate) mod reduce;
pub(crate) mod require;
pub(crate) mod shape;
mod standard;
mod subscript;

pub use composites::*;
pub use create::*;
pub use elementwise::*;
pub use index::*;
pub use linalg::*;
pub use linear::*;
pub use reduce::*;
pub use require::require;
pub use shape::*;
pub use standard::*;
pub use subscript::*;

use crate::dispatch::apply_one;
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::{Expr, IntoExpr};
use crate::op::Op;
use crate::shape::{Axes, IntoShape, Shape};
use crate::tensor::Tensor;

/// Applies an op with one result.
pub fn call(op: impl Into<Op>, inputs: &[&Tensor]) -> Expr {
    apply_one(&op.into(), inputs).into()
}

/// Applies an op of one operand.
pub fn call1(op: impl Into<Op>, x: impl IntoExpr) -> Expr {
    x.into_expr().then(|x| apply_one(&op.into(), &[&x]))
}

/// Applies a function of two tensors, or returns the first error.
pub(crate) fn with2<R: IntoExpr>(
    x: impl IntoExpr,
    y: impl IntoExpr,
    f: impl FnOnce(Tensor, Tensor) -> R,
) -> Expr {
    x.into_expr().then(|x| y.into_expr().then(|y| f(x, y)))
}

/// An argument for axes: one, several, or `..` for all; negative ones count from the end.
pub trait IntoAxes {
    /// The axes, for a tensor of this shape.
    fn resolve(self, shape: &Shape, op: &str) -> Result<Axes>;
}
impl IntoAxes for std::ops::RangeFull {
    fn resolve(self, shape: &Shape, _: &str) -> Result<Axes> {
        Ok(Axes::all(shape.rank()))
    }
}
impl IntoAxes for i32 {
    fn resolve(self, shape: &Shape, op: &str) -> Result<Axes> {
        shape.axes(&[i64::from(self)], op)
    }
}
impl IntoAxes for i64 {
    fn resolve(self, shape: &Shape, op: &str) -> Result<Axes> {
        shape.axes(&[self], op)
    }
}
impl IntoAxes for usize {
    fn resolve(self, shape: &Shape, op: &str) -> Result<Axes> {
        shape.axes(&[i64::try_from(self).unwrap_or(i64::MAX)], op)
    }
}
impl<const N: usize> IntoAxes for [i32; N] {
    fn resolve(self, shape: &Shape, op: &str) -> Result<Axes> {
        shape.axes(&self.map(i64::from), op)
    }
}
impl IntoAxes for &[i64] {
    fn resolve(self, shape: &Shape, op: &str) -> Result<Axes> {
        shape.axes(self, op)
    }
}
impl IntoAxes for Vec<i64> {
    fn resolve(self, shape: &Shape, op: &str) -> Result<Axes> {
        shape.axes(&self, op)
    }
}
impl IntoAxes for &Axes {
    fn resolve(self, _: &Shape, _: &str) -> Result<Axes> {
        Ok(self.clone())
    }
}
impl<A: IntoAxes> IntoAxes for Option<A> {
    fn resolve(self, shape: &Shape, op: &str) -> Result<Axes> {
        match self {
            Some(axes) => axes.resolve(shape, op),
            None => Ok(Axes::all(shape.rank())),
        }
    }
}

macro_rules! unary_methods {
    ($($variant:ident $name:ident $takes:ident $gives:ident $domain:ident $doc:literal,)*) => {
        /// Common functions of one tensor as methods.
        pub trait Ops: IntoExpr + Sized {
            $(#[doc = $doc] fn $name(self) -> Expr { elementwise::$name(self) })*

            /// Casts to another dtype.
            fn cast(self, dtype: DType) -> Expr { elementwise::cast(self, dtype) }
            /// `x` to the power `y`.
            fn pow(self, y: impl IntoExpr) -> Expr { elementwise::pow(self, y) }
            /// The elementwise maximum.
            fn maximum(self, y: impl IntoExpr) -> Expr { elementwise::maximum(self, y) }
            /// The elementwise minimum.
            fn minimum(self, y: impl IntoExpr) -> Expr { elementwise::minimum(self, y) }
            /// Elementwise `x == y`.
            fn equal(self, y: impl IntoExpr) -> Expr { elementwise::equal(self, y) }
            /// Elementwise `x != y`.
            fn not_equal(self, y: impl IntoExpr) -> Expr { elementwise::not_equal(self, y) }
            /// Elementwise `x < y`.
            fn less(self, y: impl IntoExpr) -> Expr { elementwise::less(self, y) }
            /// Elementwise `x > y`.
            fn greater(self, y: impl IntoExpr) -> Expr { elementwise::greater(self, y) }
            /// Elementwise `x <= y`.
            fn less_equal(self, y: impl IntoExpr) -> Expr { elementwise::less_equal(self, y) }
            /// Elementwise `x >= y`.
            fn greater_equal(self, y: impl IntoExpr) -> Expr { elementwise::greater_equal(self, y) }
            /// Stops gradients: a constant to every derivative.
            fn stop_gradient(self) -> Expr { elementwise::stop_gradient(self) }
            /// Reshapes to another shape.
            fn reshape(self, to: impl shape::ReshapeTo) -> Expr { shape::reshape(self, to) }
            /// Permutes axes.
            fn permute(self, axes: impl IntoAxes) -> Expr { shape::permute(self, axes) }
            /// Transposes the last two axes.
            fn matrix_transpose(self) -> Expr { shape::matrix_transpose(self) }
            /// Broadcasts to a larger shape.
            fn broadcast_to(self, to: impl IntoShape) -> Expr { shape::broadcast_to(self, to) }
            /// Inserts an axis of size 1.
            fn expand_dims(self, axis: i64) -> Expr { shape::expand_dims(self, axis) }
            /// Removes axes of size 1.
            fn squeeze(self, axes: impl IntoAxes) -> Expr { shape::squeeze(self, axes) }
            /// The sum over axes.
            fn sum(self, axes: impl IntoAxes) -> Expr { reduce::sum(self, axes) }
            /// The sum over axes, which are kept with size 1.
            fn sum_keepdims(self, axes: impl IntoAxes) -> Expr { reduce::keepdims(self, axes, reduce::sum) }
            /// The maximum over axes.
            fn max(self, axes: impl IntoAxes) -> Expr { reduce::max(self, axes) }
            /// The minimum over axes.
            fn min(self, axes: impl IntoAxes) -> Expr { reduce::min(self, axes) }
            /// The mean over axes.
            fn mean(self, axes: impl IntoAxes) -> Expr { reduce::mean(self, axes) }
            /// The matrix product.
            fn matmul(self, y: impl IntoExpr) -> Expr { linear::matmul(self, y) }
        }
    };
}
crate::for_each_unary!(unary_methods);
impl Ops for Expr {}
impl Ops for &Expr {}
impl Ops for &Tensor {}
