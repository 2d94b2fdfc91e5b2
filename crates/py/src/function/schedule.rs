//! Learning-rate schedules, for `cm.optim.schedules`.

use crate::error::{OrRaise, exception};
use clematis_core::Kind;
use clematis_nn::Schedule;
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyTuple};

type Object<'py> = Bound<'py, PyAny>;

/// A schedule as a tuple of its name and parameters: `("linear", 0.0, 1e-3, 100)`.
fn schedule(x: &Object<'_>) -> PyResult<Schedule> {
    let parts = x.cast::<PyTuple>()?;
    let name: String = parts.get_item(0)?.extract()?;
    let number = |i: usize| -> PyResult<f64> { parts.get_item(i)?.extract() };
    let whole = |i: usize| -> PyResult<u64> { parts.get_item(i)?.extract() };
    Ok(match name.as_str() {
        "constant" => Schedule::Constant(number(1)?),
        "step" => Schedule::Step {
            start: number(1)?,
            every: whole(2)?,
            factor: number(3)?,
        },
        "exponential" => Schedule::Exponential {
            start: number(1)?,
            factor: number(2)?,
        },
        "linear" => Schedule::Linear {
            start: number(1)?,
            end: number(2)?,
            steps: whole(3)?,
        },
        "cosine" => Schedule::Cosine {
            start: number(1)?,
            end: number(2)?,
            steps: whole(3)?,
        },
        "one_cycle" => Schedule::OneCycle {
            peak: number(1)?,
            steps: whole(2)?,
            rise: number(3)?,
            divide: number(4)?,
            final_divide: number(5)?,
        },
        "warmup" => {
            Schedule::warmup(whole(1)?, schedule(&parts.get_item(2)?)?, number(3)?).or_raise()?
        }
        "join" => {
            let mut all = Vec::new();
            for part in parts.get_item(1)?.try_iter()? {
                let part = part?;
                all.push((part.get_item(0)?.extract()?, schedule(&part.get_item(1)?)?));
            }
            Schedule::Join(all)
        }
        _ => {
            let message = format!("there is no schedule `{name}`");
            return Err(exception(Kind::Value, message));
        }
    })
}

/// The value of a schedule at a step; checks the parameters.
#[pyfunction]
#[pyo3(signature = (what, step, /))]
fn _schedule_at(what: &Object<'_>, step: u64) -> PyResult<f64> {
    let schedule = schedule(what)?;
    schedule.check().or_raise()?;
    Ok(schedule.at(step))
}

/// Adds the private function to the module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_schedule_at, m)?)
}
