//! Elementwise ops.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use clematis_core::expr::{Expr, IntoExpr};
use clematis_core::{DType, Result, Tensor, control, ops};
use clematis_nn::functional::activation;

/// A rule with one operand.
macro_rules! one {
    ($f:expr) => {
        |_, a| Ok(Slot::Tensor($f(a.expr(0, "self")).done()?))
    };
}
/// A rule with two operands.
macro_rules! two {
    ($f:expr) => {
        |_, a| {
            let (x, y) = pair(a)?;
            Ok(Slot::Tensor($f(x.into_expr(), y.into_expr()).done()?))
        }
    };
}

/// Promotes two operands as torch does: a scalar tensor takes the other's dtype unless it is of a higher category.
fn pair(a: &Args<'_>) -> Result<(Tensor, Tensor)> {
    let (x, y) = (a.tensor(0, "self")?, a.tensor(1, "other")?);
    let family = |d: DType| match d {
        DType::Bool => 0,
        d if d.is_int() => 1,
        d if d.is_complex() => 3,
        _ => 2,
    };
    let follows = |small: &Tensor, large: &Tensor| {
        small.rank() == 0
            && large.rank() > 0
            && !small.is_weak()
            && family(small.dtype()) <= family(large.dtype())
    };
    if follows(&x, &y) {
        return Ok((ops::cast(&x, y.dtype()).done()?, y));
    }
    if follows(&y, &x) {
        let y = ops::cast(&y, x.dtype()).done()?;
        return Ok((x, y));
    }
    Ok((x, y))
}

pub const RULES: &[(&str, Rule)] = &[
    ("abs", one!(ops::abs)),
    ("neg", one!(ops::neg)),
    ("sign", one!(ops::sign)),
    ("exp", one!(ops::exp)),
    ("expm1", one!(ops::expm1)),
    ("log", one!(ops::log)),
    ("log2", one!(ops::log2)),
    ("log10", one!(ops::log10)),
    ("log1p", one!(ops::log1p)),
    ("sqrt", one!(ops::sqrt)),
    ("rsqrt", one!(ops::rsqrt)),
    ("reciprocal", one!(|x: Expr| 1.0 / x)),
    ("square", one!(|x: Expr| x.then(|x| &x * &x))),
    ("sin", one!(ops::sin)),
    ("cos", one!(ops::cos)),
    ("tan", one!(ops::tan)),
    ("asin", one!(ops::asin)),
    ("acos", one!(ops::acos)),
    ("atan", one!(ops::atan)),
    ("sinh", one!(ops::sinh)),
    ("cosh", one!(ops::cosh)),
    ("tanh", one!(ops::tanh)),
    ("asinh", one!(ops::asinh)),
    ("acosh", one!(ops::acosh)),
    ("atanh", one!(ops::atanh)),
    ("erf", one!(ops::erf)),
    ("erfc", one!(ops::erfc)),
    ("erfinv", one!(ops::erfinv)),
    ("exp2", one!(ops::exp2)),
    ("lgamma", one!(ops::lgamma)),
    ("digamma", one!(ops::digamma)),
    ("signbit", one!(ops::signbit)),
    ("positive", one!(ops::positive)),
    ("polygamma", |_, a| {
        Ok(ops::polygamma(
            ops::cast(a.expr(0, "n"), a.recorded_spec(0)?.dtype),
            a.expr(1, "self"),
        )
        .done()?
        .into())
    }),
    (
        "deg2rad",
        one!(|x: Expr| x * (std::f64::consts::PI / 180.0)),
    ),
    (
        "rad2deg",
        one!(|x: Expr| x * (180.0 / std::f64::consts::PI)),
    ),
    ("isposinf", one!(|x: Expr| ops::equal(x, f64::INFINITY))),
    ("isneginf", one!(|x: Expr| ops::equal(x, f64::NEG_INFINITY))),
    ("floor", one!(ops::floor)),
    ("ceil", one!(ops::ceil)),
    ("trunc", one!(ops::trunc)),
    ("round", |_, a| {
        let digits = a.int(1, "decimals", 0)?;
        let x = a.tensor(0, "self")?;
        if digits == 0 || !x.dtype().is_inexact() {
            return Ok(ops::round(x).done()?.into());
        }
        let scale = 10f64.powi(digits.unsigned_abs() as i32);
        let y = if digits > 0 {
            ops::round(x * scale) / scale
        } else {
            ops::round(x / scale) * scale
        };
        Ok(y.done()?.into())
    }),
    ("isnan", one!(ops::isnan)),
    ("isinf", one!(ops::isinf)),
    ("isfinite", one!(ops::isfinite)),
    (
        "logical_not",
        one!(|x: Expr| ops::logical_not(ops::cast(x, DType::Bool))),
    ),
    ("bitwise_not", one!(ops::bitwise_not)),
    ("relu", one!(ops::relu)),
    ("relu6", one!(activation::relu6)),
    ("sigmoid", one!(ops::sigmoid)),
    ("log_sigmoid", one!(ops::log_sigmoid)),
    ("log_sigmoid_forward", |_, a| {
        Ok(Slot::List(vec![
            ops::log_sigmoid(a.expr(0, "self")).done()?.into(),
            Slot::Nothing,
        ]))
    }),
    ("prelu", |_, a| prelu(a)),
    ("_prelu_kernel", |_, a| prelu(a)),
    ("silu", one!(ops::silu)),
    ("mish", one!(ops::mish)),
    ("selu", one!(ops::selu)),
    ("hardsigmoid", one!(ops::hard_sigmoid)),
    ("hardswish", one!(ops::hard_swish)),
    ("add", add),
    ("sub", sub),
    ("rsub", rsub),
    ("mul", two!(|x: Expr, y: Expr| x * y)),
    ("div", div),
    ("pow", two!(ops::pow)),
    ("maximum", two!(ops::maximum)),
    ("minimum", two!(ops::minimum)),
    ("atan2", two!(ops::atan2)),
    ("fmod", two!(ops::fmod)),
    ("hypot", two!(ops::hypot)),
    ("copysign", |_, a| {
        let recorded = a.recorded_spec(0)?.dtype;
        let (x, y) = (
            ops::cast(a.expr(0, "self"), recorded),
            ops::cast(a.expr(1, "other"), recorded),
        );
        Ok(ops::copysign(x, y).done()?.into())
    }),
    ("nextafter", two!(ops::nextafter)),
    ("logaddexp", two!(ops::logaddexp)),
    (
        "fmax",
        two!(|x: Expr, y: Expr| other_than_nan(x, y, ops::maximum)),
    ),
    (
        "fmin",
        two!(|x: Expr, y: Expr| other_than_nan(x, y, ops::minimum)),
    ),
    ("bitwise_left_shift", two!(ops::shift_left)),
    ("bitwise_right_shift", two!(ops::shift_right)),
    ("__lshift__", two!(shifted_up)),
    ("__rshift__", two!(shifted_down)),
    ("__xor__", two!(ops::bitwise_xor)),
    ("gcd", |_, a| divisor(a)),
    ("dist", |_, a| {
        let gap = ops::abs(a.expr(0, "self") - a.expr(1, "other"));
        Ok(ops::vector_norm(gap, .., a.float(2, "p", 2.0)?)
            .done()?
            .into())
    }),
    ("remainder", two!(ops::remainder)),
    ("floor_divide", two!(ops::floor_divide)),
    ("bitwise_and", two!(ops::bitwise_and)),
    ("bitwise_or", two!(ops::bitwise_or)),
    ("bitwise_xor", two!(ops::bitwise_xor)),
    ("__and__", two!(ops::bitwise_and)),
    ("__or__", two!(ops::bitwise_or)),
    (
        "logical_and",
        two!(|x, y| ops::logical_and(ops::cast(x, DType::Bool), ops::cast(y, DType::Bool))),
    ),
    (
        "logical_or",
        two!(|x, y| ops::logical_or(ops::cast(x, DType::Bool), ops::cast(y, DType::Bool))),
    ),
    (
        "logical_xor",
        two!(|x, y| ops::logical_xor(ops::cast(x, DType::Bool), ops::cast(y, DType::Bool))),
    ),
    ("eq", two!(ops::equal)),
    ("ne", two!(ops::not_equal)),
    ("lt", two!(ops::less)),
    ("le", two!(ops::less_equal)),
    ("gt", two!(ops::greater)),
    ("ge", two!(ops::greater_equal)),
    ("where", select),
    ("clamp", clamp),
    ("clamp_min", |_, a| {
        Ok(ops::maximum(a.expr(0, "self"), a.expr(1, "min"))
            .done()?
            .into())
    }),
    ("clamp_max", |_, a| {
        Ok(ops::minimum(a.expr(0, "self"), a.expr(1, "max"))
            .done()?
            .into())
    }),
    ("hardtanh", hardtanh),
    ("leaky_relu", |_, a| {
        Ok(
            ops::leaky_relu(a.expr(0, "self"), a.float(1, "negative_slope", 0.01)?)
                .done()?
                .into(),
        )
    }),
    ("elu", elu),
    ("gelu", gelu),
    ("softplus", softplus),
    ("clone", identity),
    ("alias", identity),
    ("detach", |_, a| {
        Ok(ops::stop_gradient(a.expr(0, "self")).done()?.into())
    }),
    ("lift_fresh_copy", identity),
    ("lift_fresh", identity),
    ("lift", identity),
    ("_to_dense", identity),
    ("prims.device_put", identity),
    ("prims.convert_element_type", to_copy),
    ("contiguous", identity),
    ("_to_copy", to_copy),
    ("to", to_copy),
    ("type_as", |_, a| {
        Ok(ops::cast(a.expr(0, "self"), a.recorded_spec(0)?.dtype)
            .done()?
            .into())
    }),
    ("copy", |_, a| {
        let x = a.tensor(0, "self")?;
        let y = ops::cast(a.expr(1, "src"), x.dtype());
        Ok(ops::broadcast_to(y, x.shape().clone()).done()?.into())
    }),
];

/// `other` times `alpha`, if given.
fn scaled(a: &Args<'_>) -> Result<Expr> {
    let y = a.expr(1, "other");
    Ok(match a.has(2, "alpha") {
        true => y * a.expr(2, "alpha"),
        false => y,
    })
}

fn add(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    if x.dtype() == DType::Bool && a.tensor(1, "other")?.dtype() == DType::Bool {
        return Ok(ops::logical_or(x, a.expr(1, "other")).done()?.into());
    }
    if !a.has(2, "alpha") {
        let (x, y) = pair(a)?;
        return Ok((x + y).done()?.into());
    }
    Ok((x + scaled(a)?).done()?.into())
}

fn sub(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    if !a.has(2, "alpha") {
        let (x, y) = pair(a)?;
        return Ok((x - y).done()?.into());
    }
    Ok((a.expr(0, "self") - scaled(a)?).done()?.into())
}

fn rsub(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.expr(0, "self");
    let x = if a.has(2, "alpha") {
        x * a.expr(2, "alpha")
    } else {
        x
    };
    Ok((a.expr(1, "other") - x).done()?.into())
}

fn div(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, y) = pair(a)?;
    let out = match a.text(2, "rounding_mode", "")? {
        "floor" => ops::floor_divide(x, y),
        "trunc" => {
            let (x, y) = pair(a)?;
            if x.dtype().is_inexact() || y.dtype().is_inexact() {
                ops::trunc(x / y)
            } else {
                // Integers are never converted to floats: those have fewer digits.
                ops::floor_divide(ops::abs(&x), ops::abs(&y)) * ops::sign(&x) * ops::sign(&y)
            }
        }
        _ => x / y,
    };
    Ok(out.done()?.into())
}

/// Max or min that ignores NaN if the other operand is a number.
fn other_than_nan(x: Expr, y: Expr, f: fn(Tensor, Tensor) -> Expr) -> Expr {
    x.then(|x| {
        y.then(|y| {
            let both = f(x.clone(), y.clone());
            if !x.dtype().is_float() {
                return both;
            }
            ops::where_(ops::isnan(&x), &y, ops::where_(ops::isnan(&y), &x, both))
        })
    })
}

/// Left shift; floats are multiplied.
fn shifted_up(x: Expr, y: Expr) -> Expr {
    x.then(|x| {
        if x.dtype().is_float() {
            x * ops::exp2(y)
        } else {
            ops::shift_left(x, y)
        }
    })
}

fn shifted_down(x: Expr, y: Expr) -> Expr {
    x.then(|x| {
        if x.dtype().is_float() {
            x / ops::exp2(y)
        } else {
            ops::shift_right(x, y)
        }
    })
}

/// The greatest common divisor, by the number of steps that 64 bits can need.
fn divisor(a: &Args<'_>) -> Result<Slot> {
    let (x, y) = pair(a)?;
    let recorded = a.recorded_spec(0)?;
    let wide = |x: Tensor| {
        ops::abs(ops::broadcast_to(
            ops::cast(x, recorded.dtype),
            recorded.shape.clone(),
        ))
        .done()
    };
    let start = (wide(x)?, wide(y)?);
    let (x, _) = control::while_loop(
        start,
        |(_, y)| ops::any(ops::not_equal(y, 0), ..).done(),
        |(x, y)| {
            let done = ops::equal(y, 0).done()?;
            let rest = ops::remainder(x, ops::where_(&done, 1, y)).done()?;
            Ok((
                ops::where_(&done, x, y).done()?,
                ops::where_(&done, y, rest).done()?,
            ))
        },
    )?;
    Ok(x.into())
}

fn select(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let condition = ops::cast(a.expr(0, "condition"), DType::Bool);
    Ok(
        ops::where_(condition, a.expr(1, "self"), a.expr(2, "other"))
            .done()?
            .into(),
    )
}

fn clamp(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let mut x = a.expr(0, "self");
    if a.has(1, "min") {
        x = ops::maximum(x, a.expr(1, "min"));
    }
    if a.has(2, "max") {
        x = ops::minimum(x, a.expr(2, "max"));
    }
    Ok(x.done()?.into())
}

fn hardtanh(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (low, high) = (a.float(1, "min_val", -1.0)?, a.float(2, "max_val", 1.0)?);
    Ok(ops::minimum(ops::maximum(a.expr(0, "self"), low), high)
        .done()?
        .into())
}

/// The weight broadcasts along the second axis.
fn prelu(a: &Args<'_>) -> Result<Slot> {
    let (x, w) = (a.tensor(0, "self")?, a.tensor(1, "weight")?);
    let w = if w.rank() == 1 && x.rank() > 1 {
        let mut shape = vec![1i64; x.rank() - 1];
        shape[0] = -1;
        ops::reshape(w, shape).done()?
    } else {
        w
    };
    Ok(ops::where_(ops::greater(&x, 0.0), &x, &x * w)
        .done()?
        .into())
}

fn elu(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (alpha, scale) = (a.float(1, "alpha", 1.0)?, a.float(2, "scale", 1.0)?);
    let inside = a.float(3, "input_scale", 1.0)?;
    let x = a.tensor(0, "self")?;
    if scale == 1.0 && inside == 1.0 {
        return Ok(ops::elu(x, alpha).done()?.into());
    }
    let low = ops::expm1(ops::minimum(&x * inside, 0.0)) * (alpha * scale);
    Ok(ops::where_(ops::greater(&x, 0.0), &x * scale, low)
        .done()?
        .into())
}

fn gelu(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let tanh = a.text(1, "approximate", "none")? == "tanh";
    Ok(ops::gelu(a.expr(0, "self"), tanh).done()?.into())
}

fn softplus(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (beta, threshold) = (a.float(1, "beta", 1.0)?, a.float(2, "threshold", 20.0)?);
    Ok(
        activation::softplus(a.expr(0, "self"), Some(beta), Some(threshold))
            .done()?
            .into(),
    )
}

fn identity(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    Ok(a.tensor(0, "self")?.into())
}

fn to_copy(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x: Tensor = a.tensor(0, "self")?;
    Ok(ops::cast(x, a.recorded_spec(0)?.dtype).done()?.into())
}
