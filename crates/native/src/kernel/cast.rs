//! The same values as another element type.
//!
//! Floats to integers are cut and saturate, NaN gives 0; integers wrap; anything but zero is true; a complex number
//! gives its real part. To a half from something wider there is one rounding: what an f32 cannot hold is kept in its
//! last bit (rounding to odd), which the second rounding then sees.

use super::map::{self, Cost};
use super::unary::each;
use crate::buffer::{self, Buffer};
use crate::element::{Stored, by_stored, f32_to_bf16, f32_to_f16};
use clematis_core::{DType, Result, Spec, Tensor};
use num_complex::Complex;

/// A computed type that can become any other.
trait Number: Copy {
    fn real(self) -> f64;
    fn imaginary(self) -> f64 {
        0.0
    }
    fn truth(self) -> bool;
    /// Rounded to an f32 so that rounding on to a half is right.
    fn odd(self) -> f32;
}

/// Cut to an f32 with the last bit set where something was cut.
#[inline(always)]
fn odd(x: f64) -> f32 {
    let near = x as f32;
    let exact = f64::from(near) == x || x.is_nan();
    let away = f64::from(near).abs() > x.abs();
    let cut = f32::from_bits(near.to_bits().wrapping_sub(u32::from(away)));
    if exact {
        near
    } else {
        f32::from_bits(cut.to_bits() | 1)
    }
}

macro_rules! numbers {
    ($($t:ty, |$x:ident| $odd:expr;)*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn real(self) -> f64 { self as f64 }
            #[inline(always)]
            fn truth(self) -> bool { self != 0 as $t }
            #[inline(always)]
            fn odd(self) -> f32 { let $x = self; $odd }
        }
    )*};
}
numbers! {
    u8, |x| x as f32; u16, |x| x as f32; i8, |x| x as f32; i16, |x| x as f32; f32, |x| x; f64, |x| odd(x);
    u32, |x| odd(f64::from(x)); i32, |x| odd(f64::from(x));
    u64, |x| odd(sticky(x));
    i64, |x| odd(sticky(x.unsigned_abs()).copysign(if x < 0 { -1.0 } else { 1.0 }));
}

/// An f64 whose last bit tells of what it cannot hold.
#[inline(always)]
fn sticky(x: u64) -> f64 {
    let cut = (x >> 11 | u64::from(x & 0x7ff != 0)) as f64 * 2048.0;
    if x < 1 << 53 { x as f64 } else { cut }
}

macro_rules! complex_numbers {
    ($($t:ty),*) => {$(
        impl Number for Complex<$t> {
            #[inline(always)]
            fn real(self) -> f64 { self.re as f64 }
            #[inline(always)]
            fn imaginary(self) -> f64 { self.im as f64 }
            #[inline(always)]
            fn truth(self) -> bool { self.re != 0.0 || self.im != 0.0 }
            #[inline(always)]
            fn odd(self) -> f32 { Number::odd(self.re) }
        }
    )*};
}
complex_numbers!(f32, f64);

/// `A` to a computed type `B`; through f64 only where that is exact.
trait To<B>: Copy {
    fn to(self) -> B;
}
macro_rules! plain_to {
    ($($a:ty)*; $b:tt) => { $(plain_to!(@ $a, $b);)* };
    (@ $a:ty, [$($b:ty)*]) => {$(
        impl To<$b> for $a {
            #[inline(always)]
            fn to(self) -> $b { self as $b }
        }
    )*};
}
plain_to! { u8 u16 u32 u64 i8 i16 i32 i64 f32 f64; [u8 u16 u32 u64 i8 i16 i32 i64 f32 f64] }
macro_rules! part_to {
    ($($p:ty: $($b:ty)*;)*) => {$($(
        impl To<$b> for Complex<$p> {
            #[inline(always)]
            fn to(self) -> $b { self.re as $b }
        }
    )*)*};
}
part_to! {
    f32: u8 u16 u32 u64 i8 i16 i32 i64 f32 f64;
    f64: u8 u16 u32 u64 i8 i16 i32 i64 f32 f64;
}

fn real_to<A, B>(x: &Tensor, out: &Spec) -> Result<Buffer>
where
    A: Stored<Wide: To<B>>,
    B: Stored<Wide = B>,
{
    map::unary::<A, B>("cast", x, out, Cost::Light, |out, x| {
        each(out, x, |x: A::Wide| x.to())
    })
}

fn run<A>(x: &Tensor, out: &Spec) -> Result<Buffer>
where
    A: Stored<
        Wide: Number
                  + To<u8>
                  + To<u16>
                  + To<u32>
                  + To<u64>
                  + To<i8>
                  + To<i16>
                  + To<i32>
                  + To<i64>
                  + To<f32>
                  + To<f64>,
    >,
{
    match out.dtype {
        DType::Bool => map::unary::<A, u8>("cast", x, out, Cost::Light, |out, x| {
            each(out, x, |x: A::Wide| u8::from(x.truth()))
        }),
        DType::U8 => real_to::<A, u8>(x, out),
        DType::U16 => real_to::<A, u16>(x, out),
        DType::U32 => real_to::<A, u32>(x, out),
        DType::U64 => real_to::<A, u64>(x, out),
        DType::I8 => real_to::<A, i8>(x, out),
        DType::I16 => real_to::<A, i16>(x, out),
        DType::I32 => real_to::<A, i32>(x, out),
        DType::I64 => real_to::<A, i64>(x, out),
        // As bits, so that the f32 between is the one rounded to odd.
        DType::F16 => map::unary::<A, u16>("cast", x, out, Cost::Light, |out, x| {
            each(out, x, |x: A::Wide| f32_to_f16(x.odd()).to_bits())
        }),
        DType::BF16 => map::unary::<A, u16>("cast", x, out, Cost::Light, |out, x| {
            each(out, x, |x: A::Wide| f32_to_bf16(x.odd()).to_bits())
        }),
        DType::F32 => real_to::<A, f32>(x, out),
        DType::F64 => real_to::<A, f64>(x, out),
        DType::C64 => map::unary::<A, Complex<f32>>("cast", x, out, Cost::Light, |out, x| {
            each(out, x, |x: A::Wide| {
                Complex::new(x.to(), x.imaginary() as f32)
            })
        }),
        DType::C128 => map::unary::<A, Complex<f64>>("cast", x, out, Cost::Light, |out, x| {
            each(out, x, |x: A::Wide| Complex::new(x.real(), x.imaginary()))
        }),
    }
}

/// Runs a cast; to the same type it is the operand itself.
pub fn cast(x: &Tensor, out: &Spec) -> Result<Buffer> {
    if x.dtype() == out.dtype {
        return Ok(buffer::of(x)?.into_owned());
    }
    // Every value of these is one of the other's, bit for bit.
    if x.dtype() == DType::Bool && out.dtype == DType::U8 {
        return Ok(buffer::of(x)?.into_owned());
    }
    by_stored!(x.dtype(), T => run::<T>(x, out))
}

/// The same bits as another type; only bool has bits that it may not hold.
pub fn bitcast(x: &Tensor, out: &Spec) -> Result<Buffer> {
    if out.dtype == DType::Bool && x.dtype() != DType::Bool {
        return map::unary::<u8, u8>("bitcast", x, out, Cost::Light, |out, x| {
            each(out, x, |x| u8::from(x != 0))
        });
    }
    Ok(buffer::of(x)?.into_owned())
}
