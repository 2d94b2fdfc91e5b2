//! The optimisers by name: a learning rate and the numbers of a rule.

use super::Optimizer;
use crate::functional::step::Rule;
use crate::schedule::Schedule;

/// A struct of numbers with their usual values, and the rule that it stands for.
macro_rules! optimizers {
    ($($(#[$doc:meta])* $name:ident { $($(#[$text:meta])* $field:ident: $type:ty = $value:expr,)* } => $rule:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            /// The learning rate: a number, or one for each step.
            pub lr: Schedule,
            $($(#[$text])* pub $field: $type,)*
        }

        impl $name {
            /// With the usual numbers.
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
        /// The share of the old sum of gradients; 0 for plain descent.
        momentum: f64 = 0.0,
        /// Whether the gradient is looked at where the sum leads to.
        nesterov: bool = false,
        /// The share of the parameter that is added to its gradient.
        weight_decay: f64 = 0.0,
    } => |s| Rule::Sgd { momentum: s.momentum, nesterov: s.nesterov, weight_decay: s.weight_decay };

    /// Adam (Kingma and Ba 2015).
    Adam {
        /// The share of the old mean.
        beta1: f64 = 0.9,
        /// The share of the old mean of squares.
        beta2: f64 = 0.999,
        /// Keeps the quotient finite.
        epsilon: f64 = 1e-7,
        /// The share of the parameter that is added to its gradient.
        weight_decay: f64 = 0.0,
    } => |s| Rule::Adam {
        beta1: s.beta1, beta2: s.beta2, epsilon: s.epsilon, weight_decay: s.weight_decay, decoupled: false,
    };

    /// Adam whose decay shrinks the parameter itself (Loshchilov and Hutter 2019).
    AdamW {
        /// The share of the old mean.
        beta1: f64 = 0.9,
        /// The share of the old mean of squares.
        beta2: f64 = 0.999,
        /// Keeps the quotient finite.
        epsilon: f64 = 1e-7,
        /// The share of the parameter that is lost, times the learning rate.
        weight_decay: f64 = 0.01,
    } => |s| Rule::Adam {
        beta1: s.beta1, beta2: s.beta2, epsilon: s.epsilon, weight_decay: s.weight_decay, decoupled: true,
    };

    /// Steps whose length follows that of the parameter (You, Gitman and Ginsburg 2017).
    Lars {
        /// The share of the parameter that is added to its gradient.
        decay_lambda: f64 = 0.0,
        /// The share of the old sum of steps.
        momentum: f64 = 0.0,
        /// The length of a step in lengths of the parameter, before the learning rate.
        trust: f64 = 1.0,
    } => |s| Rule::Lars { momentum: s.momentum, weight_decay: s.decay_lambda, trust: s.trust };

    /// Adam's steps with lengths that follow the parameters' (You and others 2020).
    Lamb {
        /// The share of the old mean.
        beta1: f64 = 0.9,
        /// The share of the old mean of squares.
        beta2: f64 = 0.999,
        /// Keeps the quotient finite.
        epsilon: f64 = 1e-7,
        /// The most that a step grows by.
        max_trust_ratio: f64 = 10.0,
        /// The share of the parameter that is added to the step.
        decay_lambda: f64 = 0.0,
    } => |s| Rule::Lamb {
        beta1: s.beta1, beta2: s.beta2, epsilon: s.epsilon, weight_decay: s.decay_lambda, most: s.max_trust_ratio,
    };

    /// Gradients over the root of the running mean of their squares (Hinton 2012).
    RmsProp {
        /// The share of the old mean of squares.
        alpha: f64 = 0.99,
        /// Keeps the quotient finite.
        epsilon: f64 = 1e-7,
        /// The share of the old sum of steps.
        momentum: f64 = 0.0,
        /// Whether the spread about the mean is used.
        centered: bool = false,
        /// The share of the parameter that is added to its gradient.
        weight_decay: f64 = 0.0,
    } => |s| Rule::RmsProp {
        alpha: s.alpha, epsilon: s.epsilon, momentum: s.momentum, centered: s.centered, weight_decay: s.weight_decay,
    };

    /// Gradients over the root of the sum of their squares (Duchi, Hazan and Singer 2011).
    Adagrad {
        /// Keeps the quotient finite.
        epsilon: f64 = 1e-7,
        /// The share of the parameter that is added to its gradient.
        weight_decay: f64 = 0.0,
    } => |s| Rule::Adagrad { epsilon: s.epsilon, weight_decay: s.weight_decay };

    /// Steps of one size, by the sign of a mean of gradients (Chen and others 2023).
    Lion {
        /// The share of the old mean in the step.
        beta1: f64 = 0.9,
        /// The share of the old mean in the new one.
        beta2: f64 = 0.99,
        /// The share of the parameter that is lost, times the learning rate.
        weight_decay: f64 = 0.0,
    } => |s| Rule::Lion { beta1: s.beta1, beta2: s.beta2, weight_decay: s.weight_decay };
}
