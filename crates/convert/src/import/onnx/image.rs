//! Resize and Upsample.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{NAMED, floats, numbers, out, sizes, t, version};
use clematis_core::expr::Expr;
use clematis_core::{DType, Dim, Result, Tensor, bail, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("Resize", resize),
    ("Upsample", |_, a| {
        let x = t(a, 0)?;
        let scales = if a.has(1, "scales") {
            floats(a, 1)?
        } else {
            numbers(a, "scales")?
        };
        let how = How {
            mode: a.text(NAMED, "mode", "nearest")?,
            place: "asymmetric",
            nearest: "floor",
            ..How::default()
        };
        let axes: Vec<usize> = (0..x.rank()).collect();
        resized(&x, &axes, &scales, None, &how, &[])
    }),
];

/// The parameters of `Resize`.
struct How<'a> {
    mode: &'a str,
    place: &'a str,
    nearest: &'a str,
    cubic: f64,
    antialias: bool,
    exclude_outside: bool,
    outside: f64,
}

impl Default for How<'_> {
    fn default() -> Self {
        How {
            mode: "nearest",
            place: "half_pixel",
            nearest: "round_prefer_floor",
            cubic: -0.75,
            antialias: false,
            exclude_outside: false,
            outside: 0.0,
        }
    }
}

fn resize(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = t(a, 0)?;
    let old = version(a) < 11;
    let how = How {
        mode: a.text(NAMED, "mode", "nearest")?,
        place: if old {
            "asymmetric"
        } else {
            a.text(NAMED, "coordinate_transformation_mode", "half_pixel")?
        },
        nearest: if old {
            "floor"
        } else {
            a.text(NAMED, "nearest_mode", "round_prefer_floor")?
        },
        cubic: a.float(NAMED, "cubic_coeff_a", -0.75)?,
        antialias: a.flag(NAMED, "antialias", false)?,
        exclude_outside: a.flag(NAMED, "exclude_outside", false)?,
        outside: a.float(NAMED, "extrapolation_value", 0.0)?,
    };
    let axes: Vec<usize> = match a.has(NAMED, "axes") {
        true => a
            .ints(NAMED, "axes")?
            .iter()
            .map(|&n| x.shape().axis(n, "resize"))
            .collect::<Result<_>>()?,
        false => (0..x.rank()).collect(),
    };
    let at_scales = if old { 1 } else { 2 };
    let given = |i: usize| a.has(i, "operand");
    if !old && given(3) && sizes(a, 3).is_none_or(|s| !s.is_empty()) {
        let Some(mut to) = sizes(a, 3) else {
            return super::unknown(a, 3);
        };
        if to.len() != axes.len() {
            bail!(
                Convert,
                "convert: `Resize`: expected one size per axis, got {} axes and {} sizes",
                axes.len(),
                to.len()
            );
        }
        let own = |i: usize| x.shape().dims()[axes[i]];
        let ratio = |i: usize| match (to[i].value(), own(i).value()) {
            (Some(to), Some(from)) if from > 0 => Ok(to as f64 / from as f64),
            _ if to[i] == own(i) => Ok(1.0),
            // A scale of two keeps a symbolic size symbolic.
            _ => match to[i].floor_div(own(i)).ok().and_then(|d| d.value()) {
                Some(n) if n > 0 && own(i) * Dim::number(n) == to[i] => Ok(n as f64),
                _ => bail!(
                    Unsupported,
                    "convert: `Resize` from {} to {}: sizes must be known",
                    own(i),
                    to[i]
                ),
            },
        };
        let mut scales = (0..to.len()).map(ratio).collect::<Result<Vec<f64>>>()?;
        let policy = a.text(NAMED, "keep_aspect_ratio_policy", "stretch")?;
        if policy != "stretch" {
            let fold = |start: f64, f: fn(f64, f64) -> f64| scales.iter().copied().fold(start, f);
            let one = if policy == "not_larger" {
                fold(f64::INFINITY, f64::min)
            } else {
                fold(0.0, f64::max)
            };
            scales = vec![one; axes.len()];
            for (to, &axis) in to.iter_mut().zip(&axes) {
                let Some(n) = x.shape().dims()[axis].value() else {
                    return super::unknown(a, 3);
                };
                *to = Dim::number((one * n as f64 + 0.5) as i64);
            }
        }
        return resized(&x, &axes, &scales, Some(&to), &how, &roi(a)?);
    }
    let scales = if given(at_scales) {
        floats(a, at_scales)?
    } else {
        return Err(a.bad("scales or sizes"));
    };
    resized(&x, &axes, &scales, None, &how, &roi(a)?)
}

/// The region of interest, if the mode uses one.
fn roi(a: &Args<'_>) -> Result<Vec<f64>> {
    let crops = a.text(NAMED, "coordinate_transformation_mode", "")? == "tf_crop_and_resize";
    if crops && a.has(1, "roi") {
        floats(a, 1)
    } else {
        Ok(Vec::new())
    }
}

fn resized(
    x: &Tensor,
    axes: &[usize],
    scales: &[f64],
    to: Option<&[Dim]>,
    how: &How<'_>,
    roi: &[f64],
) -> Result<Slot> {
    if scales.len() != axes.len() || scales.iter().any(|s| s.is_nan() || *s <= 0.0) {
        bail!(
            Convert,
            "convert: `Resize`: expected one scale per axis, got {} axes and scales {scales:?}",
            axes.len()
        );
    }
    let nearest = how.mode == "nearest";
    let dtype = x.dtype();
    let wide = if nearest || dtype.is_float() {
        x.clone()
    } else {
        ops::cast(x, DType::F32).done()?
    };
    let mut y = wide;
    for (i, &axis) in axes.iter().enumerate() {
        let region = match roi.len() == 2 * axes.len() {
            true => Some((roi[i], roi[i + axes.len()])),
            false => None,
        };
        let from = y.shape().dims()[axis];
        if scales[i] == 1.0
            && to.is_none_or(|to| to[i] == from)
            && region.is_none_or(|r| r == (0.0, 1.0))
        {
            continue;
        }
        let Some(n) = from.value() else {
            y = repeated(&y, axis, scales[i], how)?;
            continue;
        };
        let size = match to {
            Some(to) => to[i].value(),
            None => Some((n as f64 * scales[i]).floor() as i64),
        };
        let Some(size) = size.filter(|&s| (0..=MOST_TAPS).contains(&s) && n > 0 && n < 1 << 24)
        else {
            bail!(
                Convert,
                "convert: `Resize` of an axis of size {n} by {}",
                scales[i]
            );
        };
        let (rows, outside) = taps(n, size, scales[i], how, region)?;
        y = apply_weight_matrix(&y, axis, n as usize, &rows, nearest)?;
        if outside.iter().any(|&x| x) {
            let mut shape = vec![1i64; y.rank()];
            shape[axis] = size;
            let mask = ops::reshape(ops::from_slice(&outside, [outside.len()])?, shape);
            y = ops::where_(mask, Tensor::scalar(how.outside, y.dtype()), &y).done()?;
        }
    }
    if y.dtype() != dtype {
        let whole = ops::round(&y);
        return out(ops::cast(whole, dtype));
    }
    Ok(y.into())
}

/// An integer scale: each element is repeated.
fn repeated(x: &Tensor, axis: usize, scale: f64, how: &How<'_>) -> Result<Tensor> {
    let centred = matches!(
        how.place,
        "half_pixel" | "pytorch_half_pixel" | "half_pixel_symmetric"
    ) && how.nearest.starts_with("round");
    let plain = how.place == "asymmetric" && how.nearest == "floor";
    if how.mode != "nearest" || scale.fract() != 0.0 || !(centred || plain) {
        bail!(
            Unsupported,
            "convert: `Resize` of a symbolic axis in a mode other than repetition"
        );
    }
    ops::repeat(x, scale as usize, axis as i64).done()
}

/// For each output position, the input positions (taps) it is computed from and their weights, concatenated.
#[derive(Default)]
struct Taps {
    all: Vec<(i64, f64)>,
    /// The end of each position's taps.
    ends: Vec<usize>,
    /// The maximum number of taps of one position.
    most: usize,
}

impl Taps {
    fn push(&mut self, row: &[(i64, f64)]) {
        self.all.extend_from_slice(row);
        self.ends.push(self.all.len());
        self.most = self.most.max(row.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn rows(&self) -> impl Iterator<Item = &[(i64, f64)]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, &end)| &self.all[start..end])
    }
}

/// The maximum number of taps in all; they are stored in the program, whatever the size of the file.
const MOST_TAPS: i64 = 1 << 20;
/// The maximum number of elements of a weight matrix where gathering a few taps is an alternative.
const MATRIX: usize = 1 << 20;
const LARGEST_MATRIX: usize = 1 << 22;
/// Up to this many taps are gathered one by one.
const FEW_TAPS: usize = 16;

/// The taps of an output axis; and which positions are outside of the region.
fn taps(
    n: i64,
    size: i64,
    scale: f64,
    how: &How<'_>,
    region: Option<(f64, f64)>,
) -> Result<(Taps, Vec<bool>)> {
    let (from, whole) = (n as f64, n as f64 * scale);
    let mut rows = Taps::default();
    let mut outside = Vec::new();
    for i in 0..size {
        let i = i as f64;
        let at = match how.place {
            "align_corners" if whole == 1.0 => 0.0,
            "align_corners" => i * (from - 1.0) / (whole - 1.0),
            "asymmetric" => i / scale,
            "tf_crop_and_resize" => {
                let (start, end) = region.unwrap_or((0.0, 1.0));
                let inside = if whole == 1.0 {
                    (end - start) * (from - 1.0) / 2.0
                } else {
                    i * (end - start) * (from - 1.0) / (whole - 1.0)
                };
                inside + start * (from - 1.0)
            }
            "pytorch_half_pixel" if whole == 1.0 => -0.5,
            "half_pixel_symmetric" => {
                from / 2.0 * (1.0 - size as f64 / whole) + (i + 0.5) / scale - 0.5
            }
            "pytorch_half_pixel" | "half_pixel" => (i + 0.5) / scale - 0.5,
            other => bail!(
                Convert,
                "convert: `Resize`: unsupported coordinate_transformation_mode \"{other}\""
            ),
        };
        outside.push(how.place == "tf_crop_and_resize" && (at < 0.0 || at > from - 1.0));
        // A position that coincides with an element counts as the right one of two taps.
        let ratio = if at == at.floor() {
            1.0
        } else {
            at - at.floor()
        };
        let weights = coefficients(ratio, scale, how)?;
        let count = weights.len() as i64;
        if count.saturating_mul(size) > MOST_TAPS {
            bail!(
                Unsupported,
                "convert: `Resize`: expected at most {MOST_TAPS} taps, got {size} places with {count} each"
            );
        }
        let first = at.ceil() as i64 - count / 2;
        let mut row: Vec<(i64, f64)> = weights
            .into_iter()
            .enumerate()
            .map(|(k, w)| (first + k as i64, w))
            .collect();
        if how.exclude_outside {
            for tap in &mut row {
                if tap.0 < 0 || tap.0 >= n {
                    tap.1 = 0.0;
                }
            }
            let sum: f64 = row.iter().map(|t| t.1).sum();
            for tap in &mut row {
                tap.1 /= if sum == 0.0 { 1.0 } else { sum };
            }
        }
        for tap in &mut row {
            tap.0 = tap.0.clamp(0, n - 1);
        }
        rows.push(&row);
    }
    Ok((rows, outside))
}

fn coefficients(ratio: f64, scale: f64, how: &How<'_>) -> Result<Vec<f64>> {
    let bit = |right: bool| {
        if right {
            vec![0.0, 1.0]
        } else {
            vec![1.0, 0.0]
        }
    };
    let shrink = scale.min(1.0);
    let reach = |width: f64| -> Result<i64> {
        let start = (-width / shrink).floor() as i64 + 1;
        if start < -(1 << 20) {
            bail!(Convert, "convert: `Resize` by scale {scale} with antialias");
        }
        Ok(start)
    };
    let scaled = |xs: Vec<f64>| {
        let sum: f64 = xs.iter().sum();
        xs.into_iter().map(|x| x / sum).collect()
    };
    Ok(match (how.mode, how.antialias) {
        ("nearest", _) => match how.nearest {
            _ if ratio == 1.0 => bit(true),
            "round_prefer_floor" => bit(ratio > 0.5),
            "round_prefer_ceil" => bit(ratio >= 0.5),
            "floor" => bit(false),
            "ceil" => bit(true),
            other => bail!(
                Convert,
                "convert: `Resize`: unsupported nearest_mode \"{other}\""
            ),
        },
        ("linear" | "bilinear" | "trilinear", false) => vec![1.0 - ratio, ratio],
        ("linear", true) => {
            let start = reach(1.0)?;
            let taps = start..start + (2 - 2 * start);
            scaled(
                taps.map(|i| (1.0 - ((i as f64 - ratio) * shrink).abs()).clamp(0.0, 1.0))
                    .collect(),
            )
        }
        ("cubic", antialias) => {
            let a = how.cubic;
            let at = |x: f64| {
                let x = x.abs();
                if x <= 1.0 {
                    ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
                } else if x < 2.0 {
                    ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
                } else {
                    0.0
                }
            };
            if !antialias {
                return Ok(vec![
                    at(ratio + 1.0),
                    at(ratio),
                    at(1.0 - ratio),
                    at(2.0 - ratio),
                ]);
            }
            let start = reach(2.0)?;
            scaled(
                (start..2 - start)
                    .map(|i| at(shrink * (i as f64 - ratio)))
                    .collect(),
            )
        }
        (other, _) => bail!(Convert, "convert: `Resize` by \"{other}\""),
    })
}

/// Gathers the first taps of all positions, then the second ones, and so on, and sums them.
fn gather_taps(x: &Tensor, axis: usize, rows: &Taps) -> Result<Tensor> {
    let mut shape = vec![1usize; x.rank()];
    shape[axis] = rows.len();
    let mut sum: Option<Expr> = None;
    for k in 0..rows.most {
        let (places, weights): (Vec<i64>, Vec<f64>) = rows
            .rows()
            .map(|row| row.get(k).copied().unwrap_or((0, 0.0)))
            .unzip();
        let weights = ops::from_slice(&weights, shape.as_slice())?;
        let weights = ops::cast(weights, x.dtype());
        let places = ops::from_slice(&places, [places.len()])?;
        let part = ops::take(x, places, axis as i64) * weights;
        sum = Some(match sum {
            Some(sum) => sum + part,
            None => part,
        });
    }
    match sum {
        Some(sum) => sum.done(),
        None => bail!(Convert, "convert: `Resize` to size 0"),
    }
}

/// A matmul with the weight matrix along an axis; single taps are gathered.
fn apply_weight_matrix(
    x: &Tensor,
    axis: usize,
    from: usize,
    rows: &Taps,
    nearest: bool,
) -> Result<Tensor> {
    if nearest {
        let best = |row: &[(i64, f64)]| row.iter().find(|t| t.1 == 1.0).map_or(0, |t| t.0);
        let places: Vec<i64> = rows.rows().map(best).collect();
        return ops::take(x, ops::from_slice(&places, [places.len()])?, axis as i64).done();
    }
    let size = rows.len().saturating_mul(from);
    if size > MATRIX && rows.most <= FEW_TAPS {
        return gather_taps(x, axis, rows);
    }
    if size > LARGEST_MATRIX {
        bail!(
            Unsupported,
            "convert: `Resize`: expected a matrix of at most {LARGEST_MATRIX} weights, got {from} by {}",
            rows.len()
        );
    }
    let count = rows.len();
    let mut matrix = vec![0f64; count * from];
    for (i, row) in rows.rows().enumerate() {
        for (at, weight) in row {
            matrix[*at as usize * count + i] += weight;
        }
    }
    let matrix = ops::cast(ops::from_slice(&matrix, [from, count])?, x.dtype()).done()?;
    let last = ops::matmul(ops::move_axis(x, axis as i64, -1), matrix);
    ops::move_axis(last, -1, axis as i64).done()
}
