//! Shape manipulation: functions that move elements without computing.

use crate::args::{axes, integers, room};
use crate::error::{OrRaise, exception};
use crate::operand::Call;
use clematis_core::{Kind, Shape, ops};
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyTuple};

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// Reshapes in row-major order; one size may be -1.
#[pyfunction]
#[pyo3(signature = (x, /, shape, *, copy=None))]
fn reshape<'py>(x: &Object<'py>, shape: &Object<'py>, copy: Option<bool>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "reshape");
    let mut x = call.take(x)?;
    let shape = integers("reshape", "shape", shape)?;
    if copy == Some(true) {
        x = call.run(|| ops::copied(&x).done()).or_raise()?;
    }
    call.one(|| ops::reshape(x, &shape[..]))
}

/// Permutes axes: axis i of the result is axis axes[i] of x.
#[pyfunction]
#[pyo3(signature = (x, /, axes))]
fn permute_dims<'py>(x: &Object<'py>, axes: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "permute_dims");
    let x = call.take(x)?;
    let axes = integers("permute_dims", "axes", axes)?;
    call.one(|| ops::permute(x, axes))
}

/// Transposes a matrix: exchanges the last two axes.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn matrix_transpose<'py>(x: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "matrix_transpose");
    let x = call.take(x)?;
    call.one(|| ops::matrix_transpose(x))
}

/// Exchanges two axes.
#[pyfunction]
#[pyo3(signature = (x, axis1, axis2, /))]
fn swapaxes<'py>(x: &Object<'py>, axis1: i64, axis2: i64) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "swapaxes");
    let x = call.take(x)?;
    call.one(|| ops::swap_axes(x, axis1, axis2))
}

/// Moves axes to other positions.
#[pyfunction]
#[pyo3(signature = (x, source, destination, /))]
fn moveaxis<'py>(
    x: &Object<'py>,
    source: &Object<'py>,
    destination: &Object<'py>,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "moveaxis");
    let x = call.take(x)?;
    let from = integers("moveaxis", "source", source)?;
    let to = integers("moveaxis", "destination", destination)?;
    call.one(|| ops::move_axes(x, &from, &to))
}

/// Broadcasts to a shape.
#[pyfunction]
#[pyo3(signature = (x, /, shape))]
fn broadcast_to<'py>(x: &Object<'py>, shape: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "broadcast_to");
    let x = call.take(x)?;
    let shape = crate::args::shape("broadcast_to", shape)?;
    call.one(|| ops::broadcast_to(x, &shape))
}

/// Broadcasts tensors to a common shape.
#[pyfunction]
#[pyo3(signature = (*arrays))]
fn broadcast_arrays<'py>(arrays: &Bound<'py, PyTuple>) -> PyResult<Object<'py>> {
    let mut call = Call::new(arrays.py(), "broadcast_arrays");
    let xs = call.take_all(arrays.as_any())?;
    call.many(|| ops::broadcast_arrays(&xs.iter().collect::<Vec<_>>()))
}

/// The shape that shapes broadcast to.
#[pyfunction]
#[pyo3(signature = (*shapes))]
fn broadcast_shapes<'py>(shapes: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
    let mut out = Shape::scalar();
    for shape in shapes.iter() {
        let shape = crate::args::shape("broadcast_shapes", &shape)?;
        out = out.broadcast_with(&shape, "broadcast_shapes").or_raise()?;
    }
    PyTuple::new(shapes.py(), out.sizes())
}

/// Inserts axes of size 1.
#[pyfunction]
#[pyo3(signature = (x, /, axis))]
fn expand_dims<'py>(x: &Object<'py>, axis: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "expand_dims");
    let x = call.take(x)?;
    let axes = integers("expand_dims", "axis", axis)?;
    call.one(|| ops::expand_axes(x, &axes))
}

/// Removes axes of size 1.
#[pyfunction]
#[pyo3(signature = (x, /, axis=None))]
fn squeeze<'py>(x: &Object<'py>, axis: Maybe<'_, 'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "squeeze");
    let x = call.take(x)?;
    let axes = match axes("squeeze", axis)? {
        Some(axes) => axes,
        None => (0..x.rank() as i64)
            .filter(|&a| x.shape().dims()[a as usize] == 1usize)
            .collect(),
    };
    call.one(|| ops::squeeze(x, axes))
}

/// Concatenates tensors along an axis; flattens them first if the axis is None.
#[pyfunction]
#[pyo3(signature = (arrays, /, *, axis=Some(0)), text_signature = "(arrays, /, *, axis=0)")]
fn concat<'py>(arrays: &Object<'py>, axis: Option<i64>) -> PyResult<Object<'py>> {
    let mut call = Call::new(arrays.py(), "concat");
    let xs = call.take_all(arrays)?;
    call.one(|| ops::concat_flat(&xs, axis))
}

/// Stacks tensors along a new axis.
#[pyfunction]
#[pyo3(signature = (arrays, /, *, axis=0))]
fn stack<'py>(arrays: &Object<'py>, axis: i64) -> PyResult<Object<'py>> {
    let mut call = Call::new(arrays.py(), "stack");
    let xs = call.take_all(arrays)?;
    call.one(|| ops::stack(&xs, axis))
}

/// Unstacks a tensor: the slices along an axis.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis=0))]
fn unstack<'py>(x: &Object<'py>, axis: i64) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "unstack");
    let x = call.take(x)?;
    call.many(|| ops::unstack(&x, axis))
}

/// Splits a tensor along an axis, into equal parts or at given indices.
#[pyfunction]
#[pyo3(signature = (x, indices_or_sections, /, *, axis=0))]
fn split<'py>(
    x: &Object<'py>,
    indices_or_sections: &Object<'py>,
    axis: i64,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "split");
    let x = call.take(x)?;
    if let Ok(parts) = indices_or_sections.extract::<i64>() {
        let parts = usize::try_from(parts)
            .map_err(|_| exception(Kind::Value, format!("split: into {parts} parts")))?;
        return call.many(|| ops::split(&x, parts, axis));
    }
    let places = integers("split", "indices_or_sections", indices_or_sections)?;
    call.many(|| ops::split_at(&x, &places, axis))
}

/// Reverses the order of elements along axes.
#[pyfunction]
#[pyo3(signature = (x, /, *, axis=None))]
fn flip<'py>(x: &Object<'py>, axis: Maybe<'_, 'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "flip");
    let x = call.take(x)?;
    let axes = axes("flip", axis)?;
    call.one(|| ops::flip(x, axes))
}

/// Rolls elements along axes; elements that pass the end re-enter at the start.
#[pyfunction]
#[pyo3(signature = (x, /, shift, *, axis=None))]
fn roll<'py>(x: &Object<'py>, shift: &Object<'py>, axis: Maybe<'_, 'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "roll");
    let x = call.take(x)?;
    let shifts = integers("roll", "shift", shift)?;
    let axes = axes("roll", axis)?;
    call.one(|| ops::roll_axes(x, &shifts, axes.as_deref()))
}

/// Tiles a tensor: repeats it along each axis.
#[pyfunction]
#[pyo3(signature = (x, repetitions, /))]
fn tile<'py>(x: &Object<'py>, repetitions: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "tile");
    let x = call.take(x)?;
    let times = integers("tile", "repetitions", repetitions)?;
    let times = times
        .iter()
        .map(|&n| usize::try_from(n))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| {
            exception(
                Kind::Value,
                format!("tile: repetitions {times:?} are not all positive"),
            )
        })?;
    room("tile", x.shape().sizes().into_iter().chain(times.clone()))?;
    call.one(|| ops::tile(x, &times))
}

/// Repeats each element, as often as a number or a tensor of numbers says.
#[pyfunction]
#[pyo3(signature = (x, repeats, /, *, axis=None))]
fn repeat<'py>(x: &Object<'py>, repeats: &Object<'py>, axis: Option<i64>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "repeat");
    let x = call.take(x)?;
    let repeats = call.take(repeats)?;
    if let Some(n) = repeats.as_number() {
        let times = usize::try_from(n.as_i128()).unwrap_or(0);
        room("repeat", x.shape().sizes().into_iter().chain([times]))?;
    }
    call.one(|| ops::repeat_each(x, &repeats, axis))
}

/// Pads with a value. `pad_width` is ((before, after), …), one pair for all axes, or one number.
#[pyfunction]
#[pyo3(signature = (x, pad_width, /, *, constant_values=None))]
fn pad<'py>(
    x: &Object<'py>,
    pad_width: &Object<'py>,
    constant_values: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "pad");
    let x = call.take(x)?;
    let value = call.maybe(constant_values)?;
    let widths = pairs("pad", pad_width, x.rank())?;
    if !x.shape().is_symbolic() {
        let wider = |(&n, &(a, b)): (&usize, &(i64, i64))| {
            let n = (n as i64).saturating_add(a).saturating_add(b);
            usize::try_from(n).unwrap_or(0)
        };
        room("pad", x.shape().sizes().iter().zip(&widths).map(wider))?;
    }
    call.one(|| match value {
        Some(v) => ops::pad_by(x, &widths, v),
        None => ops::pad_by(x, &widths, 0),
    })
}

/// One pair of numbers per axis, from one number, one pair, or a pair per axis.
pub fn pairs(op: &str, x: &Object<'_>, count: usize) -> PyResult<Vec<(i64, i64)>> {
    if let Ok(n) = x.extract::<i64>() {
        return Ok(vec![(n, n); count]);
    }
    if let Ok(pair) = x.extract::<(i64, i64)>() {
        return Ok(vec![pair; count]);
    }
    let list = x
        .try_iter()?
        .map(|p| p?.extract::<(i64, i64)>())
        .collect::<PyResult<Vec<_>>>()?;
    match list.len() {
        n if n == count => Ok(list),
        1 => Ok(vec![list[0]; count]),
        n => Err(exception(
            Kind::Shape,
            format!("{op}: {n} pairs for {count} axes"),
        )),
    }
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m;
        reshape permute_dims matrix_transpose swapaxes moveaxis broadcast_to broadcast_arrays broadcast_shapes
        expand_dims squeeze concat stack unstack split flip roll tile repeat pad);
    Ok(())
}
