//! Steps of optimisers, one parameter at a time.

use crate::operand::Call;
use clematis_nn::functional::optimise::{self, Moments};
use pyo3::prelude::*;
use pyo3::types::PyModule;

type Object<'py> = Bound<'py, PyAny>;

macro_rules! descents {
    ($($(#[$doc:meta])* $name:ident $grad:ident;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (w, $grad, lr, /, *, stop_gradients=true))]
        fn $name<'py>(
            w: &Object<'py>,
            $grad: &Object<'py>,
            lr: &Object<'py>,
            stop_gradients: bool,
        ) -> PyResult<Object<'py>> {
            let mut call = Call::new(w.py(), stringify!($name));
            let (w, grad, lr) = (call.take(w)?, call.take($grad)?, call.take(lr)?);
            call.one(|| optimise::$name(&w, &grad, &lr, stop_gradients))
        }
    )* };
}
descents! {
    /// w - effective_grad lr.
    optimizer_update effective_grad;
    /// w - dcdw lr.
    gradient_descent_update dcdw;
}

/// Adam's step before the learning rate, the new mean of gradients and the new mean of their squares.
#[pyfunction]
#[pyo3(signature = (dcdw, mw, vw, step, /, *, beta1=0.9, beta2=0.999, epsilon=1e-7))]
fn adam_step<'py>(
    dcdw: &Object<'py>,
    mw: &Object<'py>,
    vw: &Object<'py>,
    step: &Object<'py>,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(dcdw.py(), "adam_step");
    let grad = call.take(dcdw)?;
    let (m, v, step) = (call.take(mw)?, call.take(vw)?, call.take(step)?);
    call.many(|| {
        let (m, v, step) = (&m, &v, &step);
        let moments = Moments {
            m,
            v,
            step,
            beta1,
            beta2,
            epsilon,
        };
        optimise::adam_step(&grad, moments).map(Vec::from)
    })
}

/// A step of Adam: the new parameter and both means.
#[pyfunction]
#[pyo3(signature = (w, dcdw, lr, mw_tm1, vw_tm1, step, /, *, beta1=0.9, beta2=0.999, epsilon=1e-7,
    stop_gradients=true))]
#[allow(clippy::too_many_arguments)]
fn adam_update<'py>(
    w: &Object<'py>,
    dcdw: &Object<'py>,
    lr: &Object<'py>,
    mw_tm1: &Object<'py>,
    vw_tm1: &Object<'py>,
    step: &Object<'py>,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    stop_gradients: bool,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(w.py(), "adam_update");
    let (w, grad, lr) = (call.take(w)?, call.take(dcdw)?, call.take(lr)?);
    let (m, v, step) = (call.take(mw_tm1)?, call.take(vw_tm1)?, call.take(step)?);
    call.many(|| {
        let (m, v, step) = (&m, &v, &step);
        let moments = Moments {
            m,
            v,
            step,
            beta1,
            beta2,
            epsilon,
        };
        optimise::adam_update(&w, &grad, &lr, moments, stop_gradients).map(Vec::from)
    })
}

/// A step against the gradient whose length follows that of the parameter; a decay divides the step.
#[pyfunction]
#[pyo3(signature = (w, dcdw, lr, /, *, decay_lambda=0.0, stop_gradients=true))]
fn lars_update<'py>(
    w: &Object<'py>,
    dcdw: &Object<'py>,
    lr: &Object<'py>,
    decay_lambda: f64,
    stop_gradients: bool,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(w.py(), "lars_update");
    let (w, grad, lr) = (call.take(w)?, call.take(dcdw)?, call.take(lr)?);
    call.one(|| optimise::lars_update(&w, &grad, &lr, decay_lambda, stop_gradients))
}

/// A step of Adam scaled by the ratio of the lengths of parameter and step: the new parameter and both means.
#[pyfunction]
#[pyo3(signature = (w, dcdw, lr, mw_tm1, vw_tm1, step, /, *, beta1=0.9, beta2=0.999, epsilon=1e-7,
    max_trust_ratio=10.0, decay_lambda=0.0, stop_gradients=true))]
#[allow(clippy::too_many_arguments)]
fn lamb_update<'py>(
    w: &Object<'py>,
    dcdw: &Object<'py>,
    lr: &Object<'py>,
    mw_tm1: &Object<'py>,
    vw_tm1: &Object<'py>,
    step: &Object<'py>,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
    max_trust_ratio: f64,
    decay_lambda: f64,
    stop_gradients: bool,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(w.py(), "lamb_update");
    let (w, grad, lr) = (call.take(w)?, call.take(dcdw)?, call.take(lr)?);
    let (m, v, step) = (call.take(mw_tm1)?, call.take(vw_tm1)?, call.take(step)?);
    call.many(|| {
        let (m, v, step) = (&m, &v, &step);
        let moments = Moments {
            m,
            v,
            step,
            beta1,
            beta2,
            epsilon,
        };
        let (most, decay) = (max_trust_ratio, decay_lambda);
        optimise::lamb_update(&w, &grad, &lr, moments, most, decay, stop_gradients).map(Vec::from)
    })
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m; optimizer_update gradient_descent_update adam_step adam_update lars_update lamb_update);
    Ok(())
}
