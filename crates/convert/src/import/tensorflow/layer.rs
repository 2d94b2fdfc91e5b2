//! Matmul, convolution, pooling, softmax, random draws.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{NAMED, e, sizes, t};
use clematis_core::ops::{ConvOptions, Padding};
use clematis_core::shape::Axes;
use clematis_core::{DType, Result, Shape, Tensor, bail, ops, random};

pub const RULES: &[(&str, Rule)] = &[
    ("MatMul", |_, a| product(a, "transpose_a", "transpose_b")),
    ("BatchMatMulV2", |_, a| product(a, "adj_x", "adj_y")),
    ("BatchMatMul", |_, a| product(a, "adj_x", "adj_y")),
    ("Einsum", |_, a| {
        let xs = (0..a.args.len())
            .map(|i| t(a, i))
            .collect::<Result<Vec<_>>>()?;
        Ok(ops::einsum(
            a.text(NAMED, "equation", "")?,
            &xs.iter().collect::<Vec<_>>(),
        )
        .done()?
        .into())
    }),
    ("BiasAdd", bias_add),
    ("Conv2D", conv),
    ("Conv3D", conv),
    ("DepthwiseConv2dNative", depthwise),
    ("Conv2DBackpropInput", transposed),
    ("Conv3DBackpropInputV2", transposed),
    ("MaxPool", |_, a| pooled(a, true)),
    ("MaxPool3D", |_, a| pooled(a, true)),
    ("AvgPool", |_, a| pooled(a, false)),
    ("AvgPool3D", |_, a| pooled(a, false)),
    ("Softmax", |_, a| {
        Ok(ops::softmax(e(a, 0), -1).done()?.into())
    }),
    ("LogSoftmax", |_, a| {
        Ok(ops::log_softmax(e(a, 0), -1).done()?.into())
    }),
    ("StatelessRandomGetKeyCounter", |_, _| {
        Ok(Slot::List(vec![Slot::Nothing, Slot::Nothing]))
    }),
    ("StatelessRandomGetAlg", |_, _| Ok(Slot::Nothing)),
    ("StatelessRandomUniformV2", |w, a| uniform(w, a, 0)),
    ("StatelessRandomUniform", |w, a| uniform(w, a, 0)),
    ("RandomUniform", |w, a| uniform(w, a, 0)),
    ("StatelessRandomNormalV2", |w, a| normal(w, a, 0)),
    ("StatelessRandomNormal", |w, a| normal(w, a, 0)),
    ("RandomStandardNormal", |w, a| normal(w, a, 0)),
    ("StatelessTruncatedNormalV2", truncated),
    ("TruncatedNormal", truncated),
    ("StatelessRandomUniformIntV2", |w, a| integers(w, a, 4)),
    ("StatelessRandomUniformInt", |w, a| integers(w, a, 2)),
    ("RandomUniformInt", |w, a| integers(w, a, 1)),
    ("ResizeBilinear", |_, a| {
        resized(a, clematis_core::op::composite::ResizeMethod::Linear)
    }),
    ("ResizeNearestNeighbor", |_, a| {
        resized(a, clematis_core::op::composite::ResizeMethod::Nearest)
    }),
];

fn drawn(a: &Args<'_>, i: usize) -> Result<Shape> {
    match sizes(a, i) {
        Some(dims) => Ok(Shape::from_dims(dims)),
        None => bail!(
            Unsupported,
            "convert: a random draw whose shape depends on values"
        ),
    }
}

fn uniform(w: &mut Importer<'_>, a: &Args<'_>, i: usize) -> Result<Slot> {
    let recorded = a.recorded_spec(0)?.dtype;
    let x = random::uniform(&w.key(), drawn(a, i)?, 0.0, 1.0, recorded);
    Ok(x.done()?.into())
}

fn normal(w: &mut Importer<'_>, a: &Args<'_>, i: usize) -> Result<Slot> {
    let recorded = a.recorded_spec(0)?.dtype;
    let x = random::normal(&w.key(), drawn(a, i)?, 0.0, 1.0, recorded);
    Ok(x.done()?.into())
}

/// Truncated normal: the inverse of the distribution function at uniform draws between its values at ±2.
fn truncated(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let recorded = a.recorded_spec(0)?.dtype;
    // erf(2 / sqrt(2)) = erf(sqrt(2)).
    const END: f64 = 0.954_499_736_103_641_6;
    let places = random::uniform(&w.key(), drawn(a, 0)?, -END, END, recorded);
    let x = ops::erfinv(places) * std::f64::consts::SQRT_2;
    Ok(ops::clamp(x, -2.0, 2.0).done()?.into())
}

/// Integers in [minval, maxval).
fn integers(w: &mut Importer<'_>, a: &Args<'_>, i: usize) -> Result<Slot> {
    let recorded = a.recorded_spec(0)?.dtype;
    let places = random::uniform(&w.key(), drawn(a, 0)?, 0.0, 1.0, DType::F64).done()?;
    let (low, high) = (
        ops::cast(t(a, i)?, DType::F64).done()?,
        ops::cast(t(a, i + 1)?, DType::F64).done()?,
    );
    let x = ops::floor(places * (&high - &low) + &low);
    Ok(ops::cast(ops::minimum(x, high - 1.0), recorded)
        .done()?
        .into())
}

fn product(a: &Args<'_>, x_word: &str, y_word: &str) -> Result<Slot> {
    let side = |i: usize, word: &str| -> Result<Tensor> {
        let x = t(a, i)?;
        if a.flag(NAMED, word, false)? {
            ops::matrix_transpose(x).done()
        } else {
            Ok(x)
        }
    };
    Ok(ops::matmul(side(0, x_word)?, side(1, y_word)?)
        .done()?
        .into())
}

/// Whether the data format is NCHW.
fn second(a: &Args<'_>) -> Result<bool> {
    Ok(a.text(NAMED, "data_format", "NHWC")?.starts_with("NC"))
}

fn bias_add(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, b) = (t(a, 0)?, t(a, 1)?);
    if !second(a)? {
        return Ok((x + b).done()?.into());
    }
    let mut shape = vec![1i64; x.rank() - 1];
    shape[0] = -1;
    Ok((x + ops::reshape(b, shape)).done()?.into())
}

/// The spatial axes.
fn spatial(a: &Args<'_>, name: &str, rank: usize) -> Result<Vec<usize>> {
    let all = a.ints(NAMED, name)?;
    let from = if second(a)? { 2 } else { 1 };
    let one = |i: usize| all.get(from + i).copied().unwrap_or(1) as usize;
    Ok((0..rank - 2).map(one).collect())
}

fn padding(a: &Args<'_>, rank: usize) -> Result<Padding> {
    Ok(match a.text(NAMED, "padding", "VALID")? {
        "SAME" => Padding::Same,
        "VALID" => Padding::Valid,
        "EXPLICIT" => {
            let all = a.ints(NAMED, "explicit_paddings")?;
            let from = if second(a)? { 2 } else { 1 };
            let pair = |i: usize| (all[2 * (from + i)], all[2 * (from + i) + 1]);
            Padding::Each((0..rank - 2).map(pair).collect())
        }
        other => bail!(Unsupported, "convert: unsupported padding `{other}`"),
    })
}

fn options(a: &Args<'_>, rank: usize, groups: usize) -> Result<ConvOptions> {
    let mut options = ConvOptions::new(rank - 2);
    options.strides = spatial(a, "strides", rank)?;
    options.dilation = spatial(a, "dilations", rank)?;
    options.padding = padding(a, rank)?;
    options.groups = groups;
    options.channels_last = true;
    Ok(options)
}

/// The operand in NHWC layout, and whether it was in NCHW.
fn channels_last(a: &Args<'_>, x: Tensor) -> Result<(Tensor, bool)> {
    if !second(a)? {
        return Ok((x, false));
    }
    Ok((ops::move_axis(x, 1, -1).done()?, true))
}

fn back(y: clematis_core::expr::Expr, was_second: bool) -> Result<Slot> {
    Ok(if was_second {
        ops::move_axis(y, -1, 1)
    } else {
        y
    }
    .done()?
    .into())
}

fn size_of(x: &Tensor, axis: usize) -> usize {
    x.shape()
        .dims()
        .get(axis)
        .and_then(|d| d.value())
        .unwrap_or(1) as usize
}

fn conv(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, was_second) = channels_last(a, t(a, 0)?)?;
    let w = t(a, 1)?;
    let groups = size_of(&x, x.rank() - 1) / size_of(&w, w.rank() - 2).max(1);
    back(
        ops::conv(&x, w, &options(a, x.rank(), groups.max(1))?),
        was_second,
    )
}

fn depthwise(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, was_second) = channels_last(a, t(a, 0)?)?;
    let w = t(a, 1)?;
    let (channels, times) = (size_of(&w, 2), size_of(&w, 3));
    let sizes = [size_of(&w, 0), size_of(&w, 1), 1, channels * times];
    let w = ops::reshape(w, Shape::from_sizes(&sizes));
    back(
        ops::conv(&x, w, &options(a, x.rank(), channels)?),
        was_second,
    )
}

/// A transposed convolution: operands are the output shape, the weight and the input.
fn transposed(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    use clematis_nn::functional::conv::{ConvConfig, conv_transpose};
    let (x, was_second) = channels_last(a, t(a, 2)?)?;
    // [height, width, out, in] becomes [height, width, in, out].
    let w = ops::swap_axes(t(a, 1)?, -2, -1).done()?;
    let Some(dims) = sizes(a, 0) else {
        bail!(
            Unsupported,
            "convert: a transposed convolution whose output shape depends on values"
        );
    };
    let from = if was_second { 2 } else { 1 };
    let spread = x.rank() - 2;
    let wanted: Option<Vec<i64>> = dims[from..from + spread]
        .iter()
        .map(|d| d.value())
        .collect();
    let mut sliding = ConvConfig::new("conv_transpose", spread);
    sliding.strides = Axes::new(&spatial(a, "strides", x.rank())?);
    sliding.dilations = Axes::new(&spatial(a, "dilations", x.rank())?);
    sliding.padding = padding(a, x.rank())?;
    back(
        conv_transpose(&x, w, None, wanted.as_deref(), &sliding),
        was_second,
    )
}

fn pooled(a: &Args<'_>, largest: bool) -> Result<Slot> {
    let x = t(a, 0)?;
    let (size, strides) = (
        spatial(a, "ksize", x.rank())?,
        spatial(a, "strides", x.rank())?,
    );
    let padding = padding(a, x.rank())?;
    let last = !second(a)?;
    let y = if largest {
        ops::max_pool(x, &size, &strides, &padding, last)
    } else {
        ops::avg_pool(x, &size, &strides, &padding, last, false)
    };
    Ok(y.done()?.into())
}

fn resized(a: &Args<'_>, method: clematis_core::op::composite::ResizeMethod) -> Result<Slot> {
    let x = t(a, 0)?;
    let corners = a.flag(NAMED, "align_corners", false)?;
    if !corners && !a.flag(NAMED, "half_pixel_centers", false)? {
        bail!(
            Unsupported,
            "convert: `{}` without half_pixel_centers",
            a.node.op
        );
    }
    let Some(two) = sizes(a, 1) else {
        bail!(
            Unsupported,
            "convert: `{}`: a size that depends on values",
            a.node.op
        );
    };
    let mut dims = x.shape().dims().to_vec();
    dims[1..3].copy_from_slice(&two[..2]);
    let y = ops::resize(&x, Shape::from_dims(dims), method, corners, false);
    Ok(ops::cast(
        y,
        if a.node.op == "ResizeBilinear" {
            DType::F32
        } else {
            x.dtype()
        },
    )
    .done()?
    .into())
}
