//! Batching rules of `cond`, `while` and `scan`.

use super::{Value, call, run};
use crate::bail;
use crate::control::captured_first;
use crate::dim::Dim;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Body, Graph};
use crate::op::{Cond, Op, Scan, While};
use crate::ops;
use crate::spec::Spec;
use crate::tensor::Tensor;
use crate::trace::trace;

/// The operands of a batched body, marked by which of `like` are batched.
fn values(xs: &[Tensor], like: &[Value]) -> Vec<Value> {
    let each = xs.iter().zip(like);
    each.map(|(x, v)| Value {
        x: x.clone(),
        batched: v.batched,
    })
    .collect()
}

fn specs(args: &[Value]) -> Vec<Spec> {
    args.iter().map(|v| v.x.spec().clone()).collect()
}

fn full(args: &[Value], size: Dim) -> Result<Vec<Tensor>> {
    args.iter().map(|v| v.full(size)).collect()
}

/// `x` where the condition of an example holds, else `y`.
fn chosen(which: &Tensor, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let which = Value::each(which.clone()).aligned(x.rank() - 1)?;
    crate::dispatch::apply_one(&Op::Select, &[&which, x, y])
}

pub fn cond(p: &Cond, args: &[Value], size: Dim) -> Result<Vec<Value>> {
    let Some((which, rest)) = args.split_first() else {
        bail!(Internal, "vmap: a branch without a choice");
    };
    if !which.batched
        && let Some(out) = together(p, which, rest, size)?
    {
        return Ok(out);
    }
    // Examples may take different branches: all branches run, and each example selects its result.
    let last = p.branches.len() - 1;
    let at = ops::cast(&which.full(size)?, DType::I32).done()?;
    let at = ops::minimum(ops::maximum(at, 0), last as i64).done()?;
    let mut outs: Option<Vec<Tensor>> = None;
    for (i, branch) in p.branches.iter().enumerate().rev() {
        let found = full(&call(branch, rest, size)?, size)?;
        outs = Some(match outs {
            None => found,
            Some(others) => {
                let here = ops::equal(&at, i as i64).done()?;
                let each = found.iter().zip(&others);
                each.map(|(x, y)| chosen(&here, x, y))
                    .collect::<Result<_>>()?
            }
        });
    }
    Ok(outs
        .unwrap_or_default()
        .into_iter()
        .map(Value::each)
        .collect())
}

/// All examples take the same branch; `None` if a branch captures tensors.
fn together(p: &Cond, which: &Value, rest: &[Value], size: Dim) -> Result<Option<Vec<Value>>> {
    let mut branches = Vec::with_capacity(p.branches.len());
    for branch in &p.branches {
        let closed = trace(&specs(rest), |xs| {
            full(&call(branch, &values(xs, rest), size)?, size)
        })?;
        if !closed.captured.is_empty() {
            return Ok(None);
        }
        branches.push(Body::new(closed.graph));
    }
    let args: Vec<&Tensor> = std::iter::once(which).chain(rest).map(|v| &v.x).collect();
    run(Cond { branches }, &args).map(Some)
}

pub fn while_(p: &While, args: &[Value], size: Dim) -> Result<Vec<Value>> {
    let (tests, rest) = args.split_at(p.test_consts);
    let (bodies, start) = rest.split_at(p.body_consts);
    let start: Vec<Value> = full(start, size)?.into_iter().map(Value::each).collect();
    let go_on = |consts: &[Value], carry: &[Value]| -> Result<Value> {
        let args: Vec<Value> = consts.iter().chain(carry).cloned().collect();
        match call(&p.test, &args, size)?.pop() {
            Some(v) => Ok(v),
            None => bail!(Internal, "vmap: the test of a loop has no result"),
        }
    };
    let with = |more: &[Value]| -> Vec<Value> { more.iter().chain(&start).cloned().collect() };
    let tested = with(tests);
    let closed = trace(&specs(&tested), |xs| {
        let given = values(xs, &tested);
        let (consts, carry) = given.split_at(tests.len());
        let found = go_on(consts, carry)?;
        // The loop runs until the test fails for every example.
        Ok(vec![match found.batched {
            true => ops::any(&found.x, ..).done()?,
            false => found.x,
        }])
    })?;
    let (test, test_more) = captured_first(closed);
    let both: Vec<Value> = tests.iter().chain(bodies).cloned().collect();
    let stepped = with(&both);
    let closed = trace(&specs(&stepped), |xs| {
        let given = values(xs, &stepped);
        let (consts, carry) = given.split_at(both.len());
        let (own_tests, own_bodies) = consts.split_at(tests.len());
        let args: Vec<Value> = own_bodies.iter().chain(carry).cloned().collect();
        let next = full(&call(&p.body, &args, size)?, size)?;
        let found = go_on(own_tests, carry)?;
        if !found.batched {
            return Ok(next);
        }
        // An example whose test has failed keeps its carry.
        let each = next.iter().zip(carry);
        each.map(|(new, old)| chosen(&found.x, new, &old.x))
            .collect()
    })?;
    let (body, body_more) = captured_first(closed);
    let op = While {
        test,
        body,
        test_consts: test_more.len() + tests.len(),
        body_consts: body_more.len() + both.len(),
    };
    let held = |list: &'_ [Value]| -> Vec<Tensor> { list.iter().map(|v| v.x.clone()).collect() };
    let args = [test_more, held(tests), body_more, held(&both), held(&start)].concat();
    run(op, &args.iter().collect::<Vec<_>>())
}

pub fn scan(p: &Scan, args: &[Value], size: Dim) -> Result<Vec<Value>> {
    let (consts, rest) = args.split_at(p.consts);
    let (start, rows) = rest.split_at(p.carries);
    let start: Vec<Value> = full(start, size)?.into_iter().map(Value::each).collect();
    // The first axis is the steps, the second the examples.
    let rows = rows.iter().map(|v| {
        Ok(Value {
            x: match v.batched {
                true => ops::move_axis(&v.x, 0, 1).done()?,
                false => v.x.clone(),
            },
            batched: v.batched,
        })
    });
    let rows = rows.collect::<Result<Vec<Value>>>()?;
    let mut all = specs(consts);
    all.extend(specs(&start));
    all.extend(
        rows.iter()
            .map(|v| v.x.spec().with_shape(v.x.shape().without(&[0]))),
    );
    let like: Vec<Value> = consts.iter().chain(&start).chain(&rows).cloned().collect();
    let body: &Graph = &p.body;
    let closed = trace(&all, |xs| {
        full(&call(body, &values(xs, &like), size)?, size)
    })?;
    let (body, more) = captured_first(closed);
    let op = Scan {
        body,
        consts: more.len() + consts.len(),
        carries: p.carries,
        length: p.length,
        reverse: p.reverse,
    };
    let operands: Vec<&Tensor> = more.iter().chain(like.iter().map(|v| &v.x)).collect();
    let mut outs = run(op, &operands)?;
    for y in &mut outs[p.carries..] {
        y.x = ops::move_axis(&y.x, 1, 0).done()?;
    }
    Ok(outs)
}
