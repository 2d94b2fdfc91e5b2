//! Tensor creation.

use super::map::Cost;
use crate::buffer::Buffer;
use crate::element::{Stored, by_stored, constant};
use crate::layout::{Layout, dense_strides};
use crate::{memory, parallel};
use clematis_core::op::Iota;
use clematis_core::{Element, Result, Scalar, Spec, with_element};

/// Bytes up to which a fill value is materialized: kernels are fastest on contiguous elements.
const WRITTEN_OUT: usize = 4096;

/// One value everywhere: stored once and broadcast, however large the shape.
pub fn fill(op: &str, value: Scalar, out: &Spec) -> Result<Buffer> {
    if out.bytes() <= WRITTEN_OUT {
        let mut bytes = memory::alloc(op, out)?;
        by_stored!(out.dtype, T => {
            if let Some(value) = constant::<T>(value, out.dtype) {
                bytes.as_mut_slice::<T>().fill(value);
            }
        });
        return Ok(Buffer::new(bytes));
    }
    // Fails here if the result could not be held, so that the first kernel to read it does not have to.
    memory::check(op, out)?;
    let mut bytes = memory::alloc(op, &Spec::scalar(out.dtype))?;
    by_stored!(out.dtype, T => {
        if let Some(value) = constant::<T>(value, out.dtype) {
            bytes.as_mut_slice::<T>().fill(value);
        }
    });
    let sizes = out.shape.sizes();
    let strides = sizes.iter().map(|_| 0).collect();
    Ok(Buffer::new(bytes).with_layout(Layout::new(0, &sizes, strides)))
}

/// 0, 1, 2 … along one axis.
pub fn iota(p: &Iota, out: &Spec) -> Result<Buffer> {
    let sizes = out.shape.sizes();
    let size = sizes[p.axis];
    let line = Spec::of(out.dtype, [size])?;
    memory::check("iota", out)?;
    let mut bytes = memory::alloc("iota", &line)?;
    with_element!(out.dtype, E => {
        type T = <E as Element>::Stored;
        // Counts beyond the range of half precision round like any other number.
        parallel::for_chunks_mut(bytes.as_mut_slice::<T>(), Cost::Medium.grain(), |start, out| {
            for (i, out) in out.iter_mut().enumerate() {
                *out = E::from_scalar(Scalar::from(start + i)).store();
            }
        });
    });
    // The other axes repeat the line.
    let mut strides = dense_strides(&sizes);
    strides.iter_mut().for_each(|s| *s = 0);
    strides[p.axis] = 1;
    Ok(Buffer::new(bytes).with_layout(Layout::new(0, &sizes, strides)))
}

/// Fills a slice, on several threads if that pays.
pub fn fill_slice<T: Stored>(out: &mut [T], value: T) {
    parallel::for_chunks_mut(out, Cost::Light.grain(), |_, out| out.fill(value));
}
