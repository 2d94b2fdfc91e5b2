//! Quantization: QuantizeLinear, DequantizeLinear, integer matmul and convolution.

use super::super::Rule;
use super::super::args::{Args, Slot};
use super::conv::{biased, conv};
use super::{NAMED, low_precision_cast, maybe, out, ranked, several, t};
use crate::onnx::low_precision::LowPrecision;
use clematis_core::expr::Expr;
use clematis_core::{DType, Result, Shape, Tensor, bail, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("QuantizeLinear", |_, a| {
        let x = t(a, 0)?;
        if let Some(to) = low_precision_cast::wanted(a, "&low_precision")? {
            return Ok(quantized_to_low_precision(a, &x, &t(a, 1)?, maybe(a, 2)?, to)?.into());
        }
        let to = match (maybe(a, 2)?, a.int(NAMED, "output_dtype", 0)?) {
            (Some(zero), _) => zero.dtype(),
            (None, 0) => DType::U8,
            (None, code) => crate::onnx::tensor::dtype(code)?,
        };
        Ok(quantized(a, &x, &t(a, 1)?, maybe(a, 2)?, to)?.into())
    }),
    ("DequantizeLinear", |_, a| {
        let x = t(a, 0)?;
        let scale = t(a, 1)?;
        let dtype = scale.dtype();
        let wide = ops::cast(&x, DType::F32).done()?;
        let mut y: Expr = Ok(wide).into();
        if let Some(zero) = maybe(a, 2)? {
            y = y - spread(a, &x, &ops::cast(zero, DType::F32).done()?)?;
        }
        out(ops::cast(
            y * spread(a, &x, &ops::cast(scale, DType::F32).done()?)?,
            dtype,
        ))
    }),
    ("DynamicQuantizeLinear", |_, a| {
        let x = t(a, 0)?;
        let low = ops::minimum(ops::min(&x, ..), 0.0).done()?;
        let high = ops::maximum(ops::max(&x, ..), 0.0).done()?;
        let scale = ((&high - &low) / 255.0).done()?;
        let zero = ops::round(ops::minimum(ops::maximum(-&low / &scale, 0.0), 255.0)).done()?;
        let y = ops::minimum(ops::maximum(ops::round(&x / &scale) + &zero, 0.0), 255.0);
        let results = vec![
            ops::cast(y, DType::U8).done()?.into(),
            scale.into(),
            ops::cast(zero, DType::U8).done()?.into(),
        ];
        Ok(several(a, results))
    }),
    ("MatMulInteger", |_, a| {
        let (x, y) = (shifted(a, 0, 2, true)?, shifted(a, 1, 3, false)?);
        out(ops::matmul(x, y))
    }),
    ("ConvInteger", |_, a| {
        let x = shifted(a, 0, 2, true)?;
        let mut w = ops::cast(ranked(a, 1, 3)?, DType::I32).done()?;
        if let Some(zero) = maybe(a, 3)? {
            let shape = if zero.rank() == 1 {
                vec![-1i64; 1]
                    .into_iter()
                    .chain(vec![1; w.rank() - 1])
                    .collect()
            } else {
                Vec::new()
            };
            w = (w - ops::reshape(ops::cast(zero, DType::I32), shape)).done()?;
        }
        whole(a, &x, &w)
    }),
    ("QLinearMatMul", |_, a| {
        let side = |i: usize, rows: bool| -> Result<Tensor> {
            let x = ops::cast(t(a, i)?, DType::F32).done()?;
            let (scale, zero) = (along(t(a, i + 1)?, rows)?, along(t(a, i + 2)?, rows)?);
            ((x - ops::cast(zero, DType::F32)) * ops::cast(scale, DType::F32)).done()
        };
        let y = ops::matmul(side(0, true)?, side(3, false)?).done()?;
        let zero = t(a, 7)?;
        let to = zero.dtype();
        let scale = ops::cast(t(a, 6)?, DType::F32).done()?;
        Ok(quantized(a, &y, &along(scale, true)?, Some(along(zero, true)?), to)?.into())
    }),
    ("QLinearConv", |_, a| {
        let x = ((ops::cast(t(a, 0)?, DType::F32) - ops::cast(t(a, 2)?, DType::F32)) * t(a, 1)?)
            .done()?;
        let w = ops::cast(ranked(a, 3, 3)?, DType::F32).done()?;
        let row = |x: Tensor| -> Result<Tensor> {
            if x.rank() == 0 || x.shape().count_dim() == 1usize {
                return ops::reshape(x, Shape::scalar()).done();
            }
            let shape: Vec<i64> = [-1].into_iter().chain(vec![1; w.rank() - 1]).collect();
            ops::reshape(x, shape).done()
        };
        let w_scale = row(t(a, 4)?)?;
        let w = ((&w - ops::cast(row(t(a, 5)?)?, DType::F32)) * &w_scale).done()?;
        let bias = match maybe(a, 8)? {
            Some(b) => {
                let flat = ops::reshape(t(a, 4)?, [-1i64].to_vec());
                Some((ops::cast(b, DType::F32) * flat * t(a, 1)?).done()?)
            }
            None => None,
        };
        let y = biased(conv(a, &x, &w)?, bias)?;
        let zero = t(a, 7)?;
        let to = zero.dtype();
        Ok(quantized(a, &y, &t(a, 6)?, Some(zero), to)?.into())
    }),
];

/// The smallest and largest integer of a dtype.
fn limits(to: DType) -> Result<(f64, f64)> {
    Ok(match to {
        DType::U8 => (0.0, 255.0),
        DType::I8 => (-128.0, 127.0),
        DType::U16 => (0.0, 65535.0),
        DType::I16 => (-32768.0, 32767.0),
        DType::I32 => (-2147483648.0, 2147483647.0),
        other => bail!(Unsupported, "convert: unsupported quantized dtype {other}"),
    })
}

fn quantized(
    a: &Args<'_>,
    x: &Tensor,
    scale: &Tensor,
    zero: Option<Tensor>,
    to: DType,
) -> Result<Tensor> {
    let (low, high) = limits(to)?;
    let wide = ops::cast(x, DType::F32).done()?;
    let scale = spread(a, x, &ops::cast(scale, DType::F32).done()?)?;
    let mut y = ops::round(wide / scale);
    if let Some(zero) = zero {
        y = y + spread(a, x, &ops::cast(zero, DType::F32).done()?)?;
    }
    ops::cast(ops::minimum(ops::maximum(y, low), high), to).done()
}

/// Quantization to low-precision dtypes.
fn quantized_to_low_precision(
    a: &Args<'_>,
    x: &Tensor,
    scale: &Tensor,
    zero: Option<Tensor>,
    to: LowPrecision,
) -> Result<Tensor> {
    let wide = ops::cast(x, DType::F32).done()?;
    let mut y = wide / spread(a, x, &ops::cast(scale, DType::F32).done()?)?;
    let is_int = matches!(to, LowPrecision::Int { .. });
    if is_int {
        y = ops::round(y);
    }
    if let Some(zero) = zero {
        y = y + spread(a, x, &ops::cast(zero, DType::F32).done()?)?;
    }
    if is_int {
        let (low, high) = to.limits();
        y = ops::minimum(ops::maximum(y, low), high);
    }
    low_precision_cast::rounded(&y.done()?, to, a.flag(NAMED, "saturate", true)?, "up")
}

/// Broadcasts a scale (per tensor, per axis or blocked) to the tensor.
fn spread(a: &Args<'_>, x: &Tensor, scale: &Tensor) -> Result<Tensor> {
    let block = a.int(NAMED, "block_size", 0)?;
    if scale.rank() == 0 || scale.shape().count_dim() == 1usize && scale.rank() <= 1 {
        return ops::reshape(scale, Shape::scalar()).done();
    }
    let axis = x.shape().axis(a.int(NAMED, "axis", 1)?, "quantize")?;
    if scale.rank() == 1 && block == 0 && x.rank() > 0 {
        let mut shape = vec![1i64; x.rank()];
        shape[axis] = -1;
        return ops::reshape(scale, shape).done();
    }
    if block > 0 && scale.rank() == x.rank() {
        if x.shape().dims()[axis]
            .value()
            .is_none_or(|n| block > n.max(1))
        {
            return Err(a.bad("blocks that divide the axis"));
        }
        let wide = ops::repeat(scale, block as usize, axis as i64).done()?;
        let n = x.shape().dims()[axis];
        return if wide.shape().dims()[axis] == n {
            Ok(wide)
        } else {
            ops::slice_axis(wide, axis as i64, 0, n).done()
        };
    }
    Ok(scale.clone())
}

/// Broadcasts a scale per row, per column or per tensor to a matrix.
fn along(x: Tensor, rows: bool) -> Result<Tensor> {
    if x.rank() != 1 {
        return Ok(x);
    }
    if x.shape().count_dim() == 1usize {
        return ops::reshape(x, Shape::scalar()).done();
    }
    if rows {
        ops::expand_dims(x, -1).done()
    } else {
        Ok(x)
    }
}

/// An integer operand minus its zero point.
fn shifted(a: &Args<'_>, i: usize, zero: usize, rows: bool) -> Result<Tensor> {
    let x = ops::cast(t(a, i)?, DType::I32).done()?;
    match maybe(a, zero)? {
        Some(zero) => (&x - along(ops::cast(zero, DType::I32).done()?, rows)?).done(),
        None => Ok(x),
    }
}

/// An integer convolution, computed in float64, which represents all values exactly.
fn whole(a: &Args<'_>, x: &Tensor, w: &Tensor) -> Result<Slot> {
    let wide = |x: &Tensor| ops::cast(x, DType::F64).done();
    let y = conv(a, &wide(x)?, &wide(w)?)?;
    out(ops::cast(ops::round(y), DType::I32))
}
