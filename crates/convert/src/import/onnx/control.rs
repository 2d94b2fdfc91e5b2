//! If, Loop, Scan and model-local functions.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{NAMED, ints, several, t, to_tensor, unknown, values, version};
use crate::captured::Program;
use clematis_core::trace::Trace;
use clematis_core::{DType, Dim, Result, Shape, Tensor, bail, control, ops};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

pub const RULES: &[(&str, Rule)] = &[
    ("&call", |w, a| {
        Ok(Slot::List(w.inside(&*body(a, "body")?, &a.args)?))
    }),
    ("If", branch),
    ("Loop", repeat),
    ("Scan", scan),
];

fn body(a: &Args<'_>, name: &str) -> Result<Arc<Program>> {
    match a.slot(NAMED, name) {
        Slot::Program(program) => Ok(program.clone()),
        other => bail!(
            Convert,
            "convert: `{}`: expected {name} to be a body, got {}",
            a.node.op,
            other.kind()
        ),
    }
}

/// The values that a body captures.
fn captured(a: &Args<'_>, name: &str) -> Vec<Slot> {
    match a.slot(NAMED, &format!("&{name}")) {
        Slot::List(xs) => xs.clone(),
        _ => Vec::new(),
    }
}

fn tensors(slots: Vec<Slot>) -> Result<Vec<Tensor>> {
    slots
        .iter()
        .map(|slot| ops::materialize(&to_tensor(slot)?))
        .collect()
}

fn slots(xs: &[Tensor]) -> impl Iterator<Item = Slot> + '_ {
    xs.iter().cloned().map(Slot::Tensor)
}

fn branch(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let test = t(a, 0)?;
    let (yes, no) = (body(a, "then_branch")?, body(a, "else_branch")?);
    let (for_yes, for_no) = (captured(a, "then_branch"), captured(a, "else_branch"));
    if let Some(host) = values(&test) {
        let out = match host.get(0)?.as_bool() {
            true => w.inside(&yes, &for_yes)?,
            false => w.inside(&no, &for_no)?,
        };
        return Ok(several(a, out));
    }
    let test = ops::reshape(ops::cast(test, DType::Bool), Shape::scalar()).done()?;
    let walk = RefCell::new(w);
    let run =
        |program: &Program, given: &[Slot]| tensors(walk.borrow_mut().inside(program, given)?);
    let out = control::cond(
        &test,
        &Vec::<Tensor>::new(),
        |_| run(&yes, &for_yes),
        |_| run(&no, &for_no),
    )?;
    Ok(several(a, slots(&out).collect()))
}

fn repeat(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let program = body(a, "body")?;
    let outside = captured(a, "body");
    let carried: Vec<Slot> = a.args.iter().skip(2).cloned().collect();
    let count = carried.len();
    if program.outputs.len() < 1 + count {
        return Err(a.bad("a body with one result per loop variable"));
    }
    let most = match a.slot(0, "M") {
        Slot::Nothing => None,
        _ => match ints(a, 0).ok().and_then(|n| n.first().copied()) {
            Some(n) => Some(n.max(0)),
            None => return unknown(a, 0),
        },
    };
    let first = match a.slot(1, "cond") {
        Slot::Nothing => None,
        slot => Some(to_tensor(slot)?),
    };
    let started = match &first {
        None => Some(true),
        Some(test) => values(test).map(|host| host.get(0).is_ok_and(|x| x.as_bool())),
    };
    if started == Some(false) || most == Some(0) {
        let mut out = carried;
        let more = program.outputs.len().saturating_sub(1 + count);
        if more > 0 {
            bail!(
                Unsupported,
                "convert: `Loop` with scan outputs and zero iterations"
            );
        }
        return Ok(several(a, std::mem::take(&mut out)));
    }
    if Trace::innermost_abstract().is_none() {
        return unrolled(w, a, &program, carried, &outside, most);
    }
    let rows = program.outputs.len().saturating_sub(1 + count);
    let always = Cell::new(true);
    if let (Some(true), Some(most)) = (started, most) {
        let out = counted_loop(w, &program, &carried, &outside, most, &always);
        if always.get() {
            return Ok(several(a, out?));
        }
    }
    if rows > 0 {
        bail!(
            Unsupported,
            "convert: `Loop` with scan outputs whose number of iterations depends on values"
        );
    }
    while_loop(w, a, &program, carried, &outside, most, first)
}

/// A loop whose condition is always true: it runs for the given number of iterations.
fn counted_loop(
    w: &mut Importer<'_>,
    program: &Program,
    carried: &[Slot],
    outside: &[Slot],
    most: i64,
    always: &Cell<bool>,
) -> Result<Vec<Slot>> {
    let start = tensors(carried.to_vec())?;
    let number = ops::iota(Shape::from_dims([Dim::number(most)]), 0, DType::I64).done()?;
    let yes = ops::from_slice(&[true], Shape::scalar())?;
    let count = start.len();
    let (carry, ys) = control::scan(&start, &number, None, false, |carry, i| {
        let mut given = vec![Slot::Tensor(i.clone()), Slot::Tensor(yes.clone())];
        given.extend(slots(carry).chain(outside.iter().cloned()));
        let mut out = w.inside(program, &given)?;
        let test = to_tensor(&out.remove(0))?;
        always.set(values(&test).is_some_and(|host| host.get(0).is_ok_and(|x| x.as_bool())));
        let mut out = tensors(out)?;
        let rows = out.split_off(count.min(out.len()));
        Ok((out, rows))
    })?;
    Ok(slots(&carry).chain(slots(&ys)).collect())
}

fn while_loop(
    w: &mut Importer<'_>,
    a: &Args<'_>,
    program: &Program,
    carried: Vec<Slot>,
    outside: &[Slot],
    most: Option<i64>,
    first: Option<Tensor>,
) -> Result<Slot> {
    let test = match first {
        Some(test) => ops::reshape(ops::cast(test, DType::Bool), Shape::scalar()).done()?,
        None => ops::full(Shape::scalar(), true, DType::Bool).done()?,
    };
    let number = ops::full(Shape::scalar(), 0i64, DType::I64).done()?;
    let start: Vec<Tensor> = [number, test]
        .into_iter()
        .chain(tensors(carried)?)
        .collect();
    let out = control::while_loop(
        start,
        |carry| match most {
            Some(most) => ops::logical_and(&carry[1], ops::less(&carry[0], most)).done(),
            None => Ok(carry[1].clone()),
        },
        |carry| {
            let given: Vec<Slot> = slots(carry).chain(outside.iter().cloned()).collect();
            let out = tensors(w.inside(program, &given)?)?;
            let next = (&carry[0] + 1).done()?;
            let test = ops::reshape(&out[0], Shape::scalar()).done()?;
            Ok([next, test]
                .into_iter()
                .chain(out.into_iter().skip(1))
                .collect())
        },
    )?;
    Ok(several(a, slots(&out[2..]).collect()))
}

/// Runs a loop iteration by iteration, with known values.
fn unrolled(
    w: &mut Importer<'_>,
    a: &Args<'_>,
    program: &Program,
    mut carried: Vec<Slot>,
    outside: &[Slot],
    most: Option<i64>,
) -> Result<Slot> {
    let count = carried.len();
    let mut rows: Vec<Vec<Tensor>> =
        vec![Vec::new(); program.outputs.len().saturating_sub(1 + count)];
    let mut test = Slot::Tensor(ops::from_slice(&[true], Shape::scalar())?);
    let mut i = 0;
    loop {
        let on =
            values(&to_tensor(&test)?).is_some_and(|host| host.get(0).is_ok_and(|x| x.as_bool()));
        if !on || most.is_some_and(|most| i >= most) {
            break;
        }
        let mut given = vec![Slot::Tensor(ops::from_slice(&[i], Shape::scalar())?), test];
        given.extend(carried.into_iter().chain(outside.iter().cloned()));
        let mut out = w.inside(program, &given)?;
        if out.len() < 1 + count {
            return Err(a.bad("a body with one result per loop variable"));
        }
        test = out.remove(0);
        for (all, row) in rows.iter_mut().zip(out.split_off(count)) {
            all.push(to_tensor(&row)?);
        }
        carried = out;
        i += 1;
    }
    for all in rows {
        if all.is_empty() {
            bail!(
                Unsupported,
                "convert: `Loop` with scan outputs and zero iterations"
            );
        }
        carried.push(ops::stack(&all, 0).done()?.into());
    }
    Ok(several(a, carried))
}

fn scan(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let program = body(a, "body")?;
    let outside = captured(a, "body");
    let old = version(a) < 9;
    // Version 8 has sequence lengths as its first operand, and a batch axis.
    let from = usize::from(old);
    let sequences = a.int(NAMED, "num_scan_inputs", 1)?.max(1) as usize;
    let all = (from..a.args.len())
        .map(|i| t(a, i))
        .collect::<Result<Vec<_>>>()?;
    if all.len() < sequences {
        return Err(a.bad("num_scan_inputs sequences"));
    }
    let count = all.len() - sequences;
    let (start, xs) = all.split_at(count);
    let rows = program.outputs.len().saturating_sub(count);
    let list = |name: &str, n: usize| -> Result<Vec<i64>> {
        let given = a.ints(NAMED, name)?;
        Ok(if given.len() == n { given } else { vec![0; n] })
    };
    let (x_axes, y_axes) = (
        list("scan_input_axes", sequences)?,
        list("scan_output_axes", rows)?,
    );
    let (x_back, y_back) = (
        list(
            if old {
                "directions"
            } else {
                "scan_input_directions"
            },
            sequences,
        )?,
        list("scan_output_directions", rows)?,
    );
    let mut run = |start: &[Tensor], xs: &[Tensor]| -> Result<Vec<Tensor>> {
        let turn = |(i, x): (usize, &Tensor)| {
            let x = ops::move_axis(x, x_axes[i], 0);
            if x_back[i] == 1 {
                ops::flip(x, 0i64).done()
            } else {
                x.done()
            }
        };
        let xs = xs
            .iter()
            .enumerate()
            .map(turn)
            .collect::<Result<Vec<_>>>()?;
        let (carry, ys) = control::scan(&start.to_vec(), &xs, None, false, |carry, row| {
            let given: Vec<Slot> = slots(carry)
                .chain(slots(row))
                .chain(outside.iter().cloned())
                .collect();
            let mut out = tensors(w.inside(&program, &given)?)?;
            let rows = out.split_off(count.min(out.len()));
            Ok((out, rows))
        })?;
        let back = |(i, y): (usize, &Tensor)| {
            let y: clematis_core::expr::Expr = if y_back[i] == 1 {
                ops::flip(y, 0i64)
            } else {
                Ok(y.clone()).into()
            };
            ops::move_axis(y, 0, y_axes[i]).done()
        };
        let ys = ys
            .iter()
            .enumerate()
            .map(back)
            .collect::<Result<Vec<_>>>()?;
        Ok(carry.into_iter().chain(ys).collect())
    };
    if !old {
        return Ok(several(a, slots(&run(start, xs)?).collect()));
    }
    if a.has(0, "sequence_lens") {
        bail!(
            Unsupported,
            "convert: `Scan` over sequences of different lengths"
        );
    }
    let both = (start.to_vec(), xs.to_vec());
    let out = control::map(&both, |(start, xs)| run(start, xs))?;
    Ok(several(a, slots(&out).collect()))
}
