//! Random keys.

use super::source::seed_number;
use crate::error::{OrRaise, exception};
use crate::tensor::PyTensor;
use clematis_core::Kind;
use clematis_core::random::Key;
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyTuple};

/// Random key. Use a key once: split it to draw more.
///
///     >>> first, second = cm.random.key(0).split()
///     >>> cm.random.permutation(first, 4)
///     Tensor([1, 2, 0, 3], int64, native)
#[pyclass(frozen, name = "Key", module = "clematis.random")]
pub struct PyKey(pub Key);

#[pymethods]
impl PyKey {
    /// Splits the key into this many new keys, two by default.
    #[pyo3(signature = (n=2, /))]
    fn split<'py>(&self, py: Python<'py>, n: i64) -> PyResult<Bound<'py, PyTuple>> {
        let n = match usize::try_from(n) {
            Ok(n) if n <= MOST => n,
            _ => {
                return Err(exception(
                    Kind::Value,
                    format!("split: {n} keys; from 0 to {MOST} can be made at once"),
                ));
            }
        };
        let keys = self
            .0
            .split_n(n)
            .into_iter()
            .map(|k| Bound::new(py, PyKey(k)))
            .collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, keys)
    }

    /// Folds an integer into the key: a new key for the n-th step, layer or worker.
    fn fold_in(&self, n: &Bound<'_, PyAny>) -> PyResult<PyKey> {
        Ok(PyKey(self.0.fold_in(seed_number("fold_in", n)?)))
    }

    /// The two words of the key, as a tensor u32[2].
    fn words(&self) -> PyResult<PyTensor> {
        let tensor = self.0.words().done().or_raise()?;
        Ok(PyTensor::new(tensor))
    }

    fn __eq__(&self, other: &PyKey) -> PyResult<bool> {
        let words = |key: &PyKey| key.0.words().done().and_then(|w| w.to_vec::<u32>());
        Ok(words(self).or_raise()? == words(other).or_raise()?)
    }

    fn __hash__(&self) -> PyResult<u64> {
        let words = self.0.words().done().and_then(|w| w.to_vec::<u32>());
        let words = words.or_raise()?;
        Ok(u64::from(words[0]) << 32 | u64::from(words[1]))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Vec<u32>,))> {
        let words = self.0.words().done().and_then(|w| w.to_vec::<u32>());
        let make = py
            .import("clematis")?
            .getattr("random")?
            .getattr("_restored")?;
        Ok((make, (words.or_raise()?,)))
    }

    fn __deepcopy__(slf: Bound<'_, Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf.unbind()
    }

    fn __repr__(&self) -> String {
        match self.0.words().done().and_then(|w| w.to_vec::<u32>()) {
            Ok(words) => format!("Key({:#010x}, {:#010x})", words[0], words[1]),
            Err(_) => "Key(traced)".into(),
        }
    }
}

/// The maximum number of keys per split.
const MOST: usize = 1 << 24;

/// Rebuilds a key from its two words; used by pickle.
#[pyfunction]
#[pyo3(signature = (words, /))]
fn _restored(words: Vec<u32>) -> PyResult<PyKey> {
    match words[..] {
        [_, _] => {
            let words =
                clematis_core::ops::from_slice(&words, clematis_core::Shape::from_sizes(&[2]));
            Ok(PyKey(Key::from_tensor(words)))
        }
        _ => Err(exception(
            Kind::Value,
            format!("a key has two words, not {}", words.len()),
        )),
    }
}

/// Creates a key from a seed.
#[pyfunction]
#[pyo3(signature = (seed, /))]
fn key(seed: &Bound<'_, PyAny>) -> PyResult<PyKey> {
    Ok(PyKey(Key::new(seed_number("key", seed)?)))
}

/// Adds the class and the function `key`.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyKey>()?;
    crate::plain_functions!(m; key _restored);
    Ok(())
}
