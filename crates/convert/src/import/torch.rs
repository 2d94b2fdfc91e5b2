//! Import rules of torch operators: those that `torch.export` leaves after decomposition.
//!
//! Names are those of `torch.ops.aten`; the overloads of one name share a rule, which inspects its arguments.

mod complex;
mod control;
mod create;
mod index;
mod layer;
mod linalg;
mod linear;
mod loss;
mod symbolic_number;
mod pointwise;
mod pool;
mod recurrent;
mod reduce;
mod resample;
mod scatter;
mod shape;
pub(super) mod special;
mod view;
mod composite;

use super::args::{Args, Slot};
use super::{Importer, Rule, Table};
use clematis_core::expr::Expr;
use clematis_core::{Result, Tensor};
use std::collections::HashMap;
use std::sync::LazyLock;

/// The rules by name.
pub static TABLE: Table = Table {
    family: "aten",
    rule,
};

/// The parts of the table.
const PARTS: [&[(&str, Rule)]; 19] = [
    pointwise::RULES,
    shape::RULES,
    reduce::RULES,
    index::RULES,
    linear::RULES,
    layer::RULES,
    create::RULES,
    complex::RULES,
    control::RULES,
    linalg::RULES,
    loss::RULES,
    symbolic_number::RULES,
    pool::RULES,
    recurrent::RULES,
    resample::RULES,
    scatter::RULES,
    special::RULES,
    view::RULES,
    composite::RULES,
];

fn rule(name: &str) -> Option<Rule> {
    static BY_NAME: LazyLock<HashMap<&str, Rule>> =
        LazyLock::new(|| PARTS.iter().flat_map(|part| part.iter().copied()).collect());
    // A copy of a view is the view: values are immutable here.
    let plain = name
        .strip_suffix("_copy")
        .filter(|_| !BY_NAME.contains_key(name));
    BY_NAME.get(plain.unwrap_or(name)).copied()
}

/// The result of a rule with one tensor.
fn out(x: Expr) -> Result<Slot> {
    x.done().map(Slot::Tensor)
}

/// An axis counted from the front.
fn axis(x: &Tensor, axis: i64) -> i64 {
    if axis < 0 {
        axis + x.rank().max(1) as i64
    } else {
        axis
    }
}

/// The names of all operators that have a rule; the capturing front end asks torch not to decompose these.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = PARTS
        .iter()
        .flat_map(|part| part.iter().map(|(name, _)| *name))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// One of several results.
pub fn getitem(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let i = a.int(1, "index", 0)?;
    match a.slot(0, "list") {
        Slot::List(xs) => {
            let at = if i < 0 { i + xs.len() as i64 } else { i };
            match usize::try_from(at).ok().and_then(|at| xs.get(at)) {
                Some(x) => Ok(x.clone()),
                None => clematis_core::bail!(Convert, "convert: item {i} of {} results", xs.len()),
            }
        }
        other => clematis_core::bail!(Convert, "convert: item {i} of {}", other.kind()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_op_has_one_rule() {
        let count: usize = PARTS.iter().map(|part| part.len()).sum();
        assert_eq!(names().len(), count);
        assert!(
            rule("relu").is_some() && rule("slice_copy").is_some() && rule("no such op").is_none()
        );
    }
}
