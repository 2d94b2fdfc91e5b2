//! Flattens the arguments of a jitted call into arrays and a cache key of everything else.

use crate::function::random::PyKey;
use crate::operand::number;
use crate::pytree_node::{
    DEPTH, Keys, Kind as NodeKind, Node, builtin_children, children, is_protocol, too_deep,
};
use crate::tensor::PyTensor;
use crate::transform::Object;
use clematis_bridge::array;
use clematis_bridge::error::unless_failed;
use clematis_core::jit::has_values;
use clematis_core::{Scalar, Tensor};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple, PyType};

#[derive(Default)]
struct Flat<'py> {
    leaves: Vec<Object<'py>>,
    /// Kinds, dtypes and sizes in order.
    bytes: Vec<u8>,
    /// Objects compared with Python's `==`.
    objects: Vec<Object<'py>>,
    /// Objects compared by address, which must live as long as the key.
    kept: Vec<Object<'py>>,
    has_values: bool,
}

impl<'py> Flat<'py> {
    fn count(&mut self, n: usize) {
        self.bytes.extend_from_slice(&(n as u64).to_le_bytes());
    }

    fn tensor(&mut self, x: &Object<'py>, t: &Tensor, kind: u8) {
        self.has_values &= has_values(t);
        self.leaves.push(x.clone());
        self.bytes.push(kind);
        let backend = t.backend().map_or("", |b| b.name());
        self.bytes.extend_from_slice(backend.as_bytes());
        self.bytes.push(t.dtype() as u8);
        self.bytes.push(t.rank() as u8);
        for dim in t.shape().dims() {
            let size = dim.value().unwrap_or(-1);
            self.bytes.extend_from_slice(&size.to_le_bytes());
        }
    }

    fn by_address(&mut self, x: &Object<'py>) {
        self.count(x.as_ptr() as usize);
        self.kept.push(x.clone());
    }

    fn other(&mut self, x: &Object<'py>) -> PyResult<()> {
        if unless_failed(x.py(), x.hash())?.is_some() {
            self.bytes.push(b'o');
            // Equal objects of different classes, such as 1 and True, are different keys.
            self.objects.push(x.get_type().into_any());
            self.objects.push(x.clone());
        } else {
            self.bytes.push(b'a');
            self.by_address(x);
        }
        Ok(())
    }

    fn number(&mut self, x: &Object<'py>) -> PyResult<bool> {
        let Some(value) = number(x)? else {
            return Ok(false);
        };
        match value {
            Scalar::Bool(v) => self.bytes.extend_from_slice(&[b'b', u8::from(v)]),
            Scalar::Int(v) => {
                self.bytes.push(b'i');
                self.bytes.extend_from_slice(&v.to_le_bytes());
            }
            Scalar::UInt(v) => {
                self.bytes.push(b'u');
                self.bytes.extend_from_slice(&v.to_le_bytes());
            }
            Scalar::Float(v) => {
                self.bytes.push(b'f');
                self.bytes.extend_from_slice(&v.0.to_bits().to_le_bytes());
            }
            Scalar::Complex(re, im) => {
                self.bytes.push(b'c');
                self.bytes.extend_from_slice(&re.0.to_bits().to_le_bytes());
                self.bytes.extend_from_slice(&im.0.to_bits().to_le_bytes());
            }
        }
        Ok(true)
    }

    fn add(&mut self, x: &Object<'py>, depth: usize) -> PyResult<()> {
        if depth > DEPTH {
            return Err(too_deep("jit", false));
        }
        if let Ok(t) = x.cast::<PyTensor>() {
            let t = PyTensor::of(t);
            self.tensor(x, &t, b'T');
        } else if x.is_none() {
            self.bytes.push(b'N');
        } else if let Ok(word) = x.cast_exact::<PyString>() {
            let word = word.to_string_lossy();
            self.bytes.push(b's');
            self.count(word.len());
            self.bytes.extend_from_slice(word.as_bytes());
        } else if let Some((node, parts)) = builtin_children(x)? {
            self.container(x, &node, &parts, depth)?;
        } else if let Ok(key) = x.cast::<PyKey>() {
            let words = key.get().0.words().done();
            self.has_values &= words.is_ok_and(|w| has_values(&w));
            self.bytes.push(b'k');
            self.leaves.push(x.clone());
        } else if self.number(x)? {
        } else {
            self.object(x, depth)?;
        }
        Ok(())
    }

    fn container(
        &mut self,
        x: &Object<'py>,
        node: &Node,
        parts: &[Object<'py>],
        depth: usize,
    ) -> PyResult<()> {
        let is_exact = x.cast_exact::<PyDict>().is_ok()
            || x.cast_exact::<PyList>().is_ok()
            || x.cast_exact::<PyTuple>().is_ok();
        self.bytes.push(match (&node.keys, is_exact) {
            (Keys::Named(_), true) => b'd',
            (Keys::Index(_), true) if matches!(node.kind, NodeKind::List) => b'l',
            (_, true) => b't',
            (_, false) => b'C',
        });
        if !is_exact {
            self.objects.push(x.get_type().into_any());
        }
        self.count(parts.len());
        if let NodeKind::Registered { aux, .. } = &node.kind {
            self.other(aux.bind(x.py()))?;
        }
        for (i, part) in parts.iter().enumerate() {
            if let Keys::Named(names) = &node.keys {
                self.add(names[i].bind(x.py()), depth + 1)?;
            }
            self.add(part, depth + 1)?;
        }
        Ok(())
    }

    fn object(&mut self, x: &Object<'py>, depth: usize) -> PyResult<()> {
        let py = x.py();
        let class = x.get_type();
        if x.is_instance_of::<PyType>() {
            self.other(x)?;
        } else if class.hasattr(intern!(py, "__jit_held__"))? {
            // Its contents are part of the key if the traced function uses them.
            self.bytes.push(b'h');
            self.by_address(x);
        } else if is_protocol(x)? {
            // It may hold more than its leaves, so its identity is part of the key.
            self.bytes.push(b'n');
            self.by_address(x);
            let inside = x.call_method0(intern!(py, "__tree_flatten__"))?;
            self.add(&inside, depth + 1)?;
        } else if let Some(t) = array_of(x)? {
            self.tensor(x, &t, b'R');
        } else if let Some((node, parts)) = children(x)? {
            self.container(x, &node, &parts, depth)?;
        } else {
            self.other(x)?;
        }
        Ok(())
    }
}

/// A framework array as a tensor; a NumPy scalar is not an array.
fn array_of(x: &Object<'_>) -> PyResult<Option<Tensor>> {
    let Ok(Some(t)) = array::tensor(x) else {
        return Ok(None);
    };
    let operand = crate::operand::Operand {
        tensor: t,
        raw: true,
    };
    if crate::operand::numpy_number(x, &operand)?.is_some() {
        return Ok(None);
    }
    Ok(Some(operand.tensor))
}

/// Arrays, key, objects that the key compares by address, and whether all arrays are concrete.
type Found<'py> = (
    Bound<'py, PyList>,
    Bound<'py, PyTuple>,
    Bound<'py, PyList>,
    bool,
);

/// The arrays of a pytree in order, the key of everything else, the objects that the key compares by address, and whether
/// all arrays are concrete.
#[pyfunction]
#[pyo3(signature = (tree, /))]
pub fn _flat<'py>(tree: &Object<'py>) -> PyResult<Found<'py>> {
    let py = tree.py();
    let mut flat = Flat {
        has_values: true,
        ..Flat::default()
    };
    flat.add(tree, 0)?;
    let mut key = vec![PyBytes::new(py, &flat.bytes).into_any()];
    key.append(&mut flat.objects);
    Ok((
        PyList::new(py, flat.leaves)?,
        PyTuple::new(py, key)?,
        PyList::new(py, flat.kept)?,
        flat.has_values,
    ))
}
