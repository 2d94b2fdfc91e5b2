//! Vectorization: functions of one example as functions of a batch.

use super::{Noted, Object, on_backend, taken};
use crate::error::{OrRaise, exception};
use crate::pytree::{Leaves, Structure, called, flatten};
use clematis_core::batch::vmap_along;
use clematis_core::{Kind, Result};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::cell::RefCell;

/// The mapped axis of each argument; None for arguments shared by all examples.
#[derive(Clone)]
enum Axes {
    All(Option<i64>),
    Each(Vec<Option<i64>>),
}

impl Axes {
    fn read(x: &Object<'_>) -> PyResult<Axes> {
        if let Ok(one) = x.extract::<Option<i64>>() {
            return Ok(Axes::All(one));
        }
        x.extract().map(Axes::Each).map_err(|_| {
            let message = "vmap: in_axes is an axis, None, or a tuple of one for each argument";
            exception(Kind::DType, message)
        })
    }

    fn of(&self, count: usize) -> PyResult<Vec<Option<i64>>> {
        match self {
            Axes::All(one) => Ok(vec![*one; count]),
            Axes::Each(list) if list.len() == count => Ok(list.clone()),
            Axes::Each(list) => Err(exception(
                Kind::Value,
                format!("vmap: in_axes names {} arguments, not {count}", list.len()),
            )),
        }
    }
}

/// A vectorized function.
#[pyclass(frozen, name = "Mapped", module = "clematis", dict)]
struct Mapped {
    f: Py<PyAny>,
    axes: Axes,
    out: i64,
}

/// A mapped or a shared argument.
enum Part<'py> {
    Tree(Leaves, Structure),
    Whole(Object<'py>),
}

impl<'py> Part<'py> {
    fn new(x: Object<'py>, axis: Option<i64>) -> PyResult<Self> {
        match axis {
            None => Ok(Part::Whole(x)),
            Some(_) => flatten(&x).map(|(leaves, structure)| Part::Tree(leaves, structure)),
        }
    }

    fn build(
        &self,
        py: Python<'py>,
        leaves: &mut &[clematis_core::Tensor],
    ) -> PyResult<Object<'py>> {
        match self {
            Part::Whole(x) => Ok(x.clone()),
            Part::Tree(own, structure) => {
                let (mine, rest) = leaves.split_at(own.tensors.len());
                *leaves = rest;
                structure.build(py, mine, true)
            }
        }
    }
}

#[pymethods]
impl Mapped {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Object<'py>> {
        let axes = self.axes.of(args.len())?;
        let each = args.iter().zip(&axes).map(|(x, axis)| Part::new(x, *axis));
        let parts = each.collect::<PyResult<Vec<_>>>()?;
        // Keyword arguments are mapped over their first axis.
        let named = kwargs.map(|k| Part::new(k.as_any().clone(), Some(0)));
        let named = named.transpose()?;
        let (mut tensors, mut paths, mut along) = (Vec::new(), Vec::new(), Vec::new());
        let last = named.iter().map(|part| (part, Some(0), None));
        let all = parts.iter().zip(&axes).enumerate();
        for (part, axis, place) in all.map(|(i, (p, a))| (p, *a, Some(i))).chain(last) {
            let Part::Tree(leaves, _) = part else {
                continue;
            };
            for (x, path) in leaves.tensors.iter().zip(leaves.paths()) {
                let name = match (place, path.as_str()) {
                    (Some(i), "") => format!("argument {i}"),
                    (Some(i), path) => format!("`{path}` of argument {i}"),
                    (None, path) => format!("`{path}`"),
                };
                // A number is shared by all examples.
                along.push(if x.as_number().is_some() { None } else { axis });
                tensors.push(x.clone());
                paths.push(name);
            }
        }
        let leaves = Leaves::new(tensors, paths);
        let is_raw = |part: &Part<'_>| matches!(part, Part::Tree(_, s) if s.is_raw());
        let raw = parts.iter().chain(&named).any(is_raw);
        let shape: Noted = RefCell::new(None);
        let run = |xs: &Leaves| -> PyResult<Leaves> {
            let mut rest = &xs.tensors[..];
            let own = parts.iter().map(|part| part.build(py, &mut rest));
            let own = PyTuple::new(py, own.collect::<PyResult<Vec<_>>>()?)?;
            let words = match &named {
                Some(part) => Some(part.build(py, &mut rest)?.cast_into::<PyDict>()?),
                None => None,
            };
            let (out, structure) = flatten(&self.f.bind(py).call(own, words.as_ref())?)?;
            *shape.borrow_mut() = Some(structure);
            Ok(out)
        };
        let one = |xs: &Leaves| -> Result<Leaves> { called(py, run(xs)) };
        let out = on_backend(&leaves, || vmap_along(one, &leaves, &along, self.out)).or_raise()?;
        taken(shape)?.results(py, &out.tensors, raw)
    }

    #[getter]
    fn __wrapped__(&self, py: Python<'_>) -> Py<PyAny> {
        self.f.clone_ref(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("clematis.vmap({})", self.f.bind(py).repr()?))
    }
}

/// Vectorizes a function of one example: maps it over the axis `in_axes` of its arguments.
///
/// `in_axes` is one axis for all arguments, or a tuple with one for each; None marks an argument that all examples share.
/// Keyword arguments are mapped over their first axis. Results have the batch axis at `out_axes`. Draws without a key
/// differ between examples.
///
///     >>> cm.vmap(lambda x, y: x @ y)(cm.ones((3, 4)), cm.ones((3, 4)))
///     Tensor([4.0, 4.0, 4.0], float32, native)
#[pyfunction]
#[pyo3(signature = (f, /, in_axes=None, out_axes=0), text_signature = "(f, /, in_axes=0, out_axes=0)")]
fn vmap(f: &Object<'_>, in_axes: Option<&Object<'_>>, out_axes: i64) -> PyResult<Mapped> {
    if !f.is_callable() {
        let message = format!(
            "vmap: a function was expected, not {}",
            f.get_type().name()?
        );
        return Err(exception(Kind::DType, message));
    }
    Ok(Mapped {
        f: f.clone().unbind(),
        axes: in_axes.map_or(Ok(Axes::All(Some(0))), Axes::read)?,
        out: out_axes,
    })
}

/// Adds the function to a module.
pub fn install(m: &Bound<'_, pyo3::types::PyModule>) -> PyResult<()> {
    crate::plain_functions!(m; vmap);
    Ok(())
}
