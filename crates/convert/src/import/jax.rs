//! Import rules of jax primitives.

mod control;
mod index;
mod linear;
mod pointwise;
mod shape;

use super::args::Args;
use super::{Rule, Table};
use clematis_core::expr::{Expr, IntoExpr};
use clematis_core::{Result, Tensor};

/// The rules by name.
pub static TABLE: Table = Table {
    family: "jax",
    rule,
};

/// The parts of the table.
const PARTS: [&[(&str, Rule)]; 5] = [
    pointwise::RULES,
    shape::RULES,
    index::RULES,
    linear::RULES,
    control::RULES,
];

fn rule(name: &str) -> Option<Rule> {
    let mut found = PARTS.iter().flat_map(|part| part.iter());
    found
        .find(|(known, _)| *known == name)
        .map(|(_, rule)| *rule)
}

/// The names of all primitives that have a rule.
pub fn names() -> Vec<&'static str> {
    let all = PARTS
        .iter()
        .flat_map(|part| part.iter().map(|(name, _)| *name));
    all.collect()
}

/// Out of range for positions: parameters of primitives are given by name only.
const NAMED: usize = usize::MAX;

/// Operand `i`.
fn x(a: &Args<'_>, i: usize) -> Result<Tensor> {
    a.tensor(i, "operand")
}

/// Operand `i` as an expression.
fn e(a: &Args<'_>, i: usize) -> Expr {
    x(a, i).into_expr()
}

/// A list of known axes by name.
fn places(a: &Args<'_>, name: &str) -> Result<Vec<usize>> {
    Ok(a.ints(NAMED, name)?
        .into_iter()
        .map(|n| n as usize)
        .collect())
}
