//! The optimisers: a learning rate and the hyperparameters of an update rule.

use super::Optimizer;
use crate::functional::optimizer_rule::Rule;
use crate::schedule::Schedule;

/// Defines a struct of hyperparameters with defaults, and its update rule.
macro_rules! optimizers {
    ($($(#[$doc:meta])* $name:ident { $($(#[$text:meta])* $field:ident: $type:ty = $value:expr,)* } => $rule:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            /// The learning rate: a number, or a schedule.
            pub lr: Schedule,
            $($(#[$text])* pub $field: $type,)*
        }

        impl $name {
            /// With default hyperparameters.
            pub fn new(lr: impl Into<Schedule>) -> Self {
                $name { lr: lr.into(), $($field: $value,)* }
            }
        }

        impl Optimizer for $name {
            fn rule(&self) -> Rule {
                let rule: fn(&$name) -> Rule = $rule;
                rule(self)
            }
            fn lr(&self) -> &Schedule {
                &self.lr
            }
        }
    )* };
}

optimizers! {
    /// Gradient descent with momentum.
    Sgd {
        /// The momentum; 0 for plain gradient descent.
        momentum: f64 = 0.0,
        /// Whether to use Nesterov momentum.
        nesterov: bool = false,
        /// L2 penalty: this factor times the parameter is added to its gradient.
        weight_decay: f64 = 0.0,
    } => |s| Rule::Sgd { momentum: s.momentum, nesterov: s.nesterov, weight_decay: s.weight_decay };

    /// Adam (Kingma and Ba 2015).
    Adam {
        /// Decay rate of the moving average of gradients.
        beta1: f64 = 0.9,
        /// Decay rate of the moving average of squared gradients.
        beta2: f64 = 0.999,
        /// Added to the denominator.
        epsilon: f64 = 1e-7,
        /// L2 penalty: this factor times the parameter is added to its gradient.
        weight_decay: f64 = 0.0,
    } => |s| Rule::Adam {
        beta1: s.beta1, beta2: s.beta2, epsilon: s.epsilon, weight_decay: s.weight_decay, decoupled: false,
    };

    /// Adam with decoupled weight decay (Loshchilov and Hutter 2019).
    AdamW {
        /// Decay rate of the moving average of gradients.
        beta1: f64 = 0.9,
        /// Decay rate of the moving average of squared gradients.
        beta2: f64 = 0.999,
        /// Added to the denominator.
        epsilon: f64 = 1e-7,
        /// Decoupled weight decay, multiplied by the learning rate.
        weight_decay: f64 = 0.01,
    } => |s| Rule::Adam {
        beta1: s.beta1, beta2: s.beta2, epsilon: s.epsilon, weight_decay: s.weight_decay, decoupled: true,
    };

    /// LARS: steps with norms proportional to those of the parameters (You, Gitman and Ginsburg 2017).
    Lars {
        /// L2 penalty: this factor times the parameter is added to its gradient.
        decay_lambda: f64 = 0.0,
        /// The momentum.
        momentum: f64 = 0.0,
        /// Trust coefficient: the norm of the step relative to that of the parameter, before the learning rate.
        trust: f64 = 1.0,
    } => |s| Rule::Lars { momentum: s.momentum, weight_decay: s.decay_lambda, trust: s.trust };

    /// LAMB: Adam's steps with norms proportional to those of the parameters (You and others 2020).
    Lamb {
        /// Decay rate of the moving average of gradients.
        beta1: f64 = 0.9,
        /// Decay rate of the moving average of squared gradients.
        beta2: f64 = 0.999,
        /// Added to the denominator.
        epsilon: f64 = 1e-7,
        /// Maximum trust ratio.
        max_trust_ratio: f64 = 10.0,
        /// Weight decay: this factor times the parameter is added to the step.
        decay_lambda: f64 = 0.0,
    } => |s| Rule::Lamb {
        beta1: s.beta1, beta2: s.beta2, epsilon: s.epsilon, weight_decay: s.decay_lambda, most: s.max_trust_ratio,
    };

    /// RMSProp (Hinton 2012).
    RmsProp {
        /// Decay rate of the moving average of squared gradients.
        alpha: f64 = 0.99,
        /// Added to the denominator.
        epsilon: f64 = 1e-7,
        /// The momentum.
        momentum: f64 = 0.0,
        /// Whether the squared gradients are centred by their mean.
        centered: bool = false,
        /// L2 penalty: this factor times the parameter is added to its gradient.
        weight_decay: f64 = 0.0,
    } => |s| Rule::RmsProp {
        alpha: s.alpha, epsilon: s.epsilon, momentum: s.momentum, centered: s.centered, weight_decay: s.weight_decay,
    };

    /// Adagrad (Duchi, Hazan and Singer 2011).
    Adagrad {
        /// Added to the denominator.
        epsilon: f64 = 1e-7,
        /// L2 penalty: this factor times the parameter is added to its gradient.
        weight_decay: f64 = 0.0,
    } => |s| Rule::Adagrad { epsilon: s.epsilon, weight_decay: s.weight_decay };

    /// Lion: steps by the sign of an interpolated momentum (Chen and others 2023).
    Lion {
        /// Interpolation weight of the old momentum in the step.
        beta1: f64 = 0.9,
        /// Decay rate of the momentum.
        beta2: f64 = 0.99,
        /// Decoupled weight decay, multiplied by the learning rate.
        weight_decay: f64 = 0.0,
    } => |s| Rule::Lion { beta1: s.beta1, beta2: s.beta2, weight_decay: s.weight_decay };
}
