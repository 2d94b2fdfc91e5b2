//! Derivatives of `cond` and `while`: the same op over differentiated bodies. `scan` has its own file.

use super::sweep::{Mode, Recorded};
use crate::bail;
use crate::dispatch::apply;
use crate::error::Result;
use crate::graph::{Body, Graph};
use crate::op::{Cond, Op, While};
use crate::ops;
use crate::spec::Spec;
use crate::tensor::Tensor;
use crate::trace::trace;

pub(super) fn specs(xs: &[&Tensor]) -> Vec<Spec> {
    xs.iter().map(|x| x.spec().clone()).collect()
}

/// Traces a function over concrete operands. Capturing other tensors is an error.
pub(super) fn body(
    specs: &[Spec],
    f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<Body> {
    let closed = trace(specs, f)?;
    if !closed.captured.is_empty() {
        bail!(
            Internal,
            "derivative of a loop: expected no captured tensors, got {}",
            closed.captured.len()
        );
    }
    Ok(Body::new(closed.graph))
}

/// Records a graph with respect to some of its inputs.
pub(super) fn record(
    mode: Mode,
    graph: &Graph,
    xs: &[Tensor],
    places: &[usize],
) -> Result<Recorded> {
    let inputs: Vec<Tensor> = places.iter().map(|&i| xs[i].clone()).collect();
    Recorded::new(mode, &inputs, |lifted| {
        let mut all: Vec<&Tensor> = xs.iter().collect();
        for (&i, x) in places.iter().zip(lifted) {
            all[i] = x;
        }
        graph.call(&all)
    })
}

pub(super) fn zeros_where_missing(
    parts: Vec<Option<Tensor>>,
    like: &[Tensor],
) -> Result<Vec<Tensor>> {
    parts
        .into_iter()
        .zip(like)
        .map(|(p, x)| p.map_or_else(|| ops::zeros_like(x).done(), Ok))
        .collect()
}

pub(super) fn floats(xs: &[&Tensor]) -> Vec<usize> {
    (0..xs.len())
        .filter(|&i| xs[i].dtype().is_inexact())
        .collect()
}

pub(super) fn dense(
    parts: &[Option<Tensor>],
    like: &[&Tensor],
    places: &[usize],
) -> Result<Vec<Tensor>> {
    places
        .iter()
        .map(|&i| match &parts[i] {
            Some(part) => Ok(part.clone()),
            None => ops::zeros_like(like[i]).done(),
        })
        .collect()
}

fn cond_params(op: &Op) -> Result<&Cond> {
    match op {
        Op::Cond(p) => Ok(p),
        _ => bail!(Internal, "{}: not a cond", op.name()),
    }
}

/// Each branch returns the cotangents of all its operands.
pub fn cond_vjp(
    op: &Op,
    xs: &[&Tensor],
    ys: &[&Tensor],
    cts: &[Option<Tensor>],
    wanted: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let p = cond_params(op)?;
    let places: Vec<usize> = (1..xs.len()).filter(|&i| wanted[i]).collect();
    let out_places = floats(ys);
    let cts = dense(cts, ys, &out_places)?;
    let mut given: Vec<&Tensor> = xs[1..].to_vec();
    given.extend(&cts);
    let shapes = specs(&given);
    let n = xs.len() - 1;
    let branches = p
        .branches
        .iter()
        .map(|branch| {
            body(&shapes, |inputs| {
                let own: Vec<usize> = places.iter().map(|i| i - 1).collect();
                let recorded = record(Mode::Reverse, branch, &inputs[..n], &own)?;
                let mut all = vec![None; ys.len()];
                for (&i, ct) in out_places.iter().zip(&inputs[n..]) {
                    all[i] = Some(ct.clone());
                }
                zeros_where_missing(recorded.backward(all)?, recorded.inputs())
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let mut args = vec![xs[0]];
    args.extend(given);
    let back = apply(&Cond { branches }.into(), &args)?.into_vec();
    let mut out = vec![None; xs.len()];
    for (i, part) in places.into_iter().zip(back) {
        out[i] = Some(part);
    }
    Ok(out)
}

pub fn cond_jvp(
    op: &Op,
    xs: &[&Tensor],
    ys: &[&Tensor],
    dxs: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let p = cond_params(op)?;
    let places: Vec<usize> = (1..xs.len()).filter(|&i| dxs[i].is_some()).collect();
    let tangents = dense(dxs, xs, &places)?;
    let mut given: Vec<&Tensor> = xs[1..].to_vec();
    given.extend(&tangents);
    let shapes = specs(&given);
    let n = xs.len() - 1;
    let out_places = floats(ys);
    let branches = p
        .branches
        .iter()
        .map(|branch| {
            body(&shapes, |inputs| {
                let own: Vec<usize> = places.iter().map(|i| i - 1).collect();
                let recorded = record(Mode::Forward, branch, &inputs[..n], &own)?;
                let out = recorded.forward(inputs[n..].iter().cloned().map(Some).collect())?;
                let all = zeros_where_missing(out, recorded.outputs())?;
                Ok(out_places.iter().map(|&i| all[i].clone()).collect())
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let mut args = vec![xs[0]];
    args.extend(given);
    let pushed = apply(&Cond { branches }.into(), &args)?.into_vec();
    let mut out = vec![None; ys.len()];
    for (i, part) in out_places.into_iter().zip(pushed) {
        out[i] = Some(part);
    }
    Ok(out)
}

pub fn while_vjp(
    _: &Op,
    _: &[&Tensor],
    _: &[&Tensor],
    _: &[Option<Tensor>],
    _: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    bail!(
        Diff,
        "while: reverse mode needs a known number of steps; use scan, or forward mode (jvp)"
    )
}

/// Carries values and tangents side by side.
pub fn while_jvp(
    op: &Op,
    xs: &[&Tensor],
    ys: &[&Tensor],
    dxs: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let Op::While(p) = op else {
        bail!(Internal, "{}: not a while", op.name())
    };
    let consts = p.test_consts + p.body_consts;
    let (body_consts, carries) = (&xs[p.test_consts..consts], &xs[consts..]);
    let moving_consts: Vec<usize> = (0..body_consts.len())
        .filter(|&i| dxs[p.test_consts + i].is_some())
        .collect();
    let moving = floats(carries);
    let const_tangents = dense(&dxs[p.test_consts..consts], body_consts, &moving_consts)?;
    let carry_tangents = dense(&dxs[consts..], carries, &moving)?;

    let mut test_given: Vec<&Tensor> = xs[..p.test_consts].to_vec();
    test_given.extend(carries);
    let plain = test_given.len();
    test_given.extend(&carry_tangents);
    let test = body(&specs(&test_given), |inputs| {
        p.test.call(&inputs[..plain].iter().collect::<Vec<_>>())
    })?;

    let mut given: Vec<&Tensor> = body_consts.to_vec();
    given.extend(&const_tangents);
    let first_carry = given.len();
    given.extend(carries);
    let first_tangent = given.len();
    given.extend(&carry_tangents);
    let n = body_consts.len();
    let derived = body(&specs(&given), |inputs| {
        let values: Vec<Tensor> = inputs[..n]
            .iter()
            .chain(&inputs[first_carry..first_tangent])
            .cloned()
            .collect();
        let places: Vec<usize> = moving_consts
            .iter()
            .copied()
            .chain(moving.iter().map(|i| i + n))
            .collect();
        let recorded = record(Mode::Forward, &p.body, &values, &places)?;
        let tangents = inputs[n..first_carry]
            .iter()
            .chain(&inputs[first_tangent..])
            .cloned()
            .map(Some)
            .collect();
        let pushed = zeros_where_missing(recorded.forward(tangents)?, recorded.outputs())?;
        let mut out = recorded.outputs().to_vec();
        out.extend(moving.iter().map(|&i| pushed[i].clone()));
        Ok(out)
    })?;
    let next = While {
        test,
        body: derived,
        test_consts: p.test_consts,
        body_consts: first_carry,
    };
    let mut args: Vec<&Tensor> = xs[..p.test_consts].to_vec();
    args.extend(given);
    let mut all = apply(&next.into(), &args)?.into_vec();
    let tangents = all.split_off(carries.len());
    let mut out = vec![None; ys.len()];
    for (i, t) in moving.into_iter().zip(tangents) {
        out[i] = Some(t);
    }
    Ok(out)
}
