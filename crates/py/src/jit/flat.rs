//! The arrays of a call, and a key of all else: what a program is found by.

use crate::error::exception;
use crate::function::random::PyKey;
use crate::operand::number;
use crate::tensor::PyTensor;
use crate::transform::Object;
use crate::tree::field_names;
use clematis_bridge::array;
use clematis_bridge::error::unless_failed;
use clematis_core::jit::has_values;
use clematis_core::{Kind, Scalar, Tensor};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple, PyType};

/// The deepest pytree that is followed; a list that holds itself has no end.
const DEPTH: usize = 200;

#[derive(Default)]
struct Flat<'py> {
    leaves: Vec<Object<'py>>,
    /// Kinds, types and sizes in order.
    bytes: Vec<u8>,
    /// What is compared as Python compares it.
    objects: Vec<Object<'py>>,
    /// What the key knows by its address only, and so must live as long as the key.
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
            // Equal things of different classes, as 1 and True, are not the same.
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
        let py = x.py();
        if depth > DEPTH {
            let message = format!("jit: arguments are nested deeper than {DEPTH}");
            return Err(exception(Kind::Value, message));
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
        } else if let Ok(dict) = x.cast::<PyDict>() {
            self.bytes.push(b'd');
            self.class(x, py.get_type::<PyDict>());
            self.count(dict.len());
            for (key, value) in dict.iter() {
                self.add(&key, depth + 1)?;
                self.add(&value, depth + 1)?;
            }
        } else if let Ok(list) = x.cast::<PyList>() {
            self.bytes.push(b'l');
            self.class(x, py.get_type::<PyList>());
            self.count(list.len());
            for item in list.iter() {
                self.add(&item, depth + 1)?;
            }
        } else if let Ok(tuple) = x.cast::<PyTuple>() {
            self.bytes.push(b't');
            self.class(x, py.get_type::<PyTuple>());
            self.count(tuple.len());
            for item in tuple.iter() {
                self.add(&item, depth + 1)?;
            }
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

    /// Notes a class that is not the usual one.
    fn class(&mut self, x: &Object<'py>, usual: Bound<'py, PyType>) {
        let class = x.get_type();
        if class.is(&usual) {
            self.bytes.push(0);
        } else {
            self.bytes.push(1);
            self.objects.push(class.into_any());
        }
    }

    fn object(&mut self, x: &Object<'py>, depth: usize) -> PyResult<()> {
        let py = x.py();
        let class = x.get_type();
        if x.is_instance_of::<PyType>() {
            self.other(x)?;
        } else if class.hasattr(intern!(py, "__jit_held__"))? {
            // What it holds is looked at when it is used.
            self.bytes.push(b'h');
            self.by_address(x);
        } else if class.hasattr(intern!(py, "__tree_flatten__"))? {
            // It may hold more than it shows, so it is known by itself.
            self.bytes.push(b'n');
            self.by_address(x);
            let inside = x.call_method0(intern!(py, "__tree_flatten__"))?;
            self.add(&inside, depth + 1)?;
        } else if let Some(t) = array_of(x)? {
            self.tensor(x, &t, b'R');
        } else if class.hasattr(intern!(py, "__dataclass_fields__"))? {
            self.bytes.push(b'D');
            self.objects.push(class.into_any());
            for name in field_names(x)? {
                let value = x.getattr(&name)?;
                self.add(name.as_any(), depth + 1)?;
                self.add(&value, depth + 1)?;
            }
        } else {
            self.other(x)?;
        }
        Ok(())
    }
}

/// A framework's array as a tensor; a single number of NumPy's is none.
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

/// Arrays, key, what the key holds by address, and whether all arrays have values.
type Found<'py> = (
    Bound<'py, PyList>,
    Bound<'py, PyTuple>,
    Bound<'py, PyList>,
    bool,
);

/// The arrays of a pytree in order, a key of all else, what the key knows by its address, and whether all arrays have values.
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
