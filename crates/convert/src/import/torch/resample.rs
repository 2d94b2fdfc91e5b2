//! Interpolation and grid_sample.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::out;
use clematis_core::expr::Expr;
use clematis_core::op::composite::ResizeMethod;
use clematis_core::ops::Subscript;
use clematis_core::{DType, Dim, Result, Shape, Tensor, bail, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("upsample_nearest1d", |_, a| nearest(a, false)),
    ("upsample_nearest2d", |_, a| nearest(a, false)),
    ("upsample_nearest3d", |_, a| nearest(a, false)),
    ("_upsample_nearest_exact1d", |_, a| nearest(a, true)),
    ("_upsample_nearest_exact2d", |_, a| nearest(a, true)),
    ("_upsample_nearest_exact3d", |_, a| nearest(a, true)),
    ("upsample_linear1d", |_, a| {
        smooth(a, ResizeMethod::Linear, false)
    }),
    ("upsample_bilinear2d", |_, a| {
        smooth(a, ResizeMethod::Linear, false)
    }),
    ("upsample_trilinear3d", |_, a| {
        smooth(a, ResizeMethod::Linear, false)
    }),
    ("upsample_bicubic2d", |_, a| {
        smooth(a, ResizeMethod::Cubic, false)
    }),
    ("_upsample_bilinear2d_aa", |_, a| {
        smooth(a, ResizeMethod::Linear, true)
    }),
    ("_upsample_bicubic2d_aa", |_, a| {
        smooth(a, ResizeMethod::Cubic, true)
    }),
    ("grid_sampler_2d", grid_sampler),
    ("grid_sampler_3d", grid_sampler),
];

/// The given scale factors, one per spatial axis; torch computes coordinates from them if they are given.
fn scales(a: &Args<'_>, at: usize, spatial: usize) -> Vec<Option<f64>> {
    let of = |slot: Option<&Slot>| match slot {
        Some(Slot::Float(x)) if *x > 0.0 => Some(*x),
        Some(Slot::Int(d)) => d.value().filter(|&n| n > 0).map(|n| n as f64),
        _ => None,
    };
    if let Some(Slot::List(xs)) = a.args.get(at) {
        return (0..spatial).map(|i| of(xs.get(i))).collect();
    }
    let names = ["scales_d", "scales_h", "scales_w"];
    let by_name = |i: usize| {
        a.kwargs
            .get(names[3 - spatial + i])
            .or_else(|| a.kwargs.get("scales"))
    };
    (0..spatial)
        .map(|i| of(a.args.get(at + i).or_else(|| by_name(i))))
        .collect()
}

fn spatial(a: &Args<'_>) -> Result<(Tensor, Shape, usize)> {
    let x = a.tensor(0, "self").or_else(|_| a.tensor(0, "input"))?;
    let recorded = a.recorded_spec(0)?.shape;
    let count = x.rank() - 2;
    Ok((x, recorded, count))
}

fn sizes(x: &Tensor, recorded: &Shape, axis: usize) -> Result<Option<(usize, usize)>> {
    let (from, to) = (x.shape().dims()[axis], recorded.dims()[axis]);
    match (from.value(), to.value()) {
        (Some(from), Some(to)) => Ok(Some((from as usize, to as usize))),
        _ if from == to => Ok(None),
        _ => bail!(
            Unsupported,
            "convert: interpolation of an axis from {from} to {to}: sizes must be known"
        ),
    }
}

/// Nearest-neighbor interpolation. torch computes the nearest index in float32.
fn nearest(a: &Args<'_>, exact: bool) -> Result<Slot> {
    let (x, recorded, count) = spatial(a)?;
    let scales = scales(a, 2, count);
    let mut y = x.clone();
    let mut plain = !exact;
    let mut places = Vec::new();
    for (i, scale) in scales.iter().enumerate() {
        let axis = x.rank() - count + i;
        let Some((from, to)) = sizes(&x, &recorded, axis)? else {
            continue;
        };
        let ratio = scale.map_or(from as f32 / to as f32, |s| (1.0 / s) as f32);
        let at = |i: usize| {
            let at = if exact {
                (i as f32 + 0.5) * ratio
            } else {
                i as f32 * ratio
            };
            (at.floor() as usize).min(from - 1)
        };
        plain &= (0..to).all(|i| at(i) == (i * from / to).min(from - 1));
        if from != to || !(0..to).all(|i| at(i) == i) {
            places.push((axis, (0..to).map(|i| at(i) as i64).collect::<Vec<_>>()));
        }
    }
    if plain {
        return out(ops::resize(
            x,
            recorded,
            ResizeMethod::Nearest,
            false,
            false,
        ));
    }
    for (axis, at) in places {
        let at = ops::from_slice(&at, [at.len()])?;
        y = ops::take(&y, at, axis as i64).done()?;
    }
    Ok(y.into())
}

fn smooth(a: &Args<'_>, method: ResizeMethod, antialias: bool) -> Result<Slot> {
    let (x, recorded, count) = spatial(a)?;
    let corners = a.flag(2, "align_corners", false)?;
    let scales = scales(a, 3, count);
    let mut plain = true;
    for (i, scale) in scales.iter().enumerate() {
        if let (Some(s), Some((from, to))) = (scale, sizes(&x, &recorded, x.rank() - count + i)?) {
            plain &= corners || ((from as f64 * s) - to as f64).abs() < 1e-6 * to as f64;
        }
    }
    // Ours computes coordinates from the sizes; an axis that keeps its size is left alone.
    if plain {
        return out(ops::resize(x, recorded, method, corners, antialias));
    }
    let mut y = x.clone();
    for (i, scale) in scales.iter().enumerate() {
        let axis = x.rank() - count + i;
        let Some((from, to)) = sizes(&x, &recorded, axis)? else {
            continue;
        };
        let ratio = scale.map_or(from as f64 / to as f64, |s| 1.0 / s);
        let weights = weights(from, to, ratio, method, antialias);
        let weights = ops::cast(ops::from_slice(&weights, [to, from])?, x.dtype());
        y = ops::move_axis(
            ops::tensordot(&y, weights, &[axis as i64], &[1]),
            -1,
            axis as i64,
        )
        .done()?;
    }
    Ok(y.into())
}

/// Row i: the weight of each input pixel in output pixel i.
fn weights(from: usize, to: usize, ratio: f64, method: ResizeMethod, antialias: bool) -> Vec<f64> {
    let cubic = method == ResizeMethod::Cubic;
    let stretch = if antialias { ratio.max(1.0) } else { 1.0 };
    let reach = if cubic { 2.0 } else { 1.0 } * stretch;
    let mut out = vec![0.0; from * to];
    for i in 0..to {
        let mut centre = (i as f64 + 0.5) * ratio - 0.5;
        if !cubic && !antialias {
            centre = centre.max(0.0);
        }
        let row = &mut out[i * from..(i + 1) * from];
        let mut total = 0.0;
        for j in (centre - reach).floor() as i64..=(centre + reach).ceil() as i64 {
            if antialias && !(0..from as i64).contains(&j) {
                continue;
            }
            let t = ((j as f64 - centre) / stretch).abs();
            let weight = if cubic {
                cubic_at(t, if antialias { -0.5 } else { -0.75 })
            } else {
                (1.0 - t).max(0.0)
            };
            row[j.clamp(0, from as i64 - 1) as usize] += weight;
            total += weight;
        }
        if total != 0.0 {
            row.iter_mut().for_each(|w| *w /= total);
        }
    }
    out
}

fn cubic_at(t: f64, a: f64) -> f64 {
    if t <= 1.0 {
        ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0
    } else if t < 2.0 {
        (((t - 5.0) * t + 8.0) * t - 4.0) * a
    } else {
        0.0
    }
}

/// The padding mode of grid_sample.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    Zeros,
    Border,
    Mirror,
}

fn grid_sampler(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, grid) = (a.tensor(0, "input")?, a.tensor(1, "grid")?);
    let spatial = x.rank() - 2;
    let mode = a.int(2, "interpolation_mode", 0)?;
    let outside = match a.int(3, "padding_mode", 0)? {
        0 => Outside::Zeros,
        1 => Outside::Border,
        _ => Outside::Mirror,
    };
    let corners = a.flag(4, "align_corners", false)?;
    // The last axis of the grid is in the order x, y, z: innermost axis first.
    let mut at = Vec::new();
    let mut sizes = Vec::new();
    for i in 0..spatial {
        let last = (spatial - 1 - i) as i64;
        let size = x.shape().dims()[2 + i];
        let n = number(size, x.dtype())?;
        let g = ops::squeeze(ops::slice_axis(&grid, -1, last, last + 1), -1i64);
        let place = if corners {
            (g + 1.0) * 0.5 * (n.clone() - 1.0)
        } else {
            ((g + 1.0) * n.clone() - 1.0) * 0.5
        };
        at.push(place.done()?);
        sizes.push(n.done()?);
    }
    if mode != 2 {
        for (p, n) in at.iter_mut().zip(&sizes) {
            *p = inside(p, n, outside, corners)?;
        }
    }
    let taps: Vec<i64> = match mode {
        0 => vec![0, 1],
        1 => vec![0],
        _ => vec![-1, 0, 1, 2],
    };
    // Pixels are flattened to one axis, so that each gather takes all channels of one.
    let flat = {
        let moved = ops::move_axis(&x, 1, -1).done()?;
        let dims = moved.shape().dims();
        let count = dims[1..=spatial].iter().fold(Dim::from(1), |n, &d| n * d);
        let shape = Shape::from_dims([dims[0], count, dims[spatial + 1]]);
        ops::reshape(&moved, shape).done()?
    };
    let base = |p: &Tensor| {
        if mode == 1 {
            ops::round(p)
        } else {
            ops::floor(p)
        }
    };
    let lows = at
        .iter()
        .map(|p| ops::stop_gradient(base(p)).done())
        .collect::<Result<Vec<_>>>()?;
    let mut sum: Option<Expr> = None;
    for tap in 0..taps.len().pow(spatial as u32) {
        let mut left = tap;
        let (mut weight, mut valid, mut place): (Option<Expr>, Option<Expr>, Expr) =
            (None, None, Tensor::number(0).into_expr());
        for i in 0..spatial {
            let offset = taps[left % taps.len()];
            left /= taps.len();
            let mut j = (&lows[i] + offset as f64).done()?;
            if mode != 1 {
                let t = (&at[i] - &lows[i]).done()?;
                let own = tap_weight(&t, offset, mode == 2)?;
                weight = Some(weight.map_or(own.clone(), |w| w * own));
            }
            if mode == 2 {
                j = inside(&j, &sizes[i], outside, corners)?;
            }
            let ok = ops::logical_and(ops::greater_equal(&j, 0.0), ops::less(&j, &sizes[i]));
            valid = Some(valid.map_or(ok.clone(), |v| ops::logical_and(v, ok)));
            let held = ops::minimum(ops::maximum(&j, 0.0), &sizes[i] - 1.0);
            let size = number(x.shape().dims()[2 + i], DType::I64)?;
            place = place * size + ops::cast(held, DType::I64);
        }
        let place = place.done()?;
        let batch = ops::iota(place.shape().clone(), 0, DType::I64).done()?;
        let read = ops::subscript(&flat, &[Subscript::Array(batch), Subscript::Array(place)]);
        let mut part = read;
        if let Some(valid) = valid {
            part = ops::where_(ops::expand_dims(valid, -1), part, 0.0);
        }
        if let Some(weight) = weight {
            part = part * ops::expand_dims(weight, -1);
        }
        sum = Some(match sum {
            Some(sum) => sum + part,
            None => part,
        });
    }
    match sum {
        Some(sum) => out(ops::move_axis(sum, -1, 1)),
        None => bail!(Internal, "convert: a grid without axes"),
    }
}

fn number(size: Dim, dtype: DType) -> Result<Expr> {
    match Slot::Int(size).as_number() {
        Some(n) => Ok(ops::cast(n, dtype)),
        None => bail!(Internal, "convert: expected a size that is a number"),
    }
}

fn tap_weight(t: &Tensor, offset: i64, cubic: bool) -> Result<Expr> {
    if !cubic {
        return Ok(if offset == 0 { 1.0 - t } else { t.into_expr() });
    }
    let a = -0.75;
    let near = |d: Expr| d.then(|d| ((&d * (a + 2.0) - (a + 3.0)) * &d * &d + 1.0).done());
    let far = |d: Expr| d.then(|d| ((((&d - 5.0) * &d + 8.0) * &d - 4.0) * a).done());
    Ok(match offset {
        -1 => far(t + 1.0),
        0 => near(t.into_expr()),
        1 => near(1.0 - t),
        _ => far(2.0 - t),
    })
}

/// Moves a coordinate that may be out of range into it, by the padding mode.
fn inside(p: &Tensor, n: &Tensor, outside: Outside, corners: bool) -> Result<Tensor> {
    let last = (n - 1.0).done()?;
    let clipped = |p: &Tensor| ops::minimum(ops::maximum(p, 0.0), &last).done();
    match outside {
        Outside::Zeros => Ok(p.clone()),
        Outside::Border => clipped(p),
        Outside::Mirror => {
            // Reflection between both ends, which are the centers of the border pixels or their outer edges.
            let (low, span) = if corners {
                (0.0, last.clone())
            } else {
                (-0.5, n.clone())
            };
            let way = ops::abs(p - low).done()?;
            let span = ops::maximum(&span, 1e-9).done()?;
            let turns = ops::stop_gradient(ops::floor(&way / &span)).done()?;
            let rest = (&way - &turns * &span).done()?;
            let even = ops::equal(ops::remainder(&turns, 2.0), 0.0);
            let back = ops::where_(even, &rest + low, &span - &rest + low).done()?;
            clipped(&back)
        }
    }
}

use clematis_core::expr::IntoExpr;
