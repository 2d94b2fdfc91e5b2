//! Pooling layers.

use crate::functional::adaptive::{self, Pool};
use crate::functional::pool::{self, Pooling};
use crate::module::Module;
use clematis_core::ops::Padding;
use clematis_core::{Axes, Result, Tensor};
use clematis_derive::Tree;

/// A window with strides equal to its size, no padding, channels last.
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

/// Max pooling.
#[derive(Clone, Debug, Tree)]
pub struct MaxPool {
    /// The configuration of the window.
    #[tree(skip)]
    pub window: Pooling,
}

impl MaxPool {
    /// A window with strides equal to its size, no padding, channels last.
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

/// Average pooling.
#[derive(Clone, Debug, Tree)]
pub struct AvgPool {
    /// The configuration of the window.
    #[tree(skip)]
    pub window: Pooling,
    /// Whether padding counts as zeros.
    #[tree(skip)]
    pub count_padding: bool,
}

impl AvgPool {
    /// A window with strides equal to its size, no padding, channels last.
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

/// Adaptive pooling to given spatial sizes.
#[derive(Clone, Debug, Tree)]
pub struct AdaptivePool {
    /// Mean or maximum.
    #[tree(skip)]
    pub kind: Pool,
    /// One per spatial axis; `None` keeps the size.
    #[tree(skip)]
    pub sizes: Vec<Option<usize>>,
    /// Whether the channels are before the spatial axes instead of after them.
    #[tree(skip)]
    pub channels_first: bool,
}

impl AdaptivePool {
    /// Pools to these sizes, channels last.
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

/// Global pooling over all spatial axes.
#[derive(Clone, Debug, Tree)]
pub struct GlobalPool {
    /// Mean or maximum.
    #[tree(skip)]
    pub kind: Pool,
    /// Whether the channels are axis 1 instead of the last.
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
