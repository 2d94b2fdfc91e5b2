//! `Spec`: the dtype and shape of a tensor.

use crate::dtype::DType;
use crate::error::Result;
use crate::shape::{IntoShape, Shape};
use std::fmt;

/// Dtype and shape.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Spec {
    /// The dtype.
    pub dtype: DType,
    /// The sizes.
    pub shape: Shape,
}

impl Spec {
    /// Combines a dtype and a shape.
    #[inline]
    pub fn new(dtype: DType, shape: Shape) -> Self {
        Spec { dtype, shape }
    }

    /// Combines a dtype and anything that converts to a shape.
    pub fn of(dtype: DType, shape: impl IntoShape) -> Result<Self> {
        Ok(Spec {
            dtype,
            shape: shape.into_shape()?,
        })
    }

    /// The spec of a single element.
    pub fn scalar(dtype: DType) -> Self {
        Spec {
            dtype,
            shape: Shape::scalar(),
        }
    }

    /// Size in bytes; the shape must be known.
    pub fn bytes(&self) -> usize {
        self.shape.count() * self.dtype.size()
    }

    /// Number of axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// The same shape with another dtype.
    #[must_use]
    #[inline]
    pub fn with_dtype(&self, dtype: DType) -> Spec {
        Spec {
            dtype,
            shape: self.shape.clone(),
        }
    }

    /// The same dtype with another shape.
    #[must_use]
    pub fn with_shape(&self, shape: Shape) -> Spec {
        Spec {
            dtype: self.dtype,
            shape,
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
