//! Activation layers.

use crate::functional::activation;
use crate::init;
use crate::linear::positive;
use crate::module::Module;
use clematis_core::{Result, Tensor, bail, ops};
use clematis_derive::Tree;

/// An activation function, elementwise or along one axis; without parameters.
#[derive(Clone, Copy, Debug, PartialEq, Tree)]
pub enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// x clipped to [0, 6].
    Relu6,
    /// `elu` with the constants that preserve mean and variance.
    Selu,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `log(sigmoid(x))`.
    LogSigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `x sigmoid(x)`.
    Silu,
    /// `x tanh(softplus(x))`.
    Mish,
    /// `relu6(x + 3) / 6`.
    HardSigmoid,
    /// `x hard_sigmoid(x)`.
    HardSwish,
    /// The first half of the last axis times `gelu` of the second.
    Geglu,
    /// `log(1 + exp(x))`.
    Softplus,
    /// x times the normal CDF of x, or its tanh approximation.
    Gelu {
        /// Whether to use the tanh approximation.
        #[tree(skip)]
        approximate: bool,
    },
    /// x where positive, `alpha x` elsewhere.
    LeakyRelu {
        /// The factor for negative x.
        #[tree(skip)]
        alpha: f64,
    },
    /// x where positive, `alpha (exp(x) - 1)` elsewhere.
    Elu {
        /// The factor.
        #[tree(skip)]
        alpha: f64,
    },
    /// x where it is above the threshold, 0 elsewhere.
    ThresholdedRelu {
        /// The threshold.
        #[tree(skip)]
        threshold: f64,
    },
    /// `exp(x)`, scaled to sum to one along an axis.
    Softmax {
        /// The axis.
        #[tree(skip)]
        axis: i64,
    },
    /// `log(softmax(x))`.
    LogSoftmax {
        /// The axis.
        #[tree(skip)]
        axis: i64,
    },
    /// x itself.
    Identity,
}

impl Activation {
    /// The activation of this name, with default settings.
    pub fn named(word: &str) -> Result<Self> {
        Ok(match word {
            "relu" => Self::Relu,
            "relu6" => Self::Relu6,
            "selu" => Self::Selu,
            "sigmoid" => Self::Sigmoid,
            "log_sigmoid" => Self::LogSigmoid,
            "tanh" => Self::Tanh,
            "silu" => Self::Silu,
            "mish" => Self::Mish,
            "hard_sigmoid" => Self::HardSigmoid,
            "hard_swish" => Self::HardSwish,
            "geglu" => Self::Geglu,
            "softplus" => Self::Softplus,
            "gelu" => Self::Gelu { approximate: false },
            "leaky_relu" => Self::LeakyRelu { alpha: 0.2 },
            "elu" => Self::Elu { alpha: 1.0 },
            "thresholded_relu" => Self::ThresholdedRelu { threshold: 0.0 },
            "softmax" => Self::Softmax { axis: -1 },
            "log_softmax" => Self::LogSoftmax { axis: -1 },
            "identity" => Self::Identity,
            _ => bail!(Value, "activation: unknown activation \"{word}\""),
        })
    }
}

impl Module for Activation {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match *self {
            Self::Relu => ops::relu(x),
            Self::Relu6 => activation::relu6(x),
            Self::Selu => ops::selu(x),
            Self::Sigmoid => ops::sigmoid(x),
            Self::LogSigmoid => ops::log_sigmoid(x),
            Self::Tanh => ops::tanh(x),
            Self::Silu => ops::silu(x),
            Self::Mish => ops::mish(x),
            Self::HardSigmoid => ops::hard_sigmoid(x),
            Self::HardSwish => ops::hard_swish(x),
            Self::Geglu => activation::geglu(x),
            Self::Softplus => activation::softplus(x, None, None),
            Self::Gelu { approximate } => ops::gelu(x, approximate),
            Self::LeakyRelu { alpha } => ops::leaky_relu(x, alpha),
            Self::Elu { alpha } => ops::elu(x, alpha),
            Self::ThresholdedRelu { threshold } => activation::thresholded_relu(x, threshold),
            Self::Softmax { axis } => ops::softmax(x, axis),
            Self::LogSoftmax { axis } => ops::log_softmax(x, axis),
            Self::Identity => return Ok(x.clone()),
        }
        .done()
    }
}

/// Parametric ReLU: x where positive, `weight x` elsewhere; `weight` is trained.
#[derive(Clone, Debug, Tree)]
pub struct PRelu {
    /// One factor for all elements, or one per channel (the last axis).
    pub weight: Tensor,
}

impl PRelu {
    /// Initialises `channels` factors with 0.25.
    pub fn new(channels: usize) -> Result<Self> {
        positive("PRelu", &[("channels", channels)])?;
        let weight = (init::ones([channels])? * 0.25).done()?;
        Ok(PRelu { weight })
    }
}

impl Module for PRelu {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        activation::prelu(x, &self.weight).done()
    }
}
