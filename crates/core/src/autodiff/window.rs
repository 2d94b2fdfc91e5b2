//! Derivatives of window reductions (pooling).

use super::structural::impossible;
use crate::bail;
use crate::dim::Dim;
use crate::error::Result;
use crate::expr::Expr;
use crate::infer::dilated;
use crate::op::{Dims, Op, Pads, Window, WindowGather, WindowKind, WindowScatter};
use crate::ops;
use crate::shape::Axes;
use crate::tensor::Tensor;

/// A window sum over the cotangent with stride and dilation exchanged.
pub fn sum(op: &Op, _: usize, x: &[&Tensor], ct: &Tensor) -> Expr {
    let Op::Window(p) = op else {
        return impossible(op);
    };
    let x = x[0];
    let pads: Pads = (0..x.rank())
        .map(|i| {
            let input = dilated(x.shape().dims()[i], p.base_dilation[i]);
            let window = dilated(Dim::from(p.size[i]), p.window_dilation[i]);
            let output = dilated(ct.shape().dims()[i], p.strides[i]);
            let low = window - p.padding[i].0 - Dim::number(1);
            (low, input + window - Dim::number(1) - output - low)
        })
        .collect();
    ops::reduce_window(
        ct,
        Window {
            kind: WindowKind::Sum,
            size: p.size.clone(),
            strides: p.base_dilation.clone(),
            padding: pads,
            base_dilation: p.strides.clone(),
            window_dilation: p.window_dilation.clone(),
        },
    )
}

fn params(op: &Op) -> Result<WindowScatter> {
    match op {
        Op::Window(p) => (**p).clone().try_into(),
        Op::WindowScatter(p) => Ok((**p).clone()),
        Op::WindowGather(p) => Ok((**p).clone().into()),
        _ => bail!(Internal, "{}: not a window op", op.name()),
    }
}

fn scatter(op: &Op, x: &Tensor, source: &Tensor) -> Result<Option<Tensor>> {
    ops::call(params(op)?, &[x, source]).done().map(Some)
}

fn gather(op: &Op, x: &Tensor, source: &Tensor) -> Result<Option<Tensor>> {
    ops::call(WindowGather::from(params(op)?), &[x, source])
        .done()
        .map(Some)
}

pub fn extreme_vjp(
    op: &Op,
    x: &[&Tensor],
    _: &[&Tensor],
    ct: &[Option<Tensor>],
    _: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let Some(ct) = &ct[0] else {
        return Ok(vec![None]);
    };
    Ok(vec![scatter(op, x[0], ct)?])
}

pub fn extreme_jvp(
    op: &Op,
    x: &[&Tensor],
    _: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let Some(dx) = &dx[0] else {
        return Ok(vec![None]);
    };
    Ok(vec![gather(op, x[0], dx)?])
}

// Both selections are linear in the values they move and constant in the values they compare.

pub fn scatter_vjp(
    op: &Op,
    x: &[&Tensor],
    _: &[&Tensor],
    ct: &[Option<Tensor>],
    _: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let Some(ct) = &ct[0] else {
        return Ok(vec![None; 2]);
    };
    Ok(vec![None, gather(op, x[0], ct)?])
}

pub fn scatter_jvp(
    op: &Op,
    x: &[&Tensor],
    _: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let Some(d) = &dx[1] else {
        return Ok(vec![None]);
    };
    Ok(vec![scatter(op, x[0], d)?])
}

pub fn gather_vjp(
    op: &Op,
    x: &[&Tensor],
    _: &[&Tensor],
    ct: &[Option<Tensor>],
    _: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let Some(ct) = &ct[0] else {
        return Ok(vec![None; 2]);
    };
    Ok(vec![None, scatter(op, x[0], ct)?])
}

pub fn gather_jvp(
    op: &Op,
    x: &[&Tensor],
    _: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let Some(d) = &dx[1] else {
        return Ok(vec![None]);
    };
    Ok(vec![gather(op, x[0], d)?])
}

/// The elements of each window along a new last axis; `edge` fills positions outside the operand.
fn patches(p: &Window, x: &Tensor, out: &Tensor, edge: f64) -> Result<Tensor> {
    let (mut low, mut high) = (Dims::new(), Dims::new());
    for i in 0..x.rank() {
        low.push(p.padding[i].0);
        high.push(p.padding[i].1);
    }
    let interior: Vec<usize> = p.base_dilation.iter().map(|d| d - 1).collect();
    let padded = ops::pad(x, edge, &low, &high, &interior).done()?;
    let mut offsets = vec![vec![0usize; x.rank()]];
    for (axis, &n) in p.size.iter().enumerate() {
        let step = p.window_dilation[axis];
        offsets = offsets
            .into_iter()
            .flat_map(|o| {
                (0..n).map(move |k| {
                    let mut o = o.clone();
                    o[axis] = k * step;
                    o
                })
            })
            .collect();
    }
    let parts: Vec<Tensor> = offsets
        .iter()
        .map(|offset| {
            // Where no window fits, nothing is read.
            let start: Vec<Dim> = (0..x.rank())
                .map(|i| {
                    if out.shape().dims()[i] == 0usize {
                        Dim::number(0)
                    } else {
                        Dim::from(offset[i])
                    }
                })
                .collect();
            let limit: Vec<Dim> = (0..x.rank())
                .map(|i| {
                    let n = out.shape().dims()[i];
                    if n == 0usize {
                        start[i]
                    } else {
                        start[i] + (n - Dim::number(1)) * Dim::from(p.strides[i]) + Dim::number(1)
                    }
                })
                .collect();
            ops::slice(&padded, &start, &limit, &p.strides).done()
        })
        .collect::<Result<_>>()?;
    ops::stack(&parts, -1).done()
}

/// The window product, computed from the elements of each window.
pub fn prod(
    op: &Op,
    x: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let (Op::Window(p), Some(dx)) = (op, &dx[0]) else {
        return Ok(vec![None]);
    };
    let values = patches(p, x[0], y[0], 1.0)?;
    let tangents = patches(p, dx, y[0], 0.0)?;
    let axes: Axes = [values.rank() - 1].into();
    let reduce = Op::from(crate::op::Reduce {
        kind: crate::op::ReduceKind::Prod,
        axes,
    });
    super::reduce::prod(&reduce, &[&values], &[y[0]], &[Some(tangents)])
}
