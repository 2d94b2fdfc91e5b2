//! Keys.

use super::source::seed_number;
use crate::error::OrRaise;
use crate::tensor::PyTensor;
use clematis_core::random::Key;
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyTuple};

/// The source of a draw. Use a key once: split it for more.
///
///     >>> first, second = cm.random.key(0).split()
///     >>> cm.random.permutation(first, 4)
///     Tensor([1, 2, 0, 3], int64, native)
#[pyclass(frozen, name = "Key", module = "clematis.random")]
pub struct PyKey(pub Key);

#[pymethods]
impl PyKey {
    /// So many new keys, two unless told otherwise.
    #[pyo3(signature = (n=2, /))]
    fn split<'py>(&self, py: Python<'py>, n: usize) -> PyResult<Bound<'py, PyTuple>> {
        let keys = self
            .0
            .split_n(n)
            .into_iter()
            .map(|k| Bound::new(py, PyKey(k)))
            .collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, keys)
    }

    /// The key for the n-th of something: a step, a layer, a worker.
    fn fold_in(&self, n: u64) -> PyKey {
        PyKey(self.0.fold_in(n))
    }

    /// The two words that it is made of, as a tensor u32[2].
    fn words(&self) -> PyResult<PyTensor> {
        let tensor = self.0.words().done().or_raise()?;
        Ok(PyTensor { tensor })
    }

    fn __repr__(&self) -> String {
        match self.0.words().done().and_then(|w| w.to_vec::<u32>()) {
            Ok(words) => format!("Key({:#010x}, {:#010x})", words[0], words[1]),
            Err(_) => "Key(traced)".into(),
        }
    }
}

/// The key of a seed.
#[pyfunction]
#[pyo3(signature = (seed, /))]
fn key(seed: &Bound<'_, PyAny>) -> PyResult<PyKey> {
    Ok(PyKey(Key::new(seed_number("key", seed)?)))
}

/// Adds the class and the function that makes one.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyKey>()?;
    crate::plain_functions!(m; key);
    Ok(())
}
