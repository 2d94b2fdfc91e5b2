//! The fast paths that a dialect lists in `FAST_PATHS`: the framework's own functions, and how they are called.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Our functions that a framework may have a fast path for.
pub const NAMES: [&str; 16] = [
    "matmul",
    "sum",
    "mean",
    "max",
    "min",
    "reshape",
    "permute_dims",
    "softmax",
    "log_softmax",
    "linear",
    "relu",
    "sigmoid",
    "silu",
    "gelu",
    "layer_norm",
    "vecdot",
];

/// The index of `matmul` among them.
pub const MATMUL: usize = 0;

/// A framework's own function that computes the same as one of ours on the usual floats.
pub struct FastPath {
    /// The function.
    pub function: Py<PyAny>,
    /// A second function applied to its result, if any.
    pub then: Option<Py<PyAny>>,
    /// How it is called.
    pub convention: CallingConvention,
}

/// How our arguments are passed to the framework.
pub enum CallingConvention {
    /// This many arrays.
    Arrays(usize),
    /// An array and a tuple of integers.
    Axes,
    /// An array and a tuple of sizes, one of which may be -1.
    Sizes,
    /// An array and `axis`, by default the last.
    Axis,
    /// An array, `axis` and `keepdims`.
    Reduce,
    /// The two arrays of a matmul.
    Matmul,
    /// Two arrays and `bias`, with the shapes of `linear` for one matrix.
    Linear,
}

impl FastPath {
    /// Reads an entry of a dialect's table: the function and its calling convention.
    pub(crate) fn read(name: &str, entry: &Bound<'_, PyAny>) -> PyResult<FastPath> {
        let entry = entry.cast::<PyTuple>()?;
        let convention = entry.get_item(1)?;
        let convention = match convention.extract::<usize>() {
            Ok(count) => CallingConvention::Arrays(count),
            Err(_) => match convention.extract::<String>()?.as_str() {
                "matmul" => CallingConvention::Matmul,
                "axes" => CallingConvention::Axes,
                "sizes" => CallingConvention::Sizes,
                "axis" => CallingConvention::Axis,
                "reduce" => CallingConvention::Reduce,
                "linear" => CallingConvention::Linear,
                other => {
                    let text = format!("FAST_PATHS: {name}: unknown calling convention {other}");
                    return Err(PyValueError::new_err(text));
                }
            },
        };
        Ok(FastPath {
            function: entry.get_item(0)?.unbind(),
            then: entry.get_item(2).ok().map(Bound::unbind),
            convention,
        })
    }
}
