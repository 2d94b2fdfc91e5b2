//! Creation of tensors on the current backend.

use super::{call, elementwise::to_dtype};
use crate::backend::{self, Device};
use crate::dim::Dim;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::expr::{Expr, IntoExpr};
use crate::host::{Element, Host};
use crate::op::{Full, Iota};
use crate::shape::{IntoShape, Shape};
use crate::tensor::{Repr, Tensor};
use crate::{bail, ensure};

/// Copies a host buffer to the current backend.
pub fn from_host(host: Host) -> Result<Tensor> {
    let backend = backend::current()?;
    let spec = host.spec().clone();
    Ok(Tensor::concrete(
        spec,
        backend,
        backend.from_host(host, Device::Cpu)?,
    ))
}

/// Nested arrays of elements; their lengths give the shape.
pub trait Nested {
    /// The element type.
    type Item: Element;
    /// The shape; an error if rows differ in length.
    fn shape(&self) -> Result<Vec<usize>>;
    /// Appends all elements in row-major order.
    fn flatten(&self, into: &mut Vec<Self::Item>);
}
macro_rules! nested_leaves {
    ($($ty:ty)*) => { $(
        impl Nested for $ty {
            type Item = $ty;
            fn shape(&self) -> Result<Vec<usize>> { Ok(vec![]) }
            fn flatten(&self, into: &mut Vec<$ty>) { into.push(*self) }
        }
    )* };
}
nested_leaves! { bool u8 u16 u32 u64 i8 i16 i32 i64 half::f16 half::bf16 f32 f64 num_complex::Complex<f32> num_complex::Complex<f64> }

impl<T: Nested> Nested for [T] {
    type Item = T::Item;
    fn shape(&self) -> Result<Vec<usize>> {
        let mut shape = vec![self.len()];
        let Some(first) = self.first() else {
            return Ok(shape);
        };
        let inner = first.shape()?;
        for row in self {
            let other = row.shape()?;
            ensure!(
                other == inner,
                Shape,
                "tensor: expected rows of equal shape, got {inner:?} and {other:?}"
            );
        }
        shape.extend(inner);
        Ok(shape)
    }
    fn flatten(&self, into: &mut Vec<T::Item>) {
        for x in self {
            x.flatten(into);
        }
    }
}
impl<T: Nested, const N: usize> Nested for [T; N] {
    type Item = T::Item;
    fn shape(&self) -> Result<Vec<usize>> {
        self[..].shape()
    }
    fn flatten(&self, into: &mut Vec<T::Item>) {
        self[..].flatten(into);
    }
}
impl<T: Nested> Nested for Vec<T> {
    type Item = T::Item;
    fn shape(&self) -> Result<Vec<usize>> {
        self[..].shape()
    }
    fn flatten(&self, into: &mut Vec<T::Item>) {
        self[..].flatten(into);
    }
}
impl<T: Nested + ?Sized> Nested for &T {
    type Item = T::Item;
    fn shape(&self) -> Result<Vec<usize>> {
        (**self).shape()
    }
    fn flatten(&self, into: &mut Vec<T::Item>) {
        (**self).flatten(into);
    }
}

/// Creates a tensor from nested arrays: `tensor([[1.0f32, 2.0], [3.0, 4.0]])?`.
pub fn tensor(values: impl Nested) -> Result<Tensor> {
    let shape = values.shape()?;
    let mut flat = Vec::new();
    values.flatten(&mut flat);
    from_host(Host::from_slice(&flat, shape)?)
}

/// Creates a tensor from values in row-major order.
pub fn from_slice<T: Element>(values: &[T], shape: impl IntoShape) -> Result<Tensor> {
    from_host(Host::from_slice(values, shape)?)
}

/// A tensor filled with one value.
pub fn full(shape: impl IntoShape, value: impl Into<Scalar>, dtype: DType) -> Expr {
    let shape = match shape.into_shape() {
        Ok(shape) => shape,
        Err(e) => return Err(e).into_expr(),
    };
    call(
        Full {
            value: value.into().cast(dtype),
            dtype,
            shape,
        },
        &[],
    )
}

/// Zeros.
pub fn zeros(shape: impl IntoShape, dtype: DType) -> Expr {
    full(shape, 0, dtype)
}

/// Ones.
pub fn ones(shape: impl IntoShape, dtype: DType) -> Expr {
    full(shape, 1, dtype)
}

/// A tensor filled with one value, with the shape, dtype and backend of another tensor.
pub fn full_like(x: &Tensor, value: impl Into<Scalar>) -> Expr {
    let make = || full(x.shape(), value, x.dtype());
    match x.backend() {
        Some(b) => backend::with(b, make),
        None => make(),
    }
}

/// 0, 1, 2 … along one axis.
pub fn iota(shape: impl IntoShape, axis: usize, dtype: DType) -> Expr {
    let shape = match shape.into_shape() {
        Ok(shape) => shape,
        Err(e) => return Err(e).into_expr(),
    };
    call(Iota { axis, dtype, shape }, &[])
}

/// 0, 1, 2 … along one axis, on the backend of another tensor.
pub(crate) fn iota_like(x: &Tensor, shape: &Shape, axis: usize, dtype: DType) -> Expr {
    match x.backend() {
        Some(b) => backend::with(b, || iota(shape, axis, dtype)),
        None => iota(shape, axis, dtype),
    }
}

/// Values from `start` by `step` up to, but not including, `stop`.
pub fn arange(
    start: impl Into<Scalar>,
    stop: impl Into<Scalar>,
    step: impl Into<Scalar>,
    dtype: DType,
) -> Expr {
    let (start, stop, step) = (start.into(), stop.into(), step.into());
    let count = || -> Result<i64> {
        ensure!(
            step.as_bool() && step.as_f64().is_finite(),
            Value,
            "arange: step {step}"
        );
        let exact = [start, stop, step]
            .iter()
            .all(|s| s.category() <= crate::Category::Int);
        let count = if exact {
            let (a, b, s) = (start.as_i128(), stop.as_i128(), step.as_i128());
            if (b - a).signum() == s.signum() {
                // Both have the same sign, so this rounds up.
                (b - a + s - s.signum()) / s
            } else {
                0
            }
        } else {
            let n = ((stop.as_f64() - start.as_f64()) / step.as_f64()).ceil();
            ensure!(
                n.is_finite(),
                Value,
                "arange: expected a finite range, got {start} to {stop} by {step}"
            );
            n.max(0.0) as i128
        };
        match i64::try_from(count) {
            Ok(n) if n < 1 << 60 => Ok(n),
            _ => bail!(
                Shape,
                "arange: {start} to {stop} by {step} has {count} elements"
            ),
        }
    };
    match count() {
        Ok(n) if dtype.is_int() => {
            iota([n], 0, dtype) * crate::expr::constant(step, dtype)
                + crate::expr::constant(start, dtype)
        }
        Ok(n) => {
            // Computed in f64, so that rounding errors do not accumulate in long ranges.
            let wide = iota([n], 0, DType::F64);
            (wide * step.as_f64() + start.as_f64()).then(|x| to_dtype(&x, dtype))
        }
        Err(e) => Err(e).into_expr(),
    }
}

/// `count` evenly spaced numbers from `start` to `stop`, including `stop` unless `endpoint` is false.
pub fn linspace(start: f64, stop: f64, count: usize, endpoint: bool, dtype: DType) -> Expr {
    let gaps = if endpoint {
        count.saturating_sub(1)
    } else {
        count
    }
    .max(1) as f64;
    let at = iota([count], 0, DType::F64);
    let line = &at * ((stop - start) / gaps) + start;
    // The endpoint is exact, whatever the rounding of the step.
    let exact = if endpoint && count > 1 {
        super::where_(super::equal(&at, gaps), stop, line)
    } else {
        line
    };
    exact.then(|x| to_dtype(&x, dtype))
}

/// Ones on the k-th diagonal, zeros elsewhere.
pub fn eye(rows: usize, columns: usize, k: i64, dtype: DType) -> Expr {
    let shape = Shape::from_sizes(&[rows, columns]);
    let (i, j) = (iota(&shape, 0, DType::I64), iota(&shape, 1, DType::I64));
    super::equal(i + k, j).then(|mask| to_dtype(&mask, dtype))
}

/// Converts a number without a backend to a tensor on the current backend; returns any other tensor unchanged.
pub fn materialize(x: &Tensor) -> Result<Tensor> {
    match x.repr() {
        Repr::Scalar { value, .. } => full((), *value, x.dtype()).done(),
        _ => Ok(x.clone()),
    }
}

/// Copies a tensor to another backend.
pub fn to_backend(x: &Tensor, backend: &'static dyn crate::Backend) -> Result<Tensor> {
    if x.backend().is_some_and(|b| backend::same(b, backend)) {
        return Ok(x.clone());
    }
    backend::with(backend, || from_host(x.to_host()?))
}

/// A size as an f64 for arithmetic; an error if it is symbolic.
pub(crate) fn dim_number(d: Dim, op: &str) -> Result<f64> {
    match d.value() {
        Some(v) => Ok(v as f64),
        None => bail!(Trace, "{op}: expected a known size, got {d}"),
    }
}
