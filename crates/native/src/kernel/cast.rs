//! Casts between dtypes.
//!
//! Floats to integers truncate and saturate, NaN gives 0; integers wrap; anything but zero is true; a complex number
//! gives its real part. A cast from a wider type to half precision rounds once: the bits that an f32 cannot hold are
//! kept in its last bit (rounding to odd), which the second rounding then sees.

use super::map::{self, Cost};
use super::unary::each;
use crate::buffer::{self, Buffer};
use crate::element::{Stored, bf16_to_f32, by_stored, f16_to_f32, f32_to_bf16, f32_to_f16};
use clematis_core::{DType, Result, Spec, Tensor};
use half::{bf16, f16};
use num_complex::Complex;

/// A stored type as a number of any kind.
trait Number: Stored {
    /// The type that is converted from: f32 for half precision.
    type Base: Base;
    fn base(self) -> Self::Base;
}

/// A type that Rust converts from directly.
trait Base: Copy {
    fn is_nonzero(self) -> bool;
    fn imaginary(self) -> f64 {
        0.0
    }
    /// Rounded to an f32 so that rounding on to half precision is correct.
    fn odd(self) -> f32;
}

/// Truncated to an f32, with the last bit set if bits were lost.
#[inline(always)]
fn odd(x: f64) -> f32 {
    let near = x as f32;
    let exact = f64::from(near) == x || x.is_nan();
    let away = f64::from(near).abs() > x.abs();
    let cut = near.to_bits().wrapping_sub(u32::from(away)) | 1;
    if exact { near } else { f32::from_bits(cut) }
}

/// An f64 whose last bit records lost bits.
#[inline(always)]
fn sticky(x: u64) -> f64 {
    let cut = (x >> 11 | u64::from(x & 0x7ff != 0)) as f64 * 2048.0;
    if x < 1 << 53 { x as f64 } else { cut }
}

macro_rules! bases {
    ($($t:ty, |$x:ident| $predicate:expr, $odd:expr;)*) => {$(
        impl Base for $t {
            #[inline(always)]
            fn is_nonzero(self) -> bool { let $x = self; $predicate }
            #[inline(always)]
            fn odd(self) -> f32 { let $x = self; $odd }
        }
    )*};
}
bases! {
    u8, |x| x != 0, f32::from(x); u16, |x| x != 0, f32::from(x);
    i8, |x| x != 0, f32::from(x); i16, |x| x != 0, f32::from(x);
    u32, |x| x != 0, odd(f64::from(x)); i32, |x| x != 0, odd(f64::from(x));
    u64, |x| x != 0, odd(sticky(x));
    i64, |x| x != 0, odd(sticky(x.unsigned_abs()).copysign(if x < 0 { -1.0 } else { 1.0 }));
    f32, |x| x != 0.0, x; f64, |x| x != 0.0, odd(x);
}
macro_rules! complex_bases {
    ($($t:ty)*) => {$(
        impl Base for Complex<$t> {
            #[inline(always)]
            fn is_nonzero(self) -> bool { self.re != 0.0 || self.im != 0.0 }
            #[inline(always)]
            fn imaginary(self) -> f64 { self.im.into() }
            #[inline(always)]
            fn odd(self) -> f32 { self.re.odd() }
        }
    )*};
}
complex_bases! { f32 f64 }

macro_rules! numbers {
    ($($t:ty => $base:ty, $convert:expr;)*) => {$(
        impl Number for $t {
            type Base = $base;
            #[inline(always)]
            fn base(self) -> $base { $convert(self) }
        }
    )*};
}
numbers! {
    u8 => u8, |x| x; u16 => u16, |x| x; u32 => u32, |x| x; u64 => u64, |x| x;
    i8 => i8, |x| x; i16 => i16, |x| x; i32 => i32, |x| x; i64 => i64, |x| x;
    f16 => f32, f16_to_f32; bf16 => f32, bf16_to_f32; f32 => f32, |x| x; f64 => f64, |x| x;
    Complex<f32> => Complex<f32>, |x| x; Complex<f64> => Complex<f64>, |x| x;
}

/// A conversion that Rust has, applied to the real part.
trait To<B>: Copy {
    fn to(self) -> B;
}
/// Conversions from each of these to each of those; the part after the colon is what is converted.
macro_rules! to {
    ($($a:ty: |$x:ident| $real:expr;)*) => {$(
        to!(@ $a, |$x| $real, u8 u16 u32 u64 i8 i16 i32 i64 f32 f64);
    )*};
    (@ $a:ty, |$x:ident| $real:expr, $($b:ty)*) => {$(
        impl To<$b> for $a {
            #[inline(always)]
            fn to(self) -> $b { let $x = self; $real as $b }
        }
    )*};
}
to! {
    u8: |x| x; u16: |x| x; u32: |x| x; u64: |x| x; i8: |x| x; i16: |x| x; i32: |x| x; i64: |x| x;
    f32: |x| x; f64: |x| x; Complex<f32>: |x| x.re; Complex<f64>: |x| x.re;
}

/// A row from elements of `A`, read as bits of their size, to elements of `B` as bytes. Reading and writing by size
/// limits the loop over operands to one copy per size. The cast is bound by memory, so one version of the loop
/// suffices.
fn row<A: Number, B: Stored>(out: &mut [u8], x: &[A::Bits], f: impl Fn(A::Base) -> B) {
    let (out, x) = (
        bytemuck::cast_slice_mut::<u8, B>(out),
        bytemuck::cast_slice::<A::Bits, A>(x),
    );
    for (out, &x) in out.iter_mut().zip(x) {
        *out = f(x.base());
    }
}

/// The row that casts from `A`.
fn choose<A>(to: DType) -> fn(&mut [u8], &[A::Bits])
where
    A: Number,
    A::Base: To<u8>
        + To<u16>
        + To<u32>
        + To<u64>
        + To<i8>
        + To<i16>
        + To<i32>
        + To<i64>
        + To<f32>
        + To<f64>,
{
    match to {
        DType::Bool => |out, x| row::<A, u8>(out, x, |x| u8::from(x.is_nonzero())),
        DType::U8 => |out, x| row::<A, u8>(out, x, To::to),
        DType::U16 => |out, x| row::<A, u16>(out, x, To::to),
        DType::U32 => |out, x| row::<A, u32>(out, x, To::to),
        DType::U64 => |out, x| row::<A, u64>(out, x, To::to),
        DType::I8 => |out, x| row::<A, i8>(out, x, To::to),
        DType::I16 => |out, x| row::<A, i16>(out, x, To::to),
        DType::I32 => |out, x| row::<A, i32>(out, x, To::to),
        DType::I64 => |out, x| row::<A, i64>(out, x, To::to),
        DType::F16 => |out, x| row::<A, f16>(out, x, |x| f32_to_f16(x.odd())),
        DType::BF16 => |out, x| row::<A, bf16>(out, x, |x| f32_to_bf16(x.odd())),
        DType::F32 => |out, x| row::<A, f32>(out, x, To::to),
        DType::F64 => |out, x| row::<A, f64>(out, x, To::to),
        DType::C64 => |out, x| {
            row::<A, Complex<f32>>(out, x, |x| Complex::new(x.to(), x.imaginary() as f32));
        },
        DType::C128 => |out, x| {
            row::<A, Complex<f64>>(out, x, |x| Complex::new(x.to(), x.imaginary()));
        },
    }
}

/// Runs a cast; to the same type it is the operand itself.
pub fn cast(x: &Tensor, out: &Spec) -> Result<Buffer> {
    let (from, to) = (x.dtype(), out.dtype);
    // A bool is a byte already.
    if from == to || from == DType::Bool && to == DType::U8 {
        return Ok(buffer::of(x)?.into_owned());
    }
    match (from, to) {
        // The casts that networks use most, with SIMD.
        (DType::F16, DType::F32) => {
            return vectors::<f16, f32>(x, out, |out, x| each(out, x, |x| x));
        }
        (DType::BF16, DType::F32) => {
            return vectors::<bf16, f32>(x, out, |out, x| each(out, x, |x| x));
        }
        (DType::F32, DType::F16) => {
            return vectors::<f32, f16>(x, out, |out, x| each(out, x, |x| x));
        }
        (DType::F32, DType::BF16) => {
            return vectors::<f32, bf16>(x, out, |out, x| each(out, x, |x| x));
        }
        _ => {}
    }
    by_stored!(from, T => {
        map::by_bytes::<<T as Stored>::Bits>("cast", x, out, choose::<T>(to))
    })
}

fn vectors<A: Stored, B: Stored>(x: &Tensor, out: &Spec, f: map::Row1<A, B>) -> Result<Buffer> {
    map::unary::<A, B>("cast", x, out, Cost::Light, f)
}

/// The same bits as another type; only bool has invalid bit patterns.
pub fn bitcast(x: &Tensor, out: &Spec) -> Result<Buffer> {
    if out.dtype == DType::Bool && x.dtype() != DType::Bool {
        return map::unary::<u8, u8>("bitcast", x, out, Cost::Light, |out, x| {
            each(out, x, |x| u8::from(x != 0))
        });
    }
    Ok(buffer::of(x)?.into_owned())
}
