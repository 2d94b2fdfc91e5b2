//! The convolution layer.

use crate::init;
use crate::module::Module;
use clematis_core::ops::{self, ConvOptions};
use clematis_core::random::Key;
use clematis_core::{Result, Tensor};
use clematis_derive::Tree;

/// A convolution over two spatial axes, channels last.
#[derive(Clone, Debug, Tree)]
pub struct Conv2d {
    /// `[height, width, in channels / groups, out channels]`.
    pub w: Tensor,
    /// `[out channels]`.
    pub b: Option<Tensor>,
    /// Strides, padding, dilation, groups.
    #[tree(skip)]
    pub options: ConvOptions,
}

impl Conv2d {
    /// Stride 1, same padding.
    pub fn new(inputs: usize, outputs: usize, size: [usize; 2], key: &Key) -> Result<Self> {
        Ok(Conv2d {
            w: init::he_normal(
                [size[0], size[1], inputs, outputs],
                size[0] * size[1] * inputs,
                key,
            )?,
            b: Some(init::zeros([outputs])?),
            options: ConvOptions::new(2),
        })
    }
}

impl Module for Conv2d {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = ops::conv(x, &self.w, &self.options);
        match &self.b {
            Some(b) => (y + b).done(),
            None => y.done(),
        }
    }
}
