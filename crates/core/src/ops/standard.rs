//! The other functions of the Array API standard, composed of the functions in the other files.

use super::elementwise::to_dtype;
use super::{IntoAxes, with2};
use crate::dim::Dim;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::expr::{Expr, IntoExpr, constant};
use crate::op::CumulativeKind;
use crate::shape::{Shape, normalize_axis};
use crate::tensor::Tensor;
use crate::{backend, bail, ensure, limit};

/// Clips `x` to optional bounds that broadcast.
pub fn clip(x: impl IntoExpr, low: Option<&Tensor>, high: Option<&Tensor>) -> Expr {
    x.into_expr().then(|x| {
        let dtype = x.dtype();
        let mut out = x.clone();
        if let Some(low) = low {
            out = super::maximum(&out, to_dtype(low, dtype)?).done()?;
        }
        if let Some(high) = high {
            out = super::minimum(&out, to_dtype(high, dtype)?).done()?;
        }
        Ok(out)
    })
}

/// A tensor filled with one value, with the shape and backend of another tensor.
pub fn full_of(x: &Tensor, value: impl Into<Scalar>, dtype: DType) -> Expr {
    let make = || super::full(x.shape(), value, dtype);
    match x.backend() {
        Some(b) => backend::with(b, make),
        None => make(),
    }
}

/// A copy in memory of its own.
pub fn copied(x: &Tensor) -> Expr {
    // `where` computes a new buffer; a view would share memory.
    super::where_(true, x, x)
}

/// Evenly spaced numbers, real or complex.
pub fn linspace_between(
    start: Scalar,
    stop: Scalar,
    count: usize,
    endpoint: bool,
    dtype: DType,
) -> Expr {
    let ((a, ai), (b, bi)) = (start.as_complex(), stop.as_complex());
    if !dtype.is_complex() {
        let line = super::linspace(a, b, count, endpoint, DType::F64);
        // Integers are truncated, not rounded, as by `cast`.
        return line.then(|x| to_dtype(&x, dtype));
    }
    let real = dtype.real();
    super::complex(
        super::linspace(a, b, count, endpoint, real),
        super::linspace(ai, bi, count, endpoint, real),
    )
}

/// Coordinate matrices of vectors; the first two axes are exchanged for `xy`.
pub fn meshgrid(xs: &[Tensor], xy: bool) -> Result<Vec<Tensor>> {
    let n = xs.len();
    let swap = xy && n > 1;
    let place = |i: usize| match i {
        0 if swap => 1,
        1 if swap => 0,
        other => other,
    };
    let mut shape = vec![Dim::number(1); n];
    for (i, x) in xs.iter().enumerate() {
        ensure!(
            x.rank() <= 1,
            Shape,
            "meshgrid: expected vectors, got {}",
            x.spec()
        );
        ensure!(
            x.dtype() == xs[0].dtype(),
            DType,
            "meshgrid: expected vectors of one dtype, got {} and {}",
            xs[0].dtype(),
            x.dtype()
        );
        shape[place(i)] = x.shape().count_dim();
    }
    let shape = Shape::from_dims(shape);
    xs.iter()
        .enumerate()
        .map(|(i, x)| {
            let flat = super::reshape(x, [-1i64]).done()?;
            super::broadcast_in(&flat, &shape, &[place(i)]).done()
        })
        .collect()
}

/// Moves axes to other positions; the others keep their order.
pub fn move_axes(x: impl IntoExpr, from: &[i64], to: &[i64]) -> Expr {
    x.into_expr().then(|x| {
        ensure!(
            from.len() == to.len(),
            Value,
            "moveaxis: got {} axes for {} destinations",
            from.len(),
            to.len()
        );
        let from = x.shape().axes(from, "moveaxis")?;
        let to = x.shape().axes(to, "moveaxis")?;
        let mut order: Vec<Option<usize>> = vec![None; x.rank()];
        for (&a, &b) in from.iter().zip(to.iter()) {
            order[b] = Some(a);
        }
        let mut rest = (0..x.rank()).filter(|a| !from.contains(a));
        let order: Vec<i64> = order
            .into_iter()
            .map(|a| a.or_else(|| rest.next()).unwrap_or(0) as i64)
            .collect();
        super::permute(&x, order).done()
    })
}

/// Inserts axes of size 1 at these positions of the result.
pub fn expand_axes(x: impl IntoExpr, axes: &[i64]) -> Expr {
    x.into_expr().then(|x| {
        let rank = x.rank() + axes.len();
        let mut places = axes
            .iter()
            .map(|&a| normalize_axis(a, rank, "expand_dims"))
            .collect::<Result<Vec<_>>>()?;
        places.sort_unstable();
        ensure!(
            places.windows(2).all(|w| w[0] != w[1]),
            Index,
            "expand_dims: an axis occurs twice in {axes:?}"
        );
        let mut shape = x.shape().clone();
        for place in places {
            shape = shape.insert(place, 1usize);
        }
        super::reshape(&x, &shape).done()
    })
}

/// Concatenates all operands along an axis with promotion; without an axis they are flattened first.
pub fn concat_flat(xs: &[Tensor], axis: Option<i64>) -> Expr {
    match axis {
        Some(axis) => super::concat(xs, axis),
        None => {
            let flat: Result<Vec<Tensor>> = xs
                .iter()
                .map(|x| super::reshape(x, [-1i64]).done())
                .collect();
            match flat {
                Ok(flat) => super::concat(&flat, 0),
                Err(e) => Err(e).into_expr(),
            }
        }
    }
}

/// The slices along an axis.
pub fn unstack(x: &Tensor, axis: i64) -> Result<Vec<Tensor>> {
    let axis = x.shape().axis(axis, "unstack")?;
    let n = x.shape().known_size(axis, "unstack")?;
    (0..n as i64)
        .map(|i| super::squeeze(super::slice_axis(x, axis as i64, i, i + 1), axis).done())
        .collect()
}

/// Splits along an axis at these indices.
pub fn split_at(x: &Tensor, places: &[i64], axis: i64) -> Result<Vec<Tensor>> {
    let axis = x.shape().axis(axis, "split")?;
    let n = x.shape().known_size(axis, "split")? as i64;
    let mut ends: Vec<i64> = places
        .iter()
        .map(|&p| if p < 0 { p + n } else { p }.clamp(0, n))
        .collect();
    ends.push(n);
    let mut start = 0;
    ends.into_iter()
        .map(|end| {
            let part = super::slice_axis(x, axis as i64, start, end.max(start)).done();
            start = end;
            part
        })
        .collect()
}

/// Rotates along axes, each by its own shift; without axes over all elements.
pub fn roll_axes(x: impl IntoExpr, shifts: &[i64], axes: Option<&[i64]>) -> Expr {
    x.into_expr().then(|x| {
        let Some(axes) = axes else {
            let total: i64 = shifts.iter().sum();
            if x.rank() == 0 {
                return Ok(x);
            }
            let flat = super::roll(super::reshape(&x, [-1i64]), total, 0);
            return super::reshape(flat, x.shape()).done();
        };
        let pairs: Vec<(i64, i64)> = match (shifts, axes) {
            ([one], axes) => axes.iter().map(|&axis| (*one, axis)).collect(),
            (shifts, [one]) => shifts.iter().map(|&shift| (shift, *one)).collect(),
            (shifts, axes) => {
                ensure!(
                    shifts.len() == axes.len(),
                    Value,
                    "roll: got {} shifts for {} axes",
                    shifts.len(),
                    axes.len()
                );
                shifts.iter().copied().zip(axes.iter().copied()).collect()
            }
        };
        let mut out = x;
        for (shift, axis) in pairs {
            out = super::roll(&out, shift, axis).done()?;
        }
        Ok(out)
    })
}

/// Repeats each element, by one count for all or by a count for each. The latter needs concrete counts.
pub fn repeat_each(x: impl IntoExpr, times: &Tensor, axis: Option<i64>) -> Expr {
    x.into_expr().then(|x| {
        ensure!(
            times.dtype().is_int(),
            DType,
            "repeat: expected integer repeats, got {}",
            times.spec()
        );
        let (x, axis) = match axis {
            Some(axis) => (x, axis),
            None => (super::reshape(&x, [-1i64]).done()?, 0),
        };
        let host = times.to_host()?;
        let mut counts: Vec<usize> = Vec::with_capacity(times.shape().count());
        for i in 0..times.shape().count() {
            let count = host.get(i)?.as_i128();
            let Ok(count) = usize::try_from(count) else {
                bail!(Value, "repeat: expected non-negative repeats, got {count}");
            };
            counts.push(count);
        }
        if let [count] = counts[..] {
            return super::repeat(&x, count, axis).done();
        }
        let at = x.shape().axis(axis, "repeat")?;
        let n = x.shape().known_size(at, "repeat")?;
        ensure!(
            counts.len() == n,
            Shape,
            "repeat: got {} repeats for {n} elements",
            counts.len()
        );
        let total = counts.iter().fold(0, |n: usize, &c| n.saturating_add(c));
        let mut places: Vec<i64> = limit::list("repeat", "repeated elements", &[total])?;
        for (i, &count) in counts.iter().enumerate() {
            places.extend(std::iter::repeat_n(i as i64, count));
        }
        let make = || super::from_slice(&places, [places.len()]);
        let places = match x.backend() {
            Some(b) => backend::with(b, make)?,
            None => make()?,
        };
        super::take_known(&x, &places, axis).done()
    })
}

/// Pads with a value before and after each axis; negative widths crop.
pub fn pad_by(x: impl IntoExpr, widths: &[(i64, i64)], value: impl IntoExpr) -> Expr {
    let (low, high): (Vec<Dim>, Vec<Dim>) = widths
        .iter()
        .map(|&(a, b)| (Dim::number(a), Dim::number(b)))
        .unzip();
    super::pad(x, value, &low, &high, &vec![0; widths.len()])
}

/// Restores reduced axes of an arg-reduction's result: the given axis, or all axes.
pub fn keep_axis(places: impl IntoExpr, shape: &Shape, axis: Option<i64>) -> Expr {
    places.into_expr().then(|p| {
        let mut kept = shape.clone();
        match axis {
            Some(axis) => kept = kept.with(shape.axis(axis, "keepdims")?, 1usize),
            None => {
                for a in 0..shape.rank() {
                    kept = kept.with(a, 1usize);
                }
            }
        }
        super::reshape(&p, &kept).done()
    })
}

/// A cumulative reduction; optionally starts with the identity.
pub fn running(
    kind: CumulativeKind,
    x: impl IntoExpr,
    axis: Option<i64>,
    include_initial: bool,
) -> Expr {
    x.into_expr().then(|x| {
        let axis = match axis {
            Some(axis) => axis,
            None if x.rank() == 1 => 0,
            None => bail!(
                Value,
                "cumulative: expected an axis for {} of {} axes",
                x.spec(),
                x.rank()
            ),
        };
        let at = x.shape().axis(axis, "cumulative")?;
        let out = super::cumulative(kind, &x, axis, false).done()?;
        if !include_initial {
            return Ok(out);
        }
        let first = match kind {
            CumulativeKind::Sum => Scalar::from(0),
            CumulativeKind::Prod => Scalar::from(1),
            CumulativeKind::LogSumExp => Scalar::from(f64::NEG_INFINITY),
            CumulativeKind::Max | CumulativeKind::Min => {
                bail!(Value, "cumulative: {} has no identity", kind.name())
            }
        };
        let row = super::full_of(&out, first, out.dtype()).done()?;
        let row = match row.shape().dims()[at].value() {
            Some(0) => super::full(row.shape().with(at, 1usize), first, out.dtype()).done()?,
            _ => super::slice_axis(&row, at as i64, 0, 1).done()?,
        };
        super::concat(&[row, out], axis).done()
    })
}

/// One element per index along an axis; the other axes broadcast.
pub fn take_along(x: impl IntoExpr, indices: impl IntoExpr, axis: i64) -> Expr {
    with2(x, indices, |x, i| {
        let at = x.shape().axis(axis, "take_along_axis")?;
        ensure!(
            x.rank() == i.rank(),
            Shape,
            "take_along_axis: expected operands of equal rank, got {} and {}",
            x.spec(),
            i.spec()
        );
        let one = |s: &Shape| s.with(at, 1usize);
        let both = one(x.shape()).broadcast_with(&one(i.shape()), "take_along_axis")?;
        let x = super::broadcast_to(&x, both.with(at, x.shape().dims()[at])).done()?;
        let i = super::broadcast_to(&i, both.with(at, i.shape().dims()[at])).done()?;
        super::take_along_axis(&x, &i, axis).done()
    })
}

/// The indices of the nonzero elements, one vector per axis. Needs concrete values.
pub fn nonzero_by_axis(x: &Tensor) -> Result<Vec<Tensor>> {
    ensure!(
        x.rank() > 0,
        Shape,
        "nonzero: expected an operand with axes, got {}",
        x.spec()
    );
    let places = super::nonzero(x).done()?;
    unstack(&places, 1)
}

/// Whether each element of `x` occurs in `among`.
pub fn isin(x: impl IntoExpr, among: impl IntoExpr, invert: bool) -> Expr {
    with2(x, among, |x, among| {
        let (x, among) = super::elementwise::promoted(x, among, crate::op::Takes::Any)?;
        let flat = super::reshape(&among, [-1i64]).done()?;
        let found = super::any(super::equal(super::expand_dims(&x, -1), &flat), -1);
        if invert {
            super::logical_not(found).done()
        } else {
            found.done()
        }
    })
}

/// The cross product of vectors with three elements along an axis.
pub fn cross(x: impl IntoExpr, y: impl IntoExpr, axis: i64) -> Expr {
    with2(x, y, |x, y| {
        let (x, y) = super::elementwise::promoted(x, y, crate::op::Takes::Any)?;
        // A negative axis is resolved before broadcasting, as the standard requires.
        ensure!(
            axis < 0 || x.rank() == y.rank(),
            Shape,
            "cross: axis {axis} of {} and {}",
            x.spec(),
            y.spec()
        );
        for t in [&x, &y] {
            let at = t.shape().axis(axis, "cross")?;
            ensure!(
                t.shape().dims()[at] == 3usize,
                Shape,
                "cross: expected 3 elements along axis {at}, got {}",
                t.spec()
            );
        }
        let both = x.shape().broadcast_with(y.shape(), "cross")?;
        let x = super::broadcast_to(&x, &both).done()?;
        let y = super::broadcast_to(&y, &both).done()?;
        let rolled = |t: &Tensor, by: i64| super::roll(t, by, axis);
        (rolled(&x, -1) * rolled(&y, -2) - rolled(&x, -2) * rolled(&y, -1)).done()
    })
}

/// A vector norm: of order 2, 1, 0, ±inf or any number.
pub fn vector_norm(x: impl IntoExpr, axes: impl IntoAxes, order: f64) -> Expr {
    x.into_expr().then(|x| {
        let axes: Vec<i64> = axes
            .resolve(x.shape(), "vector_norm")?
            .iter()
            .map(|&a| a as i64)
            .collect();
        if order == 2.0 {
            return super::norm(&x, axes).done();
        }
        let size = super::abs(&x).done()?;
        let dtype = size.dtype();
        if order == f64::INFINITY {
            // The norm of an empty vector is 0.
            let empty = size.shape().count_dim() == 0usize;
            return if empty {
                super::sum(&size, axes).done()
            } else {
                super::max(&size, axes).done()
            };
        }
        if order == f64::NEG_INFINITY {
            return super::min(&size, axes).done();
        }
        if order == 0.0 {
            return super::sum(super::cast(super::not_equal(&size, 0), dtype), axes).done();
        }
        if order == 1.0 {
            return super::sum(&size, axes).done();
        }
        let total = super::sum(super::pow(&size, constant(order, dtype)), axes);
        super::pow(total, constant(1.0 / order, dtype)).done()
    })
}

/// The kind of matrix norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MatrixNorm {
    /// The square root of the sum of squares.
    Frobenius,
    /// The sum of singular values.
    Nuclear,
    /// 1, 2, inf or their negatives: the maximum or minimum of column sums, singular values or row sums.
    Order(f64),
}

/// A norm of the matrices in the last two axes.
pub fn matrix_norm(x: &Tensor, kind: MatrixNorm, keep: bool) -> Expr {
    let out = match kind {
        MatrixNorm::Frobenius => super::norm(x, vec![-2i64, -1]),
        MatrixNorm::Nuclear => super::sum(super::svdvals(x), -1),
        MatrixNorm::Order(order) => {
            let sums = |axis: i64| super::sum(super::abs(x), axis);
            match order.abs() {
                1.0 => extreme(sums(-2), order),
                2.0 => extreme(super::svdvals(x), order),
                f64::INFINITY => extreme(sums(-1), order),
                _ => {
                    return Err(crate::Error::new(
                        crate::Kind::Value,
                        format!(
                            "matrix_norm: expected order 1, 2, inf or a negative of these, got {order}"
                        ),
                    ))
                    .into_expr();
                }
            }
        }
    };
    if keep {
        out.then(|t| expand_axes(t, &[-2, -1]))
    } else {
        out
    }
}

/// The maximum or minimum along the last axis; the maximum of an empty axis is 0, since norms are not negative.
fn extreme(x: Expr, order: f64) -> Expr {
    x.then(|x| match x.shape().dims().last() {
        Some(n) if order > 0.0 && *n == 0usize => super::sum(&x, -1).done(),
        _ if order > 0.0 => super::max(&x, -1).done(),
        _ => super::min(&x, -1).done(),
    })
}

/// The threshold below which singular values count as zero.
fn negligible(x: &Tensor, rtol: Option<&Tensor>) -> Result<Tensor> {
    let (m, n) = match x.shape().dims() {
        [.., m, n] => (*m, *n),
        _ => bail!(Shape, "matrix: expected a matrix, got {}", x.spec()),
    };
    match rtol {
        Some(r) => super::expand_dims(to_dtype(r, x.dtype().real())?, -1).done(),
        None => {
            let side = m.value().unwrap_or(1).max(n.value().unwrap_or(1)) as f64;
            let eps = match x.dtype().real() {
                DType::F64 => f64::EPSILON,
                _ => f64::from(f32::EPSILON),
            };
            Ok(Tensor::scalar(side * eps, x.dtype().real()))
        }
    }
}

/// The matrix rank: the number of singular values larger than `rtol` times the largest.
pub fn matrix_rank(x: &Tensor, rtol: Option<&Tensor>) -> Expr {
    let out = || -> Result<Tensor> {
        let values = super::svdvals(x).done()?;
        let bound = negligible(x, rtol)?;
        if values.shape().dims()[values.rank() - 1] == 0usize {
            return super::sum(super::cast(&values, DType::INDEX), -1).done();
        }
        let largest = super::keepdims(&values, -1, super::max);
        let counted = super::greater(&values, largest * bound);
        super::sum(super::cast(counted, DType::INDEX), -1).done()
    };
    out().into_expr()
}

/// The Moore-Penrose inverse, with a tolerance that may differ per matrix.
pub fn pinv_by(x: &Tensor, rtol: Option<&Tensor>) -> Expr {
    let out = || -> Result<Tensor> {
        let Some(rtol) = rtol else {
            return super::pinv(x, None).done();
        };
        let (u, s, vh) = super::svd(x, false)?;
        if s.shape().dims().last().is_some_and(|n| *n == 0usize) {
            return super::conj(super::matrix_transpose(x)).done();
        }
        let bound = negligible(x, Some(rtol))?;
        let largest = super::keepdims(&s, -1, super::max);
        let keep = super::greater(&s, largest * bound).done()?;
        let safe = super::where_(&keep, &s, 1.0);
        let scale = super::where_(&keep, 1.0 / safe, 0.0);
        let scale = super::cast(super::expand_dims(scale, -2), x.dtype());
        let v = super::conj(super::matrix_transpose(&vh)) * scale;
        super::matmul(v, super::conj(super::matrix_transpose(&u))).done()
    };
    out().into_expr()
}

/// The Fourier transforms of the Array API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fourier {
    /// `fft`.
    Forward,
    /// `ifft`.
    Inverse,
    /// `rfft`.
    Real,
    /// `irfft`.
    RealInverse,
    /// `hfft`.
    Hermitian,
    /// `ihfft`.
    HermitianInverse,
}

/// Which direction of a transform is scaled by 1/n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// The inverse transform.
    Backward,
    /// Both, by 1/√n.
    Ortho,
    /// The forward transform.
    Forward,
}

impl Norm {
    /// Parses the name.
    pub fn from_name(name: &str, op: &str) -> Result<Norm> {
        Ok(match name {
            "backward" => Norm::Backward,
            "ortho" => Norm::Ortho,
            "forward" => Norm::Forward,
            _ => bail!(
                Value,
                "{op}: expected norm `backward`, `ortho` or `forward`, got `{name}`"
            ),
        })
    }
}

/// A transform over axes, of these lengths: truncated or zero-padded.
pub fn fourier(
    kind: Fourier,
    x: impl IntoExpr,
    lengths: Option<Vec<usize>>,
    axes: Option<Vec<i64>>,
    norm: Norm,
) -> Expr {
    x.into_expr().then(|x| {
        let rank = x.rank() as i64;
        let axes = match (axes, &lengths) {
            (Some(axes), _) => axes,
            (None, Some(l)) => (rank - l.len() as i64..rank).collect(),
            (None, None) => (0..rank).collect(),
        };
        let axes: Vec<usize> = axes
            .iter()
            .map(|&a| x.shape().axis(a, "fft"))
            .collect::<Result<_>>()?;
        if let Some(l) = &lengths {
            ensure!(
                l.len() == axes.len() && l.iter().all(|&n| n > 0),
                Value,
                "fft: lengths {l:?} for {} axes",
                axes.len()
            );
        }
        let Some(&last) = axes.last() else {
            bail!(Value, "fft: expected at least one axis");
        };
        let halved_in = matches!(kind, Fourier::RealInverse | Fourier::Hermitian);
        let natural = |a: usize| -> Result<usize> {
            let n = x.shape().known_size(a, "fft")?;
            Ok(if halved_in && a == last {
                2 * n.saturating_sub(1)
            } else {
                n
            })
        };
        let lengths: Vec<usize> = match lengths {
            Some(l) => l,
            None => axes.iter().map(|&a| natural(a)).collect::<Result<_>>()?,
        };
        let total: f64 = lengths.iter().map(|&n| n as f64).product();
        let mut x = match kind {
            Fourier::Forward | Fourier::Inverse | Fourier::RealInverse | Fourier::Hermitian => {
                let complex = x.dtype().complex();
                to_dtype(&x, complex)?
            }
            _ if x.dtype().is_inexact() => x,
            _ => to_dtype(&x, DType::FLOAT)?,
        };
        for (&a, &n) in axes.iter().zip(&lengths) {
            let want = if halved_in && a == last { n / 2 + 1 } else { n };
            x = resized(&x, a, want)?;
        }
        let list: Vec<i64> = axes.iter().map(|&a| a as i64).collect();
        let inner = *lengths.last().unwrap_or(&1);
        // The op itself scales as `backward` does.
        let inverse = matches!(
            kind,
            Fourier::Inverse | Fourier::RealInverse | Fourier::HermitianInverse
        );
        let out = match kind {
            Fourier::Forward => super::fft(&x, &list),
            Fourier::Inverse => super::ifft(&x, &list),
            Fourier::Real => super::rfft(&x, &list),
            Fourier::RealInverse => super::irfft(&x, &list, Some(inner)),
            // The spectrum of a Hermitian signal is the inverse transform of its conjugate, not scaled.
            Fourier::Hermitian => super::irfft(super::conj(&x), &list, Some(inner)) * total,
            Fourier::HermitianInverse => super::conj(super::rfft(&x, &list)) / total,
        };
        let scale = match (norm, inverse) {
            (Norm::Backward, _) => 1.0,
            (Norm::Ortho, false) => total.sqrt().recip(),
            (Norm::Ortho, true) => total.sqrt(),
            (Norm::Forward, false) => total.recip(),
            (Norm::Forward, true) => total,
        };
        if scale == 1.0 {
            out.done()
        } else {
            (out * scale).done()
        }
    })
}

fn resized(x: &Tensor, axis: usize, n: usize) -> Result<Tensor> {
    let own = x.shape().known_size(axis, "fft")?;
    if own == n {
        return Ok(x.clone());
    }
    let mut widths = vec![(0, 0); x.rank()];
    widths[axis].1 = n as i64 - own as i64;
    pad_by(x, &widths, 0).done()
}

/// The frequencies of a spectrum of `n` samples `spacing` apart, or of its non-negative half.
pub fn frequencies(n: usize, spacing: f64, half: bool, dtype: DType) -> Expr {
    let count = if half { n / 2 + 1 } else { n };
    let k = super::iota([count], 0, DType::F64);
    let signed = if half {
        k
    } else {
        let middle = n.div_ceil(2) as f64;
        k.then(|k| super::where_(super::less(&k, middle), &k, &k - n as f64))
    };
    (signed / (n as f64 * spacing)).then(|x| to_dtype(&x, dtype))
}

/// Shifts the zero frequency to the middle, or back to the front.
pub fn shift_frequencies(x: impl IntoExpr, axes: Option<Vec<i64>>, back: bool) -> Expr {
    x.into_expr().then(|x| {
        let axes = axes.unwrap_or_else(|| (0..x.rank() as i64).collect());
        let mut out = x;
        for a in axes {
            let at = out.shape().axis(a, "fftshift")?;
            let n = out.shape().known_size(at, "fftshift")? as i64;
            out = super::roll(&out, if back { -(n / 2) } else { n / 2 }, a).done()?;
        }
        Ok(out)
    })
}
