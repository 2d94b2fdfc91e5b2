//! Unrolls scans: `carry, ys = scan(body, carry, xs)` → `carry, y0 = body(carry, xs[0])`, `carry, y1 = body(carry, xs[1])`, …,
//! `ys = stack(y0, y1, …)`. For targets whose compiler fuses straight-line code only.
//!
//! A scan over the stacked outputs of an unrolled scan reads the steps themselves. Where every step's output is a concat,
//! all parts are concatenated once: `stack(concat(a0, b0), concat(a1, b1))` → `transpose(reshape(concat(a0, b0, a1, b1)))`.

use crate::rewriter::{Args, Rewriter, rewrite};
use clematis_core::graph::{Arg, Graph, Node, ValueId};
use clematis_core::op::{Scan, Slice};
use clematis_core::shape::Axes;
use clematis_core::{Body, Dim, Op, Result, Shape, bail};
use rustc_hash::FxHashMap;

/// The elements of each stacked array that an unrolled scan produced.
type Elements = FxHashMap<ValueId, Vec<Arg>>;

/// Unrolls the scans that become at most `limit` nodes; `None` if there are none.
pub fn run(graph: &Graph, limit: usize) -> Result<Option<Graph>> {
    let mut elements = Elements::default();
    rewrite(graph, |new, node, args| match &node.op {
        Op::Scan(p) => unroll(new, node, p, args, limit, &mut elements),
        _ => Ok(None),
    })
}

fn unroll(
    new: &mut Rewriter,
    node: &Node,
    p: &Scan,
    args: &Args,
    limit: usize,
    elements: &mut Elements,
) -> Result<Option<Vec<Arg>>> {
    let body = match run(&p.body, limit)? {
        Some(body) => Body::new(body),
        None => p.body.clone(),
    };
    let length = p.length.value().and_then(|n| usize::try_from(n).ok());
    let Some(length) = length.filter(|&n| n > 0 && n.saturating_mul(body.nodes.len()) <= limit)
    else {
        return Ok(None);
    };
    let (consts, rest) = args.split_at(p.consts);
    let (start, sequences) = rest.split_at(p.carries);
    let mut carry = start.to_vec();
    let mut rows = vec![Vec::with_capacity(length); body.outputs.len() - p.carries];
    for step in 0..length {
        let at = if p.reverse { length - 1 - step } else { step };
        let mut inputs: Vec<Arg> = consts.iter().chain(&carry).cloned().collect();
        for x in sequences {
            inputs.push(element(new, x, at, node, elements)?);
        }
        let mut out = call(new, &body, inputs, node)?;
        for (row, y) in rows.iter_mut().zip(out.split_off(p.carries)) {
            row.push(y);
        }
        carry = out;
    }
    let mut out = carry;
    for mut row in rows {
        if p.reverse {
            row.reverse();
        }
        let stacked = stack(new, &row, node)?;
        if let Arg::Value(id) = &stacked {
            elements.insert(*id, row);
        }
        out.push(stacked);
    }
    Ok(Some(out))
}

/// Adds the nodes of a body; returns its outputs.
fn call(new: &mut Rewriter, body: &Graph, inputs: Vec<Arg>, node: &Node) -> Result<Vec<Arg>> {
    let mut map: Vec<Option<Arg>> = vec![None; body.values.len()];
    for (input, arg) in body.inputs.iter().zip(inputs) {
        map[input.value.0 as usize] = Some(arg);
    }
    let lookup = |map: &[Option<Arg>], arg: &Arg| match arg {
        Arg::Const(_) => Ok(arg.clone()),
        Arg::Value(id) => match &map[id.0 as usize] {
            Some(new) => Ok(new.clone()),
            None => bail!(
                Internal,
                "unroll_scans: %{} is used before it is defined",
                id.0
            ),
        },
    };
    for inner in &body.nodes {
        let args = inner.args.iter().map(|arg| lookup(&map, arg));
        let args = args.collect::<Result<Args>>()?;
        let specs = &body.values[inner.outs.start as usize..inner.outs.end as usize];
        let made = new.add(inner.op.clone(), args, specs, node.scope);
        for (old, arg) in inner.outs.clone().zip(made) {
            map[old as usize] = Some(arg);
        }
    }
    body.outputs.iter().map(|o| lookup(&map, &o.arg)).collect()
}

/// The element of a sequence at one step.
fn element(
    new: &mut Rewriter,
    x: &Arg,
    at: usize,
    node: &Node,
    elements: &Elements,
) -> Result<Arg> {
    if let Arg::Value(id) = x
        && let Some(steps) = elements.get(id)
    {
        return Ok(steps[at].clone());
    }
    let shape = new.spec(x).shape.clone();
    let mut start = vec![Dim::number(0); shape.rank()];
    let mut limit = shape.dims().to_vec();
    (start[0], limit[0]) = (at.into(), (at + 1).into());
    let slice = Slice {
        start: start.into(),
        limit: limit.into(),
        strides: Axes::new(&vec![1; shape.rank()]),
    };
    let row = new.one(slice.into(), [x.clone()].into_iter().collect(), node.scope)?;
    let op = Op::Reshape(shape.without(&[0]));
    new.one(op, [row].into_iter().collect(), node.scope)
}

/// Stacks arrays along a new leading axis.
fn stack(new: &mut Rewriter, steps: &[Arg], node: &Node) -> Result<Arg> {
    if let Some(stacked) = stack_concats(new, steps, node)? {
        return Ok(stacked);
    }
    let mut rows = Args::new();
    for y in steps {
        let op = Op::Reshape(new.spec(y).shape.insert(0, 1usize));
        rows.push(new.one(op, [y.clone()].into_iter().collect(), node.scope)?);
    }
    if rows.len() == 1 {
        return Ok(rows.remove(0));
    }
    new.one(Op::Concat(0), rows, node.scope)
}

/// Stacks concats with one copy of each part; `None` if the steps are no concats along one axis.
fn stack_concats(new: &mut Rewriter, steps: &[Arg], node: &Node) -> Result<Option<Arg>> {
    let mut parts = Args::new();
    let mut along = None;
    for y in steps {
        let Some(Op::Concat(axis)) = new.producer(y).map(|n| &n.op) else {
            return Ok(None);
        };
        if along.is_some_and(|known| known != *axis) {
            return Ok(None);
        }
        along = Some(*axis);
        parts.extend(
            new.producer(y)
                .into_iter()
                .flat_map(|n| n.args.iter().cloned()),
        );
    }
    let (Some(axis), [first, _, ..]) = (along, steps) else {
        return Ok(None);
    };
    let shape = new.spec(first).shape.clone();
    let flat = new.one(Op::Concat(axis), parts, node.scope)?;
    // […, steps · size, …] → […, steps, size, …] → [steps, …, size, …]
    let split = Shape::from_dims(shape.insert(axis, steps.len()).dims().to_vec());
    let split = new.one(Op::Reshape(split), [flat].into_iter().collect(), node.scope)?;
    let order: Vec<usize> = std::iter::once(axis)
        .chain((0..=shape.rank()).filter(|&a| a != axis))
        .collect();
    let op = Op::Transpose(Axes::new(&order));
    new.one(op, [split].into_iter().collect(), node.scope)
        .map(Some)
}
