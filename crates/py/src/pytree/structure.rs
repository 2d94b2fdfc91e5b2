//! The structure of a pytree: flattening with any leaf predicate, and rebuilding from leaves.

use crate::error::exception;
use crate::operand::give;
use crate::pytree_node::{DEPTH, Keys, Kind, Node, Object, children, too_deep};
use clematis_core::{Kind as ErrorKind, Tensor};
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A pytree without its leaves.
pub enum Structure {
    Leaf {
        /// Whether it was a framework's own array, and is returned as one.
        raw: bool,
    },
    /// An object that is neither a leaf nor a container; part of the structure.
    Static(Py<PyAny>),
    Node(Node, Vec<Structure>),
}

/// How an object is treated by one flattening.
pub enum Visit<'py> {
    Leaf {
        raw: bool,
    },
    Static,
    /// A container if it can be one, else static.
    Inside,
    /// An object with `__tree_unflatten__`, whose child this is.
    Holds(Object<'py>),
}

/// One step of a path.
#[derive(Clone)]
enum Step<'py> {
    Index(usize),
    Key(Object<'py>),
}

/// The path from the root to the current object.
#[derive(Default)]
pub struct Path<'py> {
    steps: Vec<Step<'py>>,
}

impl<'py> Path<'py> {
    /// The keys as Python objects.
    pub fn keys(&self, py: Python<'py>) -> PyResult<Vec<Object<'py>>> {
        let key = |step: &Step<'py>| match step {
            Step::Index(i) => Ok(i.into_pyobject(py)?.into_any()),
            Step::Key(key) => Ok(key.clone()),
        };
        self.steps.iter().map(key).collect()
    }
}

impl Path<'_> {
    /// The keys as text.
    pub fn join(&self, separator: &str) -> String {
        let mut text = String::new();
        for (i, step) in self.steps.iter().enumerate() {
            if i > 0 {
                text.push_str(separator);
            }
            match step {
                Step::Index(i) => text.push_str(&i.to_string()),
                Step::Key(key) => match key.cast::<PyString>().map(|key| key.to_str()) {
                    Ok(Ok(key)) => text.push_str(key),
                    _ => text.push_str(&key.to_string()),
                },
            }
        }
        text
    }
}

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.join("."))
    }
}

/// Walks a pytree depth first; `visit` is called with every object before its children.
pub fn walk<'py>(
    x: &Object<'py>,
    visit: &mut dyn FnMut(&Object<'py>, &Path<'py>) -> PyResult<Visit<'py>>,
) -> PyResult<Structure> {
    let mut walker = Walker {
        visit,
        path: Path::default(),
        above: Vec::new(),
    };
    walker.add(x)
}

struct Walker<'v, 'py> {
    visit: &'v mut dyn FnMut(&Object<'py>, &Path<'py>) -> PyResult<Visit<'py>>,
    path: Path<'py>,
    /// The addresses of the containers around the current object.
    above: Vec<usize>,
}

impl<'py> Walker<'_, 'py> {
    fn add(&mut self, x: &Object<'py>) -> PyResult<Structure> {
        match (self.visit)(x, &self.path)? {
            Visit::Leaf { raw } => Ok(Structure::Leaf { raw }),
            Visit::Static => Ok(Structure::Static(x.clone().unbind())),
            Visit::Inside => match children(x)? {
                Some((node, parts)) => self.node(x, node, &parts),
                None => Ok(Structure::Static(x.clone().unbind())),
            },
            Visit::Holds(inside) => {
                let (kind, keys) = (Kind::Protocol(x.clone().unbind()), Keys::Transparent);
                self.node(x, Node { kind, keys }, &[inside])
            }
        }
    }

    fn node(&mut self, x: &Object<'py>, node: Node, parts: &[Object<'py>]) -> PyResult<Structure> {
        let address = x.as_ptr() as usize;
        if self.above.len() >= DEPTH {
            return Err(too_deep("tree", self.above.contains(&address)));
        }
        self.above.push(address);
        let mut inside = Vec::with_capacity(parts.len());
        for (i, part) in parts.iter().enumerate() {
            let step = match &node.keys {
                Keys::Index(_) => Some(Step::Index(i)),
                Keys::Named(names) => Some(Step::Key(names[i].bind(x.py()).clone())),
                Keys::Transparent => None,
            };
            let is_named = step.is_some();
            self.path.steps.extend(step);
            let part = self.add(part);
            if is_named {
                self.path.steps.pop();
            }
            inside.push(part?);
        }
        self.above.pop();
        Ok(Structure::Node(node, inside))
    }
}

/// What the leaves of a rebuilt pytree are.
#[derive(Clone, Copy)]
enum Output {
    Tensors,
    /// A framework's own array where the leaf was one, else a tensor.
    SameKind,
    /// Framework arrays.
    Arrays,
}

impl Structure {
    /// Rebuilds the pytree from tensors; leaves that were a framework's own arrays are returned as such, unless `tensors`.
    pub fn build<'py>(
        &self,
        py: Python<'py>,
        leaves: &[Tensor],
        tensors: bool,
    ) -> PyResult<Object<'py>> {
        let output = match tensors {
            true => Output::Tensors,
            false => Output::SameKind,
        };
        self.unflatten_tensors(py, leaves, output)
    }

    /// Rebuilds the pytree of results: framework arrays if the arguments were such, else tensors.
    pub fn results<'py>(
        &self,
        py: Python<'py>,
        leaves: &[Tensor],
        raw: bool,
    ) -> PyResult<Object<'py>> {
        let output = if raw { Output::Arrays } else { Output::Tensors };
        self.unflatten_tensors(py, leaves, output)
    }

    fn unflatten_tensors<'py>(
        &self,
        py: Python<'py>,
        leaves: &[Tensor],
        output: Output,
    ) -> PyResult<Object<'py>> {
        let mut leaves = leaves.iter();
        self.rebuild(py, &mut |raw| {
            let leaf = leaves.next().ok_or_else(missing)?.clone();
            let raw = match output {
                Output::Tensors => false,
                Output::SameKind => raw,
                Output::Arrays => true,
            };
            give(py, leaf, raw)
        })
    }

    /// Rebuilds the pytree from any objects.
    pub fn build_from<'py>(
        &self,
        py: Python<'py>,
        leaves: impl IntoIterator<Item = Object<'py>>,
    ) -> PyResult<Object<'py>> {
        let mut leaves = leaves.into_iter();
        self.rebuild(py, &mut |_| leaves.next().ok_or_else(missing))
    }

    fn rebuild<'py>(
        &self,
        py: Python<'py>,
        next: &mut dyn FnMut(bool) -> PyResult<Object<'py>>,
    ) -> PyResult<Object<'py>> {
        match self {
            Structure::Leaf { raw } => next(*raw),
            Structure::Static(x) => Ok(x.bind(py).clone()),
            Structure::Node(node, parts) => {
                let mut inside = Vec::with_capacity(parts.len());
                for part in parts {
                    inside.push(part.rebuild(py, next)?);
                }
                node.rebuild(py, inside)
            }
        }
    }

    /// Calls `f` with the flag of each leaf, in order.
    pub fn each_leaf(&self, f: &mut dyn FnMut(bool)) {
        match self {
            Structure::Leaf { raw } => f(*raw),
            Structure::Static(_) => {}
            Structure::Node(_, parts) => parts.iter().for_each(|part| part.each_leaf(f)),
        }
    }

    /// Whether a leaf was a framework's own array.
    pub fn is_raw(&self) -> bool {
        let mut found = false;
        self.each_leaf(&mut |raw| found |= raw);
        found
    }

    /// Releases the leaves that copied objects hold: each is replaced by a copy whose leaves are `None`.
    pub fn release<'py>(&mut self, py: Python<'py>) -> PyResult<Object<'py>> {
        match self {
            Structure::Leaf { .. } => Ok(py.None().into_bound(py)),
            Structure::Static(x) => Ok(x.bind(py).clone()),
            Structure::Node(node, parts) => {
                let mut inside = Vec::with_capacity(parts.len());
                for part in parts {
                    inside.push(part.release(py)?);
                }
                let out = node.rebuild(py, inside)?;
                node.set_object(out.clone().unbind());
                Ok(out)
            }
        }
    }

    /// The leaves of another pytree of this structure, in this one's order. Containers match if they have the same keys;
    /// an error names the first difference.
    pub fn leaves_of<'py>(
        &self,
        op: &str,
        x: &Object<'py>,
        out: &mut Vec<Object<'py>>,
    ) -> PyResult<()> {
        self.add_leaves(op, x, &mut Path::default(), out)
    }

    fn add_leaves<'py>(
        &self,
        op: &str,
        x: &Object<'py>,
        path: &mut Path<'py>,
        out: &mut Vec<Object<'py>>,
    ) -> PyResult<()> {
        let py = x.py();
        let (node, parts) = match self {
            Structure::Leaf { .. } => {
                out.push(x.clone());
                return Ok(());
            }
            Structure::Static(_) => return Ok(()),
            Structure::Node(node, parts) => (node, parts),
        };
        if let (Keys::Transparent, [part]) = (&node.keys, parts.as_slice()) {
            // An object with `__tree_flatten__` matches its contents.
            let inside = match children(x)? {
                Some((other, mut inside)) if matches!(other.keys, Keys::Transparent) => {
                    inside.swap_remove(0)
                }
                _ => x.clone(),
            };
            return part.add_leaves(op, &inside, path, out);
        }
        let (other, inside) = match children(x)? {
            Some((other, inside)) if matches!(other.keys, Keys::Transparent) => {
                return self.add_leaves(op, &inside[0], path, out);
            }
            Some(found) => found,
            None => return Err(differs(op, self, x, path)),
        };
        if !other.keys.is_like(&node.keys) || node.keys.len() != other.keys.len() {
            return Err(differs(op, self, x, path));
        }
        for (i, part) in parts.iter().enumerate() {
            let Some(at) = other.keys.find(py, &node.keys, i)? else {
                return Err(differs(op, self, x, path));
            };
            let step = match &node.keys {
                Keys::Named(names) => Step::Key(names[i].bind(py).clone()),
                _ => Step::Index(i),
            };
            path.steps.push(step);
            part.add_leaves(op, &inside[at], path, out)?;
            path.steps.pop();
        }
        Ok(())
    }

    /// Whether both have the same containers, keys in the same order, and equal static objects.
    pub fn is_same(&self, py: Python<'_>, other: &Structure) -> PyResult<bool> {
        match (self, other) {
            (Structure::Leaf { .. }, Structure::Leaf { .. }) => Ok(true),
            (Structure::Static(a), Structure::Static(b)) => Ok(a.is(b) || a.bind(py).eq(b)?),
            (Structure::Node(a, xs), Structure::Node(b, ys)) => {
                let same_kind = std::mem::discriminant(&a.kind) == std::mem::discriminant(&b.kind)
                    && match (a.class(py), b.class(py)) {
                        (Some(a), Some(b)) => a.is(&b),
                        (None, None) => true,
                        _ => false,
                    };
                if !same_kind || xs.len() != ys.len() {
                    return Ok(false);
                }
                if let (Kind::Registered { aux: a, .. }, Kind::Registered { aux: b, .. }) =
                    (&a.kind, &b.kind)
                    && !a.bind(py).eq(b)?
                {
                    return Ok(false);
                }
                for (i, (x, y)) in xs.iter().zip(ys).enumerate() {
                    let same_key = match (&a.keys, &b.keys) {
                        (Keys::Named(a), Keys::Named(b)) => a[i].bind(py).eq(&b[i])?,
                        _ => true,
                    };
                    if !same_key || !x.is_same(py, y)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// The structure as text: a leaf is `*`.
    pub fn text(&self, py: Python<'_>) -> PyResult<String> {
        let (node, parts) = match self {
            Structure::Leaf { .. } => return Ok("*".into()),
            Structure::Static(x) => return Ok(x.bind(py).repr()?.to_string()),
            Structure::Node(node, parts) => (node, parts),
        };
        let class = match node.class(py) {
            Some(class) => class.name()?.to_string(),
            None => String::new(),
        };
        let mut inside = Vec::with_capacity(parts.len());
        for (i, part) in parts.iter().enumerate() {
            let part = part.text(py)?;
            inside.push(match (&node.kind, &node.keys) {
                (Kind::Dataclass(_), Keys::Named(names)) => {
                    format!("{}={part}", names[i].bind(py))
                }
                (_, Keys::Named(names)) => format!("{}: {part}", names[i].bind(py).repr()?),
                _ => part,
            });
        }
        let text = inside.join(", ");
        Ok(match (&node.kind, &node.keys) {
            (Kind::Dict, _) => format!("{{{text}}}"),
            (Kind::List, _) => format!("[{text}]"),
            (Kind::Tuple, _) if parts.len() == 1 => format!("({text},)"),
            (Kind::Tuple, _) => format!("({text})"),
            (Kind::Dataclass(_), _) => format!("{class}({text})"),
            (_, Keys::Named(_)) => format!("{class}({{{text}}})"),
            _ => format!("{class}({text})"),
        })
    }
}

fn missing() -> PyErr {
    exception(ErrorKind::Internal, "tree: a leaf is missing")
}

#[cold]
fn differs(op: &str, structure: &Structure, x: &Object<'_>, path: &Path<'_>) -> PyErr {
    let describe = || -> PyResult<PyErr> {
        let py = x.py();
        let mut wanted = structure.text(py)?;
        let own = walk(x, &mut |_, _| Ok(Visit::Inside))?;
        let mut got = match own {
            Structure::Static(_) => x.get_type().name()?.to_string(),
            own => own.text(py)?,
        };
        for text in [&mut wanted, &mut got] {
            if text.chars().count() > 80 {
                *text = text.chars().take(79).chain(['…']).collect();
            }
        }
        let place = match path.to_string() {
            root if root.is_empty() => String::new(),
            path => format!(" at `{path}`"),
        };
        Ok(exception(
            ErrorKind::Structure,
            format!("{op}: expected the structure {wanted}{place}, got {got}"),
        ))
    };
    describe().unwrap_or_else(|e| e)
}
