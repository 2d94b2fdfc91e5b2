//! Convolutions: maps the axes of tensors to batch, features and spatial axes.

use super::{Plain, elements, elements_mut};
use crate::buffer::{self, Buffer};
use crate::kernel::conv::{self, Axis, Convolved, Step, View, Window};
use crate::layout::dense_strides;
use crate::memory;
use clematis_core::op::Conv;
use clematis_core::{Result, Shape, Spec, Tensor, with_element};

/// The axes of an array in the order `[outer, inner, spatial…]` that its layout gives.
fn view(offset: usize, sizes: &[usize], strides: &[isize], layout: &[usize]) -> View {
    let axis = |i: usize| Axis {
        size: sizes[layout[i]],
        stride: strides[layout[i]],
    };
    View {
        offset,
        outer: axis(0),
        inner: axis(1),
        spatial: (2..layout.len()).map(axis).collect(),
    }
}

/// Runs a convolution.
pub fn run(p: &Conv, x: &Tensor, w: &Tensor, out: &Spec) -> Result<Buffer> {
    // A filter that fits nowhere may have an arbitrarily large dilation.
    if out.shape.count() == 0 {
        return Ok(Buffer::new(memory::alloc("conv_general", out)?));
    }
    with_element!(out.dtype, E => typed::<E>(p, x, w, out))
}

fn typed<E: Plain + Convolved>(p: &Conv, x: &Tensor, w: &Tensor, out: &Spec) -> Result<Buffer> {
    let number = |d: clematis_core::Dim| d.value().unwrap_or(0) as isize;
    let window = Window {
        steps: (0..p.strides.len())
            .map(|i| {
                // An axis with one element has no stride, however large; nor does a window of one tap.
                let apart = |t: &Shape, layout: &[usize], by: usize| {
                    if t.size(layout[i + 2]) > 1 { by } else { 1 }
                };
                Step {
                    stride: p.strides[i],
                    lo: number(p.padding[i].0),
                    hi: number(p.padding[i].1),
                    lhs_dilation: apart(x.shape(), &p.lhs_layout, p.lhs_dilation[i]),
                    rhs_dilation: apart(w.shape(), &p.rhs_layout, p.rhs_dilation[i]),
                }
            })
            .collect(),
        feature_groups: p.feature_groups,
        batch_groups: p.batch_groups,
    };
    let (a, b) = (buffer::of(x)?, buffer::of(w)?);
    let (a, b) = (
        a.view::<E::Stored>(x.shape()),
        b.view::<E::Stored>(w.shape()),
    );
    let sizes = out.shape.sizes();
    let mut bytes = memory::alloc("conv_general", out)?;
    conv::conv(
        (
            elements_mut::<E>(&mut bytes)?,
            &view(0, &sizes, &dense_strides(&sizes), &p.out_layout),
        ),
        (
            elements::<E>(a.data)?,
            &view(a.offset, &a.sizes, &a.strides, &p.lhs_layout),
        ),
        (
            elements::<E>(b.data)?,
            &view(b.offset, &b.sizes, &b.strides, &p.rhs_layout),
        ),
        &window,
    );
    Ok(Buffer::new(bytes))
}
