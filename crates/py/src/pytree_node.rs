//! Pytree nodes: which Python objects are containers, their children, and how they are rebuilt with other children.
//!
//! Containers are dicts, lists, tuples, named tuples, dataclasses, classes registered by `cm.tree.register`, and objects
//! with `__tree_flatten__()` and `__tree_unflatten__(inside)`. The rest of the package uses this file.

use crate::error::exception;
use clematis_bridge::error::unless_failed;
use clematis_core::Kind as ErrorKind;
pub use clematis_nn::checkpoint::DEPTH;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};
use std::sync::atomic::{AtomicBool, Ordering};

pub type Object<'py> = Bound<'py, PyAny>;

/// A container without its children.
pub struct Node {
    pub kind: Kind,
    pub keys: Keys,
}

/// The kind of a container, with what it takes to rebuild one.
pub enum Kind {
    Dict,
    /// An instance of a subclass of dict.
    DictLike(Py<PyAny>),
    List,
    Tuple,
    NamedTuple(Py<PyType>),
    /// A dataclass instance.
    Dataclass(Py<PyAny>),
    /// An object with `__tree_flatten__`; its only child is the result of that method.
    Protocol(Py<PyAny>),
    Registered {
        class: Py<PyType>,
        unflatten: Py<PyAny>,
        aux: Py<PyAny>,
    },
}

/// The keys of a container's children.
pub enum Keys {
    /// 0, 1, …
    Index(usize),
    /// The keys of a dict, or the names of fields.
    Named(Vec<Py<PyAny>>),
    /// One child that adds nothing to the path.
    Transparent,
}

impl Keys {
    pub fn len(&self) -> usize {
        match self {
            Keys::Index(n) => *n,
            Keys::Named(names) => names.len(),
            Keys::Transparent => 1,
        }
    }

    /// The key of a child; `None` if it adds nothing to the path.
    pub fn get<'py>(&self, py: Python<'py>, i: usize) -> PyResult<Option<Object<'py>>> {
        Ok(match self {
            Keys::Index(_) => Some(i.into_pyobject(py)?.into_any()),
            Keys::Named(names) => Some(names[i].bind(py).clone()),
            Keys::Transparent => None,
        })
    }

    /// Whether both are positions or both are names.
    pub fn is_like(&self, other: &Keys) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// The keys as a list, for messages.
    pub fn text(&self, py: Python<'_>) -> PyResult<String> {
        let keys = (0..self.len()).map(|i| self.get(py, i));
        let keys = keys.collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, keys)?.repr()?.to_string())
    }

    /// The index of the child with a key that equals this container's `i`-th.
    pub fn find(&self, py: Python<'_>, other: &Keys, i: usize) -> PyResult<Option<usize>> {
        let (Keys::Named(own), Keys::Named(names)) = (self, other) else {
            return Ok((i < self.len()).then_some(i));
        };
        let name = names[i].bind(py);
        // Dicts that were built alike have the same order.
        let guess = own.get(i).into_iter().map(|key| (i, key));
        for (at, key) in guess.chain(own.iter().enumerate()) {
            if key.is(name) || key.bind(py).eq(name)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }
}

/// Functions of registered classes: class → (flatten, unflatten).
static REGISTRY: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
/// Whether any class was registered.
static IS_USED: AtomicBool = AtomicBool::new(false);

/// Registers a class as a pytree node.
///
/// Parameters
/// ----------
/// cls : type
///     The class. Subclasses are registered separately.
/// flatten : callable
///     `flatten(x)` returns the pair `(children, aux)`: a list or dict of what `x` holds, and any other data.
/// unflatten : callable
///     `unflatten(aux, children)` returns an object like `x` with these children.
///
/// Raises
/// ------
/// ArgumentError
/// If the class is registered already, or is a built-in container of Python.
///
///     >>> class Pair:
///     ...     def __init__(self, left, right):
///     ...         self.left, self.right = left, right
///     >>> cm.tree.register(Pair, lambda p: ({"left": p.left, "right": p.right}, None), lambda _, kw: Pair(**kw))
///     >>> cm.tree.paths([Pair(1.0, 2.0)])
///     ['0.left', '0.right']
#[pyfunction]
#[pyo3(signature = (cls, flatten, unflatten, /))]
pub fn register(
    cls: &Bound<'_, PyType>,
    flatten: &Object<'_>,
    unflatten: &Object<'_>,
) -> PyResult<()> {
    let py = cls.py();
    let builtin = cls.is_subclass_of::<PyDict>()?
        || cls.is_subclass_of::<PyList>()?
        || cls.is_subclass_of::<PyTuple>()?;
    let registry = REGISTRY
        .get_or_init(py, || PyDict::new(py).unbind())
        .bind(py);
    if builtin || registry.contains(cls)? {
        return Err(exception(
            ErrorKind::Value,
            format!("tree.register: {} is registered already", cls.name()?),
        ));
    }
    registry.set_item(cls, (flatten, unflatten))?;
    IS_USED.store(true, Ordering::Release);
    Ok(())
}

/// Whether this is a dict, list or tuple.
#[inline]
pub fn is_builtin(x: &Object<'_>) -> bool {
    x.is_instance_of::<PyDict>() || x.is_instance_of::<PyList>() || x.is_instance_of::<PyTuple>()
}

/// Whether `children` returns something, without asking for the children.
pub fn is_container(x: &Object<'_>) -> PyResult<bool> {
    Ok(is_builtin(x) || class_of(x)?.is_some())
}

/// Whether the object has `__tree_flatten__`, as modules have.
pub fn is_protocol(x: &Object<'_>) -> PyResult<bool> {
    Ok(!is_builtin(x) && matches!(class_of(x)?, Some(Protocol::Flatten)))
}

/// A container and its children; `None` for anything else.
pub fn children<'py>(x: &Object<'py>) -> PyResult<Option<(Node, Vec<Object<'py>>)>> {
    if let Some(found) = builtin_children(x)? {
        return Ok(Some(found));
    }
    object_children(x)
}

/// `children` of Python's own containers.
#[inline]
pub fn builtin_children<'py>(x: &Object<'py>) -> PyResult<Option<(Node, Vec<Object<'py>>)>> {
    let py = x.py();
    if let Ok(dict) = x.cast::<PyDict>() {
        let mut keys = Vec::with_capacity(dict.len());
        let mut parts = Vec::with_capacity(dict.len());
        for (key, value) in dict.iter() {
            keys.push(key.unbind());
            parts.push(value);
        }
        let kind = match x.cast_exact::<PyDict>() {
            Ok(_) => Kind::Dict,
            Err(_) => Kind::DictLike(x.clone().unbind()),
        };
        let keys = Keys::Named(keys);
        return Ok(Some((Node { kind, keys }, parts)));
    }
    if let Ok(list) = x.cast::<PyList>() {
        let parts: Vec<_> = list.iter().collect();
        let (kind, keys) = (Kind::List, Keys::Index(parts.len()));
        return Ok(Some((Node { kind, keys }, parts)));
    }
    if let Ok(tuple) = x.cast::<PyTuple>() {
        let parts: Vec<_> = tuple.iter().collect();
        let class = x.get_type();
        let is_named =
            x.cast_exact::<PyTuple>().is_err() && class.hasattr(intern!(py, "_fields"))?;
        let kind = match is_named {
            true => Kind::NamedTuple(class.unbind()),
            false => Kind::Tuple,
        };
        let keys = Keys::Index(parts.len());
        return Ok(Some((Node { kind, keys }, parts)));
    }
    Ok(None)
}

/// What makes an object of a class other than Python's own a container.
enum Protocol<'py> {
    Registered(Object<'py>),
    Flatten,
    Dataclass,
}

fn class_of<'py>(x: &Object<'py>) -> PyResult<Option<Protocol<'py>>> {
    let py = x.py();
    // A class object has the attributes of its instances.
    if x.is_instance_of::<PyType>() {
        return Ok(None);
    }
    let class = x.get_type();
    if IS_USED.load(Ordering::Acquire)
        && let Some(registry) = REGISTRY.get(py)
        && let Some(functions) = registry.bind(py).get_item(&class)?
    {
        return Ok(Some(Protocol::Registered(functions)));
    }
    if class.hasattr(intern!(py, "__tree_flatten__"))? {
        return Ok(Some(Protocol::Flatten));
    }
    let is_dataclass = class.hasattr(intern!(py, "__dataclass_fields__"))?;
    Ok(is_dataclass.then_some(Protocol::Dataclass))
}

/// `children` of objects of other classes.
fn object_children<'py>(x: &Object<'py>) -> PyResult<Option<(Node, Vec<Object<'py>>)>> {
    let py = x.py();
    Ok(match class_of(x)? {
        None => None,
        Some(Protocol::Registered(functions)) => {
            Some(registered_children(x, x.get_type(), &functions)?)
        }
        Some(Protocol::Flatten) => {
            let inside = x.call_method0(intern!(py, "__tree_flatten__"))?;
            let (kind, keys) = (Kind::Protocol(x.clone().unbind()), Keys::Transparent);
            Some((Node { kind, keys }, vec![inside]))
        }
        Some(Protocol::Dataclass) => {
            let (mut names, mut parts) = (Vec::new(), Vec::new());
            for name in field_names(x)? {
                parts.push(x.getattr(&name)?);
                names.push(name.into_any().unbind());
            }
            let (kind, keys) = (Kind::Dataclass(x.clone().unbind()), Keys::Named(names));
            Some((Node { kind, keys }, parts))
        }
    })
}

fn registered_children<'py>(
    x: &Object<'py>,
    class: Bound<'py, PyType>,
    functions: &Object<'py>,
) -> PyResult<(Node, Vec<Object<'py>>)> {
    let flat = functions.get_item(0)?.call1((x,))?;
    let pair: Option<(Object<'py>, Object<'py>)> = flat.extract().ok();
    let inside = match &pair {
        Some((inside, _)) => builtin_children(inside)?,
        None => None,
    };
    let (Some((_, aux)), Some((node, parts))) = (pair, inside) else {
        return Err(exception(
            ErrorKind::Value,
            format!(
                "tree: expected flatten of {} to return (list or dict of children, aux), got {}",
                class.name()?,
                flat.repr()?
            ),
        ));
    };
    let kind = Kind::Registered {
        class: class.unbind(),
        unflatten: functions.get_item(1)?.unbind(),
        aux: aux.unbind(),
    };
    let keys = node.keys;
    Ok((Node { kind, keys }, parts))
}

/// The names of a dataclass's fields that have a value.
fn field_names<'py>(x: &Object<'py>) -> PyResult<Vec<Bound<'py, PyString>>> {
    let fields = x.py().import(intern!(x.py(), "dataclasses"))?;
    let mut names = Vec::new();
    for field in fields
        .call_method1(intern!(x.py(), "fields"), (x,))?
        .try_iter()?
    {
        let name = field?
            .getattr(intern!(x.py(), "name"))?
            .cast_into::<PyString>()?;
        if x.hasattr(&name)? {
            names.push(name);
        }
    }
    Ok(names)
}

impl Node {
    /// A container like this one with other children.
    pub fn rebuild<'py>(&self, py: Python<'py>, parts: Vec<Object<'py>>) -> PyResult<Object<'py>> {
        match &self.kind {
            Kind::Dict => Ok(self.dict(py, parts)?.into_any()),
            Kind::DictLike(object) => rebuild_dict(object.bind(py), self.dict(py, parts)?),
            Kind::List => Ok(PyList::new(py, parts)?.into_any()),
            Kind::Tuple => Ok(PyTuple::new(py, parts)?.into_any()),
            Kind::NamedTuple(class) => class.bind(py).call1(PyTuple::new(py, parts)?),
            Kind::Dataclass(object) => with_fields(object.bind(py), self.dict(py, parts)?),
            Kind::Protocol(object) => {
                let inside = PyTuple::new(py, parts)?;
                let name = intern!(py, "__tree_unflatten__");
                object.bind(py).call_method1(name, inside)
            }
            Kind::Registered { unflatten, aux, .. } => {
                let inside = match &self.keys {
                    Keys::Named(_) => self.dict(py, parts)?.into_any(),
                    _ => PyList::new(py, parts)?.into_any(),
                };
                unflatten.bind(py).call1((aux, inside))
            }
        }
    }

    fn dict<'py>(&self, py: Python<'py>, parts: Vec<Object<'py>>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        if let Keys::Named(names) = &self.keys {
            for (name, part) in names.iter().zip(parts) {
                out.set_item(name, part)?;
            }
        }
        Ok(out)
    }

    /// Replaces the object that a rebuild starts from, for a caller that keeps the node but not the arrays.
    pub fn set_object(&mut self, new: Py<PyAny>) {
        match &mut self.kind {
            Kind::DictLike(object) | Kind::Dataclass(object) | Kind::Protocol(object) => {
                *object = new;
            }
            _ => {}
        }
    }

    /// The class of the container; `None` for Python's own.
    pub fn class<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyType>> {
        match &self.kind {
            Kind::Dict | Kind::List | Kind::Tuple => None,
            Kind::DictLike(object) | Kind::Dataclass(object) | Kind::Protocol(object) => {
                Some(object.bind(py).get_type())
            }
            Kind::NamedTuple(class) | Kind::Registered { class, .. } => {
                Some(class.bind(py).clone())
            }
        }
    }
}

/// An instance of a dict subclass with these entries.
fn rebuild_dict<'py>(object: &Object<'py>, entries: Bound<'py, PyDict>) -> PyResult<Object<'py>> {
    let (py, class) = (object.py(), object.get_type());
    if class.hasattr(intern!(py, "default_factory"))? {
        return class.call1((object.getattr(intern!(py, "default_factory"))?, entries));
    }
    if let Some(out) = unless_failed(py, class.call1((&entries,)))? {
        return Ok(out);
    }
    // The constructor has another signature: a copy gets the entries.
    let copy = py
        .import(intern!(py, "copy"))?
        .call_method1("copy", (object,))?;
    copy.call_method1(intern!(py, "update"), (entries,))?;
    Ok(copy)
}

/// A copy of a dataclass with other values in its fields. It does not call `__init__`, which need not take all fields.
fn with_fields<'py>(object: &Object<'py>, fields: Bound<'py, PyDict>) -> PyResult<Object<'py>> {
    let py = object.py();
    let out = py
        .import(intern!(py, "copy"))?
        .call_method1("copy", (object,))?;
    // `object.__setattr__` also works on frozen dataclasses.
    let class = py.get_type::<PyAny>();
    for (name, value) in fields.iter() {
        class.call_method1(intern!(py, "__setattr__"), (&out, name, value))?;
    }
    Ok(out)
}

/// Keys and children of a container, one level deep; `None` for anything else. What `__tree_flatten__` returns stands for
/// its object.
#[pyfunction]
#[pyo3(signature = (x, /))]
pub fn _children<'py>(x: &Object<'py>) -> PyResult<Option<Vec<(Object<'py>, Object<'py>)>>> {
    let Some((node, parts)) = children(x)? else {
        return Ok(None);
    };
    if let (Keys::Transparent, [inside]) = (&node.keys, parts.as_slice()) {
        return _children(inside);
    }
    let pair = |(i, part)| {
        Ok((
            node.keys
                .get(x.py(), i)?
                .unwrap_or_else(|| x.py().None().into_bound(x.py())),
            part,
        ))
    };
    parts
        .into_iter()
        .enumerate()
        .map(pair)
        .collect::<PyResult<_>>()
        .map(Some)
}

/// A container like `x` with other children.
#[pyfunction]
#[pyo3(signature = (x, parts, /))]
pub fn _rebuild<'py>(x: &Object<'py>, parts: Vec<Object<'py>>) -> PyResult<Object<'py>> {
    let Some((node, inside)) = children(x)? else {
        return Err(exception(
            ErrorKind::Structure,
            format!("tree: expected a container, got {}", x.get_type().name()?),
        ));
    };
    if let (Keys::Transparent, [inside]) = (&node.keys, inside.as_slice()) {
        return node.rebuild(x.py(), vec![_rebuild(inside, parts)?]);
    }
    node.rebuild(x.py(), parts)
}

/// The error for a pytree that is nested deeper than `DEPTH`, as one that contains itself is.
#[cold]
pub fn too_deep(op: &str, is_cycle: bool) -> PyErr {
    let message = match is_cycle {
        true => format!("{op}: expected a tree, got a container that contains itself"),
        false => format!(
            "{op}: expected at most {DEPTH} levels of nested containers, got more\n  note: does a container contain itself?"
        ),
    };
    exception(ErrorKind::Value, message)
}
