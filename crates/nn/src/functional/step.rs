//! Steps of the optimisers that keep moments, as formulas of one parameter.
//!
//! A rule is data: what it remembers between steps are tensors that start at zero, by the names of `slots`. Halves are
//! computed in f32 and rounded once, and their moments stay f32. `optim` and Python's `cm.optim` hold rules; what they
//! mean stands here only. Where torch has the optimiser, the formula is torch's.

pub mod clip;
mod formula;

use formula::Numbers;

use super::is_traced;
use clematis_core::{Backend, Result, Tensor, backend, ensure, ops};

/// How an optimiser moves one parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// A running sum of gradients.
    Sgd {
        /// The share of the old sum; 0 for plain descent.
        momentum: f64,
        /// Whether the gradient is looked at where the sum leads to.
        nesterov: bool,
        /// The share of the parameter that is added to its gradient.
        weight_decay: f64,
    },
    /// The mean of gradients over the root of the mean of their squares.
    Adam {
        /// The share of the old mean.
        beta1: f64,
        /// The share of the old mean of squares.
        beta2: f64,
        /// Added to the root.
        epsilon: f64,
        /// The share of the parameter that is lost, or added to the gradient.
        weight_decay: f64,
        /// Whether the decay shrinks the parameter itself (AdamW).
        decoupled: bool,
    },
    /// A step whose length follows that of the parameter.
    Lars {
        /// The share of the old sum.
        momentum: f64,
        /// The share of the parameter that is added to its gradient.
        weight_decay: f64,
        /// The length of a step in lengths of the parameter, before the learning rate.
        trust: f64,
    },
    /// Adam's step with a length that follows the parameter's.
    Lamb {
        /// The share of the old mean.
        beta1: f64,
        /// The share of the old mean of squares.
        beta2: f64,
        /// Added to the root.
        epsilon: f64,
        /// The share of the parameter that is added to the step.
        weight_decay: f64,
        /// The most that a step grows by.
        most: f64,
    },
    /// The gradient over the root of the running mean of squares.
    RmsProp {
        /// The share of the old mean.
        alpha: f64,
        /// Added to the root.
        epsilon: f64,
        /// The share of the old sum of steps.
        momentum: f64,
        /// Whether the square of the mean is taken off the mean of squares.
        centered: bool,
        /// The share of the parameter that is added to its gradient.
        weight_decay: f64,
    },
    /// The gradient over the root of the sum of squares.
    Adagrad {
        /// Added to the root.
        epsilon: f64,
        /// The share of the parameter that is added to its gradient.
        weight_decay: f64,
    },
    /// The sign of a mean of gradients.
    Lion {
        /// The share of the old mean in the step.
        beta1: f64,
        /// The share of the old mean in the new.
        beta2: f64,
        /// The share of the parameter that is lost.
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

    /// What is remembered of each parameter.
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

    /// Whether every number is one that makes sense.
    pub fn check(&self) -> Result<()> {
        let name = self.name();
        let share = |what: &str, x: f64| -> Result<()> {
            ensure!(
                (0.0..1.0).contains(&x),
                Value,
                "{name}: {what} is from 0 to less than 1, not {x}"
            );
            Ok(())
        };
        let size = |what: &str, x: f64| -> Result<()> {
            ensure!(
                x >= 0.0 && x.is_finite(),
                Value,
                "{name}: {what} is a number from 0 on, not {x}"
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
                    "{name}: nesterov needs a momentum, which is 0"
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
                    "{name}: max_trust_ratio is a number above 0, not {most}"
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

    /// The new parameter and the new moments; the step counts from 1.
    ///
    /// `path` is what messages call the parameter. With `stop` nothing can be differentiated through the step.
    pub fn step(&self, at: Step<'_>) -> Result<(Tensor, Vec<Tensor>)> {
        let name = self.name();
        at.check(name)?;
        ensure!(
            at.slots.len() == self.slots().len(),
            Structure,
            "{name}: {} moments of `{}`, not {}",
            self.slots().len(),
            at.path,
            at.slots.len()
        );
        ensure!(
            at.param.dtype().is_float() || matches!(self, Rule::Sgd { .. }),
            DType,
            "{name}: `{}` is {}; only SGD moves complex numbers",
            at.path,
            at.param.spec()
        );
        let compute = || -> Result<(Tensor, Vec<Tensor>)> {
            let wide = at.param.dtype().accumulator();
            let ready = |x: &Tensor| -> Result<Tensor> {
                let x = ops::cast(x, wide);
                // Only where there is something to stop, for it is a call of its own.
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
            Some(home) => backend::with(home, compute),
            None => compute(),
        };
        out.map_err(|e| e.note(format!("in {name}.step, at `{}`", at.path)))
    }
}

/// One parameter on its way through a step.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// What messages call the parameter.
    pub path: &'a str,
    /// The parameter.
    pub param: &'a Tensor,
    /// Its gradient.
    pub grad: &'a Tensor,
    /// Its moments, in the order of `slots`; zeros where there is none yet.
    pub slots: &'a [Option<Tensor>],
    /// The learning rate.
    pub lr: f64,
    /// Which step of this parameter this is, from 1.
    pub count: u64,
    /// What `Rule::numbers` makes of both as one vector, where a program takes it at each call; they do not count then.
    pub numbers: Option<&'a Tensor>,
    /// Whether nothing may be differentiated through the step.
    pub stop: bool,
}

impl Step<'_> {
    /// Whether the gradient and the moments fit the parameter.
    fn check(&self, name: &str) -> Result<()> {
        let (w, g, path) = (self.param, self.grad, self.path);
        let lr = self.lr;
        ensure!(
            lr >= 0.0 && lr.is_finite(),
            Value,
            "{name}: lr is a number from 0 on, not {lr}"
        );
        ensure!(
            w.dtype().is_inexact(),
            DType,
            "{name}: `{path}` is {}; only floats are trained",
            w.spec()
        );
        ensure!(
            same_home(w, g),
            Backend,
            "{name}: `{path}` lives on {}, its gradient on {}",
            home(w),
            home(g)
        );
        ensure!(
            w.shape() == g.shape(),
            Shape,
            "{name}: `{path}` is {}, its gradient {}",
            w.spec(),
            g.spec()
        );
        // What was summed or unscaled in f32 comes as such.
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

/// Whether two tensors live in one place; a number lives everywhere.
fn same_home(x: &Tensor, y: &Tensor) -> bool {
    match (x.backend(), y.backend()) {
        (Some(a), Some(b)) => a.name() == b.name(),
        _ => true,
    }
}

fn home(x: &Tensor) -> &'static str {
    x.backend().map_or("no backend", Backend::name)
}

/// A constant to every derivative, those of a framework's own included.
fn stopped(x: Tensor) -> Result<Tensor> {
    match x.backend() {
        Some(home) if home.name() == "native" && !is_traced(&x) => Ok(x),
        _ => ops::stop_gradient(x).done(),
    }
}
