//! What TensorFlow's ops are made of.
//!
//! Shapes are values there: the sizes of a tensor, cut, multiplied and packed again. While such a value is made of sizes
//! alone it stays a list of sizes here, so that a batch keeps its name.

mod layer;
mod pointwise;
mod shape;

use super::args::{Args, Slot};
use super::{Rule, Table};
use clematis_core::expr::Expr;
use clematis_core::{DType, Dim, Result, Shape, Tensor, bail, ops};

/// The rules by name.
pub static TABLE: Table = Table {
    family: "tensorflow",
    rule,
};

const PARTS: [&[(&str, Rule)]; 3] = [pointwise::RULES, shape::RULES, layer::RULES];

fn rule(name: &str) -> Option<Rule> {
    let mut found = PARTS.iter().flat_map(|part| part.iter());
    found
        .find(|(known, _)| *known == name)
        .map(|(_, rule)| *rule)
}

/// The names of all ops that have a rule.
pub fn names() -> Vec<&'static str> {
    let all = PARTS
        .iter()
        .flat_map(|part| part.iter().map(|(name, _)| *name));
    all.collect()
}

/// No position is this one: attributes have names alone.
const NAMED: usize = usize::MAX;

/// The operand at a place; sizes become a tensor.
fn t(a: &Args<'_>, i: usize) -> Result<Tensor> {
    match a.slot(i, "operand") {
        Slot::Int(d) => counted(*d),
        Slot::List(parts) => {
            let one = |part: &Slot| match part {
                Slot::Int(d) => ops::reshape(counted(*d)?, Shape::from_sizes(&[1])).done(),
                other => bail!(
                    Convert,
                    "convert: `{}`: {} among sizes",
                    a.node.op,
                    other.kind()
                ),
            };
            let parts = parts.iter().map(one).collect::<Result<Vec<_>>>()?;
            if parts.is_empty() {
                return ops::zeros(Shape::from_sizes(&[0]), DType::I32).done();
            }
            ops::concat(&parts, 0).done()
        }
        _ => a.tensor(i, "operand"),
    }
}

/// A size as a tensor without axes.
fn counted(d: Dim) -> Result<Tensor> {
    match Slot::Int(d).as_number() {
        Some(x) if d.value().is_some() => ops::full(
            Shape::from_sizes(&[]),
            x.as_number().unwrap_or_else(|| 0i64.into()),
            DType::I32,
        )
        .done(),
        Some(x) => ops::cast(x, DType::I32).done(),
        None => bail!(Convert, "convert: a size without a value"),
    }
}

/// The same in an expression.
fn e(a: &Args<'_>, i: usize) -> Expr {
    t(a, i).into()
}

/// Sizes, if the operand is made of sizes alone.
fn sizes(a: &Args<'_>, i: usize) -> Option<Vec<Dim>> {
    match a.slot(i, "operand") {
        Slot::Int(d) => Some(vec![*d]),
        Slot::List(parts) => {
            let one = |part: &Slot| match part {
                Slot::Int(d) => Some(*d),
                _ => None,
            };
            parts.iter().map(one).collect()
        }
        _ => None,
    }
}

/// Known integers in an operand.
fn ints(a: &Args<'_>, i: usize) -> Result<Vec<i64>> {
    let known = sizes(a, i).and_then(|dims| dims.iter().map(|d| d.value()).collect());
    match known {
        Some(known) => Ok(known),
        None => bail!(
            Unsupported,
            "convert: `{}` needs its operand {i} to be known",
            a.node.op
        ),
    }
}

/// A list of sizes as a value.
fn list(dims: Vec<Dim>) -> Slot {
    Slot::List(dims.into_iter().map(Slot::Int).collect())
}
