//! Unary ops.

use super::map::{self, Cost, Row1};
use crate::buffer::{self, Buffer};
use crate::element;
use crate::math::{complex, double, integer::Integer, real, single};
use crate::simd::multiversion;
use clematis_core::op::Unary;
use clematis_core::{DType, Result, Scalar, Spec, Tensor, bail};
use half::{bf16, f16};
use num_complex::Complex;

multiversion! {
    /// `out[i] = f(x[i])`
    pub(crate) fn each[A: Copy, O, F: Fn(A) -> O](out: &mut [O], x: &[A], f: F) {
        for (out, &x) in out.iter_mut().zip(x) {
            *out = f(x);
        }
    }
    /// `out[i] = e^f(x[i])`
    pub(crate) fn exponentials[F: Fn(f32) -> f32](out: &mut [f32], x: &[f32], f: F) {
        single::exp_slice(out, x, f);
    }
    // Too long to be inlined when passed as a function.
    fn complements(out: &mut [f32], x: &[f32]) {
        for (out, &x) in out.iter_mut().zip(x) {
            *out = single::erfc(x);
        }
    }
    fn sines(out: &mut [f32], x: &[f32]) {
        single::sin_slice(out, x);
    }
    fn cosines(out: &mut [f32], x: &[f32]) {
        single::cos_slice(out, x);
    }
}

/// The same without SIMD, for functions that have no vector code.
fn each_plain<A: Copy, O>(out: &mut [O], x: &[A], f: impl Fn(A) -> O) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = f(x);
    }
}

macro_rules! light {
    ($f:expr) => {
        (Cost::Light, |out, x| each(out, x, $f))
    };
}
macro_rules! medium {
    ($f:expr) => {
        (Cost::Medium, |out, x| each(out, x, $f))
    };
}
macro_rules! heavy {
    ($f:expr) => {
        (Cost::Heavy, |out, x| each_plain(out, x, $f))
    };
}

type Chosen<A, O> = Option<(Cost, Row1<A, O>)>;

macro_rules! float_functions {
    ($name:ident, $predicate:ident, $t:ty, $math:ident, $real:path, $exp:expr, $sin:expr, $cos:expr, $erfc:expr) => {
        fn $name(u: Unary) -> Chosen<$t, $t> {
            use $math as m;
            use $real as r;
            Some(match u {
                Unary::Neg => light!(|x: $t| -x),
                Unary::Abs => light!(|x: $t| x.abs()),
                Unary::Sign => light!(r::sign),
                Unary::Square => light!(|x: $t| x * x),
                Unary::Reciprocal => light!(|x: $t| 1.0 / x),
                Unary::Sqrt => light!(|x: $t| x.sqrt()),
                Unary::Rsqrt => light!(m::rsqrt),
                Unary::Cbrt => medium!(m::cbrt),
                Unary::Exp => (Cost::Medium, $exp),
                Unary::Exp2 => medium!(m::exp2),
                Unary::Expm1 => medium!(m::expm1),
                Unary::Log => medium!(m::log),
                Unary::Log2 => medium!(m::log2),
                Unary::Log10 => medium!(m::log10),
                Unary::Log1p => medium!(m::log1p),
                Unary::Sin => (Cost::Medium, $sin),
                Unary::Cos => (Cost::Medium, $cos),
                Unary::Tan => heavy!(m::tan),
                Unary::Asin => heavy!(m::asin),
                Unary::Acos => heavy!(m::acos),
                Unary::Atan => heavy!(m::atan),
                Unary::Sinh => heavy!(m::sinh),
                Unary::Cosh => heavy!(m::cosh),
                Unary::Tanh => medium!(m::tanh),
                Unary::Asinh => heavy!(m::asinh),
                Unary::Acosh => heavy!(m::acosh),
                Unary::Atanh => heavy!(m::atanh),
                Unary::Erf => medium!(m::erf),
                Unary::Erfc => $erfc,
                Unary::Erfinv => heavy!(m::erfinv),
                Unary::Lgamma => heavy!(m::lgamma),
                Unary::Digamma => heavy!(m::digamma),
                Unary::Floor => light!(|x: $t| x.floor()),
                Unary::Ceil => light!(|x: $t| x.ceil()),
                Unary::Trunc => light!(r::trunc),
                Unary::Round => light!(r::round),
                Unary::Positive
                | Unary::Real
                | Unary::Imag
                | Unary::Conj
                | Unary::IsNan
                | Unary::IsInf
                | Unary::IsFinite
                | Unary::Signbit
                | Unary::BitwiseNot
                | Unary::LogicalNot => return None,
            })
        }

        fn $predicate(u: Unary) -> Chosen<$t, u8> {
            Some(match u {
                Unary::IsNan => light!(|x: $t| u8::from(x.is_nan())),
                Unary::IsInf => light!(|x: $t| u8::from(x.is_infinite())),
                Unary::IsFinite => light!(|x: $t| u8::from(x.is_finite())),
                Unary::Signbit => light!(|x: $t| u8::from(x.is_sign_negative())),
                Unary::LogicalNot => light!(|x: $t| u8::from(x == 0.0)),
                _ => return None,
            })
        }
    };
}
float_functions! { single_row, single_predicate, f32, single, real::single, |out, x| exponentials(out, x, |x| x), sines, cosines, (Cost::Medium, complements) }
float_functions! { double_row, double_predicate, f64, double, real::double, |out, x| each(out, x, double::exp), |o, x| each_plain(o, x, double::sin), |o, x| each_plain(o, x, double::cos), heavy!(double::erfc) }

fn complex_row<T>(u: Unary) -> Chosen<Complex<T>, Complex<T>>
where
    T: complex::Part + num_traits::Float,
    Complex<T>: element::Stored<Wide = Complex<T>>,
{
    Some(match u {
        Unary::Neg => light!(|x: Complex<T>| -x),
        Unary::Conj => light!(|x: Complex<T>| x.conj()),
        Unary::Sign => heavy!(complex::sign),
        Unary::Square => heavy!(complex::square),
        Unary::Reciprocal => heavy!(complex::reciprocal),
        Unary::Sqrt => heavy!(complex::sqrt),
        Unary::Rsqrt => heavy!(|x| complex::reciprocal(complex::sqrt(x))),
        Unary::Exp => heavy!(complex::exp),
        Unary::Exp2 => heavy!(|x: Complex<T>| {
            let two = Complex::new(T::one() + T::one(), T::zero());
            complex::pow(two, x)
        }),
        Unary::Expm1 => heavy!(complex::expm1),
        Unary::Log => heavy!(complex::log),
        Unary::Log2 => heavy!(complex::log2),
        Unary::Log10 => heavy!(complex::log10),
        Unary::Log1p => heavy!(complex::log1p),
        Unary::Sin => heavy!(complex::sin),
        Unary::Cos => heavy!(complex::cos),
        Unary::Tan => heavy!(complex::tan),
        Unary::Asin => heavy!(complex::asin),
        Unary::Acos => heavy!(complex::acos),
        Unary::Atan => heavy!(complex::atan),
        Unary::Sinh => heavy!(complex::sinh),
        Unary::Cosh => heavy!(complex::cosh),
        Unary::Tanh => heavy!(complex::tanh),
        Unary::Asinh => heavy!(complex::asinh),
        Unary::Acosh => heavy!(complex::acosh),
        Unary::Atanh => heavy!(complex::atanh),
        Unary::Round => heavy!(complex::round),
        _ => return None,
    })
}

fn complex_part<T>(u: Unary) -> Chosen<Complex<T>, T>
where
    T: complex::Part + element::Stored<Wide = T>,
    Complex<T>: element::Stored<Wide = Complex<T>>,
{
    Some(match u {
        Unary::Abs => heavy!(complex::abs),
        Unary::Real => light!(|x: Complex<T>| x.re),
        Unary::Imag => light!(|x: Complex<T>| x.im),
        _ => return None,
    })
}

fn complex_predicate<T>(u: Unary) -> Chosen<Complex<T>, u8>
where
    T: complex::Part + num_traits::Float,
    Complex<T>: element::Stored<Wide = Complex<T>>,
{
    Some(match u {
        Unary::IsNan => light!(|x| u8::from(complex::isnan(x))),
        Unary::IsInf => light!(|x| u8::from(complex::isinf(x))),
        Unary::IsFinite => light!(|x| u8::from(complex::isfinite(x))),
        Unary::LogicalNot => light!(|x: Complex<T>| u8::from(x.re.is_zero() && x.im.is_zero())),
        _ => return None,
    })
}

fn integer_row<T>(u: Unary) -> Chosen<T, T>
where
    T: Integer + num_traits::PrimInt + num_traits::WrappingMul + element::Stored<Wide = T>,
{
    Some(match u {
        Unary::Neg => light!(|x: T| x.negative()),
        Unary::Abs => light!(|x: T| x.absolute()),
        Unary::Sign => light!(|x: T| Integer::sign(x)),
        Unary::Square => light!(|x: T| x.wrapping_mul(&x)),
        Unary::BitwiseNot => light!(|x: T| !x),
        _ => return None,
    })
}

fn integer_predicate<T>(u: Unary) -> Chosen<T, u8>
where
    T: num_traits::PrimInt + element::Stored<Wide = T>,
{
    Some(match u {
        Unary::Signbit => light!(|x: T| u8::from(x < T::zero())),
        Unary::LogicalNot => light!(|x: T| u8::from(x.is_zero())),
        _ => return None,
    })
}

/// Computes a row of results from a row.
pub type Row<O> = fn(&mut [O], &[f32]);

/// The kernel for a row of floats, for callers that iterate over operands themselves.
pub fn row(u: Unary) -> Option<Row<f32>> {
    single_row(u).map(|(_, row)| row)
}

/// The same for predicates of a float.
pub fn predicate_row(u: Unary) -> Option<Row<u8>> {
    single_predicate(u).map(|(_, row)| row)
}

/// Runs a unary op.
pub fn run(u: Unary, x: &Tensor, out: &Spec) -> Result<Buffer> {
    let dtype = x.dtype();
    match u {
        Unary::Positive => return Ok(buffer::of(x)?.into_owned()),
        Unary::Conj | Unary::Real if !dtype.is_complex() => {
            return Ok(buffer::of(x)?.into_owned());
        }
        Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round if dtype.is_int() => {
            return Ok(buffer::of(x)?.into_owned());
        }
        Unary::Imag if !dtype.is_complex() => {
            return super::create::fill(u.name(), Scalar::ZERO, out);
        }
        Unary::IsNan | Unary::IsInf if dtype.is_int() => {
            return super::create::fill(u.name(), Scalar::Bool(false), out);
        }
        Unary::IsFinite if dtype.is_int() => {
            return super::create::fill(u.name(), Scalar::Bool(true), out);
        }
        _ => {}
    }
    macro_rules! among {
        ($t:ty: $($o:ty = $table:expr),*) => {{
            $(if let Some((cost, f)) = $table {
                return map::unary::<$t, $o>(u.name(), x, out, cost, f);
            })*
        }};
    }
    macro_rules! integers {
        ($t:ty) => { among!($t: $t = integer_row::<$t>(u), u8 = integer_predicate::<$t>(u)) };
    }
    match dtype {
        DType::Bool => match u {
            // A flipped byte would not be a bool.
            Unary::BitwiseNot | Unary::LogicalNot => {
                return map::unary::<u8, u8>(u.name(), x, out, Cost::Light, |out, x| {
                    each(out, x, |x| x ^ 1)
                });
            }
            _ => {}
        },
        DType::U8 => integers!(u8),
        DType::U16 => integers!(u16),
        DType::U32 => integers!(u32),
        DType::U64 => integers!(u64),
        DType::I8 => integers!(i8),
        DType::I16 => integers!(i16),
        DType::I32 => integers!(i32),
        DType::I64 => integers!(i64),
        DType::F16 => among!(f16: f16 = single_row(u), u8 = single_predicate(u)),
        DType::BF16 => among!(bf16: bf16 = single_row(u), u8 = single_predicate(u)),
        DType::F32 => among!(f32: f32 = single_row(u), u8 = single_predicate(u)),
        DType::F64 => among!(f64: f64 = double_row(u), u8 = double_predicate(u)),
        DType::C64 => {
            among!(Complex<f32>: Complex<f32> = complex_row::<f32>(u), f32 = complex_part::<f32>(u), u8 = complex_predicate::<f32>(u))
        }
        DType::C128 => {
            among!(Complex<f64>: Complex<f64> = complex_row::<f64>(u), f64 = complex_part::<f64>(u), u8 = complex_predicate::<f64>(u))
        }
    }
    bail!(
        Internal,
        "{}: the engine has no kernel for {dtype}",
        u.name()
    )
}

/// Building blocks of activations, in each precision.
mod narrow_math {
    pub use crate::math::single::*;

    /// The normal cumulative distribution function, accurate in its tail too: `erfc(-x/√2) / 2`.
    ///
    /// `erfc(z)` is `t exp(p(t) - z²)` with `t = 1 / (1 + z/2)`; the polynomial is a Chebyshev fit to 1.2e-7.
    #[inline(always)]
    pub fn normal(x: f32) -> f32 {
        let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
        let t = 1.0 / (1.0 + 0.5 * z);
        let p = crate::math::horner32(
            t,
            [
                -1.265_512_2,
                1.000_023_7,
                0.374_091_96,
                0.096_784_18,
                -0.186_288_06,
                0.278_868_07,
                -1.135_204,
                1.488_515_9,
                -0.822_152_23,
                0.170_872_77,
            ],
        );
        let tail = 0.5 * t * exp(p - z * z);
        if x < 0.0 { tail } else { 1.0 - tail }
    }
}
mod wide_math {
    pub use crate::math::double::*;

    /// The normal cumulative distribution function.
    #[inline(always)]
    pub fn normal(x: f64) -> f64 {
        0.5 * erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
    }
}

/// An activation that the engine runs as one kernel.
macro_rules! activation {
    ($name:ident, $row:ident, $doc:literal, |$x:ident, $m:ident| $body:expr) => {
        #[doc = $doc]
        #[allow(clippy::excessive_precision)] // one formula serves f32 and f64
        pub fn $row(out: &mut [f32], x: &[f32]) {
            use narrow_math as $m;
            each(out, x, |$x: f32| $body);
        }

        #[doc = $doc]
        pub fn $name(op: &str, x: &Tensor, out: &Spec) -> Result<Buffer> {
            fn wide(out: &mut [f64], x: &[f64]) {
                use wide_math as $m;
                each(out, x, |$x: f64| $body);
            }
            match x.dtype() {
                DType::F16 => map::unary::<f16, f16>(op, x, out, Cost::Medium, $row),
                DType::BF16 => map::unary::<bf16, bf16>(op, x, out, Cost::Medium, $row),
                DType::F32 => map::unary::<f32, f32>(op, x, out, Cost::Medium, $row),
                DType::F64 => map::unary::<f64, f64>(op, x, out, Cost::Medium, wide),
                other => bail!(Internal, "{op}: the engine has no kernel for {other}"),
            }
        }
    };
}
activation! { sigmoid, sigmoid_row, "1 / (1 + exp(-x))", |x, m| m::sigmoid(x) }
activation! { silu, silu_row, "x sigmoid(x)", |x, m| x * m::sigmoid(x) }
activation! { gelu, gelu_row, "x times the normal distribution function of x", |x, m| x * m::normal(x) }
activation! { gelu_tanh, gelu_tanh_row, "gelu by the hyperbolic tangent", |x, m| {
    let inner = 0.797_884_560_802_865_4 * (x + 0.044_715 * (x * x * x));
    x * 0.5 * (1.0 + m::tanh(inner))
} }

/// `max(x, 0)` of a row of floats.
pub fn relu_row(out: &mut [f32], x: &[f32]) {
    each(out, x, |x: f32| if x < 0.0 { 0.0 } else { x });
}

/// `max(x, 0)`; NaN stays NaN.
pub fn relu(op: &str, x: &Tensor, out: &Spec) -> Result<Buffer> {
    macro_rules! rows {
        ($($d:ident $t:ty, $w:ty;)*) => {
            match x.dtype() {
                $(DType::$d => map::unary::<$t, $t>(op, x, out, Cost::Light, |out, x| {
                    each(out, x, |x: $w| if x < 0 as $w { 0 as $w } else { x });
                }),)*
                other => bail!(Internal, "{op}: the engine has no kernel for {other}"),
            }
        };
    }
    rows! {
        U8 u8, u8; U16 u16, u16; U32 u32, u32; U64 u64, u64; I8 i8, i8; I16 i16, i16; I32 i32, i32; I64 i64, i64;
        F16 f16, f32; BF16 bf16, f32; F32 f32, f32; F64 f64, f64;
    }
}
