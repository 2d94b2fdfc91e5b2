//! Ops that move elements without computing. Most of them return views.
#![allow(unsafe_code)]

use super::create::fill_slice;
use super::map::Cost;
use crate::buffer::{self, Buffer};
use crate::element::{Stored, by_size};
use crate::layout::{Sizes, Strides, View, Walk, dense_strides, merge, read_run};
use crate::{memory, parallel};
use clematis_core::op::{Broadcast, Pad, Slice};
use clematis_core::{Dim, Result, Shape, Spec, Tensor, bail, interrupt, with_element};

/// A copy of more elements releases the caller's interpreter lock.
const LONG: usize = 1 << 15;

fn number(dim: Dim) -> isize {
    dim.value().unwrap_or(0) as isize
}

/// The same elements with another shape; a copy only if strides cannot express it.
pub fn reshape(x: &Tensor, to: &Shape) -> Result<Buffer> {
    let buffer = buffer::of(x)?;
    match buffer.layout().reshape(&x.shape().sizes(), &to.sizes()) {
        Some(layout) => Ok(buffer.with_layout(layout)),
        None if x.shape().count() > LONG => {
            interrupt::released(|| buffer::copy("reshape", &buffer, x.spec()))
        }
        None => buffer::copy("reshape", &buffer, x.spec()),
    }
}

/// The axes in another order.
pub fn transpose(x: &Tensor, axes: &[usize]) -> Result<Buffer> {
    let buffer = buffer::of(x)?;
    Ok(buffer.with_layout(buffer.layout().transpose(&x.shape().sizes(), axes)))
}

/// Broadcasts without copying.
pub fn broadcast(x: &Tensor, p: &Broadcast) -> Result<Buffer> {
    let buffer = buffer::of(x)?;
    let layout = buffer
        .layout()
        .broadcast(&x.shape().sizes(), &p.shape.sizes(), &p.axes);
    Ok(buffer.with_layout(layout))
}

/// Every `stride`-th element from `start` on.
pub fn slice(x: &Tensor, p: &Slice, out: &Spec) -> Result<Buffer> {
    let buffer = buffer::of(x)?;
    let start: Sizes = p.start.iter().map(|&d| number(d) as usize).collect();
    let layout = buffer
        .layout()
        .slice(&x.shape().sizes(), &start, &p.strides, &out.shape.sizes());
    Ok(buffer.with_layout(layout))
}

/// Reverses axes.
pub fn reverse(x: &Tensor, axes: &[usize]) -> Result<Buffer> {
    let buffer = buffer::of(x)?;
    Ok(buffer.with_layout(buffer.layout().reverse(&x.shape().sizes(), axes)))
}

/// Integers of any type as i64, saturating.
pub fn indices(x: &Tensor) -> Result<Vec<i64>> {
    let buffer = buffer::of(x)?;
    let count = x.shape().count();
    macro_rules! read {
        ($($d:ident $t:ty),*) => {
            match x.dtype() {
                $(clematis_core::DType::$d => {
                    let view = buffer.view::<$t>(x.shape());
                    let mut buffer = Vec::new();
                    let values = match view.dense() {
                        Some(slice) => slice,
                        None => {
                            buffer.resize(count, 0);
                            view.merged().read(0, &mut buffer);
                            &buffer
                        }
                    };
                    Ok(values.iter().map(|&v| i64::try_from(v).unwrap_or(i64::MAX)).collect())
                })*
                other => bail!(Internal, "native: indices of type {other}"),
            }
        };
    }
    read!(U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64)
}

/// Starts of a block, clamped so that the block is in bounds.
fn clipped_starts(starts: &Tensor, sizes: &[usize], block: &[usize]) -> Result<Sizes> {
    let starts = indices(starts)?;
    Ok(sizes
        .iter()
        .zip(block)
        .zip(starts)
        .map(|((&size, &part), start)| start.clamp(0, size as i64 - part as i64) as usize)
        .collect())
}

/// A block at a start given by a tensor.
pub fn dynamic_slice(x: &Tensor, starts: &Tensor, out: &Spec) -> Result<Buffer> {
    let buffer = buffer::of(x)?;
    let (sizes, block) = (x.shape().sizes(), out.shape.sizes());
    let start = clipped_starts(starts, &sizes, &block)?;
    let step: Sizes = sizes.iter().map(|_| 1).collect();
    let layout = buffer.layout().slice(&sizes, &start, &step, &block);
    Ok(buffer.with_layout(layout))
}

/// A copy with a block written at a start given by a tensor.
pub fn dynamic_update(x: &Tensor, update: &Tensor, starts: &Tensor, out: &Spec) -> Result<Buffer> {
    let (x, from) = (buffer::of(x)?, buffer::of(update)?);
    let sizes = out.shape.sizes();
    let start = clipped_starts(starts, &sizes, &update.shape().sizes())?;
    let strides = dense_strides(&sizes);
    let offset = start
        .iter()
        .zip(&strides)
        .map(|(&s, &t)| s as isize * t)
        .sum();
    let mut bytes = memory::alloc("dynamic_update_slice", out)?;
    by_size!(out.dtype, T => {
        let to = bytes.as_mut_slice::<T>();
        crate::layout::copy(&x.view::<T>(&out.shape), to);
        paste(&from.view::<T>(update.shape()), to, offset, &strides);
    });
    Ok(Buffer::new(bytes))
}

/// Writes a view's elements to strided positions.
pub fn paste<T: Stored>(view: &View<'_, T>, out: &mut [T], offset: isize, strides: &[isize]) {
    if view.count() == 0 {
        return;
    }
    let (sizes, [from, to]) = merge(&view.sizes, [&view.strides, strides]);
    let Some(last) = sizes.len().checked_sub(1) else {
        out[offset as usize] = view.data[view.offset];
        return;
    };
    let (row, step_from, step_to) = (sizes[last], from[last], to[last]);
    let outer = &sizes[..last];
    let rows: usize = outer.iter().product();
    let per_task = (Cost::Light.grain() / row).max(1);
    let tasks = rows.div_ceil(per_task);
    // SAFETY: the rows of a view are written to different positions, and one task has each.
    let disjoint = unsafe { parallel::Disjoint::promise() };
    parallel::for_disjoint(
        disjoint,
        out,
        tasks,
        Vec::new,
        |buffer: &mut Vec<T>, task, out| {
            let first = task * per_task;
            let starts = [view.offset as isize, offset];
            let mut walk = Walk::new(outer, [&from[..last], &to[..last]], starts, first);
            for _ in first..rows.min(first + per_task) {
                let [source, target] = walk.at;
                if step_to == 1 {
                    read_run(
                        view.data,
                        source,
                        step_from,
                        out.slice(target as usize, row),
                    );
                } else {
                    buffer.resize(row, T::zeroed());
                    read_run(view.data, source, step_from, buffer);
                    for (i, &value) in buffer.iter().enumerate() {
                        out.set((target + i as isize * step_to) as usize, value);
                    }
                }
                walk.step();
            }
        },
    );
}

/// Pads around and between the elements; negative padding crops.
pub fn pad(x: &Tensor, value: &Tensor, p: &Pad, out: &Spec) -> Result<Buffer> {
    let (buffer, value) = (buffer::of(x)?, buffer::of(value)?);
    let sizes = out.shape.sizes();
    let dense = dense_strides(&sizes);
    let mut bytes = memory::alloc("pad", out)?;
    by_size!(out.dtype, T => {
        let to = bytes.as_mut_slice::<T>();
        let padding = value.view::<T>(&Shape::scalar());
        fill_slice(to, padding.data[padding.offset]);
        let mut view = buffer.view::<T>(x.shape());
        let mut offset = 0;
        let mut strides = Strides::new();
        let mut at = view.offset as isize;
        for axis in 0..sizes.len() {
            let low = number(p.low[axis]);
            let step = isize::try_from(p.interior[axis]).unwrap_or(isize::MAX).saturating_add(1);
            // Element i goes to low + i·step; elements out of bounds are cropped.
            let first = low.min(0).unsigned_abs().div_ceil(step as usize);
            let space = (sizes[axis] as isize).saturating_sub(low);
            let end = if space > 0 { (space as usize).div_ceil(step as usize) } else { 0 };
            let end = end.min(view.sizes[axis]);
            let kept = end.saturating_sub(first);
            if kept > 0 {
                at += first as isize * view.strides[axis];
                offset += (low + first as isize * step) * dense[axis];
            }
            view.sizes[axis] = kept;
            // An axis with one element has no stride, however large.
            strides.push(if kept > 1 { dense[axis] * step } else { 0 });
        }
        view.offset = at as usize;
        paste(&view, to, offset, &strides);
    });
    Ok(Buffer::new(bytes))
}

/// Concatenates all operands along an axis.
pub fn concat(inputs: &[&Tensor], axis: usize, out: &Spec) -> Result<Buffer> {
    if let [x] = inputs {
        return Ok(buffer::of(x)?.into_owned());
    }
    let strides = dense_strides(&out.shape.sizes());
    let mut bytes = memory::alloc("concat", out)?;
    by_size!(out.dtype, T => {
        let to = bytes.as_mut_slice::<T>();
        let mut at = 0;
        for x in inputs {
            paste(&buffer::of(x)?.view::<T>(x.shape()), to, at * strides[axis], &strides);
            at += x.shape().size(axis) as isize;
        }
    });
    Ok(Buffer::new(bytes))
}

/// The index vectors of the first nonzero elements, padded with the shape's end.
pub fn nonzero(x: &Tensor, out: &Spec) -> Result<Buffer> {
    let buffer = buffer::of(x)?;
    let sizes = x.shape().sizes();
    let mut bytes = memory::alloc("nonzero", out)?;
    let to = bytes.as_mut_slice::<i64>();
    let rank = sizes.len();
    let most = out.shape.size(0);
    let mut found = 0;
    with_element!(x.dtype(), E => {
        use clematis_core::Element;
        let view = buffer.view::<<E as Element>::Stored>(x.shape());
        let mut walk = Walk::new(&view.sizes, [&view.strides], [view.offset as isize], 0);
        for _ in 0..view.count() {
            if found == most {
                break;
            }
            if E::load(view.data[walk.at[0] as usize]).scalar().as_bool() {
                for (to, &i) in to[found * rank..].iter_mut().zip(walk.index()) {
                    *to = i as i64;
                }
                found += 1;
            }
            walk.step();
        }
    });
    if rank > 0 {
        for row in to[found * rank..].chunks_mut(rank) {
            for (to, &size) in row.iter_mut().zip(&sizes) {
                *to = size as i64;
            }
        }
    }
    Ok(Buffer::new(bytes))
}
