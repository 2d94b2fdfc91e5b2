//! Convolutions, transposed convolutions and Col2Im.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{NAMED, ints, maybe, out, recorded, t};
use clematis_core::op::{Conv, Pads};
use clematis_core::ops::same_padding;
use clematis_core::shape::Axes;
use clematis_core::{Composite, Dim, Result, Shape, Tensor, bail, dispatch, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("Conv", |_, a| {
        let (x, w) = (t(a, 0)?, t(a, 1)?);
        Ok(biased(conv(a, &x, &w)?, maybe(a, 2)?)?.into())
    }),
    ("ConvTranspose", transposed),
    ("Col2Im", col2im),
    ("CausalConvWithState", causal),
];

/// A list of non-negative integers, or `default` for each spatial axis.
pub fn each(a: &Args<'_>, name: &str, spatial: usize, default: usize) -> Result<Vec<usize>> {
    if !a.has(NAMED, name) {
        return Ok(vec![default; spatial]);
    }
    let given = a.ints(NAMED, name)?;
    let good: Option<Vec<usize>> = given
        .iter()
        .map(|&n| usize::try_from(n).ok().filter(|&n| n < 1 << 31))
        .collect();
    match good.filter(|xs| xs.len() == spatial) {
        Some(xs) => Ok(xs),
        None => bail!(
            Convert,
            "convert: `{}`: expected {spatial} spatial axes in {name}, got {given:?}",
            a.node.op
        ),
    }
}

/// Padding of the spatial axes, given or computed from `auto_pad`.
pub fn pads(a: &Args<'_>, sizes: &[Dim], spans: &[Dim], strides: &[usize]) -> Result<Pads> {
    let spatial = sizes.len();
    let word = a.text(NAMED, "auto_pad", "NOTSET")?;
    match word {
        "NOTSET" | "" => {
            let given = if a.has(NAMED, "pads") {
                a.ints(NAMED, "pads")?
            } else {
                vec![0; 2 * spatial]
            };
            if given.len() != 2 * spatial || given.iter().any(|n| n.unsigned_abs() >= 1 << 31) {
                bail!(
                    Convert,
                    "convert: `{}`: expected two pads for each of {spatial} spatial axes, got {given:?}",
                    a.node.op
                );
            }
            Ok((0..spatial)
                .map(|i| (Dim::number(given[i]), Dim::number(given[i + spatial])))
                .collect())
        }
        "VALID" => Ok(Pads::from_elem((Dim::from(0), Dim::from(0)), spatial)),
        "SAME_UPPER" | "SAME_LOWER" => {
            let one = |i: usize| {
                let (low, high) = same_padding(sizes[i], spans[i], strides[i])?;
                Ok(if word == "SAME_UPPER" {
                    (low, high)
                } else {
                    (high, low)
                })
            };
            (0..spatial).map(one).collect()
        }
        other => bail!(
            Convert,
            "convert: `{}`: unsupported auto_pad \"{other}\"",
            a.node.op
        ),
    }
}

fn spans(w: &Tensor, dilation: &[usize]) -> Vec<Dim> {
    let sizes = w.shape().dims()[2..].iter().zip(dilation);
    sizes
        .map(|(&n, &d)| (n - Dim::from(1)) * Dim::from(d) + Dim::from(1))
        .collect()
}

/// The convolution that the attributes describe.
pub fn conv(a: &Args<'_>, x: &Tensor, w: &Tensor) -> Result<Tensor> {
    let rank = x.rank();
    if rank < 3 || w.rank() != rank {
        bail!(
            Convert,
            "convert: `{}`: incompatible operands {} and {}",
            a.node.op,
            x.spec(),
            w.spec()
        );
    }
    let (x, w) = (&recorded(x.clone(), None)?, &recorded(w.clone(), None)?);
    let spatial = rank - 2;
    let strides = each(a, "strides", spatial, 1)?;
    let dilation = each(a, "dilations", spatial, 1)?;
    let p = Conv {
        padding: pads(a, &x.shape().dims()[2..], &spans(w, &dilation), &strides)?,
        strides: Axes::new(&strides),
        lhs_dilation: Axes::new(&vec![1; spatial]),
        rhs_dilation: Axes::new(&dilation),
        lhs_layout: Axes::all(rank),
        rhs_layout: Axes::all(rank),
        out_layout: Axes::all(rank),
        feature_groups: a.int(NAMED, "group", 1)?.max(1) as usize,
        batch_groups: 1,
    };
    ops::conv_general(x, w, p).done()
}

/// Adds a bias per channel.
pub fn biased(y: Tensor, bias: Option<Tensor>) -> Result<Tensor> {
    let Some(b) = bias else { return Ok(y) };
    let mut shape = vec![1i64; y.rank() - 1];
    shape[0] = -1;
    (y + ops::reshape(b, shape)).done()
}

fn transposed(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, w) = (recorded(t(a, 0)?, None)?, t(a, 1)?);
    let rank = x.rank();
    if rank < 3 || w.rank() != rank {
        bail!(
            Convert,
            "convert: `ConvTranspose`: incompatible operands {} and {}",
            x.spec(),
            w.spec()
        );
    }
    let spatial = rank - 2;
    let strides = each(a, "strides", spatial, 1)?;
    let dilation = each(a, "dilations", spatial, 1)?;
    let more = each(a, "output_padding", spatial, 0)?;
    let spans = spans(&w, &dilation);
    let word = a.text(NAMED, "auto_pad", "NOTSET")?;
    let same = word.starts_with("SAME");
    let given = a.ints(NAMED, "output_shape")?;
    let padding: Pads = if same || !given.is_empty() {
        let one = |i: usize| {
            let n = x.shape().dims()[2 + i];
            let (s, m) = (Dim::from(strides[i]), Dim::from(more[i]));
            let wish = if given.is_empty() {
                n * s
            } else {
                Dim::number(given[given.len() - spatial + i])
            };
            let total = (s * (n - Dim::from(1)) + m + spans[i] - wish).max(Dim::from(0));
            let half = total.floor_div(Dim::from(2))?;
            // With an output shape, the larger half of the padding is at the end, except for SAME_LOWER.
            let (low, high) = if word == "SAME_LOWER" || !same {
                (total - half, half)
            } else {
                (half, total - half)
            };
            // If the output shape is larger than the full result, zeros follow.
            let missing = (wish - (s * (n - Dim::from(1)) + m + spans[i])).max(Dim::from(0));
            Ok((low, high - m - missing))
        };
        if given.len() < spatial && !given.is_empty() {
            bail!(
                Convert,
                "convert: `ConvTranspose`: expected {spatial} spatial axes in output_shape, got {given:?}"
            );
        }
        (0..spatial).map(one).collect::<Result<_>>()?
    } else {
        let own = pads(a, &x.shape().dims()[2..], &spans, &strides)?;
        own.into_iter()
            .zip(&more)
            .map(|((low, high), &m)| (low, high - Dim::from(m)))
            .collect()
    };
    let plain = Axes::all(rank);
    let call = Composite::ConvTranspose {
        strides: Axes::new(&strides),
        padding,
        rhs_dilation: Axes::new(&dilation),
        lhs_layout: plain.clone(),
        rhs_layout: plain.clone(),
        out_layout: plain,
        feature_groups: a.int(NAMED, "group", 1)?.max(1) as usize,
    };
    let y = dispatch::apply_one(&call.into(), &[&x, &w])?;
    Ok(biased(y, maybe(a, 2)?)?.into())
}

/// Adds blocks up where they overlap: a transposed convolution with a weight of ones.
fn col2im(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = recorded(t(a, 0)?, None)?;
    let (image, block) = (ints(a, 1)?, ints(a, 2)?);
    let spatial = image.len();
    if block.len() != spatial
        || x.rank() != 3
        || image.iter().chain(&block).any(|&n| n <= 0 || n > 1 << 24)
    {
        bail!(
            Convert,
            "convert: `Col2Im`: incompatible operand {}, image {image:?} and block {block:?}",
            x.spec()
        );
    }
    let strides = each(a, "strides", spatial, 1)?;
    let dilation = each(a, "dilations", spatial, 1)?;
    let given = if a.has(NAMED, "pads") {
        a.ints(NAMED, "pads")?
    } else {
        vec![0; 2 * spatial]
    };
    if given.len() != 2 * spatial || given.iter().any(|n| n.unsigned_abs() >= 1 << 31) {
        return Err(a.bad("two pads for each axis"));
    }
    let size = block
        .iter()
        .try_fold(1i64, |n, &b| n.checked_mul(b))
        .filter(|&n| n < 1 << 12);
    let Some(size) = size else {
        return Err(a.bad("smaller blocks"));
    };
    let mut places = Vec::new();
    let mut padding = Pads::new();
    for i in 0..spatial {
        let span = dilation[i] as i64 * (block[i] - 1) + 1;
        let room = image[i] + given[i] + given[i + spatial] - span;
        if room < 0 || strides[i] == 0 {
            return Err(a.bad("blocks that fit into the image"));
        }
        let count = room / strides[i] as i64 + 1;
        // A remainder at the end that no block reaches is padding that the transposed convolution would not produce.
        let reached = (count - 1) * strides[i] as i64 + span;
        let missing = image[i] + given[i] + given[i + spatial] - reached;
        padding.push((
            Dim::number(given[i]),
            Dim::number(given[i + spatial] - missing),
        ));
        places.push(Dim::number(count));
    }
    let d = x.shape().dims();
    let channels = d[1].floor_div(Dim::number(size))?;
    let wide = [d[0] * channels, Dim::number(size)]
        .into_iter()
        .chain(places);
    let blocks = ops::reshape(&x, Shape::from_dims(wide)).done()?;
    // One filter per position in a block: a one there, zeros elsewhere.
    let eye = ops::eye(size as usize, size as usize, 0, x.dtype());
    let filter: Vec<i64> = [size, 1].into_iter().chain(block.iter().copied()).collect();
    let filter = ops::reshape(eye, filter).done()?;
    let plain = Axes::all(spatial + 2);
    let call = Composite::ConvTranspose {
        strides: Axes::new(&strides),
        padding,
        rhs_dilation: Axes::new(&dilation),
        lhs_layout: plain.clone(),
        rhs_layout: plain.clone(),
        out_layout: plain,
        feature_groups: 1,
    };
    let y = dispatch::apply_one(&call.into(), &[&blocks, &filter])?;
    let whole = [d[0], channels]
        .into_iter()
        .chain(image.iter().map(|&n| Dim::number(n)));
    out(ops::reshape(y, Shape::from_dims(whole)))
}

/// A causal depthwise convolution over time; the previous inputs are a state.
fn causal(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, w, b, past) = (t(a, 0)?, t(a, 1)?, maybe(a, 2)?, maybe(a, 3)?);
    let spatial = x.rank().saturating_sub(2);
    if spatial == 0 || w.rank() != x.rank() {
        bail!(
            Convert,
            "convert: `CausalConvWithState`: incompatible operands {} and {}",
            x.spec(),
            w.spec()
        );
    }
    let k = w.shape().known_size(w.rank() - 1, "causal_conv")? as i64;
    let whole = match past {
        Some(past) => ops::concat(&[past, x.clone()], -1).done()?,
        None => {
            let (mut low, high) = (vec![Dim::from(0); x.rank()], vec![Dim::from(0); x.rank()]);
            low[x.rank() - 1] = Dim::number(k - 1);
            ops::pad(
                &x,
                Tensor::scalar(0i64, x.dtype()),
                &low,
                &high,
                &vec![0; x.rank()],
            )
            .done()?
        }
    };
    let channels = x.shape().known_size(1, "causal_conv")?;
    let ones = Axes::new(&vec![1; spatial]);
    let p = Conv {
        strides: ones.clone(),
        padding: Pads::from_elem((Dim::from(0), Dim::from(0)), spatial),
        lhs_dilation: ones.clone(),
        rhs_dilation: ones,
        lhs_layout: Axes::all(x.rank()),
        rhs_layout: Axes::all(x.rank()),
        out_layout: Axes::all(x.rank()),
        feature_groups: channels,
        batch_groups: 1,
    };
    let mut y = biased(ops::conv_general(&whole, &w, p).done()?, b)?;
    match a.text(NAMED, "activation", "none")? {
        "silu" | "swish" => y = ops::silu(y).done()?,
        "none" | "" => {}
        other => bail!(
            Unsupported,
            "convert: `CausalConvWithState` with \"{other}\""
        ),
    }
    let size = whole.shape().dims()[whole.rank() - 1];
    let last = ops::slice_axis(&whole, -1, size - Dim::number(k - 1), size).done()?;
    Ok(super::several(a, vec![y.into(), last.into()]))
}
