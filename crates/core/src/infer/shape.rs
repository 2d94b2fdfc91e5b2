//! Inference of ops that create, move or reshape elements.

use super::{legal_axes, same_dtype};
use crate::dim::Dim;
use crate::error::Result;
use crate::op::{Broadcast, Iota, Pad, Slice};
use crate::shape::Shape;
use crate::spec::Spec;
use crate::{bail, ensure};

pub fn iota(p: &Iota) -> Result<Spec> {
    p.shape.check("iota")?;
    legal_axes("iota", &[p.axis], p.shape.rank())?;
    ensure!(
        p.dtype != crate::DType::Bool,
        DType,
        "iota: expected a numeric dtype, got bool"
    );
    Ok(Spec::new(p.dtype, p.shape.clone()))
}

pub fn reshape(x: &Spec, to: &Shape) -> Result<Spec> {
    to.check("reshape")?;
    let (have, want) = (x.shape.count_dim(), to.count_dim());
    ensure!(
        have == want,
        Shape,
        "reshape: {x} has {have} elements, {to} takes {want}"
    );
    Ok(x.with_shape(to.clone()))
}

pub fn transpose(x: &Spec, axes: &[usize]) -> Result<Spec> {
    legal_axes("transpose", axes, x.rank())?;
    ensure!(
        axes.len() == x.rank(),
        Index,
        "transpose: {x} has {} axes, {axes:?} names {}",
        x.rank(),
        axes.len()
    );
    Ok(x.with_shape(Shape::from_dims(axes.iter().map(|&a| x.shape.dims()[a]))))
}

pub fn broadcast(x: &Spec, p: &Broadcast) -> Result<Spec> {
    p.shape.check("broadcast")?;
    legal_axes("broadcast", &p.axes, p.shape.rank())?;
    ensure!(
        p.axes.len() == x.rank() && p.axes.is_sorted(),
        Index,
        "broadcast: expected increasing axes, one for each axis of {x}, got {:?}",
        p.axes
    );
    for (i, &axis) in p.axes.iter().enumerate() {
        let (from, to) = (x.shape.dims()[i], p.shape.dims()[axis]);
        ensure!(
            from == to || from == 1usize,
            Shape,
            "broadcast: size {from} (axis {i} of {x}) does not broadcast to {to} (axis {axis} of {})",
            p.shape
        );
    }
    Ok(x.with_shape(p.shape.clone()))
}

pub fn slice(x: &Spec, p: &Slice) -> Result<Spec> {
    let rank = x.rank();
    ensure!(
        p.start.len() == rank && p.limit.len() == rank && p.strides.len() == rank,
        Shape,
        "slice: {x} has {rank} axes, start, limit and strides have {}, {} and {}",
        p.start.len(),
        p.limit.len(),
        p.strides.len()
    );
    let mut dims = Vec::with_capacity(rank);
    for axis in 0..rank {
        let (start, limit, stride, size) = (
            p.start[axis],
            p.limit[axis],
            p.strides[axis],
            x.shape.dims()[axis],
        );
        ensure!(
            stride > 0,
            Value,
            "slice: expected a positive stride, got {stride} on axis {axis}"
        );
        let known = [start, limit - start, size - limit];
        if known.iter().any(|d| d.value().is_some_and(|v| v < 0)) {
            bail!(
                Index,
                "slice: {start}..{limit} is out of range on axis {axis} of {x}"
            );
        }
        dims.push((limit - start).ceil_div(Dim::from(stride))?);
    }
    Ok(x.with_shape(Shape::from_dims(dims)))
}

pub fn pad(x: &Spec, value: &Spec, p: &Pad) -> Result<Spec> {
    same_dtype("pad", x, value)?;
    ensure!(
        value.rank() == 0,
        Shape,
        "pad: expected one padding value, got {value}"
    );
    let rank = x.rank();
    ensure!(
        p.low.len() == rank && p.high.len() == rank && p.interior.len() == rank,
        Shape,
        "pad: {x} has {rank} axes, low, high and interior have {}, {} and {}",
        p.low.len(),
        p.high.len(),
        p.interior.len()
    );
    let mut dims = Vec::with_capacity(rank);
    for axis in 0..rank {
        let size = x.shape.dims()[axis];
        let inner = super::window::dilated(size, p.interior[axis] + 1);
        let out = inner + p.low[axis] + p.high[axis];
        ensure!(
            out.value().is_none_or(|v| v >= 0),
            Shape,
            "pad: low {} and high {} crop more than axis {axis} of {x} has",
            p.low[axis],
            p.high[axis]
        );
        dims.push(out);
    }
    let shape = Shape::from_dims(dims);
    shape.check("pad")?;
    Ok(x.with_shape(shape))
}

pub fn concat(inputs: &[&Spec], axis: usize) -> Result<Spec> {
    let Some(first) = inputs.first() else {
        bail!(Value, "concat: expected at least one operand");
    };
    legal_axes("concat", &[axis], first.rank())?;
    let mut size = Dim::number(0);
    for x in inputs {
        same_dtype("concat", first, x)?;
        ensure!(
            x.rank() == first.rank() && x.shape.without(&[axis]) == first.shape.without(&[axis]),
            Shape,
            "concat: {first} and {x} differ outside of axis {axis}"
        );
        size = size + x.shape.dims()[axis];
    }
    let shape = first.shape.with(axis, size);
    shape.check("concat")?;
    Ok(first.with_shape(shape))
}
