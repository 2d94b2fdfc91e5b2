//! Convolutions and transposed convolutions in one, two and three dimensions.
//!
//! The filter layout does not depend on the data layout: it is `[spatial…, in / groups, out]`, or `[spatial…, in, out
//! / groups]` for transposed convolutions, unless `filter_channels_first` is set.

use super::{common, data_format};
use clematis_core::expr::{Expr, IntoExpr};
use clematis_core::op::{Conv, Pads};
use clematis_core::ops::{self, Padding};
use clematis_core::{Axes, Composite, Dim, Result, Shape, Tensor, bail, ensure};

/// Configuration of a convolution.
#[derive(Clone, Debug)]
pub struct ConvConfig {
    /// The name of the function in error messages.
    pub op: &'static str,
    /// One per spatial axis.
    pub strides: Axes,
    /// Padding of the spatial axes.
    pub padding: Padding,
    /// Dilation of the filter, one per spatial axis.
    pub dilations: Axes,
    /// Dilation of the input, one per spatial axis.
    pub x_dilations: Axes,
    /// Number of channel groups.
    pub groups: usize,
    /// Whether the channels of input and result are axis 1 instead of the last.
    pub channels_first: bool,
    /// Whether the channels of the filter are its first axes instead of its last.
    pub filter_channels_first: bool,
}

impl ConvConfig {
    /// Stride 1, no padding, no dilation, one group, channels last.
    pub fn new(op: &'static str, spatial: usize) -> Self {
        let ones: Axes = std::iter::repeat_n(1, spatial).collect();
        ConvConfig {
            op,
            strides: ones.clone(),
            padding: Padding::Valid,
            dilations: ones.clone(),
            x_dilations: ones,
            groups: 1,
            channels_first: false,
            filter_channels_first: false,
        }
    }

    fn spatial(&self) -> usize {
        self.strides.len()
    }

    /// The positions of batch, channels and spatial axes in the data.
    fn data(&self) -> Axes {
        let rank = self.spatial() + 2;
        if self.channels_first {
            return Axes::all(rank);
        }
        [0, rank - 1].into_iter().chain(1..rank - 1).collect()
    }

    /// The positions of the filter's axes: output channels, input channels, spatial axes.
    fn filter(&self, transposed: bool) -> Axes {
        let rank = self.spatial() + 2;
        if self.filter_channels_first {
            return Axes::all(rank);
        }
        let (first, second) = if transposed {
            (rank - 2, rank - 1)
        } else {
            (rank - 1, rank - 2)
        };
        [first, second].into_iter().chain(0..rank - 2).collect()
    }

    fn check(&self, x: &Tensor, w: &Tensor) -> Result<()> {
        let (op, spatial) = (self.op, self.spatial());
        for (what, t) in [("input", x), ("filter", w)] {
            ensure!(
                t.rank() == spatial + 2,
                Shape,
                "{op}: the {what} {} has {} axes, not {}",
                t.spec(),
                t.rank(),
                spatial + 2
            );
        }
        for (what, list) in [
            ("strides", &self.strides),
            ("dilations", &self.dilations),
            ("x_dilations", &self.x_dilations),
        ] {
            data_format::counts(op, what, list, spatial)?;
        }
        ensure!(self.groups > 0, Value, "{op}: feature_group_count 0");
        Ok(())
    }

    fn biased(&self, y: Expr, bias: Option<&Tensor>, channels: Dim) -> Result<Tensor> {
        let Some(bias) = bias else {
            return y.done();
        };
        ensure!(
            bias.rank() == 1 && bias.shape().dims()[0] == channels,
            Shape,
            "{}: the bias {} does not match {channels} channels",
            self.op,
            bias.spec()
        );
        if !self.channels_first {
            return (y + bias).done();
        }
        let ones = std::iter::repeat_n(Dim::number(1), self.spatial());
        let along = Shape::from_dims([channels].into_iter().chain(ones));
        (y + ops::reshape(bias, along)).done()
    }
}

/// A size after dilation.
fn dilated(size: Dim, dilation: usize) -> Dim {
    if dilation == 1 || size == 0usize {
        return size;
    }
    (size - Dim::number(1)) * Dim::from(dilation) + Dim::number(1)
}

/// Convolution (cross-correlation: the filter is not flipped).
pub fn conv(
    x: impl IntoExpr,
    filters: impl IntoExpr,
    bias: Option<&Tensor>,
    p: &ConvConfig,
) -> Expr {
    x.into_expr()
        .then(|x| filters.into_expr().then(|w| forward(&x, &w, bias, p)))
}

fn forward(x: &Tensor, w: &Tensor, bias: Option<&Tensor>, p: &ConvConfig) -> Result<Tensor> {
    p.check(x, w)?;
    let (data, filter) = (p.data(), p.filter(false));
    let (xs, ws) = (x.shape().dims(), w.shape().dims());
    let (features, inner, channels) = (xs[data[1]], ws[filter[1]], ws[filter[0]]);
    let groups = Dim::from(p.groups);
    ensure!(
        inner * groups == features,
        Shape,
        "{}: the filter {} expects {inner} channels in each of {groups} groups, the input {} has {features}",
        p.op,
        w.spec(),
        x.spec()
    );
    ensure!(
        channels.rem(groups)? == 0usize,
        Shape,
        "{}: {channels} output channels are not divisible into {groups} groups",
        p.op
    );
    let mut padding = Pads::new();
    for i in 0..p.spatial() {
        let size = dilated(xs[data[i + 2]], p.x_dilations[i]);
        let span = dilated(ws[filter[i + 2]], p.dilations[i]);
        let (low, high) = match &p.padding {
            Padding::Valid => (Dim::number(0), Dim::number(0)),
            Padding::Same => ops::same_padding(size, span, p.strides[i])?,
            Padding::Each(pads) => match pads.get(i) {
                Some(&(low, high)) => (low.into(), high.into()),
                None => bail!(
                    Shape,
                    "{}: got {} paddings for {} spatial axes",
                    p.op,
                    pads.len(),
                    p.spatial()
                ),
            },
        };
        data_format::places(p.op, i, size, low, high)?;
        ensure!(
            (size + low + high - span).value().is_none_or(|v| v >= 0),
            Shape,
            "{}: a filter of size {span} exceeds the size {size} of spatial axis {i}, padded by {low} and {high}",
            p.op
        );
        padding.push((low, high));
    }
    let y = ops::conv_general(
        x,
        w,
        Conv {
            strides: p.strides.clone(),
            padding,
            lhs_dilation: p.x_dilations.clone(),
            rhs_dilation: p.dilations.clone(),
            lhs_layout: data.clone(),
            rhs_layout: filter,
            out_layout: data,
            feature_groups: p.groups,
            batch_groups: 1,
        },
    );
    p.biased(y, bias, channels)
}

/// Transposed convolution: the input gradient of a convolution.
///
/// `output` gives the result's sizes where several are possible: the spatial sizes, or those of all axes with
/// channels last.
pub fn conv_transpose(
    x: impl IntoExpr,
    filters: impl IntoExpr,
    bias: Option<&Tensor>,
    output: Option<&[i64]>,
    p: &ConvConfig,
) -> Expr {
    x.into_expr().then(|x| {
        filters
            .into_expr()
            .then(|w| backward(&x, &w, bias, output, p))
    })
}

fn backward(
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    output: Option<&[i64]>,
    p: &ConvConfig,
) -> Result<Tensor> {
    p.check(x, w)?;
    ensure!(
        p.x_dilations.iter().all(|&n| n == 1),
        Value,
        "{}: expected x_dilations of 1 for a transposed convolution, got {:?}",
        p.op,
        p.x_dilations
    );
    let (data, filter) = (p.data(), p.filter(true));
    let (xs, ws) = (x.shape().dims(), w.shape().dims());
    let (features, groups) = (xs[data[1]], Dim::from(p.groups));
    ensure!(
        ws[filter[0]] == features,
        Shape,
        "{}: the filter {} expects {} channels, the input {} has {features}",
        p.op,
        w.spec(),
        ws[filter[0]],
        x.spec()
    );
    ensure!(
        features.rem(groups)? == 0usize,
        Shape,
        "{}: {features} channels are not divisible into {groups} groups",
        p.op
    );
    let channels = ws[filter[1]] * groups;
    let asked = output
        .map(|sizes| asked(p, sizes, xs[0], channels))
        .transpose()?;
    let mut padding = Pads::new();
    for i in 0..p.spatial() {
        let (size, stride) = (xs[data[i + 2]], Dim::from(p.strides[i]));
        let span = dilated(ws[filter[i + 2]], p.dilations[i]);
        let same = match p.padding {
            Padding::Same => true,
            Padding::Valid => false,
            Padding::Each(_) => bail!(
                Value,
                "{}: expected padding \"SAME\" or \"VALID\" for a transposed convolution, got numbers",
                p.op
            ),
        };
        let usual = match same {
            true => size * stride,
            false => size * stride + (span - stride).max(Dim::number(0)),
        };
        let length = match asked {
            Some(sizes) => Dim::from(sizes[i % sizes.len()]),
            None => usual,
        };
        ensure!(
            length.value().is_none_or(|n| n > 0) && size != 0usize,
            Shape,
            "{}: spatial axis {i} of {} would have size {length}",
            p.op,
            x.spec()
        );
        data_format::places(p.op, i, length, Dim::number(0), Dim::number(0))?;
        // The convolution with this padding and stride must map the result's size to the input's.
        let back = match same {
            true => length.ceil_div(stride)?,
            false => (length - span).floor_div(stride)? + Dim::number(1),
        };
        ensure!(
            length == usual || back == size,
            Shape,
            "{}: output_shape {length} on spatial axis {i} is impossible: a convolution of stride {stride} maps it to {back}, not {size}; the default is {usual}",
            p.op
        );
        let low = match same {
            true => ops::same_padding(length, span, p.strides[i])?.0,
            false => Dim::number(0),
        };
        let high = (size - Dim::number(1)) * stride + span - low - length;
        padding.push((low, high));
    }
    let dtype = common(&[x, w]);
    let op = Composite::ConvTranspose {
        strides: p.strides.clone(),
        padding,
        rhs_dilation: p.dilations.clone(),
        lhs_layout: data.clone(),
        rhs_layout: filter,
        out_layout: data,
        feature_groups: p.groups,
    };
    let (x, w) = (ops::cast(x, dtype).done()?, ops::cast(w, dtype).done()?);
    p.biased(ops::call(op, &[&x, &w]), bias, channels)
}

/// The spatial part of an `output_shape`; a single size applies to all axes.
fn asked<'a>(p: &ConvConfig, sizes: &'a [i64], batch: Dim, channels: Dim) -> Result<&'a [i64]> {
    let spatial = p.spatial();
    if sizes.len() == spatial + 2 {
        let ends = (sizes[0], sizes[spatial + 1]);
        ensure!(
            Dim::from(ends.0) == batch && Dim::from(ends.1) == channels,
            Shape,
            "{}: output_shape {sizes:?} does not match a batch of {batch} and {channels} channels",
            p.op
        );
        return Ok(&sizes[1..=spatial]);
    }
    ensure!(
        sizes.len() == spatial || sizes.len() == 1,
        Shape,
        "{}: expected an output_shape of {spatial} or {} sizes, got {sizes:?}",
        p.op,
        spatial + 2
    );
    Ok(sizes)
}

/// Depthwise convolution; the filter is `[height, width, channels]`, or has a last axis of 1.
pub fn depthwise_conv2d(x: impl IntoExpr, filters: impl IntoExpr, p: &ConvConfig) -> Expr {
    x.into_expr().then(|x| {
        filters.into_expr().then(|w| -> Result<Tensor> {
            let op = p.op;
            ensure!(
                x.rank() == 4,
                Shape,
                "{op}: expected an input of 4 axes, got {}, which has {}",
                x.spec(),
                x.rank()
            );
            let axis = if p.channels_first { 1 } else { 3 };
            let channels = x.shape().known_size(axis, op)?;
            let ws = w.shape().dims();
            ensure!(
                w.rank() == 3 || (w.rank() == 4 && ws[3] == 1usize),
                Shape,
                "{op}: expected a filter [height, width, channels], got {}",
                w.spec()
            );
            ensure!(
                ws[2] == channels,
                Shape,
                "{op}: the filter {} has {} channels, the input {} has {channels}",
                w.spec(),
                ws[2],
                x.spec()
            );
            let shape = Shape::from_dims([ws[0], ws[1], Dim::number(1), ws[2]]);
            let w = ops::reshape(&w, shape).done()?;
            let mut p = p.clone();
            // `groups` must be positive even if there are no channels; the result is empty.
            p.groups = channels.max(1);
            if channels == 0 {
                let empty = Shape::from_dims([ws[0], ws[1], Dim::number(0), Dim::number(0)]);
                return forward(&x, &ops::reshape(&w, empty).done()?, None, &p);
            }
            forward(&x, &w, None, &p)
        })
    })
}
