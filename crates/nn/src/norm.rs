//! Normalisation layers. Channels are last by default.

use crate::functional::batch_norm::{self, BatchNormOutput};
use crate::functional::norm;
use crate::init;
use crate::linear::positive;
use crate::module::Module;
use clematis_core::tree::State;
use clematis_core::{Result, Shape, Tensor, ensure, ops};
use clematis_derive::Tree;

/// Default epsilon.
const EPSILON: f64 = 1e-5;

/// Layer norm over the last axes, then `x weight + bias`.
#[derive(Clone, Debug, Tree)]
pub struct LayerNorm {
    /// In the shape of the last axes.
    pub weight: Option<Tensor>,
    /// In the shape of the last axes.
    pub bias: Option<Tensor>,
    /// The sizes of the last axes.
    #[tree(skip)]
    pub sizes: Vec<usize>,
    /// What keeps a division from one by 0.
    #[tree(skip)]
    pub epsilon: f64,
}

fn check_last(layer: &str, x: &Tensor, sizes: &[usize]) -> Result<()> {
    let n = x.rank().saturating_sub(sizes.len());
    let fits =
        x.rank() >= sizes.len() && x.shape().dims()[n..].iter().zip(sizes).all(|(a, b)| a == b);
    ensure!(
        fits,
        Shape,
        "{layer}: the last axes of {} are not {sizes:?}",
        x.spec()
    );
    Ok(())
}

impl LayerNorm {
    /// Over last axes of these sizes.
    pub fn new(sizes: &[usize]) -> Result<Self> {
        ensure!(!sizes.is_empty(), Value, "LayerNorm: no axes to normalise");
        Ok(LayerNorm {
            weight: Some(init::ones(Shape::from_sizes(sizes))?),
            bias: Some(init::zeros(Shape::from_sizes(sizes))?),
            sizes: sizes.to_vec(),
            epsilon: EPSILON,
        })
    }
}

impl Module for LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        check_last("LayerNorm", x, &self.sizes)?;
        let axes: Vec<i64> = (-(self.sizes.len() as i64)..0).collect();
        let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
        norm::layer_norm(x, &axes, weight, bias, self.epsilon, 1.0).done()
    }
}

/// RMS norm over the last axes, times `weight`.
#[derive(Clone, Debug, Tree)]
pub struct RmsNorm {
    /// In the shape of the last axes.
    pub weight: Option<Tensor>,
    /// The sizes of the last axes.
    #[tree(skip)]
    pub sizes: Vec<usize>,
    /// What keeps a division from one by 0.
    #[tree(skip)]
    pub epsilon: f64,
}

impl RmsNorm {
    /// Over last axes of these sizes.
    pub fn new(sizes: &[usize]) -> Result<Self> {
        ensure!(!sizes.is_empty(), Value, "RmsNorm: no axes to normalise");
        Ok(RmsNorm {
            weight: Some(init::ones(Shape::from_sizes(sizes))?),
            sizes: sizes.to_vec(),
            epsilon: EPSILON,
        })
    }
}

impl Module for RmsNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        check_last("RmsNorm", x, &self.sizes)?;
        let axis = -(self.sizes.len() as i64);
        ops::rms_norm(x, self.weight.as_ref(), axis, self.epsilon).done()
    }
}

/// Group norm: normalises within groups of channels of each sample.
#[derive(Clone, Debug, Tree)]
pub struct GroupNorm {
    /// One per channel.
    pub weight: Option<Tensor>,
    /// One per channel.
    pub bias: Option<Tensor>,
    /// Number of groups.
    #[tree(skip)]
    pub groups: usize,
    /// Whether the channels are axis 1 instead of the last.
    #[tree(skip)]
    pub channels_second: bool,
    /// What keeps a division from one by 0.
    #[tree(skip)]
    pub epsilon: f64,
}

impl GroupNorm {
    /// Groups and channels, with initial weight 1 and bias 0.
    pub fn new(groups: usize, channels: usize) -> Result<Self> {
        positive("GroupNorm", &[("groups", groups), ("channels", channels)])?;
        ensure!(
            channels.is_multiple_of(groups),
            Value,
            "GroupNorm: {channels} channels are not divisible into {groups} groups"
        );
        Ok(GroupNorm {
            weight: Some(init::ones([channels])?),
            bias: Some(init::zeros([channels])?),
            groups,
            channels_second: false,
            epsilon: EPSILON,
        })
    }
}

impl Module for GroupNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
        norm::group_norm(
            x,
            self.groups,
            weight,
            bias,
            self.epsilon,
            self.channels_second,
        )
        .done()
    }
}

/// InstanceNormOutput norm: normalises per sample and channel.
#[derive(Clone, Debug, Tree)]
pub struct InstanceNorm {
    /// One per channel.
    pub weight: Option<Tensor>,
    /// One per channel.
    pub bias: Option<Tensor>,
    /// Whether the channels are axis 1 instead of the last.
    #[tree(skip)]
    pub channels_second: bool,
    /// What keeps a division from one by 0.
    #[tree(skip)]
    pub epsilon: f64,
}

impl InstanceNorm {
    /// With this many channels.
    pub fn new(channels: usize) -> Result<Self> {
        positive("InstanceNorm", &[("channels", channels)])?;
        Ok(InstanceNorm {
            weight: Some(init::ones([channels])?),
            bias: Some(init::zeros([channels])?),
            channels_second: false,
            epsilon: EPSILON,
        })
    }
}

impl Module for InstanceNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
        let found = norm::instance_norm(x, weight, bias, self.epsilon, self.channels_second)?;
        Ok(found.out)
    }
}

/// Batch norm per channel: `forward` uses running statistics, `train` those of the batch.
#[derive(Clone, Debug, Tree)]
pub struct BatchNorm {
    /// One per channel.
    pub weight: Option<Tensor>,
    /// One per channel.
    pub bias: Option<Tensor>,
    /// Running mean; saved, not trained.
    pub running_mean: State,
    /// Running variance, unbiased; saved, not trained.
    pub running_var: State,
    /// The weight of a batch in the running statistics.
    #[tree(skip)]
    pub momentum: f64,
    /// Whether the channels are axis 1 instead of the last.
    #[tree(skip)]
    pub channels_second: bool,
    /// What keeps a division from one by 0.
    #[tree(skip)]
    pub epsilon: f64,
}

impl BatchNorm {
    /// With this many channels.
    pub fn new(channels: usize) -> Result<Self> {
        positive("BatchNorm", &[("channels", channels)])?;
        Ok(BatchNorm {
            weight: Some(init::ones([channels])?),
            bias: Some(init::zeros([channels])?),
            running_mean: State(init::zeros([channels])?),
            running_var: State(init::ones([channels])?),
            momentum: 0.1,
            channels_second: false,
            epsilon: EPSILON,
        })
    }

    /// Normalises by the statistics of the batch. Returns the updated running statistics beside the result: inside a
    /// derivative they are returned with the loss, then passed to `keep`.
    pub fn train(&self, x: &Tensor) -> Result<BatchNormOutput> {
        batch_norm::batch_norm_update(
            x,
            Some(&self.running_mean.0),
            Some(&self.running_var.0),
            self.bias.as_ref(),
            self.weight.as_ref(),
            self.momentum,
            self.epsilon,
            self.channels_second,
        )
    }

    /// Stores new running statistics.
    pub fn keep(&mut self, mean: Tensor, variance: Tensor) {
        (self.running_mean, self.running_var) = (State(mean), State(variance));
    }
}

impl Module for BatchNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let (mean, variance) = (&self.running_mean.0, &self.running_var.0);
        let (weight, bias) = (self.weight.as_ref(), self.bias.as_ref());
        let (epsilon, second) = (self.epsilon, self.channels_second);
        norm::batch_norm(x, mean, variance, bias, weight, false, epsilon, second).done()
    }

    fn forward_train(&mut self, x: &Tensor) -> Result<Tensor> {
        let moved = self.train(x)?;
        self.keep(moved.mean, moved.variance);
        Ok(moved.out)
    }
}
