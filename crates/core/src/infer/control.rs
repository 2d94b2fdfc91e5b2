//! Inference of control flow: operands and results of bodies must match the op's operands and carries.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::Graph;
use crate::op::{Cond, Scan, While};
use crate::outs::Outs;
use crate::spec::Spec;
use crate::{bail, ensure};

/// The output specs of a body on operands of these specs, with its symbolic dimensions bound by them.
fn call(op: &str, body: &Graph, given: &[Spec]) -> Result<Vec<Spec>> {
    ensure!(
        body.inputs.len() == given.len(),
        Value,
        "{op}: the body expects {} operands, got {}",
        body.inputs.len(),
        given.len()
    );
    let bindings = body.bindings(&given.iter().collect::<Vec<_>>())?;
    for (input, have) in body.inputs.iter().zip(given) {
        let want = body.spec(input.value);
        let bound = if want.shape.is_symbolic() && !have.shape.is_symbolic() {
            want.with_shape(want.shape.bind(&bindings)?)
        } else {
            want.clone()
        };
        ensure!(
            bound == *have,
            Shape,
            "{op}: the body expects {want}, got {have}"
        );
    }
    body.output_specs()
        .into_iter()
        .map(|s| {
            if s.shape.is_symbolic() && given.iter().all(|g| !g.shape.is_symbolic()) {
                Ok(s.with_shape(s.shape.bind(&bindings)?))
            } else {
                Ok(s)
            }
        })
        .collect()
}

fn outs(specs: Vec<Spec>) -> Outs<Spec> {
    match <[Spec; 1]>::try_from(specs) {
        Ok([one]) => Outs::One(one),
        Err(many) => Outs::Many(many),
    }
}

fn owned(specs: &[&Spec]) -> Vec<Spec> {
    specs.iter().map(|s| (*s).clone()).collect()
}

pub fn cond(inputs: &[&Spec], p: &Cond) -> Result<Outs<Spec>> {
    let Some((which, rest)) = inputs.split_first() else {
        bail!(
            Value,
            "cond: expected the index of a branch as first operand"
        );
    };
    ensure!(
        which.rank() == 0 && (which.dtype.is_int() || which.dtype == DType::Bool),
        DType,
        "cond: expected one integer or bool as branch index, got {which}"
    );
    let rest = owned(rest);
    let mut found: Option<Vec<Spec>> = None;
    for branch in &p.branches {
        let out = call("cond", branch, &rest)?;
        if let Some(first) = &found {
            ensure!(
                *first == out,
                Shape,
                "cond: expected branches with equal results, got {first:?} and {out:?}"
            );
        }
        found = Some(out);
    }
    match found {
        Some(out) => Ok(outs(out)),
        None => bail!(Value, "cond: expected at least one branch"),
    }
}

pub fn while_(inputs: &[&Spec], p: &While) -> Result<Outs<Spec>> {
    let consts = p.test_consts + p.body_consts;
    ensure!(
        inputs.len() >= consts,
        Value,
        "while: got {} operands for {consts} constants",
        inputs.len()
    );
    let carries = owned(&inputs[consts..]);
    let test: Vec<Spec> = owned(&inputs[..p.test_consts])
        .into_iter()
        .chain(carries.clone())
        .collect();
    let body: Vec<Spec> = owned(&inputs[p.test_consts..consts])
        .into_iter()
        .chain(carries.clone())
        .collect();
    let tested = call("while", &p.test, &test)?;
    ensure!(
        tested == [Spec::scalar(DType::Bool)],
        DType,
        "while: expected one bool from the test, got {tested:?}"
    );
    let next = call("while", &p.body, &body)?;
    ensure!(
        next == carries,
        Shape,
        "while: the body takes carries {carries:?} and returns {next:?}"
    );
    Ok(outs(carries))
}

pub fn scan(inputs: &[&Spec], p: &Scan) -> Result<Outs<Spec>> {
    let fixed = p.consts + p.carries;
    ensure!(
        inputs.len() >= fixed,
        Value,
        "scan: got {} operands for {fixed} constants and carries",
        inputs.len()
    );
    let mut given = owned(&inputs[..fixed]);
    for x in &inputs[fixed..] {
        ensure!(
            x.rank() > 0,
            Shape,
            "scan: expected a leading axis to scan over, got {x}"
        );
        let size = x.shape.dims()[0];
        ensure!(
            size == p.length,
            Shape,
            "scan: {x} has {size} steps, not {}",
            p.length
        );
        given.push(x.with_shape(x.shape.without(&[0])));
    }
    let out = call("scan", &p.body, &given)?;
    ensure!(
        out.len() >= p.carries && out[..p.carries] == given[p.consts..fixed],
        Shape,
        "scan: the body takes carries {:?} and returns {:?}",
        &given[p.consts..fixed],
        &out[..p.carries.min(out.len())]
    );
    ensure!(
        p.length.value().is_none_or(|n| n >= 0),
        Value,
        "scan: length {}",
        p.length
    );
    let stacked = out[p.carries..]
        .iter()
        .map(|s| s.with_shape(s.shape.insert(0, p.length)));
    Ok(outs(
        out[..p.carries].iter().cloned().chain(stacked).collect(),
    ))
}
