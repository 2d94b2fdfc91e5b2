//! Python operands: tensors, numbers, framework arrays, pytrees of numbers.
//!
//! Defines the kind of the result: tensors in, tensors out; framework arrays in, arrays of the same framework out.

pub mod nested_sequence;
mod tree;

pub use tree::{is_pytree, items, pytree_error_class};

use crate::backend::detached;
use crate::error::{OrRaise, exception};
use crate::panics::Running;
use crate::tensor::{PyTensor, object};
use clematis_bridge::array;
use clematis_core::dispatch::apply_one;
use clematis_core::expr::Expr;
use clematis_core::op::Takes;
use clematis_core::{Backend, Kind, Op, Repr, Result, Scalar, Tensor, backend};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyList, PyTuple, PyType};
use smallvec::SmallVec;
use tree::pytree_error;

/// Kernels on more elements than this release the GIL.
pub const LARGE: usize = 1 << 15;

/// One operand.
pub struct Operand {
    /// As a tensor.
    pub tensor: Tensor,
    /// Whether it was a framework's own array.
    pub raw: bool,
}

/// A Python number; `None` for anything else.
pub fn number(x: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    if let Ok(v) = x.cast_exact::<PyFloat>() {
        return Ok(Some(v.value().into()));
    }
    if let Ok(v) = x.cast_exact::<PyBool>() {
        return Ok(Some(v.is_true().into()));
    }
    if x.cast_exact::<PyInt>().is_ok() {
        return integer(x).map(Some);
    }
    if let Ok(v) = x.cast_exact::<PyComplex>() {
        return Ok(Some(Scalar::Complex(v.real().into(), v.imag().into())));
    }
    // Subclasses, such as members of an IntEnum; `numpy.float64` is a subclass of float and an array.
    if array::framework_of(x).or_raise()?.is_none() {
        if x.cast::<PyFloat>().is_ok() {
            return Ok(Some(x.extract::<f64>()?.into()));
        }
        if x.cast::<PyInt>().is_ok() {
            return integer(x).map(Some);
        }
    }
    Ok(None)
}

fn integer(x: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    if let Ok(v) = x.extract::<i64>() {
        return Ok(v.into());
    }
    match x.extract::<u64>() {
        Ok(v) => Ok(v.into()),
        Err(_) => Err(exception(
            Kind::Value,
            format!("{x} does not fit an integer of 64 bits"),
        )),
    }
}

/// Converts an operand; `None` if the object cannot be one.
pub fn try_operand(x: &Bound<'_, PyAny>) -> PyResult<Option<Operand>> {
    if let Ok(t) = x.cast::<PyTensor>() {
        return Ok(Some(Operand {
            tensor: PyTensor::of(t),
            raw: false,
        }));
    }
    if let Some(v) = number(x)? {
        return Ok(Some(Operand {
            tensor: Tensor::number(v),
            raw: false,
        }));
    }
    let found = array::tensor(x).or_raise()?;
    Ok(found.map(|tensor| Operand { tensor, raw: true }))
}

/// The class of NumPy scalars.
static GENERIC: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// A NumPy scalar as a number without a backend; `None` for anything else.
///
/// `np.float64` and `np.complex128` are subclasses of Python's float and complex, so they do not promote other operands
/// either.
pub fn numpy_number(x: &Bound<'_, PyAny>, found: &Operand) -> PyResult<Option<Tensor>> {
    let is_numpy = || found.tensor.backend().is_some_and(|b| b.name() == "numpy");
    if !found.raw || found.tensor.rank() != 0 || !is_numpy() {
        return Ok(None);
    }
    let class = GENERIC.import(x.py(), "numpy", "generic")?;
    if !x.is_instance(class)? {
        return Ok(None);
    }
    let weak = x.is_instance_of::<PyFloat>() || x.is_instance_of::<PyComplex>();
    let value = found.tensor.item().or_raise()?;
    let spec = found.tensor.spec().clone();
    Ok(Some(Tensor::new(spec, Repr::Scalar { value, weak })))
}

/// Converts an operand; nested lists of numbers become arrays.
pub fn operand(op: &str, x: &Bound<'_, PyAny>) -> PyResult<Operand> {
    if let Some(found) = try_operand(x)? {
        return Ok(found);
    }
    if is_pytree(x)? {
        return Err(pytree_error(op, x));
    }
    if x.cast::<PyList>().is_ok() || x.cast::<PyTuple>().is_ok() {
        return Ok(Operand {
            tensor: nested_sequence::array(x, None)?,
            raw: false,
        });
    }
    let class = x.get_type();
    let class = class.name()?;
    Err(exception(
        Kind::DType,
        format!("{op}: an array was expected, not {class}"),
    ))
}

/// An elementwise op with its properties.
pub struct Elementwise {
    /// The op.
    pub op: Op,
    /// The dtypes for which the function is exactly the op, without promotion.
    pub takes: Takes,
    /// The number of operands.
    pub count: usize,
}

/// Fast path of an elementwise op on tensors of one dtype, which need no conversion.
///
/// Returns `None` for other operands, which take the general path. Small calls spend their time around the op, so this
/// path allocates nothing that is not needed.
#[inline(always)]
pub fn direct<'py>(
    op: &Op,
    takes: Takes,
    operands: &[&Bound<'py, PyAny>],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(first) = operands.first() else {
        return Ok(None);
    };
    if let Some(ready) = object::prepare(op, takes, operands) {
        // If the framework raises, the general path reports the error in our wording.
        return match ready.run().or_raise()? {
            Some(out) => Ok(Some(PyTensor::bound(first.py(), out)?.into_any())),
            None => Ok(None),
        };
    }
    let out = match object::elementwise(op, takes, operands, LARGE) {
        Some(out) => out,
        None => match traced(op, takes, operands)? {
            Some(out) => out,
            None => return Ok(None),
        },
    };
    let out = PyTensor::bound(first.py(), out.or_raise()?)?;
    Ok(Some(out.into_any()))
}

/// The same for tensors whose owners must be held, because Python may run meanwhile.
fn traced(
    op: &Op,
    takes: Takes,
    operands: &[&Bound<'_, PyAny>],
) -> PyResult<Option<Result<Tensor>>> {
    let mut held: SmallVec<[Tensor; 2]> = SmallVec::new();
    for x in operands {
        let Ok(x) = x.cast::<PyTensor>() else {
            return Ok(None);
        };
        let x = PyTensor::of(x);
        if !is_direct(&x, takes) || held.first().is_some_and(|y| y.dtype() != x.dtype()) {
            return Ok(None);
        }
        held.push(x);
    }
    let inputs: SmallVec<[&Tensor; 2]> = held.iter().collect();
    Ok(Some(apply_one(op, &inputs)))
}

/// Whether the operands need no conversion and are small.
fn is_direct(x: &Tensor, takes: Takes) -> bool {
    takes.includes(x.dtype())
        && !matches!(x.repr(), Repr::Scalar { .. })
        && !x.shape().is_symbolic()
        && x.shape().count() <= LARGE
}

/// The operands of one call: their backend and the kind of the result.
pub struct Call<'py> {
    py: Python<'py>,
    op: &'static str,
    _running: Running,
    raw: bool,
    backend: Option<&'static dyn Backend>,
    /// The backend if all operands are NumPy scalars, which otherwise follow the other operands.
    alone: Option<&'static dyn Backend>,
    /// The backend of an operand that was only inspected.
    beside: Option<&'static dyn Backend>,
    size: usize,
}

impl<'py> Call<'py> {
    /// A call without operands.
    pub fn new(py: Python<'py>, op: &'static str) -> Self {
        Call {
            py,
            op,
            _running: Running(op),
            raw: false,
            backend: None,
            alone: None,
            beside: None,
            size: 0,
        }
    }

    /// Takes an operand.
    pub fn take(&mut self, x: &Bound<'py, PyAny>) -> PyResult<Tensor> {
        let found = match self.backend.or(self.beside) {
            // A list becomes an array on the backend of the other operands.
            Some(backend) if x.is_instance_of::<PyList>() || x.is_instance_of::<PyTuple>() => {
                backend::with(backend, || operand(self.op, x))?
            }
            _ => operand(self.op, x)?,
        };
        if found.raw
            && let Some(number) = numpy_number(x, &found)?
        {
            self.alone = found.tensor.backend();
            return Ok(number);
        }
        self.note(&found.tensor, found.raw);
        Ok(found.tensor)
    }

    /// Inspects an operand that is taken later, in case a list comes before it.
    pub fn look(&mut self, x: &Bound<'py, PyAny>) -> PyResult<()> {
        let backend = match x.cast::<PyTensor>() {
            Ok(x) => PyTensor::of(x).backend(),
            Err(_) => array::framework_of(x)
                .or_raise()?
                .and_then(|f| f.as_backend()),
        };
        self.beside = self.beside.or(backend);
        Ok(())
    }

    /// Takes an optional operand.
    pub fn maybe(&mut self, x: Option<&Bound<'py, PyAny>>) -> PyResult<Option<Tensor>> {
        x.map(|x| self.take(x)).transpose()
    }

    /// Takes every operand of a sequence.
    pub fn take_all(&mut self, xs: &Bound<'py, PyAny>) -> PyResult<Vec<Tensor>> {
        xs.try_iter()?.map(|x| self.take(&x?)).collect()
    }

    fn note(&mut self, x: &Tensor, raw: bool) {
        self.raw |= raw;
        if self.backend.is_none() {
            self.backend = x.backend();
        }
        if !x.shape().is_symbolic() {
            self.size = self.size.max(x.shape().count());
        }
    }

    /// Computes on the backend of the operands.
    pub fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        let backend = self.backend();
        let inside = || match backend {
            Some(backend) => backend::with(backend, f),
            None => f(),
        };
        if self.size > LARGE && backend.is_none_or(|h| h.name() == "native") {
            detached(self.py, inside)
        } else {
            inside()
        }
    }

    /// The same without releasing the GIL, for computations that read Python objects.
    pub fn run_attached<R>(&self, f: impl FnOnce() -> R) -> R {
        match self.backend() {
            Some(backend) => backend::with(backend, f),
            None => f(),
        }
    }

    /// Computes one tensor.
    pub fn one(self, f: impl FnOnce() -> Expr + Send) -> PyResult<Bound<'py, PyAny>> {
        let out = self.run(|| f().done()).or_raise()?;
        self.give(out)
    }

    /// Computes several tensors, returned as a tuple.
    pub fn many(
        self,
        f: impl FnOnce() -> Result<Vec<Tensor>> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        let outs = self.run(f).or_raise()?;
        let outs = outs
            .into_iter()
            .map(|t| self.give(t))
            .collect::<PyResult<Vec<_>>>()?;
        Ok(PyTuple::new(self.py, outs)?.into_any())
    }

    /// Returns a result, of the kind of the operands.
    pub fn give(&self, out: Tensor) -> PyResult<Bound<'py, PyAny>> {
        if self.backend.is_none()
            && let Some(alone) = self.alone
        {
            let out = backend::with(alone, || clematis_core::ops::materialize(&out)).or_raise()?;
            return give(self.py, out, true);
        }
        give(self.py, out, self.raw)
    }

    /// The backend of the operands.
    pub fn backend(&self) -> Option<&'static dyn Backend> {
        self.backend.or(self.alone)
    }
}

/// A tensor as a Python object: the framework's own array if `raw`.
pub fn give(py: Python<'_>, out: Tensor, raw: bool) -> PyResult<Bound<'_, PyAny>> {
    if raw
        && matches!(out.repr(), Repr::Concrete { .. })
        && let Some(x) = array::of(&out)
    {
        return Ok(x.bind(py).clone());
    }
    // A number without a backend was computed by none; it is placed on the current backend now.
    let out = match out.repr() {
        Repr::Scalar { .. } => clematis_core::ops::materialize(&out).or_raise()?,
        _ => out,
    };
    Ok(PyTensor::bound(py, out)?.into_any())
}
