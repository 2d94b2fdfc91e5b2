//! Host memory with a spec: the common form of constants, transfers and checkpoints.
//!
//! Owns the alignment that every framework accepts (64 bytes) and the conversion of elements to Rust values.

use crate::dtype::{DType, Real, Scalar};
use crate::error::Result;
use crate::shape::{IntoShape, Shape};
use crate::spec::Spec;
use crate::{bail, ensure};
use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};
use num_complex::Complex;
use std::any::Any;
use std::sync::Arc;

/// One cache line: the unit of all allocations of the library.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Line([u8; 64]);

/// A byte buffer aligned to a cache line.
pub struct Bytes {
    /// Start of the buffer: in the keeper's lines, or in memory that it keeps alive.
    start: *mut Line,
    len: usize,
    keeper: Keeper,
}

/// The owner of a buffer's memory.
enum Keeper {
    /// Owned lines, and the function that recycles them on drop.
    Lines(Vec<Line>, Option<fn(Vec<Line>)>),
    /// A part of a larger block, with its number of lines; returned to the lender on drop.
    Lent(usize, Arc<dyn Lender>),
    /// Foreign memory, read only.
    Borrowed { _owner: Box<dyn Any + Send + Sync> },
}

/// Lends parts of a larger block.
pub trait Lender: Send + Sync {
    /// Takes back a part: its start and number of lines.
    fn take_back(&self, start: *mut Line, lines: usize);
}

// SAFETY: owned and lent lines belong to these bytes alone, and borrowed memory is only read, as the caller of
// `Bytes::borrow` promised; both kinds of keepers are `Send` and `Sync` themselves.
#[allow(unsafe_code)]
unsafe impl Send for Bytes {}
// SAFETY: as above; writing takes `&mut`.
#[allow(unsafe_code)]
unsafe impl Sync for Bytes {}

/// Allocations of at least this many bytes are checked against the memory limit.
const CHECKED: usize = 1 << 16;

impl Bytes {
    /// Allocates `len` zeroed bytes; an error if memory is exhausted.
    pub fn zeroed(len: usize) -> Result<Self> {
        if len >= CHECKED {
            crate::limit::check_available("alloc", len)?;
        }
        let lines = bytemuck::allocation::try_zeroed_vec(len.div_ceil(size_of::<Line>()));
        match lines {
            Ok(lines) => Ok(Bytes::from_lines(lines, len)),
            Err(()) => bail!(Value, "alloc: out of memory for {len} bytes"),
        }
    }

    /// Takes ownership of lines, of which the first `len` bytes are used. The contents are kept.
    #[inline]
    pub fn from_lines(mut lines: Vec<Line>, len: usize) -> Self {
        Bytes {
            start: lines.as_mut_ptr(),
            len: len.min(lines.len() * size_of::<Line>()),
            keeper: Keeper::Lines(lines, None),
        }
    }

    /// A buffer in a part of a larger block, of which the first `len` bytes are used.
    ///
    /// # Safety
    /// The lines from `start` on that `len` bytes take must be initialised and belong to the buffer alone until the
    /// lender takes them back.
    #[allow(unsafe_code)]
    pub unsafe fn lend(
        start: *mut Line,
        lines: usize,
        len: usize,
        lender: Arc<dyn Lender>,
    ) -> Self {
        Bytes {
            start,
            len: len.min(lines * size_of::<Line>()),
            keeper: Keeper::Lent(lines, lender),
        }
    }

    /// A buffer in foreign memory, without a copy; `None` if it is not aligned to a cache line.
    ///
    /// # Safety
    /// `start` must be readable for `len` bytes as long as `owner` lives, and must not be written to during that
    /// time.
    #[allow(unsafe_code)]
    pub unsafe fn borrow(
        start: *const u8,
        len: usize,
        owner: Box<dyn Any + Send + Sync>,
    ) -> Option<Self> {
        (start.addr().is_multiple_of(align_of::<Line>()) && !start.is_null()).then(|| Bytes {
            start: start.cast_mut().cast(),
            len,
            keeper: Keeper::Borrowed { _owner: owner },
        })
    }

    /// Passes the lines to `recycle` when the buffer is dropped, wherever that happens: in a tensor, a host value or
    /// a foreign array.
    #[must_use]
    #[inline]
    pub fn with_recycler(mut self, recycle: fn(Vec<Line>)) -> Self {
        if let Keeper::Lines(_, recycler) = &mut self.keeper {
            *recycler = Some(recycle);
        }
        self
    }

    /// The length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes as a slice of elements; an incomplete last element is left out.
    pub fn as_slice<T: Pod>(&self) -> &[T] {
        let whole = self.len / size_of::<T>() * size_of::<T>();
        // SAFETY: `len` bytes from `start` on are readable while the keeper lives, which this value owns.
        #[allow(unsafe_code)]
        let bytes = unsafe { std::slice::from_raw_parts(self.start.cast::<u8>(), whole) };
        bytemuck::cast_slice(bytes)
    }

    /// The bytes as a mutable slice of elements. Borrowed memory is copied first.
    pub fn as_mut_slice<T: Pod>(&mut self) -> &mut [T] {
        if matches!(self.keeper, Keeper::Borrowed { .. }) {
            let mut lines = vec![Line([0; 64]); self.len.div_ceil(size_of::<Line>())];
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut lines);
            bytes[..self.len].copy_from_slice(self.as_slice());
            *self = Bytes::from_lines(lines, self.len);
        }
        let whole = self.len / size_of::<T>() * size_of::<T>();
        // SAFETY: as in `as_slice`; owned and lent lines belong to this buffer, which is borrowed mutably.
        #[allow(unsafe_code)]
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.start.cast::<u8>(), whole) };
        bytemuck::cast_slice_mut(bytes)
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        match &mut self.keeper {
            Keeper::Lines(lines, Some(recycle)) => recycle(std::mem::take(lines)),
            Keeper::Lent(lines, lender) => lender.take_back(self.start, *lines),
            Keeper::Lines(_, None) | Keeper::Borrowed { .. } => {}
        }
    }
}

/// A Rust type that corresponds to a dtype.
pub trait Element: Copy + Send + Sync + 'static {
    /// The dtype.
    const DTYPE: DType;
    /// The memory representation; differs from `Self` only for bool.
    type Stored: Pod + Send + Sync;
    /// Converts to the memory representation.
    fn store(self) -> Self::Stored;
    /// Converts from the memory representation.
    fn load(stored: Self::Stored) -> Self;
    /// Converts to a scalar.
    fn scalar(self) -> Scalar;
    /// Converts from a scalar: truncates, saturates or rounds as `cast` does.
    fn from_scalar(value: Scalar) -> Self;
}

macro_rules! elements {
    ($($ty:ty: $dtype:ident, |$v:ident| $to:expr, |$s:ident| $from:expr;)*) => { $(
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
            type Stored = $ty;
            fn store(self) -> $ty { self }
            fn load(stored: $ty) -> $ty { stored }
            fn scalar(self) -> Scalar { let $v = self; $to }
            fn from_scalar($s: Scalar) -> $ty { $from }
        }
    )* };
}

/// Integers wrap to the low bits; floats are truncated and saturate.
macro_rules! int_from {
    ($s:ident, $ty:ty) => {
        match $s {
            Scalar::Float(v) | Scalar::Complex(v, _) => v.0 as $ty,
            other => other.as_i128() as $ty,
        }
    };
}

elements! {
    u8: U8, |v| v.into(), |s| int_from!(s, u8);
    u16: U16, |v| Scalar::Int(v.into()), |s| int_from!(s, u16);
    u32: U32, |v| v.into(), |s| int_from!(s, u32);
    u64: U64, |v| v.into(), |s| int_from!(s, u64);
    i8: I8, |v| Scalar::Int(v.into()), |s| int_from!(s, i8);
    i16: I16, |v| Scalar::Int(v.into()), |s| int_from!(s, i16);
    i32: I32, |v| v.into(), |s| int_from!(s, i32);
    i64: I64, |v| v.into(), |s| int_from!(s, i64);
    f16: F16, |v| v.to_f64().into(), |s| f16::from_f64(s.as_f64());
    bf16: BF16, |v| v.to_f64().into(), |s| bf16::from_f64(s.as_f64());
    f32: F32, |v| v.into(), |s| s.as_f64() as f32;
    f64: F64, |v| v.into(), |s| s.as_f64();
    Complex<f32>: C64, |v| v.into(), |s| { let (re, im) = s.as_complex(); Complex::new(re as f32, im as f32) };
    Complex<f64>: C128, |v| v.into(), |s| { let (re, im) = s.as_complex(); Complex::new(re, im) };
}

impl Element for bool {
    const DTYPE: DType = DType::Bool;
    type Stored = u8;
    fn store(self) -> u8 {
        u8::from(self)
    }
    fn load(stored: u8) -> bool {
        stored != 0
    }
    fn scalar(self) -> Scalar {
        Scalar::Bool(self)
    }
    fn from_scalar(value: Scalar) -> bool {
        value.as_bool()
    }
}

/// Runs an expression with `T` bound to the Rust type of a dtype (bool for `Bool`).
#[macro_export]
macro_rules! with_element {
    ($dtype:expr, $T:ident => $body:expr) => {{
        use $crate::host::types::*;
        match $dtype {
            $crate::DType::Bool => {
                type $T = bool;
                $body
            }
            $crate::DType::U8 => {
                type $T = u8;
                $body
            }
            $crate::DType::U16 => {
                type $T = u16;
                $body
            }
            $crate::DType::U32 => {
                type $T = u32;
                $body
            }
            $crate::DType::U64 => {
                type $T = u64;
                $body
            }
            $crate::DType::I8 => {
                type $T = i8;
                $body
            }
            $crate::DType::I16 => {
                type $T = i16;
                $body
            }
            $crate::DType::I32 => {
                type $T = i32;
                $body
            }
            $crate::DType::I64 => {
                type $T = i64;
                $body
            }
            $crate::DType::F16 => {
                type $T = F16;
                $body
            }
            $crate::DType::BF16 => {
                type $T = BF16;
                $body
            }
            $crate::DType::F32 => {
                type $T = f32;
                $body
            }
            $crate::DType::F64 => {
                type $T = f64;
                $body
            }
            $crate::DType::C64 => {
                type $T = C64;
                $body
            }
            $crate::DType::C128 => {
                type $T = C128;
                $body
            }
        }
    }};
}

/// The element types that are not in Rust's standard library.
pub mod types {
    /// IEEE 754 half precision.
    pub type F16 = half::f16;
    /// bfloat16.
    pub type BF16 = half::bf16;
    /// Complex number of two f32.
    pub type C64 = num_complex::Complex<f32>;
    /// Complex number of two f64.
    pub type C128 = num_complex::Complex<f64>;
}

/// A row-major host buffer with its spec.
#[derive(Clone)]
pub struct Host {
    spec: Spec,
    bytes: Arc<Bytes>,
}

impl Host {
    /// Wraps bytes; an error unless their number matches the spec.
    pub fn new(spec: Spec, bytes: impl Into<Arc<Bytes>>) -> Result<Self> {
        let bytes = bytes.into();
        spec.shape.check("host")?;
        ensure!(
            !spec.shape.is_symbolic(),
            Shape,
            "host: expected known sizes, got {spec}"
        );
        ensure!(
            bytes.len() == spec.bytes(),
            Shape,
            "host: {spec} takes {} bytes, not {}",
            spec.bytes(),
            bytes.len()
        );
        Ok(Host { spec, bytes })
    }

    /// Copies values; an error unless their number matches the shape.
    pub fn from_slice<T: Element>(values: &[T], shape: impl IntoShape) -> Result<Self> {
        let shape = shape.into_shape()?;
        let count = shape.known_count("host")?;
        ensure!(
            values.len() == count,
            Shape,
            "host: shape {shape} takes {count} values, not {}",
            values.len()
        );
        let mut bytes = Bytes::zeroed(count * T::DTYPE.size())?;
        for (to, from) in bytes.as_mut_slice::<T::Stored>().iter_mut().zip(values) {
            *to = from.store();
        }
        Host::new(Spec::new(T::DTYPE, shape), bytes)
    }

    /// A single number of this dtype.
    pub fn scalar(value: Scalar, dtype: DType) -> Result<Self> {
        with_element!(dtype, T => Host::from_slice(&[T::from_scalar(value)], Shape::scalar()))
    }

    /// Dtype and shape.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The bytes.
    pub fn bytes(&self) -> &Arc<Bytes> {
        &self.bytes
    }

    /// Copies the values; an error if they have another dtype.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        ensure!(
            T::DTYPE == self.spec.dtype,
            DType,
            "to_vec: expected {}, got a tensor of {}",
            T::DTYPE,
            self.spec.dtype
        );
        Ok(self
            .bytes
            .as_slice::<T::Stored>()
            .iter()
            .map(|&s| T::load(s))
            .collect())
    }

    /// The value at a row-major index, as a scalar.
    pub fn get(&self, at: usize) -> Result<Scalar> {
        let count = self.spec.shape.count();
        ensure!(
            at < count,
            Index,
            "get: {at} is out of range for {count} elements"
        );
        Ok(with_element!(self.spec.dtype, T => {
            T::load(self.bytes.as_slice::<<T as Element>::Stored>()[at]).scalar()
        }))
    }

    /// All values as f64, dropping imaginary parts.
    pub fn to_f64(&self) -> Vec<f64> {
        with_element!(self.spec.dtype, T => self
            .bytes
            .as_slice::<<T as Element>::Stored>()
            .iter()
            .map(|&s| T::load(s).scalar().as_f64())
            .collect())
    }

    /// All values as pairs of real and imaginary part.
    pub fn to_complex(&self) -> Vec<(f64, f64)> {
        with_element!(self.spec.dtype, T => self
            .bytes
            .as_slice::<<T as Element>::Stored>()
            .iter()
            .map(|&s| T::load(s).scalar().as_complex())
            .collect())
    }
}

impl Scalar {
    /// Converts to a dtype, as the op `cast` does.
    pub fn cast(self, dtype: DType) -> Scalar {
        with_element!(dtype, T => T::from_scalar(self).scalar())
    }
}

impl From<Real> for Scalar {
    fn from(value: Real) -> Scalar {
        Scalar::Float(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_to_cache_lines() {
        let host = Host::from_slice(&[1.5f32, -2.0, 3.0], [3usize]).unwrap();
        assert_eq!(host.bytes().as_slice::<f32>().as_ptr() as usize % 64, 0);
        assert_eq!(host.to_vec::<f32>().unwrap(), [1.5, -2.0, 3.0]);
        assert!(host.to_vec::<f64>().is_err());
        assert!(Host::from_slice(&[1u8], [2usize]).is_err());
    }

    #[test]
    fn casts_truncate_and_saturate() {
        assert_eq!(u8::from_scalar(Scalar::from(300.7)), 255);
        assert_eq!(u8::from_scalar(Scalar::from(-1i64)), 255);
        assert_eq!(i32::from_scalar(Scalar::from(f64::NAN)), 0);
        assert!(bool::from_scalar(Scalar::from(f64::NAN)));
        assert_eq!(Scalar::from(0.1).cast(DType::F32), Scalar::from(0.1f32));
    }
}
