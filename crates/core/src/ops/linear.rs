//! `dot_general`, matmul, einsum and convolutions.

use super::{call, elementwise::promoted, with2};
use crate::dim::Dim;
use crate::dispatch::apply_one;
use crate::ensure;
use crate::error::Result;
use crate::expr::{Expr, IntoExpr};
use crate::op::{Composite, Conv, Dot, Pads, Takes, Window, WindowKind};
use crate::shape::{Axes, Shape};
use crate::tensor::Tensor;

/// General dot product: see `Dot`.
pub fn dot_general(x: impl IntoExpr, y: impl IntoExpr, p: Dot) -> Expr {
    with2(x, y, |x, y| {
        let (x, y) = promoted(x, y, Takes::Any)?;
        apply_one(&p.into(), &[&x, &y])
    })
}

/// Matrix multiplication by the Array API's rules: vectors are rows or columns, leading axes broadcast.
pub fn matmul(x: impl IntoExpr, y: impl IntoExpr) -> Expr {
    with2(x, y, |x, y| {
        ensure!(
            x.rank() > 0 && y.rank() > 0,
            Shape,
            "matmul: expected vectors or matrices, got {} and {}",
            x.spec(),
            y.spec()
        );
        let inner = (
            x.shape().dims()[x.rank() - 1],
            y.shape().dims()[y.rank().saturating_sub(2)],
        );
        if inner.0 != inner.1 {
            let (a, b) = (x.spec(), y.spec());
            let e = crate::Error::new(
                crate::Kind::Shape,
                format!(
                    "matmul: {} (last axis of {a}) and {} (axis of {b}) differ",
                    inner.0, inner.1
                ),
            );
            let other = y.shape().dims()[y.rank() - 1];
            return Err(if other == inner.0 {
                e.note("did you mean the transpose of the second operand?")
            } else {
                e
            });
        }
        let (x, y) = promoted(x, y, Takes::Any)?;
        let (xr, yr) = (x.rank(), y.rank());
        if yr <= 2 || xr == 1 {
            let (no, contract) = (Axes::default(), yr.saturating_sub(2));
            let p = Dot {
                lhs_batch: no.clone(),
                rhs_batch: no,
                lhs_contract: [xr - 1].into(),
                rhs_contract: [contract].into(),
            };
            return apply_one(&p.into(), &[&x, &y]);
        }
        let split = |s: &Shape| {
            let (batch, matrix) = s.dims().split_at(s.rank() - 2);
            (
                Shape::from_dims(batch.iter().copied()),
                Shape::from_dims(matrix.iter().copied()),
            )
        };
        let ((bx, mx), (by, my)) = (split(x.shape()), split(y.shape()));
        let batch = bx.broadcast_with(&by, "matmul")?;
        let n = batch.rank();
        let x = super::broadcast_to(&x, batch.join(&mx)).done()?;
        let y = super::broadcast_to(&y, batch.join(&my)).done()?;
        let p = Dot {
            lhs_batch: Axes::all(n),
            rhs_batch: Axes::all(n),
            lhs_contract: [n + 1].into(),
            rhs_contract: [n].into(),
        };
        apply_one(&p.into(), &[&x, &y])
    })
}

/// Contracts axes of `x` with axes of `y`, in order.
pub fn tensordot(x: impl IntoExpr, y: impl IntoExpr, x_axes: &[i64], y_axes: &[i64]) -> Expr {
    with2(x, y, |x, y| {
        let p = Dot {
            lhs_batch: Axes::default(),
            rhs_batch: Axes::default(),
            lhs_contract: x.shape().axes(x_axes, "tensordot")?,
            rhs_contract: y.shape().axes(y_axes, "tensordot")?,
        };
        dot_general(&x, &y, p).done()
    })
}

/// The outer product of two vectors.
pub fn outer(x: impl IntoExpr, y: impl IntoExpr) -> Expr {
    tensordot(x, y, &[], &[])
}

/// The sum of conj(x) y along an axis; the other axes broadcast.
pub fn vecdot(x: impl IntoExpr, y: impl IntoExpr, axis: i64) -> Expr {
    with2(x, y, |x, y| {
        ensure!(
            axis < 0 || x.rank() == y.rank(),
            Shape,
            "vecdot: axis {axis} of {} and {}",
            x.spec(),
            y.spec()
        );
        // The axis that is summed does not broadcast.
        let size = |t: &Tensor| Ok(t.shape().dims()[t.shape().axis(axis, "vecdot")?]);
        let (m, n): (Dim, Dim) = (size(&x)?, size(&y)?);
        ensure!(
            m == n,
            Shape,
            "vecdot: expected equally many elements along axis {axis}, got {m} and {n} of {} and {}",
            x.spec(),
            y.spec()
        );
        super::sum(super::conj(&x) * &y, axis).done()
    })
}

/// Einstein summation: `einsum("bij,bjk->bik", &[&x, &y])`.
pub fn einsum(equation: &str, xs: &[&Tensor]) -> Expr {
    let op = Composite::Einsum {
        equation: equation.into(),
    };
    let all = super::elementwise::promote_all(xs);
    all.and_then(|xs| call(op, &xs.iter().collect::<Vec<_>>()).done())
        .into()
}

/// General convolution: see `Conv`.
pub fn conv_general(x: impl IntoExpr, w: impl IntoExpr, p: Conv) -> Expr {
    with2(x, w, |x, w| {
        let (x, w) = promoted(x, w, Takes::Any)?;
        apply_one(&p.into(), &[&x, &w])
    })
}

/// Padding of the spatial axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Padding {
    /// No padding.
    Valid,
    /// The output size is ⌈size / stride⌉.
    Same,
    /// Explicit padding before and after each spatial axis.
    Each(Vec<(i64, i64)>),
}

/// Padding before and after one axis, for an output size of ⌈size / stride⌉.
pub fn same_padding(size: Dim, window: Dim, stride: usize) -> Result<(Dim, Dim)> {
    let places = size.ceil_div(Dim::from(stride))?;
    let total = ((places - Dim::number(1)) * Dim::from(stride) + window - size).max(Dim::number(0));
    let low = total.floor_div(Dim::number(2))?;
    Ok((low, total - low))
}

/// Options of `conv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvOptions {
    /// One per spatial axis.
    pub strides: Vec<usize>,
    /// Padding of the spatial axes.
    pub padding: Padding,
    /// Dilation of the filter, one per spatial axis.
    pub dilation: Vec<usize>,
    /// Number of channel groups.
    pub groups: usize,
    /// Whether channels are the last axis (filters `[spatial…, in, out]`) or the second (filters `[out, in, spatial…]`).
    pub channels_last: bool,
}

impl ConvOptions {
    /// Stride and dilation 1, same padding, one group, channels last.
    pub fn new(spatial: usize) -> Self {
        ConvOptions {
            strides: vec![1; spatial],
            padding: Padding::Same,
            dilation: vec![1; spatial],
            groups: 1,
            channels_last: true,
        }
    }

    /// The positions of `[batch, feature, spatial…]` in inputs and results, and of `[out, in, spatial…]` in filters.
    pub fn layouts(&self, rank: usize) -> (Axes, Axes) {
        if !self.channels_last {
            return (Axes::all(rank), Axes::all(rank));
        }
        let data = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
        let filter = [rank - 1, rank - 2]
            .into_iter()
            .chain(0..rank - 2)
            .collect();
        (data, filter)
    }
}

/// Convolution over one or more spatial axes.
pub fn conv(x: impl IntoExpr, w: impl IntoExpr, options: &ConvOptions) -> Expr {
    with2(x, w, |x, w| {
        let rank = x.rank();
        ensure!(
            rank >= 3 && w.rank() == rank,
            Shape,
            "conv: expected a batch, a feature and the same spatial axes, got input {} and filter {}",
            x.spec(),
            w.spec()
        );
        let spatial = rank - 2;
        let (data, filter) = options.layouts(rank);
        ensure!(
            options.strides.len() == spatial && options.dilation.len() == spatial,
            Shape,
            "conv: got {spatial} spatial axes, but {} strides and {} dilations",
            options.strides.len(),
            options.dilation.len()
        );
        ensure!(
            options
                .strides
                .iter()
                .chain(&options.dilation)
                .all(|&n| n > 0),
            Value,
            "conv: expected positive strides and dilations, got {:?} and {:?}",
            options.strides,
            options.dilation
        );
        let padding = match &options.padding {
            Padding::Valid => Pads::from_elem((Dim::number(0), Dim::number(0)), spatial),
            Padding::Each(pads) => pads.iter().map(|&(a, b)| (a.into(), b.into())).collect(),
            Padding::Same => (0..spatial)
                .map(|i| {
                    let span = (w.shape().dims()[filter[i + 2]] - Dim::number(1))
                        * Dim::from(options.dilation[i])
                        + Dim::number(1);
                    same_padding(x.shape().dims()[data[i + 2]], span, options.strides[i])
                })
                .collect::<Result<_>>()?,
        };
        let p = Conv {
            strides: options.strides[..].into(),
            padding,
            lhs_dilation: std::iter::repeat_n(1, spatial).collect(),
            rhs_dilation: options.dilation[..].into(),
            lhs_layout: data.clone(),
            rhs_layout: filter,
            out_layout: data,
            feature_groups: options.groups,
            batch_groups: 1,
        };
        conv_general(&x, &w, p).done()
    })
}

/// Reduces sliding windows over all axes: see `Window`.
pub fn reduce_window(x: impl IntoExpr, p: Window) -> Expr {
    super::call1(p, x)
}

/// A window over the spatial axes of a tensor, extended to all its axes.
pub fn pool_window(
    rank: usize,
    kind: WindowKind,
    size: &[usize],
    strides: &[usize],
    padding: &[(i64, i64)],
    channels_last: bool,
) -> Result<Window> {
    let spatial = rank.saturating_sub(2);
    ensure!(
        size.len() == spatial && strides.len() == spatial && padding.len() == spatial,
        Shape,
        "pool: got {spatial} spatial axes, but sizes {size:?}, strides {strides:?}, paddings {padding:?}"
    );
    let first = if channels_last { 1 } else { 2 };
    let at = |list: &[usize]| -> Axes {
        (0..rank)
            .map(|a| {
                a.checked_sub(first)
                    .and_then(|i| list.get(i))
                    .copied()
                    .unwrap_or(1)
            })
            .collect()
    };
    let pads = (0..rank).map(|a| {
        let (low, high) = a
            .checked_sub(first)
            .and_then(|i| padding.get(i))
            .copied()
            .unwrap_or((0, 0));
        (low.into(), high.into())
    });
    let ones: Axes = std::iter::repeat_n(1, rank).collect();
    Ok(Window {
        kind,
        size: at(size),
        strides: at(strides),
        padding: pads.collect(),
        base_dilation: ones.clone(),
        window_dilation: ones,
    })
}
