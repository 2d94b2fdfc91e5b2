//! Converts nested sequences of Python numbers, tensors and arrays to one tensor.

use crate::dtype::PyDType;
use crate::error::{OrRaise, exception};
use crate::operand::{number, try_operand};
use clematis_core::{DType, Host, Kind, Scalar, Shape, Tensor, ops, with_element};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// Numbers in row-major order, and their shape.
struct Flat {
    values: Vec<Scalar>,
    shape: Vec<usize>,
    /// The dtype of tensors among them.
    dtype: Option<DType>,
}

/// The maximum depth.
const DEPTH: usize = 64;

/// A tensor on the current backend from a nested sequence of numbers.
pub fn array(x: &Bound<'_, PyAny>, dtype: Option<PyDType>) -> PyResult<Tensor> {
    let mut flat = Flat {
        values: Vec::new(),
        shape: Vec::new(),
        dtype: None,
    };
    fill(x, 0, &mut flat)?;
    if flat.values.is_empty() && flat.shape.is_empty() {
        flat.shape.push(0);
    }
    let dtype = match dtype {
        Some(d) => d.0,
        None => flat.dtype.unwrap_or_else(|| natural(&flat.values)),
    };
    if dtype.category() < clematis_core::Category::Float {
        check_range(&flat.values, dtype)?;
    }
    let shape = Shape::from_sizes(&flat.shape);
    let host = with_element!(dtype, T => {
        let values: Vec<T> = flat.values.iter().map(|&v| <T as clematis_core::Element>::from_scalar(v)).collect();
        Host::from_slice(&values, shape)
    });
    ops::from_host(host.or_raise()?).or_raise()
}

/// An integer out of range of the dtype is rejected, not truncated.
fn check_range(values: &[Scalar], dtype: DType) -> PyResult<()> {
    let bits = dtype.size() as u32 * 8;
    let (low, high) = match dtype {
        DType::Bool => return Ok(()),
        d if d.is_unsigned() => (0, (1i128 << bits) - 1),
        _ => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
    };
    for v in values {
        if let Scalar::Int(_) | Scalar::UInt(_) = v {
            let v = v.as_i128();
            if v < low || v > high {
                return Err(exception(
                    Kind::Value,
                    format!("asarray: {v} does not fit {dtype}"),
                ));
            }
        }
    }
    Ok(())
}

/// The default dtype of the highest kind among the numbers.
fn natural(values: &[Scalar]) -> DType {
    values
        .iter()
        .map(|v| v.default_dtype())
        .reduce(|a, b| {
            if a.category() == b.category() {
                if a.size() >= b.size() { a } else { b }
            } else if a.category() > b.category() {
                a
            } else {
                b
            }
        })
        .unwrap_or(DType::FLOAT)
}

fn fill(x: &Bound<'_, PyAny>, depth: usize, flat: &mut Flat) -> PyResult<()> {
    if depth > DEPTH {
        return Err(exception(
            Kind::Value,
            format!("asarray: nested deeper than {DEPTH}"),
        ));
    }
    let items: Vec<Bound<'_, PyAny>> = if let Ok(list) = x.cast::<PyList>() {
        list.iter().collect()
    } else if let Ok(tuple) = x.cast::<PyTuple>() {
        tuple.iter().collect()
    } else {
        return leaf(x, depth, flat);
    };
    size(flat, depth, items.len())?;
    for item in items {
        fill(&item, depth + 1, flat)?;
    }
    Ok(())
}

/// Records the size of an axis, which must be the same everywhere.
fn size(flat: &mut Flat, depth: usize, n: usize) -> PyResult<()> {
    match flat.shape.get(depth) {
        Some(&m) if m == n => Ok(()),
        None if flat.values.is_empty() => {
            flat.shape.push(n);
            Ok(())
        }
        Some(&m) => Err(exception(
            Kind::Shape,
            format!("asarray: sequences of {m} and {n} elements at depth {depth}"),
        )),
        None => Err(exception(
            Kind::Shape,
            format!("asarray: a number and a sequence of {n} elements at depth {depth}"),
        )),
    }
}

fn leaf(x: &Bound<'_, PyAny>, depth: usize, flat: &mut Flat) -> PyResult<()> {
    if let Some(v) = number(x)? {
        if flat.shape.len() != depth {
            return Err(exception(
                Kind::Shape,
                format!("asarray: a number where a sequence was expected at depth {depth}"),
            ));
        }
        flat.values.push(v);
        return Ok(());
    }
    let Some(operand) = try_operand(x)? else {
        let class = x.get_type();
        let class = class.name()?;
        return Err(exception(
            Kind::DType,
            format!("asarray: a number was expected, not {class}"),
        ));
    };
    let t = operand.tensor;
    let host = t.to_host().or_raise()?;
    for (i, n) in t.shape().sizes().into_iter().enumerate() {
        size(flat, depth + i, n)?;
    }
    for i in 0..t.shape().count() {
        flat.values.push(host.get(i).or_raise()?);
    }
    flat.dtype = Some(match flat.dtype {
        Some(d) => d.promote(t.dtype()),
        None => t.dtype(),
    });
    Ok(())
}
