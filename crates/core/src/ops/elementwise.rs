//! Elementwise functions: promotion, then one op.

use super::{call, call1, with2};
use crate::dispatch::apply_one;
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::{Expr, IntoExpr};
use crate::op::{Binary, Compare, Op, Takes, Unary};
use crate::tensor::{Repr, Tensor};

/// Casts a tensor; a plain number stays a number.
pub(crate) fn to_dtype(x: &Tensor, dtype: DType) -> Result<Tensor> {
    match x.repr() {
        Repr::Scalar { value, .. } => Ok(Tensor::scalar(*value, dtype)),
        _ if x.dtype() == dtype => Ok(x.clone()),
        _ => apply_one(&Op::Cast(dtype), &[x]),
    }
}

/// The promoted dtype of two operands; plain numbers adopt their neighbour's dtype.
pub fn result_dtype(x: &Tensor, y: &Tensor) -> DType {
    match (x.is_weak(), y.is_weak()) {
        (true, false) => number_beside(x, y.dtype()),
        (false, true) => number_beside(y, x.dtype()),
        _ => x.dtype().promote(y.dtype()),
    }
}

fn number_beside(x: &Tensor, dtype: DType) -> DType {
    x.as_number().map_or(dtype, |v| v.dtype_beside(dtype))
}

/// Functions of floats convert integers to floats.
fn accepted(takes: Takes, dtype: DType) -> DType {
    let wants_float = matches!(takes, Takes::Inexact | Takes::Float);
    if wants_float && !dtype.is_inexact() {
        DType::FLOAT
    } else {
        dtype
    }
}

/// Promotes both operands to one dtype.
pub(crate) fn promoted(x: Tensor, y: Tensor, takes: Takes) -> Result<(Tensor, Tensor)> {
    if x.dtype() == y.dtype() && !x.is_weak() && !y.is_weak() {
        let dtype = accepted(takes, x.dtype());
        if dtype == x.dtype() {
            return Ok((x, y));
        }
    }
    let dtype = accepted(takes, result_dtype(&x, &y));
    Ok((to_dtype(&x, dtype)?, to_dtype(&y, dtype)?))
}

/// Promotes all operands to one dtype; plain numbers adopt their neighbours' dtype.
pub(crate) fn promote_all(xs: &[&Tensor]) -> Result<Vec<Tensor>> {
    let mut strong = xs.iter().filter(|x| !x.is_weak()).map(|x| x.dtype());
    let met = match strong.next() {
        Some(first) => strong.fold(first, DType::promote),
        None => xs
            .iter()
            .map(|x| x.dtype())
            .fold(DType::Bool, DType::promote),
    };
    let numbers = xs.iter().filter(|x| x.is_weak());
    let dtype = numbers.fold(met, |dtype, x| number_beside(x, dtype));
    xs.iter().map(|x| to_dtype(x, dtype)).collect()
}

/// The dtypes for which the primitive op alone has the values that the function promises.
pub fn unary_alone(op: Unary) -> Takes {
    match op {
        Unary::Expm1 | Unary::Log1p | Unary::Tanh => Takes::Float, // see `complex_edges`
        _ => op.takes(),
    }
}

/// The same for binary ops.
pub fn binary_alone(op: Binary) -> Takes {
    match op {
        Binary::FloorDivide => Takes::Integer, // see `floor_quotient`
        _ => op.takes(),
    }
}

/// Applies any unary op.
pub fn unary(op: Unary, x: impl IntoExpr) -> Expr {
    x.into_expr().then(|x| {
        let x = to_dtype(&x, accepted(op.takes(), x.dtype()))?;
        let out = apply_one(&Op::Unary(op), &[&x])?;
        if x.dtype().is_complex() {
            return complex_edges(op, &x, out);
        }
        Ok(out)
    })
}

/// The values that the Array API requires for complex infinities, NaN and poles, where libraries differ.
fn complex_edges(op: Unary, x: &Tensor, out: Tensor) -> Result<Tensor> {
    match op {
        // These differ from their definitions only near zero.
        Unary::Expm1 => where_(isfinite(&out), &out, exp(x) - 1.0).done(),
        Unary::Log1p => where_(isfinite(&out), &out, log(x + 1.0)).done(),
        // The limit is ±1 on both sides of the real axis; C has a zero whose sign depends on the angle.
        Unary::Tanh => {
            let (a, b) = (real(x).done()?, imag(x).done()?);
            let limit = super::complex(sign(&a), &b * 0.0);
            where_(logical_and(isinf(&a), isfinite(&b)), limit, &out).done()
        }
        _ => Ok(out),
    }
}

/// Applies any binary op.
pub fn binary(op: Binary, x: impl IntoExpr, y: impl IntoExpr) -> Expr {
    with2(x, y, |x, y| {
        let (x, y) = promoted(x, y, op.takes())?;
        if op == Binary::FloorDivide && x.dtype().is_float() {
            return floor_quotient(&x, &y).done();
        }
        apply_one(&Op::Binary(op), &[&x, &y])
    })
}

/// Floor division of floats: as Python's, and `floor(x / y)` where an operand is infinite, as the Array API requires.
fn floor_quotient(x: &Tensor, y: &Tensor) -> Expr {
    let quotient = call(Op::Binary(Binary::FloorDivide), &[x, y]);
    let finite = logical_and(isfinite(x), isfinite(y));
    where_(finite, quotient, floor(div(x, y)))
}

/// Applies any comparison.
pub fn compare(op: Compare, x: impl IntoExpr, y: impl IntoExpr) -> Expr {
    with2(x, y, |x, y| {
        let (x, y) = promoted(x, y, Takes::Any)?;
        apply_one(&Op::Compare(op), &[&x, &y])
    })
}

macro_rules! unary_functions {
    ($($variant:ident $name:ident $takes:ident $gives:ident $domain:ident $doc:literal,)*) => { $(
        #[doc = $doc]
        pub fn $name(x: impl IntoExpr) -> Expr { unary(Unary::$variant, x) }
    )* };
}
macro_rules! binary_functions {
    ($($variant:ident $name:ident $takes:ident $gives:ident $domain:ident $doc:literal,)*) => { $(
        #[doc = $doc]
        pub fn $name(x: impl IntoExpr, y: impl IntoExpr) -> Expr { binary(Binary::$variant, x, y) }
    )* };
}
macro_rules! compare_functions {
    ($($variant:ident $name:ident $takes:ident $doc:literal,)*) => { $(
        #[doc = $doc]
        pub fn $name(x: impl IntoExpr, y: impl IntoExpr) -> Expr { compare(Compare::$variant, x, y) }
    )* };
}
crate::for_each_unary!(unary_functions);
crate::for_each_binary!(binary_functions);
crate::for_each_compare!(compare_functions);

/// Casts to another dtype.
pub fn cast(x: impl IntoExpr, dtype: DType) -> Expr {
    x.into_expr().then(|x| to_dtype(&x, dtype))
}

/// Reinterprets the bits as another dtype of the same size.
pub fn bitcast(x: impl IntoExpr, dtype: DType) -> Expr {
    call1(Op::Bitcast(dtype), x)
}

/// Stops gradients: a constant to every derivative.
pub fn stop_gradient(x: impl IntoExpr) -> Expr {
    x.into_expr().then(|x| match x.repr() {
        Repr::Scalar { .. } => Ok(x),
        _ => apply_one(&Op::StopGradient, &[&x]),
    })
}

/// `x` where the condition holds, `y` elsewhere.
pub fn where_(cond: impl IntoExpr, x: impl IntoExpr, y: impl IntoExpr) -> Expr {
    cond.into_expr().then(|cond| {
        let cond = to_dtype(&cond, DType::Bool)?;
        with2(x, y, |x, y| {
            let (x, y) = promoted(x, y, Takes::Any)?;
            apply_one(&Op::Select, &[&cond, &x, &y])
        })
        .done()
    })
}

/// Clips `x` to `low` and `high`; NaN stays NaN.
pub fn clamp(x: impl IntoExpr, low: impl IntoExpr, high: impl IntoExpr) -> Expr {
    x.into_expr().then(|x| {
        with2(low, high, |low, high| {
            let low = to_dtype(&low, x.dtype())?;
            let high = to_dtype(&high, x.dtype())?;
            apply_one(&Op::Clamp, &[&low, &x, &high])
        })
    })
}

/// Zeros like `x`.
pub fn zeros_like(x: &Tensor) -> Expr {
    super::full_like(x, 0)
}

/// Ones like `x`.
pub fn ones_like(x: &Tensor) -> Expr {
    super::full_like(x, 1)
}

/// The angle of a complex number.
pub fn angle(x: impl IntoExpr) -> Expr {
    x.into_expr().then(|x| {
        if x.dtype().is_complex() {
            atan2(imag(&x), real(&x))
        } else {
            let dtype = accepted(Takes::Float, x.dtype());
            let half_turn = crate::expr::constant(std::f64::consts::PI, dtype);
            where_(less(&x, 0), half_turn, 0.0)
        }
    })
}

/// Whether two numbers are close: `|x - y| <= atol + rtol |y|`.
pub fn isclose(x: impl IntoExpr, y: impl IntoExpr, rtol: f64, atol: f64) -> Expr {
    with2(x, y, |x, y| {
        let near = less_equal(abs(&x - &y), abs(&y) * rtol + atol);
        logical_or(equal(&x, &y), near)
    })
}
