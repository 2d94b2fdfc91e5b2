//! Derivatives of `cond`, `while` and `scan`: the same op over differentiated bodies.
//!
//! The backward pass of a loop recomputes the body from the saved carries of each step (rematerialization). The
//! residuals grow with the carries, not with all intermediate values of the body.

use super::sweep::Recorded;
use crate::bail;
use crate::dispatch::apply;
use crate::error::Result;
use crate::graph::{Body, Graph};
use crate::op::{Cond, Op, Scan, While};
use crate::ops;
use crate::spec::Spec;
use crate::tensor::Tensor;
use crate::trace::trace;

fn specs(xs: &[&Tensor]) -> Vec<Spec> {
    xs.iter().map(|x| x.spec().clone()).collect()
}

/// Traces a function over concrete operands. Capturing other tensors is an error.
fn body(specs: &[Spec], f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Body> {
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
fn record(graph: &Graph, xs: &[Tensor], places: &[usize]) -> Result<Recorded> {
    let inputs: Vec<Tensor> = places.iter().map(|&i| xs[i].clone()).collect();
    Recorded::new(&inputs, |lifted| {
        let mut all: Vec<&Tensor> = xs.iter().collect();
        for (&i, x) in places.iter().zip(lifted) {
            all[i] = x;
        }
        graph.call(&all)
    })
}

fn zeros_where_missing(parts: Vec<Option<Tensor>>, like: &[Tensor]) -> Result<Vec<Tensor>> {
    parts
        .into_iter()
        .zip(like)
        .map(|(p, x)| p.map_or_else(|| ops::zeros_like(x).done(), Ok))
        .collect()
}

fn floats(xs: &[&Tensor]) -> Vec<usize> {
    (0..xs.len())
        .filter(|&i| xs[i].dtype().is_inexact())
        .collect()
}

fn dense(parts: &[Option<Tensor>], like: &[&Tensor], places: &[usize]) -> Result<Vec<Tensor>> {
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
                let recorded = record(branch, &inputs[..n], &own)?;
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
                let recorded = record(branch, &inputs[..n], &own)?;
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
        let recorded = record(&p.body, &values, &places)?;
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

struct ScanParts<'a> {
    p: &'a Scan,
    consts: &'a [&'a Tensor],
    carries: &'a [&'a Tensor],
    sequences: &'a [&'a Tensor],
}

fn scan_parts<'a>(op: &'a Op, xs: &'a [&'a Tensor]) -> Result<ScanParts<'a>> {
    let Op::Scan(p) = op else {
        bail!(Internal, "{}: not a scan", op.name())
    };
    let fixed = p.consts + p.carries;
    Ok(ScanParts {
        p,
        consts: &xs[..p.consts],
        carries: &xs[p.consts..fixed],
        sequences: &xs[fixed..],
    })
}

fn step_spec(x: &Tensor) -> Spec {
    x.spec().with_shape(x.shape().without(&[0]))
}

/// Runs values and tangents through the loop side by side.
pub fn scan_jvp(
    op: &Op,
    xs: &[&Tensor],
    ys: &[&Tensor],
    dxs: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let s = scan_parts(op, xs)?;
    let fixed = s.p.consts + s.p.carries;
    let moving_consts: Vec<usize> = (0..s.consts.len()).filter(|&i| dxs[i].is_some()).collect();
    let moving = floats(s.carries);
    let moving_rows: Vec<usize> = (0..s.sequences.len())
        .filter(|&i| dxs[fixed + i].is_some())
        .collect();
    let const_tangents = dense(&dxs[..s.p.consts], s.consts, &moving_consts)?;
    let carry_tangents = dense(&dxs[s.p.consts..fixed], s.carries, &moving)?;
    let row_tangents = dense(&dxs[fixed..], s.sequences, &moving_rows)?;

    let mut given: Vec<&Tensor> = s.consts.to_vec();
    given.extend(&const_tangents);
    let consts = given.len();
    given.extend(s.carries);
    given.extend(&carry_tangents);
    let carries = given.len() - consts;
    let mut shapes = specs(&given);
    given.extend(s.sequences);
    given.extend(&row_tangents);
    shapes.extend(given[consts + carries..].iter().map(|x| step_spec(x)));

    let out_rows: Vec<usize> = floats(&ys[s.p.carries..]);
    let derived = body(&shapes, |inputs| {
        let (c, rest) = inputs.split_at(s.consts.len());
        let (dc, rest) = rest.split_at(const_tangents.len());
        let (h, rest) = rest.split_at(s.carries.len());
        let (dh, rest) = rest.split_at(carry_tangents.len());
        let (x, dx) = rest.split_at(s.sequences.len());
        let values: Vec<Tensor> = c.iter().chain(h).chain(x).cloned().collect();
        let places: Vec<usize> = moving_consts
            .iter()
            .copied()
            .chain(moving.iter().map(|i| i + s.p.consts))
            .chain(moving_rows.iter().map(|i| i + fixed))
            .collect();
        let recorded = record(&s.p.body, &values, &places)?;
        let tangents = dc.iter().chain(dh).chain(dx).cloned().map(Some).collect();
        let pushed = zeros_where_missing(recorded.forward(tangents)?, recorded.outputs())?;
        let mut out = recorded.outputs()[..s.p.carries].to_vec();
        out.extend(moving.iter().map(|&i| pushed[i].clone()));
        out.extend(out_rows.iter().map(|&i| pushed[s.p.carries + i].clone()));
        Ok(out)
    })?;
    let next = Scan {
        body: derived,
        consts,
        carries,
        length: s.p.length,
        reverse: s.p.reverse,
    };
    let all = apply(&next.into(), &given)?.into_vec();
    let mut out = vec![None; ys.len()];
    for (&i, t) in moving.iter().zip(&all[s.carries.len()..]) {
        out[i] = Some(t.clone());
    }
    for (&i, t) in out_rows.iter().zip(&all[carries..]) {
        out[s.p.carries + i] = Some(t.clone());
    }
    Ok(out)
}

/// A forward loop stores the carries of each step; a backward loop accumulates cotangents.
pub fn scan_vjp(
    op: &Op,
    xs: &[&Tensor],
    ys: &[&Tensor],
    cts: &[Option<Tensor>],
    wanted: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let s = scan_parts(op, xs)?;
    let (n, fixed) = (s.p.carries, s.p.consts + s.p.carries);
    let kept = carries_of_each_step(&s, xs)?;

    let moving_consts: Vec<usize> = (0..s.consts.len()).filter(|&i| wanted[i]).collect();
    let moving = floats(s.carries);
    let moving_rows: Vec<usize> = (0..s.sequences.len())
        .filter(|&i| wanted[fixed + i])
        .collect();
    let ct_rows: Vec<usize> = floats(&ys[n..]);
    let ct_carries = dense(&cts[..n], &ys[..n], &moving)?;
    let ct_outputs = dense(&cts[n..], &ys[n..], &ct_rows)?;
    let sums: Vec<Tensor> = moving_consts
        .iter()
        .map(|&i| ops::zeros_like(s.consts[i]).done())
        .collect::<Result<_>>()?;

    // Operands: constants; accumulated cotangents of the constants and cotangents of the carries; inputs and outputs
    // of each step.
    let mut given: Vec<&Tensor> = s.consts.to_vec();
    given.extend(&sums);
    given.extend(&ct_carries);
    let mut shapes = specs(&given);
    let carries = given.len() - s.consts.len();
    given.extend(&kept);
    given.extend(s.sequences);
    given.extend(&ct_outputs);
    shapes.extend(
        given[s.consts.len() + carries..]
            .iter()
            .map(|x| step_spec(x)),
    );

    let derived = body(&shapes, |inputs| {
        let (c, rest) = inputs.split_at(s.consts.len());
        let (sums, rest) = rest.split_at(moving_consts.len());
        let (ct_h, rest) = rest.split_at(moving.len());
        let (h, rest) = rest.split_at(n);
        let (x, ct_y) = rest.split_at(s.sequences.len());
        let values: Vec<Tensor> = c.iter().chain(h).chain(x).cloned().collect();
        let places: Vec<usize> = moving_consts
            .iter()
            .copied()
            .chain(moving.iter().map(|i| i + s.p.consts))
            .chain(moving_rows.iter().map(|i| i + fixed))
            .collect();
        let recorded = record(&s.p.body, &values, &places)?;
        let mut all = vec![None; ys.len()];
        for (&i, ct) in moving.iter().zip(ct_h) {
            all[i] = Some(ct.clone());
        }
        for (&i, ct) in ct_rows.iter().zip(ct_y) {
            all[n + i] = Some(ct.clone());
        }
        let mut back = zeros_where_missing(recorded.backward(all)?, recorded.inputs())?.into_iter();
        let mut out = Vec::new();
        for (sum, part) in sums.iter().zip(&mut back) {
            out.push((sum + &part).done()?);
        }
        out.extend(back);
        Ok(out)
    })?;
    let next = Scan {
        body: derived,
        consts: s.consts.len(),
        carries,
        length: s.p.length,
        reverse: !s.p.reverse,
    };
    let all = apply(&next.into(), &given)?.into_vec();
    let mut out = vec![None; xs.len()];
    let places = moving_consts
        .iter()
        .copied()
        .chain(moving.iter().map(|i| i + s.p.consts))
        .chain(moving_rows.iter().map(|i| i + fixed));
    for (i, part) in places.zip(all) {
        out[i] = Some(part);
    }
    Ok(out)
}

/// The carries at the start of each step, stacked.
fn carries_of_each_step(s: &ScanParts, xs: &[&Tensor]) -> Result<Vec<Tensor>> {
    let fixed = s.p.consts + s.p.carries;
    let mut shapes = specs(&xs[..fixed]);
    shapes.extend(s.sequences.iter().map(|x| step_spec(x)));
    let keeping = body(&shapes, |inputs| {
        let mut out = s.p.body.call(&inputs.iter().collect::<Vec<_>>())?;
        out.truncate(s.p.carries);
        out.extend(inputs[s.p.consts..fixed].iter().cloned());
        Ok(out)
    })?;
    let next = Scan {
        body: keeping,
        consts: s.p.consts,
        carries: s.p.carries,
        length: s.p.length,
        reverse: s.p.reverse,
    };
    let mut all = apply(&next.into(), xs)?.into_vec();
    Ok(all.split_off(s.p.carries))
}
