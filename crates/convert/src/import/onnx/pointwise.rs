//! Elementwise operators.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{
    NAMED, e, floats, list, low_precision_cast, maybe, out, several, sizes, t, values, version,
    wanted,
};
use crate::onnx::low_precision::LowPrecision;
use clematis_core::expr::Expr;
use clematis_core::{DType, Dim, Result, Tensor, bail, ops, random};

macro_rules! one {
    ($f:expr) => {
        |_, a| out($f(e(a, 0)))
    };
}
macro_rules! two {
    ($f:expr) => {
        |_, a| out($f(e(a, 0), e(a, 1)))
    };
}

pub const RULES: &[(&str, Rule)] = &[
    ("Identity", |_, a| Ok(a.slot(0, "operand").clone())),
    ("Abs", one!(ops::abs)),
    ("Acos", one!(ops::acos)),
    ("Acosh", one!(ops::acosh)),
    ("Asin", one!(ops::asin)),
    ("Asinh", one!(ops::asinh)),
    ("Atan", one!(ops::atan)),
    ("Atanh", one!(ops::atanh)),
    ("BitwiseNot", one!(ops::bitwise_not)),
    ("Ceil", one!(ops::ceil)),
    ("Cos", one!(ops::cos)),
    ("Cosh", one!(ops::cosh)),
    ("Erf", one!(ops::erf)),
    ("Exp", one!(ops::exp)),
    ("Floor", one!(ops::floor)),
    ("IsNaN", one!(ops::isnan)),
    ("Log", one!(ops::log)),
    ("Mish", one!(ops::mish)),
    ("Neg", |_, a| {
        match sizes(a, 0).filter(|_| !matches!(a.slot(0, "x"), Slot::Tensor(_))) {
            Some(dims) => Ok(like(
                a,
                dims.into_iter().map(|d| Dim::from(0) - d).collect(),
            )),
            None => out(ops::neg(e(a, 0))),
        }
    }),
    ("Not", one!(ops::logical_not)),
    ("Reciprocal", one!(ops::reciprocal)),
    ("Relu", |_, a| out(ops::relu(e(a, 0)))),
    ("Round", one!(ops::round)),
    ("Selu", selu),
    ("Sigmoid", one!(ops::sigmoid)),
    ("Sign", one!(ops::sign)),
    ("Sin", one!(ops::sin)),
    ("Sinh", one!(ops::sinh)),
    ("Softplus", one!(ops::softplus)),
    (
        "Softsign",
        one!(|x: Expr| x.then(|x| &x / (1.0 + ops::abs(&x)))),
    ),
    ("Sqrt", one!(ops::sqrt)),
    ("Tan", one!(ops::tan)),
    ("Tanh", one!(ops::tanh)),
    (
        "HardSwish",
        one!(|x: Expr| x.then(|x| &x * gate(&x, 1.0 / 6.0, 0.5))),
    ),
    ("HardSigmoid", |_, a| {
        let (alpha, beta) = (a.float(NAMED, "alpha", 0.2)?, a.float(NAMED, "beta", 0.5)?);
        out(gate(&t(a, 0)?, alpha, beta))
    }),
    ("Elu", |_, a| {
        out(ops::elu(e(a, 0), a.float(NAMED, "alpha", 1.0)?))
    }),
    ("Celu", |_, a| {
        let (x, alpha) = (t(a, 0)?, a.float(NAMED, "alpha", 1.0)?);
        out(ops::maximum(&x, 0.0)
            + ops::minimum(alpha * ops::expm1(ops::minimum(&x, 0.0) / alpha), 0.0))
    }),
    ("LeakyRelu", |_, a| {
        out(ops::leaky_relu(e(a, 0), a.float(NAMED, "alpha", 0.01)?))
    }),
    ("ThresholdedRelu", |_, a| {
        let x = t(a, 0)?;
        out(ops::where_(
            ops::greater(&x, a.float(NAMED, "alpha", 1.0)?),
            &x,
            0.0,
        ))
    }),
    ("Shrink", |_, a| {
        let x = t(a, 0)?;
        let (bias, edge) = (a.float(NAMED, "bias", 0.0)?, a.float(NAMED, "lambd", 0.5)?);
        let wide = ops::cast(&x, DType::F64).done()?;
        let high = ops::where_(ops::greater(&wide, edge), &wide - bias, 0.0);
        out(ops::cast(
            ops::where_(ops::less(&wide, -edge), &wide + bias, high),
            x.dtype(),
        ))
    }),
    ("Gelu", |_, a| {
        out(ops::gelu(
            e(a, 0),
            a.text(NAMED, "approximate", "none")? == "tanh",
        ))
    }),
    ("Swish", |_, a| {
        let (x, alpha) = (t(a, 0)?, a.float(NAMED, "alpha", 1.0)?);
        if alpha == 1.0 {
            return out(ops::silu(x));
        }
        out(&x * ops::sigmoid(&x * alpha))
    }),
    ("SwiGLU", swiglu),
    ("PRelu", |_, a| {
        let (x, weight) = (t(a, 0)?, t(a, 1)?);
        out(ops::where_(ops::less(&x, 0), &x * weight, &x))
    }),
    ("Clip", clip),
    ("Add", |_, a| either(a, |x, y| Some(x + y), |x, y| x + y)),
    ("Sub", |_, a| either(a, |x, y| Some(x - y), |x, y| x - y)),
    ("Mul", |_, a| either(a, |x, y| Some(x * y), |x, y| x * y)),
    ("Div", |_, a| either(a, divided, divide)),
    ("Mod", modulo),
    ("Pow", |_, a| {
        let (x, y) = (t(a, 0)?, t(a, 1)?);
        let kind = x.dtype();
        if kind.is_int() && y.dtype().is_float() {
            let power = ops::pow(ops::cast(&x, y.dtype()), &y);
            return out(ops::cast(power, kind));
        }
        out(ops::cast(ops::pow(&x, ops::cast(y, kind)), kind))
    }),
    ("BitwiseAnd", two!(ops::bitwise_and)),
    ("BitwiseOr", two!(ops::bitwise_or)),
    ("BitwiseXor", two!(ops::bitwise_xor)),
    ("BitShift", |_, a| {
        let (x, y) = (t(a, 0)?, t(a, 1)?);
        // Shifts by the width or more, or by negative amounts, give 0, or -1 for negative values.
        let width = x.dtype().size() as i64 * 8;
        let far = |by: i64| match x.dtype().is_signed_int() {
            true => ops::where_(
                ops::logical_or(ops::less(&y, 0), ops::greater(&y, by)),
                by,
                &y,
            ),
            false => ops::minimum(&y, by),
        };
        match a.text(NAMED, "direction", "")? {
            "LEFT" => out(ops::shift_left(&x, far(width))),
            "RIGHT" if x.dtype().is_signed_int() => out(ops::shift_right(&x, far(width - 1))),
            "RIGHT" => out(ops::shift_right(&x, far(width))),
            other => bail!(
                Convert,
                "convert: `BitShift`: expected direction \"LEFT\" or \"RIGHT\", got \"{other}\""
            ),
        }
    }),
    ("And", two!(ops::logical_and)),
    ("Or", two!(ops::logical_or)),
    ("Xor", two!(ops::logical_xor)),
    ("Equal", equal),
    ("Less", two!(ops::less)),
    ("LessOrEqual", two!(ops::less_equal)),
    ("Greater", two!(ops::greater)),
    ("GreaterOrEqual", two!(ops::greater_equal)),
    ("Where", choose),
    ("Max", |_, a| fold(a, |x, y| Some(x.max(y)), ops::maximum)),
    ("Min", |_, a| fold(a, |x, y| Some(x.min(y)), ops::minimum)),
    ("Sum", |_, a| fold(a, |x, y| Some(x + y), |x, y| x + y)),
    ("Mean", |_, a| {
        let count = a.args.len().max(1) as f64;
        match fold(a, |_, _| None, |x, y| x + y)? {
            Slot::Tensor(x) => out(x / count),
            other => Ok(other),
        }
    }),
    ("IsInf", |_, a| {
        let x = t(a, 0)?;
        let (high, low) = (
            a.flag(NAMED, "detect_positive", true)?,
            a.flag(NAMED, "detect_negative", true)?,
        );
        let found = ops::isinf(&x);
        out(match (high, low) {
            (true, true) => found,
            (true, false) => ops::logical_and(found, ops::greater(&x, 0.0)),
            (false, true) => ops::logical_and(found, ops::less(&x, 0.0)),
            (false, false) => ops::logical_and(found, false),
        })
    }),
    ("Cast", |_, a| {
        let to = crate::onnx::tensor::dtype(a.int(NAMED, "to", 0)?)?;
        cast(a, low_precision_cast::wanted(a, "to")?, to)
    }),
    ("CastLike", |_, a| {
        cast(
            a,
            low_precision_cast::wanted(a, "&low_precision")?,
            t(a, 1)?.dtype(),
        )
    }),
    ("BitCast", |_, a| {
        let to = crate::onnx::tensor::dtype(a.int(NAMED, "to", 0)?)?;
        let x = t(a, 0)?;
        if to == DType::Bool || x.dtype() == DType::Bool {
            // One byte of 0 or 1.
            return out(ops::cast(
                ops::bitcast(
                    ops::cast(x, DType::U8),
                    if to == DType::Bool { DType::U8 } else { to },
                ),
                to,
            ));
        }
        out(ops::bitcast(x, to))
    }),
    ("Dropout", dropout),
    ("Bernoulli", |w, a| {
        let p = t(a, 0)?;
        let to = match a.has(NAMED, "dtype") {
            true => crate::onnx::tensor::dtype(a.int(NAMED, "dtype", 1)?)?,
            false => p.dtype(),
        };
        let draw = random::uniform(&w.key(), p.shape().clone(), 0.0, 1.0, DType::F32);
        out(ops::cast(ops::less(draw, ops::cast(p, DType::F32)), to))
    }),
];

/// Sizes as a value of the operand's rank.
fn like(a: &Args<'_>, dims: Vec<Dim>) -> Slot {
    let alone = (0..a.args.len()).all(|i| match a.slot(i, "x") {
        Slot::Int(_) => true,
        Slot::Tensor(x) => x.rank() == 0,
        _ => false,
    });
    if alone {
        Slot::Int(dims[0])
    } else {
        list(dims)
    }
}

/// Whether an operand is computed from symbolic sizes.
fn has_sizes(a: &Args<'_>) -> bool {
    (0..a.args.len()).any(|i| matches!(a.slot(i, "x"), Slot::Int(_) | Slot::List(_)))
}

/// Arithmetic of sizes if both operands are sizes, otherwise of tensors.
fn either(
    a: &Args<'_>,
    sized: fn(Dim, Dim) -> Option<Dim>,
    f: fn(Expr, Expr) -> Expr,
) -> Result<Slot> {
    if has_sizes(a)
        && let (Some(x), Some(y)) = (sizes(a, 0), sizes(a, 1))
        && (x.len() == y.len() || x.len() == 1 || y.len() == 1)
    {
        let at = |xs: &[Dim], i: usize| if xs.len() == 1 { xs[0] } else { xs[i] };
        let count = if x.is_empty() || y.is_empty() {
            0
        } else {
            x.len().max(y.len())
        };
        let all: Option<Vec<Dim>> = (0..count).map(|i| sized(at(&x, i), at(&y, i))).collect();
        if let Some(all) = all {
            return Ok(if all.is_empty() {
                list(all)
            } else {
                like(a, all)
            });
        }
    }
    out(f(e(a, 0), e(a, 1)))
}

/// ONNX divides integers towards zero; sizes are not negative.
fn divided(x: Dim, y: Dim) -> Option<Dim> {
    match (x.value(), y.value()) {
        (Some(x), Some(y)) => x.checked_div(y).map(Dim::number),
        (None, Some(y)) if y > 0 => x.floor_div(Dim::number(y)).ok(),
        (_, None) => x.floor_div(y).ok(),
        _ => None,
    }
}

fn divide(x: Expr, y: Expr) -> Expr {
    x.then(|x| {
        y.then(|y| {
            if !x.dtype().is_int() {
                return &x / &y;
            }
            // Subtracting the remainder, which has the sign of x, leaves a multiple of y.
            ops::floor_divide(&x - ops::fmod(&x, &y), &y)
        })
    })
}

fn modulo(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    if a.flag(NAMED, "fmod", false)? {
        return out(ops::fmod(e(a, 0), e(a, 1)));
    }
    either(a, |x, y| x.rem(y).ok(), ops::remainder)
}

fn fold(
    a: &Args<'_>,
    sized: fn(Dim, Dim) -> Option<Dim>,
    f: impl Fn(Expr, Expr) -> Expr,
) -> Result<Slot> {
    if has_sizes(a)
        && let Some(all) = (0..a.args.len())
            .map(|i| sizes(a, i))
            .collect::<Option<Vec<_>>>()
        && all.iter().all(|x| x.len() == 1)
    {
        let mut parts = all.iter().map(|x| x[0]);
        let first = parts.next();
        let found = first.and_then(|first| parts.try_fold(first, sized));
        if let Some(found) = found {
            return Ok(like(a, vec![found]));
        }
    }
    let xs = (0..a.args.len())
        .map(|i| t(a, i))
        .collect::<Result<Vec<_>>>()?;
    let whole = xs.iter().fold(Dim::from(1), |n, x| {
        n * x.shape().count_dim().max(Dim::from(1))
    });
    let mut xs = xs
        .into_iter()
        .map(|x| super::recorded(x, Some(whole)).into());
    let first: Expr = xs.next().unwrap_or_else(|| Err(a.bad("an operand")).into());
    out(xs.fold(first, f))
}

/// Compares sizes now if the result is known: equal expressions, two numbers, or a size and a negative number.
fn equal(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    if has_sizes(a)
        && let (Some(x), Some(y)) = (sizes(a, 0), sizes(a, 1))
        && x.len() == y.len()
    {
        let one = |(x, y): (&Dim, &Dim)| match (x.value(), y.value()) {
            (Some(x), Some(y)) => Some(x == y),
            _ if x == y => Some(true),
            // A size is never negative, and -1 is what models compare it with.
            (Some(n), None) | (None, Some(n)) if n < 0 => Some(false),
            _ => None,
        };
        let same: Option<Vec<bool>> = x.iter().zip(&y).map(one).collect();
        if let Some(same) = same {
            let alone = matches!(like(a, x), Slot::Int(_));
            let shape: &[usize] = if alone { &[] } else { &[same.len()] };
            let shape = clematis_core::Shape::from_sizes(shape);
            return Ok(ops::from_slice(&same, shape)?.into());
        }
    }
    out(ops::equal(e(a, 0), e(a, 1)))
}

fn choose(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let which = t(a, 0)?;
    if (sizes(a, 1).is_some() || sizes(a, 2).is_some())
        && let (Some(x), Some(y), Some(which)) = (sizes(a, 1), sizes(a, 2), values(&which))
        && which.spec().rank() <= 1
    {
        let count = x.len().max(y.len()).max(which.spec().shape.count());
        let at = |xs: &[Dim], i: usize| if xs.len() == 1 { xs.first() } else { xs.get(i) }.copied();
        let pick = |i: usize| {
            let i_which = if which.spec().shape.count() == 1 {
                0
            } else {
                i
            };
            if which.get(i_which).ok()?.as_bool() {
                at(&x, i)
            } else {
                at(&y, i)
            }
        };
        if let Some(all) = (0..count).map(pick).collect::<Option<Vec<_>>>()
            && has_sizes(a)
        {
            return Ok(if all.is_empty() {
                list(all)
            } else {
                like(a, all)
            });
        }
    }
    out(ops::where_(which, e(a, 1), e(a, 2)))
}

fn cast(a: &Args<'_>, low_precision: Option<LowPrecision>, to: DType) -> Result<Slot> {
    if let Some(dtype) = low_precision {
        let saturate = a.flag(NAMED, "saturate", true)?;
        let mode = a.text(NAMED, "round_mode", "up")?;
        return Ok(low_precision_cast::rounded(&t(a, 0)?, dtype, saturate, mode)?.into());
    }
    if to == DType::I64 && !matches!(a.slot(0, "x"), Slot::Tensor(_)) {
        return Ok(a.slot(0, "x").clone());
    }
    let x = t(a, 0)?;
    // Between integers the low bits are kept, as in our casts.
    out(ops::cast(x, to))
}

/// Hard sigmoid: alpha x + beta, clamped to [0, 1].
fn gate(x: &Tensor, alpha: f64, beta: f64) -> Expr {
    ops::minimum(ops::maximum(x * alpha + beta, 0.0), 1.0)
}

fn selu(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = t(a, 0)?;
    let alpha = a.float(NAMED, "alpha", 1.673_263_2)?;
    let gamma = a.float(NAMED, "gamma", 1.050_701)?;
    if !a.has(NAMED, "alpha") && !a.has(NAMED, "gamma") {
        return out(ops::selu(x));
    }
    out(gamma * ops::elu(x, alpha))
}

fn swiglu(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, y) = (t(a, 0)?, t(a, 1)?);
    let alpha = a.float(NAMED, "alpha", 1.0)?;
    out(&x * ops::sigmoid(&x * alpha) * y)
}

fn clip(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let mut x = e(a, 0);
    let edge = |i: usize, name: &str| -> Result<Option<Expr>> {
        if a.has(NAMED, name) {
            return Ok(Some(Ok(Tensor::number(a.float(NAMED, name, 0.0)?)).into()));
        }
        Ok(maybe(a, i)?.map(|x| Ok(x).into()))
    };
    if let Some(low) = edge(1, "min")? {
        x = ops::maximum(x, low);
    }
    if let Some(high) = edge(2, "max")? {
        x = ops::minimum(x, high);
    }
    out(x)
}

fn dropout(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = t(a, 0)?;
    let training = match maybe(a, 2)? {
        Some(flag) => match values(&flag) {
            Some(flag) => flag.get(0)?.as_bool(),
            None => return super::unknown(a, 2),
        },
        None => false,
    };
    let rate = match (version(a) >= 12, a.has(1, "ratio")) {
        (true, true) => floats(a, 1)?.first().copied().unwrap_or(0.5),
        (true, false) => 0.5,
        (false, _) => a.float(NAMED, "ratio", 0.5)?,
    };
    let kept = |x: &Tensor| ops::full(x.shape().clone(), true, DType::Bool).done();
    if !training || rate == 0.0 {
        let mask = if wanted(a) > 1 { kept(&x)? } else { x.clone() };
        return Ok(several(a, vec![x.into(), mask.into()]));
    }
    let draw = random::uniform(&w.key(), x.shape().clone(), 0.0, 1.0, DType::F32);
    let mask = ops::greater_equal(draw, rate).done()?;
    let y = ops::where_(&mask, &x / (1.0 - rate), 0.0).done()?;
    Ok(several(a, vec![y.into(), mask.into()]))
}
