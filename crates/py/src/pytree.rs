//! Pytrees: nested containers of arrays, from Python objects to lists of leaves and back.
//!
//! `pytree_node` identifies containers, `structure` flattens and rebuilds; this file selects the leaves. A tensor, a
//! framework array or a Python number is a leaf; other objects that are not containers are part of the structure.

mod structure;

pub use structure::{Structure, Visit, walk};

use crate::error::exception;
use crate::operand::{Operand, give, number, numpy_number, try_operand};
use crate::pytree_node::{Object, is_builtin, is_container};
use crate::tensor::PyTensor;
use clematis_bridge::array;
use clematis_core::tree::{Path, Role, Tree};
use clematis_core::{Backend, Kind, Result, Tensor};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyModule, PyString, PyTuple, PyType};
use std::sync::Arc;

/// Leaves with their paths.
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

    /// The backend of the first leaf that has one.
    pub fn backend(&self) -> Option<&'static dyn Backend> {
        self.tensors.iter().find_map(Tensor::backend)
    }
}

/// Flattens a pytree into tensors and its structure.
pub fn flatten(x: &Object<'_>) -> PyResult<(Leaves, Structure)> {
    let (mut tensors, mut paths) = (Vec::new(), Vec::new());
    let structure = walk(x, &mut |x, path| {
        if is_builtin(x) {
            return Ok(Visit::Inside);
        }
        Ok(match try_operand(x)? {
            Some(leaf) => {
                tensors.push(leaf.tensor);
                paths.push(path.to_string());
                Visit::Leaf { raw: leaf.raw }
            }
            None => Visit::Inside,
        })
    })?;
    Ok((Leaves::new(tensors, paths), structure))
}

/// Tensors, framework arrays and numbers are leaves.
#[inline]
fn visit_leaf<'py>(x: &Object<'py>) -> PyResult<Visit<'py>> {
    if x.is_instance_of::<PyTensor>() {
        return Ok(Visit::Leaf { raw: false });
    }
    Ok(
        match is_builtin(x) || number(x)?.is_none() && !is_array(x)? {
            true => Visit::Inside,
            false => Visit::Leaf { raw: true },
        },
    )
}

/// Flattens a pytree into its leaves as they are, without converting numbers.
fn flatten_objects<'py>(x: &Object<'py>) -> PyResult<(Vec<Object<'py>>, Structure)> {
    let mut leaves = Vec::new();
    let structure = walk(x, &mut |x, _| {
        let found = visit_leaf(x)?;
        if let Visit::Leaf { .. } = found {
            leaves.push(x.clone());
        }
        Ok(found)
    })?;
    Ok((leaves, structure))
}

/// Structure of a pytree: its containers and static objects, without the leaves. `cm.tree.flatten` returns it.
///
///     >>> leaves, treedef = cm.tree.flatten({"w": cm.asarray(1.0), "b": [cm.asarray(2.0), None]})
///     >>> treedef
///     TreeDef({'w': *, 'b': [*, None]})
///     >>> treedef.unflatten([1, 2])
///     {'w': 1, 'b': [2, None]}
#[pyclass(frozen, name = "TreeDef", module = "clematis.tree")]
pub struct TreeDef {
    structure: Structure,
    count: usize,
}

impl TreeDef {
    fn of(structure: Structure) -> TreeDef {
        let mut count = 0;
        structure.each_leaf(&mut |_| count += 1);
        TreeDef { structure, count }
    }
}

#[pymethods]
impl TreeDef {
    /// Number of leaves.
    #[getter]
    fn num_leaves(&self) -> usize {
        self.count
    }

    /// Rebuilds a pytree of this structure from new leaves.
    #[pyo3(signature = (leaves, /))]
    fn unflatten<'py>(&self, py: Python<'py>, leaves: &Object<'py>) -> PyResult<Object<'py>> {
        let leaves = match leaves.cast::<PyList>() {
            Ok(list) => list.iter().collect::<Vec<_>>(),
            Err(_) => leaves.try_iter()?.collect::<PyResult<Vec<_>>>()?,
        };
        if leaves.len() != self.count {
            return Err(exception(
                Kind::Structure,
                format!(
                    "tree.unflatten: expected {} leaves, got {}",
                    self.count,
                    leaves.len()
                ),
            ));
        }
        self.structure.build_from(py, leaves)
    }

    fn __eq__(&self, py: Python<'_>, other: &Object<'_>) -> PyResult<bool> {
        match other.cast::<TreeDef>() {
            Ok(other) => self.structure.is_same(py, &other.get().structure),
            Err(_) => Ok(false),
        }
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        PyString::new(py, &self.structure.text(py)?).hash()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("TreeDef({})", self.structure.text(py)?))
    }
}

/// Flattens a pytree into the list of its leaves and its structure.
///
/// Tensors, framework arrays and Python numbers are leaves and are returned as they are; other objects that are not
/// containers, such as strings and `None`, are part of the structure.
///
///     >>> leaves, treedef = cm.tree.flatten({"w": cm.asarray([1.0]), "name": "dense"})
///     >>> leaves, treedef
///     ([Tensor([1.0], float32, native)], TreeDef({'w': *, 'name': 'dense'}))
#[pyfunction]
#[pyo3(name = "flatten", signature = (tree, /))]
fn flatten_tree<'py>(tree: &Object<'py>) -> PyResult<(Vec<Object<'py>>, TreeDef)> {
    let (leaves, structure) = flatten_objects(tree)?;
    let count = leaves.len();
    Ok((leaves, TreeDef { structure, count }))
}

/// Rebuilds a pytree from its structure and new leaves, as `treedef.unflatten` does.
///
///     >>> cm.tree.unflatten(cm.tree.structure([0, {"a": 0}]), ["x", "y"])
///     ['x', {'a': 'y'}]
#[pyfunction]
#[pyo3(signature = (treedef, leaves, /))]
fn unflatten<'py>(
    py: Python<'py>,
    treedef: &Bound<'py, TreeDef>,
    leaves: &Object<'py>,
) -> PyResult<Object<'py>> {
    treedef.get().unflatten(py, leaves)
}

/// Structure of a pytree; two pytrees have the same structure if these are equal.
///
///     >>> cm.tree.structure({"a": 1}) == cm.tree.structure({"a": cm.asarray([2.0])})
///     True
#[pyfunction]
#[pyo3(name = "structure", signature = (tree, /))]
fn structure_of(tree: &Object<'_>) -> PyResult<TreeDef> {
    Ok(flatten_tree(tree)?.1)
}

/// Applies a function to each leaf of a pytree, or to the leaves of several of the same structure.
///
///     >>> cm.tree.map(lambda x, y: x + y, {"a": cm.asarray([1, 2])}, {"a": 10})
///     {'a': Tensor([11, 12], int32, native)}
#[pyfunction]
#[pyo3(name = "map", signature = (function, tree, /, *rest))]
fn map_tree<'py>(
    function: &Object<'py>,
    tree: &Object<'py>,
    rest: &Bound<'py, PyTuple>,
) -> PyResult<Object<'py>> {
    let py = tree.py();
    let (first, structure) = flatten_objects(tree)?;
    let columns = columns("tree.map", &structure, first, rest)?;
    let mut out = Vec::with_capacity(columns[0].len());
    for i in 0..columns[0].len() {
        let arguments = columns
            .iter()
            .map(|column| argument(&column[i]))
            .collect::<PyResult<Vec<_>>>()?;
        out.push(function.call1(PyTuple::new(py, arguments)?)?);
    }
    structure.build_from(py, out)
}

/// Applies `function(path, leaf, …)` to each leaf of a pytree; `path` is a tuple of keys.
///
///     >>> cm.tree.map_with_path(lambda path, x: (path, x * 2), {"a": [cm.asarray(1.0)]})
///     {'a': [(('a', 0), Tensor(2.0, float32, native))]}
#[pyfunction]
#[pyo3(signature = (function, tree, /, *rest))]
fn map_with_path<'py>(
    function: &Object<'py>,
    tree: &Object<'py>,
    rest: &Bound<'py, PyTuple>,
) -> PyResult<Object<'py>> {
    let py = tree.py();
    let (mut first, mut paths) = (Vec::new(), Vec::new());
    let structure = walk(tree, &mut |x, path| {
        let found = visit_leaf(x)?;
        if let Visit::Leaf { .. } = found {
            first.push(x.clone());
            paths.push(PyTuple::new(py, path.keys(py)?)?.into_any());
        }
        Ok(found)
    })?;
    let columns = columns("tree.map_with_path", &structure, first, rest)?;
    let mut out = Vec::with_capacity(paths.len());
    for (i, path) in paths.into_iter().enumerate() {
        let leaves = columns.iter().map(|column| argument(&column[i]));
        let arguments = std::iter::once(Ok(path)).chain(leaves);
        let arguments = arguments.collect::<PyResult<Vec<_>>>()?;
        out.push(function.call1(PyTuple::new(py, arguments)?)?);
    }
    structure.build_from(py, out)
}

/// The leaves of several pytrees, in the order of the first.
fn columns<'py>(
    op: &str,
    structure: &Structure,
    first: Vec<Object<'py>>,
    rest: &Bound<'py, PyTuple>,
) -> PyResult<Vec<Vec<Object<'py>>>> {
    let mut columns = vec![first];
    for other in rest.iter() {
        let mut column = Vec::with_capacity(columns[0].len());
        structure.leaves_of(op, &other, &mut column)?;
        columns.push(column);
    }
    Ok(columns)
}

/// A leaf as passed to functions of leaves: numbers become tensors.
fn argument<'py>(leaf: &Object<'py>) -> PyResult<Object<'py>> {
    if !leaf.is_instance_of::<PyTensor>()
        && number(leaf)?.is_some()
        && let Some(found) = try_operand(leaf)?
    {
        return give(leaf.py(), found.tensor, false);
    }
    Ok(leaf.clone())
}

/// Leaves of a pytree, in order; numbers become tensors.
///
///     >>> cm.tree.leaves({"w": cm.asarray([1.0, 2.0]), "b": [3.0]})
///     [Tensor([1.0, 2.0], float32, native), Tensor(3.0, float32, native)]
#[pyfunction]
#[pyo3(name = "leaves", signature = (tree, /))]
fn leaves_of<'py>(tree: &Object<'py>) -> PyResult<Vec<Object<'py>>> {
    flatten_objects(tree)?.0.iter().map(argument).collect()
}

/// Paths of the leaves of a pytree, in order.
///
///     >>> cm.tree.paths({"w": cm.asarray([1.0, 2.0]), "b": [3.0]})
///     ['w', 'b.0']
#[pyfunction]
#[pyo3(name = "paths", signature = (tree, /))]
fn paths_of(tree: &Object<'_>) -> PyResult<Vec<String>> {
    Ok(flatten(tree)?.0.paths().to_vec())
}

/// Tests whether an object is an array: a tensor, or a framework's own array or variable.
///
///     >>> cm.tree.is_array(cm.asarray([1])), cm.tree.is_array([1])
///     (True, False)
#[pyfunction]
#[pyo3(signature = (x, /))]
fn is_array(x: &Object<'_>) -> PyResult<bool> {
    if x.is_instance_of::<PyTensor>() {
        return Ok(true);
    }
    // An array of a dtype that we do not support, such as strings, is not an array here.
    match array::tensor(x) {
        Ok(Some(tensor)) => Ok(numpy_number(x, &Operand { tensor, raw: true })?.is_none()),
        _ => Ok(false),
    }
}

/// Which objects `_flatten` unpacks.
enum Containers<'a, 'py> {
    All,
    /// Instances of a class or of a tuple of classes.
    Of(&'a Object<'py>),
    /// The result of a function: True for a leaf, False for a static object, None for a container.
    By(&'a Object<'py>),
}

impl<'a, 'py> Containers<'a, 'py> {
    fn new(given: Option<&'a Object<'py>>) -> Self {
        match given {
            None => Containers::All,
            Some(x) if x.is_instance_of::<PyType>() || x.is_instance_of::<PyTuple>() => {
                Containers::Of(x)
            }
            Some(x) => Containers::By(x),
        }
    }

    fn visit(&self, x: &Object<'py>) -> PyResult<Visit<'py>> {
        let is_leaf = match self {
            Containers::All => !is_container(x)?,
            Containers::Of(classes) => !x.is_instance(classes)?,
            Containers::By(visit) => match visit.call1((x,))?.extract::<Option<bool>>()? {
                Some(false) => return Ok(Visit::Static),
                leaf => leaf.is_some(),
            },
        };
        Ok(match is_leaf {
            true => Visit::Leaf { raw: false },
            false => Visit::Inside,
        })
    }
}

/// Paths, leaves and structure. `containers` are the classes that are unpacked, or a function of an object that returns
/// True for a leaf, False for a static object and None for a container; by default all containers are.
#[pyfunction]
#[pyo3(signature = (tree, containers=None, /))]
fn _flatten<'py>(
    tree: &Object<'py>,
    containers: Option<&Object<'py>>,
) -> PyResult<(Vec<Bound<'py, PyTuple>>, Vec<Object<'py>>, TreeDef)> {
    let py = tree.py();
    let containers = Containers::new(containers);
    let (mut paths, mut leaves) = (Vec::new(), Vec::new());
    let structure = walk(tree, &mut |x, path| {
        let found = containers.visit(x)?;
        if let Visit::Leaf { .. } = found {
            paths.push(PyTuple::new(py, path.keys(py)?)?);
            leaves.push(x.clone());
        }
        Ok(found)
    })?;
    Ok((paths, leaves, TreeDef::of(structure)))
}

/// Pairs of path and leaf, the path as text with `/` between keys. `containers` as in `_flatten`.
#[pyfunction]
#[pyo3(signature = (tree, containers=None, /))]
fn _entries<'py>(
    tree: &Object<'py>,
    containers: Option<&Object<'py>>,
) -> PyResult<Vec<(String, Object<'py>)>> {
    let containers = Containers::new(containers);
    let mut entries = Vec::new();
    walk(tree, &mut |x, path| {
        let found = containers.visit(x)?;
        if let Visit::Leaf { .. } = found {
            entries.push((path.join("/"), x.clone()));
        }
        Ok(found)
    })?;
    Ok(entries)
}

/// Pairs of path and array, as `_entries`; other leaves are left out.
#[pyfunction]
#[pyo3(signature = (tree, /))]
fn _arrays<'py>(tree: &Object<'py>) -> PyResult<Vec<(String, Object<'py>)>> {
    let mut entries = Vec::new();
    walk(tree, &mut |x, path| {
        if is_builtin(x) || !is_array(x)? {
            return Ok(Visit::Inside);
        }
        entries.push((path.join("/"), x.clone()));
        Ok(Visit::Leaf { raw: false })
    })?;
    Ok(entries)
}

/// The structure without references to leaves: objects that are copied on unflattening hold `None` instead.
#[pyfunction]
#[pyo3(signature = (tree, containers, /))]
fn _released<'py>(tree: &Object<'py>, containers: &Object<'py>) -> PyResult<TreeDef> {
    let py = tree.py();
    let TreeDef {
        mut structure,
        count,
    } = _flatten(tree, Some(containers))?.2;
    structure.release(py)?;
    Ok(TreeDef { structure, count })
}

/// The core's result of a Python function, with the caller's own exception kept.
pub fn called<T>(py: Python<'_>, out: PyResult<T>) -> Result<T> {
    out.map_err(|e| clematis_bridge::error::own(py, e))
}

/// Adds the functions to `tree`.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    use crate::pytree_node::{_children, _rebuild, register};
    m.add_class::<TreeDef>()?;
    crate::plain_functions!(m; flatten_tree unflatten structure_of map_tree map_with_path leaves_of paths_of is_array register
        _flatten _entries _arrays _released _children _rebuild);
    Ok(())
}
