//! Arithmetic of symbolic numbers that are not sizes: ratios and roots.

use super::super::Rule;
use super::super::args::Args;
use super::out;
use clematis_core::expr::Expr;
use clematis_core::{DType, Result, Tensor, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("sym.float", |_, a| out(value(a, 0)?)),
    ("sym.int", |_, a| {
        out(ops::cast(ops::trunc(value(a, 0)?), DType::I64))
    }),
    ("sym.truediv", |_, a| out(value(a, 0)? / value(a, 1)?)),
    ("sym.add", |_, a| out(value(a, 0)? + value(a, 1)?)),
    ("sym.sub", |_, a| out(value(a, 0)? - value(a, 1)?)),
    ("sym.mul", |_, a| out(value(a, 0)? * value(a, 1)?)),
    ("sym.pow", |_, a| out(ops::pow(value(a, 0)?, value(a, 1)?))),
    ("sym.neg", |_, a| out(-value(a, 0)?)),
    ("sym.sqrt", |_, a| out(ops::sqrt(value(a, 0)?))),
    ("sym.log2", |_, a| out(ops::log2(value(a, 0)?))),
    ("sym.max", |_, a| {
        out(ops::maximum(value(a, 0)?, value(a, 1)?))
    }),
    ("sym.min", |_, a| {
        out(ops::minimum(value(a, 0)?, value(a, 1)?))
    }),
];

/// In float64, which Python computes in.
fn value(a: &Args<'_>, i: usize) -> Result<Expr> {
    let x: Tensor = a.tensor(i, "number")?;
    Ok(ops::cast(x, DType::F64))
}
