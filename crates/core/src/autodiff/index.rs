//! Derivatives of gather, scatter, dynamic slices and updates.

use super::structural::impossible;
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Expr;
use crate::op::{Dims, Gather, Op, Scatter, ScatterKind};
use crate::ops::{self, Ops};
use crate::shape::Shape;
use crate::tensor::Tensor;

pub fn dynamic_slice(_: &Op, _: usize, x: &[&Tensor], ct: &Tensor) -> Expr {
    ops::dynamic_update_slice(ops::zeros_like(x[0]), ct, x[1])
}

pub fn dynamic_update(_: &Op, i: usize, x: &[&Tensor], ct: &Tensor) -> Expr {
    match i {
        0 => ops::dynamic_update_slice(ct, ops::zeros_like(x[1]), x[2]),
        _ => ops::dynamic_slice(ct, x[2], x[1].shape()),
    }
}

pub fn gather(op: &Op, _: usize, x: &[&Tensor], ct: &Tensor) -> Expr {
    let Op::Gather(p) = op else {
        return impossible(op);
    };
    let mirror = Scatter {
        kind: ScatterKind::Add,
        window_axes: p.offset_axes.clone(),
        inserted: p.collapsed.clone(),
        index_map: p.index_map.clone(),
        operand_batch: p.operand_batch.clone(),
        index_batch: p.index_batch.clone(),
        mode: p.mode,
    };
    ops::scatter(ops::zeros_like(x[0]), x[1], ct, mirror)
}

/// The gather that reads the elements that a scatter writes.
fn mirror(p: &Scatter, x: &Tensor, updates: &Tensor) -> Gather {
    let mut sizes = p.window_axes.iter().map(|&a| updates.shape().dims()[a]);
    let slice_sizes: Dims = (0..x.rank())
        .map(|a| {
            if p.inserted.contains(&a) || p.operand_batch.contains(&a) {
                return ops::index::one_or_none(x, a);
            }
            sizes.next().unwrap_or_else(|| 1usize.into())
        })
        .collect();
    Gather {
        offset_axes: p.window_axes.clone(),
        collapsed: p.inserted.clone(),
        index_map: p.index_map.clone(),
        operand_batch: p.operand_batch.clone(),
        index_batch: p.index_batch.clone(),
        slice_sizes,
        mode: p.mode,
    }
}

fn of_kind(p: &Scatter, kind: ScatterKind) -> Scatter {
    Scatter { kind, ..p.clone() }
}

pub fn scatter_add(op: &Op, i: usize, x: &[&Tensor], ct: &Tensor) -> Expr {
    let Op::Scatter(p) = op else {
        return impossible(op);
    };
    match i {
        0 => ops::positive(ct),
        _ => ops::gather(ct, x[1], mirror(p, x[0], x[2])),
    }
}

fn params(op: &Op) -> Result<&Scatter> {
    match op {
        Op::Scatter(p) => Ok(p),
        _ => crate::bail!(Internal, "{}: not a scatter", op.name()),
    }
}

/// The last write to an element wins, so each update first finds out whether it is in the result.
pub fn scatter_set(
    op: &Op,
    x: &[&Tensor],
    _: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let p = params(op)?;
    let (base, at, updates) = (x[0], x[1], x[2]);
    let flat = ops::create::iota_like(
        updates,
        &Shape::from_dims([updates.shape().count_dim()]),
        0,
        DType::I64,
    );
    let numbers = flat.reshape(updates.shape()).done()?;
    let nobody = ops::full_like(&ops::cast(base, DType::I64).stop_gradient().done()?, -1).done()?;
    let writers = ops::scatter(&nobody, at, &numbers, of_kind(p, ScatterKind::Set)).done()?;
    let mut out: Option<Tensor> = None;
    if let Some(d) = &dx[0] {
        out = Some(
            ops::where_(ops::equal(&writers, -1), d, 0.0)
                .cast(d.dtype())
                .done()?,
        );
    }
    if let Some(d) = &dx[2] {
        let winner = ops::gather(&writers, at, mirror(p, base, updates));
        let d = ops::where_(ops::equal(winner, &numbers), d, 0.0).cast(d.dtype());
        let zero = ops::zeros_like(base);
        let part = ops::scatter(zero, at, d, of_kind(p, ScatterKind::Add)).done()?;
        out = Some(match out {
            Some(old) => (&old + &part).done()?,
            None => part,
        });
    }
    Ok(vec![out])
}

/// scatter_mul: the derivative by each factor is the product of the other factors, exact also where one factor is
/// zero.
pub fn scatter_mul(
    op: &Op,
    x: &[&Tensor],
    _: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let p = params(op)?;
    let (base, at, updates) = (x[0], x[1], x[2]);
    let mut out: Option<Tensor> = None;
    if let Some(d) = &dx[0] {
        let factors = ops::scatter(ops::ones_like(base), at, updates, p.clone());
        out = Some((d * factors).done()?);
    }
    if let Some(d) = &dx[2] {
        let read = |t: &Tensor| ops::gather(t, at, mirror(p, base, updates));
        let zero = ops::equal(updates, 0).done()?;
        let safe = ops::where_(&zero, 1, updates)
            .cast(updates.dtype())
            .done()?;
        let nonzero = ops::scatter(base, at, &safe, p.clone()).done()?;
        let count = ops::scatter(
            ops::zeros_like(base),
            at,
            ops::cast(&zero, base.dtype()),
            of_kind(p, ScatterKind::Add),
        )
        .done()?;
        // The number of zeros among the other factors: all zeros without this one.
        let others = (read(&count) - ops::cast(&zero, base.dtype())).done()?;
        let rest =
            ops::where_(ops::equal(&others, 0), read(&nonzero) / &safe, 0).cast(base.dtype());
        let part = ops::scatter(
            ops::zeros_like(base),
            at,
            d * rest,
            of_kind(p, ScatterKind::Add),
        )
        .done()?;
        out = Some(match out {
            Some(old) => (&old + &part).done()?,
            None => part,
        });
    }
    Ok(vec![out])
}

/// scatter_min and scatter_max: the cotangent is split evenly among all elements that equal the result.
pub fn scatter_extreme(
    op: &Op,
    x: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let p = params(op)?;
    let (base, at, updates, y) = (x[0], x[1], x[2], y[0]);
    let dtype = base.dtype();
    let own = ops::cast(ops::equal(base, y), dtype).done()?;
    let theirs = ops::cast(
        ops::equal(updates, ops::gather(y, at, mirror(p, base, updates))),
        dtype,
    )
    .done()?;
    let add = of_kind(p, ScatterKind::Add);
    let count = ops::scatter(&own, at, &theirs, add.clone()).done()?;
    let mut total = ops::zeros_like(base).done()?;
    if let Some(d) = &dx[0] {
        total = (&total + d * &own).done()?;
    }
    if let Some(d) = &dx[2] {
        total = ops::scatter(&total, at, d * &theirs, add).done()?;
    }
    Ok(vec![Some((&total / ops::maximum(&count, 1.0)).done()?)])
}
