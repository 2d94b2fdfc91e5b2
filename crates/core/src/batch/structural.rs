//! Batching rules of shape ops and window ops.

use super::{Value, run, with_first, with_size};
use crate::bail;
use crate::dim::Dim;
use crate::dtype::DType;
use crate::error::Result;
use crate::op::{Broadcast, Op, Pad, Pads, Slice, Window, WindowGather, WindowScatter};
use crate::ops;
use crate::shape::Axes;

pub fn broadcast(p: &Broadcast, args: &[Value], size: Dim) -> Result<Vec<Value>> {
    let op = Broadcast {
        shape: with_size(size, &p.shape),
        axes: with_first(&p.axes),
    };
    run(op, &[&args[0].x])
}

pub fn slice(p: &Slice, args: &[Value], size: Dim) -> Result<Vec<Value>> {
    let mut p = p.clone();
    p.start.insert(0, Dim::number(0));
    p.limit.insert(0, size);
    p.strides = std::iter::once(1)
        .chain(p.strides.iter().copied())
        .collect();
    run(p, &[&args[0].x])
}

pub fn pad(p: &Pad, args: &[Value], size: Dim) -> Result<Vec<Value>> {
    let mut all = p.clone();
    all.low.insert(0, Dim::number(0));
    all.high.insert(0, Dim::number(0));
    all.interior = std::iter::once(0)
        .chain(p.interior.iter().copied())
        .collect();
    let (x, value) = (args[0].full(size)?, &args[1]);
    if !value.batched {
        return run(all, &[&x, &value.x]);
    }
    // Every example has its own padding value: pad with zeros, then fill in the values.
    let zero = ops::zeros((), x.dtype()).done()?;
    let padded = run(all, &[&x, &zero])?;
    let inside = ops::full(args[0].spec().shape, true, DType::Bool).done()?;
    let outside = ops::full((), false, DType::Bool).done()?;
    let inside = crate::dispatch::apply_one(&p.clone().into(), &[&inside, &outside])?;
    let value = value.aligned(args[0].rank())?;
    run(Op::Select, &[&inside, &padded[0].x, &value])
}

/// The window op of one example, applied to the batch.
pub fn window(op: &Op) -> Result<Op> {
    let one = |axes: &Axes| -> Axes { std::iter::once(1).chain(axes.iter().copied()).collect() };
    let none = |pads: &Pads| -> Pads {
        let nothing = (Dim::number(0), Dim::number(0));
        std::iter::once(nothing)
            .chain(pads.iter().copied())
            .collect()
    };
    macro_rules! wider {
        ($class:ident, $p:expr) => {
            $class {
                kind: $p.kind,
                size: one(&$p.size),
                strides: one(&$p.strides),
                padding: none(&$p.padding),
                base_dilation: one(&$p.base_dilation),
                window_dilation: one(&$p.window_dilation),
            }
            .into()
        };
    }
    Ok(match op {
        Op::Window(p) => wider!(Window, p),
        Op::WindowScatter(p) => wider!(WindowScatter, p),
        Op::WindowGather(p) => wider!(WindowGather, p),
        other => bail!(Internal, "vmap: {} is not a window op", other.name()),
    })
}
