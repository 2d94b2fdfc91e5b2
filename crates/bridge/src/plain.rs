//! Calls on operands that need no conversion: arrays in, one function of the framework, an array out.
//!
//! Small calls spend their time around the op, so no tensor and no spec is made here, and what must be known of an array is
//! read in C (`peek`). Whatever is unusual, and whatever the framework refuses, gives `None`: then the ordinary way does it,
//! or says in our words why not. What a framework raises that is no refusal is an error.

mod tensors;

use crate::array;
use crate::call::attempt;
use crate::error::{failed, own, unless_failed};
use crate::framework::is_wide_type;
use crate::load::Loaded;
use crate::peek::{Reader, Seen};
use clematis_core::infer::infer;
use clematis_core::op::{Gives, Takes};
use clematis_core::{DType, Op, Result, Shape, Spec, Tensor};
use pyo3::Borrowed;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyInt, PyTuple};
use smallvec::SmallVec;
use std::cell::Cell;

pub use tensors::ReadyElementwise;

/// Functions of ours that frameworks may have as they are.
pub const NAMES: [&str; 16] = [
    "matmul",
    "sum",
    "mean",
    "max",
    "min",
    "reshape",
    "permute_dims",
    "softmax",
    "log_softmax",
    "linear",
    "relu",
    "sigmoid",
    "silu",
    "gelu",
    "layer_norm",
    "vecdot",
];

/// The place of `matmul` among them.
pub const MATMUL: usize = 0;

/// An argument, as its owner keeps it.
pub type Argument<'a, 'py> = Borrowed<'a, 'py, PyAny>;
/// The names of the last arguments.
pub type Names<'a, 'py> = Option<&'a Bound<'py, PyTuple>>;

/// No function here takes more arguments.
const ROOM: usize = 4;

/// A call of a framework's function that is ready to be made.
///
/// Whoever has the shortest way back to Python makes it: after a call as deep as a framework's a processor has forgotten where
/// the frames below it return to, and pays for each.
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

/// `linear` of a framework that has no such function: a product and a sum.
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
        let turned = weight
            .getattr(pyo3::intern!(py, "T"))
            .map_err(|e| failed(py, "linear", e))?;
        let Some(mut out) = attempt(py, loaded, function, &[x, turned.as_borrowed()])? else {
            return Ok(None);
        };
        if let Some(bias) = self.bias {
            // Into what was just made.
            let given = [out.as_borrowed(), bias, out.as_borrowed()];
            match attempt(py, loaded, self.sum, &given)? {
                Some(sum) => out = sum,
                None => return Ok(None),
            }
        }
        array_of(loaded, out).map(Some)
    }
}

/// A call that is ready, of one function or of two.
pub enum Prepared<'a, 'py> {
    /// Of one function.
    Ready(Ready<'a, 'py>),
    /// Of two.
    Composed(Composed<'a, 'py>),
}

impl<'py> Prepared<'_, 'py> {
    /// What comes out; `None` where the framework refused the arguments.
    #[inline(always)]
    pub fn run(self) -> Result<Option<Bound<'py, PyAny>>> {
        match self {
            Prepared::Ready(ready) => ready.run(),
            Prepared::Composed(composed) => composed.run(),
        }
    }
}

/// A framework's own function that does the same as one of ours on the usual floats.
pub struct Plain {
    /// What is called.
    pub function: Py<PyAny>,
    /// What is called on its result, where one function is not enough.
    then: Option<Py<PyAny>>,
    way: Way,
}

/// How our arguments become the framework's.
enum Way {
    /// So many arrays, and nothing else.
    Arrays(usize),
    /// An array and a tuple of integers.
    Axes,
    /// An array and a tuple of sizes, one of which may be -1.
    Sizes,
    /// An array and `axis`, the last one if it is left out.
    Axis,
    /// An array, `axis` and `keepdims`.
    Reduce,
    /// Two arrays that are multiplied as matrices.
    Matmul,
    /// Two arrays and `bias`, all of the shapes that `linear` has for one matrix.
    Linear,
}

impl Plain {
    /// An entry of a dialect's table: the function and how it is called.
    pub(crate) fn read(name: &str, entry: &Bound<'_, PyAny>) -> PyResult<Plain> {
        let entry = entry.cast::<PyTuple>()?;
        let way = entry.get_item(1)?;
        let way = match way.extract::<usize>() {
            Ok(count) => Way::Arrays(count),
            Err(_) => match way.extract::<String>()?.as_str() {
                "matmul" => Way::Matmul,
                "axes" => Way::Axes,
                "sizes" => Way::Sizes,
                "axis" => Way::Axis,
                "reduce" => Way::Reduce,
                "linear" => Way::Linear,
                other => {
                    let text = format!("PLAIN: {name}: no way is called {other}");
                    return Err(PyValueError::new_err(text));
                }
            },
        };
        Ok(Plain {
            function: entry.get_item(0)?.unbind(),
            then: entry.get_item(2).ok().map(Bound::unbind),
            way,
        })
    }

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
        match self.way {
            Way::Arrays(_) | Way::Matmul => {
                let count = match self.way {
                    Way::Arrays(count) => count,
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
            Way::Axes | Way::Sizes => {
                let [_, numbers] = given else { return None };
                let least = match self.way {
                    Way::Sizes => -1,
                    _ => i64::MIN,
                };
                if named != 0 || !are_integers(numbers, least) {
                    return None;
                }
                first()?;
                ready(given)
            }
            Way::Axis => {
                let [x] = given else { return None };
                // To torch an array without axes has one.
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
            Way::Reduce => {
                let [x] = given else { return None };
                if named == 0 {
                    first()?;
                    return ready(&[*x]);
                }
                // To torch no axes are all axes, and an array without axes has one.
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
            Way::Linear => {
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
                    // To the framework it would broadcast.
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

    /// What comes out of a call on tensors like these, where that takes no rule.
    fn spec<'t>(&self, given: impl Fn(usize) -> Option<&'t Tensor>) -> Option<Spec> {
        let x = given(0)?.spec();
        let second = || Some(given(1)?.spec());
        match self.way {
            Way::Arrays(1) | Way::Axis => Some(x.clone()),
            Way::Matmul => {
                let y = second()?;
                if x.rank() != 2 || y.rank() != 2 {
                    return None;
                }
                let shape = Shape::from_dims([x.shape.dims()[0], y.shape.dims()[1]]);
                Some(Spec::new(x.dtype, shape))
            }
            Way::Linear => {
                let last = x.rank().checked_sub(1)?;
                let out = *second()?.shape.dims().first()?;
                Some(Spec::new(x.dtype, x.shape.with(last, out)))
            }
            _ => None,
        }
    }
}

/// What is given where a user gave nothing.
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

/// Whether an argument goes by this name. Names that a program spells out are one object each, as this one is.
#[inline]
fn is_named(names: Names<'_, '_>, i: usize, name: &Bound<'_, pyo3::types::PyString>) -> bool {
    names.is_some_and(|names| names.get_borrowed_item(i).is_ok_and(|own| own.is(name)))
}

/// Whether it is a tuple of Python's own integers, none less than that.
fn are_integers(x: &Bound<'_, PyAny>, least: i64) -> bool {
    let Ok(numbers) = x.cast_exact::<PyTuple>() else {
        return false;
    };
    numbers.iter_borrowed().all(|n| {
        n.is_exact_instance_of::<PyInt>()
            && (least == i64::MIN || n.extract::<i64>().is_ok_and(|n| n >= least))
    })
}

/// Whether a framework's own functions mean what ours do: the floats that all of them compute alike.
#[inline]
pub(crate) fn is_usual(loaded: &Loaded, dtype: DType) -> bool {
    dtype == DType::F32 || dtype == DType::F64 && loaded.in_64.is_none()
}

/// The element type that all operands have, arrays of one framework.
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

/// The same for arrays that are not read in C: all of one class.
fn attributes(loaded: &Loaded, operands: &[Argument<'_, '_>]) -> Result<Option<DType>> {
    let Some((first, rest)) = operands.split_first() else {
        return Ok(None);
    };
    let py = first.py();
    let word = pyo3::intern!(py, "dtype");
    let class = first.get_type_ptr();
    // A line of Python for some frameworks, which Ctrl-C may end.
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
    // The one that most arrays have, first.
    let known = |d: DType| {
        let own = loaded.dtypes[d as usize].as_ref();
        own.is_some_and(|own| own.is(&dtype))
    };
    if known(DType::F32) {
        return Ok(Some(DType::F32));
    }
    Ok(DType::ALL.into_iter().find(|&d| known(d)))
}

/// What is called for an op on each element of arrays of this type.
#[inline]
fn function<'a>(loaded: &'a Loaded, op: &Op, takes: Takes, dtype: DType) -> Option<&'a Py<PyAny>> {
    let slot = loaded.slots.get(op.code())?.as_ref()?;
    if !takes.includes(dtype) {
        return None;
    }
    match &slot.plain {
        Some(plain) if is_usual(loaded, dtype) => Some(plain),
        _ if loaded.in_64.is_some() && is_wide_type(dtype) => None,
        _ => Some(&slot.function),
    }
}

/// What comes out of an op on each element of operands of one type that it takes; `None` where the core would refuse it.
#[inline]
pub fn elementwise_spec(op: &Op, inputs: &[&Tensor]) -> Option<Spec> {
    let x = inputs.first()?.spec();
    let gives = match op {
        Op::Unary(u) => u.gives(),
        Op::Binary(b) => b.gives(),
        _ => Gives::Bool,
    };
    // Operands of one shape need no rule for shapes.
    if gives != Gives::Complex && inputs[1..].iter().all(|y| y.shape() == &x.shape) {
        return Some(x.with_dtype(gives.dtype(x.dtype)));
    }
    let specs: SmallVec<[&Spec; 2]> = inputs.iter().map(|x| x.spec()).collect();
    infer(op, &specs).ok()?.one()
}

/// A result as an array, where a framework gives something else for no axes.
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

/// Runs an op on each element of arrays of one framework and one element type; `None` where the ordinary way is to do it.
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

/// The framework's own function for one of ours, on its floats; `None` where the ordinary way is to do it. Values of keywords
/// come last.
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
    let Some(plain) = loaded.plain.get(place).and_then(Option::as_ref) else {
        return Ok(None);
    };
    let class = first.get_type_ptr();
    let raised = Cell::new(None);
    let prepared = plain.prepare(py, loaded, arguments, names, |i| {
        let x = arguments.get(i)?;
        let mut reader = own.reader;
        if x.get_type_ptr() != class {
            let same = |other: &&array::Belongs| std::ptr::eq(other.framework, own.framework);
            reader = array::met(x).filter(same)?.reader;
        }
        if !matches!(reader, Reader::None) {
            return reader.seen(&loaded.dtypes, x);
        }
        // Its axes are not asked for: an axis that is not there is refused by every framework whose arrays are not read in C,
        // and a number of axes that has to be right is not.
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
