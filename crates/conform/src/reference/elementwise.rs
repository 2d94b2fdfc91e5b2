//! References of the elementwise ops.

use super::{complex, number, special};
use crate::array::{C, Num, width, wrap};
use clematis_core::DType;
use clematis_core::host::types::{BF16, F16};
use clematis_core::op::{Binary, Compare, Unary};

/// A unary op; `None` if the dtype is not supported.
pub fn unary(u: Unary, dtype: DType, x: Num) -> Option<Num> {
    let truth = match u {
        Unary::IsNan => Some(x.c().re.is_nan() || x.c().im.is_nan()),
        Unary::IsInf => Some(x.c().re.is_infinite() || x.c().im.is_infinite()),
        Unary::IsFinite => Some(x.c().re.is_finite() && x.c().im.is_finite()),
        Unary::LogicalNot => Some(!x.truth()),
        Unary::Signbit => Some(match x {
            Num::Whole(v) => v < 0,
            Num::Inexact(v) => v.re.is_sign_negative(),
        }),
        _ => None,
    };
    if let Some(truth) = truth {
        return Some(truth.into());
    }
    Some(match x {
        Num::Whole(v) if dtype == DType::Bool => Num::Whole(1 - v),
        Num::Whole(v) => Num::Whole(wrap(dtype, integer(u, v)?)),
        Num::Inexact(z) if dtype.is_complex() => match u {
            Unary::Abs => Num::real(z.re.hypot(z.im)),
            Unary::Real => Num::real(z.re),
            Unary::Imag => Num::real(z.im),
            _ => Num::Inexact(complex::unary(u, z)?),
        },
        Num::Inexact(z) => Num::real(real(u, z.re)?),
    })
}

fn integer(u: Unary, x: i128) -> Option<i128> {
    Some(match u {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Sign => x.signum(),
        Unary::Square => x.wrapping_mul(x),
        Unary::BitwiseNot => !x,
        Unary::Imag => 0,
        Unary::Positive
        | Unary::Floor
        | Unary::Ceil
        | Unary::Trunc
        | Unary::Round
        | Unary::Real
        | Unary::Conj => x,
        _ => return None,
    })
}

fn real(u: Unary, x: f64) -> Option<f64> {
    Some(match u {
        Unary::Neg => -x,
        Unary::Positive | Unary::Real | Unary::Conj => x,
        Unary::Imag => 0.0,
        Unary::Abs => x.abs(),
        Unary::Sign if x.is_nan() => x,
        Unary::Sign if x == 0.0 => 0.0,
        Unary::Sign => x.signum(),
        Unary::Square => x * x,
        Unary::Reciprocal => 1.0 / x,
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => 1.0 / x.sqrt(),
        Unary::Cbrt => x.cbrt(),
        Unary::Exp => x.exp(),
        Unary::Exp2 => x.exp2(),
        Unary::Expm1 => x.exp_m1(),
        Unary::Log => x.ln(),
        Unary::Log2 => x.log2(),
        Unary::Log10 => x.log10(),
        Unary::Log1p => x.ln_1p(),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tan => x.tan(),
        Unary::Asin => x.asin(),
        Unary::Acos => x.acos(),
        Unary::Atan => x.atan(),
        Unary::Sinh => x.sinh(),
        Unary::Cosh => x.cosh(),
        Unary::Tanh => x.tanh(),
        Unary::Asinh => special::asinh(x),
        Unary::Acosh => special::acosh(x),
        Unary::Atanh => x.atanh(),
        Unary::Erf => special::erf(x),
        Unary::Erfc => special::erfc(x),
        Unary::Erfinv => special::erfinv(x),
        Unary::Lgamma => special::lgamma(x),
        Unary::Digamma => special::digamma(x),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Trunc => x.trunc(),
        Unary::Round => x.round_ties_even(),
        _ => return None,
    })
}

/// A binary op; `None` if the dtype is not supported.
pub fn binary(b: Binary, dtype: DType, x: Num, y: Num) -> Option<Num> {
    let (p, q) = (x.truth(), y.truth());
    let truth = match b {
        Binary::LogicalAnd => Some(p && q),
        Binary::LogicalOr => Some(p || q),
        Binary::LogicalXor => Some(p != q),
        _ => None,
    };
    if let Some(truth) = truth {
        return Some(truth.into());
    }
    match b {
        Binary::Add => return Some(number::add(dtype, x, y)),
        Binary::Mul => return Some(number::mul(dtype, x, y)),
        Binary::Maximum => return Some(number::max(x, y)),
        Binary::Minimum => return Some(number::min(x, y)),
        _ => {}
    }
    Some(match (x, y) {
        (Num::Whole(x), Num::Whole(y)) => Num::Whole(wrap(dtype, whole_binary(b, dtype, x, y)?)),
        _ if dtype.is_complex() => {
            let (z, w) = (x.c(), y.c());
            Num::Inexact(match b {
                Binary::Sub => z - w,
                Binary::Div if w.norm() == 0.0 => C::new(z.re / 0.0, z.im / 0.0),
                Binary::Div => z * w.conj() / w.norm_sqr(),
                // Whatever the base: also where its logarithm is infinite.
                Binary::Pow if w.norm() == 0.0 => C::new(1.0, 0.0),
                Binary::Pow if z.norm() == 0.0 && w.re > 0.0 => C::new(0.0, 0.0),
                Binary::Pow if z.norm() == 0.0 => C::new(f64::NAN, f64::NAN),
                Binary::Pow => (z.ln() * w).exp(),
                _ => return None,
            })
        }
        _ if b == Binary::Complex => Num::Inexact(C::new(x.re(), y.re())),
        _ => Num::real(real_binary(b, dtype, x.re(), y.re())?),
    })
}

fn whole_binary(b: Binary, dtype: DType, x: i128, y: i128) -> Option<i128> {
    let bits = i128::from(width(dtype));
    Some(match b {
        Binary::Sub => x - y,
        Binary::FloorDivide | Binary::Remainder | Binary::Fmod if y == 0 => 0,
        Binary::FloorDivide => (x - x.rem_euclid(y.abs()) - shift(x, y)) / y,
        Binary::Remainder => x.rem_euclid(y.abs()) + shift(x, y),
        Binary::Fmod => x % y,
        Binary::Pow if y < 0 => match x {
            1 => 1,
            -1 => {
                if y % 2 == 0 {
                    1
                } else {
                    -1
                }
            }
            _ => 0,
        },
        Binary::Pow => power(dtype, x, y),
        Binary::BitwiseAnd => x & y,
        Binary::BitwiseOr => x | y,
        Binary::BitwiseXor => x ^ y,
        Binary::ShiftLeft if (0..bits).contains(&y) => x << y,
        Binary::ShiftLeft => 0,
        Binary::ShiftRight if y < 0 => 0,
        Binary::ShiftRight => x >> y.min(127),
        _ => return None,
    })
}

/// Moves a remainder between 0 and |y| to the sign of y.
fn shift(x: i128, y: i128) -> i128 {
    if y < 0 && x.rem_euclid(y.abs()) != 0 {
        y
    } else {
        0
    }
}

/// Power by squaring, wrapping.
fn power(dtype: DType, x: i128, y: i128) -> i128 {
    let (mut base, mut rest, mut out) = (x, y, 1i128);
    while rest > 0 {
        if rest & 1 == 1 {
            out = wrap(dtype, out.wrapping_mul(base));
        }
        base = wrap(dtype, base.wrapping_mul(base));
        rest >>= 1;
    }
    out
}

fn real_binary(b: Binary, dtype: DType, x: f64, y: f64) -> Option<f64> {
    Some(match b {
        Binary::Sub => x - y,
        Binary::Div => x / y,
        Binary::FloorDivide => floor_divide(x, y),
        Binary::Remainder => remainder(x, y),
        Binary::Fmod => x % y,
        Binary::Pow => x.powf(y),
        Binary::Atan2 => x.atan2(y),
        Binary::Hypot => x.hypot(y),
        Binary::Copysign => x.copysign(y),
        Binary::Nextafter => nextafter(dtype, x, y),
        Binary::Logaddexp if x.is_nan() || y.is_nan() => f64::NAN,
        Binary::Logaddexp if x == y => x + std::f64::consts::LN_2,
        Binary::Logaddexp => x.max(y) + (-(x - y).abs()).exp().ln_1p(),
        Binary::Polygamma => special::polygamma(x, y),
        _ => return None,
    })
}

/// The remainder, with y's sign.
fn remainder(x: f64, y: f64) -> f64 {
    let r = x % y;
    if r == 0.0 {
        0f64.copysign(y)
    } else if r.is_sign_negative() != y.is_sign_negative() {
        r + y
    } else {
        r
    }
}

/// The quotient rounded down.
fn floor_divide(x: f64, y: f64) -> f64 {
    if y == 0.0 {
        return x / y;
    }
    let r = x % y;
    let below = r != 0.0 && r.is_sign_negative() != y.is_sign_negative();
    // x - r is a multiple of y, so the quotient is off by rounding only.
    let q = ((x - r) / y).round() - f64::from(u8::from(below));
    if q == 0.0 { 0f64.copysign(x / y) } else { q }
}

/// The next number of a dtype from x towards y, by bits.
fn nextafter(dtype: DType, x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        return f64::NAN;
    }
    if x == y {
        return y;
    }
    let up = y > x;
    // The bits of numbers of one sign are ordered by magnitude.
    let step = |bits: u64, sign: u64| -> u64 {
        if bits & !sign == 0 {
            return if up { 1 } else { sign | 1 };
        }
        let away = up != (bits & sign != 0);
        if away { bits + 1 } else { bits - 1 }
    };
    match dtype {
        DType::F64 => f64::from_bits(step(x.to_bits(), 1 << 63)),
        DType::F32 => f64::from(f32::from_bits(
            step(u64::from((x as f32).to_bits()), 1 << 31) as u32,
        )),
        DType::F16 => {
            F16::from_bits(step(u64::from(F16::from_f64(x).to_bits()), 1 << 15) as u16).to_f64()
        }
        _ => BF16::from_bits(step(u64::from(BF16::from_f64(x).to_bits()), 1 << 15) as u16).to_f64(),
    }
}

/// A comparison.
pub fn compare(c: Compare, x: Num, y: Num) -> bool {
    let (equal, order) = match (x, y) {
        (Num::Whole(x), Num::Whole(y)) => (x == y, Some(x.cmp(&y))),
        _ => (x.c() == y.c(), x.re().partial_cmp(&y.re())),
    };
    use std::cmp::Ordering::{Equal, Greater, Less};
    match c {
        Compare::Equal => equal,
        Compare::NotEqual => !equal,
        Compare::Less => order == Some(Less),
        Compare::LessEqual => matches!(order, Some(Less | Equal)),
        Compare::Greater => order == Some(Greater),
        Compare::GreaterEqual => matches!(order, Some(Greater | Equal)),
    }
}
