//! Branches, and tensor lists (`TensorList`), which loops read and write.
//!
//! A list is a tensor with its elements along the first axis. A reserved list has no dtype yet and is represented by
//! a marker and a length; the first element that is written makes it a tensor.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{NAMED, t, tensor_of};
use crate::captured::Program;
use clematis_core::control::{self, Carry};
use clematis_core::{DType, Dim, Result, Shape, Tensor, bail, ops};
use std::cell::RefCell;
use std::sync::Arc;

pub const RULES: &[(&str, Rule)] = &[
    ("If", branch),
    ("StatelessIf", branch),
    ("Case", case),
    ("StatelessCase", case),
    ("While", super::while_loop::repeated),
    ("StatelessWhile", super::while_loop::repeated),
    ("TensorListReserve", |_, a| {
        Ok(Slot::List(vec![
            Slot::Text(RESERVED.into()),
            a.slot(1, "num_elements").clone(),
        ]))
    }),
    ("TensorListFromTensor", |_, a| Ok(t(a, 0)?.into())),
    ("TensorListStack", |_, a| match a.slot(0, "list") {
        Slot::Tensor(x) => Ok(x.clone().into()),
        _ => bail!(Unsupported, "convert: a TensorList without elements"),
    }),
    ("TensorListLength", |_, a| {
        Ok(match a.slot(0, "list") {
            Slot::Tensor(x) => Slot::Int(x.shape().dims()[0]),
            other => reserved(other).cloned().unwrap_or(Slot::Nothing),
        })
    }),
    ("TensorListGetItem", get_item),
    ("TensorListSetItem", set_item),
];

const RESERVED: &str = "reserved";

/// The length of a list without elements.
pub(super) fn reserved(slot: &Slot) -> Option<&Slot> {
    match slot {
        Slot::List(parts) => match parts.as_slice() {
            [Slot::Text(word), length] if word == RESERVED => Some(length),
            _ => None,
        },
        _ => None,
    }
}

fn get_item(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let Slot::Tensor(x) = a.slot(0, "list") else {
        bail!(
            Unsupported,
            "convert: an element of a TensorList without elements"
        );
    };
    let rest = x.shape().without(&[0]);
    let one = match a.slot(1, "index") {
        Slot::Int(at) => ops::slice_axis(x, 0, *at, *at + Dim::from(1)),
        _ => {
            let sizes = x.shape().with(0, Dim::from(1));
            ops::dynamic_slice(x, place(a, x.rank())?, sizes)
        }
    };
    Ok(ops::reshape(one, rest).done()?.into())
}

fn set_item(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = t(a, 2)?;
    let list = match (a.slot(0, "list"), reserved(a.slot(0, "list"))) {
        (Slot::Tensor(list), _) => list.clone(),
        (_, Some(Slot::Int(length))) => {
            ops::zeros(x.shape().insert(0, *length), x.dtype()).done()?
        }
        _ => bail!(
            Unsupported,
            "convert: a TensorList whose length depends on values"
        ),
    };
    let start = place(a, list.rank())?;
    Ok(
        ops::dynamic_update_slice(&list, ops::expand_dims(x, 0), start)
            .done()?
            .into(),
    )
}

/// Operand 1 as index along the first axis, zero along the others.
fn place(a: &Args<'_>, rank: usize) -> Result<Tensor> {
    let one = Shape::from_sizes(&[1]);
    let first = ops::reshape(ops::cast(t(a, 1)?, DType::I64), one).done()?;
    let others = ops::zeros(Shape::from_sizes(&[rank - 1]), DType::I64).done()?;
    ops::concat(&[first, others], 0).done()
}

pub(super) fn program(a: &Args<'_>, name: &str) -> Result<Arc<Program>> {
    body(a.slot(NAMED, name), a)
}

fn body(slot: &Slot, a: &Args<'_>) -> Result<Arc<Program>> {
    match slot {
        Slot::Program(body) => Ok(body.clone()),
        _ => bail!(Convert, "convert: `{}` without a body", a.node.op),
    }
}

/// A value as a tensor with a strong dtype.
pub(super) fn to_tensor(slot: &Slot) -> Result<Tensor> {
    match tensor_of(slot)? {
        Some(x) => ops::materialize(&x),
        None => bail!(
            Unsupported,
            "convert: expected a tensor as operand of a branch or a loop, got {}",
            slot.kind()
        ),
    }
}

pub(super) fn several(mut out: Vec<Slot>) -> Slot {
    match out.len() {
        1 => out.remove(0),
        _ => Slot::List(out),
    }
}

fn branch(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let bodies = [program(a, "then_branch")?, program(a, "else_branch")?];
    let which = match a.slot(0, "cond") {
        Slot::Bool(yes) => Slot::Int(Dim::from(usize::from(!yes))),
        Slot::Int(n) if n.value().is_some() => {
            Slot::Int(Dim::from(usize::from(n.value() == Some(0))))
        }
        _ => {
            let no = ops::logical_not(ops::cast(t(a, 0)?, DType::Bool));
            Slot::Tensor(ops::cast(ops::reshape(no, ()), DType::I32).done()?)
        }
    };
    chosen(w, a, &which, &bodies)
}

fn case(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let Slot::List(branches) = a.slot(NAMED, "branches") else {
        bail!(Convert, "convert: `{}` without branches", a.node.op);
    };
    let bodies: Vec<Arc<Program>> = branches.iter().map(|b| body(b, a)).collect::<Result<_>>()?;
    chosen(w, a, a.slot(0, "index"), &bodies)
}

fn chosen(
    w: &mut Importer<'_>,
    a: &Args<'_>,
    which: &Slot,
    bodies: &[Arc<Program>],
) -> Result<Slot> {
    let given = &a.args[1..];
    if let Slot::Int(n) = which
        && let Some(n) = n.value()
    {
        let last = bodies.len() as i64 - 1;
        // An index out of range selects the last branch.
        let at = if (0..=last).contains(&n) { n } else { last };
        return Ok(several(w.inside(&bodies[at as usize], given)?));
    }
    let index = match tensor_of(which)? {
        Some(x) => x,
        None => bail!(
            Convert,
            "convert: expected an integer as branch index, got {}",
            which.kind()
        ),
    };
    let start = Carry(given.iter().filter_map(tensor).collect());
    let walk = RefCell::new(w);
    let out = choose(&walk, &index, &start, given, bodies, 0)?;
    Ok(several(out.0.into_iter().map(Slot::Tensor).collect()))
}

fn tensor(slot: &Slot) -> Option<Tensor> {
    match slot {
        Slot::Tensor(x) => Some(x.clone()),
        _ => None,
    }
}

/// A chain of two-way branches.
fn choose(
    walk: &RefCell<&mut Importer<'_>>,
    index: &Tensor,
    xs: &Carry,
    given: &[Slot],
    bodies: &[Arc<Program>],
    first: i64,
) -> Result<Carry> {
    let run = |body: &Program, xs: &Carry| -> Result<Carry> {
        let mut new = xs.0.iter();
        let with = |slot: &Slot| match slot {
            Slot::Tensor(x) => Slot::Tensor(new.next().unwrap_or(x).clone()),
            other => other.clone(),
        };
        let operands: Vec<Slot> = given.iter().map(with).collect();
        let out = walk.borrow_mut().inside(body, &operands)?;
        Ok(Carry(out.iter().map(to_tensor).collect::<Result<_>>()?))
    };
    match bodies {
        [] => bail!(Convert, "convert: a branch op without branches"),
        [only] => run(only, xs),
        [one, rest @ ..] => {
            let here = ops::less_equal(index, first).done()?;
            control::cond(
                &here,
                xs,
                |xs| run(one, xs),
                |xs| choose(walk, index, xs, given, rest, first + 1),
            )
        }
    }
}
