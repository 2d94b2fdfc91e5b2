//! Binary ops and comparisons.

use super::map::{self, Cost, Row2};
use crate::buffer::Buffer;
use crate::element::Stored;
use crate::math::{complex, double, integer::Integer, real, single};
use crate::simd::{multiversion, zip_streamed};
use clematis_core::op::{Binary, Compare};
use clematis_core::{DType, Result, Spec, Tensor, bail};
use half::{bf16, f16};
use num_complex::Complex;

multiversion! {
    /// `out[i] = f(x[i], y[i])`
    pub(crate) fn each[A: Copy, B: Copy, O, F: Fn(A, B) -> O](out: &mut [O], x: &[A], y: &[B], f: F) {
        for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
            *out = f(x, y);
        }
    }
}

/// The same without SIMD, for functions that have no vector code.
fn each_plain<A: Copy, B: Copy, O>(out: &mut [O], x: &[A], y: &[B], f: impl Fn(A, B) -> O) {
    for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
        *out = f(x, y);
    }
}

macro_rules! light {
    ($f:expr) => {
        (Cost::Light, |out, x, y| each(out, x, y, $f))
    };
}
macro_rules! medium {
    ($f:expr) => {
        (Cost::Medium, |out, x, y| each(out, x, y, $f))
    };
}
macro_rules! heavy {
    ($f:expr) => {
        (Cost::Heavy, |out, x, y| each_plain(out, x, y, $f))
    };
}

type Chosen<A, O> = Option<(Cost, Row2<A, A, O>)>;

/// Maximum and minimum: NaN propagates, and of equal numbers the first is taken.
pub trait Ordered: Copy {
    /// The larger.
    fn larger(self, other: Self) -> Self;
    /// The smaller.
    fn smaller(self, other: Self) -> Self;
}
macro_rules! ordered {
    ($($t:ty)*; $($f:ty)*) => {
        $(impl Ordered for $t {
            #[inline(always)]
            fn larger(self, other: Self) -> Self { if other > self { other } else { self } }
            #[inline(always)]
            fn smaller(self, other: Self) -> Self { if other < self { other } else { self } }
        })*
        $(impl Ordered for $f {
            #[inline(always)]
            #[allow(clippy::neg_cmp_op_on_partial_ord)] // unlike `<`, the negation counts NaN in
            fn larger(self, other: Self) -> Self {
                // One comparison and one test, both always made: this vectorizes.
                let keep = (self >= other) | self.is_nan();
                if keep { self } else { other }
            }
            #[inline(always)]
            #[allow(clippy::neg_cmp_op_on_partial_ord)] // unlike `>`, the negation counts NaN in
            fn smaller(self, other: Self) -> Self {
                let keep = (self <= other) | self.is_nan();
                if keep { self } else { other }
            }
        })*
    };
}
ordered! { u8 u16 u32 u64 i8 i16 i32 i64; f32 f64 }

macro_rules! float_functions {
    ($name:ident, $streamed:ident, $predicate:ident, $t:ty, $math:ident, $real:path) => {
        fn $name(b: Binary) -> Chosen<$t, $t> {
            use $math as m;
            use $real as r;
            Some(match b {
                Binary::Add => light!(|x: $t, y: $t| x + y),
                Binary::Sub => light!(|x: $t, y: $t| x - y),
                Binary::Mul => light!(|x: $t, y: $t| x * y),
                Binary::Div => light!(|x: $t, y: $t| x / y),
                Binary::FloorDivide => heavy!(r::floor_divide),
                Binary::Remainder => heavy!(r::remainder),
                Binary::Fmod => heavy!(r::fmod),
                Binary::Pow => heavy!(m::pow),
                Binary::Atan2 => heavy!(m::atan2),
                Binary::Hypot => heavy!(m::hypot),
                Binary::Copysign => light!(r::copysign),
                Binary::Nextafter => heavy!(real::nextafter),
                Binary::Logaddexp => medium!(m::logaddexp),
                Binary::Polygamma => heavy!(|n: $t, x: $t| {
                    // Non-integer orders have no polygamma function.
                    let order = n as u32;
                    if order as $t == n {
                        m::polygamma(order, x)
                    } else {
                        <$t>::NAN
                    }
                }),
                Binary::Maximum => light!(|x: $t, y: $t| x.larger(y)),
                Binary::Minimum => light!(|x: $t, y: $t| x.smaller(y)),
                Binary::Complex
                | Binary::BitwiseAnd
                | Binary::BitwiseOr
                | Binary::BitwiseXor
                | Binary::ShiftLeft
                | Binary::ShiftRight
                | Binary::LogicalAnd
                | Binary::LogicalOr
                | Binary::LogicalXor => return None,
            })
        }

        fn $streamed(b: Binary) -> Option<Row2<$t, $t, $t>> {
            Some(match b {
                Binary::Add => |out, x, y| zip_streamed(out, x, y, |x, y| x + y),
                Binary::Sub => |out, x, y| zip_streamed(out, x, y, |x, y| x - y),
                Binary::Mul => |out, x, y| zip_streamed(out, x, y, |x, y| x * y),
                Binary::Div => |out, x, y| zip_streamed(out, x, y, |x, y| x / y),
                _ => return None,
            })
        }

        fn $predicate(b: Binary) -> Chosen<$t, u8> {
            Some(match b {
                Binary::LogicalAnd => light!(|x: $t, y: $t| u8::from((x != 0.0) & (y != 0.0))),
                Binary::LogicalOr => light!(|x: $t, y: $t| u8::from((x != 0.0) | (y != 0.0))),
                Binary::LogicalXor => light!(|x: $t, y: $t| u8::from((x != 0.0) ^ (y != 0.0))),
                _ => return None,
            })
        }
    };
}
float_functions! { single_row, single_streamed, single_predicate, f32, single, real::single }
float_functions! { double_row, double_streamed, double_predicate, f64, double, real::double }

fn complex_row<T>(b: Binary) -> Chosen<Complex<T>, Complex<T>>
where
    T: complex::Part + num_traits::Float,
    Complex<T>: Stored<Wide = Complex<T>>,
{
    Some(match b {
        Binary::Add => light!(|x: Complex<T>, y: Complex<T>| x + y),
        Binary::Sub => light!(|x: Complex<T>, y: Complex<T>| x - y),
        Binary::Mul => light!(|x: Complex<T>, y: Complex<T>| x * y),
        Binary::Div => heavy!(complex::divide),
        Binary::Pow => heavy!(complex::pow),
        _ => return None,
    })
}

fn complex_predicate<T>(b: Binary) -> Chosen<Complex<T>, u8>
where
    T: complex::Part + num_traits::Float,
    Complex<T>: Stored<Wide = Complex<T>>,
{
    fn is_nonzero<T: num_traits::Float>(x: Complex<T>) -> bool {
        !(x.re.is_zero() && x.im.is_zero())
    }
    Some(match b {
        Binary::LogicalAnd => light!(|x: Complex<T>, y| u8::from(is_nonzero(x) & is_nonzero(y))),
        Binary::LogicalOr => light!(|x: Complex<T>, y| u8::from(is_nonzero(x) | is_nonzero(y))),
        Binary::LogicalXor => light!(|x: Complex<T>, y| u8::from(is_nonzero(x) ^ is_nonzero(y))),
        _ => return None,
    })
}

fn integer_row<T>(b: Binary) -> Chosen<T, T>
where
    T: Integer + Ordered + num_traits::PrimInt + Stored<Wide = T>,
    T: num_traits::WrappingAdd + num_traits::WrappingSub + num_traits::WrappingMul,
{
    Some(match b {
        Binary::Add => light!(|x: T, y: T| x.wrapping_add(&y)),
        Binary::Sub => light!(|x: T, y: T| x.wrapping_sub(&y)),
        Binary::Mul => light!(|x: T, y: T| x.wrapping_mul(&y)),
        Binary::FloorDivide => heavy!(|x: T, y: T| x.floor_divide(y)),
        Binary::Remainder => heavy!(|x: T, y: T| x.remainder(y)),
        Binary::Fmod => heavy!(|x: T, y: T| x.fmod(y)),
        Binary::Pow => heavy!(|x: T, y: T| x.power(y)),
        Binary::Maximum => light!(|x: T, y: T| x.larger(y)),
        Binary::Minimum => light!(|x: T, y: T| x.smaller(y)),
        Binary::BitwiseAnd => light!(|x: T, y: T| x & y),
        Binary::BitwiseOr => light!(|x: T, y: T| x | y),
        Binary::BitwiseXor => light!(|x: T, y: T| x ^ y),
        Binary::ShiftLeft => light!(|x: T, y: T| x.shift_left(y)),
        Binary::ShiftRight => light!(|x: T, y: T| x.shift_right(y)),
        _ => return None,
    })
}

fn integer_predicate<T>(b: Binary) -> Chosen<T, u8>
where
    T: num_traits::PrimInt + Stored<Wide = T>,
{
    Some(match b {
        Binary::LogicalAnd => light!(|x: T, y: T| u8::from(!x.is_zero() & !y.is_zero())),
        Binary::LogicalOr => light!(|x: T, y: T| u8::from(!x.is_zero() | !y.is_zero())),
        Binary::LogicalXor => light!(|x: T, y: T| u8::from(!x.is_zero() ^ !y.is_zero())),
        _ => return None,
    })
}

/// Bool is a byte that is 0 or 1; all of these keep it so.
fn bool_row(b: Binary) -> Chosen<u8, u8> {
    Some(match b {
        Binary::Add | Binary::BitwiseOr | Binary::LogicalOr | Binary::Maximum => {
            light!(|x: u8, y: u8| x | y)
        }
        Binary::Mul | Binary::BitwiseAnd | Binary::LogicalAnd | Binary::Minimum => {
            light!(|x: u8, y: u8| x & y)
        }
        Binary::BitwiseXor | Binary::LogicalXor => light!(|x: u8, y: u8| x ^ y),
        _ => return None,
    })
}

/// Runs an op whose operands and result exceed the last-level cache with streaming stores; `None` where it does not
/// apply.
#[inline]
fn streamed<T: Stored<Wide = T>>(
    b: Binary,
    f: Option<Row2<T, T, T>>,
    operands: [&Tensor; 2],
    out: &Spec,
) -> Result<Option<Buffer>> {
    match f {
        Some(f) if out.bytes() > STREAMED => map::binary_streamed::<T>(b.name(), operands, out, f),
        _ => Ok(None),
    }
}

/// Bytes of a result below which the cache size need not be looked up.
const STREAMED: usize = 1 << 20;

/// Computes a row of results from two rows.
pub type Row<O> = fn(&mut [O], &[f32], &[f32]);

/// The kernel for a row of floats, for callers that iterate over operands themselves.
pub fn row(b: Binary) -> Option<Row<f32>> {
    single_row(b).map(|(_, row)| row)
}

/// Runs a binary op.
#[inline]
pub fn run(b: Binary, x: &Tensor, y: &Tensor, out: &Spec) -> Result<Buffer> {
    macro_rules! among {
        ($t:ty: $($o:ty = $table:expr),*) => {{
            $(if let Some((cost, f)) = $table {
                return map::binary::<$t, $t, $o>(b.name(), [x, y], out, cost, f);
            })*
        }};
    }
    macro_rules! integers {
        ($t:ty) => { among!($t: $t = integer_row::<$t>(b), u8 = integer_predicate::<$t>(b)) };
    }
    let is_nextafter = Binary::Nextafter == b;
    match x.dtype() {
        DType::Bool => among!(u8: u8 = bool_row(b)),
        DType::U8 => integers!(u8),
        DType::U16 => integers!(u16),
        DType::U32 => integers!(u32),
        DType::U64 => integers!(u64),
        DType::I8 => integers!(i8),
        DType::I16 => integers!(i16),
        DType::I32 => integers!(i32),
        DType::I64 => integers!(i64),
        // The neighbour of a half-precision number is one step in its own bits, not in those of an f32.
        DType::F16 if is_nextafter => return half_nextafter::<f16>(b, x, y, out),
        DType::BF16 if is_nextafter => return half_nextafter::<bf16>(b, x, y, out),
        DType::F16 => among!(f16: f16 = single_row(b), u8 = single_predicate(b)),
        DType::BF16 => among!(bf16: bf16 = single_row(b), u8 = single_predicate(b)),
        DType::F32 => {
            if let Some(done) = streamed::<f32>(b, single_streamed(b), [x, y], out)? {
                return Ok(done);
            }
            among!(f32: f32 = single_row(b), u8 = single_predicate(b), Complex<f32> = join::<f32>(b))
        }
        DType::F64 => {
            if let Some(done) = streamed::<f64>(b, double_streamed(b), [x, y], out)? {
                return Ok(done);
            }
            among!(f64: f64 = double_row(b), u8 = double_predicate(b), Complex<f64> = join::<f64>(b))
        }
        DType::C64 => {
            among!(Complex<f32>: Complex<f32> = complex_row::<f32>(b), u8 = complex_predicate::<f32>(b))
        }
        DType::C128 => {
            among!(Complex<f64>: Complex<f64> = complex_row::<f64>(b), u8 = complex_predicate::<f64>(b))
        }
    }
    bail!(
        Internal,
        "{}: the engine has no kernel for {}",
        b.name(),
        x.dtype()
    )
}

fn join<T>(b: Binary) -> Chosen<T, Complex<T>>
where
    T: Stored<Wide = T>,
    Complex<T>: Stored<Wide = Complex<T>>,
{
    (b == Binary::Complex).then_some(light!(Complex::new))
}

fn half_nextafter<T>(b: Binary, x: &Tensor, y: &Tensor, out: &Spec) -> Result<Buffer>
where
    T: Stored<Wide = f32> + real::NextAfter,
{
    // Read as bits so that nothing is widened.
    map::binary::<u16, u16, u16>(b.name(), [x, y], out, Cost::Heavy, |out, x, y| {
        each_plain(out, x, y, |x, y| {
            bytemuck::cast(real::nextafter(
                bytemuck::cast::<u16, T>(x),
                bytemuck::cast(y),
            ))
        })
    })
}

fn ordered<T>(c: Compare) -> (Cost, Row2<T, T, u8>)
where
    T: Stored,
    T::Wide: PartialOrd,
{
    match c {
        Compare::Equal => light!(|x: T::Wide, y| u8::from(x == y)),
        Compare::NotEqual => light!(|x: T::Wide, y| u8::from(x != y)),
        Compare::Less => light!(|x: T::Wide, y| u8::from(x < y)),
        Compare::LessEqual => light!(|x: T::Wide, y| u8::from(x <= y)),
        Compare::Greater => light!(|x: T::Wide, y| u8::from(x > y)),
        Compare::GreaterEqual => light!(|x: T::Wide, y| u8::from(x >= y)),
    }
}

/// The kernel for a row of float comparisons.
pub fn compare_row(c: Compare) -> Row<u8> {
    ordered::<f32>(c).1
}

/// Runs a comparison.
pub fn compare(c: Compare, x: &Tensor, y: &Tensor, out: &Spec) -> Result<Buffer> {
    fn equality<T>(c: Compare) -> Chosen<T, u8>
    where
        T: Stored<Wide = T> + PartialEq,
    {
        match c {
            Compare::Equal => Some(light!(|x: T, y| u8::from(x == y))),
            Compare::NotEqual => Some(light!(|x: T, y| u8::from(x != y))),
            _ => None,
        }
    }
    macro_rules! complex {
        ($t:ty) => {
            if let Some((cost, f)) = equality::<$t>(c) {
                return map::binary::<$t, $t, u8>(c.name(), [x, y], out, cost, f);
            }
        };
    }
    crate::element::by_real!(x.dtype(), T => {
        let (cost, f) = ordered::<T>(c);
        return map::binary::<T, T, u8>(c.name(), [x, y], out, cost, f);
    }, if x.dtype() == DType::C64 { complex!(Complex<f32>) } else { complex!(Complex<f64>) });
    bail!(Internal, "{}: complex numbers have no order", c.name())
}
