//! Elementwise ops.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{e, list, sizes, t};
use clematis_core::expr::Expr;
use clematis_core::{DType, Dim, Result, ops};

macro_rules! one {
    ($f:expr) => {
        |_, a| Ok(Slot::Tensor($f(e(a, 0)).done()?))
    };
}
macro_rules! two {
    ($f:expr) => {
        |_, a| Ok(Slot::Tensor($f(e(a, 0), e(a, 1)).done()?))
    };
}

pub const RULES: &[(&str, Rule)] = &[
    ("Neg", one!(ops::neg)),
    ("Abs", one!(ops::abs)),
    ("Sign", one!(ops::sign)),
    ("Exp", one!(ops::exp)),
    ("Expm1", one!(ops::expm1)),
    ("Log", one!(ops::log)),
    ("Log1p", one!(ops::log1p)),
    ("Sqrt", one!(ops::sqrt)),
    ("Rsqrt", one!(ops::rsqrt)),
    ("Square", one!(|x: Expr| x.then(|x| &x * &x))),
    ("Reciprocal", one!(|x: Expr| 1.0 / x)),
    ("Sin", one!(ops::sin)),
    ("Cos", one!(ops::cos)),
    ("Tan", one!(ops::tan)),
    ("Asin", one!(ops::asin)),
    ("Acos", one!(ops::acos)),
    ("Atan", one!(ops::atan)),
    ("Sinh", one!(ops::sinh)),
    ("Cosh", one!(ops::cosh)),
    ("Tanh", one!(ops::tanh)),
    ("Erf", one!(ops::erf)),
    ("Erfc", one!(ops::erfc)),
    ("Floor", one!(ops::floor)),
    ("Ceil", one!(ops::ceil)),
    ("Round", one!(ops::round)),
    ("Rint", one!(ops::round)),
    ("IsNan", one!(ops::isnan)),
    ("IsInf", one!(ops::isinf)),
    ("IsFinite", one!(ops::isfinite)),
    ("LogicalNot", |_, a| match a.slot(0, "x") {
        Slot::Bool(x) => Ok(Slot::Bool(!x)),
        _ => Ok(ops::logical_not(e(a, 0)).done()?.into()),
    }),
    ("Sigmoid", one!(ops::sigmoid)),
    ("Relu", one!(ops::relu)),
    ("Relu6", one!(|x| ops::minimum(ops::relu(x), 6.0))),
    ("Elu", one!(|x| ops::elu(x, 1.0))),
    ("Selu", one!(ops::selu)),
    ("Softplus", one!(ops::softplus)),
    (
        "Softsign",
        one!(|x: Expr| x.then(|x| &x / (ops::abs(&x) + 1.0))),
    ),
    ("LeakyRelu", |_, a| {
        Ok(
            ops::leaky_relu(e(a, 0), a.float(super::NAMED, "alpha", 0.2)?)
                .done()?
                .into(),
        )
    }),
    ("StopGradient", one!(ops::stop_gradient)),
    ("PreventGradient", one!(ops::stop_gradient)),
    ("Identity", identity),
    ("IdentityN", identity),
    ("Snapshot", identity),
    ("EnsureShape", identity),
    ("CheckNumerics", identity),
    ("Cast", cast),
    ("AddV2", |_, a| either(a, |x, y| Some(x + y), |x, y| x + y)),
    ("Add", |_, a| either(a, |x, y| Some(x + y), |x, y| x + y)),
    ("Sub", |_, a| either(a, |x, y| Some(x - y), |x, y| x - y)),
    ("Mul", |_, a| either(a, |x, y| Some(x * y), |x, y| x * y)),
    ("FloorDiv", |_, a| {
        either(a, |x, y| x.floor_div(y).ok(), ops::floor_divide)
    }),
    ("TruncateDiv", |_, a| {
        either(
            a,
            |x, y| (x.value()? >= 0 && y.value()? > 0).then(|| x.floor_div(y).ok())?,
            |x, y| {
                x.then(|x| {
                    y.then(|y| {
                        // Rounds towards zero, ours rounds down.
                        let size = ops::floor_divide(ops::abs(&x), ops::abs(&y));
                        (size * ops::sign(&x) * ops::sign(&y)).done()
                    })
                })
            },
        )
    }),
    ("FloorMod", |_, a| {
        either(a, |x, y| x.rem(y).ok(), ops::remainder)
    }),
    ("Maximum", |_, a| {
        either(a, |x, y| Some(x.max(y)), ops::maximum)
    }),
    ("Minimum", |_, a| {
        either(a, |x, y| Some(x.min(y)), ops::minimum)
    }),
    ("RealDiv", two!(|x: Expr, y: Expr| x / y)),
    ("Div", two!(|x: Expr, y: Expr| x / y)),
    (
        "DivNoNan",
        two!(|x: Expr, y: Expr| y.then(|y| {
            let none = ops::equal(&y, 0.0);
            ops::where_(&none, 0.0, x / ops::where_(&none, 1.0, &y))
        })),
    ),
    ("Pow", two!(ops::pow)),
    (
        "Xlogy",
        two!(|x: Expr, y: Expr| x.then(|x| {
            let none = ops::equal(&x, 0.0);
            ops::where_(&none, 0.0, &x * ops::log(ops::where_(&none, 1.0, y)))
        })),
    ),
    ("Mod", two!(ops::remainder)),
    ("LogicalXor", two!(ops::logical_xor)),
    ("LeftShift", two!(ops::shift_left)),
    ("RightShift", two!(ops::shift_right)),
    ("Invert", one!(ops::bitwise_not)),
    ("Asinh", one!(ops::asinh)),
    ("Acosh", one!(ops::acosh)),
    ("Atanh", one!(ops::atanh)),
    ("Erfinv", one!(ops::erfinv)),
    ("Lgamma", one!(ops::lgamma)),
    ("Digamma", one!(ops::digamma)),
    ("Real", one!(ops::real)),
    ("Imag", one!(ops::imag)),
    ("Conj", one!(ops::conj)),
    ("ComplexAbs", one!(ops::abs)),
    ("Angle", one!(ops::angle)),
    ("Complex", two!(ops::complex)),
    ("Atan2", two!(ops::atan2)),
    (
        "SquaredDifference",
        two!(|x: Expr, y: Expr| (x - y).then(|d| &d * &d)),
    ),
    ("Equal", |_, a| compared(a, |x, y| x == y, ops::equal)),
    ("NotEqual", |_, a| {
        compared(a, |x, y| x != y, ops::not_equal)
    }),
    ("Less", |_, a| compared(a, |x, y| x < y, ops::less)),
    ("LessEqual", |_, a| {
        compared(a, |x, y| x <= y, ops::less_equal)
    }),
    ("Greater", |_, a| compared(a, |x, y| x > y, ops::greater)),
    ("GreaterEqual", |_, a| {
        compared(a, |x, y| x >= y, ops::greater_equal)
    }),
    ("LogicalAnd", |_, a| {
        logical(a, |x, y| x && y, ops::logical_and)
    }),
    ("LogicalOr", |_, a| {
        logical(a, |x, y| x || y, ops::logical_or)
    }),
    ("BitwiseAnd", two!(ops::bitwise_and)),
    ("BitwiseOr", two!(ops::bitwise_or)),
    ("BitwiseXor", two!(ops::bitwise_xor)),
    ("AddN", |_, a| {
        let mut sum = e(a, 0);
        for i in 1..a.args.len() {
            sum = sum + e(a, i);
        }
        Ok(sum.done()?.into())
    }),
    ("SelectV2", select),
    ("Select", select_rows),
    ("ClipByValue", |_, a| {
        Ok(ops::minimum(ops::maximum(e(a, 0), e(a, 1)), e(a, 2))
            .done()?
            .into())
    }),
];

fn identity(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    if a.args.len() > 1 {
        return Ok(Slot::List(a.args.clone()));
    }
    Ok(a.slot(0, "operand").clone())
}

/// Arithmetic of sizes if both operands are sizes, otherwise of tensors.
fn either(
    a: &Args<'_>,
    sized: fn(Dim, Dim) -> Option<Dim>,
    f: fn(Expr, Expr) -> Expr,
) -> Result<Slot> {
    if let (Some(x), Some(y)) = (sizes(a, 0), sizes(a, 1)) {
        let count = if x.is_empty() || y.is_empty() {
            0
        } else {
            x.len().max(y.len())
        };
        let at = |xs: &[Dim], i: usize| xs.get(i).or(xs.first()).copied().unwrap_or(Dim::from(0));
        let all: Option<Vec<Dim>> = (0..count).map(|i| sized(at(&x, i), at(&y, i))).collect();
        if let Some(all) = all {
            let alone =
                matches!(a.slot(0, "x"), Slot::Int(_)) && matches!(a.slot(1, "y"), Slot::Int(_));
            return Ok(if alone { Slot::Int(all[0]) } else { list(all) });
        }
    }
    Ok(f(e(a, 0), e(a, 1)).done()?.into())
}

/// A comparison; of known sizes, a boolean.
fn compared(a: &Args<'_>, sized: fn(i64, i64) -> bool, f: fn(Expr, Expr) -> Expr) -> Result<Slot> {
    if let (Slot::Int(x), Slot::Int(y)) = (a.slot(0, "x"), a.slot(1, "y")) {
        if let (Some(x), Some(y)) = (x.value(), y.value()) {
            return Ok(Slot::Bool(sized(x, y)));
        }
        // Equal symbolic expressions are equal, whatever their value.
        if x == y {
            return Ok(Slot::Bool(sized(0, 0)));
        }
    }
    Ok(f(e(a, 0), e(a, 1)).done()?.into())
}

fn logical(a: &Args<'_>, known: fn(bool, bool) -> bool, f: fn(Expr, Expr) -> Expr) -> Result<Slot> {
    if let (Slot::Bool(x), Slot::Bool(y)) = (a.slot(0, "x"), a.slot(1, "y")) {
        return Ok(Slot::Bool(known(*x, *y)));
    }
    Ok(f(e(a, 0), e(a, 1)).done()?.into())
}

/// `where`; of sizes with a known condition, a size.
fn select(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    if let Slot::Bool(yes) = a.slot(0, "condition") {
        let chosen = a.slot(if *yes { 1 } else { 2 }, "chosen");
        if matches!(chosen, Slot::Int(_)) {
            return Ok(chosen.clone());
        }
    }
    Ok(ops::where_(e(a, 0), e(a, 1), e(a, 2)).done()?.into())
}

/// `Select` version 1: a condition of rank 1 selects rows.
fn select_rows(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (mask, x) = (t(a, 0)?, t(a, 1)?);
    if mask.rank() != 1 || x.rank() < 2 {
        return select(w, a);
    }
    let axes: Vec<i64> = (1..x.rank() as i64).collect();
    let mask = ops::expand_axes(mask, &axes);
    Ok(ops::where_(mask, x, e(a, 2)).done()?.into())
}

fn cast(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let to = a.recorded_spec(0)?.dtype;
    if sizes(a, 0).is_some() && matches!(to, DType::I32 | DType::I64) {
        return Ok(a.slot(0, "operand").clone());
    }
    Ok(ops::cast(t(a, 0)?, to).done()?.into())
}
