//! Layers, losses and optimisers on top of the core's public functions.
//!
//! A layer is a plain struct of tensors with `#[derive(Tree)]`: its fields are its parameters. Nothing here depends
//! on a backend.

pub mod module;
pub mod cost;
pub mod functional;
pub mod init;
pub mod stack;
pub mod linear;
pub mod conv;
pub mod recurrent;
pub mod norm;
pub mod activation;
pub mod pool;
pub mod dropout;
pub mod sequential;
pub mod attention;
pub mod transformer;
pub mod schedule;
pub mod file;
pub mod checkpoint;
pub mod optim;

pub use activation::{Activation, PRelu};
pub use attention::{AttentionArgs, MultiHeadAttention};
pub use conv::{
    Conv, Conv1d, Conv1dTranspose, Conv2d, Conv2dTranspose, Conv3d, Conv3dTranspose, ConvTranspose,
    DepthwiseConv2d,
};
pub use dropout::Dropout;
pub use linear::{Bilinear, Embedding, Linear};
pub use module::{Module, parameter_count};
pub use norm::{BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RmsNorm};
pub use optim::{
    Adagrad, Adam, AdamW, Groups, JitStep, Lamb, Lars, Lion, LossScale, Optimizer, RmsProp, Sgd,
};
pub use pool::{AdaptivePool, AvgPool, GlobalPool, MaxPool};
pub use recurrent::{Cell, Recurrent, RecurrentOptions, RecurrentOutput};
pub use schedule::Schedule;
pub use sequential::{Flatten, Layer, Sequential};
pub use stack::Stack;
pub use transformer::{Transformer, TransformerArgs, TransformerLayer, TransformerOptions};
