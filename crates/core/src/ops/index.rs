//! Indexing, gather, scatter, `take`, `put`, `nonzero` and `unique`.
//!
//! Negative indices count from the end. An index out of range is an error: immediately for concrete indices, when the
//! program runs for traced ones.

use super::{create::iota_like, elementwise::to_dtype, require::require, with2};
use crate::dim::Dim;
use crate::dispatch::apply_one;
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::{Expr, IntoExpr};
use crate::op::{Composite, Dims, Gather, Op, OutOfRange, Scatter, ScatterKind, Slice};
use crate::precondition::Precondition;
use crate::shape::{Axes, Shape};
use crate::tensor::{Repr, Tensor};
use crate::{bail, ensure};

/// One part of an index expression.
#[derive(Clone, Debug)]
pub enum At {
    /// An index; the axis is removed.
    Place(i64),
    /// A slice `x[start:stop:step]`; negative bounds count from the end.
    Range(Option<i64>, Option<i64>, i64),
    /// A new axis of size 1.
    New,
    /// All remaining axes (an ellipsis).
    Rest,
}

impl From<i32> for At {
    fn from(place: i32) -> At {
        At::Place(i64::from(place))
    }
}
impl From<i64> for At {
    fn from(place: i64) -> At {
        At::Place(place)
    }
}
impl From<std::ops::RangeFull> for At {
    fn from(_: std::ops::RangeFull) -> At {
        At::Range(None, None, 1)
    }
}
impl From<std::ops::Range<i64>> for At {
    fn from(r: std::ops::Range<i64>) -> At {
        At::Range(Some(r.start), Some(r.end), 1)
    }
}
impl From<std::ops::Range<i32>> for At {
    fn from(r: std::ops::Range<i32>) -> At {
        At::Range(Some(r.start.into()), Some(r.end.into()), 1)
    }
}
impl From<std::ops::RangeFrom<i32>> for At {
    fn from(r: std::ops::RangeFrom<i32>) -> At {
        At::Range(Some(r.start.into()), None, 1)
    }
}
impl From<std::ops::RangeTo<i32>> for At {
    fn from(r: std::ops::RangeTo<i32>) -> At {
        At::Range(None, Some(r.end.into()), 1)
    }
}

/// Basic indexing: `index(x, &[At::from(0), At::from(1..3)])`; no copy on the native engine.
pub fn index(x: impl IntoExpr, at: &[At]) -> Expr {
    x.into_expr().then(|x| {
        let used = at
            .iter()
            .filter(|a| matches!(a, At::Place(_) | At::Range(..)))
            .count();
        let rests = at.iter().filter(|a| matches!(a, At::Rest)).count();
        ensure!(
            used <= x.rank(),
            Index,
            "index: got {used} indices for {}",
            x.spec()
        );
        ensure!(
            rests <= 1,
            Index,
            "index: expected at most one `...`, got {rests}"
        );
        let mut parts: Vec<At> = Vec::new();
        let fill = || std::iter::repeat_n(At::Range(None, None, 1), x.rank() - used);
        for a in at {
            match a {
                At::Rest => parts.extend(fill()),
                other => parts.push(other.clone()),
            }
        }
        if rests == 0 {
            parts.extend(fill());
        }
        let (mut start, mut limit, mut strides) = (Dims::new(), Dims::new(), Vec::new());
        let (mut reversed, mut kept, mut axis) = (Vec::new(), Vec::new(), 0);
        for part in parts {
            if let At::New = part {
                kept.push(None);
                continue;
            }
            let dim = x.shape().dims()[axis];
            let (from, to, step) = match part {
                At::Range(None, None, 1) => (Dim::number(0), dim, 1),
                At::Place(place) => {
                    let place = one_place(&x, axis, place)?;
                    (Dim::from(place), Dim::from(place + 1), 1)
                }
                At::Range(a, b, step) => range_of(&x, axis, a, b, step)?,
                At::New | At::Rest => continue,
            };
            if step < 0 {
                reversed.push(axis);
            }
            start.push(from);
            limit.push(to);
            strides.push(step.unsigned_abs() as usize);
            if !matches!(part, At::Place(_)) {
                kept.push(Some(axis));
            }
            axis += 1;
        }
        let mut out = apply_one(
            &Slice {
                start,
                limit,
                strides: strides[..].into(),
            }
            .into(),
            &[&x],
        )?;
        if !reversed.is_empty() {
            out = apply_one(&Op::Reverse(reversed[..].into()), &[&out])?;
        }
        let shape = kept
            .iter()
            .map(|k| k.map_or(Dim::number(1), |a| out.shape().dims()[a]));
        super::reshape(&out, Shape::from_dims(shape.collect::<Vec<_>>())).done()
    })
}

fn one_place(x: &Tensor, axis: usize, place: i64) -> Result<i64> {
    let dim = x.shape().dims()[axis];
    let Some(size) = dim.value() else {
        ensure!(
            place >= 0,
            Index,
            "index: {place} counts from the end of symbolic size {dim}"
        );
        return Ok(place);
    };
    ensure!(
        (-size..size).contains(&place),
        Index,
        "index: {place} is out of range for {size} (axis {axis} of {})",
        x.spec()
    );
    Ok(if place < 0 { place + size } else { place })
}

/// Start, limit and step of a slice with positive step; a negative step slices the same elements and reverses them.
fn range_of(
    x: &Tensor,
    axis: usize,
    a: Option<i64>,
    b: Option<i64>,
    step: i64,
) -> Result<(Dim, Dim, i64)> {
    ensure!(step != 0, Value, "index: step 0");
    let dim = x.shape().dims()[axis];
    let Some(size) = dim.value() else {
        bail!(
            Trace,
            "index: axis {axis} of {} is symbolic; slice it with slice_axis",
            x.spec()
        );
    };
    let clip = |i: i64, low: i64, high: i64| (if i < 0 { i + size } else { i }).clamp(low, high);
    if step > 0 {
        let from = a.map_or(0, |i| clip(i, 0, size));
        let to = b.map_or(size, |i| clip(i, 0, size)).max(from);
        return Ok((from.into(), to.into(), step));
    }
    let from = a.map_or(size - 1, |i| clip(i, -1, size - 1));
    let to = b.map_or(-1, |i| clip(i, -1, size - 1)).min(from);
    let count = (from - to + (-step) - 1) / -step;
    let first = from + (count - 1) * step;
    if count == 0 {
        return Ok((0.into(), 0.into(), step));
    }
    Ok((first.into(), (from + 1).into(), step))
}

/// Checks that indices are in range of an axis of this size, and moves negative ones to the front.
pub fn in_range(op: &'static str, indices: &Tensor, axis: usize, size: Dim) -> Result<Tensor> {
    ensure!(
        indices.dtype().is_int(),
        DType,
        "{op}: expected integer indices, got {}",
        indices.spec()
    );
    let size = match size.value() {
        Some(size) => {
            let rule = Precondition::Index {
                op,
                axis,
                size,
                wraps: true,
            };
            if has_values(indices) {
                return moved_to_front(indices, rule, size);
            }
            // The check is on the operand as given: inputs of the program are checked before it runs.
            require(indices, rule)?;
            size.into_expr()
        }
        // A symbolic size is computed when the program runs.
        None => super::sum(super::ones(Shape::from_dims([size]), DType::INDEX), 0),
    };
    let indices = super::materialize(&to_dtype(indices, DType::INDEX)?)?;
    super::where_(super::less(&indices, 0), &indices + size, &indices).done()
}

/// The same for concrete indices, whose values are read once.
fn moved_to_front(indices: &Tensor, rule: Precondition, size: i64) -> Result<Tensor> {
    let indices = super::materialize(&to_dtype(indices, DType::INDEX)?)?;
    let host = indices.to_host()?;
    rule.check(&host)?;
    if host.bytes().as_slice::<i64>().iter().all(|&i| i >= 0) {
        return Ok(indices);
    }
    super::where_(super::less(&indices, 0), &indices + size, &indices).done()
}

/// Checks the indices of an op that handles negative ones itself. An input of the outermost program stays as it is:
/// the program does not run if it is out of range.
pub(crate) fn checked(
    op: &'static str,
    indices: &Tensor,
    axis: usize,
    size: Dim,
) -> Result<Tensor> {
    let is_input = match indices.lowest().repr() {
        Repr::Traced { trace, id, .. } => trace.is_outermost_input(*id),
        _ => false,
    };
    let (true, true, Some(size)) = (is_input, indices.dtype().is_int(), size.value()) else {
        return held_in_range(op, indices, axis, size);
    };
    let rule = Precondition::Index {
        op,
        axis,
        size,
        wraps: true,
    };
    require(indices, rule)?;
    Ok(indices.clone())
}

/// The same for ops that are undefined for out-of-range indices: indices are clipped even in a program whose check
/// will fail.
pub(crate) fn held_in_range(
    op: &'static str,
    indices: &Tensor,
    axis: usize,
    size: Dim,
) -> Result<Tensor> {
    let inside = in_range(op, indices, axis, size)?;
    match size.value() {
        Some(size) if size > 0 && !has_values(&inside) => super::clamp(&inside, 0, size - 1).done(),
        _ => Ok(inside),
    }
}

pub(crate) fn has_values(x: &Tensor) -> bool {
    let x = x.lowest();
    match x.repr() {
        Repr::Traced { .. } => false,
        Repr::Scalar { .. } => true,
        Repr::Concrete { backend, .. } => backend.has_values(x),
    }
}

/// Slices along an axis at these indices; the axes of the indices replace the axis.
pub fn take(x: impl IntoExpr, indices: impl IntoExpr, axis: i64) -> Expr {
    with2(x, indices, |x, indices| {
        let axis = x.shape().axis(axis, "take")?;
        let indices = in_range("take", &indices, axis, x.shape().dims()[axis])?;
        take_unchecked(&x, &indices, axis)
    })
}

/// `take` with indices that are in range by construction. They are not checked; others are clipped.
pub fn take_known(x: impl IntoExpr, indices: impl IntoExpr, axis: i64) -> Expr {
    with2(x, indices, |x, indices| {
        let axis = x.shape().axis(axis, "take")?;
        take_unchecked(&x, &to_dtype(&indices, DType::INDEX)?, axis)
    })
}

/// `take_along_axis` with indices that are in range by construction.
pub fn take_along_known(x: impl IntoExpr, indices: impl IntoExpr, axis: i64) -> Expr {
    with2(x, indices, |x, indices| {
        let axis = x.shape().axis(axis, "take_along_axis")?;
        take_along_unchecked(&x, &to_dtype(&indices, DType::INDEX)?, axis)
    })
}

/// Slice size along an axis: 1, or 0 if the axis is empty.
pub(crate) fn one_or_none(x: &Tensor, axis: usize) -> Dim {
    Dim::number(i64::from(x.shape().dims()[axis] != 0usize))
}

pub(crate) fn take_unchecked(x: &Tensor, indices: &Tensor, axis: usize) -> Result<Tensor> {
    let rows = indices.rank();
    let offset_axes = (0..x.rank() - 1)
        .map(|i| if i < axis { i } else { i + rows })
        .collect();
    let vectors = super::expand_dims(indices, -1).done()?;
    let p = Gather {
        offset_axes,
        collapsed: [axis].into(),
        index_map: [axis].into(),
        operand_batch: Axes::default(),
        index_batch: Axes::default(),
        slice_sizes: x.shape().with(axis, one_or_none(x, axis)).dims().into(),
        mode: OutOfRange::Clip,
    };
    apply_one(&p.into(), &[x, &vectors])
}

/// One element per index along an axis; the other axes are batched.
pub fn take_along_axis(x: impl IntoExpr, indices: impl IntoExpr, axis: i64) -> Expr {
    with2(x, indices, |x, indices| {
        let axis = x.shape().axis(axis, "take_along_axis")?;
        let indices = in_range("take_along_axis", &indices, axis, x.shape().dims()[axis])?;
        take_along_unchecked(&x, &indices, axis)
    })
}

/// The same for indices that are in range.
pub(crate) fn take_along_unchecked(x: &Tensor, indices: &Tensor, axis: usize) -> Result<Tensor> {
    let others: Axes = (0..x.rank()).filter(|&a| a != axis).collect();
    let vectors = super::expand_dims(indices, -1).done()?;
    let p = Gather {
        offset_axes: Axes::default(),
        collapsed: [axis].into(),
        index_map: [axis].into(),
        operand_batch: others.clone(),
        index_batch: others,
        slice_sizes: (0..x.rank()).map(|a| one_or_none(x, a)).collect(),
        mode: OutOfRange::Clip,
    };
    apply_one(&p.into(), &[x, &vectors])
}

/// Writes (sets, adds, …) slices along an axis of `x` at these indices.
pub fn put(
    kind: ScatterKind,
    x: impl IntoExpr,
    indices: impl IntoExpr,
    updates: impl IntoExpr,
    axis: i64,
) -> Expr {
    with2(x, indices, |x, indices| {
        updates.into_expr().then(|updates| {
            let axis = x.shape().axis(axis, "put")?;
            let indices = in_range("put", &indices, axis, x.shape().dims()[axis])?;
            let rows = indices.rank();
            let window_axes: Axes = (0..x.rank() - 1)
                .map(|i| if i < axis { i } else { i + rows })
                .collect();
            let rest = x.shape().dims();
            let want = rest[..axis]
                .iter()
                .chain(indices.shape().dims())
                .chain(&rest[axis + 1..])
                .copied()
                .collect::<Vec<_>>();
            let updates = to_dtype(&updates, x.dtype())?;
            let updates = super::broadcast_to(&updates, Shape::from_dims(want)).done()?;
            let p = Scatter {
                kind,
                window_axes,
                inserted: [axis].into(),
                index_map: [axis].into(),
                operand_batch: Axes::default(),
                index_batch: Axes::default(),
                mode: OutOfRange::Drop,
            };
            let vectors = super::expand_dims(&indices, -1).done()?;
            apply_one(&p.into(), &[&x, &vectors, &updates])
        })
    })
}

/// General gather: see `Gather`.
pub fn gather(x: impl IntoExpr, indices: impl IntoExpr, p: Gather) -> Expr {
    with2(x, indices, |x, indices| {
        apply_one(&p.into(), &[&x, &indices])
    })
}

/// General scatter: see `Scatter`.
pub fn scatter(
    x: impl IntoExpr,
    indices: impl IntoExpr,
    updates: impl IntoExpr,
    p: Scatter,
) -> Expr {
    with2(x, indices, |x, indices| {
        updates
            .into_expr()
            .then(|updates| apply_one(&p.into(), &[&x, &indices, &updates]))
    })
}

/// Index vectors of the nonzero elements, one per row. Needs concrete values: not inside traced functions.
pub fn nonzero(x: impl IntoExpr) -> Expr {
    x.into_expr().then(|x| {
        let count = read_count(&super::count_nonzero(&x, ..).done()?, "nonzero")?;
        apply_one(&Op::NonZero(count), &[&x])
    })
}

/// Index vectors of the first `size` nonzero elements; the remaining rows hold the shape of `x`.
pub fn nonzero_sized(x: impl IntoExpr, size: impl Into<Dim>) -> Expr {
    let size = size.into();
    x.into_expr().then(|x| apply_one(&Op::NonZero(size), &[&x]))
}

fn read_count(count: &Tensor, op: &str) -> Result<Dim> {
    let value = count.item().map_err(|e| {
        e.note(format!(
            "{op}: the size of the result depends on values; pass it, or call outside of jit"
        ))
    })?;
    Ok(Dim::number(value.as_i128() as i64))
}

/// Elements (or slices) where a mask over the leading axes is true. Needs concrete values.
pub fn masked(x: impl IntoExpr, mask: impl IntoExpr) -> Expr {
    with2(x, mask, |x, mask| {
        ensure!(
            mask.dtype() == DType::Bool,
            DType,
            "masked: expected a bool mask, got {}",
            mask.spec()
        );
        let lead = mask.rank();
        ensure!(
            lead <= x.rank() && x.shape().dims()[..lead] == *mask.shape().dims(),
            Shape,
            "masked: mask {} does not match {}",
            mask.spec(),
            x.spec()
        );
        let count: Dim = mask.shape().count_dim();
        let tail = x.shape().dims()[lead..].iter().copied();
        let flat =
            super::reshape(&x, Shape::from_dims(std::iter::once(count).chain(tail))).done()?;
        let places = nonzero(super::flatten(&mask, 0)).done()?;
        take_unchecked(&flat, &super::reshape(&places, [-1i64]).done()?, 0)
    })
}

/// The result of `unique`: the distinct elements in ascending order, with indices, inverse and counts.
pub struct Unique {
    /// The distinct elements.
    pub values: Tensor,
    /// Index of the first occurrence of each in the flattened operand.
    pub indices: Tensor,
    /// For each element of the operand, the index of its distinct value.
    pub inverse: Tensor,
    /// Number of occurrences of each.
    pub counts: Tensor,
}

/// Sorts elements so that equal ones are adjacent; also returns their positions.
fn in_order(x: &Tensor, places: &Tensor) -> Result<(Tensor, Tensor)> {
    if x.dtype().is_complex() {
        // Sorts by real part, then by imaginary part. Adding zero merges -0 and 0.
        let real = (super::real(x) + 0.0).done()?;
        let imag = (super::imag(x) + 0.0).done()?;
        let sorted = super::sort_many(&[&real, &imag, places], 2, 0, false)?;
        let [_, _, order] = &sorted[..] else {
            bail!(Internal, "unique: expected three results");
        };
        return Ok((take_unchecked(x, order, 0)?, order.clone()));
    }
    let sorted = super::sort_many(&[x, places], 1, 0, false)?;
    match &sorted[..] {
        [values, order] => Ok((values.clone(), order.clone())),
        _ => bail!(Internal, "unique: expected two results"),
    }
}

/// Distinct elements; all NaNs are distinct. Needs concrete values.
pub fn unique(x: impl IntoExpr) -> Result<Unique> {
    let x = x.into_expr().done()?;
    let flat = super::flatten(&x, 0).done()?;
    let n = flat.shape().count_dim();
    let places = iota_like(&flat, flat.shape(), 0, DType::INDEX).done()?;
    let (values, order) = in_order(&flat, &places)?;
    let (values, order) = (&values, &order);
    // The first element of each run is new.
    let first = super::ones_like(
        &super::cast(
            super::slice_axis(values, 0, 0, n.min(Dim::number(1))),
            DType::Bool,
        )
        .done()?,
    );
    let fresh = if n == 0usize {
        first.done()?
    } else {
        let next = super::slice_axis(values, 0, 1, n);
        let before = super::slice_axis(values, 0, 0, n - Dim::number(1));
        super::concat(&[first.done()?, super::not_equal(next, before).done()?], 0).done()?
    };
    let starts = super::reshape(nonzero(&fresh), [-1i64]).done()?;
    let rank = super::cumsum(super::cast(&fresh, DType::INDEX), 0) - 1;
    let inverse = put(ScatterKind::Set, super::zeros_like(&places), order, rank, 0).done()?;
    let ends = super::concat(
        &[
            super::slice_axis(
                &starts,
                0,
                starts.shape().dims()[0].min(Dim::number(1)),
                starts.shape().dims()[0],
            )
            .done()?,
            super::full_like(
                &super::slice_axis(&starts, 0, 0, starts.shape().dims()[0].min(Dim::number(1)))
                    .done()?,
                n.value().unwrap_or(0),
            )
            .done()?,
        ],
        0,
    );
    let counts = if n == 0usize {
        starts.clone()
    } else {
        (ends - &starts).done()?
    };
    Ok(Unique {
        values: take_unchecked(values, &starts, 0)?,
        indices: take_unchecked(order, &starts, 0)?,
        inverse: super::reshape(&inverse, x.shape()).done()?,
        counts,
    })
}

/// One-hot encoding along a new last axis; an index out of range gives zeros.
pub fn one_hot(indices: impl IntoExpr, depth: impl Into<Dim>, dtype: DType) -> Expr {
    let depth = depth.into();
    indices.into_expr().then(|i| {
        ensure!(
            i.dtype().is_int(),
            DType,
            "one_hot: expected integer indices, got {}",
            i.spec()
        );
        apply_one(&Composite::OneHot { depth, dtype }.into(), &[&i])
    })
}
