//! Moving windows: how each axis is cut, and where it lies.

use super::{Plain, elements, elements_mut};
use crate::buffer::{self, Buffer};
use crate::kernel::conv::{Axis, Step};
use crate::kernel::window::{self, Pooled, Reduction, WindowAxis};
use crate::layout::dense_strides;
use crate::memory;
use clematis_core::op::{Window, WindowKind};
use clematis_core::{Result, Shape, Spec, Tensor, with_element};

fn reduction(kind: WindowKind) -> Reduction {
    match kind {
        WindowKind::Sum => Reduction::Sum,
        WindowKind::Prod => Reduction::Prod,
        WindowKind::Max => Reduction::Max,
        WindowKind::Min => Reduction::Min,
    }
}

/// The axes of a window; the smaller side, one element per window, is always dense.
fn axes(p: &Window, sizes: &[usize], strides: &[isize], windows: &Shape) -> Vec<WindowAxis> {
    let number = |d: clematis_core::Dim| d.value().unwrap_or(0) as isize;
    let places = windows.sizes();
    let dense = dense_strides(&places);
    (0..sizes.len())
        .map(|i| WindowAxis {
            input: Axis {
                size: sizes[i],
                stride: strides[i],
            },
            output: Axis {
                size: places[i],
                stride: dense[i],
            },
            window: p.size[i],
            step: Step {
                stride: p.strides[i],
                lo: number(p.padding[i].0),
                hi: number(p.padding[i].1),
                lhs_dilation: p.base_dilation[i],
                rhs_dilation: p.window_dilation[i],
            },
        })
        .collect()
}

/// Folds every window to one element.
pub fn reduce(op: &str, p: &Window, x: &Tensor, out: &Spec) -> Result<Buffer> {
    with_element!(out.dtype, E => reduce_typed::<E>(op, p, x, out))
}

fn reduce_typed<E: Plain + Pooled>(op: &str, p: &Window, x: &Tensor, out: &Spec) -> Result<Buffer> {
    let a = buffer::of(x)?;
    let a = a.view::<E::Stored>(x.shape());
    let axes = axes(p, &a.sizes, &a.strides, &out.shape);
    let mut bytes = memory::alloc(op, out)?;
    window::reduce_window(
        (elements_mut::<E>(&mut bytes)?, 0),
        (elements::<E>(a.data)?, a.offset),
        &axes,
        reduction(p.kind),
    );
    Ok(Buffer::new(bytes))
}

/// Goes through the places that windows select in `x`: adds `y` there, or takes it from there.
pub fn select(
    op: &str,
    p: &Window,
    x: &Tensor,
    y: &Tensor,
    scatters: bool,
    out: &Spec,
) -> Result<Buffer> {
    with_element!(out.dtype, E => select_typed::<E>(op, p, x, y, scatters, out))
}

fn select_typed<E: Plain + Pooled>(
    op: &str,
    p: &Window,
    x: &Tensor,
    y: &Tensor,
    scatters: bool,
    out: &Spec,
) -> Result<Buffer> {
    // Both large arrays must lie alike, and both small ones dense.
    let a = buffer::contiguous(op, buffer::of(x)?.as_ref(), x.spec())?;
    let b = buffer::contiguous(op, buffer::of(y)?.as_ref(), y.spec())?;
    let input = super::dense::<E::Stored>(&a, x.shape().count())?;
    let other = super::dense::<E::Stored>(&b, y.shape().count())?;
    let sizes = x.shape().sizes();
    let windows = if scatters { y.shape() } else { &out.shape };
    let axes = axes(p, &sizes, &dense_strides(&sizes), windows);
    let mut bytes = memory::alloc(op, out)?;
    let to = elements_mut::<E>(&mut bytes)?;
    let (input, other) = (elements::<E>(input)?, elements::<E>(other)?);
    if scatters {
        window::window_scatter(to, (other, 0), (input, 0), &axes, reduction(p.kind));
    } else {
        window::window_gather((to, 0), other, (input, 0), &axes, reduction(p.kind));
    }
    Ok(Buffer::new(bytes))
}
