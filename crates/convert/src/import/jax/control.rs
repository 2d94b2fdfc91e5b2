//! Branches, loops and PRNG keys. A key is two words, so an array of keys has one more axis than in jax.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{NAMED, e, x};
use crate::captured::Program;
use clematis_core::random::Key;
use clematis_core::{DType, Result, Shape, Tensor, bail, control, ops};
use std::cell::RefCell;
use std::sync::Arc;

pub const RULES: &[(&str, Rule)] = &[
    ("cond", cond),
    ("while", while_loop),
    ("scan", scan),
    ("platform_index", |_, a| {
        Ok(
            ops::zeros(Shape::from_sizes(&[]), a.recorded_spec(0)?.dtype)
                .done()?
                .into(),
        )
    }),
    ("random_wrap", |_, a| Ok(x(a, 0)?.into())),
    ("random_unwrap", |_, a| Ok(x(a, 0)?.into())),
    ("random_seed", |_, a| {
        // A seed becomes the second word of a key.
        let seed = ops::reshape(ops::cast(e(a, 0), DType::U32), Shape::from_sizes(&[1])).done()?;
        let zero = ops::zeros_like(&seed).done()?;
        Ok(ops::concat(&[zero, seed], 0).done()?.into())
    }),
    ("random_split", random_split),
    ("random_fold_in", |_, a| {
        let number =
            ops::reshape(ops::cast(e(a, 1), DType::U32), Shape::from_sizes(&[1])).done()?;
        let words = x(a, 0)?;
        let mixed = ops::bitwise_xor(
            &words,
            ops::concat(&[ops::zeros_like(&number).done()?, number], 0),
        );
        Ok(Key::from_tensor(mixed).fold_in(1).words().done()?.into())
    }),
    ("random_bits", |_, a| {
        let recorded = a.recorded_spec(0)?;
        Ok(Key::from_tensor(e(a, 0))
            .bits(recorded.dtype, recorded.shape)
            .done()?
            .into())
    }),
];

fn body(slot: &Slot, op: &str) -> Result<Arc<Program>> {
    match slot {
        Slot::Program(program) => Ok(program.clone()),
        other => bail!(
            Convert,
            "convert: `{op}`: expected a jaxpr, got {}",
            other.kind()
        ),
    }
}

fn tensors(slots: Vec<Slot>, op: &str) -> Result<Vec<Tensor>> {
    let one = |slot: Slot| match slot.as_number() {
        Some(x) => Ok(x),
        None => bail!(
            Convert,
            "convert: `{op}`: expected a tensor as result of a body, got {}",
            slot.kind()
        ),
    };
    slots.into_iter().map(one).collect()
}

fn operands(a: &Args<'_>, from: usize) -> Result<Vec<Tensor>> {
    (from..a.args.len()).map(|i| x(a, i)).collect()
}

fn slots(xs: &[Tensor]) -> Vec<Slot> {
    xs.iter().cloned().map(Slot::Tensor).collect()
}

fn several(mut xs: Vec<Tensor>) -> Slot {
    match xs.len() {
        1 => Slot::Tensor(xs.remove(0)),
        _ => xs.into(),
    }
}

fn cond(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let Slot::List(branches) = a.slot(NAMED, "branches") else {
        bail!(Convert, "convert: `cond` without branches");
    };
    let bodies = branches
        .iter()
        .map(|b| body(b, "cond"))
        .collect::<Result<Vec<_>>>()?;
    let index = x(a, 0)?;
    let xs = operands(a, 1)?;
    // A chain of two-way branches.
    let walk = RefCell::new(w);
    choose(&walk, &index, &xs, &bodies, 0).map(several)
}

fn choose(
    walk: &RefCell<&mut Importer<'_>>,
    index: &Tensor,
    xs: &Vec<Tensor>,
    bodies: &[Arc<Program>],
    first: i64,
) -> Result<Vec<Tensor>> {
    let run = |body: &Program, xs: &Vec<Tensor>| {
        tensors(walk.borrow_mut().inside(body, &slots(xs))?, "cond")
    };
    match bodies {
        [] => bail!(Convert, "convert: `cond` without branches"),
        [only] => run(only, xs),
        [one, rest @ ..] => {
            let here = ops::less_equal(index, first).done()?;
            control::cond(
                &here,
                xs,
                |xs| run(one, xs),
                |xs| choose(walk, index, xs, rest, first + 1),
            )
        }
    }
}

fn while_loop(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let test = body(a.slot(NAMED, "cond_jaxpr"), "while")?;
    let step = body(a.slot(NAMED, "body_jaxpr"), "while")?;
    let test_consts = a.int(NAMED, "cond_nconsts", 0)? as usize;
    let step_consts = a.int(NAMED, "body_nconsts", 0)? as usize;
    let xs = operands(a, 0)?;
    let (of_test, rest) = xs.split_at(test_consts);
    let (of_step, start) = rest.split_at(step_consts);
    let walk = RefCell::new(w);
    let inside = |program: &Program, consts: &[Tensor], carry: &Vec<Tensor>| {
        let all: Vec<Tensor> = consts.iter().chain(carry).cloned().collect();
        tensors(walk.borrow_mut().inside(program, &slots(&all))?, "while")
    };
    let out = control::while_loop(
        start.to_vec(),
        |carry| match inside(&test, of_test, carry)?.into_iter().next() {
            Some(go_on) => Ok(go_on),
            None => bail!(Convert, "convert: `while` without a condition"),
        },
        |carry| inside(&step, of_step, carry),
    )?;
    Ok(several(out))
}

fn scan(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let step = body(a.slot(NAMED, "jaxpr"), "scan")?;
    let consts = a.int(NAMED, "num_consts", 0)? as usize;
    let carries = a.int(NAMED, "num_carry", 0)? as usize;
    let length = a.dim(NAMED, "length")?.value().map(|n| n as usize);
    let reverse = a.flag(NAMED, "reverse", false)?;
    let xs = operands(a, 0)?;
    let (fixed, rest) = xs.split_at(consts);
    let (start, rows) = rest.split_at(carries);
    let (mut carry, ys) = control::scan(
        &start.to_vec(),
        &rows.to_vec(),
        length,
        reverse,
        |carry, row| {
            let all: Vec<Tensor> = fixed.iter().chain(carry).chain(row).cloned().collect();
            let mut out = tensors(w.inside(&step, &slots(&all))?, "scan")?;
            let rows = out.split_off(carries);
            Ok((out, rows))
        },
    )?;
    carry.extend(ys);
    Ok(several(carry))
}

fn random_split(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let shape = a.recorded_spec(0)?.shape;
    let Some(words) = shape.count_dim().value() else {
        bail!(Unsupported, "convert: a symbolic number of keys");
    };
    let keys = Key::from_tensor(e(a, 0)).split_n(words as usize / 2);
    let words = keys
        .iter()
        .map(|k| k.words().done())
        .collect::<Result<Vec<_>>>()?;
    Ok(ops::reshape(ops::stack(&words, 0), shape).done()?.into())
}
