//! Element types as kernels see them.
//!
//! Owns the type in which each stored type is computed, the conversions between both, and the choice of a Rust type by
//! dtype. Half-precision types are computed as f32 and rounded once; bool is stored as a byte that is 0 or 1.

use crate::simd::multiversion;
use bytemuck::Pod;
use clematis_core::{DType, Element, Scalar, with_element};
use half::{bf16, f16};
use num_complex::Complex;

/// A type in memory and the type in which it is computed.
pub trait Stored: Pod + Send + Sync {
    /// The type kernels compute in.
    type Wide: Pod + Send + Sync;
    /// An unsigned type of the same size.
    type Bits: Stored<Wide = Self::Bits>;
    /// Whether both types are the same.
    const DIRECT: bool;
    /// Converts to the computed type.
    fn widen(from: &[Self], to: &mut [Self::Wide]);
    /// Converts from the computed type, rounding to nearest.
    fn narrow(from: &[Self::Wide], to: &mut [Self]);
}

macro_rules! direct {
    ($($t:ty, $bits:ty;)*) => {$(
        impl Stored for $t {
            type Wide = $t;
            type Bits = $bits;
            const DIRECT: bool = true;
            #[inline]
            fn widen(from: &[$t], to: &mut [$t]) {
                to.copy_from_slice(from);
            }
            #[inline]
            fn narrow(from: &[$t], to: &mut [$t]) {
                to.copy_from_slice(from);
            }
        }
    )*};
}
direct! {
    u8, u8; u16, u16; u32, u32; u64, u64; u128, u128; i8, u8; i16, u16; i32, u32; i64, u64;
    f32, u32; f64, u64; Complex<f32>, u64; Complex<f64>, u128;
}

macro_rules! half {
    ($t:ty, $widen:ident, $narrow:ident, $up:ident, $down:ident) => {
        multiversion! {
            fn $widen(from: &[$t], to: &mut [f32]) {
                for (to, from) in to.iter_mut().zip(from) {
                    *to = $up(*from);
                }
            }
            fn $narrow(from: &[f32], to: &mut [$t]) {
                for (to, from) in to.iter_mut().zip(from) {
                    *to = $down(*from);
                }
            }
        }
        impl Stored for $t {
            type Wide = f32;
            type Bits = u16;
            const DIRECT: bool = false;
            fn widen(from: &[$t], to: &mut [f32]) {
                $widen(from, to);
            }
            fn narrow(from: &[f32], to: &mut [$t]) {
                $narrow(from, to);
            }
        }
    };
}
half! { f16, widen_f16, narrow_f16, f16_to_f32, f32_to_f16 }
half! { bf16, widen_bf16, narrow_bf16, bf16_to_f32, f32_to_bf16 }

// `half` converts one number at a time after a run-time check of CPU features; these are plain arithmetic on bits and
// vectorize.

/// Exact.
#[inline(always)]
pub fn f16_to_f32(h: f16) -> f32 {
    let bits = u32::from(h.to_bits());
    let magnitude = (bits & 0x7fff) << 13;
    // The exponent is in place but 112 too low; the multiplication fixes that for subnormals too.
    let finite = f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23);
    let special = magnitude | 0x7f80_0000;
    let magnitude = if bits & 0x7c00 == 0x7c00 {
        special
    } else {
        finite.to_bits()
    };
    f32::from_bits(magnitude | (bits & 0x8000) << 16)
}

/// Rounds to nearest, ties to even.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> f16 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    let sign = (bits >> 16) & 0x8000;
    // Below the normal range: adding 1/2 aligns the digits with the last place of a subnormal, and rounds.
    let subnormal = (f32::from_bits(magnitude) + 0.5)
        .to_bits()
        .wrapping_sub(0x3f00_0000);
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13;
    let finite = if magnitude < 0x3880_0000 {
        subnormal
    } else {
        normal
    };
    let nan = 0x7e00 | (magnitude >> 13) & 0x1ff;
    let large = if magnitude > 0x7f80_0000 { nan } else { 0x7c00 };
    let magnitude = if magnitude >= 0x4780_0000 {
        large
    } else {
        finite
    };
    f16::from_bits((sign | magnitude) as u16)
}

/// Exact.
#[inline(always)]
pub fn bf16_to_f32(h: bf16) -> f32 {
    f32::from_bits(u32::from(h.to_bits()) << 16)
}

/// Rounds to nearest, ties to even.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let odd = (bits >> 16) & 1;
    let rounded = bits.wrapping_add(0x7fff + odd) >> 16;
    let nan = (bits >> 16) | 0x40;
    let bits = if bits & 0x7fff_ffff > 0x7f80_0000 {
        nan
    } else {
        rounded
    };
    bf16::from_bits(bits as u16)
}

/// A number as an element of `dtype`, read as `T` of the same size.
pub fn constant<T: Pod>(value: Scalar, dtype: DType) -> Option<T> {
    with_element!(dtype, E => bytemuck::try_cast(<E as Element>::from_scalar(value).store()).ok())
}

/// Runs an expression with `T` standing for an unsigned type of the same size: for kernels that only move elements.
macro_rules! by_size {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            8 => {
                type $T = u64;
                $body
            }
            _ => {
                type $T = u128;
                $body
            }
        }
    };
}
pub(crate) use by_size;

/// Runs an expression with `T` standing for the stored type of a dtype: a byte for bool.
macro_rules! by_stored {
    ($dtype:expr, $T:ident => $body:expr) => {
        clematis_core::with_element!($dtype, E => {
            type $T = <E as clematis_core::Element>::Stored;
            $body
        })
    };
}
pub(crate) use by_stored;

/// The same for ordered types; `$otherwise` for complex ones.
macro_rules! by_real {
    ($dtype:expr, $T:ident => $body:expr, $otherwise:expr) => {
        crate::element::by_real!(@ $dtype, $T, $body, $otherwise,
            U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64,
            F16 half::f16, BF16 half::bf16, F32 f32, F64 f64)
    };
    (@ $dtype:expr, $T:ident, $body:expr, $otherwise:expr, $($d:ident $t:ty),*) => {
        match $dtype {
            clematis_core::DType::Bool => { type $T = u8; $body }
            $(clematis_core::DType::$d => { type $T = $t; $body })*
            clematis_core::DType::C64 | clematis_core::DType::C128 => $otherwise,
        }
    };
}
pub(crate) use by_real;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_converts_as_the_half_crate_does() {
        for bits in 0..=u16::MAX {
            let (h, b) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert_eq!(
                f16_to_f32(h).to_bits() & 0xffbf_ffff,
                h.to_f32().to_bits() & 0xffbf_ffff
            );
            assert_eq!(
                bf16_to_f32(b).to_bits() & 0xffbf_ffff,
                b.to_f32().to_bits() & 0xffbf_ffff
            );
        }
        let mut x = 0u32;
        loop {
            for x in [x, x ^ 1, x | 0xfff, x & !0xfff, x | 0x8000_0000] {
                let f = f32::from_bits(x);
                let (h, b) = (f32_to_f16(f), f32_to_bf16(f));
                assert!(
                    h.to_bits() == f16::from_f32(f).to_bits() || f.is_nan() && h.is_nan(),
                    "{x:x}"
                );
                assert!(
                    b.to_bits() == bf16::from_f32(f).to_bits() || f.is_nan() && b.is_nan(),
                    "{x:x}"
                );
            }
            match x.checked_add(0x0f3d) {
                Some(next) => x = next,
                None => break,
            }
        }
    }
}
