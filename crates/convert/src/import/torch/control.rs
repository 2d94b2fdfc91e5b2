//! Branches, loops, and higher-order ops that wrap a body without changing its results.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use crate::captured::Program;
use clematis_core::control::{self, Carry};
use clematis_core::{DType, Result, Tensor, bail, ops};
use std::cell::RefCell;
use std::sync::Arc;

pub const RULES: &[(&str, Rule)] = &[
    ("cond", cond),
    ("while_loop", while_loop),
    ("scan", scan),
    ("map_impl", map),
    ("associative_scan", associative_scan),
    // The first argument is torch's grad mode, which is decided by our transforms instead.
    ("wrap_with_set_grad_enabled", |w, a| wrapped(w, a, 1)),
    ("wrap_with_autocast", |w, a| wrapped(w, a, 4)),
    ("wrap", |w, a| wrapped(w, a, 0)),
    ("hints_wrapper", hints),
    ("tag_activation_checkpoint", |w, a| wrapped(w, a, 0)),
    ("wrap_activation_checkpoint", |w, a| wrapped(w, a, 0)),
    ("invoke_subgraph", |w, a| {
        let rest: Vec<Slot> = a.args.iter().skip(2).cloned().collect();
        Ok(Slot::List(w.inside(&*body(a, 0)?, &rest)?))
    }),
];

fn body(a: &Args<'_>, i: usize) -> Result<Arc<Program>> {
    match a.args.get(i) {
        Some(Slot::Program(body)) => Ok(body.clone()),
        _ => bail!(Convert, "convert: `{}` without a body", a.node.op),
    }
}

/// Operand `i` as a list.
fn list(a: &Args<'_>, i: usize) -> Vec<Slot> {
    match a.args.get(i) {
        Some(Slot::List(xs)) => xs.clone(),
        Some(Slot::Nothing) | None => Vec::new(),
        Some(one) => vec![one.clone()],
    }
}

/// The tensors among operands.
fn tensors(xs: &[Slot]) -> Vec<Tensor> {
    let only = xs.iter().filter_map(|x| match x {
        Slot::Tensor(x) => Some(x.clone()),
        _ => None,
    });
    only.collect()
}

/// The operands with their tensors replaced.
fn with_tensors(xs: &[Slot], new: &[Tensor]) -> Vec<Slot> {
    let mut new = new.iter();
    let one = |x: &Slot| match x {
        Slot::Tensor(x) => Slot::Tensor(new.next().unwrap_or(x).clone()),
        other => other.clone(),
    };
    xs.iter().map(one).collect()
}

/// Results as tensors.
fn to_tensors(out: Vec<Slot>) -> Result<Vec<Tensor>> {
    let one = |x: Slot| match x.as_number() {
        Some(x) => ops::materialize(&x),
        None => bail!(
            Convert,
            "convert: expected a tensor as result of a body, got {}",
            x.kind()
        ),
    };
    out.into_iter().map(one).collect()
}

fn cond(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let predicate = match a.slot(0, "pred") {
        Slot::Bool(x) => {
            let body = body(a, if *x { 1 } else { 2 })?;
            return Ok(Slot::List(w.inside(&body, &list(a, 3))?));
        }
        _ => ops::reshape(ops::cast(a.expr(0, "pred"), DType::Bool), ()).done()?,
    };
    let (yes, no) = (body(a, 1)?, body(a, 2)?);
    let operands = list(a, 3);
    let walk = RefCell::new(w);
    let branch = |body: &Program, xs: &Carry| -> Result<Carry> {
        let out = walk
            .borrow_mut()
            .inside(body, &with_tensors(&operands, &xs.0))?;
        Ok(Carry(to_tensors(out)?))
    };
    let start = Carry(tensors(&operands));
    let out = control::cond(
        &predicate,
        &start,
        |xs| branch(&yes, xs),
        |xs| branch(&no, xs),
    )?;
    Ok(out.0.into())
}

fn while_loop(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (test, body) = (body(a, 0)?, body(a, 1)?);
    let (carried, more) = (list(a, 2), list(a, 3));
    let carried: Vec<Tensor> = to_tensors(carried)?;
    let walk = RefCell::new(w);
    let run = |program: &Program, xs: &Carry| -> Result<Vec<Tensor>> {
        let mut operands: Vec<Slot> = xs.0.iter().cloned().map(Slot::Tensor).collect();
        operands.extend(more.iter().cloned());
        to_tensors(walk.borrow_mut().inside(program, &operands)?)
    };
    let specs: Vec<_> = carried.iter().map(|x| x.spec().clone()).collect();
    let out = control::while_loop(
        Carry(carried),
        |xs| match run(&test, xs)?.pop() {
            Some(go_on) => ops::reshape(ops::cast(go_on, DType::Bool), ()).done(),
            None => bail!(Convert, "convert: the condition of a loop has no result"),
        },
        |xs| {
            let out = run(&body, xs)?;
            let same = out
                .iter()
                .zip(&specs)
                .map(|(x, s)| ops::cast(x, s.dtype).done());
            Ok(Carry(same.collect::<Result<_>>()?))
        },
    )?;
    Ok(out.0.into())
}

fn scan(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let body = body(a, 0)?;
    let (start, xs, more) = (to_tensors(list(a, 1))?, to_tensors(list(a, 2))?, list(a, 3));
    let count = start.len();
    let (carry, ys) = control::scan(&Carry(start), &Carry(xs), None, false, |c, x| {
        let mut operands: Vec<Slot> = c.0.iter().chain(&x.0).cloned().map(Slot::Tensor).collect();
        operands.extend(more.iter().cloned());
        let mut out = to_tensors(w.inside(&body, &operands)?)?;
        let ys = out.split_off(count.min(out.len()));
        Ok((Carry(out), Carry(ys)))
    })?;
    Ok(carry.0.into_iter().chain(ys.0).collect::<Vec<_>>().into())
}

fn map(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let body = body(a, 0)?;
    let (xs, more) = (to_tensors(list(a, 1))?, list(a, 2));
    let ys = control::map(&Carry(xs), |x| {
        let mut operands: Vec<Slot> = x.0.iter().cloned().map(Slot::Tensor).collect();
        operands.extend(more.iter().cloned());
        Ok(Carry(to_tensors(w.inside(&body, &operands)?)?))
    })?;
    Ok(ys.0.into())
}

/// A scan over the leading axis, step by step: the order in which pairs are combined is unspecified.
fn associative_scan(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let body = body(a, 0)?;
    let (xs, more) = (to_tensors(list(a, 1))?, list(a, 2));
    let first = |x: &Tensor| ops::squeeze(ops::slice_axis(x, 0, 0, 1), 0).done();
    let rest = |x: &Tensor| ops::slice_axis(x, 0, 1, x.shape().dims()[0]).done();
    let start = xs.iter().map(first).collect::<Result<Vec<_>>>()?;
    let tail = xs.iter().map(rest).collect::<Result<Vec<_>>>()?;
    let (_, ys) = control::scan(&Carry(start.clone()), &Carry(tail), None, false, |c, x| {
        let mut operands: Vec<Slot> = c.0.iter().chain(&x.0).cloned().map(Slot::Tensor).collect();
        operands.extend(more.iter().cloned());
        let out = Carry(to_tensors(w.inside(&body, &operands)?)?);
        Ok((out.clone(), out))
    })?;
    let whole = start.iter().zip(&ys.0).map(|(first, rest)| {
        ops::concat(&[ops::expand_dims(first, 0).done()?, rest.clone()], 0).done()
    });
    Ok(whole.collect::<Result<Vec<_>>>()?.into())
}

/// A wrapped body; the first parameters do not affect values.
fn wrapped(w: &mut Importer<'_>, a: &Args<'_>, at: usize) -> Result<Slot> {
    let rest: Vec<Slot> = a.args.iter().skip(at + 1).cloned().collect();
    Ok(Slot::List(w.inside(&*body(a, at)?, &rest)?))
}

fn hints(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    Ok(Slot::List(w.inside(&*body(a, 0)?, &list(a, 1))?))
}
