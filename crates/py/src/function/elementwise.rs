//! Elementwise functions of one or two operands, generated from the core's tables.

use crate::dtype::{self, PyDType};
use crate::error::OrRaise;
use crate::operand::{Call, Elementwise};
use clematis_core::op::{Binary, Compare, Unary};
use clematis_core::{Op, Tensor, ops};
use pyo3::prelude::*;
use pyo3::types::PyModule;

macro_rules! unary {
    ($($variant:ident $name:ident $takes:ident $gives:ident $domain:ident $doc:literal,)*) => {
        $(
            #[doc = $doc]
            #[pyfunction]
            #[pyo3(signature = (x, /))]
            fn $name<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                let op = Unary::$variant;
                let mut call = Call::new(x.py(), stringify!($name));
                let x = call.take(x)?;
                call.one(|| ops::unary(op, x))
            }
        )*
        fn add_unary(m: &Bound<'_, PyModule>) -> PyResult<()> {
            crate::functions!(m; $($name)*);
            Ok(())
        }
        fn unary_named(name: &str) -> Option<Unary> {
            match name {
                $(stringify!($name) => Some(Unary::$variant),)*
                _ => None,
            }
        }
    };
}
macro_rules! binary {
    ($($variant:ident $name:ident $takes:ident $gives:ident $domain:ident $doc:literal,)*) => {
        $(
            #[doc = $doc]
            #[pyfunction]
            #[pyo3(signature = (x1, x2, /))]
            fn $name<'py>(x1: &Bound<'py, PyAny>, x2: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                let op = Binary::$variant;
                let mut call = Call::new(x1.py(), stringify!($name));
                call.look(x2)?;
                let (x, y) = (call.take(x1)?, call.take(x2)?);
                call.one(|| ops::binary(op, x, y))
            }
        )*
        fn add_binary(m: &Bound<'_, PyModule>) -> PyResult<()> {
            crate::functions!(m; $($name)*);
            Ok(())
        }
        fn binary_named(name: &str) -> Option<Binary> {
            match name {
                $(stringify!($name) => Some(Binary::$variant),)*
                _ => None,
            }
        }
    };
}
macro_rules! compare {
    ($($variant:ident $name:ident $takes:ident $doc:literal,)*) => {
        $(
            #[doc = $doc]
            #[pyfunction]
            #[pyo3(signature = (x1, x2, /))]
            fn $name<'py>(x1: &Bound<'py, PyAny>, x2: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                let op = Compare::$variant;
                let mut call = Call::new(x1.py(), stringify!($name));
                call.look(x2)?;
                let (x, y) = (call.take(x1)?, call.take(x2)?);
                call.one(|| ops::compare(op, x, y))
            }
        )*
        fn add_compare(m: &Bound<'_, PyModule>) -> PyResult<()> {
            crate::functions!(m; $($name)*);
            Ok(())
        }
        fn compare_named(name: &str) -> Option<Compare> {
            match name {
                $(stringify!($name) => Some(Compare::$variant),)*
                _ => None,
            }
        }
    };
}
clematis_core::for_each_unary!(unary);
clematis_core::for_each_binary!(binary);
clematis_core::for_each_compare!(compare);

/// The elementwise op of this name, if there is one.
pub fn named(name: &str) -> Option<Elementwise> {
    let made = |op, takes, count| Elementwise { op, takes, count };
    if let Some(op) = unary_named(name) {
        return Some(made(Op::Unary(op), ops::unary_alone(op), 1));
    }
    if let Some(op) = binary_named(name) {
        return Some(made(Op::Binary(op), ops::binary_alone(op), 2));
    }
    compare_named(name).map(|op| made(Op::Compare(op), op.takes(), 2))
}

/// Array API names that differ from the core's.
const ALIASES: &[(&str, &str)] = &[
    ("negative", "neg"),
    ("subtract", "sub"),
    ("multiply", "mul"),
    ("divide", "div"),
    ("bitwise_invert", "bitwise_not"),
    ("bitwise_left_shift", "shift_left"),
    ("bitwise_right_shift", "shift_right"),
    ("arctan2", "atan2"),
    ("power", "pow"),
    ("absolute", "abs"),
];

/// Clips x to bounds, each of which is optional; NaN stays NaN.
#[pyfunction]
#[pyo3(signature = (x, /, min=None, max=None))]
fn clip<'py>(
    x: &Bound<'py, PyAny>,
    min: Option<&Bound<'py, PyAny>>,
    max: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut call = Call::new(x.py(), "clip");
    let x = call.take(x)?;
    let (low, high) = (call.maybe(min)?, call.maybe(max)?);
    call.one(|| ops::clip(x, low.as_ref(), high.as_ref()))
}

/// Selects elements: the second operand where the first is true, else the third.
#[pyfunction]
#[pyo3(name = "where", signature = (condition, x1, x2, /))]
fn where_<'py>(
    condition: &Bound<'py, PyAny>,
    x1: &Bound<'py, PyAny>,
    x2: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut call = Call::new(x1.py(), "where");
    call.look(x1)?;
    call.look(x2)?;
    let condition = call.take(condition)?;
    let (x, y) = (call.take(x1)?, call.take(x2)?);
    call.one(|| ops::where_(condition, x, y))
}

/// Casts to a dtype.
#[pyfunction]
#[pyo3(signature = (x, dtype, /, *, copy=true, device=None))]
fn astype<'py>(
    x: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    copy: bool,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    crate::args::device("astype", device)?;
    let mut call = Call::new(x.py(), "astype");
    let PyDType(to) = dtype::dtype(dtype)?;
    let t = call.take(x)?;
    if t.dtype() == to && !copy {
        return Ok(x.clone());
    }
    if t.dtype().is_complex() && !to.is_complex() && to != clematis_core::DType::Bool {
        return Err(crate::error::exception(
            clematis_core::Kind::DType,
            format!(
                "astype: {} to {to} would lose the imaginary part; take real(x)",
                t.spec()
            ),
        ));
    }
    call.one(|| ops::cast(t, to))
}

/// Bitcast: reinterprets the bits as another dtype of the same size.
#[pyfunction]
#[pyo3(signature = (x, dtype, /))]
fn bitcast<'py>(x: &Bound<'py, PyAny>, dtype: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let mut call = Call::new(x.py(), "bitcast");
    let PyDType(to) = dtype::dtype(dtype)?;
    let x = call.take(x)?;
    call.one(|| ops::bitcast(x, to))
}

/// Stops gradients: x is a constant to every derivative. A variable of a framework's own autodiff is returned as a new
/// variable, unless `preserve_type` is false.
#[pyfunction]
#[pyo3(signature = (x, /, *, preserve_type=true))]
fn stop_gradient<'py>(x: &Bound<'py, PyAny>, preserve_type: bool) -> PyResult<Bound<'py, PyAny>> {
    let mut call = Call::new(x.py(), "stop_gradient");
    let own = call.take(x)?;
    let out = call.one(|| ops::stop_gradient(own))?;
    if preserve_type {
        crate::transform::variable_like(x, out)
    } else {
        Ok(out)
    }
}

/// Angle (argument) of a complex number.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn angle<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let mut call = Call::new(x.py(), "angle");
    let x = call.take(x)?;
    call.one(|| ops::angle(x))
}

/// Tests elementwise whether two arrays are equal within a tolerance: |x - y| <= atol + rtol |y|.
#[pyfunction]
#[pyo3(signature = (x, y, /, *, rtol=1e-5, atol=1e-8, equal_nan=false))]
fn isclose<'py>(
    x: &Bound<'py, PyAny>,
    y: &Bound<'py, PyAny>,
    rtol: f64,
    atol: f64,
    equal_nan: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let mut call = Call::new(x.py(), "isclose");
    let (x, y) = (call.take(x)?, call.take(y)?);
    call.one(|| {
        let near = ops::isclose(&x, &y, rtol, atol);
        if equal_nan {
            ops::logical_or(near, ops::logical_and(ops::isnan(&x), ops::isnan(&y)))
        } else {
            near
        }
    })
}

/// Tests whether all elements are equal within a tolerance.
#[pyfunction]
#[pyo3(signature = (x, y, /, *, rtol=1e-5, atol=1e-8, equal_nan=false))]
fn allclose(
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    rtol: f64,
    atol: f64,
    equal_nan: bool,
) -> PyResult<bool> {
    let close = isclose(x, y, rtol, atol, equal_nan)?;
    let mut call = Call::new(x.py(), "allclose");
    let close: Tensor = call.take(&close)?;
    let all = call.run(|| ops::all(close, ..).done()).or_raise()?;
    Ok(all.item().or_raise()?.as_bool())
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    add_unary(m)?;
    add_binary(m)?;
    add_compare(m)?;
    for (alias, name) in ALIASES {
        m.add(*alias, m.getattr(*name)?)?;
    }
    crate::functions!(m; clip where_ astype bitcast stop_gradient angle isclose allclose);
    Ok(())
}
