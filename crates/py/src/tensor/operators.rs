//! Python's operators in their normal, reflected and in-place forms.
#![allow(unsafe_op_in_unsafe_fn)] // what PyO3 makes of a block that a macro wrote

use super::{PyTensor, object};
use crate::error::OrRaise;
use crate::operand::{LARGE, Operand, direct, give, numpy_number, try_operand};
use clematis_bridge::fast_path::MATMUL;
use clematis_core::expr::Expr;
use clematis_core::op::{Binary, Compare, Unary};
use clematis_core::{Op, Tensor, backend, ops};
use pyo3::basic::CompareOp;
use pyo3::prelude::*;

/// Runs on the backend of `x`; releases the GIL for large tensors of the engine.
fn on_backend(py: Python<'_>, x: &Tensor, f: impl FnOnce() -> Expr + Send) -> PyResult<Tensor> {
    let Some(backend) = x.backend() else {
        return f().done().or_raise();
    };
    if backend.name() == "native" {
        return if x.shape().is_symbolic() || x.shape().count() <= LARGE {
            f().done().or_raise()
        } else {
            crate::backend::detached(py, || f().done()).or_raise()
        };
    }
    backend::with(backend, || f().done()).or_raise()
}

fn not_implemented(py: Python<'_>) -> Bound<'_, PyAny> {
    py.NotImplemented().into_bound(py)
}

fn pair<'py>(
    slf: &Bound<'py, PyTensor>,
    other: &Bound<'py, PyAny>,
    swapped: bool,
    f: impl FnOnce(Tensor, Tensor) -> Expr + Send,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let x = PyTensor::of(slf);
    let (y, raw) = match other.cast::<PyTensor>() {
        Ok(y) => (PyTensor::of(y), false),
        Err(_) => match beside(other)? {
            Some(Operand { tensor, raw }) => (tensor, raw),
            None => return Ok(not_implemented(py)),
        },
    };
    let backend = x.clone();
    let out = on_backend(py, &backend, || if swapped { f(y, x) } else { f(x, y) })?;
    if raw {
        return give(py, out, true);
    }
    Ok(PyTensor::bound(py, out)?.into_any())
}

/// The other operand of an operator: a NumPy scalar is treated as a Python number.
fn beside(other: &Bound<'_, PyAny>) -> PyResult<Option<Operand>> {
    let Some(found) = try_operand(other)? else {
        return Ok(None);
    };
    Ok(Some(match numpy_number(other, &found)? {
        Some(tensor) => Operand { tensor, raw: false },
        None => found,
    }))
}

fn in_place(
    slf: &Bound<'_, PyTensor>,
    other: &Bound<'_, PyAny>,
    op: &'static str,
    f: impl FnOnce(Tensor, Tensor) -> Expr + Send,
) -> PyResult<()> {
    let x = PyTensor::of(slf);
    let Some(y) = beside(other)? else {
        let class = other.get_type();
        return Err(pyo3::exceptions::PyTypeError::new_err(format!(
            "{op}: a tensor and {}",
            class.name()?
        )));
    };
    let backend = x.clone();
    let out = on_backend(slf.py(), &backend, || f(x, y.tensor))?;
    PyTensor::replace(slf, op, out)
}

fn single<'py>(slf: &Bound<'py, PyTensor>, op: Unary) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    if let Some(out) = direct(&Op::Unary(op), ops::unary_alone(op), &[slf.as_any()])? {
        return Ok(out);
    }
    let x = PyTensor::of(slf);
    let backend = x.clone();
    let out = on_backend(py, &backend, || ops::unary(op, x))?;
    Ok(PyTensor::bound(py, out)?.into_any())
}

macro_rules! operators {
    ($($name:ident $reflected:ident $assigned:ident $word:literal $op:expr, $f:expr;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                fn $name<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                    let op = $op;
                    if object::is_tensor(other)
                        && let Some(out) = direct(&Op::Binary(op), ops::binary_alone(op), &[slf.as_any(), other])?
                    {
                        return Ok(out);
                    }
                    pair(slf, other, false, $f)
                }
                fn $reflected<'py>(slf: &Bound<'py, Self>, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
                    pair(slf, other, true, $f)
                }
                fn $assigned(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
                    in_place(slf, other, $word, $f)
                }
            )*
        }
    };
}
operators! {
    __add__ __radd__ __iadd__ "add" Binary::Add, |x, y| ops::binary(Binary::Add, x, y);
    __sub__ __rsub__ __isub__ "sub" Binary::Sub, |x, y| ops::binary(Binary::Sub, x, y);
    __mul__ __rmul__ __imul__ "mul" Binary::Mul, |x, y| ops::binary(Binary::Mul, x, y);
    __truediv__ __rtruediv__ __itruediv__ "div" Binary::Div, |x, y| ops::binary(Binary::Div, x, y);
    __floordiv__ __rfloordiv__ __ifloordiv__ "floor_divide" Binary::FloorDivide, |x, y| ops::binary(Binary::FloorDivide, x, y);
    __mod__ __rmod__ __imod__ "remainder" Binary::Remainder, |x, y| ops::binary(Binary::Remainder, x, y);
    __and__ __rand__ __iand__ "bitwise_and" Binary::BitwiseAnd, |x, y| ops::binary(Binary::BitwiseAnd, x, y);
    __or__ __ror__ __ior__ "bitwise_or" Binary::BitwiseOr, |x, y| ops::binary(Binary::BitwiseOr, x, y);
    __xor__ __rxor__ __ixor__ "bitwise_xor" Binary::BitwiseXor, |x, y| ops::binary(Binary::BitwiseXor, x, y);
    __lshift__ __rlshift__ __ilshift__ "shift_left" Binary::ShiftLeft, |x, y| ops::binary(Binary::ShiftLeft, x, y);
    __rshift__ __rrshift__ __irshift__ "shift_right" Binary::ShiftRight, |x, y| ops::binary(Binary::ShiftRight, x, y);
}

#[pymethods]
impl PyTensor {
    fn __matmul__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if object::is_tensor(other)
            && let Some(out) = object::fast_path_tensors(
                MATMUL,
                &[slf.as_any().as_borrowed(), other.as_borrowed()],
                None,
            )?
        {
            return Ok(out);
        }
        pair(slf, other, false, ops::matmul)
    }

    fn __rmatmul__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        pair(slf, other, true, ops::matmul)
    }

    fn __imatmul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(slf, other, "matmul", ops::matmul)
    }

    fn __pow__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        modulo: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !modulo.is_none() {
            return Ok(not_implemented(slf.py()));
        }
        pair(slf, other, false, ops::pow)
    }

    fn __rpow__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        modulo: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if !modulo.is_none() {
            return Ok(not_implemented(slf.py()));
        }
        pair(slf, other, true, ops::pow)
    }

    fn __ipow__(
        slf: &Bound<'_, Self>,
        other: &Bound<'_, PyAny>,
        _modulo: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        in_place(slf, other, "pow", ops::pow)
    }

    fn __divmod__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        Ok((Self::__floordiv__(slf, other)?, Self::__mod__(slf, other)?))
    }

    fn __neg__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        single(slf, Unary::Neg)
    }

    fn __pos__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        single(slf, Unary::Positive)
    }

    fn __abs__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        single(slf, Unary::Abs)
    }

    fn __invert__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        single(slf, Unary::BitwiseNot)
    }

    fn __richcmp__<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, PyAny>,
        op: CompareOp,
    ) -> PyResult<Bound<'py, PyAny>> {
        let op = match op {
            CompareOp::Eq => Compare::Equal,
            CompareOp::Ne => Compare::NotEqual,
            CompareOp::Lt => Compare::Less,
            CompareOp::Le => Compare::LessEqual,
            CompareOp::Gt => Compare::Greater,
            CompareOp::Ge => Compare::GreaterEqual,
        };
        if object::is_tensor(other)
            && let Some(out) = direct(&Op::Compare(op), op.takes(), &[slf.as_any(), other])?
        {
            return Ok(out);
        }
        pair(slf, other, false, move |x, y| ops::compare(op, x, y))
    }

    fn __contains__(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        let x = PyTensor::of(slf);
        let Some(y) = beside(value)? else {
            return Ok(false);
        };
        let backend = x.clone();
        let found = on_backend(slf.py(), &backend, || ops::any(ops::equal(x, y.tensor), ..))?;
        Ok(found.item().or_raise()?.as_bool())
    }
}
