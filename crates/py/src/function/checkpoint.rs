//! Checkpoints: `save` and `load` of pytrees.
//!
//! Arrays are stored as tensors; numbers, strings, booleans and `None` are stored in the metadata with the structure.
//! Other objects are rejected: a file never refers to code, so loading one runs none.

use crate::error::{OrRaise, exception};
use crate::operand::{give, try_operand};
use crate::pytree::{Structure, Visit, walk};
use crate::pytree_node::{Keys, Kind as NodeKind, children, is_builtin, is_container, is_protocol};
use clematis_bridge::array;
use clematis_core::{Kind, Tensor, backend, ops};
use clematis_nn::checkpoint::{self, DEPTH, Difference, Key, Reader, Structure as FileStructure};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyDict, PyFloat, PyInt, PyList, PyModule, PyString, PyTuple};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

type Object<'py> = Bound<'py, PyAny>;

/// A pytree that is being serialized.
#[derive(Default)]
struct Saved {
    tensors: Vec<(String, Tensor)>,
    at: Vec<String>,
}

impl Saved {
    fn add(&mut self, x: &Object<'_>) -> PyResult<FileStructure> {
        if self.at.len() > DEPTH {
            return Err(self.refused(&format!("the tree is nested deeper than {DEPTH}")));
        }
        if let Some(plain) = plain(x).map_err(|what| self.refused(&what))? {
            return Ok(plain);
        }
        if !is_builtin(x)
            && let Some(leaf) = try_operand(x)?
        {
            self.tensors.push((self.at.join("."), leaf.tensor));
            return Ok(FileStructure::Tensor);
        }
        if let Some((node, parts)) = children(x)? {
            return Ok(match (&node.kind, &node.keys) {
                (_, Keys::Transparent) => self.add(&inside(x)?)?,
                (NodeKind::Tuple | NodeKind::NamedTuple(_), _) => {
                    FileStructure::Tuple(self.items(parts)?)
                }
                (_, Keys::Index(_)) => FileStructure::List(self.items(parts)?),
                (_, Keys::Named(names)) => {
                    let mut entries = Vec::with_capacity(parts.len());
                    for (name, value) in names.iter().zip(&parts) {
                        let key = self.key(name.bind(x.py()))?;
                        let part = self.within(key.to_string(), value)?;
                        entries.push((key, part));
                    }
                    FileStructure::Dict(entries)
                }
            });
        }
        let class = x.get_type();
        let class = class.name()?;
        Err(self.refused(&format!("an object of class {class} cannot be saved")))
    }

    fn items(&mut self, items: Vec<Object<'_>>) -> PyResult<Vec<FileStructure>> {
        items
            .into_iter()
            .enumerate()
            .map(|(i, x)| self.within(i.to_string(), &x))
            .collect()
    }

    fn within(&mut self, name: String, x: &Object<'_>) -> PyResult<FileStructure> {
        self.at.push(name);
        let out = self.add(x);
        self.at.pop();
        out
    }

    fn key(&self, key: &Object<'_>) -> PyResult<Key> {
        match plain(key).map_err(|what| self.refused(&what))? {
            Some(FileStructure::Text(text)) => Ok(Key::Text(text)),
            Some(FileStructure::Int(v)) => Ok(Key::Int(v)),
            Some(FileStructure::Bool(v)) => Ok(Key::Bool(v)),
            Some(FileStructure::Nothing) => Ok(Key::Nothing),
            _ => Err(self.refused(&format!(
                "a key of class {} cannot be saved",
                key.get_type().name()?
            ))),
        }
    }

    fn refused(&self, what: &str) -> PyErr {
        exception(
            Kind::Io,
            format!("save: at `{}`: {what}", self.at.join(".")),
        )
    }
}

/// A number, string, boolean or `None`. Returns `None` for anything else, and an error for a string that is not valid
/// UTF-8.
fn plain(x: &Object<'_>) -> Result<Option<FileStructure>, String> {
    if x.is_none() {
        return Ok(Some(FileStructure::Nothing));
    }
    if let Ok(v) = x.cast::<PyBool>() {
        return Ok(Some(FileStructure::Bool(v.is_true())));
    }
    if let Ok(text) = x.cast::<PyString>() {
        return match text.extract::<String>() {
            Ok(text) => Ok(Some(FileStructure::Text(text))),
            Err(_) => Err("text that is not Unicode cannot be saved".into()),
        };
    }
    // `numpy.float64` is a subclass of float and an array.
    let is_array = || array::framework_of(x).is_ok_and(|backend| backend.is_some());
    if x.cast::<PyInt>().is_ok() && (x.cast_exact::<PyInt>().is_ok() || !is_array()) {
        return match x.extract::<i64>() {
            Ok(v) => Ok(Some(FileStructure::Int(v))),
            // A subclass of `str` may override `__str__`.
            Err(_) => match x.call_method1("__format__", ("d",)) {
                Ok(digits) => Ok(Some(FileStructure::BigInt(digits.to_string()))),
                Err(_) => Err("an integer of so many digits cannot be saved".into()),
            },
        };
    }
    if let Ok(v) = x.cast::<PyFloat>()
        && (x.cast_exact::<PyFloat>().is_ok() || !is_array())
    {
        return Ok(Some(FileStructure::Float(v.value())));
    }
    if let Ok(v) = x.cast::<PyComplex>()
        && (x.cast_exact::<PyComplex>().is_ok() || !is_array())
    {
        return Ok(Some(FileStructure::Complex(v.real(), v.imag())));
    }
    Ok(None)
}

/// The contents of an object that is a pytree node: all of them, where they differ from what transforms may change.
fn inside<'py>(x: &Object<'py>) -> PyResult<Object<'py>> {
    let py = x.py();
    if x.get_type().hasattr(intern!(py, "__tree_whole__"))? {
        return x.call_method0(intern!(py, "__tree_whole__"));
    }
    x.call_method0(intern!(py, "__tree_flatten__"))
}

/// Saves a pytree of arrays and plain values to a file.
///
/// The file is a safetensors file with the arrays by path; dicts, lists and tuples, numbers, strings, booleans and `None`
/// are stored in its metadata. The file is written to a temporary file beside it and renamed, so a file of this name is
/// always complete. Modules and dataclasses are saved as dicts of their contents.
#[pyfunction]
#[pyo3(signature = (path, tree, /))]
fn save(py: Python<'_>, path: PathBuf, tree: &Object<'_>) -> PyResult<()> {
    let mut saved = Saved::default();
    let structure = saved.add(tree)?;
    py.detach(|| checkpoint::save_structure(&path, &structure, &saved.tensors))
        .or_raise()
}

/// Loads a file that `save` wrote, or any safetensors file, onto the current backend.
///
/// With `like`, a pytree of arrays, the result has the structure of `like`: names, shapes and dtypes must match, and one
/// CheckpointError reports all differences. With `strict=False` leaves that differ keep the value they have in `like`,
/// and the result is a pair of the pytree and a dict of what was skipped, by path.
#[pyfunction]
#[pyo3(signature = (path, /, like=None, *, strict=true))]
fn load<'py>(
    py: Python<'py>,
    path: PathBuf,
    like: Option<&Object<'py>>,
    strict: bool,
) -> PyResult<Object<'py>> {
    let file = py.detach(|| Reader::open(&path)).or_raise()?;
    let (tree, skipped) = match like {
        Some(like) => fill(py, file, &path, like, strict)?,
        None => (alone(py, file)?, Vec::new()),
    };
    if strict {
        return Ok(tree);
    }
    let told = PyDict::new(py);
    for Difference { path, what } in skipped {
        told.set_item(path, what)?;
    }
    Ok(PyTuple::new(py, [tree, told.into_any()])?.into_any())
}

/// The pytree stored in a file.
fn alone(py: Python<'_>, mut file: Reader) -> PyResult<Object<'_>> {
    let mut tensors = HashMap::new();
    for (name, host) in py.detach(|| file.read(|_| true)).or_raise()? {
        tensors.insert(name, ops::from_host(host).or_raise()?);
    }
    decode(py, file.structure(), &mut String::new(), true, &mut tensors)
}

fn decode<'py>(
    py: Python<'py>,
    tree: &FileStructure,
    at: &mut String,
    is_root: bool,
    tensors: &mut HashMap<String, Tensor>,
) -> PyResult<Object<'py>> {
    let mut part = |name: &dyn std::fmt::Display, inside: &FileStructure| {
        let len = at.len();
        if !is_root {
            at.push('.');
        }
        at.push_str(&name.to_string());
        let out = decode(py, inside, at, false, tensors);
        at.truncate(len);
        out
    };
    Ok(match tree {
        FileStructure::List(items) => {
            let items = items.iter().enumerate().map(|(i, x)| part(&i, x));
            PyList::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        FileStructure::Tuple(items) => {
            let items = items.iter().enumerate().map(|(i, x)| part(&i, x));
            PyTuple::new(py, items.collect::<PyResult<Vec<_>>>()?)?.into_any()
        }
        FileStructure::Dict(items) => {
            let out = PyDict::new(py);
            for (key, x) in items {
                let value = part(key, x)?;
                match key {
                    Key::Text(v) => out.set_item(v, value)?,
                    Key::Int(v) => out.set_item(v, value)?,
                    Key::Bool(v) => out.set_item(v, value)?,
                    Key::Nothing => out.set_item(py.None(), value)?,
                }
            }
            out.into_any()
        }
        FileStructure::Tensor => match tensors.remove(at.as_str()) {
            Some(x) => give(py, x, false)?,
            None => return Err(exception(Kind::Internal, "load: a tensor is missing")),
        },
        other => value(py, other)?,
    })
}

/// A plain value as a Python object.
fn value<'py>(py: Python<'py>, tree: &FileStructure) -> PyResult<Object<'py>> {
    Ok(match tree {
        FileStructure::Bool(v) => PyBool::new(py, *v).to_owned().into_any(),
        FileStructure::Int(v) => v.into_pyobject(py)?.into_any(),
        // Python limits the number of digits of an integer, because parsing takes quadratic time.
        FileStructure::BigInt(digits) => py.get_type::<PyInt>().call1((digits,)).map_err(|_| {
            exception(
                Kind::Io,
                format!("load: an integer of {} digits", digits.len()),
            )
        })?,
        FileStructure::Float(v) => PyFloat::new(py, *v).into_any(),
        FileStructure::Complex(re, im) => PyComplex::from_doubles(py, *re, *im).into_any(),
        FileStructure::Text(text) => PyString::new(py, text).into_any(),
        _ => py.None().into_bound(py),
    })
}

/// The type name of a plain value in messages: the name of its Python class.
fn class(tree: &FileStructure) -> &'static str {
    match tree {
        FileStructure::Nothing => "None",
        FileStructure::Bool(_) => "bool",
        FileStructure::Int(_) | FileStructure::BigInt(_) => "int",
        FileStructure::Float(_) => "float",
        FileStructure::Complex(..) => "complex",
        FileStructure::Text(_) => "str",
        FileStructure::List(_)
        | FileStructure::Tuple(_)
        | FileStructure::Dict(_)
        | FileStructure::Tensor => "a pytree",
    }
}

/// A leaf of `like`.
enum Wanted {
    Tensor(Tensor, bool),
    Plain(FileStructure),
    /// An object that files do not store; it is kept.
    Other,
}

/// A leaf of `like` with its path and the object itself.
struct Place<'py> {
    path: String,
    wanted: Wanted,
    now: Object<'py>,
}

/// A pytree with the structure of another and the values of a file.
fn fill<'py>(
    py: Python<'py>,
    mut file: Reader,
    path: &std::path::Path,
    like: &Object<'py>,
    strict: bool,
) -> PyResult<(Object<'py>, Vec<Difference>)> {
    let mut places = Vec::new();
    let structure = places_of(like, &mut places)?;
    let differences = compare(&file, &places);
    if strict && !differences.is_empty() {
        return Err(crate::error::raise(Difference::error(path, &differences)));
    }
    let skipped: HashSet<&str> = differences.iter().map(|d| d.path.as_str()).collect();
    let is_wanted = |place: &Place<'_>| !skipped.contains(place.path.as_str());
    let names: HashSet<&str> = places
        .iter()
        .filter(|p| matches!(p.wanted, Wanted::Tensor(..)) && is_wanted(p))
        .map(|p| p.path.as_str())
        .collect();
    let read = py.detach(|| file.read(|name| names.contains(name)));
    let mut hosts: HashMap<_, _> = read.or_raise()?.into_iter().collect();
    let mut values = HashMap::new();
    file.structure().walk(&mut |path, leaf| {
        if *leaf != FileStructure::Tensor {
            values.insert(path.to_owned(), leaf.clone());
        }
    });
    let mut leaves = Vec::with_capacity(places.len());
    for place in &places {
        let new = match &place.wanted {
            Wanted::Other => None,
            _ if !is_wanted(place) => None,
            Wanted::Plain(_) => values.get(&place.path).map(|v| value(py, v)).transpose()?,
            Wanted::Tensor(old, raw) => match (hosts.remove(&place.path), old.backend()) {
                (Some(host), Some(backend)) => {
                    let x = backend::with(backend, || ops::from_host(host)).or_raise()?;
                    Some(give(py, x, *raw)?)
                }
                (Some(host), None) => Some(give(py, ops::from_host(host).or_raise()?, *raw)?),
                (None, _) => None,
            },
        };
        leaves.push(new.unwrap_or_else(|| place.now.clone()));
    }
    Ok((structure.build_from(py, leaves)?, differences))
}

/// The structure of `like` with every plain value and object as a leaf, and these leaves.
fn places_of<'py>(like: &Object<'py>, places: &mut Vec<Place<'py>>) -> PyResult<Structure> {
    walk(like, &mut |x, path| {
        let wanted = match plain(x) {
            Ok(Some(value)) => Wanted::Plain(value),
            _ => match try_operand(x)? {
                Some(leaf) => Wanted::Tensor(leaf.tensor, leaf.raw),
                None if is_protocol(x)? => return Ok(Visit::Holds(inside(x)?)),
                None if is_container(x)? => return Ok(Visit::Inside),
                None => Wanted::Other,
            },
        };
        places.push(Place {
            path: path.to_string(),
            wanted,
            now: x.clone(),
        });
        Ok(Visit::Leaf { raw: false })
    })
}

/// All differences between the leaves of `like` and those of a file.
fn compare(file: &Reader, places: &[Place<'_>]) -> Vec<Difference> {
    let mut found: HashMap<String, String> = HashMap::new();
    let mut order = Vec::new();
    let mut out = Vec::new();
    file.structure().walk(&mut |path, leaf| {
        let what = match (leaf, file.spec(path)) {
            (FileStructure::Tensor, Some(spec)) => spec.to_string(),
            _ => class(leaf).to_owned(),
        };
        match found.insert(path.to_owned(), what) {
            None => order.push(path.to_owned()),
            Some(_) => out.push(Difference::twice(path, "file")),
        }
    });
    let mut seen = HashSet::new();
    for place in places {
        if !seen.insert(place.path.as_str()) {
            out.push(Difference::twice(&place.path, "tree"));
            continue;
        }
        let own = match &place.wanted {
            Wanted::Tensor(x, _) => x.spec().to_string(),
            Wanted::Plain(tree) => class(tree).to_owned(),
            Wanted::Other => continue,
        };
        let there = found.get(&place.path);
        if there != Some(&own) {
            let there = there.map(String::as_str);
            out.push(Difference::new(&place.path, Some(&own), there));
        }
    }
    for path in &order {
        if !seen.contains(path.as_str()) {
            let there = found.get(path).map(String::as_str);
            out.push(Difference::new(path, None, there));
        }
    }
    out
}

/// Writes a file atomically.
#[pyfunction]
fn _write_file(py: Python<'_>, path: PathBuf, bytes: &[u8]) -> PyResult<()> {
    let bytes = bytes.to_vec();
    py.detach(|| clematis_nn::file::write("save", &path, &bytes))
        .or_raise()
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_write_file, m)?)?;
    crate::plain_functions!(m; save load);
    Ok(())
}
