//! Pytrees of dicts, lists, tuples, dataclasses and modules as trees of tensors.
//!
//! An object of another class is a node if it has `__tree_flatten__()`, which returns a pytree of what is inside, and
//! `__tree_unflatten__(pytree)`, which returns an object like it with such a pytree inside. A tensor, a framework's array or a Python number is a leaf; anything else that is no container is kept as it is.

use crate::error::exception;
use crate::operand::{Operand, give, numpy_number, try_operand};
use crate::tensor::PyTensor;
use clematis_bridge::array;
use clematis_core::tree::{Path, Role, Tree};
use clematis_core::{Backend, Kind, Result, Tensor};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyModule, PyString, PyTuple, PyType};
use std::sync::Arc;

/// What a pytree looks like without its leaves.
pub enum Structure {
    /// The next leaf; whether it was a framework's own array.
    Leaf {
        /// Whether a framework's own array is to come back.
        raw: bool,
    },
    /// Something that holds no tensor.
    Other(Py<PyAny>),
    /// A dict, by its keys in their order; for a class of its kind, what makes one of a dict.
    Dict(Option<Py<PyAny>>, Vec<(Py<PyAny>, Structure)>),
    /// A list.
    List(Vec<Structure>),
    /// A tuple, or a named one.
    Tuple(Py<PyType>, Vec<Structure>),
    /// A dataclass, by its fields.
    Fields(Py<PyAny>, Vec<(String, Structure)>),
    /// An object that says itself what is inside.
    Node(Py<PyAny>, Box<Structure>),
}

/// Leaves with the paths to them.
#[derive(Clone, Default)]
pub struct Leaves {
    /// The leaves in order.
    pub tensors: Vec<Tensor>,
    paths: Arc<Vec<String>>,
}

impl Tree for Leaves {
    fn visit(&self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &Tensor)) {
        for (path, x) in self.paths.iter().zip(&self.tensors) {
            at.within(path, |at| f(at, Role::Param, x));
        }
    }
    fn visit_mut(&mut self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &mut Tensor)) {
        for (path, x) in self.paths.iter().zip(&mut self.tensors) {
            at.within(path, |at| f(at, Role::Param, x));
        }
    }
}

impl Leaves {
    /// Leaves at these paths.
    pub fn new(tensors: Vec<Tensor>, paths: Vec<String>) -> Self {
        Leaves {
            tensors,
            paths: Arc::new(paths),
        }
    }

    /// The paths.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Where the first leaf with a backend lives.
    pub fn backend(&self) -> Option<&'static dyn Backend> {
        self.tensors.iter().find_map(Tensor::backend)
    }
}

/// Takes a pytree apart.
pub fn flatten(x: &Bound<'_, PyAny>) -> PyResult<(Leaves, Structure)> {
    let mut flat = Flat::default();
    let structure = flat.add(x, 0)?;
    Ok((
        Leaves {
            tensors: flat.tensors,
            paths: Arc::new(flat.paths),
        },
        structure,
    ))
}

/// What makes one of a dict's class of a plain dict; nothing is needed for a plain one.
fn maker(x: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
    let class = x.get_type();
    if class.is(x.py().get_type::<PyDict>()) {
        return Ok(None);
    }
    if !class.hasattr("default_factory")? {
        return Ok(Some(class.into_any().unbind()));
    }
    // A defaultdict takes what makes its missing values first.
    let functools = x.py().import("functools")?;
    let missing = x.getattr("default_factory")?;
    let made = functools.call_method1("partial", (class, missing))?;
    Ok(Some(made.unbind()))
}

#[derive(Default)]
struct Flat {
    tensors: Vec<Tensor>,
    paths: Vec<String>,
    at: Vec<String>,
}

/// The deepest pytree that is followed; a list that holds itself has no end.
const DEPTH: usize = 200;

impl Flat {
    fn add(&mut self, x: &Bound<'_, PyAny>, depth: usize) -> PyResult<Structure> {
        if depth > DEPTH {
            return Err(exception(
                Kind::Value,
                format!("tree: nested deeper than {DEPTH}"),
            ));
        }
        if let Ok(dict) = x.cast::<PyDict>() {
            let mut parts = Vec::with_capacity(dict.len());
            for (key, value) in dict.iter() {
                let part = self.within(key.to_string(), |s| s.add(&value, depth + 1))?;
                parts.push((key.unbind(), part));
            }
            return Ok(Structure::Dict(maker(x)?, parts));
        }
        if let Ok(list) = x.cast::<PyList>() {
            let items: Vec<_> = list.iter().collect();
            return Ok(Structure::List(self.items(&items, depth)?));
        }
        if let Ok(tuple) = x.cast::<PyTuple>() {
            let items: Vec<_> = tuple.iter().collect();
            return Ok(Structure::Tuple(
                x.get_type().unbind(),
                self.items(&items, depth)?,
            ));
        }
        if let Some(leaf) = try_operand(x)? {
            self.tensors.push(leaf.tensor);
            self.paths.push(self.at.join("."));
            return Ok(Structure::Leaf { raw: leaf.raw });
        }
        if x.is_instance_of::<PyType>() {
            return Ok(Structure::Other(x.clone().unbind()));
        }
        if x.get_type().hasattr(intern!(x.py(), "__tree_flatten__"))? {
            let inside = x.call_method0(intern!(x.py(), "__tree_flatten__"))?;
            let inside = Box::new(self.add(&inside, depth + 1)?);
            return Ok(Structure::Node(x.clone().unbind(), inside));
        }
        if !x.hasattr("__dataclass_fields__")? {
            return Ok(Structure::Other(x.clone().unbind()));
        }
        let mut fields = Vec::new();
        for name in field_names(x)? {
            let value = x.getattr(&name)?;
            let part = self.within(name.to_string(), |s| s.add(&value, depth + 1))?;
            fields.push((name.to_string(), part));
        }
        Ok(Structure::Fields(x.clone().unbind(), fields))
    }

    fn items(&mut self, items: &[Bound<'_, PyAny>], depth: usize) -> PyResult<Vec<Structure>> {
        items
            .iter()
            .enumerate()
            .map(|(i, x)| self.within(i.to_string(), |s| s.add(x, depth + 1)))
            .collect()
    }

    fn within<R>(&mut self, name: String, f: impl FnOnce(&mut Self) -> R) -> R {
        self.at.push(name);
        let out = f(self);
        self.at.pop();
        out
    }
}

impl Structure {
    /// Puts a pytree together; leaves that were a framework's own arrays come back as such unless `tensors` is asked for.
    pub fn build<'py>(
        &self,
        py: Python<'py>,
        leaves: &[Tensor],
        tensors: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kinds = if tensors {
            Kinds::Tensors
        } else {
            Kinds::AsTheyWere
        };
        self.fill(
            py,
            &mut leaves.iter().map(|t| Leaf::Tensor(t.clone())),
            kinds,
        )
    }

    /// Puts results together: a framework's own arrays if arguments were such, else tensors.
    pub fn results<'py>(
        &self,
        py: Python<'py>,
        leaves: &[Tensor],
        raw: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kinds = if raw { Kinds::Raw } else { Kinds::Tensors };
        self.fill(
            py,
            &mut leaves.iter().map(|t| Leaf::Tensor(t.clone())),
            kinds,
        )
    }

    /// Whether a framework's own array is among the leaves.
    pub fn is_raw(&self) -> bool {
        let mut all = Vec::new();
        raws(self, &mut all);
        all.contains(&true)
    }

    /// Puts a pytree of any objects together.
    pub fn build_from<'py>(
        &self,
        py: Python<'py>,
        leaves: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.fill(
            py,
            &mut leaves.into_iter().map(|x| Leaf::Object(x.unbind())),
            Kinds::Tensors,
        )
    }

    fn fill<'py>(
        &self,
        py: Python<'py>,
        next: &mut dyn Iterator<Item = Leaf>,
        kinds: Kinds,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut several = |parts: &[Structure]| -> PyResult<Vec<Bound<'py, PyAny>>> {
            parts.iter().map(|p| p.fill(py, next, kinds)).collect()
        };
        match self {
            Structure::Leaf { raw } => match next.next() {
                Some(Leaf::Object(x)) => Ok(x.into_bound(py)),
                Some(Leaf::Tensor(t)) => match kinds {
                    Kinds::Tensors => give(py, t, false),
                    Kinds::AsTheyWere => give(py, t, *raw),
                    Kinds::Raw => give(py, t, true),
                },
                None => Err(exception(Kind::Internal, "tree: a leaf is missing")),
            },
            Structure::Other(x) => Ok(x.bind(py).clone()),
            Structure::List(parts) => Ok(PyList::new(py, several(parts)?)?.into_any()),
            Structure::Tuple(class, parts) => {
                let items = PyTuple::new(py, several(parts)?)?;
                let class = class.bind(py);
                if class.hasattr("_fields")? {
                    class.call1(items)
                } else {
                    Ok(items.into_any())
                }
            }
            Structure::Dict(maker, parts) => {
                let out = PyDict::new(py);
                for (key, part) in parts {
                    out.set_item(key, part.fill(py, next, kinds)?)?;
                }
                match maker {
                    None => Ok(out.into_any()),
                    Some(maker) => maker.bind(py).call1((out,)),
                }
            }
            Structure::Node(x, inside) => {
                let inside = inside.fill(py, next, kinds)?;
                x.bind(py).call_method1("__tree_unflatten__", (inside,))
            }
            Structure::Fields(x, fields) => {
                let changes = PyDict::new(py);
                for (name, part) in fields {
                    changes.set_item(name, part.fill(py, next, kinds)?)?;
                }
                with_fields(x.bind(py), &changes)
            }
        }
    }
}

/// The names of a dataclass's fields that hold something.
pub fn field_names<'py>(x: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyString>>> {
    let fields = x.py().import("dataclasses")?;
    let fields = fields.call_method1("fields", (x,))?;
    let mut names = Vec::new();
    for field in fields.try_iter()? {
        let name = field?.getattr("name")?.cast_into::<PyString>()?;
        if x.hasattr(&name)? {
            names.push(name);
        }
    }
    Ok(names)
}

/// A dataclass with other values in its fields. It is not made anew: fields that `__init__` does not take are changed, too.
pub fn with_fields<'py>(
    x: &Bound<'py, PyAny>,
    fields: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = x.py();
    let out = py.import("copy")?.call_method1("copy", (x,))?;
    // Frozen ones allow no other way.
    let object = py.get_type::<PyAny>();
    for (name, value) in fields.iter() {
        object.call_method1("__setattr__", (&out, name, value))?;
    }
    Ok(out)
}

/// What leaves become.
#[derive(Clone, Copy)]
enum Kinds {
    Tensors,
    AsTheyWere,
    Raw,
}

enum Leaf {
    Tensor(Tensor),
    Object(Py<PyAny>),
}

/// Applies a function to each leaf of a pytree, or to the leaves of several of the same structure.
///
///     >>> cm.tree.map(lambda x, y: x + y, {"a": cm.asarray([1, 2])}, {"a": 10})
///     {'a': Tensor([11, 12], int32, native)}
#[pyfunction]
#[pyo3(name = "map", signature = (function, tree, /, *rest))]
fn map_tree<'py>(
    function: &Bound<'py, PyAny>,
    tree: &Bound<'py, PyAny>,
    rest: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tree.py();
    let (first, structure) = flatten(tree)?;
    let mut columns = vec![objects(py, &first, &structure)?];
    for other in rest.iter() {
        let (leaves, own) = flatten(&other)?;
        if leaves.paths() != first.paths() {
            let odd = first
                .paths()
                .iter()
                .zip(leaves.paths())
                .find(|(a, b)| a != b);
            let message = match odd {
                Some((a, b)) => format!("tree.map: structures differ at `{a}` and `{b}`"),
                None => format!(
                    "tree.map: structures of {} and {} leaves",
                    first.tensors.len(),
                    leaves.tensors.len()
                ),
            };
            return Err(exception(Kind::Structure, message));
        }
        columns.push(objects(py, &leaves, &own)?);
    }
    let out = (0..first.tensors.len())
        .map(|i| {
            let arguments: Vec<_> = columns.iter().map(|c| c[i].clone()).collect();
            function.call1(PyTuple::new(py, arguments)?)
        })
        .collect::<PyResult<Vec<_>>>()?;
    structure.build_from(py, out)
}

fn raws(structure: &Structure, out: &mut Vec<bool>) {
    match structure {
        Structure::Leaf { raw } => out.push(*raw),
        Structure::Other(_) => {}
        Structure::List(parts) | Structure::Tuple(_, parts) => {
            parts.iter().for_each(|p| raws(p, out));
        }
        Structure::Dict(_, parts) => parts.iter().for_each(|(_, p)| raws(p, out)),
        Structure::Fields(_, parts) => parts.iter().for_each(|(_, p)| raws(p, out)),
        Structure::Node(_, inside) => raws(inside, out),
    }
}

fn objects<'py>(
    py: Python<'py>,
    leaves: &Leaves,
    structure: &Structure,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let mut raw = Vec::new();
    raws(structure, &mut raw);
    leaves
        .tensors
        .iter()
        .zip(raw)
        .map(|(t, raw)| give(py, t.clone(), raw))
        .collect()
}

/// The leaves of a pytree, in order.
///
///     >>> cm.tree.leaves({"w": cm.asarray([1.0, 2.0]), "b": [3.0]})
///     [Tensor([1.0, 2.0], float32, native), Tensor(3.0, float32, native)]
#[pyfunction]
#[pyo3(name = "leaves", signature = (tree, /))]
fn leaves_of<'py>(tree: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let (leaves, structure) = flatten(tree)?;
    objects(tree.py(), &leaves, &structure)
}

/// The paths of the leaves of a pytree, in order.
///
///     >>> cm.tree.paths({"w": cm.asarray([1.0, 2.0]), "b": [3.0]})
///     ['w', 'b.0']
#[pyfunction]
#[pyo3(name = "paths", signature = (tree, /))]
fn paths_of(tree: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    Ok(flatten(tree)?.0.paths().to_vec())
}

/// Whether this is an array: a tensor, or a framework's own array or variable.
///
///     >>> cm.tree.is_array(cm.asarray([1])), cm.tree.is_array([1])
///     (True, False)
#[pyfunction]
#[pyo3(signature = (x, /))]
fn is_array(x: &Bound<'_, PyAny>) -> PyResult<bool> {
    if x.is_instance_of::<PyTensor>() {
        return Ok(true);
    }
    // An array of words, or of anything else that we have no element type for, is none.
    match array::tensor(x) {
        Ok(Some(tensor)) => Ok(numpy_number(x, &Operand { tensor, raw: true })?.is_none()),
        _ => Ok(false),
    }
}

/// A function of the library bound to a pytree as tensors have it bound to themselves.
#[pyfunction]
#[pyo3(signature = (x, name, /))]
pub fn _method<'py>(
    x: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<Bound<'py, PyAny>> {
    crate::tree_map::method(x, name)
}

/// The core's result of a Python function, with the caller's own exception kept.
pub fn called<T>(py: Python<'_>, out: PyResult<T>) -> Result<T> {
    out.map_err(|e| clematis_bridge::error::own(py, e))
}

/// Adds the functions to `tree`.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::plain_functions!(m; map_tree leaves_of paths_of is_array);
    crate::function::step::install_tree(m)
}
