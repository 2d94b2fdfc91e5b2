//! An op's parameters as Python values.

use crate::load::Loaded;
use clematis_core::attr::Attr;
use clematis_core::{Op, Result, Scalar, bail};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyTuple};

use crate::call::Keywords;
use crate::error::failed;

/// The parameters of an op as keyword arguments.
pub fn keywords(py: Python<'_>, loaded: &Loaded, op: &Op) -> Result<Option<Keywords>> {
    let attrs = op.attrs();
    if attrs.is_empty() {
        return Ok(None);
    }
    let mut values = Vec::with_capacity(attrs.len());
    for (name, attr) in &attrs {
        let rest;
        let attr = match (op, attr) {
            (Op::Reshape(_), Attr::List(sizes)) => {
                rest = with_rest(sizes);
                rest.as_ref().unwrap_or(attr)
            }
            _ => attr,
        };
        match value(py, loaded, attr) {
            Ok(v) => values.push(v.unbind()),
            Err(Wrong::Dim) => bail!(
                Trace,
                "{}: `{name}` is a symbolic size, which has no value outside of a graph",
                op.name()
            ),
            Err(Wrong::DType(d)) => {
                bail!(DType, "{}: {} has no {d}", op.name(), loaded.name)
            }
            Err(Wrong::Python(e)) => return Err(failed(py, op.name(), e)),
        }
    }
    let names = attrs
        .iter()
        .map(|(name, _)| pyo3::types::PyString::intern(py, name));
    let names = PyTuple::new(py, names).map_err(|e| failed(py, op.name(), e))?;
    Ok(Some(Keywords {
        names: names.unbind(),
        values,
    }))
}

/// Sizes of which one may be unknown: frameworks infer a size of -1 from the others.
fn with_rest(sizes: &[Attr]) -> Option<Attr> {
    let unknown = |size: &&Attr| matches!(size, Attr::Dim(_));
    if sizes.iter().filter(unknown).count() != 1 {
        return None;
    }
    let size = |size: &Attr| match size {
        Attr::Dim(_) => Attr::Int(-1),
        known => known.clone(),
    };
    Some(Attr::List(sizes.iter().map(size).collect()))
}

enum Wrong {
    Dim,
    DType(String),
    Python(PyErr),
}
impl From<PyErr> for Wrong {
    fn from(e: PyErr) -> Wrong {
        Wrong::Python(e)
    }
}

fn value<'py>(
    py: Python<'py>,
    loaded: &Loaded,
    attr: &Attr,
) -> std::result::Result<Bound<'py, PyAny>, Wrong> {
    Ok(match attr {
        Attr::Bool(v) => v.into_bound_py_any(py)?,
        Attr::Int(v) => v.into_bound_py_any(py)?,
        Attr::UInt(v) => v.into_bound_py_any(py)?,
        Attr::Float(v) => v.0.into_bound_py_any(py)?,
        Attr::Complex(re, im) => PyComplex::from_doubles(py, re.0, im.0).into_any(),
        Attr::Word(w) if w == "none" => py.None().into_bound(py),
        Attr::Word(w) => match w.parse::<clematis_core::DType>() {
            Ok(d) => match &loaded.dtypes[d as usize] {
                Some(d) => d.bind(py).clone(),
                None => return Err(Wrong::DType(w.clone())),
            },
            Err(_) => w.into_bound_py_any(py)?,
        },
        Attr::Text(w) => w.into_bound_py_any(py)?,
        Attr::List(items) => {
            let items = items
                .iter()
                .map(|a| value(py, loaded, a))
                .collect::<std::result::Result<Vec<_>, _>>()?;
            PyTuple::new(py, items)?.into_any()
        }
        Attr::Dim(_) | Attr::Graph(_) => return Err(Wrong::Dim),
    })
}

/// A plain Python number.
pub fn number(py: Python<'_>, value: Scalar) -> PyResult<Bound<'_, PyAny>> {
    match value {
        Scalar::Bool(v) => v.into_bound_py_any(py),
        Scalar::Int(v) => v.into_bound_py_any(py),
        Scalar::UInt(v) => v.into_bound_py_any(py),
        Scalar::Float(v) => v.0.into_bound_py_any(py),
        Scalar::Complex(re, im) => Ok(PyComplex::from_doubles(py, re.0, im.0).into_any()),
    }
}
