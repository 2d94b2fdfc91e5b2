//! Batching rules of `dot_general` and convolutions.

use super::{Value, each, run, up, with_first};
use crate::dim::Dim;
use crate::error::Result;
use crate::op::{Conv, Dot};
use crate::ops;
use crate::shape::Shape;
use crate::tensor::Tensor;

/// Moves the batch from an axis of a result to the front.
fn in_front(mut outs: Vec<Value>, axis: usize) -> Result<Vec<Value>> {
    for out in &mut outs {
        out.x = ops::move_axis(&out.x, axis as i64, 0).done()?;
    }
    Ok(outs)
}

pub fn dot(p: &Dot, args: &[Value]) -> Result<Vec<Value>> {
    let (x, y) = (&args[0], &args[1]);
    let mut op = p.clone();
    if x.batched {
        op.lhs_batch = up(&p.lhs_batch);
        op.lhs_contract = up(&p.lhs_contract);
    }
    if y.batched {
        op.rhs_batch = up(&p.rhs_batch);
        op.rhs_contract = up(&p.rhs_contract);
    }
    if x.batched && y.batched {
        op.lhs_batch = with_first(&p.lhs_batch);
        op.rhs_batch = with_first(&p.rhs_batch);
        return run(op, &[&x.x, &y.x]);
    }
    // The batch is the first free axis.
    let sides = p.lhs_batch.len();
    let free = x.rank() - sides - p.lhs_contract.len();
    let at = if x.batched { sides } else { sides + free };
    in_front(run(op, &[&x.x, &y.x])?, at)
}

/// Merges adjacent axes into one.
fn merge_axes(x: &Tensor, axis: usize, count: usize) -> Result<Tensor> {
    let dims = x.shape().dims();
    let one = dims[axis..axis + count]
        .iter()
        .fold(Dim::number(1), |a, &b| a * b);
    let rest = dims[axis + count..].iter().copied();
    let shape = dims[..axis].iter().copied().chain([one]).chain(rest);
    ops::reshape(x, Shape::from_dims(shape)).done()
}

/// Splits one axis into several.
fn split_axis(x: &Tensor, axis: usize, parts: &[Dim]) -> Result<Tensor> {
    let dims = x.shape().dims();
    let rest = dims[axis + 1..].iter().copied();
    let shape = dims[..axis]
        .iter()
        .copied()
        .chain(parts.iter().copied())
        .chain(rest);
    ops::reshape(x, Shape::from_dims(shape)).done()
}

/// Merges the batch and another axis; the batch is the slower one.
fn folded(x: &Tensor, axis: usize) -> Result<Tensor> {
    merge_axes(&ops::move_axis(x, 0, axis as i64).done()?, axis, 2)
}

/// Undoes `folded`.
fn unfolded(x: &Tensor, axis: usize, size: Dim, rest: Dim) -> Result<Vec<Value>> {
    let x = split_axis(x, axis, &[size, rest])?;
    Ok(vec![Value::each(
        ops::move_axis(&x, axis as i64, 0).done()?,
    )])
}

pub fn conv(p: &Conv, args: &[Value], size: Dim) -> Result<Vec<Value>> {
    let (x, w) = (&args[0], &args[1]);
    let number = size.value().and_then(|n| usize::try_from(n).ok());
    let filters = w.spec().shape.dims()[p.rhs_layout[0]];
    let run_one = |p: &Conv, x: &Tensor, w: &Tensor| -> Result<Tensor> {
        crate::dispatch::apply_one(&p.clone().into(), &[x, w])
    };
    match (x.batched, w.batched, number) {
        _ if p.batch_groups != 1 => each(&p.clone().into(), args, size),
        (true, false, _) => {
            let rows = x.spec().shape.dims()[p.lhs_layout[0]];
            let out = run_one(p, &folded(&x.x, p.lhs_layout[0])?, &w.x)?;
            unfolded(&out, p.out_layout[0], size, rows)
        }
        (false, true, _) => {
            // The filters of all examples become output features, within each group.
            let groups = Dim::from(p.feature_groups);
            let own = filters.floor_div(groups)?;
            let (from, to) = (p.rhs_layout[0], p.out_layout[1]);
            let parts = split_axis(&w.x, from + 1, &[groups, own])?;
            let parts = ops::move_axis(parts, 0, from as i64 + 1).done()?;
            let out = run_one(p, &x.x, &merge_axes(&parts, from, 3)?)?;
            let out = split_axis(&out, to, &[groups, size, own])?;
            let out = ops::move_axis(out, to as i64 + 1, 0).done()?;
            Ok(vec![Value::each(merge_axes(&out, to + 1, 2)?)])
        }
        (true, true, Some(number)) if number > 0 => {
            // Every example becomes a group.
            let mut op = p.clone();
            op.feature_groups *= number;
            let (x, w) = (
                folded(&x.x, p.lhs_layout[1])?,
                folded(&w.x, p.rhs_layout[0])?,
            );
            let out = run_one(&op, &x, &w)?;
            unfolded(&out, p.out_layout[1], size, filters)
        }
        _ => each(&p.clone().into(), args, size),
    }
}
