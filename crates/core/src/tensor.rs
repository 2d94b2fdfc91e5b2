//! `Tensor`: a spec and its values: a number, a backend's data or a traced value.

use crate::backend::Backend;
use crate::bail;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::graph::ValueId;
use crate::host::{Element, Host};
use crate::shape::Shape;
use crate::spec::Spec;
use crate::trace::Trace;
use smallbox::{SmallBox, smallbox};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A tensor, cheap to clone.
#[derive(Clone)]
pub struct Tensor(Arc<Inner>);

struct Inner {
    spec: Spec,
    repr: Repr,
}

/// A backend's own value: the engine's buffer, a framework's array.
///
/// Two words are stored inline, since allocating memory for them takes as long as a small op; larger values are
/// boxed.
pub struct Data(SmallBox<dyn Any + Send + Sync, [usize; 2]>);

impl Data {
    /// Wraps a value of any type.
    #[inline]
    pub fn new<T: Any + Send + Sync>(value: T) -> Self {
        Data(smallbox!(value))
    }
}

/// The representation of a tensor's values.
pub enum Repr {
    /// A number without a backend: it adopts its neighbours' backend and stays a literal in graphs.
    Scalar {
        /// The number.
        value: Scalar,
        /// Whether it is weakly typed: it adopts its neighbours' dtype, as a plain Rust or Python number does.
        weak: bool,
    },
    /// Data of a backend.
    Concrete {
        /// The backend.
        backend: &'static dyn Backend,
        /// The data.
        data: Data,
    },
    /// A tracer, with its value one level below if the trace has values.
    Traced {
        /// The trace.
        trace: Arc<Trace>,
        /// The value's id in the trace.
        id: ValueId,
        /// The value one level below.
        value: Option<Tensor>,
    },
}

impl Tensor {
    /// Combines a spec and a representation.
    #[inline]
    pub fn new(spec: Spec, repr: Repr) -> Self {
        Tensor(Arc::new(Inner { spec, repr }))
    }

    /// A plain number, which adopts the dtype and backend of its neighbours.
    pub fn number(value: impl Into<Scalar>) -> Self {
        let value = value.into();
        Tensor::new(
            Spec::scalar(value.default_dtype()),
            Repr::Scalar { value, weak: true },
        )
    }

    /// A number of a given dtype, without a backend.
    pub fn scalar(value: impl Into<Scalar>, dtype: DType) -> Self {
        Tensor::new(
            Spec::scalar(dtype),
            Repr::Scalar {
                value: value.into().cast(dtype),
                weak: false,
            },
        )
    }

    /// A tensor with data of a backend.
    #[inline]
    pub fn concrete(spec: Spec, backend: &'static dyn Backend, data: Data) -> Self {
        Tensor::new(spec, Repr::Concrete { backend, data })
    }

    /// Dtype and shape.
    #[inline]
    pub fn spec(&self) -> &Spec {
        &self.0.spec
    }

    /// The sizes.
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.0.spec.shape
    }

    /// The dtype.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.0.spec.dtype
    }

    /// Number of axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.0.spec.shape.rank()
    }

    /// The representation of its values.
    #[inline]
    pub fn repr(&self) -> &Repr {
        &self.0.repr
    }

    /// The number, if it is one without a backend.
    pub fn as_number(&self) -> Option<Scalar> {
        match self.repr() {
            Repr::Scalar { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// Whether it is a weakly typed number.
    #[inline]
    pub fn is_weak(&self) -> bool {
        matches!(self.repr(), Repr::Scalar { weak: true, .. })
    }

    /// The backend's data, if it is of type `T`.
    #[inline]
    pub fn data<T: 'static>(&self) -> Option<&T> {
        match self.repr() {
            Repr::Concrete { data, .. } => data.0.downcast_ref(),
            _ => None,
        }
    }

    /// The same for writing, if the tensor has no other owner.
    pub fn data_mut<T: 'static>(&mut self) -> Option<&mut T> {
        match &mut Arc::get_mut(&mut self.0)?.repr {
            Repr::Concrete { data, .. } => data.0.downcast_mut(),
            _ => None,
        }
    }

    /// The backend, if it has data of one.
    #[inline]
    pub fn backend(&self) -> Option<&'static dyn Backend> {
        match self.repr() {
            Repr::Concrete { backend, .. } => Some(*backend),
            Repr::Traced {
                value: Some(value), ..
            } => value.backend(),
            _ => None,
        }
    }

    /// The concrete tensor below all traces with values; itself if there is none.
    pub fn lowest(&self) -> &Tensor {
        match self.repr() {
            Repr::Traced {
                value: Some(value), ..
            } => value.lowest(),
            _ => self,
        }
    }

    /// Copies the values to the host; an error for a tracer without a value.
    pub fn to_host(&self) -> Result<Host> {
        match self.lowest().repr() {
            Repr::Scalar { value, .. } => Host::scalar(*value, self.dtype()),
            Repr::Concrete { backend, .. } => backend.to_host(self.lowest()),
            Repr::Traced { trace, .. } if trace.is_closed() => {
                bail!(
                    Trace,
                    "value: leaked tracer: {} outlived {}; return it from there instead",
                    self.spec(),
                    trace.name()
                )
            }
            Repr::Traced { .. } => {
                bail!(
                    Trace,
                    "value: {} is a tracer without a concrete value; use where, cond or while",
                    self.spec()
                )
            }
        }
    }

    /// Copies the values in row-major order; an error if they have another dtype.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.to_host()?.to_vec()
    }

    /// The only value; an error if there is not exactly one.
    pub fn item(&self) -> Result<Scalar> {
        crate::ensure!(
            self.shape().count_dim() == 1usize,
            Shape,
            "item: expected one element, got {}",
            self.spec()
        );
        // A number keeps all its digits, whatever its default dtype.
        match self.lowest().repr() {
            Repr::Scalar { value, weak: true } => Ok(*value),
            _ => self.to_host()?.get(0),
        }
    }

    /// Whether both are the same tensor (by identity).
    pub fn same(&self, other: &Tensor) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.repr() {
            Repr::Scalar { value, .. } => write!(f, "{value}:{}", self.dtype()),
            Repr::Concrete { backend, .. } => write!(f, "{}@{}", self.spec(), backend.name()),
            Repr::Traced { id, .. } => write!(f, "{}@trace %{}", self.spec(), id.0),
        }
    }
}
