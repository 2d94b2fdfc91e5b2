//! Maps functions over the leaves of pytrees, and writes results into `out=` arrays.

use crate::error::{OrRaise, exception};
use crate::operand::{is_pytree, items, try_operand};
use crate::pytree_node::{DEPTH, Node, children, too_deep};
use crate::tensor::PyTensor;
use clematis_bridge::error::failed;
use clematis_bridge::{Framework, array};
use clematis_core::{Kind, Repr, Tensor, backend, ops};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

type Object<'py> = Bound<'py, PyAny>;

/// Functions whose first argument is a list of arrays: a list of pytrees is treated as a pytree of lists.
const OF_LISTS: [&str; 2] = ["concat", "stack"];

/// Calls a function with `out=`, or on each leaf of the pytrees among its arguments.
#[pyfunction]
#[pyo3(signature = (function, /, *args, **kwargs))]
pub fn call_on_leaves<'py>(
    function: &Object<'py>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Object<'py>> {
    let name: String = function.getattr("__name__")?.extract()?;
    let of_lists = OF_LISTS.contains(&name.as_str());
    let mut arguments: Vec<Argument<'py>> = Vec::new();
    for (i, x) in args.iter().enumerate() {
        arguments.push(match items(&x) {
            Some(items) if i == 0 && of_lists => Argument::List(items),
            _ => Argument::One(x),
        });
    }
    let mut names = Vec::new();
    let mut out = None;
    for (key, x) in kwargs.into_iter().flatten() {
        let key = key.cast_into::<PyString>()?;
        let word = key.to_string();
        arguments.push(match word.as_str() {
            word if LOOSE.contains(&word) => Argument::Loose(x),
            "out" => {
                out = Some(x.clone()).filter(|x| !x.is_none());
                Argument::Whole(x)
            }
            _ => Argument::One(x),
        });
        names.push(key);
    }
    if let Some(out) = &out {
        let mut spreads = false;
        for x in &arguments {
            spreads |= x.first_tree()?.is_some();
        }
        if spreads && !is_pytree(out)? {
            return Err(exception(
                Kind::Structure,
                format!(
                    "{name}: out is {} beside a pytree of arguments",
                    out.get_type()
                ),
            ));
        }
        if spreads {
            // One entry per leaf; without pytrees, several entries belong to several results.
            for (argument, key) in arguments.iter_mut().skip(args.len()).zip(&names) {
                if *key == "out" {
                    *argument = Argument::One(out.clone());
                }
            }
        }
    }
    let call = Call {
        function,
        name,
        names,
        count: args.len(),
    };
    // A pytree passed as `out` is itself the result.
    let filled = call_fills(&arguments, &call.names, args.len());
    match call.each(arguments, "", 0)? {
        Given::One(x) => match (out, filled) {
            (Some(out), true) => Ok(out),
            _ => Ok(x),
        },
        Given::Several(parts) => Ok(PyTuple::new(function.py(), parts)?.into_any()),
    }
}

/// Whether `out` is a pytree that is filled leaf by leaf.
fn call_fills(arguments: &[Argument<'_>], names: &[Bound<'_, PyString>], count: usize) -> bool {
    let mut named = arguments[count..].iter().zip(names);
    named.any(|(x, name)| *name == "out" && matches!(x, Argument::One(_)))
}

/// Keyword arguments of a function given by the user: mapped if they have the structure of the data, else passed
/// unchanged.
const LOOSE: [&str; 3] = ["to_q_v", "to_kv_v", "to_out_v"];

enum Argument<'py> {
    /// Passed unchanged to every call.
    Whole(Object<'py>),
    /// Mapped over if its containers have the same keys as the mapped pytree's.
    Loose(Object<'py>),
    One(Object<'py>),
    /// A list of arrays, or of pytrees of the same structure.
    List(Vec<Object<'py>>),
}

impl<'py> Argument<'py> {
    fn first_tree(&self) -> PyResult<Option<Object<'py>>> {
        match self {
            Argument::Whole(_) | Argument::Loose(_) => Ok(None),
            Argument::One(x) => Ok(is_pytree(x)?.then(|| x.clone())),
            Argument::List(items) => {
                for x in items {
                    if is_pytree(x)? {
                        return Ok(Some(x.clone()));
                    }
                }
                Ok(None)
            }
        }
    }
}

/// The result for a leaf or a pytree: one result, or several that are a pytree each.
enum Given<'py> {
    One(Object<'py>),
    Several(Vec<Object<'py>>),
}

/// The container that is mapped over at one level, and its path.
struct Level<'a, 'py> {
    tree: &'a Object<'py>,
    node: &'a Node,
    parts: &'a [Object<'py>],
    path: &'a str,
}

impl<'py> Level<'_, 'py> {
    /// The children of an argument in the order of the mapped container's keys; `None` if its keys are others.
    fn aligned(&self, x: &Object<'py>) -> PyResult<Option<Vec<Object<'py>>>> {
        if x.is(self.tree) {
            return Ok(Some(self.parts.to_vec()));
        }
        let Some((node, parts)) = children(x)? else {
            return Ok(None);
        };
        if parts.len() != self.parts.len() || !node.keys.is_like(&self.node.keys) {
            return Ok(None);
        }
        let mut out = Vec::with_capacity(parts.len());
        for i in 0..parts.len() {
            match node.keys.find(x.py(), &self.node.keys, i)? {
                Some(at) => out.push(parts[at].clone()),
                None => return Ok(None),
            }
        }
        Ok(Some(out))
    }

    /// The argument for each child: its own children if it is a pytree, else itself each time.
    fn split(&self, name: &str, x: &Object<'py>) -> PyResult<Vec<Object<'py>>> {
        if !is_pytree(x)? {
            return Ok(vec![x.clone(); self.parts.len()]);
        }
        match self.aligned(x)? {
            Some(parts) => Ok(parts),
            None => Err(self.mismatch(name, x)?),
        }
    }

    fn split_argument(&self, name: &str, x: &Argument<'py>) -> PyResult<Vec<Argument<'py>>> {
        let n = self.parts.len();
        Ok(match x {
            Argument::Whole(x) => (0..n).map(|_| Argument::Whole(x.clone())).collect(),
            Argument::Loose(x) => {
                let parts = if is_pytree(x)? {
                    self.aligned(x)?
                } else {
                    None
                };
                let parts = parts.unwrap_or_else(|| vec![x.clone(); n]);
                parts.into_iter().map(Argument::Loose).collect()
            }
            Argument::One(x) => {
                let parts = self.split(name, x)?;
                parts.into_iter().map(Argument::One).collect()
            }
            Argument::List(items) => {
                let mut columns = vec![Vec::with_capacity(items.len()); n];
                for item in items {
                    for (column, part) in columns.iter_mut().zip(self.split(name, item)?) {
                        column.push(part);
                    }
                }
                columns.into_iter().map(Argument::List).collect()
            }
        })
    }

    #[cold]
    fn mismatch(&self, name: &str, x: &Object<'py>) -> PyResult<PyErr> {
        let place = match self.path {
            "" => String::new(),
            path => format!(" at `{path}`"),
        };
        let wanted = self.node.keys.text(x.py())?;
        let got = match children(x)? {
            Some((node, _)) => format!("the keys {}", node.keys.text(x.py())?),
            None => x.get_type().name()?.to_string(),
        };
        Ok(exception(
            Kind::Structure,
            format!("{name}: expected a pytree with the keys {wanted}{place}, got {got}"),
        ))
    }
}

/// One function and the names of its last arguments.
struct Call<'a, 'py> {
    function: &'a Object<'py>,
    name: String,
    names: Vec<Bound<'py, PyString>>,
    count: usize,
}

impl<'py> Call<'_, 'py> {
    fn each(
        &self,
        arguments: Vec<Argument<'py>>,
        path: &str,
        depth: usize,
    ) -> PyResult<Given<'py>> {
        let mut tree = None;
        for x in &arguments {
            if let Some(found) = x.first_tree()? {
                tree = Some(found);
                break;
            }
        }
        let Some(tree) = tree else {
            return self.leaf(arguments);
        };
        if depth > DEPTH {
            return Err(too_deep(&self.name, false));
        }
        let py = tree.py();
        let Some((node, parts)) = children(&tree)? else {
            return self.leaf(arguments);
        };
        let level = Level {
            tree: &tree,
            node: &node,
            parts: &parts,
            path,
        };
        let mut columns = (0..parts.len()).map(|_| Vec::new()).collect::<Vec<_>>();
        for x in &arguments {
            let split = level.split_argument(&self.name, x)?;
            for (column, part) in columns.iter_mut().zip(split) {
                column.push(part);
            }
        }
        let mut results = Vec::with_capacity(parts.len());
        for (i, (own, inner)) in parts.iter().zip(columns).enumerate() {
            // Strings and None are part of the structure.
            if own.is_none() || own.is_instance_of::<PyString>() {
                results.push(Given::One(own.clone()));
                continue;
            }
            let key = node
                .keys
                .get(py, i)?
                .unwrap_or_else(|| py.None().into_bound(py));
            let at = match path {
                "" => key.to_string(),
                path => format!("{path}/{key}"),
            };
            results.push(self.each(inner, &at, depth + 1)?);
        }
        let count = results.iter().find_map(|p| match p {
            Given::One(_) => None,
            Given::Several(parts) => Some(parts.len()),
        });
        let pick = |i: usize| {
            let pick = |p: &Given<'py>| match p {
                Given::One(x) => x.clone(),
                Given::Several(parts) => parts[i].clone(),
            };
            node.rebuild(py, results.iter().map(pick).collect())
        };
        Ok(match count {
            None => Given::One(pick(0)?),
            Some(count) => Given::Several((0..count).map(pick).collect::<PyResult<_>>()?),
        })
    }

    fn leaf(&self, arguments: Vec<Argument<'py>>) -> PyResult<Given<'py>> {
        let py = self.function.py();
        let mut positional = Vec::with_capacity(self.count);
        let named = PyDict::new(py);
        let mut out = None;
        for (i, x) in arguments.into_iter().enumerate() {
            let x = match x {
                Argument::Whole(x) | Argument::Loose(x) | Argument::One(x) => x,
                Argument::List(items) => PyList::new(py, items)?.into_any(),
            };
            match i.checked_sub(self.count) {
                None => positional.push(x),
                Some(i) if self.names[i] == "out" => out = Some(x).filter(|x| !x.is_none()),
                Some(i) => named.set_item(&self.names[i], x)?,
            }
        }
        let result = self
            .function
            .call(PyTuple::new(py, positional)?, Some(&named))?;
        let result = match out {
            None => result,
            Some(out) => placed(&self.name, result, &out)?,
        };
        match result.cast::<PyTuple>() {
            // A tuple of results differs from one result only within a pytree.
            Ok(parts) => Ok(Given::Several(parts.iter().collect())),
            Err(_) => Ok(Given::One(result)),
        }
    }
}

/// Writes a result into the `out` array of the caller and returns that array; of several results it is the first.
fn placed<'py>(name: &str, result: Object<'py>, out: &Object<'py>) -> PyResult<Object<'py>> {
    let Ok(parts) = result.cast::<PyTuple>() else {
        put(name, &result, out)?;
        return Ok(out.clone());
    };
    let given = match items(out) {
        Some(items) => items,
        None => vec![out.clone()],
    };
    if given.len() > parts.len() {
        return Err(exception(
            Kind::Value,
            format!(
                "{name}: out has {} parts, the result {}",
                given.len(),
                parts.len()
            ),
        ));
    }
    let mut all: Vec<Object<'py>> = parts.iter().collect();
    for (part, out) in all.iter_mut().zip(given) {
        put(name, part, &out)?;
        *part = out;
    }
    Ok(PyTuple::new(out.py(), all)?.into_any())
}

/// Writes one result into one array; the array keeps its dtype.
fn put(name: &str, result: &Object<'_>, out: &Object<'_>) -> PyResult<()> {
    let Some(value) = try_operand(result)? else {
        return Err(exception(
            Kind::DType,
            format!("{name}: out cannot hold {}", result.get_type()),
        ));
    };
    let value = value.tensor;
    let place = match out.cast::<PyTensor>() {
        Ok(own) => PyTensor::of(own),
        Err(_) => match array::tensor(out).or_raise()? {
            Some(place) => place,
            None => {
                return Err(exception(
                    Kind::DType,
                    format!("{name}: out is {}, no array", out.get_type()),
                ));
            }
        },
    };
    let value = fitting(name, value, &place)?;
    let Ok(own) = out.cast::<PyTensor>() else {
        return write(name, &value, out);
    };
    let (py, backend) = (out.py(), place.backend());
    if let Some(framework) = backend.and_then(|backend| Framework::find(backend.name())) {
        let (assign, array) = (assign(py, framework)?, array::of(&place));
        if let (Some(assign), Some(array), Some(new)) = (assign, array, array::of(&value)) {
            return assign
                .call1((array, new))
                .map(|_| ())
                .map_err(|e| failed(py, &format!("{name}: out"), e))
                .or_raise();
        }
    } else if let Repr::Concrete { .. } = place.repr()
        && crate::dlpack::overwrite(name, &place, &value)?
    {
        return Ok(());
    }
    // Immutable arrays, and arrays whose elements share memory: the tensor gets a new array.
    PyTensor::set(own, value);
    Ok(())
}

/// Casts a value to the dtype, and broadcasts it to the shape, of the array that it replaces.
fn fitting(name: &str, value: Tensor, place: &Tensor) -> PyResult<Tensor> {
    let traced = |x: &Tensor| matches!(x.repr(), Repr::Traced { .. });
    if traced(&value) || traced(place) {
        return Err(exception(
            Kind::Trace,
            format!("{name}: out= cannot be used inside grad or another transform"),
        ));
    }
    if value.shape() != place.shape() {
        return Err(exception(
            Kind::Shape,
            format!(
                "{name}: out is {}, the result {}",
                place.spec(),
                value.spec()
            ),
        ));
    }
    let backends = (value.backend(), place.backend());
    if let (Some(here), Some(there)) = backends
        && here.name() != there.name()
    {
        return Err(exception(
            Kind::Backend,
            format!(
                "{name}: out is on {}, the result on {}",
                there.name(),
                here.name()
            ),
        ));
    }
    if value.dtype().is_complex() && !place.dtype().is_complex() {
        return Err(exception(
            Kind::DType,
            format!(
                "{name}: out is {}, which has no room for the imaginary part of {}",
                place.spec(),
                value.spec()
            ),
        ));
    }
    let cast = || ops::cast(&value, place.dtype()).done();
    match place.backend() {
        Some(backend) => backend::with(backend, cast).or_raise(),
        None => cast().or_raise(),
    }
}

/// A framework's function that writes one of its arrays into another, if its arrays are mutable.
fn assign<'py>(py: Python<'py>, framework: &Framework) -> PyResult<Option<Object<'py>>> {
    let module = &framework.loaded(py).or_raise()?.module;
    module.bind(py).getattr_opt("assign")
}

/// Writes into a framework's own array.
fn write(name: &str, value: &Tensor, out: &Object<'_>) -> PyResult<()> {
    let py = out.py();
    let backend = array::framework_of(out).or_raise()?;
    let written = match (backend, array::of(value)) {
        (Some(framework), Some(x)) => assign(py, framework)?.map(|assign| assign.call1((out, x))),
        _ => None,
    };
    match written {
        Some(done) => done
            .map(|_| ())
            .map_err(|e| failed(py, &format!("{name}: out"), e))
            .or_raise(),
        None => Err(exception(
            Kind::Unsupported,
            format!(
                "{name}: {} cannot be written to; give a Tensor as out",
                out.get_type()
            ),
        )),
    }
}
