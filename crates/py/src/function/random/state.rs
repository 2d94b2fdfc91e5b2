//! The implicit random stream, which draws without a key use.

use super::source::seed_number;
use crate::error::{OrRaise, exception};
use crate::operand::{give, operand};
use clematis_core::trace::Trace;
use clematis_core::{Kind, backend, ops};
use clematis_nn::functional::stream;
use pyo3::prelude::*;
use pyo3::types::PyModule;

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// Raises inside a trace: the stream is advanced by calls, and a compiled function would not repeat that.
fn untraced(op: &str) -> PyResult<()> {
    match Trace::innermost_abstract() {
        None => Ok(()),
        Some(_) => Err(exception(
            Kind::Trace,
            format!(
                "{op}: the random stream cannot be set while a function is traced; call it before, or give the draw a key"
            ),
        )),
    }
}

/// Seeds the implicit random stream, which draws without a key or a seed use.
#[pyfunction]
#[pyo3(signature = (seed_value=None), text_signature = "(seed_value=0)")]
fn seed(seed_value: Maybe<'_, '_>) -> PyResult<()> {
    let number = match seed_value {
        Some(seed) => seed_number("seed", seed)?,
        None => 0,
    };
    untraced("seed")?;
    stream::seed(number);
    Ok(())
}

/// State of the implicit random stream, as four words for `set_state`.
///
///     >>> cm.random.seed(7)
///     >>> cm.random.get_state()
///     Tensor([0, 7, 0, 0], uint32, native)
#[pyfunction]
fn get_state(py: Python<'_>) -> PyResult<Object<'_>> {
    let state = stream::state();
    let words = [state.seed, state.count].map(|n| [(n >> 32) as u32, n as u32]);
    let engine = backend::find("native").or_raise()?;
    let words = words.as_flattened();
    let made = backend::with(engine, || ops::from_slice(words, [4usize])).or_raise()?;
    give(py, made, false)
}

/// Restores a state of the implicit random stream that `get_state` returned.
#[pyfunction]
#[pyo3(signature = (state, /))]
fn set_state(state: &Object<'_>) -> PyResult<()> {
    let words = operand("set_state", state)?.tensor;
    let host = words.to_host().or_raise()?;
    if words.shape().count() != 4 || !words.dtype().is_int() {
        return Err(exception(
            Kind::Value,
            format!("set_state: a state is four words, not {}", words.spec()),
        ));
    }
    let word = |i: usize| {
        host.get(i)
            .map(|v| v.as_i128() as u64 & 0xFFFF_FFFF)
            .or_raise()
    };
    untraced("set_state")?;
    stream::set_state(stream::State {
        seed: word(0)? << 32 | word(1)?,
        count: word(2)? << 32 | word(3)?,
    });
    Ok(())
}

/// Adds the function that is in the main namespace too.
pub fn install_seed(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::plain_functions!(m; seed);
    Ok(())
}

/// Adds the functions to `random`.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::plain_functions!(m; seed get_state set_state);
    Ok(())
}
