//! Import rules of TensorFlow ops.
//!
//! Shapes are values in TensorFlow: sizes of a tensor that are sliced, multiplied and packed again. A value that is computed
//! from sizes alone stays a list of sizes here, so that a batch stays symbolic.

mod control;
mod index;
mod layer;
mod misc;
mod pointwise;
mod while_loop;
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

const PARTS: [&[(&str, Rule)]; 6] = [
    pointwise::RULES,
    shape::RULES,
    index::RULES,
    layer::RULES,
    misc::RULES,
    control::RULES,
];

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

/// Out of range for positions: attributes are given by name only.
const NAMED: usize = usize::MAX;

/// Operand `i`; sizes become a tensor.
fn t(a: &Args<'_>, i: usize) -> Result<Tensor> {
    match tensor_of(a.slot(i, "operand"))? {
        Some(x) => Ok(x),
        None => a.tensor(i, "operand"),
    }
}

/// A value as a tensor, if it can be one.
fn tensor_of(slot: &Slot) -> Result<Option<Tensor>> {
    Ok(Some(match slot {
        Slot::Int(d) => counted(*d)?,
        Slot::List(parts) => match numbers(slot) {
            Some((all, shape)) => known(&all, &shape)?,
            None => {
                let mut rows = Vec::new();
                for part in parts {
                    match tensor_of(part)? {
                        Some(x) => rows.push(ops::expand_dims(x, 0).done()?),
                        None => return Ok(None),
                    }
                }
                ops::concat(&rows, 0).done()?
            }
        },
        other => return Ok(other.as_number()),
    }))
}

/// Known numbers, flattened, and the shape of the nested lists.
fn numbers(slot: &Slot) -> Option<(Vec<i64>, Vec<usize>)> {
    match slot {
        Slot::Int(d) => Some((vec![d.value()?], vec![])),
        Slot::List(parts) => {
            let (mut all, mut inside) = (Vec::new(), Vec::new());
            for part in parts {
                let (more, shape) = numbers(part)?;
                all.extend(more);
                inside = shape;
            }
            inside.insert(0, parts.len());
            Some((all, inside))
        }
        _ => None,
    }
}

/// Known numbers as a tensor; an arithmetic progression becomes an iota.
fn known(all: &[i64], shape: &[usize]) -> Result<Tensor> {
    if let [first, second, ..] = *all
        && shape.len() == 1
        && all.windows(2).all(|two| two[1] - two[0] == second - first)
    {
        let places = ops::iota(Shape::from_sizes(shape), 0, DType::I32);
        return match (first, second - first) {
            (0, 1) => places,
            (_, 1) => places + first,
            (_, 0) => ops::full(Shape::from_sizes(shape), first, DType::I32),
            (_, step) => places * step + first,
        }
        .done();
    }
    let narrow: Vec<i32> = all.iter().map(|&n| n as i32).collect();
    if narrow.iter().zip(all).all(|(&a, &b)| i64::from(a) == b) {
        return ops::from_slice(&narrow, Shape::from_sizes(shape));
    }
    ops::from_slice(all, Shape::from_sizes(shape))
}

/// A size as a scalar tensor.
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

/// Operand `i` as an expression.
fn e(a: &Args<'_>, i: usize) -> Expr {
    t(a, i).into()
}

/// Sizes, if the operand consists of sizes.
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
            "convert: `{}`: expected a known value of operand {i}",
            a.node.op
        ),
    }
}

/// A list of sizes as a value.
fn list(dims: Vec<Dim>) -> Slot {
    Slot::List(dims.into_iter().map(Slot::Int).collect())
}
