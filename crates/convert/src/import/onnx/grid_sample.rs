//! GridSample, AffineGrid, RoiAlign, NonMaxSuppression, LinearAttention.

use super::super::args::{Args, Slot};
use super::super::roi_align::{Align, roi_align as roi_align_means};
use super::super::{Importer, Rule};
use super::{
    NAMED, counted, floats, ints, maybe, out, ranked, recorded, several, to_tensor, unknown, values,
};
use clematis_core::expr::Expr;
use clematis_core::{DType, Dim, Result, Shape, Tensor, bail, control, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("GridSample", grid_sample),
    ("AffineGrid", affine_grid),
    ("DeformConv", deform_conv),
    ("RoiAlign", roi_align),
    ("NonMaxSuppression", suppress),
    ("LinearAttention", linear_attention),
];

#[derive(Clone, Copy, PartialEq)]
enum Outside {
    Zeros,
    Border,
    Reflect,
}

/// The indices along one axis that a sample interpolates, their weights, and whether they are in range.
struct Tap {
    at: Tensor,
    weight: Option<Tensor>,
    inside: Option<Tensor>,
}

/// Reflects coordinates at the borders until they are in range.
fn reflected(p: &Tensor, low: Expr, high: Expr) -> Result<Tensor> {
    let (low, high) = (low.done()?, high.done()?);
    let span = ops::maximum(&high - &low, 1e-6).done()?;
    let away = ops::remainder(p - &low, &span * 2.0).done()?;
    (low + ops::minimum(&away, &span * 2.0 - &away)).done()
}

/// The size of an axis as a number of this dtype.
fn length(d: Dim, dtype: DType) -> Expr {
    ops::cast(counted(d), dtype)
}

fn taps(p: &Tensor, size: Dim, mode: &str, outside: Outside, corners: bool) -> Result<Vec<Tap>> {
    let dtype = p.dtype();
    let n = length(size, dtype).done()?;
    let edges = || match corners {
        true => (ops::zeros(Shape::scalar(), dtype), &n - 1.0),
        false => (ops::zeros(Shape::scalar(), dtype) - 0.5, &n - 0.5),
    };
    let p = if mode == "nearest" {
        ops::round(p).done()?
    } else {
        p.clone()
    };
    let p = match outside {
        Outside::Zeros => p,
        Outside::Border => {
            let (low, high) = edges();
            let (low, high) = (low.done()?, high.done()?);
            let out = ops::logical_or(ops::less(&p, low), ops::greater(&p, high));
            ops::where_(out, ops::minimum(ops::maximum(&p, 0.0), &n - 1.0), &p).done()?
        }
        Outside::Reflect => {
            let (low, high) = edges();
            reflected(&p, low, high)?
        }
    };
    let first = ops::floor(&p).done()?;
    let part = (&p - &first).done()?;
    let wanted: Vec<(f64, Option<Expr>)> = match mode {
        "nearest" => vec![(0.0, None)],
        "linear" | "bilinear" => vec![
            (0.0, Some(1.0 - &part)),
            (1.0, Some(Ok(part.clone()).into())),
        ],
        "cubic" | "bicubic" => {
            let a = -0.75;
            let near = |x: &Tensor| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
            let far = |x: &Tensor| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
            let (back, over, two) = (
                (1.0 - &part).done()?,
                (&part + 1.0).done()?,
                (2.0 - &part).done()?,
            );
            vec![
                (-1.0, Some(far(&over))),
                (0.0, Some(near(&part))),
                (1.0, Some(near(&back))),
                (2.0, Some(far(&two))),
            ]
        }
        other => bail!(Convert, "convert: `GridSample` by \"{other}\""),
    };
    let mut all = Vec::new();
    for (offset, weight) in wanted {
        let mut at = if mode == "nearest" {
            p.clone()
        } else {
            (&first + offset).done()?
        };
        let mut inside = None;
        match outside {
            Outside::Zeros => {
                inside = Some(
                    ops::logical_and(ops::greater_equal(&at, 0.0), ops::less(&at, &n)).done()?,
                )
            }
            Outside::Border => {}
            Outside::Reflect => {
                let (low, high) = edges();
                at = ops::trunc(reflected(&at, low, high)?).done()?;
            }
        }
        let at = ops::cast(ops::minimum(ops::maximum(at, 0.0), &n - 1.0), DType::I64).done()?;
        all.push(Tap {
            at,
            weight: weight.map(Expr::done).transpose()?,
            inside,
        });
    }
    Ok(all)
}

/// `x` is `[n, c, spatial…]`, coordinates are `[n, p]` per spatial axis; the result is `[n, c, p]`.
fn sampled(
    x: &Tensor,
    places: &[Tensor],
    mode: &str,
    outside: Outside,
    corners: bool,
) -> Result<Tensor> {
    let dims = x.shape().dims();
    let whole = dims[2..].iter().fold(Dim::from(1), |n, &d| n * d);
    let flat = ops::reshape(x, Shape::from_dims([dims[0], dims[1], whole])).done()?;
    let axes = places
        .iter()
        .zip(&dims[2..])
        .map(|(p, &n)| taps(p, n, mode, outside, corners))
        .collect::<Result<Vec<_>>>()?;
    let count = axes.iter().fold(1, |n: usize, taps| n * taps.len());
    let mut sum: Option<Expr> = None;
    for number in 0..count {
        let mut left = number;
        let mut at: Option<Expr> = None;
        let (mut weight, mut inside): (Option<Expr>, Option<Expr>) = (None, None);
        for (taps, &n) in axes.iter().zip(&dims[2..]) {
            let tap = &taps[left % taps.len()];
            left /= taps.len();
            at = Some(match at {
                Some(at) => at * counted(n)? + &tap.at,
                None => Ok(tap.at.clone()).into(),
            });
            if let Some(w) = &tap.weight {
                weight = Some(weight.map_or_else(|| Ok(w.clone()).into(), |x| x * w));
            }
            if let Some(m) = &tap.inside {
                inside =
                    Some(inside.map_or_else(|| Ok(m.clone()).into(), |x| ops::logical_and(x, m)));
            }
        }
        let Some(at) = at else {
            bail!(Convert, "convert: grid sampling without spatial axes")
        };
        let at = ops::expand_dims(at, 1).done()?;
        let wide = Shape::from_dims([dims[0], dims[1], at.shape().dims()[2]]);
        let mut part = ops::take_along_axis(&flat, ops::broadcast_to(at, wide), 2);
        if let Some(weight) = weight {
            part = part * ops::cast(ops::expand_dims(weight, 1), x.dtype());
        }
        if let Some(inside) = inside {
            part = ops::where_(
                ops::expand_dims(inside, 1),
                part,
                Tensor::scalar(0i64, x.dtype()),
            );
        }
        sum = Some(sum.map_or(part.clone(), |x| x + part));
    }
    match sum {
        Some(sum) => sum.done(),
        None => bail!(Convert, "convert: grid sampling without taps"),
    }
}

fn grid_sample(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, grid) = (recorded(ranked(a, 0, 3)?, None)?, ranked(a, 1, 3)?);
    let spatial = x.rank() - 2;
    if grid.rank() != x.rank()
        || spatial > 3
        || grid.shape().dims()[grid.rank() - 1].value() != Some(spatial as i64)
    {
        bail!(
            Convert,
            "convert: `GridSample`: incompatible operand {} and grid {}",
            x.spec(),
            grid.spec()
        );
    }
    let corners = a.flag(NAMED, "align_corners", false)?;
    let outside = match a.text(NAMED, "padding_mode", "zeros")? {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Reflect,
        other => bail!(Convert, "convert: `GridSample` with \"{other}\" outside"),
    };
    let g = grid.shape().dims();
    let count = g[1..g.len() - 1].iter().fold(Dim::from(1), |n, &d| n * d);
    let mut places = Vec::new();
    for k in 0..spatial {
        let from = (spatial - 1 - k) as i64;
        let one = ops::reshape(
            ops::slice_axis(&grid, -1, from, from + 1),
            Shape::from_dims([g[0], count]),
        );
        let n = length(x.shape().dims()[2 + k], grid.dtype());
        let at = if corners {
            (one + 1.0) * 0.5 * (n - 1.0)
        } else {
            ((one + 1.0) * n - 1.0) * 0.5
        };
        places.push(at.done()?);
    }
    let y = sampled(
        &x,
        &places,
        a.text(NAMED, "mode", "linear")?,
        outside,
        corners,
    )?;
    let whole = [g[0], x.shape().dims()[1]]
        .into_iter()
        .chain(g[1..g.len() - 1].iter().copied());
    out(ops::reshape(y, Shape::from_dims(whole)))
}

fn affine_grid(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let theta = recorded(ranked(a, 0, 3)?, None)?;
    let size = ints(a, 1)?;
    let corners = a.flag(NAMED, "align_corners", false)?;
    if !(3..=5).contains(&size.len()) || size.iter().any(|&n| !(1..1 << 24).contains(&n)) {
        bail!(Convert, "convert: `AffineGrid`: invalid size {size:?}");
    }
    let spatial = &size[2..];
    let shape = Shape::from_dims(spatial.iter().map(|&n| Dim::number(n)));
    let mut parts = Vec::new();
    for (k, &n) in spatial.iter().enumerate().rev() {
        let i = ops::iota(shape.clone(), k, theta.dtype());
        let at = match corners {
            true => i * (2.0 / (n - 1).max(1) as f64) - 1.0,
            false => (i + 0.5) * (2.0 / n as f64) - 1.0,
        };
        parts.push(at.done()?);
    }
    parts.push(ops::ones(shape.clone(), theta.dtype()).done()?);
    let base = ops::reshape(
        ops::stack(&parts, -1),
        Shape::from_dims([shape.count_dim(), Dim::from(parts.len())]),
    );
    let grid = ops::matmul(base, ops::matrix_transpose(&theta));
    let whole = [theta.shape().dims()[0]]
        .into_iter()
        .chain(shape.dims().iter().copied())
        .chain([Dim::from(spatial.len())]);
    out(ops::reshape(grid, Shape::from_dims(whole)))
}

fn deform_conv(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, w, offset) = (
        recorded(ranked(a, 0, 4)?, None)?,
        ranked(a, 1, 4)?,
        ranked(a, 2, 4)?,
    );
    let (bias, mask) = (maybe(a, 3)?, maybe(a, 4)?);
    if x.rank() != 4 || w.rank() != 4 || offset.rank() != 4 {
        bail!(Unsupported, "convert: `DeformConv` of {}", x.spec());
    }
    let (strides, dilation) = (
        super::conv::each(a, "strides", 2, 1)?,
        super::conv::each(a, "dilations", 2, 1)?,
    );
    let pads = super::conv::each(a, "pads", 4, 0)?;
    let (groups, own) = (
        a.int(NAMED, "group", 1)?.max(1),
        a.int(NAMED, "offset_group", 1)?.max(1),
    );
    let (d, o) = (x.shape().dims().to_vec(), offset.shape().dims().to_vec());
    let (kh, kw) = (
        w.shape().known_size(2, "deform_conv")?,
        w.shape().known_size(3, "deform_conv")?,
    );
    let k = Dim::from(kh * kw);
    let by = Dim::number(own);
    let (n, c, oh, ow) = (d[0], d[1], o[2], o[3]);
    let shape = Shape::from_dims([n, by, k, Dim::from(2), oh, ow]);
    let offset = ops::reshape(&offset, shape).done()?;
    let grid = Shape::from_dims([k, oh, ow]);
    let mut places = Vec::new();
    for axis in 0..2usize {
        let step: Vec<i64> = (0..kh * kw)
            .map(|i| (if axis == 0 { i / kw } else { i % kw } * dilation[axis]) as i64)
            .collect();
        let kernel = ops::reshape(
            ops::from_slice(&step, [step.len()])?,
            [-1i64, 1, 1].to_vec(),
        );
        let base = ops::iota(grid.clone(), axis + 1, DType::I64) * strides[axis] as i64
            - pads[axis] as i64
            + kernel;
        let moved = ops::squeeze(ops::slice_axis(&offset, 3, axis, axis + 1), 3i64)
            + ops::cast(base, x.dtype());
        places.push(ops::reshape(moved, Shape::from_dims([n * by, k * oh * ow])).done()?);
    }
    let each = c.floor_div(by)?;
    let split = ops::reshape(&x, Shape::from_dims([n * by, each, d[2], d[3]])).done()?;
    let mut taken: Expr = sampled(&split, &places, "linear", Outside::Zeros, true).into();
    if let Some(mask) = mask {
        taken = taken * ops::reshape(mask, Shape::from_dims([n * by, Dim::from(1), k * oh * ow]));
    }
    let g = Dim::number(groups);
    let taken =
        ops::reshape(taken, Shape::from_dims([n, g, c.floor_div(g)?, k, oh * ow])).done()?;
    let features = w.shape().dims()[0];
    let filter = ops::reshape(
        &w,
        Shape::from_dims([g, features.floor_div(g)?, w.shape().dims()[1], k]),
    )
    .done()?;
    let y = ops::einsum("ngckp,gock->ngop", &[&taken, &filter]);
    let y = ops::reshape(y, Shape::from_dims([n, features, oh, ow])).done()?;
    Ok(super::conv::biased(y, bias)?.into())
}

fn roi_align(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, rois, batch) = (
        recorded(ranked(a, 0, 4)?, None)?,
        ranked(a, 1, 2)?,
        ranked(a, 2, 1)?,
    );
    let (oh, ow) = (
        a.int(NAMED, "output_height", 1)?,
        a.int(NAMED, "output_width", 1)?,
    );
    let count = a.int(NAMED, "sampling_ratio", 0)?;
    let scale = a.float(NAMED, "spatial_scale", 1.0)?;
    let half = a.text(NAMED, "coordinate_transformation_mode", "half_pixel")? == "half_pixel";
    if a.text(NAMED, "mode", "avg")? != "max" {
        let how = Align {
            bins: (oh, ow),
            points: count,
            scale,
            centred: half,
        };
        return out(roi_align_means(&x, &rois, &batch, &how)?);
    }
    if count <= 0 {
        bail!(
            Unsupported,
            "convert: `RoiAlign` in mode \"max\" whose number of samples depends on the boxes; give a sampling_ratio"
        );
    }
    if ![oh, ow, count].iter().all(|n| (1..1 << 12).contains(n)) {
        return Err(a.bad("sizes between 1 and the limit"));
    }
    let shift = if half { 0.5 } else { 0.0 };
    let edge = |i: i64| (ops::slice_axis(&rois, 1, i, i + 1) * scale - shift).done();
    let (x1, y1, x2, y2) = (edge(0)?, edge(1)?, edge(2)?, edge(3)?);
    let dtype = rois.dtype();
    let side =
        |low: &Tensor, high: &Tensor, bins: i64, size: Dim| -> Result<(Tensor, Tensor, Tensor)> {
            let mut span = high - low;
            if !half {
                span = ops::maximum(span, 1.0);
            }
            let places = ops::iota(Shape::from_dims([Dim::number(bins * count)]), 0, dtype);
            let p = (low + (places + 0.5) * (span / (bins * count) as f64)).done()?;
            let n = length(size, dtype).done()?;
            let inside =
                ops::logical_and(ops::greater_equal(&p, -1.0), ops::less_equal(&p, &n)).done()?;
            let p = ops::minimum(ops::maximum(&p, 0.0), &n - 1.0).done()?;
            let first = ops::minimum(ops::floor(&p), ops::maximum(&n - 1.0, 0.0)).done()?;
            Ok(((&p - &first).done()?, first, inside))
        };
    let d = x.shape().dims().to_vec();
    let ((fy, py, iny), (fx, px, inx)) = (side(&y1, &y2, oh, d[2])?, side(&x1, &x2, ow, d[3])?);
    let r = rois.shape().dims()[0];
    let (ny, nx) = (Dim::number(oh * count), Dim::number(ow * count));
    let rows = ops::take(
        ops::reshape(&x, Shape::from_dims([d[0], d[1], d[2] * d[3]])),
        ops::cast(batch, DType::I64),
        0,
    )
    .done()?;
    let (high, wide) = (counted(d[2])?, counted(d[3])?);
    let mut corners = Vec::new();
    for dy in 0..2i64 {
        for dx in 0..2i64 {
            let at_y = ops::minimum(ops::cast(&py, DType::I64) + dy, &high - 1);
            let at_x = ops::minimum(ops::cast(&px, DType::I64) + dx, &wide - 1);
            let at = ops::expand_dims(at_y, 2) * &wide + ops::expand_dims(at_x, 1);
            let at = ops::reshape(at, Shape::from_dims([r, Dim::from(1), ny * nx]));
            let value = ops::take_along_axis(
                &rows,
                ops::broadcast_to(at, Shape::from_dims([r, d[1], ny * nx])),
                2,
            );
            let share =
                |f: &Tensor, upper: bool| if upper { Ok(f.clone()).into() } else { 1.0 - f };
            let weight =
                ops::expand_dims(share(&fy, dy == 1), 2) * ops::expand_dims(share(&fx, dx == 1), 1);
            let weight = ops::where_(
                ops::logical_and(ops::expand_dims(&iny, 2), ops::expand_dims(&inx, 1)),
                weight,
                0.0,
            );
            let weight = ops::reshape(weight, Shape::from_dims([r, Dim::from(1), ny * nx]));
            corners.push((value * ops::cast(weight, x.dtype())).done()?);
        }
    }
    let bins = Shape::from_dims([
        r,
        d[1],
        Dim::number(oh),
        Dim::number(count),
        Dim::number(ow),
        Dim::number(count),
    ]);
    let mut all: Expr = Ok(corners.remove(0)).into();
    for corner in corners {
        all = ops::maximum(all, corner);
    }
    out(ops::max(ops::reshape(all, bins), vec![3i64, 5]))
}

/// The number of selected boxes depends on the values, so they have to be known.
fn suppress(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (boxes, scores) = (
        to_tensor(a.slot(0, "boxes"))?,
        to_tensor(a.slot(1, "scores"))?,
    );
    let (Some(b), Some(s)) = (values(&boxes), values(&scores)) else {
        return unknown(a, 0);
    };
    let (bd, sd) = (b.spec().shape.sizes(), s.spec().shape.sizes());
    let ([batches, count, 4], [_, classes, _]) = (&bd[..], &sd[..]) else {
        return Err(a.bad("boxes of four numbers, and scores per class"));
    };
    if sd[0] != *batches || sd[2] != *count {
        return Err(a.bad("one score per box"));
    }
    let (b, s) = (b.to_f64(), s.to_f64());
    let one = |i: usize| -> Result<Option<f64>> {
        if a.has(i, "x") {
            Ok(floats(a, i)?.first().copied())
        } else {
            Ok(None)
        }
    };
    let most = one(2)?.unwrap_or(0.0).max(0.0) as usize;
    let (overlap, least) = (one(3)?.unwrap_or(0.0), one(4)?);
    let centred = a.flag(NAMED, "center_point_box", false)?;
    let corner = |x: &[f64]| match centred {
        true => [
            x[0] - x[2] / 2.0,
            x[0] + x[2] / 2.0,
            x[1] - x[3] / 2.0,
            x[1] + x[3] / 2.0,
        ],
        false => [
            x[1].min(x[3]),
            x[1].max(x[3]),
            x[0].min(x[2]),
            x[0].max(x[2]),
        ],
    };
    let share = |p: [f64; 4], q: [f64; 4]| {
        let side = |i: usize| (p[i + 1].min(q[i + 1]) - p[i].max(q[i])).max(0.0);
        let area = |x: [f64; 4]| (x[1] - x[0]) * (x[3] - x[2]);
        let both = side(0) * side(2);
        let all = area(p) + area(q) - both;
        if both <= 0.0 || area(p) <= 0.0 || area(q) <= 0.0 || all <= 0.0 {
            0.0
        } else {
            both / all
        }
    };
    let mut kept: Vec<i64> = Vec::new();
    for batch in 0..*batches {
        for class in 0..*classes {
            let score = |i: usize| s[(batch * classes + class) * count + i];
            let place = |i: usize| corner(&b[(batch * count + i) * 4..][..4]);
            let mut order: Vec<usize> = (0..*count)
                .filter(|&i| least.is_none_or(|least| score(i) > least))
                .collect();
            order.sort_by(|&i, &j| score(j).total_cmp(&score(i)).then(i.cmp(&j)));
            let mut chosen: Vec<usize> = Vec::new();
            for i in order {
                if chosen.len() >= most {
                    break;
                }
                if chosen.iter().all(|&j| share(place(i), place(j)) <= overlap) {
                    chosen.push(i);
                    kept.extend([batch as i64, class as i64, i as i64]);
                }
            }
        }
    }
    Ok(ops::from_slice(&kept, [kept.len() / 3, 3])?.into())
}

/// Linear attention: a key-value state that is updated and read at each time step.
fn linear_attention(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (q, k, v) = (ranked(a, 0, 3)?, ranked(a, 1, 3)?, ranked(a, 2, 3)?);
    let (past, decay, beta) = (maybe(a, 3)?, maybe(a, 4)?, maybe(a, 5)?);
    let (qn, kn) = (
        a.int(NAMED, "q_num_heads", 0)?,
        a.int(NAMED, "kv_num_heads", 0)?,
    );
    let rule = a.text(NAMED, "update_rule", "gated_delta")?;
    if qn <= 0 || kn <= 0 || qn % kn != 0 || q.rank() != 3 || k.rank() != 3 || v.rank() != 3 {
        return Err(a.bad("head counts, and operands of rank 3"));
    }
    let (gated, delta) = (rule.starts_with("gated"), rule.ends_with("delta"));
    let d = q.shape().dims().to_vec();
    // Time first, in float32.
    let steps = |x: &Tensor, heads: i64| -> Result<Tensor> {
        let width = x.shape().dims()[2].floor_div(Dim::number(heads))?;
        let wide = ops::reshape(
            ops::cast(x, DType::F32),
            Shape::from_dims([d[0], d[1], Dim::number(heads), width]),
        );
        ops::move_axis(wide, 1, 0).done()
    };
    let (qs, ks, vs) = (steps(&q, qn)?, steps(&k, kn)?, steps(&v, kn)?);
    let (dk, dv) = (ks.shape().dims()[3], vs.shape().dims()[3]);
    let side = |x: Option<Tensor>, on: bool, what: &str| -> Result<Vec<Tensor>> {
        match (x, on) {
            (Some(x), true) if x.rank() == 3 => {
                let last = x.shape().known_size(2, "linear_attention")? as i64;
                Ok(vec![steps(&x, if last == 1 { 1 } else { kn })?])
            }
            (None, false) => Ok(Vec::new()),
            _ => bail!(
                Convert,
                "convert: `LinearAttention` with update_rule \"{rule}\": incompatible {what}"
            ),
        }
    };
    let (decays, betas) = (side(decay, gated, "decay")?, side(beta, delta, "beta")?);
    let kept = past.as_ref().map_or(q.dtype(), |p| p.dtype());
    let start = match past {
        Some(past) => ops::cast(past, DType::F32).done()?,
        None => ops::zeros(
            Shape::from_dims([d[0], Dim::number(kn), dk, dv]),
            DType::F32,
        )
        .done()?,
    };
    let scale = match a.float(NAMED, "scale", 0.0)? {
        0.0 => 1.0 / (dk.value().unwrap_or(1) as f64).sqrt(),
        scale => scale,
    };
    let rows = (vec![qs, ks, vs], (decays, betas));
    let (state, ys) = control::scan(&start, &rows, None, false, |state, (qkv, (decay, beta))| {
        let mut state: Expr = Ok(state.clone()).into();
        if let Some(g) = decay.first() {
            state = state * ops::expand_dims(ops::exp(g), -1);
        }
        let mut new: Expr = Ok(qkv[2].clone()).into();
        if let Some(b) = beta.first() {
            let old = ops::squeeze(ops::matmul(ops::expand_dims(&qkv[1], -2), &state), -2i64);
            new = b * (new - old);
        }
        let state = (state + ops::expand_dims(&qkv[1], -1) * ops::expand_dims(new, -2)).done()?;
        let seen = ops::repeat(&state, (qn / kn) as usize, 1);
        let y = ops::squeeze(ops::matmul(ops::expand_dims(&qkv[0], -2), seen), -2i64) * scale;
        Ok((state, y.done()?))
    })?;
    let y = ops::reshape(
        ops::move_axis(ys, 0, 1),
        Shape::from_dims([d[0], d[1], dv * Dim::number(qn)]),
    );
    Ok(several(
        a,
        vec![
            ops::cast(y, q.dtype()).done()?.into(),
            ops::cast(state, kept).done()?.into(),
        ],
    ))
}
