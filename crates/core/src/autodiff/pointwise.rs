//! Derivatives of elementwise ops.
//!
//! Complex derivatives follow JAX: a cotangent pairs with a tangent as Re(ct · dy), without conjugation.

use super::rule::Rule;
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::{Expr, IntoExpr, constant};
use crate::op::{Binary, Op, Unary};
use crate::ops::{self, Ops};
use crate::tensor::Tensor;
use crate::{Error, Kind};
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, LN_10};

fn impossible(op: &Op) -> Expr {
    Err(Error::new(
        Kind::Internal,
        format!("{}: no such derivative", op.name()),
    ))
    .into_expr()
}

/// dy/dx.
pub fn unary(op: &Op, _: usize, x: &[&Tensor], y: &Tensor) -> Expr {
    let (Op::Unary(u), x) = (op, x[0]) else {
        return impossible(op);
    };
    match u {
        Unary::Square => x * 2,
        Unary::Reciprocal => -y.square(),
        Unary::Sqrt => 0.5 / y,
        Unary::Rsqrt => y / x * -0.5,
        Unary::Cbrt => 1.0 / (3.0 * y.square()),
        Unary::Exp => y.into_expr(),
        Unary::Exp2 => y * LN_2,
        Unary::Expm1 => y + 1.0,
        Unary::Log => x.reciprocal(),
        Unary::Log2 => x.reciprocal() * (1.0 / LN_2),
        Unary::Log10 => x.reciprocal() * (1.0 / LN_10),
        Unary::Log1p => 1.0 / (x + 1.0),
        Unary::Sin => x.cos(),
        Unary::Cos => -x.sin(),
        Unary::Tan => y.square() + 1.0,
        Unary::Asin => (1.0 - x.square()).rsqrt(),
        Unary::Acos => -(1.0 - x.square()).rsqrt(),
        Unary::Atan => 1.0 / (x.square() + 1.0),
        Unary::Sinh => x.cosh(),
        Unary::Cosh => x.sinh(),
        Unary::Tanh => 1.0 - y.square(),
        Unary::Asinh => (x.square() + 1.0).rsqrt(),
        // A product of two square roots keeps the branch for complex operands.
        Unary::Acosh => (x - 1.0).rsqrt() * (x + 1.0).rsqrt(),
        Unary::Atanh => 1.0 / (1.0 - x.square()),
        Unary::Erf => (-x.square()).exp() * FRAC_2_SQRT_PI,
        Unary::Erfc => (-x.square()).exp() * -FRAC_2_SQRT_PI,
        Unary::Erfinv => y.square().exp() * (1.0 / FRAC_2_SQRT_PI),
        Unary::Lgamma => x.digamma(),
        Unary::Digamma => ops::polygamma(constant(1, x.dtype()), x),
        Unary::Neg
        | Unary::Positive
        | Unary::Abs
        | Unary::Sign
        | Unary::Floor
        | Unary::Ceil
        | Unary::Trunc
        | Unary::Round
        | Unary::Real
        | Unary::Imag
        | Unary::Conj
        | Unary::IsNan
        | Unary::IsInf
        | Unary::IsFinite
        | Unary::Signbit
        | Unary::BitwiseNot
        | Unary::LogicalNot => impossible(op),
    }
}

/// Transposes of the linear unary ops. Re(ct · Re dz) = Re(ct dz), Re(ct · Im dz) = Re(-i ct dz), Re(ct · conj dz) =
/// Re(conj(ct) dz).
pub fn linear_unary(op: &Op, _: usize, x: &[&Tensor], ct: &Tensor) -> Expr {
    let complex = x[0].dtype().is_complex();
    match op {
        Op::Unary(Unary::Neg) => -ct,
        Op::Unary(Unary::Positive) => ct.into_expr(),
        Op::Unary(Unary::Conj) => {
            if complex {
                ct.conj()
            } else {
                ct.into_expr()
            }
        }
        Op::Unary(Unary::Real) => {
            if complex {
                ops::complex(ct, ops::zeros_like(ct))
            } else {
                ct.into_expr()
            }
        }
        Op::Unary(Unary::Imag) => {
            if complex {
                ops::complex(ops::zeros_like(ct), -ct)
            } else {
                ops::zeros_like(ct)
            }
        }
        other => impossible(other),
    }
}

/// z̄/|z|, with 0 at 0.
fn direction(x: &Tensor) -> Expr {
    if x.dtype().is_complex() {
        x.sign().conj()
    } else {
        x.sign()
    }
}

pub fn abs_vjp(
    _: &Op,
    x: &[&Tensor],
    _: &[&Tensor],
    ct: &[Option<Tensor>],
    _: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let Some(ct) = &ct[0] else {
        return Ok(vec![None]);
    };
    Ok(vec![Some(
        (direction(x[0]) * ct.cast(x[0].dtype())).done()?,
    )])
}

pub fn abs_jvp(
    _: &Op,
    x: &[&Tensor],
    _: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let Some(dx) = &dx[0] else {
        return Ok(vec![None]);
    };
    Ok(vec![Some((direction(x[0]) * dx).real().done()?)])
}

/// Zero for real numbers. For complex numbers the phase z/|z| changes: d(z/|z|) = (dz - s Re(s̄ dz)) / |z|.
pub fn sign_jvp(
    _: &Op,
    x: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let (Some(dx), true) = (&dx[0], x[0].dtype().is_complex()) else {
        return Ok(vec![None]);
    };
    let (s, size) = (y[0], x[0].abs().done()?);
    let along = (s.conj() * dx).real().cast(x[0].dtype());
    let zero = ops::equal(&size, 0.0).done()?;
    let safe = ops::where_(&zero, 1.0, &size).cast(x[0].dtype());
    let rotated = ((dx - s * along) / safe).done()?;
    Ok(vec![Some(ops::where_(&zero, 0.0, &rotated).done()?)])
}

pub fn binary_rule(b: Binary) -> Rule {
    match b {
        Binary::Add | Binary::Sub | Binary::Complex => Rule::Linear(linear_binary),
        Binary::Mul => Rule::Multilinear(|_, i, x, ct| ops::sum_to(ct * x[1 - i], x[i].shape())),
        Binary::Nextafter
        | Binary::BitwiseAnd
        | Binary::BitwiseOr
        | Binary::BitwiseXor
        | Binary::ShiftLeft
        | Binary::ShiftRight
        | Binary::LogicalAnd
        | Binary::LogicalOr
        | Binary::LogicalXor => Rule::Zero,
        _ => Rule::Pointwise(binary),
    }
}

fn linear_binary(op: &Op, i: usize, x: &[&Tensor], ct: &Tensor) -> Expr {
    let part = match (op, i) {
        (Op::Binary(Binary::Add), _) | (Op::Binary(Binary::Sub), 0) => ct.into_expr(),
        (Op::Binary(Binary::Sub), _) => -ct,
        (Op::Binary(Binary::Complex), 0) => ct.real(),
        (Op::Binary(Binary::Complex), _) => -ct.imag(),
        _ => impossible(op),
    };
    ops::sum_to(part, x[i].shape())
}

/// 1 where the operand was chosen, ½ where both are equal.
fn chosen(x: &Tensor, y: &Tensor, other: &Tensor) -> Expr {
    let dtype = x.dtype();
    let own = ops::equal(x, y).cast(dtype);
    let both = ops::equal(x, other).cast(dtype);
    own * (1.0 - both * 0.5)
}

/// ∂y/∂xᵢ.
pub fn binary(op: &Op, i: usize, xs: &[&Tensor], y: &Tensor) -> Expr {
    let (Op::Binary(b), a, c) = (op, xs[0], xs[1]) else {
        return impossible(op);
    };
    match (b, i) {
        (Binary::Div, 0) => c.reciprocal(),
        (Binary::Div, _) => -(y / c),
        (Binary::FloorDivide, _) => constant(0, y.dtype()),
        (Binary::Remainder | Binary::Fmod, 0) => constant(1, y.dtype()),
        (Binary::Remainder, _) => -(a / c).then(|q| {
            if q.dtype().is_complex() {
                q.into_expr()
            } else {
                q.floor()
            }
        }),
        (Binary::Fmod, _) => -(a / c).trunc(),
        (Binary::Pow, 0) => {
            // y x^(y-1), and 0 where y is 0 for any x.
            let zero = ops::equal(c, 0).done();
            zero.into_expr().then(|zero| {
                let power = ops::where_(&zero, 1.0, c - 1.0).cast(c.dtype());
                ops::where_(&zero, 0.0, c * a.pow(power)).cast(y.dtype())
            })
        }
        (Binary::Pow, _) => {
            // x^y log x, and 0 where x is 0.
            let zero = ops::equal(a, 0).done();
            zero.into_expr().then(|zero| {
                let safe = ops::where_(&zero, 1.0, a).cast(a.dtype());
                ops::where_(&zero, 0.0, y * safe.log()).cast(y.dtype())
            })
        }
        (Binary::Atan2, 0) => c / (a.square() + c.square()),
        (Binary::Atan2, _) => -(a / (a.square() + c.square())),
        (Binary::Hypot, _) => {
            let x = if i == 0 { a } else { c };
            let zero = ops::equal(y, 0.0).done();
            zero.into_expr().then(|zero| {
                ops::where_(&zero, 0.0, x / ops::where_(&zero, 1.0, y)).cast(y.dtype())
            })
        }
        (Binary::Copysign, 0) => {
            // 1 where the sign is kept, -1 where it is flipped. Compares sign bits, so that -0 counts.
            let flipped = ops::not_equal(a.signbit(), c.signbit()).cast(y.dtype());
            1.0 - flipped * 2.0
        }
        (Binary::Copysign, _) => constant(0, y.dtype()),
        (Binary::Logaddexp, _) => {
            let x = if i == 0 { a } else { c };
            // If both are infinite and equal, the difference would be NaN.
            let gap = ops::where_(ops::equal(x, y), 0.0, x - y);
            gap.exp().cast(y.dtype())
        }
        (Binary::Polygamma, 0) => constant(0, y.dtype()),
        (Binary::Polygamma, _) => ops::polygamma(a + 1.0, c),
        (Binary::Maximum | Binary::Minimum, 0) => chosen(a, y, c),
        (Binary::Maximum | Binary::Minimum, _) => chosen(c, y, a),
        _ => impossible(op),
    }
}

/// 1 inside the bounds for the operand; 1 for a bound where that bound applies.
pub fn clamp(_: &Op, i: usize, xs: &[&Tensor], y: &Tensor) -> Expr {
    let (low, x, high) = (xs[0], xs[1], xs[2]);
    let dtype: DType = y.dtype();
    match i {
        0 => ops::logical_and(ops::less(x, low), ops::less(low, high)).cast(dtype),
        1 => ops::logical_and(ops::greater_equal(x, low), ops::less_equal(x, high)).cast(dtype),
        _ => ops::logical_or(ops::greater(x, high), ops::greater_equal(low, high)).cast(dtype),
    }
}

/// The transpose of select: the cotangent where the operand was chosen, else 0.
pub fn select(_: &Op, i: usize, xs: &[&Tensor], ct: &Tensor) -> Expr {
    let part = match i {
        1 => ops::where_(xs[0], ct, 0),
        _ => ops::where_(xs[0], 0, ct),
    };
    ops::sum_to(part, xs[i].shape())
}
