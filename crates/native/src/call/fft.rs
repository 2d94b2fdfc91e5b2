//! Fourier transforms.

use super::dense;
use crate::buffer::{self, Buffer};
use crate::kernel::fft;
use crate::memory;
use clematis_core::op::{Fft, FftKind};
use clematis_core::{DType, Error, Kind, Result, Spec, Tensor};
use num_complex::Complex;

/// Runs a transform.
pub fn run(op: &str, p: &Fft, x: &Tensor, out: &Spec) -> Result<Buffer> {
    match out.dtype.real() {
        DType::F64 => typed::<f64>(op, p, x, out),
        _ => typed::<f32>(op, p, x, out),
    }
}

fn typed<T: fft::Real + bytemuck::Pod>(op: &str, p: &Fft, x: &Tensor, out: &Spec) -> Result<Buffer>
where
    Complex<T>: bytemuck::Pod,
{
    let fail = |e: fft::FftError| Error::new(Kind::Value, format!("{op}: {e}"));
    let sizes = x.shape().sizes();
    let mut bytes = memory::alloc(op, out)?;
    let from = buffer::of(x)?;
    match p.kind {
        FftKind::Forward | FftKind::Inverse => {
            crate::element::by_size!(out.dtype, S => {
                crate::layout::copy(&from.view::<S>(x.shape()), bytes.as_mut_slice::<S>());
            });
            let inverse = p.kind == FftKind::Inverse;
            fft::c2c::<T>(bytes.as_mut_slice(), &sizes, &p.axes, inverse).map_err(fail)?;
        }
        FftKind::Real => {
            let from = buffer::contiguous(op, &from, x.spec())?;
            let from = dense(&from, x.shape().count())?;
            fft::r2c::<T>(from, &sizes, &p.axes, bytes.as_mut_slice()).map_err(fail)?;
        }
        FftKind::RealInverse => {
            let from = buffer::contiguous(op, &from, x.spec())?;
            let from = dense(&from, x.shape().count())?;
            let n = p.length.value().unwrap_or(0) as usize;
            fft::c2r::<T>(from, &sizes, &p.axes, n, bytes.as_mut_slice()).map_err(fail)?;
        }
    }
    Ok(Buffer::new(bytes))
}
