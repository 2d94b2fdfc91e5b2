//! Transformers: multi-head attention and MLPs with residual connections, pre-norm or post-norm.

use crate::activation::Activation;
use crate::attention::{AttentionArgs, MultiHeadAttention};
use crate::dropout::Dropout;
use crate::linear::{Linear, positive};
use crate::module::Module;
use crate::norm::LayerNorm;
use crate::stack::Stack;
use clematis_core::random::Key;
use clematis_core::{Result, Tensor, ensure};
use clematis_derive::Tree;

/// Options of transformer layers.
#[derive(Clone, Copy, Debug)]
pub struct TransformerOptions {
    /// Width of the MLP's hidden layer; four times the model's width if `None`.
    pub hidden: Option<usize>,
    /// Dropout rate; applied where a key is given.
    pub dropout: f64,
    /// The activation of the MLP.
    pub activation: Activation,
    /// Whether norms come before each sublayer (pre-norm) instead of after the residual (post-norm).
    pub norm_first: bool,
}

impl Default for TransformerOptions {
    fn default() -> Self {
        TransformerOptions {
            hidden: None,
            dropout: 0.1,
            activation: Activation::Relu,
            norm_first: false,
        }
    }
}

/// An encoder or decoder layer: self-attention, cross-attention in a decoder, and an MLP.
#[derive(Clone, Debug, Tree)]
pub struct TransformerLayer {
    /// Self-attention.
    pub attention: MultiHeadAttention,
    /// Cross-attention, in a decoder.
    pub cross_attention: Option<MultiHeadAttention>,
    /// The first layer of the MLP.
    pub hidden: Linear,
    /// The second layer of the MLP.
    pub out: Linear,
    /// One norm per sublayer.
    pub norms: Stack<LayerNorm>,
    /// The options.
    #[tree(skip)]
    pub options: TransformerOptions,
}

/// Optional arguments of [`TransformerLayer::forward_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct TransformerArgs<'a> {
    /// Mask of self-attention; positions where it is 0 are masked out.
    pub mask: Option<&'a Tensor>,
    /// Whether a position attends only to itself and earlier positions.
    pub causal: bool,
    /// The encoder's output; required by a decoder.
    pub memory: Option<&'a Tensor>,
    /// Mask of cross-attention; positions where it is 0 are masked out.
    pub memory_mask: Option<&'a Tensor>,
    /// The key of dropout; without one (in evaluation) nothing is dropped.
    pub key: Option<&'a Key>,
}

impl TransformerLayer {
    /// An encoder layer.
    pub fn encoder(
        width: usize,
        heads: usize,
        options: TransformerOptions,
        key: &Key,
    ) -> Result<Self> {
        Self::new(width, heads, false, options, key)
    }

    /// A decoder layer.
    pub fn decoder(
        width: usize,
        heads: usize,
        options: TransformerOptions,
        key: &Key,
    ) -> Result<Self> {
        Self::new(width, heads, true, options, key)
    }

    fn new(
        width: usize,
        heads: usize,
        is_decoder: bool,
        options: TransformerOptions,
        key: &Key,
    ) -> Result<Self> {
        positive("TransformerLayer", &[("width", width), ("heads", heads)])?;
        ensure!(
            width.is_multiple_of(heads),
            Value,
            "TransformerLayer: {width} channels are not divisible into {heads} heads"
        );
        let parts = 1 + usize::from(is_decoder);
        let keys = key.split_n(parts + 2);
        let attend = |key: &Key| MultiHeadAttention::new(width, width, heads, width / heads, key);
        let hidden = options.hidden.unwrap_or(4 * width);
        let norms: Result<Vec<_>> = (0..=parts).map(|_| LayerNorm::new(&[width])).collect();
        Ok(TransformerLayer {
            attention: attend(&keys[0])?,
            cross_attention: match is_decoder {
                true => Some(attend(&keys[1])?),
                false => None,
            },
            hidden: Linear::new(width, hidden, &keys[parts])?,
            out: Linear::new(hidden, width, &keys[parts + 1])?,
            norms: Stack::new(norms?),
            options,
        })
    }

    /// The forward pass with masks, memory or dropout.
    pub fn forward_with(&self, x: &Tensor, at: TransformerArgs<'_>) -> Result<Tensor> {
        // One key per dropout.
        let keys = at.key.map(|key| key.split_n(self.norms.len() + 1));
        let key = |i: usize| keys.as_ref().map(|keys| &keys[i]);
        let dropout = Dropout {
            rate: self.options.dropout,
        };
        let around = |x: &Tensor, i: usize, part: &dyn Fn(&Tensor) -> Result<Tensor>| {
            let norm = &self.norms[i];
            if self.options.norm_first {
                return (x + dropout.forward(&part(&norm.forward(x)?)?, key(i))?).done();
            }
            norm.forward(&(x + dropout.forward(&part(x)?, key(i))?).done()?)
        };
        let own = AttentionArgs {
            mask: at.mask,
            causal: at.causal,
            ..AttentionArgs::default()
        };
        let mut x = around(x, 0, &|x| self.attention.forward_with(x, own))?;
        let mut part = 1;
        if let Some(cross) = &self.cross_attention {
            ensure!(
                at.memory.is_some(),
                Value,
                "TransformerLayer: a decoder needs a memory to attend to"
            );
            let other = AttentionArgs {
                context: at.memory,
                mask: at.memory_mask,
                ..AttentionArgs::default()
            };
            x = around(&x, 1, &|x| cross.forward_with(x, other))?;
            part = 2;
        }
        around(&x, part, &|x| {
            let hidden = self.options.activation.forward(&self.hidden.forward(x)?)?;
            self.out.forward(&dropout.forward(&hidden, key(part + 1))?)
        })
    }
}

/// A stack of transformer layers; with pre-norm, a final norm follows.
#[derive(Clone, Debug, Tree)]
pub struct Transformer {
    /// The layers.
    pub layers: Stack<TransformerLayer>,
    /// The final norm.
    pub norm: Option<LayerNorm>,
}

impl Transformer {
    /// An encoder.
    pub fn encoder(
        layers: usize,
        width: usize,
        heads: usize,
        options: TransformerOptions,
        key: &Key,
    ) -> Result<Self> {
        Self::new(layers, width, heads, false, options, key)
    }

    /// A decoder.
    pub fn decoder(
        layers: usize,
        width: usize,
        heads: usize,
        options: TransformerOptions,
        key: &Key,
    ) -> Result<Self> {
        Self::new(layers, width, heads, true, options, key)
    }

    fn new(
        layers: usize,
        width: usize,
        heads: usize,
        is_decoder: bool,
        options: TransformerOptions,
        key: &Key,
    ) -> Result<Self> {
        positive("Transformer", &[("layers", layers)])?;
        let keys = key.split_n(layers);
        let layer = |key: &Key| TransformerLayer::new(width, heads, is_decoder, options, key);
        let all: Result<Vec<_>> = keys.iter().map(layer).collect();
        Ok(Transformer {
            layers: Stack::new(all?),
            norm: match options.norm_first {
                true => Some(LayerNorm::new(&[width])?),
                false => None,
            },
        })
    }

    /// The forward pass with masks, memory or dropout.
    pub fn forward_with(&self, x: &Tensor, at: TransformerArgs<'_>) -> Result<Tensor> {
        let keys = at.key.map(|key| key.split_n(self.layers.len()));
        let mut x = x.clone();
        for (i, layer) in self.layers.iter().enumerate() {
            let key = keys.as_ref().map(|keys| &keys[i]);
            x = layer.forward_with(&x, TransformerArgs { key, ..at })?;
        }
        match &self.norm {
            Some(norm) => norm.forward(&x),
            None => Ok(x),
        }
    }
}
