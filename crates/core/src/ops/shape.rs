//! Shape functions: reshape, permute, broadcast, slice, pad, concat and the like.

use super::{IntoAxes, call, call1, elementwise::to_dtype};
use crate::dim::Dim;
use crate::dispatch::apply_one;
use crate::dtype::DType;
use crate::ensure;
use crate::error::Result;
use crate::expr::{Expr, IntoExpr};
use crate::op::{Broadcast, Dims, Op, Pad, Slice};
use crate::shape::{Axes, IntoShape, Shape, normalize_axis};
use crate::tensor::Tensor;

/// Reshapes to another shape; one size may be -1 and is inferred.
pub fn reshape(x: impl IntoExpr, to: impl ReshapeTo) -> Expr {
    x.into_expr().then(|x| {
        let to = to.resolve(x.shape())?;
        if to == *x.shape() {
            return Ok(x);
        }
        apply_one(&Op::Reshape(to), &[&x])
    })
}

/// A shape in which one size may be -1.
pub trait ReshapeTo {
    /// The complete shape, for a tensor of shape `from`.
    fn resolve(self, from: &Shape) -> Result<Shape>;
}
impl<S: IntoShapeOpen> ReshapeTo for S {
    fn resolve(self, from: &Shape) -> Result<Shape> {
        let open = self.open();
        let minus = Dim::number(-1);
        let Some(at) = open.iter().position(|&d| d == minus) else {
            let shape = Shape::from_dims(open);
            shape.check("reshape")?;
            return Ok(shape);
        };
        let rest = open
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != at)
            .map(|(_, &d)| d);
        let rest: Vec<Dim> = rest.collect();
        let known = Shape::from_dims(rest.iter().copied());
        known.check("reshape")?;
        let (have, by) = (from.count_dim(), known.count_dim());
        let fits = by != 0usize && have.rem(by)? == 0usize;
        ensure!(
            fits,
            Shape,
            "reshape: {from} has {have} elements, which is not divisible by {by}"
        );
        let mut dims = open;
        dims[at] = have.floor_div(by)?;
        Ok(Shape::from_dims(dims))
    }
}

/// A list of sizes that may contain -1.
pub trait IntoShapeOpen {
    /// The sizes as given.
    fn open(self) -> Vec<Dim>;
}
impl IntoShapeOpen for &Shape {
    fn open(self) -> Vec<Dim> {
        self.dims().to_vec()
    }
}
impl IntoShapeOpen for Shape {
    fn open(self) -> Vec<Dim> {
        self.dims().to_vec()
    }
}
impl<D: Into<Dim> + Copy, const N: usize> IntoShapeOpen for [D; N] {
    fn open(self) -> Vec<Dim> {
        self.iter().map(|&d| d.into()).collect()
    }
}
impl<D: Into<Dim> + Copy> IntoShapeOpen for &[D] {
    fn open(self) -> Vec<Dim> {
        self.iter().map(|&d| d.into()).collect()
    }
}
impl<D: Into<Dim> + Copy> IntoShapeOpen for Vec<D> {
    fn open(self) -> Vec<Dim> {
        self.iter().map(|&d| d.into()).collect()
    }
}
impl IntoShapeOpen for () {
    fn open(self) -> Vec<Dim> {
        Vec::new()
    }
}

/// Permutes axes: axis i of the result is axis `axes[i]` of `x`.
pub fn permute(x: impl IntoExpr, axes: impl IntoAxes) -> Expr {
    x.into_expr().then(|x| {
        let axes = axes.resolve(x.shape(), "transpose")?;
        if axes.len() == x.rank() && axes.is_sorted() {
            return Ok(x);
        }
        apply_one(&Op::Transpose(axes), &[&x])
    })
}

/// Exchanges two axes.
pub fn swap_axes(x: impl IntoExpr, a: i64, b: i64) -> Expr {
    x.into_expr().then(|x| {
        let (a, b) = (
            x.shape().axis(a, "swap_axes")?,
            x.shape().axis(b, "swap_axes")?,
        );
        let order: Axes = (0..x.rank())
            .map(|i| {
                if i == a {
                    b
                } else if i == b {
                    a
                } else {
                    i
                }
            })
            .collect();
        permute(&x, &order).done()
    })
}

/// Transposes the last two axes.
pub fn matrix_transpose(x: impl IntoExpr) -> Expr {
    x.into_expr().then(|x| {
        ensure!(
            x.rank() >= 2,
            Shape,
            "matrix_transpose: expected matrices, got {}",
            x.spec()
        );
        swap_axes(&x, -1, -2).done()
    })
}

/// Moves one axis to another position.
pub fn move_axis(x: impl IntoExpr, from: i64, to: i64) -> Expr {
    x.into_expr().then(|x| {
        let (from, to) = (
            x.shape().axis(from, "move_axis")?,
            x.shape().axis(to, "move_axis")?,
        );
        let mut order: Vec<usize> = (0..x.rank()).filter(|&i| i != from).collect();
        order.insert(to, from);
        permute(&x, &Axes::from(&order[..])).done()
    })
}

/// Broadcasts to a larger shape.
pub fn broadcast_to(x: impl IntoExpr, to: impl IntoShape) -> Expr {
    x.into_expr().then(|x| {
        let shape = to.into_shape()?;
        if shape == *x.shape() && !x.is_weak() {
            return Ok(x);
        }
        ensure!(
            x.rank() <= shape.rank(),
            Shape,
            "broadcast: {} does not broadcast to {shape}, which has fewer axes",
            x.spec()
        );
        let axes = (shape.rank() - x.rank()..shape.rank()).collect();
        apply_one(&Broadcast { shape, axes }.into(), &[&x])
    })
}

/// Axis i of `x` becomes axis `axes[i]` of `shape`; the other axes are new.
pub fn broadcast_in(x: impl IntoExpr, shape: &Shape, axes: &[usize]) -> Expr {
    call1(
        Broadcast {
            shape: shape.clone(),
            axes: axes.into(),
        },
        x,
    )
}

/// Broadcasts all tensors to one shape.
pub fn broadcast_arrays(xs: &[&Tensor]) -> Result<Vec<Tensor>> {
    let mut shape = Shape::scalar();
    for x in xs {
        shape = shape.broadcast_with(x.shape(), "broadcast_arrays")?;
    }
    xs.iter().map(|x| broadcast_to(*x, &shape).done()).collect()
}

/// Inserts an axis of size 1.
pub fn expand_dims(x: impl IntoExpr, axis: i64) -> Expr {
    x.into_expr().then(|x| {
        let axis = normalize_axis(axis, x.rank() + 1, "expand_dims")?;
        apply_one(&Op::Reshape(x.shape().insert(axis, 1usize)), &[&x])
    })
}

/// Removes axes, which must have size 1.
pub fn squeeze(x: impl IntoExpr, axes: impl IntoAxes) -> Expr {
    x.into_expr().then(|x| {
        let axes = axes.resolve(x.shape(), "squeeze")?;
        for &axis in axes.iter() {
            let size = x.shape().dims()[axis];
            ensure!(
                size == 1usize,
                Shape,
                "squeeze: expected size 1 on axis {axis} of {}, got {size}",
                x.spec()
            );
        }
        reshape(&x, x.shape().without(&axes)).done()
    })
}

/// Flattens all axes from `start` on into one.
pub fn flatten(x: impl IntoExpr, start: i64) -> Expr {
    x.into_expr().then(|x| {
        let start = if x.rank() == 0 {
            0
        } else {
            x.shape().axis(start, "flatten")?
        };
        let (head, tail) = x.shape().dims().split_at(start);
        let rest = Shape::from_dims(tail.iter().copied()).count_dim();
        reshape(&x, Shape::from_dims(head.iter().copied().chain([rest]))).done()
    })
}

/// Every `stride`-th element from `start` up to `limit` on each axis.
pub fn slice(x: impl IntoExpr, start: &[Dim], limit: &[Dim], strides: &[usize]) -> Expr {
    call1(
        Slice {
            start: start.into(),
            limit: limit.into(),
            strides: strides.into(),
        },
        x,
    )
}

/// Elements `start..limit` along one axis.
pub fn slice_axis(
    x: impl IntoExpr,
    axis: i64,
    start: impl Into<Dim>,
    limit: impl Into<Dim>,
) -> Expr {
    slice_axis_by(x, axis, start, limit, 1)
}

/// Every `stride`-th element of `start..limit` along one axis.
pub fn slice_axis_by(
    x: impl IntoExpr,
    axis: i64,
    start: impl Into<Dim>,
    limit: impl Into<Dim>,
    stride: usize,
) -> Expr {
    x.into_expr().then(|x| {
        let axis = x.shape().axis(axis, "slice")?;
        let mut from: Dims = Dims::from_elem(Dim::number(0), x.rank());
        let mut to: Dims = x.shape().dims().into();
        from[axis] = start.into();
        to[axis] = limit.into();
        let strides = (0..x.rank())
            .map(|i| if i == axis { stride } else { 1 })
            .collect();
        apply_one(
            &Slice {
                start: from,
                limit: to,
                strides,
            }
            .into(),
            &[&x],
        )
    })
}

/// Pads with `value` before, after and between elements; negative padding crops.
pub fn pad(
    x: impl IntoExpr,
    value: impl IntoExpr,
    low: &[Dim],
    high: &[Dim],
    interior: &[usize],
) -> Expr {
    super::with2(x, value, |x, value| {
        let value = to_dtype(&value, x.dtype())?;
        let p = Pad {
            low: low.into(),
            high: high.into(),
            interior: interior.into(),
        };
        apply_one(&p.into(), &[&x, &value])
    })
}

/// Concatenates along an axis; dtypes are promoted.
pub fn concat<T: std::borrow::Borrow<Tensor>>(xs: &[T], axis: i64) -> Expr {
    let build = || {
        let xs: Vec<&Tensor> = xs.iter().map(|x| x.borrow()).collect();
        let Some(first) = xs.first() else {
            crate::bail!(Value, "concat: expected at least one tensor");
        };
        let axis = first.shape().axis(axis, "concat")?;
        let dtype = xs.iter().fold(first.dtype(), |d, x| d.promote(x.dtype()));
        let xs: Vec<Tensor> = xs
            .iter()
            .map(|x| to_dtype(x, dtype))
            .collect::<Result<_>>()?;
        if let [only] = &xs[..] {
            return Ok(only.clone());
        }
        apply_one(&Op::Concat(axis), &xs.iter().collect::<Vec<_>>())
    };
    build().into()
}

/// Stacks along a new axis.
pub fn stack<T: std::borrow::Borrow<Tensor>>(xs: &[T], axis: i64) -> Expr {
    let build = || {
        let Some(first) = xs.first() else {
            crate::bail!(Value, "stack: expected at least one tensor");
        };
        let at = normalize_axis(axis, first.borrow().rank() + 1, "stack")? as i64;
        for x in xs {
            ensure!(
                x.borrow().shape() == first.borrow().shape(),
                Shape,
                "stack: {} and {} differ in shape",
                first.borrow().spec(),
                x.borrow().spec()
            );
        }
        let wide: Vec<Tensor> = xs
            .iter()
            .map(|x| expand_dims(x.borrow(), at).done())
            .collect::<Result<_>>()?;
        concat(&wide, at).done()
    };
    build().into()
}

/// Splits into equal parts along an axis.
pub fn split(x: &Tensor, parts: usize, axis: i64) -> Result<Vec<Tensor>> {
    let at = x.shape().axis(axis, "split")?;
    let size = x.shape().dims()[at];
    let even = parts > 0 && size.rem(Dim::from(parts))? == 0usize;
    ensure!(
        even,
        Shape,
        "split: {size} (axis {at} of {}) is not divisible into {parts} parts",
        x.spec()
    );
    let part = size.floor_div(Dim::from(parts))?;
    (0..parts)
        .map(|i| slice_axis(x, axis, part * Dim::from(i), part * Dim::from(i + 1)).done())
        .collect()
}

/// Reverses the order of elements along axes.
pub fn flip(x: impl IntoExpr, axes: impl IntoAxes) -> Expr {
    x.into_expr().then(|x| {
        let axes = axes.resolve(x.shape(), "reverse")?;
        apply_one(&Op::Reverse(axes), &[&x])
    })
}

/// Rotates elements along an axis; those shifted past the end reappear at the front.
pub fn roll(x: impl IntoExpr, shift: i64, axis: i64) -> Expr {
    x.into_expr().then(|x| {
        let at = x.shape().axis(axis, "roll")?;
        let size = x.shape().known_size(at, "roll")? as i64;
        if size == 0 {
            return Ok(x);
        }
        let cut = size - shift.rem_euclid(size);
        let (a, b) = (
            slice_axis(&x, axis, cut, size).done()?,
            slice_axis(&x, axis, 0, cut).done()?,
        );
        concat(&[a, b], axis).done()
    })
}

/// Repeats the whole tensor along each axis; missing axes are added in front.
pub fn tile(x: impl IntoExpr, times: &[usize]) -> Expr {
    x.into_expr().then(|x| {
        let rank = x.rank().max(times.len());
        let sizes: Vec<Dim> = std::iter::repeat_n(Dim::number(1), rank - x.rank())
            .chain(x.shape().dims().iter().copied())
            .collect();
        let times: Vec<usize> = std::iter::repeat_n(1, rank - times.len())
            .chain(times.iter().copied())
            .collect();
        // Each axis becomes a pair (times, size), repeated in one broadcast and merged by one reshape.
        let mut wide = Vec::new();
        let mut out = Vec::new();
        for (&size, &n) in sizes.iter().zip(&times) {
            // An empty axis stays empty however often it is repeated.
            let n = if size == 0usize { n.min(1) } else { n };
            wide.extend([Dim::from(n), size]);
            out.push(size * Dim::from(n));
        }
        let axes: Vec<usize> = (0..rank).map(|i| 2 * i + 1).collect();
        let x = reshape(&x, Shape::from_dims(sizes)).done()?;
        reshape(
            broadcast_in(&x, &Shape::from_dims(wide), &axes),
            Shape::from_dims(out),
        )
        .done()
    })
}

/// Repeats each element along an axis.
pub fn repeat(x: impl IntoExpr, times: usize, axis: i64) -> Expr {
    x.into_expr().then(|x| {
        let at = x.shape().axis(axis, "repeat")?;
        let wide = x.shape().insert(at + 1, times);
        let axes: Vec<usize> = (0..x.rank()).map(|i| i + usize::from(i > at)).collect();
        let out = x.shape().with(at, x.shape().dims()[at] * Dim::from(times));
        reshape(broadcast_in(&x, &wide, &axes), &out).done()
    })
}

/// Whether row + k >= column on the last two axes: the mask of the lower triangle.
pub(crate) fn triangle(x: &Tensor, k: i64) -> Expr {
    let rank = x.rank();
    let square = Shape::from_dims(x.shape().dims()[rank - 2..].iter().copied());
    let rows = super::create::iota_like(x, &square, 0, DType::I64);
    let columns = super::create::iota_like(x, &square, 1, DType::I64);
    super::greater_equal(rows + k, columns)
}

/// Zeroes the elements above the k-th diagonal of the last two axes.
pub fn tril(x: impl IntoExpr, k: i64) -> Expr {
    x.into_expr().then(|x| {
        ensure!(
            x.rank() >= 2,
            Shape,
            "tril: expected matrices, got {}",
            x.spec()
        );
        super::where_(triangle(&x, k), &x, 0)
            .then(|y| to_dtype(&y, x.dtype()))
            .done()
    })
}

/// Zeroes the elements below the k-th diagonal of the last two axes.
pub fn triu(x: impl IntoExpr, k: i64) -> Expr {
    x.into_expr().then(|x| {
        ensure!(
            x.rank() >= 2,
            Shape,
            "triu: expected matrices, got {}",
            x.spec()
        );
        super::where_(triangle(&x, k - 1), 0, &x)
            .then(|y| to_dtype(&y, x.dtype()))
            .done()
    })
}

/// Sums to a shape that broadcasts to this one: the transpose of `broadcast_to`.
pub fn sum_to(x: impl IntoExpr, to: &Shape) -> Expr {
    x.into_expr().then(|x| {
        if x.shape() == to {
            return Ok(x);
        }
        let ahead = x.rank() - to.rank();
        let axes: Axes = (0..x.rank())
            .filter(|&i| {
                i < ahead || (to.dims()[i - ahead] == 1usize && x.shape().dims()[i] != 1usize)
            })
            .collect();
        reshape(super::sum(&x, &axes), to).done()
    })
}

/// A block at a start index given by a vector; start indices are clipped.
pub fn dynamic_slice(x: impl IntoExpr, start: impl IntoExpr, sizes: impl IntoShape) -> Expr {
    super::with2(x, start, |x, start| {
        call(Op::DynamicSlice(sizes.into_shape()?), &[&x, &start]).done()
    })
}

/// Writes a block at a start index given by a vector; start indices are clipped.
pub fn dynamic_update_slice(x: impl IntoExpr, update: impl IntoExpr, start: impl IntoExpr) -> Expr {
    x.into_expr().then(|x| {
        super::with2(update, start, |update, start| {
            let update = to_dtype(&update, x.dtype())?;
            apply_one(&Op::DynamicUpdate, &[&x, &update, &start])
        })
    })
}
