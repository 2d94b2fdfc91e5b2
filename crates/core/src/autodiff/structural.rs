//! Transposes of shape ops: reshape, transpose, broadcast, slice, pad, concat and casts.

use crate::dim::Dim;
use crate::error::Result;
use crate::expr::{Expr, IntoExpr};
use crate::op::{Dims, Op};
use crate::ops::{self, Ops};
use crate::shape::Axes;
use crate::tensor::Tensor;
use crate::{Error, Kind};

pub(super) fn impossible(op: &Op) -> Expr {
    Err(Error::new(
        Kind::Internal,
        format!("{}: no such derivative", op.name()),
    ))
    .into_expr()
}

/// The transpose of a cast takes the real part where real and complex numbers meet.
pub fn cast_vjp(
    _: &Op,
    x: &[&Tensor],
    y: &[&Tensor],
    ct: &[Option<Tensor>],
    _: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    match &ct[0] {
        Some(ct) if y[0].dtype().is_inexact() => Ok(vec![Some(ct.cast(x[0].dtype()).done()?)]),
        _ => Ok(vec![None]),
    }
}

pub fn cast_jvp(
    _: &Op,
    _: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    match &dx[0] {
        Some(dx) if y[0].dtype().is_inexact() => Ok(vec![Some(dx.cast(y[0].dtype()).done()?)]),
        _ => Ok(vec![None]),
    }
}

pub fn reshape(_: &Op, _: usize, x: &[&Tensor], ct: &Tensor) -> Expr {
    ct.reshape(x[0].shape())
}

pub fn transpose(op: &Op, _: usize, _: &[&Tensor], ct: &Tensor) -> Expr {
    match op {
        Op::Transpose(axes) => ct.permute(&axes.inverse()),
        _ => impossible(op),
    }
}

pub fn broadcast(op: &Op, _: usize, x: &[&Tensor], ct: &Tensor) -> Expr {
    let Op::Broadcast(p) = op else {
        return impossible(op);
    };
    let repeated: Axes = (0..p.shape.rank())
        .filter(|axis| match p.axes.iter().position(|a| a == axis) {
            Some(i) => x[0].shape().dims()[i] != p.shape.dims()[*axis],
            None => true,
        })
        .collect();
    ct.sum(&repeated).reshape(x[0].shape())
}

pub fn slice(op: &Op, _: usize, x: &[&Tensor], ct: &Tensor) -> Expr {
    let Op::Slice(p) = op else {
        return impossible(op);
    };
    let mut high = Dims::new();
    for axis in 0..x[0].rank() {
        let (n, stride) = (ct.shape().dims()[axis], Dim::from(p.strides[axis]));
        // Index of the last element read; an empty slice reads nothing.
        let covered = if n == 0usize {
            Dim::number(0)
        } else {
            (n - Dim::number(1)) * stride + Dim::number(1)
        };
        high.push(x[0].shape().dims()[axis] - p.start[axis] - covered);
    }
    let interior: Vec<usize> = p.strides.iter().map(|s| s - 1).collect();
    ops::pad(ct, 0, &p.start, &high, &interior)
}

pub fn pad(op: &Op, i: usize, x: &[&Tensor], ct: &Tensor) -> Expr {
    let Op::Pad(p) = op else {
        return impossible(op);
    };
    let zeros = vec![0; x[0].rank()];
    let minus = |d: &Dims| d.iter().map(|&d| -d).collect::<Dims>();
    // A negative padding crops, which leaves the elements and the interior padding.
    let inner = ops::pad(ct, 0, &minus(&p.low), &minus(&p.high), &zeros);
    let back = inner.then(|inner| {
        let start = vec![Dim::number(0); x[0].rank()];
        let strides: Vec<usize> = p.interior.iter().map(|n| n + 1).collect();
        let limit = inner.shape().dims().to_vec();
        ops::slice(&inner, &start, &limit, &strides)
    });
    if i == 0 {
        return back;
    }
    // The padding value gets the cotangent of all elements that are not the operand's.
    let ones = ops::pad(ops::zeros_like(x[0]), 1, &p.low, &p.high, &p.interior);
    (ct * ones).sum(..)
}

pub fn concat(op: &Op, i: usize, x: &[&Tensor], ct: &Tensor) -> Expr {
    let Op::Concat(axis) = op else {
        return impossible(op);
    };
    let start = x[..i]
        .iter()
        .fold(Dim::number(0), |n, x| n + x.shape().dims()[*axis]);
    ops::slice_axis(ct, *axis as i64, start, start + x[i].shape().dims()[*axis])
}

pub fn reverse(op: &Op, _: usize, _: &[&Tensor], ct: &Tensor) -> Expr {
    match op {
        Op::Reverse(axes) => ops::flip(ct, axes),
        _ => impossible(op),
    }
}
