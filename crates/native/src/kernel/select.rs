//! `select` and `clamp`.

use super::binary::Ordered;
use super::map::{self, Cost, source};
use crate::buffer::Buffer;
use crate::element::{Stored, by_real, by_size};
use crate::memory;
use crate::simd::multiversion;
use clematis_core::{Result, Spec, Tensor, bail};

multiversion! {
    /// `x` where the condition holds, else `y`, for a row.
    pub fn choose[T: Copy](out: &mut [T], cond: &[u8], x: &[T], y: &[T]) {
        for (((out, &c), &x), &y) in out.iter_mut().zip(cond).zip(x).zip(y) {
            *out = if c != 0 { x } else { y };
        }
    }
    fn hold[T: Ordered](out: &mut [T], low: &[T], x: &[T], high: &[T]) {
        for (((out, &low), &x), &high) in out.iter_mut().zip(low).zip(x).zip(high) {
            *out = x.larger(low).smaller(high);
        }
    }
}

/// `x` where the condition holds, else `y`.
pub fn select(cond: &Tensor, x: &Tensor, y: &Tensor, out: &Spec) -> Result<Buffer> {
    let mut bytes = memory::alloc("select", out)?;
    by_size!(out.dtype, T => map::zip3(
        bytes.as_mut_slice::<T>(),
        &source::<u8>(cond, &out.shape)?,
        &source::<T>(x, &out.shape)?,
        &source::<T>(y, &out.shape)?,
        Cost::Light,
        choose,
    ));
    Ok(Buffer::new(bytes))
}

/// `min(max(x, low), high)`; NaN in any of them propagates.
pub fn clamp(low: &Tensor, x: &Tensor, high: &Tensor, out: &Spec) -> Result<Buffer> {
    fn run<T>(low: &Tensor, x: &Tensor, high: &Tensor, out: &Spec) -> Result<Buffer>
    where
        T: Stored,
        T::Wide: Ordered,
    {
        let mut bytes = memory::alloc("clamp", out)?;
        map::zip3(
            bytes.as_mut_slice::<T>(),
            &source::<T>(low, &out.shape)?,
            &source::<T>(x, &out.shape)?,
            &source::<T>(high, &out.shape)?,
            Cost::Light,
            hold,
        );
        Ok(Buffer::new(bytes))
    }
    by_real!(out.dtype, T => run::<T>(low, x, high, out), bail!(Internal, "clamp: complex numbers have no order"))
}
