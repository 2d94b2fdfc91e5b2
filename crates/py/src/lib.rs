//! The Rust extension module of the Python package `clematis`.
//!
//! Parses arguments, calls the core, wraps results. Computes nothing.

mod error;
mod panics;
mod args;
mod dtype;
mod backend;
mod method;
mod pytree_node;
mod operand;
mod tensor;
mod dlpack;
mod pytree;
mod tree_map;
mod transform;
mod function;
mod callable;
mod control;
mod convert;
mod jit;
mod lower;
mod onnx;
mod source;

use pyo3::prelude::*;
use pyo3::types::PyModule;

/// Adds functions to a module by name, with `out=` and pytrees.
#[macro_export]
#[doc(hidden)]
macro_rules! functions {
    ($module:expr; $($name:ident)*) => {
        $($crate::callable::add($module, pyo3::wrap_pyfunction!($name, $module)?)?;)*
    };
}

/// Adds functions to a module unwrapped: those that take functions, or no array.
#[macro_export]
#[doc(hidden)]
macro_rules! plain_functions {
    ($module:expr; $($name:ident)*) => {
        $($crate::callable::add_bare($module, pyo3::wrap_pyfunction!($name, $module)?)?;)*
    };
}

/// The extension module.
#[pymodule(gil_used = true)]
pub fn _clematis(m: &Bound<'_, PyModule>) -> PyResult<()> {
    use error::OrRaise;
    use function::{
        checkpoint, conv, cost, create, elementwise, fourier, index, info, layer, linalg, loss,
        network, neural, optimise, pool, random, reduce, shape,
    };
    let py = m.py();
    if clematis_bridge::is_second_interpreter() {
        return Err(pyo3::exceptions::PyImportError::new_err(
            "clematis: cannot be imported in a second interpreter of a process; use threads or processes",
        ));
    }
    panics::install(m)?;
    clematis_bridge::install().or_raise()?;
    tensor::object::install(m)?;
    m.add_class::<dtype::PyDType>()?;
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    create::install(m)?;
    elementwise::install(m)?;
    shape::install(m)?;
    reduce::install(m)?;
    index::install(m)?;
    info::install(m)?;
    neural::install(m)?;
    network::install(m)?;
    layer::install(m)?;
    conv::install(m)?;
    loss::install(m)?;
    optimise::install(m)?;
    function::schedule::install(m)?;
    function::step::install(m)?;
    pool::install(m)?;
    random::install(m)?;
    transform::install(m)?;
    control::install(m)?;
    checkpoint::install(m)?;
    convert::install(m)?;
    lower::install(m)?;
    jit::install(m)?;
    source::install(m)?;
    onnx::install(m)?;
    cost::install(m)?;
    backend::install(m)?;
    m.add_function(wrap_pyfunction!(tensor::_restore, m)?)?;
    m.add_function(wrap_pyfunction!(_run_command_line, m)?)?;
    for (name, fill) in [
        (
            "_fft",
            fourier::install as fn(&Bound<'_, PyModule>) -> PyResult<()>,
        ),
        ("_random", random::install_keyed),
        ("_tree", |m| {
            pytree::install(m)?;
            function::step::install_tree(m)
        }),
    ] {
        let part = PyModule::new(py, name)?;
        fill(&part)?;
        m.add_submodule(&part)?;
    }
    let part = PyModule::new(py, "_linalg")?;
    linalg::install(m, &part)?;
    m.add_submodule(&part)
}

/// Runs the command line; returns the exit code.
#[pyfunction]
fn _run_command_line(py: Python<'_>, args: Vec<String>) -> u8 {
    py.detach(|| clematis_cli::run_code(args.into_iter().map(Into::into)))
}
