//! Convolution and transposed convolution layers in one, two and three dimensions.

use crate::functional::conv::{ConvConfig, conv, conv_transpose, depthwise_conv2d};
use crate::init;
use crate::linear::positive;
use crate::module::Module;
use clematis_core::expr::Expr;
use clematis_core::ops::Padding;
use clematis_core::random::Key;
use clematis_core::{Result, Tensor, ensure};
use clematis_derive::Tree;

/// A convolution over `N` spatial axes.
#[derive(Clone, Debug, Tree)]
pub struct Conv<const N: usize> {
    /// `[spatial…, inputs / groups, outputs]`.
    pub w: Tensor,
    /// `[1, …, outputs]`, in the layout of the result.
    pub b: Option<Tensor>,
    /// Strides, padding, dilation, groups, layout.
    #[tree(skip)]
    pub config: ConvConfig,
}

/// The transpose of a convolution over `N` spatial axes.
#[derive(Clone, Debug, Tree)]
pub struct ConvTranspose<const N: usize> {
    /// `[spatial…, inputs, outputs / groups]`.
    pub w: Tensor,
    /// `[1, …, outputs]`, in the layout of the result.
    pub b: Option<Tensor>,
    /// Strides, padding, dilation, groups, layout.
    #[tree(skip)]
    pub config: ConvConfig,
    /// The spatial sizes of the result where several are possible.
    #[tree(skip)]
    pub output_shape: Option<Vec<i64>>,
}

/// A convolution over one axis.
pub type Conv1d = Conv<1>;
/// A convolution over two axes.
pub type Conv2d = Conv<2>;
/// A convolution over three axes.
pub type Conv3d = Conv<3>;
/// The transpose of a convolution over one axis.
pub type Conv1dTranspose = ConvTranspose<1>;
/// The transpose of a convolution over two axes.
pub type Conv2dTranspose = ConvTranspose<2>;
/// The transpose of a convolution over three axes.
pub type Conv3dTranspose = ConvTranspose<3>;

/// Stride 1, same padding, channels last.
fn usual(op: &'static str, spatial: usize) -> ConvConfig {
    ConvConfig {
        padding: Padding::Same,
        ..ConvConfig::new(op, spatial)
    }
}

/// Initialises filter and bias; the last two axes of the filter are `inner` and `outer` channels.
fn parameters(
    layer: &str,
    channels: [usize; 2],
    size: &[usize],
    config: &ConvConfig,
    ends: &[usize],
    key: &Key,
) -> Result<(Tensor, Tensor)> {
    let [inputs, outputs] = channels;
    let field = size.iter().fold(1, |n: usize, &m| n.saturating_mul(m));
    positive(
        layer,
        &[
            ("inputs", inputs),
            ("outputs", outputs),
            ("the size of the filter", field),
        ],
    )?;
    let groups = config.groups.max(1);
    for (what, n) in [("input", inputs), ("output", outputs)] {
        ensure!(
            n.is_multiple_of(groups),
            Value,
            "{layer}: {n} {what} channels are not divisible into {groups} groups"
        );
    }
    let shape: Vec<usize> = size.iter().chain(ends).copied().collect();
    let (w, _) = key.split();
    let fan = |channels: usize| field.saturating_mul(channels) / groups;
    let w = init::glorot_uniform(shape, fan(inputs), fan(outputs), &w)?;
    let mut along = vec![1; size.len() + 2];
    along[if config.channels_first {
        1
    } else {
        size.len() + 1
    }] = outputs;
    Ok((w, init::zeros(along)?))
}

fn biased(y: Expr, b: Option<&Tensor>) -> Result<Tensor> {
    match b {
        Some(b) => (y + b).done(),
        None => y.done(),
    }
}

impl<const N: usize> Conv<N> {
    /// Stride 1, same padding, channels last.
    pub fn new(inputs: usize, outputs: usize, size: [usize; N], key: &Key) -> Result<Self> {
        Self::with(inputs, outputs, size, usual("conv", N), key)
    }

    /// With a full configuration.
    pub fn with(
        inputs: usize,
        outputs: usize,
        size: [usize; N],
        config: ConvConfig,
        key: &Key,
    ) -> Result<Self> {
        let ends = [inputs / config.groups.max(1), outputs];
        let (w, b) = parameters("Conv", [inputs, outputs], &size, &config, &ends, key)?;
        Ok(Conv {
            w,
            b: Some(b),
            config,
        })
    }
}

impl<const N: usize> Module for Conv<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        biased(conv(x, &self.w, None, &self.config), self.b.as_ref())
    }
}

impl<const N: usize> ConvTranspose<N> {
    /// Stride 1, same padding, channels last.
    pub fn new(inputs: usize, outputs: usize, size: [usize; N], key: &Key) -> Result<Self> {
        Self::with(inputs, outputs, size, usual("conv_transpose", N), key)
    }

    /// With a full configuration.
    pub fn with(
        inputs: usize,
        outputs: usize,
        size: [usize; N],
        config: ConvConfig,
        key: &Key,
    ) -> Result<Self> {
        let ends = [inputs, outputs / config.groups.max(1)];
        let layer = "ConvTranspose";
        let (w, b) = parameters(layer, [inputs, outputs], &size, &config, &ends, key)?;
        Ok(ConvTranspose {
            w,
            b: Some(b),
            config,
            output_shape: None,
        })
    }
}

impl<const N: usize> Module for ConvTranspose<N> {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let sizes = self.output_shape.as_deref();
        let y = conv_transpose(x, &self.w, None, sizes, &self.config);
        biased(y, self.b.as_ref())
    }
}

/// Depthwise convolution: each channel has its own filter.
#[derive(Clone, Debug, Tree)]
pub struct DepthwiseConv2d {
    /// `[height, width, channels]`.
    pub w: Tensor,
    /// `[1, …, channels]`, in the layout of the result.
    pub b: Option<Tensor>,
    /// Strides, padding, dilation, layout.
    #[tree(skip)]
    pub config: ConvConfig,
}

impl DepthwiseConv2d {
    /// Stride 1, same padding, channels last.
    pub fn new(channels: usize, size: [usize; 2], key: &Key) -> Result<Self> {
        Self::with(channels, size, usual("depthwise_conv2d", 2), key)
    }

    /// With a full configuration; `groups` is ignored.
    pub fn with(channels: usize, size: [usize; 2], config: ConvConfig, key: &Key) -> Result<Self> {
        let grouped = ConvConfig {
            groups: channels.max(1),
            ..config.clone()
        };
        let ends = [channels];
        let layer = "DepthwiseConv2d";
        let (w, b) = parameters(layer, [channels; 2], &size, &grouped, &ends, key)?;
        Ok(DepthwiseConv2d {
            w,
            b: Some(b),
            config,
        })
    }
}

impl Module for DepthwiseConv2d {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        biased(depthwise_conv2d(x, &self.w, &self.config), self.b.as_ref())
    }
}
