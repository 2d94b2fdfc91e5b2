//! Algebraic simplification of single nodes: removes identities and merges pairs of ops: `x * 1 → x`,
//! `reshape(reshape(x)) → reshape(x)`.
//!
//! Every rule is bit-exact, including NaN and the sign of zero, unless it checks `fast_math`.

use crate::rewriter::{Args, Rewriter, rewrite};
use clematis_core::dtype::{Category, DType, Scalar};
use clematis_core::error::Result;
use clematis_core::graph::{Arg, Graph, Node};
use clematis_core::op::{Binary, Broadcast, Op, Unary};
use clematis_core::pass::Options;
use clematis_core::shape::{Axes, Shape};
use clematis_core::tensor::Tensor;
use smallvec::smallvec;

/// Runs one round over all nodes.
pub fn run(graph: &Graph, options: Options) -> Result<Option<Graph>> {
    rewrite(graph, |new, node, args| {
        let found = match &node.op {
            Op::Unary(u) => unary(new, *u, args),
            Op::Binary(b) => binary(new, *b, args, node, options)?,
            Op::Select => select(new, args),
            Op::StopGradient => args.first().cloned(),
            Op::Cast(dtype) => cast(new, *dtype, args),
            Op::Reshape(shape) => reshape(new, shape, args, node)?,
            Op::Transpose(axes) => transpose(new, axes, args, node)?,
            Op::Broadcast(p) => broadcast(new, p, args, node)?,
            Op::Reverse(axes) => reverse(new, axes, args),
            Op::Reduce(p) if p.axes.is_empty() => args.first().cloned(),
            Op::Concat(_) if args.len() == 1 => args.first().cloned(),
            Op::Slice(p) => whole_slice(new, p, args),
            _ => None,
        };
        let found = match found {
            Some(found) => Some(found),
            None => without_broadcast(new, node, args)?,
        };
        Ok(found.map(|arg| vec![arg]))
    })
}

/// The number that fills an operand, if it is constant.
pub fn number(new: &Rewriter, arg: &Arg) -> Option<Scalar> {
    match arg {
        Arg::Const(t) => t.as_number(),
        Arg::Value(_) => match &new.producer(arg)?.op {
            Op::Full(p) => Some(p.value),
            _ => None,
        },
    }
}

fn unary(new: &Rewriter, op: Unary, args: &Args) -> Option<Arg> {
    let inner = new.producer(args.first()?)?;
    let undoes = matches!(
        (op, &inner.op),
        (Unary::Neg, Op::Unary(Unary::Neg))
            | (Unary::Conj, Op::Unary(Unary::Conj))
            | (Unary::BitwiseNot, Op::Unary(Unary::BitwiseNot))
    );
    let repeats = matches!(
        (op, &inner.op),
        (Unary::Abs, Op::Unary(Unary::Abs))
            | (Unary::Floor, Op::Unary(Unary::Floor))
            | (Unary::Ceil, Op::Unary(Unary::Ceil))
            | (Unary::Trunc, Op::Unary(Unary::Trunc))
    );
    match () {
        () if undoes => inner.args.first().cloned(),
        () if repeats => args.first().cloned(),
        () => None,
    }
}

fn binary(
    new: &mut Rewriter,
    op: Binary,
    args: &Args,
    node: &Node,
    options: Options,
) -> Result<Option<Arg>> {
    let [x, y] = args.as_slice() else {
        return Ok(None);
    };
    let (left, right) = (number(new, x), number(new, y));
    let is_float = new.spec(x).dtype.category() >= Category::Float;
    let neutral = |value: Option<Scalar>, what: f64| value.is_some_and(|v| is(v, what));
    // Adding -0.0 changes nothing; adding 0.0 turns -0.0 into 0.0.
    let zero_to_add = |value: Option<Scalar>| {
        value.is_some_and(|v| {
            is(v, 0.0) && (!is_float || options.fast_math || v.as_f64().is_sign_negative())
        })
    };
    let zero_to_take = |value: Option<Scalar>| {
        value.is_some_and(|v| {
            is(v, 0.0) && (!is_float || options.fast_math || v.as_f64().is_sign_positive())
        })
    };
    let found = match op {
        Binary::Add if zero_to_add(right) => Some(x),
        Binary::Add if zero_to_add(left) => Some(y),
        Binary::Sub if zero_to_take(right) => Some(x),
        Binary::Mul | Binary::Div | Binary::Pow if neutral(right, 1.0) => Some(x),
        Binary::Mul if neutral(left, 1.0) => Some(y),
        Binary::Maximum | Binary::Minimum if same(x, y) => Some(x),
        _ => None,
    };
    if let Some(found) = found {
        return Ok(Some(found.clone()));
    }
    let vanishes = match op {
        Binary::Mul => neutral(left, 0.0) || neutral(right, 0.0),
        Binary::Sub => same(x, y),
        _ => false,
    };
    if vanishes && (options.fast_math || !is_float) {
        let specs = [new.spec(x).clone(), new.spec(y).clone()];
        let Some(out) = Shape::broadcast(&specs[0].shape, &specs[1].shape) else {
            return Ok(None);
        };
        let dtype = specs[0].dtype;
        let zeros = clematis_core::op::Full {
            value: Scalar::ZERO.cast(dtype),
            dtype,
            shape: out,
        };
        return new.one(zeros.into(), smallvec![], node.scope).map(Some);
    }
    Ok(None)
}

fn is(value: Scalar, what: f64) -> bool {
    value.as_complex() == (what, 0.0) && value.category() != Category::Bool
}

fn same(x: &Arg, y: &Arg) -> bool {
    matches!((x, y), (Arg::Value(a), Arg::Value(b)) if a == b)
}

fn select(new: &Rewriter, args: &Args) -> Option<Arg> {
    let [test, x, y] = args.as_slice() else {
        return None;
    };
    if same(x, y) {
        return Some(x.clone());
    }
    match number(new, test)? {
        Scalar::Bool(true) => Some(x.clone()),
        Scalar::Bool(false) => Some(y.clone()),
        _ => None,
    }
}

fn cast(new: &Rewriter, dtype: DType, args: &Args) -> Option<Arg> {
    let x = args.first()?;
    if new.spec(x).dtype == dtype {
        return Some(x.clone());
    }
    // A round trip through a wider dtype that holds every value of the first.
    let inner = new.producer(x)?;
    let Op::Cast(between) = inner.op else {
        return None;
    };
    let first = inner.args.first()?;
    let from = new.spec(first).dtype;
    (from == dtype && holds(between, from)).then(|| first.clone())
}

/// Whether a dtype holds every value of another.
fn holds(wide: DType, narrow: DType) -> bool {
    let known = wide.category() >= narrow.category() && wide.promote(narrow) == wide;
    // 64-bit and 32-bit integers do not fit into floats of the same width, although promotion gives those.
    let is_exact = wide.category() == narrow.category()
        || narrow.category() == Category::Bool
        || narrow.category() == Category::Float
        || 2 * narrow.size() <= wide.size();
    known && is_exact
}

fn reshape(new: &mut Rewriter, shape: &Shape, args: &Args, node: &Node) -> Result<Option<Arg>> {
    let [x] = args.as_slice() else {
        return Ok(None);
    };
    if new.spec(x).shape == *shape {
        return Ok(Some(x.clone()));
    }
    let Some(inner) = new.producer(x) else {
        return Ok(None);
    };
    if !matches!(inner.op, Op::Reshape(_)) {
        return Ok(None);
    }
    let args = inner.args.clone();
    new.one(Op::Reshape(shape.clone()), args, node.scope)
        .map(Some)
}

fn transpose(new: &mut Rewriter, axes: &Axes, args: &Args, node: &Node) -> Result<Option<Arg>> {
    let [x] = args.as_slice() else {
        return Ok(None);
    };
    if axes.iter().enumerate().all(|(i, &axis)| i == axis) {
        return Ok(Some(x.clone()));
    }
    let Some(inner) = new.producer(x) else {
        return Ok(None);
    };
    let Op::Transpose(first) = &inner.op else {
        return Ok(None);
    };
    let both: Vec<usize> = axes.iter().map(|&axis| first[axis]).collect();
    let args = inner.args.clone();
    new.one(Op::Transpose(Axes::new(&both)), args, node.scope)
        .map(Some)
}

fn broadcast(new: &mut Rewriter, p: &Broadcast, args: &Args, node: &Node) -> Result<Option<Arg>> {
    let [x] = args.as_slice() else {
        return Ok(None);
    };
    if new.spec(x).shape == p.shape && p.axes.iter().enumerate().all(|(i, &axis)| i == axis) {
        return Ok(Some(x.clone()));
    }
    let Some(inner) = new.producer(x) else {
        return Ok(None);
    };
    match &inner.op {
        Op::Full(full) => {
            let full = clematis_core::op::Full {
                shape: p.shape.clone(),
                ..(**full).clone()
            };
            new.one(full.into(), smallvec![], node.scope).map(Some)
        }
        Op::Broadcast(first) => {
            let axes: Vec<usize> = first.axes.iter().map(|&axis| p.axes[axis]).collect();
            let both = Broadcast {
                shape: p.shape.clone(),
                axes: Axes::new(&axes),
            };
            let args = inner.args.clone();
            new.one(both.into(), args, node.scope).map(Some)
        }
        _ => Ok(None),
    }
}

fn reverse(new: &Rewriter, axes: &Axes, args: &Args) -> Option<Arg> {
    let x = args.first()?;
    if axes.is_empty() {
        return Some(x.clone());
    }
    let inner = new.producer(x)?;
    match &inner.op {
        Op::Reverse(first) if first == axes => inner.args.first().cloned(),
        _ => None,
    }
}

fn whole_slice(new: &Rewriter, p: &clematis_core::op::Slice, args: &Args) -> Option<Arg> {
    let x = args.first()?;
    let from_start = p.start.iter().all(|d| *d == 0usize) && p.strides.iter().all(|&s| s == 1);
    let to_end = p.limit.iter().eq(new.spec(x).shape.dims().iter());
    (from_start && to_end).then(|| x.clone())
}

/// Elementwise ops broadcast their operands, so a broadcast before them, or an array of one number, is redundant.
fn without_broadcast(new: &mut Rewriter, node: &Node, args: &Args) -> Result<Option<Arg>> {
    if !matches!(node.op, Op::Binary(_) | Op::Compare(_)) {
        return Ok(None);
    }
    let [x, y] = args.as_slice() else {
        return Ok(None);
    };
    let out = new.spec(x).shape.clone();
    if out != new.spec(y).shape {
        return Ok(None);
    }
    for (place, (arg, other)) in [(x, y), (y, x)].into_iter().enumerate() {
        // One operand keeps the shape of the result.
        if matches!(other, Arg::Const(_)) {
            continue;
        }
        if let Some(short) = shorter(new, arg, &out) {
            let mut args = args.clone();
            args[place] = short;
            return new.one(node.op.clone(), args, node.scope).map(Some);
        }
    }
    Ok(None)
}

fn shorter(new: &Rewriter, arg: &Arg, out: &Shape) -> Option<Arg> {
    let inner = new.producer(arg)?;
    match &inner.op {
        Op::Full(p) if out.rank() > 0 => Some(Arg::Const(Tensor::scalar(p.value, p.dtype))),
        Op::Broadcast(p) => {
            let first = inner.args.first()?;
            let rank = new.spec(first).shape.rank();
            let ahead = out.rank().checked_sub(rank)?;
            let is_aligned = p
                .axes
                .iter()
                .enumerate()
                .all(|(i, &axis)| axis == ahead + i);
            is_aligned.then(|| first.clone())
        }
        _ => None,
    }
}
