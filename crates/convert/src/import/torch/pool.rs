//! Pooling.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use clematis_core::op::{Extreme, Pads, WindowGather};
use clematis_core::ops::Padding;
use clematis_core::shape::Axes;
use clematis_core::{Composite, DType, Dim, Result, Shape, Tensor, dispatch, ops};
use clematis_nn::functional::adaptive::{Pool, adaptive_pool};
use clematis_nn::functional::pool;

pub const RULES: &[(&str, Rule)] = &[
    ("max_pool1d", |w, a| first(max_pool(w, a)?)),
    ("max_pool2d", |w, a| first(max_pool(w, a)?)),
    ("max_pool3d", |w, a| first(max_pool(w, a)?)),
    ("max_pool1d_with_indices", max_pool),
    ("max_pool2d_with_indices", max_pool),
    ("max_pool3d_with_indices", max_pool),
    ("avg_pool1d", avg_pool),
    ("avg_pool2d", avg_pool),
    ("avg_pool3d", avg_pool),
    ("_adaptive_avg_pool2d", adaptive_avg_pool),
    ("_adaptive_avg_pool3d", adaptive_avg_pool),
    ("adaptive_avg_pool2d", adaptive_avg_pool),
    ("adaptive_avg_pool3d", adaptive_avg_pool),
    ("adaptive_avg_pool1d", adaptive_avg_pool),
    ("adaptive_max_pool1d", adaptive_max_pool),
    ("adaptive_max_pool2d", adaptive_max_pool),
    ("adaptive_max_pool3d", adaptive_max_pool),
];

fn first(out: Slot) -> Result<Slot> {
    match out {
        Slot::List(mut xs) => Ok(xs.swap_remove(0)),
        other => Ok(other),
    }
}

/// The number of spatial axes, from the op's name.
fn spatial_of(a: &Args<'_>) -> usize {
    [(1, "1d"), (2, "2d"), (3, "3d")]
        .into_iter()
        .find(|(_, word)| a.node.op.contains(word))
        .map_or(2, |(n, _)| n)
}

/// Size, strides and padding of a pool; strides default to the size.
fn window(a: &Args<'_>, spatial: usize) -> Result<(Vec<usize>, Vec<usize>, Vec<i64>)> {
    let each = |given: &[i64]| -> Vec<i64> {
        (0..spatial)
            .map(|i| given.get(i).or(given.last()).copied().unwrap_or(0))
            .collect()
    };
    let size = each(&a.ints(1, "kernel_size")?);
    let strides = a.ints(2, "stride")?;
    let strides = if strides.is_empty() {
        size.clone()
    } else {
        each(&strides)
    };
    let natural = |xs: Vec<i64>| xs.into_iter().map(|x| x as usize).collect();
    Ok((
        natural(size),
        natural(strides),
        each(&a.ints(3, "padding")?),
    ))
}

/// The padding before and after each axis, with more at the end for the last window of ceil_mode.
fn ceil_mode_padding(
    a: &Args<'_>,
    x: &Tensor,
    size: &[usize],
    strides: &[usize],
    pads: &[i64],
    dilation: &[i64],
) -> Result<Vec<(i64, i64)>> {
    let recorded = a.recorded_spec(0)?.shape;
    let first = x.rank() - size.len();
    let one = |i: usize| {
        let (own, out) = (
            x.shape().dims()[first + i].value(),
            recorded.dims()[first + i].value(),
        );
        let Some((own, out)) = own.zip(out) else {
            return (pads[i], pads[i]);
        };
        let window = dilation[i] * (size[i] as i64 - 1) + 1;
        let needed = (out - 1) * strides[i] as i64 + window - own - pads[i];
        // Elements at the end that no window reaches are ignored.
        (pads[i], needed.max(pads[i]))
    };
    Ok((0..size.len()).map(one).collect())
}

fn max_pool(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let spatial = spatial_of(a);
    let (size, strides, pads) = window(a, spatial)?;
    let dilation = a.ints(4, "dilation")?;
    let dilation: Vec<i64> = (0..spatial)
        .map(|i| dilation.get(i).or(dilation.last()).copied().unwrap_or(1))
        .collect();
    let padding = ceil_mode_padding(a, &x, &size, &strides, &pads, &dilation)?;
    let places = |xs: &[usize]| -> Axes {
        std::iter::repeat_n(1, x.rank() - spatial)
            .chain(xs.iter().copied())
            .collect()
    };
    let pairs = std::iter::repeat_n((0, 0), x.rank() - spatial).chain(padding);
    let padding: Pads = pairs
        .map(|(low, high)| (Dim::number(low), Dim::number(high)))
        .collect();
    let dilation = places(&dilation.iter().map(|&d| d as usize).collect::<Vec<_>>());
    let call = Composite::MaxPool {
        size: places(&size),
        strides: places(&strides),
        padding: padding.clone(),
        dilation: dilation.clone(),
    };
    let y = dispatch::apply_one(&call.into(), &[&x])?;
    if !a.wants(1) {
        return Ok(Slot::List(vec![y.into(), Slot::Nothing]));
    }
    // The indices of the maxima: gathers the flat index through the same windows.
    let gather = WindowGather {
        kind: Extreme::Max,
        size: places(&size),
        strides: places(&strides),
        padding,
        base_dilation: places(&vec![1; spatial]),
        window_dilation: dilation,
    };
    let wide = ops::stop_gradient(ops::cast(&x, DType::F64)).done()?;
    let at = dispatch::apply_one(&gather.into(), &[&wide, &numbers(&x, spatial)?])?;
    Ok(vec![y, ops::cast(at, DType::I64).done()?].into())
}

/// Ones over the operand's axes with its padding, with batch and channels of size one.
fn padded_ones(x: &Tensor, pads: &[i64]) -> Result<Tensor> {
    let first = x.rank() - pads.len();
    let sizes = x
        .shape()
        .dims()
        .iter()
        .enumerate()
        .map(|(i, &n)| match i.checked_sub(first) {
            Some(at) => n + Dim::number(2 * pads[at]),
            None => Dim::from(1),
        });
    ops::ones(Shape::from_dims(sizes), x.dtype()).done()
}

fn avg_pool(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let spatial = if a.node.op.contains("1d") {
        1
    } else if a.node.op.contains("2d") {
        2
    } else {
        3
    };
    let (size, strides, pads) = window(a, spatial)?;
    let count = a.flag(5, "count_include_pad", true)?;
    let divisor = a.float(6, "divisor_override", 0.0)?;
    let padding = ceil_mode_padding(a, &x, &size, &strides, &pads, &vec![1; spatial])?;
    let hangs = padding.iter().zip(&pads).any(|(pair, &pad)| pair.1 > pad);
    let count = count || divisor != 0.0;
    let widths: f64 = size.iter().map(|&n| n as f64).product();
    let y = ops::avg_pool(
        &x,
        &size,
        &strides,
        &Padding::Each(padding.clone()),
        false,
        count,
    )
    .done()?;
    if divisor != 0.0 {
        return Ok((y * (widths / divisor)).done()?.into());
    }
    if !hangs || !count {
        return Ok(y.into());
    }
    // The extra padding of ceil_mode does not count, while the padding itself does: divide by the count within the padded axis.
    let ones = padded_ones(&x, &pads)?;
    let over: Vec<(i64, i64)> = padding
        .iter()
        .zip(&pads)
        .map(|(pair, &pad)| (0, pair.1 - pad))
        .collect();
    let share = ops::avg_pool(ones, &size, &strides, &Padding::Each(over), false, true);
    Ok((y / share).done()?.into())
}

/// Each element's row-major index in the spatial axes, as floats.
fn numbers(x: &Tensor, spatial: usize) -> Result<Tensor> {
    let mut sum = ops::zeros(x.shape().clone(), DType::F64);
    for i in x.rank() - spatial..x.rank() {
        let size = Slot::Int(x.shape().dims()[i]).as_number().ok_or_else(|| {
            clematis_core::Error::new(clematis_core::Kind::Internal, "convert: a size")
        })?;
        sum = sum * ops::cast(size, DType::F64) + ops::iota(x.shape().clone(), i, DType::F64);
    }
    sum.done()
}

fn adaptive_max_pool(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let spatial = spatial_of(a);
    let given = a.ints(1, "output_size")?;
    let sizes: Vec<Option<usize>> = (0..spatial)
        .map(|i| given.get(i).or(given.last()).map(|&n| n as usize))
        .collect();
    let y = adaptive_pool("adaptive_max_pool", &x, Pool::Largest, &sizes, false).done()?;
    if !a.wants(1) {
        return Ok(Slot::List(vec![y.into(), Slot::Nothing]));
    }
    // The first index of the maximum of its window.
    let at = adaptive_places(&x, &y, spatial)?;
    Ok(vec![y, at].into())
}

/// For each result, the smallest index inside its window whose element equals it.
fn adaptive_places(x: &Tensor, y: &Tensor, spatial: usize) -> Result<Tensor> {
    let first = x.rank() - spatial;
    let lead = x.shape().dims()[..first].iter().copied();
    let count = |t: &Tensor| {
        t.shape().dims()[first..]
            .iter()
            .fold(Dim::from(1), |n, &d| n * d)
    };
    let flat = |t: &Tensor| ops::reshape(t, Shape::from_dims(lead.clone().chain([count(t)])));
    let (xs, ys) = (
        ops::expand_dims(flat(x), -2).done()?,
        ops::expand_dims(flat(y), -1).done()?,
    );
    // A mask of windows: results along rows, elements along columns.
    let mut mask = vec![true];
    let (mut rows, mut columns) = (1, 1);
    for i in first..x.rank() {
        let (from, to) = (
            x.shape().known_size(i, "adaptive_max_pool")?,
            y.shape().known_size(i, "adaptive_max_pool")?,
        );
        let mut wider = vec![false; mask.len() * from * to];
        for r in 0..rows {
            for c in 0..columns {
                for o in 0..to {
                    for p in o * from / to..((o + 1) * from).div_ceil(to) {
                        wider[(r * to + o) * columns * from + c * from + p] = mask[r * columns + c];
                    }
                }
            }
        }
        (mask, rows, columns) = (wider, rows * to, columns * from);
    }
    let mask: Vec<i64> = mask.into_iter().map(i64::from).collect();
    let mask = ops::cast(ops::from_slice(&mask, [rows, columns])?, DType::Bool);
    let hit = ops::logical_and(ops::equal(xs, ys), mask);
    let at = ops::argmax(ops::cast(hit, DType::I32), Some(-1));
    ops::reshape(ops::cast(at, DType::I64), y.shape().clone()).done()
}

fn adaptive_avg_pool(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let sizes = a.ints(1, "output_size")?;
    let sizes: Vec<Option<usize>> = sizes.iter().map(|&n| Some(n as usize)).collect();
    Ok(pool::adaptive_avg_pool("adaptive_avg_pool", &x, &sizes)
        .done()?
        .into())
}
