//! The fast path of eager calls on framework arrays: one framework function, without conversion to tensors.
//!
//! Overhead dominates small calls, so no tensor and no spec is created here, and an array's dtype and shape are read in C
//! (`introspect`). Unusual arguments, and those that the framework refuses, give `None`: the general path then runs the op
//! or reports our own error. Any other framework exception is an error.

mod tensors;

use crate::array;
use crate::call::attempt;
use crate::dialect_fast_paths::{CallingConvention, FastPath};
use crate::error::{failed, own, unless_failed};
use crate::introspect::{Reader, Seen};
use crate::load::{Loaded, is_usual, is_wide_type};
use clematis_core::infer::infer;
use clematis_core::op::{Gives, Takes};
use clematis_core::{DType, Op, Result, Shape, Spec, Tensor};
use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyInt, PyTuple};
use smallvec::SmallVec;
use std::cell::Cell;

pub use crate::dialect_fast_paths::{MATMUL, NAMES};
pub use tensors::ReadyElementwise;

/// A borrowed argument.
pub type Argument<'a, 'py> = Borrowed<'a, 'py, PyAny>;
/// The names of the keyword arguments, which come last.
pub type Names<'a, 'py> = Option<&'a Bound<'py, PyTuple>>;

/// The maximum number of arguments.
const ROOM: usize = 4;

/// A prepared call of a framework's function.
///
/// The outermost caller runs it: a framework call is deep enough to evict the CPU's return predictions of the frames below,
/// each of which would then be mispredicted.
pub struct Ready<'a, 'py> {
    loaded: &'a Loaded,
    function: &'a Py<PyAny>,
    slots: [Argument<'a, 'py>; ROOM],
    count: usize,
}

impl<'a, 'py> Ready<'a, 'py> {
    #[inline(always)]
    fn new(
        loaded: &'a Loaded,
        function: &'a Py<PyAny>,
        given: &[Argument<'a, 'py>],
    ) -> Option<Self> {
        let mut slots = [*given.first()?; ROOM];
        slots.get_mut(..given.len())?.copy_from_slice(given);
        Some(Ready {
            loaded,
            function,
            slots,
            count: given.len(),
        })
    }

    #[inline(always)]
    fn run(&self) -> Result<Option<Bound<'py, PyAny>>> {
        let (py, given) = (self.slots[0].py(), &self.slots[..self.count]);
        match attempt(py, self.loaded, self.function, given)? {
            Some(out) => array_of(self.loaded, out).map(Some),
            None => Ok(None),
        }
    }
}

/// `linear` of a framework without that function: a matmul and an add.
pub struct Composed<'a, 'py> {
    product: Ready<'a, 'py>,
    sum: &'a Py<PyAny>,
    bias: Option<Argument<'a, 'py>>,
}

impl<'py> Composed<'_, 'py> {
    #[inline(always)]
    fn run(&self) -> Result<Option<Bound<'py, PyAny>>> {
        let Ready {
            loaded,
            function,
            slots: [x, weight, ..],
            ..
        } = self.product;
        let py = x.py();
        let transposed = weight
            .getattr(pyo3::intern!(py, "T"))
            .map_err(|e| failed(py, "linear", e))?;
        let Some(mut out) = attempt(py, loaded, function, &[x, transposed.as_borrowed()])? else {
            return Ok(None);
        };
        if let Some(bias) = self.bias {
            // Into the new array.
            let given = [out.as_borrowed(), bias, out.as_borrowed()];
            match attempt(py, loaded, self.sum, &given)? {
                Some(sum) => out = sum,
                None => return Ok(None),
            }
        }
        array_of(loaded, out).map(Some)
    }
}

/// A prepared call of one function or of two.
pub enum Prepared<'a, 'py> {
    /// One function.
    Ready(Ready<'a, 'py>),
    /// Two functions.
    Composed(Composed<'a, 'py>),
}

impl<'py> Prepared<'_, 'py> {
    /// Runs the call; `None` if the framework refused the arguments.
    #[inline(always)]
    pub fn run(self) -> Result<Option<Bound<'py, PyAny>>> {
        match self {
            Prepared::Ready(ready) => ready.run(),
            Prepared::Composed(composed) => composed.run(),
        }
    }
}

impl FastPath {
    fn prepare<'a, 'py: 'a>(
        &'a self,
        py: Python<'py>,
        loaded: &'a Loaded,
        arguments: &[Argument<'a, 'py>],
        names: Names<'_, 'py>,
        seen: impl Fn(usize) -> Option<Seen>,
    ) -> Option<Prepared<'a, 'py>> {
        let ready = |given: &[Argument<'a, 'py>]| {
            Ready::new(loaded, &self.function, given).map(Prepared::Ready)
        };
        let named = names.map_or(0, |names| names.len());
        let (given, values) = arguments.split_at(arguments.len().checked_sub(named)?);
        let first = || seen(0).filter(|x| is_usual(loaded, x.dtype));
        match self.convention {
            CallingConvention::Arrays(_) | CallingConvention::Matmul => {
                let count = match self.convention {
                    CallingConvention::Arrays(count) => count,
                    _ => 2,
                };
                if named != 0 || given.len() != count {
                    return None;
                }
                let dtype = first()?.dtype;
                for i in 1..count {
                    seen(i).filter(|x| x.dtype == dtype)?;
                }
                ready(given)
            }
            CallingConvention::Axes | CallingConvention::Sizes => {
                let [_, numbers] = given else { return None };
                let least = match self.convention {
                    CallingConvention::Sizes => -1,
                    _ => i64::MIN,
                };
                if named != 0 || !are_integers(numbers, least) {
                    return None;
                }
                first()?;
                ready(given)
            }
            CallingConvention::Axis => {
                let [x] = given else { return None };
                // torch treats a zero-dimensional array as one-dimensional.
                first().filter(|x| x.rank > 0)?;
                let axis = match values {
                    [] => None,
                    [axis] => Some(axis).filter(|_| is_named(names, 0, pyo3::intern!(py, "axis"))),
                    _ => None,
                };
                let axis = match axis {
                    Some(axis) if axis.is_exact_instance_of::<PyInt>() => *axis,
                    Some(axis) if !axis.is_none() => return None,
                    None if named > 0 => return None,
                    _ => defaults(py).last.bind_borrowed(py),
                };
                ready(&[*x, axis])
            }
            CallingConvention::Reduce => {
                let [x] = given else { return None };
                if named == 0 {
                    first()?;
                    return ready(&[*x]);
                }
                // torch takes no axes for all axes, and treats a zero-dimensional array as one-dimensional.
                first().filter(|x| x.rank > 0)?;
                let mut axis = defaults(py).none.bind_borrowed(py);
                let mut keep = defaults(py).no.bind_borrowed(py);
                for (i, value) in values.iter().enumerate() {
                    if is_named(names, i, pyo3::intern!(py, "axis")) {
                        let fits = value.is_exact_instance_of::<PyInt>()
                            || value.is_none()
                            || value.cast::<PyTuple>().is_ok_and(|t| !t.is_empty())
                                && are_integers(value, i64::MIN);
                        axis = fits.then_some(*value)?;
                    } else if is_named(names, i, pyo3::intern!(py, "keepdims")) {
                        keep = Some(*value).filter(|v| v.is_exact_instance_of::<PyBool>())?;
                    } else {
                        return None;
                    }
                }
                ready(&[*x, axis, keep])
            }
            CallingConvention::Linear => {
                let [x, weight] = given else { return None };
                let bias = match values {
                    [] => None,
                    [bias] if is_named(names, 0, pyo3::intern!(py, "bias")) => {
                        Some(*bias).filter(|bias| !bias.is_none())
                    }
                    _ => return None,
                };
                let dtype = first()?.dtype;
                let is = |x: &Seen, rank| x.dtype == dtype && x.rank == rank;
                let w = seen(1).filter(|w| is(w, 2))?;
                if bias.is_some() {
                    // The framework would broadcast it.
                    seen(2).filter(|b| is(b, 1) && b.first == w.first)?;
                }
                match (&self.then, bias) {
                    (None, Some(bias)) => ready(&[*x, *weight, bias]),
                    (None, None) => ready(given),
                    (Some(sum), bias) => {
                        let product = Ready::new(loaded, &self.function, &[*x, *weight])?;
                        Some(Prepared::Composed(Composed { product, sum, bias }))
                    }
                }
            }
        }
    }

    /// The spec of the result, where it equals an operand's spec.
    fn spec<'t>(&self, given: impl Fn(usize) -> Option<&'t Tensor>) -> Option<Spec> {
        let x = given(0)?.spec();
        let second = || Some(given(1)?.spec());
        match self.convention {
            CallingConvention::Arrays(1) | CallingConvention::Axis => Some(x.clone()),
            CallingConvention::Matmul => {
                let y = second()?;
                if x.rank() != 2 || y.rank() != 2 {
                    return None;
                }
                let shape = Shape::from_dims([x.shape.dims()[0], y.shape.dims()[1]]);
                Some(Spec::new(x.dtype, shape))
            }
            CallingConvention::Linear => {
                let last = x.rank().checked_sub(1)?;
                let out = *second()?.shape.dims().first()?;
                Some(Spec::new(x.dtype, x.shape.with(last, out)))
            }
            _ => None,
        }
    }
}

/// The default of an omitted argument.
struct Defaults {
    last: Py<PyAny>,
    none: Py<PyAny>,
    no: Py<PyAny>,
}

fn defaults(py: Python<'_>) -> &Defaults {
    static DEFAULTS: PyOnceLock<Defaults> = PyOnceLock::new();
    DEFAULTS.get_or_init(py, || Defaults {
        last: PyInt::new(py, -1).into_any().unbind(),
        none: py.None(),
        no: PyBool::new(py, false).to_owned().into_any().unbind(),
    })
}

/// Whether a keyword has this name. Compares by identity: Python interns keyword names.
#[inline]
fn is_named(names: Names<'_, '_>, i: usize, name: &Bound<'_, pyo3::types::PyString>) -> bool {
    names.is_some_and(|names| names.get_borrowed_item(i).is_ok_and(|own| own.is(name)))
}

/// Whether it is a tuple of Python integers, none below a limit.
fn are_integers(x: &Bound<'_, PyAny>, least: i64) -> bool {
    let Ok(numbers) = x.cast_exact::<PyTuple>() else {
        return false;
    };
    numbers.iter_borrowed().all(|n| {
        n.is_exact_instance_of::<PyInt>()
            && (least == i64::MIN || n.extract::<i64>().is_ok_and(|n| n >= least))
    })
}

/// The common dtype of operands that are arrays of one framework.
#[inline]
fn common(
    loaded: &Loaded,
    own: &array::Belongs,
    operands: &[Argument<'_, '_>],
) -> Result<Option<DType>> {
    if matches!(own.reader, Reader::None) {
        if own.asked && loaded.plain_array.is_some() {
            return Ok(None);
        }
        return attributes(loaded, operands);
    }
    Ok(read(loaded, own, operands))
}

#[inline]
fn read(loaded: &Loaded, own: &array::Belongs, operands: &[Argument<'_, '_>]) -> Option<DType> {
    let (first, rest) = operands.split_first()?;
    let class = first.get_type_ptr();
    let dtype = own.reader.dtype(&loaded.dtypes, first)?;
    for x in rest {
        let reader = if x.get_type_ptr() == class {
            own.reader
        } else {
            array::met(x)
                .filter(|other| std::ptr::eq(other.framework, own.framework))?
                .reader
        };
        if reader.dtype(&loaded.dtypes, x)? != dtype {
            return None;
        }
    }
    Some(dtype)
}

/// The same for arrays of one class without a reader.
fn attributes(loaded: &Loaded, operands: &[Argument<'_, '_>]) -> Result<Option<DType>> {
    let Some((first, rest)) = operands.split_first() else {
        return Ok(None);
    };
    let py = first.py();
    let word = pyo3::intern!(py, "dtype");
    let class = first.get_type_ptr();
    // May run Python, so Ctrl-C may arrive here.
    let ask = |x: &Argument<'_, '_>| {
        unless_failed(py, x.getattr(word).map(Bound::unbind)).map_err(|e| own(py, e))
    };
    let Some(dtype) = ask(first)? else {
        return Ok(None);
    };
    for x in rest {
        if x.get_type_ptr() != class || !ask(x)?.is_some_and(|d| d.is(&dtype)) {
            return Ok(None);
        }
    }
    // The most common dtype first.
    let known = |d: DType| {
        let own = loaded.dtypes[d as usize].as_ref();
        own.is_some_and(|own| own.is(&dtype))
    };
    if known(DType::F32) {
        return Ok(Some(DType::F32));
    }
    Ok(DType::ALL.into_iter().find(|&d| known(d)))
}

/// The function of an elementwise op for arrays of this dtype.
#[inline]
fn function<'a>(loaded: &'a Loaded, op: &Op, takes: Takes, dtype: DType) -> Option<&'a Py<PyAny>> {
    let slot = loaded.slots.get(op.code())?.as_ref()?;
    if !takes.includes(dtype) {
        return None;
    }
    match &slot.fast_path {
        Some(fast_path) if is_usual(loaded, dtype) => Some(fast_path),
        _ if loaded.in_64.is_some() && is_wide_type(dtype) => None,
        _ => Some(&slot.function),
    }
}

/// The spec of an elementwise op's result for operands of one dtype; `None` if the core would refuse them.
#[inline]
pub fn elementwise_spec(op: &Op, inputs: &[&Tensor]) -> Option<Spec> {
    let x = inputs.first()?.spec();
    let gives = match op {
        Op::Unary(u) => u.gives(),
        Op::Binary(b) => b.gives(),
        _ => Gives::Bool,
    };
    // Operands of one shape need no shape inference.
    if gives != Gives::Complex && inputs[1..].iter().all(|y| y.shape() == &x.shape) {
        return Some(x.with_dtype(gives.dtype(x.dtype)));
    }
    let specs: SmallVec<[&Spec; 2]> = inputs.iter().map(|x| x.spec()).collect();
    infer(op, &specs).ok()?.one()
}

/// Converts a zero-dimensional result to an array, if the framework returns something else.
#[inline]
fn array_of<'py>(loaded: &Loaded, out: Bound<'py, PyAny>) -> Result<Bound<'py, PyAny>> {
    match &loaded.scalar_to_array {
        Some(f) if out.get_type_ptr().cast() != loaded.array.as_ptr() => {
            let py = out.py();
            let made = f.bind(py).call1((out,));
            made.map_err(|e| failed(py, loaded.name, e))
        }
        _ => Ok(out),
    }
}

/// Runs an elementwise op on arrays of one framework and one dtype; `None` if the general path must run it.
#[inline]
pub fn elementwise<'py>(
    op: &Op,
    takes: Takes,
    operands: &[Argument<'_, 'py>],
) -> Result<Option<Bound<'py, PyAny>>> {
    let Some(first) = operands.first() else {
        return Ok(None);
    };
    let py = first.py();
    let Some(own) = array::owner(first)?.filter(|own| !own.framework.is_checked()) else {
        return Ok(None);
    };
    let loaded = own.framework.loaded(py)?;
    let Some(dtype) = common(loaded, &own, operands)? else {
        return Ok(None);
    };
    let Some(function) = function(loaded, op, takes, dtype) else {
        return Ok(None);
    };
    match attempt(py, loaded, function, operands)? {
        Some(out) => array_of(loaded, out).map(Some),
        None => Ok(None),
    }
}

/// Prepares the fast path of one of our functions; `None` if the general path must run it. Keyword arguments come last.
pub fn prepare<'a, 'py: 'a>(
    place: usize,
    arguments: &[Argument<'a, 'py>],
    names: Names<'_, 'py>,
) -> Result<Option<Prepared<'a, 'py>>> {
    let Some(first) = arguments.first() else {
        return Ok(None);
    };
    let py = first.py();
    let Some(own) = array::owner(first)?.filter(|own| !own.framework.is_checked()) else {
        return Ok(None);
    };
    let loaded = own.framework.loaded(py)?;
    let Some(fast_path) = loaded.fast_paths.get(place).and_then(Option::as_ref) else {
        return Ok(None);
    };
    let class = first.get_type_ptr();
    let raised = Cell::new(None);
    let prepared = fast_path.prepare(py, loaded, arguments, names, |i| {
        let x = arguments.get(i)?;
        let mut reader = own.reader;
        if x.get_type_ptr() != class {
            let same = |other: &&array::Belongs| std::ptr::eq(other.framework, own.framework);
            reader = array::met(x).filter(same)?.reader;
        }
        if !matches!(reader, Reader::None) {
            return reader.seen(&loaded.dtypes, x);
        }
        // The rank is unknown here: every framework without a reader refuses an axis out of range,
        // but does not refuse a wrong number of axes.
        let dtype = match common(loaded, &own, &arguments[i..=i]) {
            Ok(dtype) => dtype?,
            Err(e) => {
                raised.set(Some(e));
                return None;
            }
        };
        let (rank, first) = (usize::MAX, 0);
        (x.get_type_ptr() == class).then_some(Seen { dtype, rank, first })
    });
    match raised.into_inner() {
        Some(e) => Err(e),
        None => Ok(prepared),
    }
}
