//! Rounds values to low-precision dtypes (int2, int4, fp4, fp8) that are stored in wider ones.

use super::super::args::Args;
use super::NAMED;
use crate::onnx::low_precision::{LowPrecision, Special, low_precision};
use clematis_core::expr::Expr;
use clematis_core::{DType, Result, Tensor, bail, ops};

/// The low-precision dtype that a node's attribute or the reader specifies.
pub fn wanted(a: &Args<'_>, attribute: &str) -> Result<Option<LowPrecision>> {
    let own = a.int(NAMED, attribute, 0)?;
    Ok(low_precision(if own == 0 {
        a.int(NAMED, "&low_precision", 0)?
    } else {
        own
    }))
}

/// Rounds to the dtype; with `saturate`, values out of range become the largest finite one.
pub fn rounded(x: &Tensor, to: LowPrecision, saturate: bool, mode: &str) -> Result<Tensor> {
    match to {
        LowPrecision::Int { bits, signed } => {
            // Integers wrap around, as in NumPy.
            let x = ops::cast(ops::trunc(ops::cast(x, DType::F32)), DType::I32).done()?;
            let (span, half) = (1i64 << bits, if signed { 1i64 << (bits - 1) } else { 0 });
            let y = ops::bitwise_and(x + half, span - 1) - half;
            ops::cast(y, to.storage_dtype()).done()
        }
        LowPrecision::Scale => scale(x, saturate, mode),
        LowPrecision::Float {
            mantissa,
            bias,
            special,
            ..
        } => {
            let x = ops::cast(x, DType::F32).done()?;
            let (_, most) = to.limits();
            // The spacing is a power of two: that of the value, or that of the subnormals.
            let top = ops::maximum(exponent(&x)?, i64::from(127 + 1 - bias));
            let step = power(top - i64::from(mantissa))?;
            let y = (ops::round(&x / &step) * &step).done()?;
            let large = ops::greater(ops::abs(&y), most).done()?;
            let signed = ops::copysign(Tensor::scalar(most, DType::F32), &x).done()?;
            let instead = match (saturate || special == Special::None, special) {
                (true, _) => signed,
                (false, Special::Infinities) => (signed * f64::INFINITY).done()?,
                (false, _) => Tensor::scalar(f64::NAN, DType::F32),
            };
            let y = ops::where_(large, instead, y);
            // Formats without NaN have zero instead.
            let none = if special == Special::None {
                0.0
            } else {
                f64::NAN
            };
            ops::where_(ops::isnan(&x), none, y).done()
        }
    }
}

/// The exponent bits of a float, as integers.
fn exponent(x: &Tensor) -> Result<Tensor> {
    let bits = ops::bitcast(x, DType::U32);
    let top = ops::bitwise_and(ops::shift_right(bits, 23), 255i64);
    ops::cast(top, DType::I32).done()
}

/// A power of two from its exponent bits.
fn power(exponent: Expr) -> Result<Tensor> {
    ops::bitcast(
        ops::shift_left(ops::cast(exponent, DType::U32), 23),
        DType::F32,
    )
    .done()
}

/// The next power of two.
fn scale(x: &Tensor, saturate: bool, mode: &str) -> Result<Tensor> {
    let x = ops::cast(x, DType::F32).done()?;
    let low = ops::bitwise_and(ops::bitcast(&x, DType::U32), 0x7f_ffff_i64).done()?;
    let top = exponent(&x)?;
    let more = match mode {
        "down" => ops::zeros_like(&top),
        "up" => ops::cast(ops::greater(&low, 0i64), DType::I32),
        "nearest" => {
            let above = ops::greater(&low, 0x40_0000_i64);
            let half = ops::logical_and(ops::equal(&low, 0x40_0000_i64), ops::greater(&top, 0i64));
            ops::cast(ops::logical_or(above, half), DType::I32)
        }
        other => bail!(Unsupported, "convert: unsupported round_mode `{other}`"),
    };
    let next = (&top + more).done()?;
    let next = if saturate {
        ops::minimum(next, 254i64).done()?
    } else {
        next
    };
    // The smallest one is a subnormal float32.
    let y = ops::where_(
        ops::less_equal(&next, 0i64),
        Tensor::scalar(2f64.powi(-127), DType::F32),
        power(ops::minimum(&next, 254i64))?,
    );
    let wrong = ops::logical_or(ops::equal(&top, 255i64), ops::greater(&next, 254i64));
    ops::where_(wrong, f64::NAN, y).done()
}
