//! Convolutions and their transposes over one, two or three spatial axes.
//!
//! Filters do not follow the layout of the data: they are `[spatial…, in / groups, out]`, transposed ones
//! `[spatial…, in, out / groups]`, unless they are asked for with the channels first.

use super::{common, words};
use clematis_core::expr::{Expr, IntoExpr};
use clematis_core::op::{Conv, Pads};
use clematis_core::ops::{self, Padding};
use clematis_core::{Axes, Composite, Dim, Result, Shape, Tensor, bail, ensure};

/// How a convolution slides.
#[derive(Clone, Debug)]
pub struct Sliding {
    /// The name of the function, for errors.
    pub op: &'static str,
    /// One per spatial axis.
    pub strides: Axes,
    /// At the ends of spatial axes.
    pub padding: Padding,
    /// Gaps in the filter, one per spatial axis.
    pub dilations: Axes,
    /// Gaps in the input, one per spatial axis.
    pub x_dilations: Axes,
    /// Channels in that many groups.
    pub groups: usize,
    /// Whether the channels of input and result are the second axis rather than the last.
    pub channels_first: bool,
    /// Whether those of the filter are its first axes rather than its last.
    pub filter_channels_first: bool,
}

impl Sliding {
    /// Stride 1, no padding, no gaps, one group, channels last.
    pub fn new(op: &'static str, spatial: usize) -> Self {
        let ones: Axes = std::iter::repeat_n(1, spatial).collect();
        Sliding {
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

    /// Where batch, channels and spatial axes of the data stand.
    fn data(&self) -> Axes {
        let rank = self.spatial() + 2;
        if self.channels_first {
            return Axes::all(rank);
        }
        [0, rank - 1].into_iter().chain(1..rank - 1).collect()
    }

    /// Where the filter's axes stand: first the channels of the convolution's result, then those of its input.
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
            words::counts(op, what, list, spatial)?;
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
            "{}: a bias {} for {channels} channels",
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

/// A size with gaps between its places.
fn dilated(size: Dim, dilation: usize) -> Dim {
    if dilation == 1 || size == 0usize {
        return size;
    }
    (size - Dim::number(1)) * Dim::from(dilation) + Dim::number(1)
}

/// A convolution; the filter is not turned around.
pub fn conv(x: impl IntoExpr, filters: impl IntoExpr, bias: Option<&Tensor>, p: &Sliding) -> Expr {
    x.into_expr()
        .then(|x| filters.into_expr().then(|w| forward(&x, &w, bias, p)))
}

fn forward(x: &Tensor, w: &Tensor, bias: Option<&Tensor>, p: &Sliding) -> Result<Tensor> {
    p.check(x, w)?;
    let (data, filter) = (p.data(), p.filter(false));
    let (xs, ws) = (x.shape().dims(), w.shape().dims());
    let (features, inner, channels) = (xs[data[1]], ws[filter[1]], ws[filter[0]]);
    let groups = Dim::from(p.groups);
    ensure!(
        inner * groups == features,
        Shape,
        "{}: the filter {} takes {inner} channels in each of {groups} groups, the input {} has {features}",
        p.op,
        w.spec(),
        x.spec()
    );
    ensure!(
        channels.rem(groups)? == 0usize,
        Shape,
        "{}: {channels} channels of the result do not divide into {groups} groups",
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
                    "{}: {} paddings for {} spatial axes",
                    p.op,
                    pads.len(),
                    p.spatial()
                ),
            },
        };
        words::places(p.op, i, size, low, high)?;
        ensure!(
            (size + low + high - span).value().is_none_or(|v| v >= 0),
            Shape,
            "{}: a filter over {span} does not fit the {size} places of spatial axis {i}, padded by {low} and {high}",
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

/// The transpose of a convolution: what its derivative does to a cotangent.
///
/// `output` says the sizes of the result where several would do: those of its spatial axes, or of all axes with the
/// channels last.
pub fn conv_transpose(
    x: impl IntoExpr,
    filters: impl IntoExpr,
    bias: Option<&Tensor>,
    output: Option<&[i64]>,
    p: &Sliding,
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
    p: &Sliding,
) -> Result<Tensor> {
    p.check(x, w)?;
    ensure!(
        p.x_dilations.iter().all(|&n| n == 1),
        Value,
        "{}: x_dilations {:?} of a transposed convolution are not all 1",
        p.op,
        p.x_dilations
    );
    let (data, filter) = (p.data(), p.filter(true));
    let (xs, ws) = (x.shape().dims(), w.shape().dims());
    let (features, groups) = (xs[data[1]], Dim::from(p.groups));
    ensure!(
        ws[filter[0]] == features,
        Shape,
        "{}: the filter {} takes {} channels, the input {} has {features}",
        p.op,
        w.spec(),
        ws[filter[0]],
        x.spec()
    );
    ensure!(
        features.rem(groups)? == 0usize,
        Shape,
        "{}: {features} channels do not divide into {groups} groups",
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
                "{}: the padding of a transposed convolution is \"SAME\" or \"VALID\", not numbers",
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
            "{}: spatial axis {i} of {} gives {length} places",
            p.op,
            x.spec()
        );
        words::places(p.op, i, length, Dim::number(0), Dim::number(0))?;
        // The convolution with this padding and stride must lead from the result back to the input.
        let back = match same {
            true => length.ceil_div(stride)?,
            false => (length - span).floor_div(stride)? + Dim::number(1),
        };
        ensure!(
            length == usual || back == size,
            Shape,
            "{}: an output_shape of {length} on spatial axis {i}, where a convolution of stride {stride} would give {back}, not {size}; the usual one is {usual}",
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

/// The spatial part of an `output_shape`; one size stands for all.
fn asked<'a>(p: &Sliding, sizes: &'a [i64], batch: Dim, channels: Dim) -> Result<&'a [i64]> {
    let spatial = p.spatial();
    if sizes.len() == spatial + 2 {
        let ends = (sizes[0], sizes[spatial + 1]);
        ensure!(
            Dim::from(ends.0) == batch && Dim::from(ends.1) == channels,
            Shape,
            "{}: output_shape {sizes:?} for a batch of {batch} and {channels} channels",
            p.op
        );
        return Ok(&sizes[1..=spatial]);
    }
    ensure!(
        sizes.len() == spatial || sizes.len() == 1,
        Shape,
        "{}: output_shape {sizes:?} has neither {spatial} nor {} sizes",
        p.op,
        spatial + 2
    );
    Ok(sizes)
}

/// Each channel with a filter of its own: `[height, width, channels]`, or with a last axis of 1.
pub fn depthwise_conv2d(x: impl IntoExpr, filters: impl IntoExpr, p: &Sliding) -> Expr {
    x.into_expr().then(|x| {
        filters.into_expr().then(|w| -> Result<Tensor> {
            let op = p.op;
            ensure!(
                x.rank() == 4,
                Shape,
                "{op}: the input {} has {} axes, not 4",
                x.spec(),
                x.rank()
            );
            let axis = if p.channels_first { 1 } else { 3 };
            let channels = x.shape().known_size(axis, op)?;
            let ws = w.shape().dims();
            ensure!(
                w.rank() == 3 || (w.rank() == 4 && ws[3] == 1usize),
                Shape,
                "{op}: a filter is [height, width, channels], not {}",
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
            // No channels, no groups: one, of which nothing comes.
            p.groups = channels.max(1);
            if channels == 0 {
                let empty = Shape::from_dims([ws[0], ws[1], Dim::number(0), Dim::number(0)]);
                return forward(&x, &ops::reshape(&w, empty).done()?, None, &p);
            }
            forward(&x, &w, None, &p)
        })
    })
}
