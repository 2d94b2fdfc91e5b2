//! Batching rules of gather, scatter, dynamic slices and search.

use super::{Value, run, up, with_first, with_size};
use crate::dim::Dim;
use crate::error::Result;
use crate::op::{Gather, Op, OutOfRange, Scatter, ScatterKind};
use crate::ops;
use crate::shape::{Axes, Shape};
use crate::tensor::Tensor;

/// Prepends a start index of 0 for the batch axis.
fn from_first(start: &Tensor) -> Result<Tensor> {
    let zero = ops::zeros([1usize], start.dtype()).done()?;
    ops::concat(&[&zero, start], 0).done()
}

pub fn dynamic_slice(sizes: &Shape, args: &[Value], size: Dim) -> Result<Vec<Value>> {
    let (x, start) = (&args[0], &args[1]);
    if !start.batched {
        let op = Op::DynamicSlice(with_size(size, sizes));
        return run(op, &[&x.x, &from_first(&start.x)?]);
    }
    let rank = sizes.rank();
    let mut op = Gather {
        offset_axes: (1..=rank).collect(),
        collapsed: Axes::default(),
        index_map: (0..rank).collect(),
        operand_batch: Axes::default(),
        index_batch: Axes::default(),
        slice_sizes: sizes.dims().iter().copied().collect(),
        mode: OutOfRange::Clip,
    };
    if x.batched {
        op.index_map = up(&op.index_map);
        op.operand_batch = Axes::new(&[0]);
        op.index_batch = Axes::new(&[0]);
        op.slice_sizes.insert(0, Dim::number(1));
    }
    run(op, &[&x.x, &start.x])
}

pub fn dynamic_update(args: &[Value], size: Dim) -> Result<Vec<Value>> {
    let (x, update, start) = (args[0].full(size)?, args[1].full(size)?, &args[2]);
    if !start.batched {
        return run(Op::DynamicUpdate, &[&x, &update, &from_first(&start.x)?]);
    }
    let axes: Axes = (1..=args[0].rank()).collect();
    let op = Scatter {
        kind: ScatterKind::Set,
        window_axes: axes.clone(),
        inserted: Axes::default(),
        index_map: axes,
        operand_batch: Axes::new(&[0]),
        index_batch: Axes::new(&[0]),
        mode: OutOfRange::Clip,
    };
    run(op, &[&x, &start.x, &update])
}

pub fn gather(p: &Gather, args: &[Value], size: Dim) -> Result<Vec<Value>> {
    let (x, indices) = (&args[0], &args[1]);
    let mut op = p.clone();
    if !x.batched {
        // The batch becomes one more axis of the indices.
        op.offset_axes = up(&p.offset_axes);
        op.index_batch = up(&p.index_batch);
        return run(op, &[&x.x, &indices.x]);
    }
    op.collapsed = up(&p.collapsed);
    op.index_map = up(&p.index_map);
    if !indices.batched {
        // Every slice spans the whole batch.
        op.offset_axes = with_first(&p.offset_axes);
        op.operand_batch = up(&p.operand_batch);
        op.slice_sizes.insert(0, size);
        return run(op, &[&x.x, &indices.x]);
    }
    op.offset_axes = up(&p.offset_axes);
    op.operand_batch = with_first(&p.operand_batch);
    op.index_batch = with_first(&p.index_batch);
    op.slice_sizes.insert(0, Dim::number(1));
    run(op, &[&x.x, &indices.x])
}

pub fn scatter(p: &Scatter, args: &[Value], size: Dim) -> Result<Vec<Value>> {
    let (x, indices, updates) = (args[0].full(size)?, &args[1], args[2].full(size)?);
    let mut op = p.clone();
    op.inserted = up(&p.inserted);
    op.index_map = up(&p.index_map);
    if indices.batched {
        op.window_axes = up(&p.window_axes);
        op.operand_batch = with_first(&p.operand_batch);
        op.index_batch = with_first(&p.index_batch);
    } else {
        op.window_axes = with_first(&p.window_axes);
        op.operand_batch = up(&p.operand_batch);
    }
    run(op, &[&x, &indices.x, &updates])
}

pub fn search_sorted(op: &Op, args: &[Value], size: Dim) -> Result<Vec<Value>> {
    let (sorted, values) = (&args[0], &args[1]);
    if !sorted.batched && sorted.rank() == 1 {
        return run(op.clone(), &[&sorted.x, &values.x]);
    }
    let (rows, all) = (sorted.full(size)?, values.full(size)?);
    if sorted.rank() > 1 {
        return run(op.clone(), &[&rows, &all]);
    }
    // Each example has its own sorted row, so the values must be one row per example too.
    let count = values.spec().shape.count_dim();
    let flat = ops::reshape(&all, Shape::from_dims([size, count])).done()?;
    let found = run(op.clone(), &[&rows, &flat])?;
    let found = ops::reshape(&found[0].x, all.shape()).done()?;
    Ok(vec![Value::each(found)])
}
