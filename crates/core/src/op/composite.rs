//! Composites: ops with an expansion into other ops, kept by name because a backend or an export target may implement
//! them directly.
//!
//! Types only; the expansions are in `crate::composite`. A function over ops that no backend implements directly
//! needs no row here.

use crate::attr::{Attr, Attribute, Attrs, only, read};
use crate::dim::{Bindings, Dim};
use crate::dtype::{DType, Real};
use crate::error::Result;
use crate::graph::Body;
use crate::op::elementwise::Takes;
use crate::op::params::Pads;
use crate::shape::{Axes, Axis, Shape};
use crate::words;

words! {
    /// Interpolation method of `resize`.
    ResizeMethod { Nearest "nearest", Linear "linear", Cubic "cubic" }
}

macro_rules! composites {
    ($($(#[$meta:meta])* $variant:ident $name:literal $takes:ident $doc:literal { $($field:ident: $ty:ty),* $(,)? })*) => {
        /// An op with an expansion into other ops.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // the rows' lines say it
        pub enum Composite { $(#[doc = $doc] $variant { $($field: $ty),* }),* }

        #[derive(Clone, Copy)]
        enum Row { $($variant,)* Count }

        impl Composite {
            /// Number of composites.
            pub const COUNT: usize = Row::Count as usize;

            /// Name and description of each, in the order of their codes.
            pub fn all() -> Vec<(&'static str, &'static str)> {
                vec![$(($name, $doc)),*]
            }

            /// The name.
            pub const fn name(&self) -> &'static str {
                match self { $(Composite::$variant { .. } => $name),* }
            }

            /// The dtypes that the first operand may have. Functions in `ops` convert integers to floats where that is
            /// supported. Without this check a backend's kernel and the expansion could disagree on what is legal.
            pub const fn takes(&self) -> Takes {
                match self { $(Composite::$variant { .. } => Takes::$takes),* }
            }

            /// A dense index.
            pub const fn code(&self) -> usize {
                match self { $(Composite::$variant { .. } => Row::$variant as usize),* }
            }

            /// The parameters as named plain data.
            pub fn attrs(&self) -> Attrs {
                match self { $(Composite::$variant { $($field),* } => vec![$((stringify!($field), $field.to_attr())),*]),* }
            }

            /// The composite of this name, or `None` if there is none.
            pub fn from_attrs(name: &str, attrs: &[(String, Attr)]) -> Result<Option<Composite>> {
                $(if name == $name {
                    only(name, attrs, &[$(stringify!($field)),*])?;
                    return Ok(Some(Composite::$variant { $($field: read(name, attrs, stringify!($field))?),* }));
                })*
                Ok(None)
            }

            /// Substitutes numbers for symbolic dimensions in the parameters.
            #[allow(unused_variables)] // rows without parameters
            pub fn bind(&self, bindings: &Bindings) -> Result<Composite> {
                Ok(match self { $(Composite::$variant { $($field),* } =>
                    Composite::$variant { $($field: Attribute::bind($field, bindings)?),* }),* })
            }
        }
    };
}

composites! {
    Relu "relu" Real "max(x, 0)" {}
    LeakyRelu "leaky_relu" Float "x where positive, negative_slope times x elsewhere" { negative_slope: Real }
    Elu "elu" Float "x where positive, alpha (exp(x) - 1) elsewhere" { alpha: Real }
    Selu "selu" Float "elu, scaled to preserve mean 0 and variance 1" {}
    Gelu "gelu" Float "x times the normal CDF of x, or its tanh approximation" { approximate: bool }
    Sigmoid "sigmoid" Float "1 / (1 + exp(-x))" {}
    LogSigmoid "log_sigmoid" Float "log(sigmoid(x))" {}
    Silu "silu" Float "x sigmoid(x)" {}
    Softplus "softplus" Float "log(1 + exp(x))" {}
    Mish "mish" Float "x tanh(softplus(x))" {}
    HardSigmoid "hard_sigmoid" Float "relu6(x + 3) / 6" {}
    HardSwish "hard_swish" Float "x hard_sigmoid(x)" {}
    Softmax "softmax" Float "exp(x), scaled to sum to one along an axis" { axis: Axis }
    LogSoftmax "log_softmax" Float "log(softmax(x))" { axis: Axis }
    LogSumExp "logsumexp" Float "log of the sum of exp(x) over axes, which are removed" { axes: Axes }
    Mean "mean" Inexact "the mean over axes, which are removed" { axes: Axes }
    Var "var" Inexact "the variance over axes, which are removed; divides by n - correction" { axes: Axes, correction: Real }
    LayerNorm "layer_norm" Float "x, scale?, bias?: normalised over the last axes from `axis` on" { axis: Axis, epsilon: Real }
    LayerNormGrad "layer_norm_grad" Float "x, ct, scale?: the cotangents of x, scale and bias of a layer norm" { axis: Axis, epsilon: Real }
    RmsNorm "rms_norm" Float "x, scale?: divided by the root mean square over the last axes from `axis` on" { axis: Axis, epsilon: Real }
    GroupNorm "group_norm" Float "x, scale?, bias?: normalised within groups of channels; axis 0 is the batch" { axis: Axis, groups: usize, epsilon: Real }
    BatchNorm "batch_norm" Float "x, mean, variance, scale?, bias?: normalised per channel with the given statistics" { axis: Axis, epsilon: Real }
    Linear "linear" Any "x, w, b?: x wᵀ + b over the last axis" {}
    Embedding "embedding" Any "table, indices: rows of a table" {}
    Attention "attention" Float "q, k, v, mask?: softmax(q kᵀ scale) v over the last two axes; a bool mask keeps, a float mask is added" { scale: Real, causal: bool }
    Dropout "dropout" Inexact "x, key: zeroes a fraction `rate` of the elements and scales the rest by 1 / (1 - rate)" { rate: Real }
    ConvTranspose "conv_transpose" Any "x, w: the convolution's transpose, in the layouts of a convolution from the result to x" { strides: Axes, padding: Pads, rhs_dilation: Axes, lhs_layout: Axes, rhs_layout: Axes, out_layout: Axes, feature_groups: usize }
    MaxPool "max_pool" Real "the maximum of each window" { size: Axes, strides: Axes, padding: Pads, dilation: Axes }
    AvgPool "avg_pool" Inexact "the mean of each window" { size: Axes, strides: Axes, padding: Pads, dilation: Axes, count_padding: bool }
    Resize "resize" Any "resizes by interpolation; pixel centres are at half-integers unless corners are aligned" { shape: Shape, method: ResizeMethod, align_corners: bool, antialias: bool }
    Einsum "einsum" Number "Einstein summation by index letters" { equation: String }
    OneHot "one_hot" Integer "1 at the index along a new last axis, 0 elsewhere" { depth: Dim, dtype: DType }
    CrossEntropy "cross_entropy" Float "logits, labels: -log softmax at the label along the last axis, one value per row" {}
    LstmCell "lstm_cell" Float "x, h, c, wx, wh, b?: one step, gates in the order i f g o; new h and c" {}
    GruCell "gru_cell" Float "x, h, wx, wh, bx?, bh?: one step, gates in the order r z n; new h" {}
    Solve "solve" Inexact "x with a x = b" {}
    Inv "inv" Inexact "the inverse of a square matrix" {}
    Det "det" Inexact "the determinant" {}
    RandomBits "random_bits" Integer "key: Threefry-2x32 bits as unsigned integers" { dtype: DType, shape: Shape }
    Function "function" Any "a named function with a body" { name: String, body: Body }
}
