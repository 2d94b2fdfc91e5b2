//! Optimiser update rules with state, as formulas of one parameter.
//!
//! A rule is data: its state consists of tensors that start at zero, named by `slots`. Half precision is computed in
//! f32 and rounded once; its moments stay f32. `optim` and Python's `cm.optim` hold rules; the formulas are defined
//! here only. Where torch has the optimiser, the formula is torch's.

pub mod clip;
mod formula;

use formula::Numbers;

use super::is_traced;
use clematis_core::{Backend, Result, Tensor, backend, ensure, ops};

/// The update rule of an optimiser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Stochastic gradient descent with momentum.
    Sgd {
        /// The momentum; 0 for plain gradient descent.
        momentum: f64,
        /// Whether to use Nesterov momentum.
        nesterov: bool,
        /// L2 penalty: this factor times the parameter is added to its gradient.
        weight_decay: f64,
    },
    /// Adam.
    Adam {
        /// Decay rate of the moving average of gradients.
        beta1: f64,
        /// Decay rate of the moving average of squared gradients.
        beta2: f64,
        /// Added to the denominator.
        epsilon: f64,
        /// Weight decay: decoupled, or added to the gradient.
        weight_decay: f64,
        /// Whether weight decay is decoupled (AdamW).
        decoupled: bool,
    },
    /// LARS: the norm of the step is proportional to that of the parameter.
    Lars {
        /// The momentum.
        momentum: f64,
        /// L2 penalty: this factor times the parameter is added to its gradient.
        weight_decay: f64,
        /// Trust coefficient: the norm of the step relative to that of the parameter, before the learning rate.
        trust: f64,
    },
    /// LAMB: Adam's step with a norm proportional to that of the parameter.
    Lamb {
        /// Decay rate of the moving average of gradients.
        beta1: f64,
        /// Decay rate of the moving average of squared gradients.
        beta2: f64,
        /// Added to the denominator.
        epsilon: f64,
        /// Weight decay: this factor times the parameter is added to the step.
        weight_decay: f64,
        /// Maximum trust ratio.
        most: f64,
    },
    /// RMSProp.
    RmsProp {
        /// Decay rate of the moving average of squared gradients.
        alpha: f64,
        /// Added to the denominator.
        epsilon: f64,
        /// The momentum.
        momentum: f64,
        /// Whether the squared gradients are centred by their mean.
        centered: bool,
        /// L2 penalty: this factor times the parameter is added to its gradient.
        weight_decay: f64,
    },
    /// Adagrad.
    Adagrad {
        /// Added to the denominator.
        epsilon: f64,
        /// L2 penalty: this factor times the parameter is added to its gradient.
        weight_decay: f64,
    },
    /// Lion: the sign of an interpolated momentum.
    Lion {
        /// Interpolation weight of the old momentum in the step.
        beta1: f64,
        /// Decay rate of the momentum.
        beta2: f64,
        /// Decoupled weight decay.
        weight_decay: f64,
    },
}

impl Rule {
    /// The name of the class.
    pub const fn name(&self) -> &'static str {
        match self {
            Rule::Sgd { .. } => "SGD",
            Rule::Adam {
                decoupled: false, ..
            } => "Adam",
            Rule::Adam { .. } => "AdamW",
            Rule::Lars { .. } => "LARS",
            Rule::Lamb { .. } => "LAMB",
            Rule::RmsProp { .. } => "RMSprop",
            Rule::Adagrad { .. } => "Adagrad",
            Rule::Lion { .. } => "Lion",
        }
    }

    /// The names of the state tensors of each parameter.
    pub fn slots(&self) -> &'static [&'static str] {
        match *self {
            Rule::Sgd { momentum: 0.0, .. } | Rule::Lars { momentum: 0.0, .. } => &[],
            Rule::Sgd { .. } | Rule::Lars { .. } => &["velocity"],
            Rule::Adam { .. } | Rule::Lamb { .. } => &["mean", "square"],
            Rule::RmsProp {
                centered, momentum, ..
            } => match (centered, momentum != 0.0) {
                (false, false) => &["square"],
                (true, false) => &["square", "mean"],
                (false, true) => &["square", "velocity"],
                (true, true) => &["square", "mean", "velocity"],
            },
            Rule::Adagrad { .. } => &["square"],
            Rule::Lion { .. } => &["mean"],
        }
    }

    /// Checks the hyperparameters.
    pub fn check(&self) -> Result<()> {
        let name = self.name();
        let share = |what: &str, x: f64| -> Result<()> {
            ensure!(
                (0.0..1.0).contains(&x),
                Value,
                "{name}: expected {what} in [0, 1), got {x}"
            );
            Ok(())
        };
        let size = |what: &str, x: f64| -> Result<()> {
            ensure!(
                x >= 0.0 && x.is_finite(),
                Value,
                "{name}: expected a finite non-negative {what}, got {x}"
            );
            Ok(())
        };
        match *self {
            Rule::Sgd {
                momentum,
                nesterov,
                weight_decay,
            } => {
                size("momentum", momentum)?;
                ensure!(
                    !nesterov || momentum > 0.0,
                    Value,
                    "{name}: nesterov needs a momentum above 0"
                );
                size("weight_decay", weight_decay)
            }
            Rule::Adam {
                beta1,
                beta2,
                epsilon,
                weight_decay,
                ..
            } => {
                share("beta1", beta1)?;
                share("beta2", beta2)?;
                size("epsilon", epsilon)?;
                size("weight_decay", weight_decay)
            }
            Rule::Lars {
                momentum,
                weight_decay,
                trust,
            } => {
                size("momentum", momentum)?;
                size("decay_lambda", weight_decay)?;
                size("trust", trust)
            }
            Rule::Lamb {
                beta1,
                beta2,
                epsilon,
                weight_decay,
                most,
            } => {
                share("beta1", beta1)?;
                share("beta2", beta2)?;
                size("epsilon", epsilon)?;
                size("decay_lambda", weight_decay)?;
                ensure!(
                    most > 0.0,
                    Value,
                    "{name}: expected a positive max_trust_ratio, got {most}"
                );
                Ok(())
            }
            Rule::RmsProp {
                alpha,
                epsilon,
                momentum,
                weight_decay,
                ..
            } => {
                share("alpha", alpha)?;
                size("epsilon", epsilon)?;
                size("momentum", momentum)?;
                size("weight_decay", weight_decay)
            }
            Rule::Adagrad {
                epsilon,
                weight_decay,
            } => {
                size("epsilon", epsilon)?;
                size("weight_decay", weight_decay)
            }
            Rule::Lion {
                beta1,
                beta2,
                weight_decay,
            } => {
                share("beta1", beta1)?;
                share("beta2", beta2)?;
                size("weight_decay", weight_decay)
            }
        }
    }

    /// Computes the new parameter and the new moments; steps count from 1.
    ///
    /// `path` names the parameter in messages. With `stop`, nothing can be differentiated through the step.
    pub fn step(&self, at: Step<'_>) -> Result<(Tensor, Vec<Tensor>)> {
        let name = self.name();
        at.check(name)?;
        ensure!(
            at.slots.len() == self.slots().len(),
            Structure,
            "{name}: got {} moments for `{}`, expected {}",
            self.slots().len(),
            at.path,
            at.slots.len()
        );
        ensure!(
            at.param.dtype().is_float() || matches!(self, Rule::Sgd { .. }),
            DType,
            "{name}: `{}` is {}; only SGD supports complex numbers",
            at.path,
            at.param.spec()
        );
        let compute = || -> Result<(Tensor, Vec<Tensor>)> {
            let wide = at.param.dtype().accumulator();
            let ready = |x: &Tensor| -> Result<Tensor> {
                let x = ops::cast(x, wide);
                // Only if there is something to stop, since it costs an op.
                if at.stop {
                    stopped(x.done()?)
                } else {
                    x.done()
                }
            };
            let (w, g) = (ready(at.param)?, ready(at.grad)?);
            let mut slots = Vec::with_capacity(at.slots.len());
            for slot in at.slots {
                slots.push(match slot {
                    Some(x) => ready(x)?,
                    None => ops::zeros_like(&w).done()?,
                });
            }
            let numbers = match at.numbers {
                Some(vector) => Numbers::of(vector, wide.real())?,
                None => Numbers::plain(self.numbers(at.lr, at.count)),
            };
            let moved = self.formula(&w, &g, &mut slots, &numbers)?;
            Ok((ops::cast(moved, at.param.dtype()).done()?, slots))
        };
        let out = match at.param.backend() {
            Some(backend) => backend::with(backend, compute),
            None => compute(),
        };
        out.map_err(|e| e.note(format!("in {name}.step, at `{}`", at.path)))
    }
}

/// The inputs of an update of one parameter.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The parameter's path, for messages.
    pub path: &'a str,
    /// The parameter.
    pub param: &'a Tensor,
    /// Its gradient.
    pub grad: &'a Tensor,
    /// The moments, in the order of `slots`; zeros if there are none yet.
    pub slots: &'a [Option<Tensor>],
    /// The learning rate.
    pub lr: f64,
    /// The number of this step for the parameter, from 1.
    pub count: u64,
    /// The result of `Rule::numbers` as a vector, where a program takes it as input at each call; overrides `lr` and
    /// `count`.
    pub numbers: Option<&'a Tensor>,
    /// Whether differentiation through the step is disabled.
    pub stop: bool,
}

impl Step<'_> {
    /// Checks that gradient and moments match the parameter.
    fn check(&self, name: &str) -> Result<()> {
        let (w, g, path) = (self.param, self.grad, self.path);
        let lr = self.lr;
        ensure!(
            lr >= 0.0 && lr.is_finite(),
            Value,
            "{name}: expected a finite non-negative lr, got {lr}"
        );
        ensure!(
            w.dtype().is_inexact(),
            DType,
            "{name}: `{path}` is {}; only floats can be trained",
            w.spec()
        );
        ensure!(
            same_backend(w, g),
            Backend,
            "{name}: `{path}` lives on {}, its gradient on {}",
            backend_name(w),
            backend_name(g)
        );
        ensure!(
            w.shape() == g.shape(),
            Shape,
            "{name}: `{path}` is {}, its gradient {}",
            w.spec(),
            g.spec()
        );
        // Sums and unscaled gradients may be f32 for a half-precision parameter.
        ensure!(
            g.dtype() == w.dtype() || g.dtype() == w.dtype().accumulator(),
            DType,
            "{name}: `{path}` is {}, its gradient {}",
            w.spec(),
            g.spec()
        );
        for slot in self.slots.iter().flatten() {
            ensure!(
                slot.shape() == w.shape(),
                Shape,
                "{name}: `{path}` is {}, a moment of it {}",
                w.spec(),
                slot.spec()
            );
        }
        Ok(())
    }
}

/// Whether two tensors are on the same backend; a number is on every backend.
fn same_backend(x: &Tensor, y: &Tensor) -> bool {
    match (x.backend(), y.backend()) {
        (Some(a), Some(b)) => a.name() == b.name(),
        _ => true,
    }
}

fn backend_name(x: &Tensor) -> &'static str {
    x.backend().map_or("no backend", Backend::name)
}

/// Stops gradients, including those of a framework.
fn stopped(x: Tensor) -> Result<Tensor> {
    match x.backend() {
        Some(backend) if !backend.has_own_autodiff() && !is_traced(&x) => Ok(x),
        _ => ops::stop_gradient(x).done(),
    }
}
