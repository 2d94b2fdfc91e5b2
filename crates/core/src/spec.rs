//! What is known of a tensor without its values.

use crate::dtype::DType;
use crate::error::Result;
use crate::shape::{IntoShape, Shape};
use std::fmt;

/// Element type and shape.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Spec {
    /// The type of the elements.
    pub dtype: DType,
    /// The sizes.
    pub shape: Shape,
}

impl Spec {
    /// Element type and shape together.
    #[inline]
    pub fn new(dtype: DType, shape: Shape) -> Self {
        Spec { dtype, shape }
    }

    /// The same from anything that can be a shape.
    pub fn of(dtype: DType, shape: impl IntoShape) -> Result<Self> {
        Ok(Spec {
            dtype,
            shape: shape.into_shape()?,
        })
    }

    /// A single element.
    pub fn scalar(dtype: DType) -> Self {
        Spec {
            dtype,
            shape: Shape::scalar(),
        }
    }

    /// Bytes of all elements of a shape of numbers.
    pub fn bytes(&self) -> usize {
        self.shape.count() * self.dtype.size()
    }

    /// How many axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// The same shape with another element type.
    #[must_use]
    #[inline]
    pub fn with_dtype(&self, dtype: DType) -> Spec {
        Spec {
            dtype,
            shape: self.shape.clone(),
        }
    }

    /// The same element type with another shape.
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
