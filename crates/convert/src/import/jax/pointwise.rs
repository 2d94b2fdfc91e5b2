//! Elementwise primitives.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{NAMED, e, x};
use clematis_core::expr::Expr;
use clematis_core::{DType, Result, bail, ops};

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
    ("neg", one!(ops::neg)),
    ("sign", one!(ops::sign)),
    ("floor", one!(ops::floor)),
    ("ceil", one!(ops::ceil)),
    ("round", round),
    ("exp", one!(ops::exp)),
    ("exp2", one!(ops::exp2)),
    ("log", one!(ops::log)),
    ("expm1", one!(ops::expm1)),
    ("log1p", one!(ops::log1p)),
    ("tanh", one!(ops::tanh)),
    ("logistic", one!(ops::sigmoid)),
    ("sin", one!(ops::sin)),
    ("cos", one!(ops::cos)),
    ("tan", one!(ops::tan)),
    ("asin", one!(ops::asin)),
    ("acos", one!(ops::acos)),
    ("atan", one!(ops::atan)),
    ("sinh", one!(ops::sinh)),
    ("cosh", one!(ops::cosh)),
    ("asinh", one!(ops::asinh)),
    ("acosh", one!(ops::acosh)),
    ("atanh", one!(ops::atanh)),
    ("sqrt", one!(ops::sqrt)),
    ("rsqrt", one!(ops::rsqrt)),
    ("cbrt", one!(ops::cbrt)),
    ("square", one!(|x: Expr| x.then(|x| &x * &x))),
    ("abs", one!(ops::abs)),
    ("not", not),
    ("is_finite", one!(ops::isfinite)),
    ("erf", one!(ops::erf)),
    ("erfc", one!(ops::erfc)),
    ("erf_inv", one!(ops::erfinv)),
    ("lgamma", one!(ops::lgamma)),
    ("bessel_i0e", |_, a| {
        super::super::torch::special::bessel(a, 0, true)
    }),
    ("bessel_i1e", |_, a| {
        super::super::torch::special::bessel(a, 1, true)
    }),
    ("digamma", one!(ops::digamma)),
    ("real", one!(ops::real)),
    ("imag", one!(ops::imag)),
    ("conj", one!(ops::conj)),
    ("integer_pow", integer_pow),
    ("stop_gradient", one!(ops::stop_gradient)),
    ("copy", one!(|x| x)),
    ("copy_p", one!(|x| x)),
    ("device_put", identity),
    ("sharding_constraint", identity),
    ("reduce_precision", identity),
    ("optimization_barrier", identity),
    ("name", identity),
    ("pvary", identity),
    ("add", two!(|x: Expr, y: Expr| x + y)),
    ("add_any", two!(|x: Expr, y: Expr| x + y)),
    ("sub", two!(|x: Expr, y: Expr| x - y)),
    ("mul", two!(|x: Expr, y: Expr| x * y)),
    ("div", div),
    ("rem", two!(ops::fmod)),
    ("pow", two!(ops::pow)),
    ("max", two!(ops::maximum)),
    ("min", two!(ops::minimum)),
    ("atan2", two!(ops::atan2)),
    ("and", two!(ops::bitwise_and)),
    ("or", two!(ops::bitwise_or)),
    ("xor", two!(ops::bitwise_xor)),
    ("shift_left", two!(ops::shift_left)),
    ("shift_right_logical", shift_right_logical),
    ("shift_right_arithmetic", two!(ops::shift_right)),
    ("eq", two!(ops::equal)),
    ("ne", two!(ops::not_equal)),
    ("lt", two!(ops::less)),
    ("le", two!(ops::less_equal)),
    // The total order of floats, which searchsorted uses; it differs from the usual order for NaN only.
    ("lt_to", two!(ops::less)),
    ("le_to", two!(ops::less_equal)),
    ("gt", two!(ops::greater)),
    ("ge", two!(ops::greater_equal)),
    (
        "complex",
        two!(|re: Expr, im: Expr| re.then(|re| {
            let unit = clematis_core::Tensor::scalar(
                clematis_core::Scalar::Complex(clematis_core::Real(0.0), clematis_core::Real(1.0)),
                if re.dtype() == DType::F64 {
                    DType::C128
                } else {
                    DType::C64
                },
            );
            ops::cast(&re, unit.dtype()) + ops::cast(im, unit.dtype()) * unit
        })),
    ),
    ("select_n", select_n),
    ("clamp", |_, a| {
        Ok(ops::minimum(ops::maximum(e(a, 1), e(a, 0)), e(a, 2))
            .done()?
            .into())
    }),
    ("convert_element_type", |_, a| {
        Ok(ops::cast(e(a, 0), a.recorded_spec(0)?.dtype).done()?.into())
    }),
    ("bitcast_convert_type", |_, a| {
        Ok(ops::bitcast(e(a, 0), a.recorded_spec(0)?.dtype)
            .done()?
            .into())
    }),
];

fn identity(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    if a.args.len() > 1 {
        return Ok(Slot::List(a.args.clone()));
    }
    Ok(x(a, 0)?.into())
}

fn round(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = x(a, 0)?;
    if a.int(NAMED, "rounding_method", 1)? == 1 {
        return Ok(ops::round(x).done()?.into());
    }
    // Round half away from zero.
    let up = ops::floor(ops::abs(&x) + 0.5);
    Ok((ops::sign(&x) * up).done()?.into())
}

fn not(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = x(a, 0)?;
    let out = if x.dtype() == DType::Bool {
        ops::logical_not(x)
    } else {
        ops::bitwise_not(x)
    };
    Ok(out.done()?.into())
}

fn integer_pow(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = x(a, 0)?;
    let n = a.int(NAMED, "y", 1)?;
    let mut out = clematis_core::expr::IntoExpr::into_expr(&x);
    match n.unsigned_abs() {
        0 => return Ok(ops::ones_like(&x).done()?.into()),
        1 => {}
        2..=4 => {
            for _ in 1..n.unsigned_abs() {
                out = out * &x;
            }
        }
        _ => return Ok(ops::pow(&x, n as f64).done()?.into()),
    }
    Ok(if n < 0 { 1.0 / out } else { out }.done()?.into())
}

fn div(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, y) = (x(a, 0)?, x(a, 1)?);
    if x.dtype().is_inexact() {
        return Ok((x / y).done()?.into());
    }
    // Integer division rounds towards zero: subtract the remainder, then divide exactly.
    let rest = ops::fmod(&x, &y);
    Ok(ops::floor_divide(&x - rest, &y).done()?.into())
}

fn shift_right_logical(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = x(a, 0)?;
    let unsigned = match x.dtype() {
        DType::I8 => DType::U8,
        DType::I16 => DType::U16,
        DType::I32 => DType::U32,
        DType::I64 => DType::U64,
        same => same,
    };
    let bits = ops::shift_right(ops::bitcast(&x, unsigned), ops::cast(e(a, 1), unsigned));
    Ok(ops::bitcast(bits, x.dtype()).done()?.into())
}

fn select_n(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let which = x(a, 0)?;
    let Some(mut out) = a.args.get(1).and_then(Slot::as_number) else {
        bail!(Convert, "convert: `select_n` without cases");
    };
    let which = ops::cast(&which, DType::I32).done()?;
    for i in 2..a.args.len() {
        let chosen = ops::equal(&which, (i - 1) as i64);
        out = ops::where_(chosen, e(a, i), out).done()?;
    }
    Ok(out.into())
}
