//! The tensor: a spec and where its values live.

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

/// An array with an element type, cheap to clone.
#[derive(Clone)]
pub struct Tensor(Arc<Inner>);

struct Inner {
    spec: Spec,
    repr: Repr,
}

/// A backend's own value: the engine's buffer, a framework's array.
///
/// Two words lie in the tensor itself, since a block of memory for them takes as long as a small op; more lie elsewhere.
pub struct Data(SmallBox<dyn Any + Send + Sync, [usize; 2]>);

impl Data {
    /// A value of any type.
    #[inline]
    pub fn new<T: Any + Send + Sync>(value: T) -> Self {
        Data(smallbox!(value))
    }
}

/// Where a tensor's values live.
pub enum Repr {
    /// A number with no home: it adopts its neighbours' backend and stays a literal in graphs.
    Scalar {
        /// The number.
        value: Scalar,
        /// Whether it takes its neighbours' dtype too, as a plain Rust or Python number does.
        weak: bool,
    },
    /// In a backend's memory.
    Concrete {
        /// Whose.
        backend: &'static dyn Backend,
        /// What.
        data: Data,
    },
    /// In a trace, with its value one level below if that is at hand.
    Traced {
        /// Whose.
        trace: Arc<Trace>,
        /// Which of its values.
        id: ValueId,
        /// The value below.
        value: Option<Tensor>,
    },
}

impl Tensor {
    /// A spec and where its values live.
    #[inline]
    pub fn new(spec: Spec, repr: Repr) -> Self {
        Tensor(Arc::new(Inner { spec, repr }))
    }

    /// A plain number, which takes dtype and backend of whatever it meets.
    pub fn number(value: impl Into<Scalar>) -> Self {
        let value = value.into();
        Tensor::new(
            Spec::scalar(value.default_dtype()),
            Repr::Scalar { value, weak: true },
        )
    }

    /// A number of a given element type, with no home yet.
    pub fn scalar(value: impl Into<Scalar>, dtype: DType) -> Self {
        Tensor::new(
            Spec::scalar(dtype),
            Repr::Scalar {
                value: value.into().cast(dtype),
                weak: false,
            },
        )
    }

    /// A backend's value.
    #[inline]
    pub fn concrete(spec: Spec, backend: &'static dyn Backend, data: Data) -> Self {
        Tensor::new(spec, Repr::Concrete { backend, data })
    }

    /// Element type and shape.
    #[inline]
    pub fn spec(&self) -> &Spec {
        &self.0.spec
    }

    /// The sizes.
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.0.spec.shape
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.0.spec.dtype
    }

    /// How many axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.0.spec.shape.rank()
    }

    /// Where its values live.
    #[inline]
    pub fn repr(&self) -> &Repr {
        &self.0.repr
    }

    /// The number, if it is one without a home.
    pub fn as_number(&self) -> Option<Scalar> {
        match self.repr() {
            Repr::Scalar { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// Whether it takes its neighbours' dtype.
    #[inline]
    pub fn is_weak(&self) -> bool {
        matches!(self.repr(), Repr::Scalar { weak: true, .. })
    }

    /// The backend's own value, if it is of this type.
    #[inline]
    pub fn data<T: 'static>(&self) -> Option<&T> {
        match self.repr() {
            Repr::Concrete { data, .. } => data.0.downcast_ref(),
            _ => None,
        }
    }

    /// The same to write to, if nobody else holds the tensor.
    pub fn data_mut<T: 'static>(&mut self) -> Option<&mut T> {
        match &mut Arc::get_mut(&mut self.0)?.repr {
            Repr::Concrete { data, .. } => data.0.downcast_mut(),
            _ => None,
        }
    }

    /// The backend, if its values are at home in one.
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

    /// The same tensor below every trace that has its value, or itself.
    pub fn lowest(&self) -> &Tensor {
        match self.repr() {
            Repr::Traced {
                value: Some(value), ..
            } => value.lowest(),
            _ => self,
        }
    }

    /// The values, copied out; an error where a trace has none yet.
    pub fn to_host(&self) -> Result<Host> {
        match self.lowest().repr() {
            Repr::Scalar { value, .. } => Host::scalar(*value, self.dtype()),
            Repr::Concrete { backend, .. } => backend.to_host(self.lowest()),
            Repr::Traced { trace, .. } if trace.is_closed() => {
                bail!(
                    Trace,
                    "value: {} outlived {}; return it from there instead",
                    self.spec(),
                    trace.name()
                )
            }
            Repr::Traced { .. } => {
                bail!(
                    Trace,
                    "value: {} has no value while it is traced; use where, cond or while",
                    self.spec()
                )
            }
        }
    }

    /// The values in row-major order; an error where they are of another type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.to_host()?.to_vec()
    }

    /// The only value; an error where there is another number of them.
    pub fn item(&self) -> Result<Scalar> {
        crate::ensure!(
            self.shape().count_dim() == 1usize,
            Shape,
            "item: {} has more or fewer than one element",
            self.spec()
        );
        // A number keeps all its digits, whatever dtype it would have beside nothing.
        match self.lowest().repr() {
            Repr::Scalar { value, weak: true } => Ok(*value),
            _ => self.to_host()?.get(0),
        }
    }

    /// Whether both are the very same tensor.
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
