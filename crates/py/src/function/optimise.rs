//! Optimizer steps for one parameter.

use crate::operand::Call;
use clematis_core::Tensor;
use clematis_nn::functional::optimizer_updates::{self, Moments};
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
            call.one(|| optimizer_updates::$name(&w, &grad, &lr, stop_gradients))
        }
    )* };
}
descents! {
    /// Applies an optimizer update: w - effective_grad lr.
    optimizer_update effective_grad;
    /// Gradient descent step: w - lr grads.
    gradient_descent_update grads;
}

/// The state of Adam, as Python passes it.
struct Remembered {
    m: Tensor,
    v: Tensor,
    step: Tensor,
    betas: [f64; 2],
    epsilon: f64,
}

impl Remembered {
    fn take<'py>(
        call: &mut Call<'py>,
        [m, v, step]: [&Object<'py>; 3],
        betas: [f64; 2],
        epsilon: f64,
    ) -> PyResult<Self> {
        Ok(Remembered {
            m: call.take(m)?,
            v: call.take(v)?,
            step: call.take(step)?,
            betas,
            epsilon,
        })
    }

    fn moments(&self) -> Moments<'_> {
        Moments {
            m: &self.m,
            v: &self.v,
            step: &self.step,
            beta1: self.betas[0],
            beta2: self.betas[1],
            epsilon: self.epsilon,
        }
    }
}

/// Adam step before the learning rate: returns the step and the new first and second moments.
#[pyfunction]
#[pyo3(signature = (grads, mw, vw, step, /, *, beta1=0.9, beta2=0.999, epsilon=1e-7))]
fn adam_step<'py>(
    grads: &Object<'py>,
    mw: &Object<'py>,
    vw: &Object<'py>,
    step: &Object<'py>,
    beta1: f64,
    beta2: f64,
    epsilon: f64,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(grads.py(), "adam_step");
    let grad = call.take(grads)?;
    let old = Remembered::take(&mut call, [mw, vw, step], [beta1, beta2], epsilon)?;
    call.many(|| optimizer_updates::adam_step(&grad, old.moments()).map(Vec::from))
}

/// Adam update: returns the new parameter and the new first and second moments.
#[pyfunction]
#[pyo3(signature = (w, grads, lr, mw_tm1, vw_tm1, step, /, *, beta1=0.9, beta2=0.999, epsilon=1e-7,
    stop_gradients=true))]
#[allow(clippy::too_many_arguments)]
fn adam_update<'py>(
    w: &Object<'py>,
    grads: &Object<'py>,
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
    let (w, grad, lr) = (call.take(w)?, call.take(grads)?, call.take(lr)?);
    let old = Remembered::take(&mut call, [mw_tm1, vw_tm1, step], [beta1, beta2], epsilon)?;
    call.many(|| {
        optimizer_updates::adam_update(&w, &grad, &lr, old.moments(), stop_gradients).map(Vec::from)
    })
}

/// LARS update: the learning rate is scaled by the ratio of the norms of parameter and gradient; weight decay divides the
/// step.
#[pyfunction]
#[pyo3(signature = (w, grads, lr, /, *, decay_lambda=0.0, stop_gradients=true))]
fn lars_update<'py>(
    w: &Object<'py>,
    grads: &Object<'py>,
    lr: &Object<'py>,
    decay_lambda: f64,
    stop_gradients: bool,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(w.py(), "lars_update");
    let (w, grad, lr) = (call.take(w)?, call.take(grads)?, call.take(lr)?);
    call.one(|| optimizer_updates::lars_update(&w, &grad, &lr, decay_lambda, stop_gradients))
}

/// LAMB update: an Adam step scaled by the ratio of the norms of parameter and step. Returns the new parameter and both
/// moments.
#[pyfunction]
#[pyo3(signature = (w, grads, lr, mw_tm1, vw_tm1, step, /, *, beta1=0.9, beta2=0.999, epsilon=1e-7,
    max_trust_ratio=10.0, decay_lambda=0.0, stop_gradients=true))]
#[allow(clippy::too_many_arguments)]
fn lamb_update<'py>(
    w: &Object<'py>,
    grads: &Object<'py>,
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
    let (w, grad, lr) = (call.take(w)?, call.take(grads)?, call.take(lr)?);
    let old = Remembered::take(&mut call, [mw_tm1, vw_tm1, step], [beta1, beta2], epsilon)?;
    let (most, decay) = (max_trust_ratio, decay_lambda);
    call.many(|| {
        let old = old.moments();
        optimizer_updates::lamb_update(&w, &grad, &lr, old, most, decay, stop_gradients)
            .map(Vec::from)
    })
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m; optimizer_update gradient_descent_update adam_step adam_update lars_update lamb_update);
    Ok(())
}
