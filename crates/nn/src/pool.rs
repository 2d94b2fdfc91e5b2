//! Pooling as layers.

use crate::functional::adaptive::{self, Pool};
use crate::functional::pool::{self, Pooling};
use crate::module::Module;
use clematis_core::ops::Padding;
use clematis_core::{Axes, Result, Tensor};
use clematis_derive::Tree;

/// A window whose strides are its size, without padding, channels last.
fn window(op: &'static str, size: &[usize]) -> Pooling {
    Pooling {
        op,
        kernel: Axes::from(size),
        strides: Axes::from(size),
        padding: Padding::Valid,
        dilations: std::iter::repeat_n(1, size.len()).collect(),
        ceil_mode: false,
        channels_first: false,
    }
}

/// The largest of each window.
#[derive(Clone, Debug, Tree)]
pub struct MaxPool {
    /// How the window slides.
    #[tree(skip)]
    pub window: Pooling,
}

impl MaxPool {
    /// A window whose strides are its size, without padding, channels last.
    pub fn new(size: &[usize]) -> Self {
        MaxPool {
            window: window("max_pool", size),
        }
    }
}

impl Module for MaxPool {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        pool::max_pool(x, &self.window).done()
    }
}

/// The mean of each window.
#[derive(Clone, Debug, Tree)]
pub struct AvgPool {
    /// How the window slides.
    #[tree(skip)]
    pub window: Pooling,
    /// Whether padding counts as zeros.
    #[tree(skip)]
    pub count_padding: bool,
}

impl AvgPool {
    /// A window whose strides are its size, without padding, channels last.
    pub fn new(size: &[usize]) -> Self {
        AvgPool {
            window: window("avg_pool", size),
            count_padding: false,
        }
    }
}

impl Module for AvgPool {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        pool::avg_pool(x, &self.window, self.count_padding, None).done()
    }
}

/// Even windows, so that the spatial axes come out with given sizes.
#[derive(Clone, Debug, Tree)]
pub struct AdaptivePool {
    /// The mean or the largest.
    #[tree(skip)]
    pub kind: Pool,
    /// One per spatial axis; `None` leaves it as it is.
    #[tree(skip)]
    pub sizes: Vec<Option<usize>>,
    /// Whether the channels stand before the spatial axes rather than behind.
    #[tree(skip)]
    pub channels_first: bool,
}

impl AdaptivePool {
    /// To these sizes, channels last.
    pub fn new(kind: Pool, sizes: &[usize]) -> Self {
        AdaptivePool {
            kind,
            sizes: sizes.iter().copied().map(Some).collect(),
            channels_first: false,
        }
    }
}

impl Module for AdaptivePool {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let last = !self.channels_first;
        adaptive::adaptive_pool("adaptive_pool", x, self.kind, &self.sizes, last).done()
    }
}

/// All spatial axes in one.
#[derive(Clone, Debug, Tree)]
pub struct GlobalPool {
    /// The mean or the largest.
    #[tree(skip)]
    pub kind: Pool,
    /// Whether the channels are the second axis rather than the last.
    #[tree(skip)]
    pub channels_second: bool,
}

impl GlobalPool {
    /// Channels last.
    pub fn new(kind: Pool) -> Self {
        GlobalPool {
            kind,
            channels_second: false,
        }
    }
}

impl Module for GlobalPool {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        adaptive::global_pool("global_pool", x, self.kind, self.channels_second, false).done()
    }
}
