//! Transposed convolution and pooling.

use crate::dim::Dim;
use crate::error::Result;
use crate::infer::legal_axes;
use crate::op::{Composite, Conv, Op, Pads, Window, WindowKind};
use crate::ops::{self, Ops};
use crate::shape::{Axes, Shape};
use crate::tensor::Tensor;
use crate::{bail, ensure};

/// The transpose of the convolution that these parameters describe: its input gradient, with `x` as the cotangent.
///
/// `lhs_layout` is the layout of `x`, `out_layout` that of the result; `rhs_layout` names the filter's axes as the
/// forward convolution does, so its out-feature axis holds the features of `x`.
pub fn transpose(c: &Composite, x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let Composite::ConvTranspose {
        strides,
        padding,
        rhs_dilation,
        lhs_layout,
        rhs_layout,
        out_layout,
        feature_groups,
    } = c
    else {
        bail!(Internal, "conv_transpose: not a conv_transpose");
    };
    let (rank, groups) = (x.rank(), *feature_groups);
    ensure!(
        rank >= 2 && w.rank() == rank,
        Shape,
        "conv_transpose: {} and {} differ in rank",
        x.spec(),
        w.spec()
    );
    let spatial = rank - 2;
    for layout in [lhs_layout, rhs_layout, out_layout] {
        legal_axes("conv_transpose", layout, rank)?;
        ensure!(
            layout.len() == rank,
            Shape,
            "conv_transpose: expected a layout of {rank} axes, got {layout:?}"
        );
    }
    ensure!(
        strides.len() == spatial && padding.len() == spatial && rhs_dilation.len() == spatial,
        Shape,
        "conv_transpose: {spatial} spatial axes, strides {strides:?}, padding {padding:?}, dilations {rhs_dilation:?}"
    );
    let (w, layout) = swap_features(w, rhs_layout, groups)?;
    let pads: Pads = (0..spatial)
        .map(|i| {
            let span =
                (w.shape().dims()[layout[i + 2]] - Dim::number(1)) * Dim::from(rhs_dilation[i]);
            (span - padding[i].0, span - padding[i].1)
        })
        .collect();
    let flipped = ops::flip(
        &w,
        layout[2..].iter().map(|&a| a as i64).collect::<Vec<_>>(),
    )
    .done()?;
    let p = Conv {
        strides: std::iter::repeat_n(1, spatial).collect(),
        padding: pads,
        lhs_dilation: strides.clone(),
        rhs_dilation: rhs_dilation.clone(),
        lhs_layout: lhs_layout.clone(),
        rhs_layout: layout,
        out_layout: out_layout.clone(),
        feature_groups: groups,
        batch_groups: 1,
    };
    ops::conv_general(x, &flipped, p).done()
}

/// Exchanges in and out features of a filter within each group.
pub(crate) fn swap_features(w: &Tensor, layout: &Axes, groups: usize) -> Result<(Tensor, Axes)> {
    let swapped: Axes = [layout[1], layout[0]]
        .into_iter()
        .chain(layout[2..].iter().copied())
        .collect();
    if groups == 1 {
        return Ok((w.clone(), swapped));
    }
    // [g·o, i, …] → [g, o, i, …] → [o, g·i, …], which reads as [g·i, o, …] under the swapped layout.
    let (out, inner) = (layout[0], layout[1]);
    let filters = w.shape().dims()[out];
    let per_group = filters.floor_div(Dim::from(groups))?;
    let wide = w.shape().with(out, groups).insert(out + 1, per_group);
    let at = |a: usize| if a > out { a + 1 } else { a };
    let mut order: Vec<usize> = (0..wide.rank()).filter(|&a| a != out).collect();
    let place = order.iter().position(|&a| a == at(inner)).unwrap_or(0);
    order.insert(place, out);
    let moved = ops::reshape(w, &wide).permute(&Axes::from(&order[..]));
    let mut dims = w.shape().dims().to_vec();
    dims[out] = per_group;
    dims[inner] = w.shape().dims()[inner] * Dim::from(groups);
    Ok((ops::reshape(moved, Shape::from_dims(dims)).done()?, swapped))
}

/// The maximum or the mean of each window.
pub fn pool(c: &Composite, x: &Tensor) -> Result<Tensor> {
    let (kind, size, strides, padding, dilation) = match c {
        Composite::MaxPool {
            size,
            strides,
            padding,
            dilation,
        } => (WindowKind::Max, size, strides, padding, dilation),
        Composite::AvgPool {
            size,
            strides,
            padding,
            dilation,
            ..
        } => (WindowKind::Sum, size, strides, padding, dilation),
        other => bail!(Internal, "{}: not a pooling op", other.name()),
    };
    let window = Window {
        kind,
        size: size.clone(),
        strides: strides.clone(),
        padding: padding.clone(),
        base_dilation: std::iter::repeat_n(1, x.rank()).collect(),
        window_dilation: dilation.clone(),
    };
    let op = Op::from(window);
    let reduced = ops::call(op.clone(), &[x]);
    let Composite::AvgPool { count_padding, .. } = c else {
        return reduced.done();
    };
    if *count_padding {
        // As a float: a window may be larger than any number of elements.
        let count: f64 = size.iter().map(|&n| n as f64).product();
        return (reduced / count).cast(x.dtype()).done();
    }
    let counts = ops::call(op, &[&ops::ones_like(x).done()?]);
    (reduced / counts).done()
}
