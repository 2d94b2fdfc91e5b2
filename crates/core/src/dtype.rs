//! Dtypes, their promotion, and scalar values.
//!
//! Owns the promotion table; no backend's own table is ever consulted.

use crate::error::{Error, Kind, Result};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// The dtype of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DType {
    /// True or false, one byte.
    Bool,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// IEEE 754 half precision (fp16).
    F16,
    /// bfloat16: the upper 16 bits of an f32.
    BF16,
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 double precision.
    F64,
    /// Complex number of two f32.
    C64,
    /// Complex number of two f64.
    C128,
}

/// The category of a dtype, in promotion order; a plain Python number has a category only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// Booleans.
    Bool,
    /// Integers.
    Int,
    /// Real numbers.
    Float,
    /// Complex numbers.
    Complex,
}

use DType::*;

impl DType {
    /// Every dtype, in the order of their codes.
    pub const ALL: [DType; 15] = [
        Bool, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32, F64, C64, C128,
    ];
    /// The dtype of indices and counts.
    pub const INDEX: DType = I64;
    /// The default float dtype.
    pub const FLOAT: DType = F32;
    /// The default integer dtype.
    pub const INT: DType = I32;

    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            Bool | U8 | I8 => 1,
            U16 | I16 | F16 | BF16 => 2,
            U32 | I32 | F32 => 4,
            U64 | I64 | F64 | C64 => 8,
            C128 => 16,
        }
    }

    /// The short name, used in graph text and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            U8 => "u8",
            U16 => "u16",
            U32 => "u32",
            U64 => "u64",
            I8 => "i8",
            I16 => "i16",
            I32 => "i32",
            I64 => "i64",
            F16 => "f16",
            BF16 => "bf16",
            F32 => "f32",
            F64 => "f64",
            C64 => "c64",
            C128 => "c128",
        }
    }

    /// The name in the Array API.
    pub const fn long_name(self) -> &'static str {
        match self {
            Bool => "bool",
            U8 => "uint8",
            U16 => "uint16",
            U32 => "uint32",
            U64 => "uint64",
            I8 => "int8",
            I16 => "int16",
            I32 => "int32",
            I64 => "int64",
            F16 => "float16",
            BF16 => "bfloat16",
            F32 => "float32",
            F64 => "float64",
            C64 => "complex64",
            C128 => "complex128",
        }
    }

    /// The category.
    pub const fn category(self) -> Category {
        match self {
            Bool => Category::Bool,
            U8 | U16 | U32 | U64 | I8 | I16 | I32 | I64 => Category::Int,
            F16 | BF16 | F32 | F64 => Category::Float,
            C64 | C128 => Category::Complex,
        }
    }

    /// Whether it is a real float.
    pub const fn is_float(self) -> bool {
        matches!(self, F16 | BF16 | F32 | F64)
    }

    /// Whether it is complex.
    pub const fn is_complex(self) -> bool {
        matches!(self, C64 | C128)
    }

    /// Whether it is a real or complex float, and so differentiable.
    pub const fn is_inexact(self) -> bool {
        self.is_float() || self.is_complex()
    }

    /// Whether it is a signed or unsigned integer (bool is not).
    pub const fn is_int(self) -> bool {
        matches!(self.category(), Category::Int)
    }

    /// Whether it is a signed integer.
    pub const fn is_signed_int(self) -> bool {
        matches!(self, I8 | I16 | I32 | I64)
    }

    /// Whether it is an unsigned integer.
    pub const fn is_unsigned(self) -> bool {
        matches!(self, U8 | U16 | U32 | U64)
    }

    /// The dtype of the real part; any real dtype itself.
    pub const fn real(self) -> DType {
        match self {
            C64 => F32,
            C128 => F64,
            other => other,
        }
    }

    /// The complex dtype whose parts hold this one.
    pub const fn complex(self) -> DType {
        match self {
            F64 | C128 => C128,
            _ => C64,
        }
    }

    /// The dtype in which sums of this one are accumulated.
    pub const fn accumulator(self) -> DType {
        match self {
            F16 | BF16 => F32,
            other => other,
        }
    }

    /// The promoted dtype of both: the Array API's table, extended to all pairs.
    ///
    /// An integer with a float gives the float; f16 with bf16 gives f32; u64 with a signed integer, which no integer
    /// dtype holds, gives the default float.
    pub fn promote(self, other: DType) -> DType {
        if self == other {
            return self;
        }
        let (low, high) = if self.category() <= other.category() {
            (self, other)
        } else {
            (other, self)
        };
        match (low.category(), high.category()) {
            (Category::Int, Category::Int) => promote_ints(low, high),
            (Category::Float, Category::Float) => match (low, high) {
                (F16, BF16) | (BF16, F16) => F32,
                _ => low.max(high),
            },
            (Category::Complex, Category::Complex) => C128,
            (Category::Float, Category::Complex) if low == F64 => C128,
            // A lower category never widens a higher one.
            _ => high,
        }
    }
}

fn promote_ints(a: DType, b: DType) -> DType {
    let (unsigned, signed) = match (a.is_unsigned(), b.is_unsigned()) {
        (true, false) => (a, b),
        (false, true) => (b, a),
        _ => return if a.size() >= b.size() { a } else { b },
    };
    match unsigned.size().max(signed.size() / 2) {
        1 => I16,
        2 => I32,
        4 => I64,
        _ => DType::FLOAT,
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DType {
    type Err = Error;

    /// Parses the short name or the Array API's name.
    fn from_str(text: &str) -> Result<Self> {
        DType::ALL
            .into_iter()
            .find(|d| d.name() == text || d.long_name() == text)
            .ok_or_else(|| {
                let known: Vec<_> = DType::ALL.iter().map(|d| d.name()).collect();
                Error::new(Kind::DType, format!("dtype: unknown dtype `{text}`"))
                    .note(format!("known: {}", known.join(", ")))
            })
    }
}

/// An f64 compared by bits, so that every op is `Eq + Hash`.
#[derive(Clone, Copy)]
pub struct Real(pub f64);

impl PartialEq for Real {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}
impl Eq for Real {}
impl Hash for Real {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}
impl fmt::Debug for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}
impl From<f64> for Real {
    fn from(value: f64) -> Self {
        Real(value)
    }
}

/// A scalar, exact for every dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// A boolean.
    Bool(bool),
    /// An integer that fits i64.
    Int(i64),
    /// An integer above `i64::MAX`.
    UInt(u64),
    /// A real number.
    Float(Real),
    /// A complex number.
    Complex(Real, Real),
}

impl Scalar {
    /// Zero, exact in every dtype.
    pub const ZERO: Scalar = Scalar::Int(0);
    /// One, exact in every dtype.
    pub const ONE: Scalar = Scalar::Int(1);

    /// The category.
    pub fn category(self) -> Category {
        match self {
            Scalar::Bool(_) => Category::Bool,
            Scalar::Int(_) | Scalar::UInt(_) => Category::Int,
            Scalar::Float(_) => Category::Float,
            Scalar::Complex(..) => Category::Complex,
        }
    }

    /// The dtype of the number on its own.
    pub fn default_dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => Bool,
            Scalar::Int(v) if i32::try_from(v).is_ok() => DType::INT,
            Scalar::Int(_) => I64,
            Scalar::UInt(_) => U64,
            Scalar::Float(_) => DType::FLOAT,
            Scalar::Complex(..) => C64,
        }
    }

    /// The dtype of the number next to a tensor of dtype `other`: the tensor's, unless the number is of a higher
    /// category.
    pub fn dtype_beside(self, other: DType) -> DType {
        if self.category() <= other.category() {
            return other;
        }
        match (self.category(), other) {
            (Category::Complex, F64) => C128,
            (Category::Complex, _) => C64,
            (Category::Float, _) => DType::FLOAT,
            _ => self.default_dtype(),
        }
    }

    /// The real part as f64 (rounded where an integer is above 2^53).
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => f64::from(u8::from(b)),
            Scalar::Int(v) => v as f64,
            Scalar::UInt(v) => v as f64,
            Scalar::Float(v) | Scalar::Complex(v, _) => v.0,
        }
    }

    /// The real and imaginary part.
    pub fn as_complex(self) -> (f64, f64) {
        match self {
            Scalar::Complex(re, im) => (re.0, im.0),
            other => (other.as_f64(), 0.0),
        }
    }

    /// As a 128-bit integer; floats are truncated towards zero and saturate.
    pub fn as_i128(self) -> i128 {
        match self {
            Scalar::Bool(b) => i128::from(b),
            Scalar::Int(v) => i128::from(v),
            Scalar::UInt(v) => i128::from(v),
            Scalar::Float(v) | Scalar::Complex(v, _) => v.0 as i128,
        }
    }

    /// Whether it is nonzero.
    pub fn as_bool(self) -> bool {
        match self {
            Scalar::Bool(b) => b,
            Scalar::Int(v) => v != 0,
            Scalar::UInt(v) => v != 0,
            Scalar::Float(v) => v.0 != 0.0,
            Scalar::Complex(re, im) => re.0 != 0.0 || im.0 != 0.0,
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(v) => write!(f, "{v}"),
            Scalar::Int(v) => write!(f, "{v}"),
            Scalar::UInt(v) => write!(f, "{v}"),
            Scalar::Float(v) => write!(f, "{:?}", v.0),
            Scalar::Complex(re, im) => write!(f, "({:?},{:?})", re.0, im.0),
        }
    }
}

macro_rules! scalar_from {
    ($($from:ty => |$v:ident| $to:expr;)*) => { $(
        impl From<$from> for Scalar {
            fn from($v: $from) -> Scalar { $to }
        }
    )* };
}
scalar_from! {
    bool => |v| Scalar::Bool(v);
    i32 => |v| Scalar::Int(i64::from(v));
    i64 => |v| Scalar::Int(v);
    u32 => |v| Scalar::Int(i64::from(v));
    u8 => |v| Scalar::Int(i64::from(v));
    u64 => |v| i64::try_from(v).map_or(Scalar::UInt(v), Scalar::Int);
    usize => |v| Scalar::from(v as u64);
    f32 => |v| Scalar::Float(Real(f64::from(v)));
    f64 => |v| Scalar::Float(Real(v));
    num_complex::Complex<f64> => |v| Scalar::Complex(Real(v.re), Real(v.im));
    num_complex::Complex<f32> => |v| Scalar::Complex(Real(f64::from(v.re)), Real(f64::from(v.im)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_the_array_api_table_where_that_is_defined() {
        for (a, b, want) in [
            (I8, U8, I16),
            (U8, I32, I32),
            (U16, I8, I32),
            (U16, I16, I32),
            (U32, I32, I64),
            (U32, I8, I64),
            (U8, I64, I64),
            (F32, F64, F64),
            (F32, C64, C64),
            (F64, C64, C128),
            (I8, I64, I64),
            (F16, BF16, F32),
            (F16, F32, F32),
            (I64, F16, F16),
            (Bool, U8, U8),
        ] {
            assert_eq!(a.promote(b), want, "{a} {b}");
            assert_eq!(b.promote(a), want, "{b} {a}");
        }
    }

    #[test]
    fn promotion_commutes_and_absorbs() {
        for a in DType::ALL {
            assert_eq!(a.promote(a), a);
            for b in DType::ALL {
                let c = a.promote(b);
                assert_eq!(c, b.promote(a));
                assert_eq!(c.promote(a), c, "{a} {b}");
            }
        }
    }

    #[test]
    fn weak_numbers_do_not_widen_tensors() {
        assert_eq!(Scalar::from(2.5).dtype_beside(F16), F16);
        assert_eq!(Scalar::from(1i64 << 40).dtype_beside(I8), I8);
        assert_eq!(Scalar::from(2.5).dtype_beside(I64), F32);
        assert_eq!(Scalar::from(true).dtype_beside(U8), U8);
    }

    #[test]
    fn names_are_read_back() {
        for d in DType::ALL {
            assert_eq!(d.name().parse::<DType>().unwrap(), d);
            assert_eq!(d.long_name().parse::<DType>().unwrap(), d);
        }
        assert!("float128".parse::<DType>().is_err());
    }
}
