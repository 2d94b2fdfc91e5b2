//! The operators `+ - * / % & | ^ << >>` and negation on tensors, expressions and numbers.

use super::elementwise::{binary, neg};
use crate::expr::{Expr, IntoExpr};
use crate::op::Binary;
use crate::tensor::Tensor;

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => { $(
        impl<R: IntoExpr> std::ops::$trait<R> for &Tensor {
            type Output = Expr;
            fn $method(self, right: R) -> Expr { binary(Binary::$op, self, right) }
        }
        impl<R: IntoExpr> std::ops::$trait<R> for Tensor {
            type Output = Expr;
            fn $method(self, right: R) -> Expr { binary(Binary::$op, self, right) }
        }
        impl<R: IntoExpr> std::ops::$trait<R> for &Expr {
            type Output = Expr;
            fn $method(self, right: R) -> Expr {
                binary(Binary::$op, self, right)
            }
        }
        impl<R: IntoExpr> std::ops::$trait<R> for Expr {
            type Output = Expr;
            fn $method(self, right: R) -> Expr { binary(Binary::$op, self, right) }
        }
        operators!(@numbers $trait $method $op; f64 i64);
    )* };
    (@numbers $trait:ident $method:ident $op:ident; $($ty:ty)*) => { $(
        impl std::ops::$trait<&Tensor> for $ty {
            type Output = Expr;
            fn $method(self, right: &Tensor) -> Expr { binary(Binary::$op, self, right) }
        }
        impl std::ops::$trait<Tensor> for $ty {
            type Output = Expr;
            fn $method(self, right: Tensor) -> Expr { binary(Binary::$op, self, right) }
        }
        impl std::ops::$trait<Expr> for $ty {
            type Output = Expr;
            fn $method(self, right: Expr) -> Expr { binary(Binary::$op, self, right) }
        }
    )* };
}
operators! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
    Div div Div;
    Rem rem Remainder;
    BitAnd bitand BitwiseAnd;
    BitOr bitor BitwiseOr;
    BitXor bitxor BitwiseXor;
    Shl shl ShiftLeft;
    Shr shr ShiftRight;
}

macro_rules! negation {
    ($($ty:ty)*) => { $(
        impl std::ops::Neg for $ty {
            type Output = Expr;
            fn neg(self) -> Expr { neg(self) }
        }
    )* };
}
negation! { &Tensor Tensor Expr }
