//! Transformers: attention and a network of two layers, each around a shortcut, with norms before or behind.

use crate::activation::Activation;
use crate::attention::{Looking, MultiHeadAttention};
use crate::dropout::Dropout;
use crate::linear::{Linear, positive};
use crate::module::Module;
use crate::norm::LayerNorm;
use crate::stack::Stack;
use clematis_core::random::Key;
use clematis_core::{Result, Tensor, ensure};
use clematis_derive::Tree;

/// What blocks may be told.
#[derive(Clone, Copy, Debug)]
pub struct TransformerOptions {
    /// How wide the network is between its two layers; four times the model without it.
    pub hidden: Option<usize>,
    /// The share that is dropped where a key is given.
    pub dropout: f64,
    /// Between the two layers.
    pub activation: Activation,
    /// Whether norms stand before the parts rather than behind the shortcuts.
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

/// Attention of a sequence to itself, to another one if it is a decoder's, then two linear layers.
#[derive(Clone, Debug, Tree)]
pub struct TransformerLayer {
    /// To itself.
    pub attention: MultiHeadAttention,
    /// To another sequence.
    pub cross_attention: Option<MultiHeadAttention>,
    /// The first layer of the network.
    pub hidden: Linear,
    /// The second.
    pub out: Linear,
    /// One for each part.
    pub norms: Stack<LayerNorm>,
    /// What it was told.
    #[tree(skip)]
    pub options: TransformerOptions,
}

/// What a block looks at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sight<'a> {
    /// Nothing of the sequence itself is looked at where it is 0.
    pub mask: Option<&'a Tensor>,
    /// Whether a place sees nothing behind it.
    pub causal: bool,
    /// The other sequence; a decoder needs it.
    pub memory: Option<&'a Tensor>,
    /// Nothing of the other sequence is looked at where it is 0.
    pub memory_mask: Option<&'a Tensor>,
    /// The key of dropout; without one, as in evaluation, nothing is dropped.
    pub key: Option<&'a Key>,
}

impl TransformerLayer {
    /// A block of an encoder.
    pub fn encoder(
        width: usize,
        heads: usize,
        options: TransformerOptions,
        key: &Key,
    ) -> Result<Self> {
        Self::new(width, heads, false, options, key)
    }

    /// A block of a decoder.
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
            "TransformerLayer: {width} channels do not divide into {heads} heads"
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

    /// Of a sequence.
    pub fn look(&self, x: &Tensor, at: Sight<'_>) -> Result<Tensor> {
        // One key for each place where something is dropped.
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
        let own = Looking {
            mask: at.mask,
            causal: at.causal,
            ..Looking::default()
        };
        let mut x = around(x, 0, &|x| self.attention.look(x, own))?;
        let mut part = 1;
        if let Some(cross) = &self.cross_attention {
            ensure!(
                at.memory.is_some(),
                Value,
                "TransformerLayer: a decoder needs another sequence to look at"
            );
            let other = Looking {
                context: at.memory,
                mask: at.memory_mask,
                ..Looking::default()
            };
            x = around(&x, 1, &|x| cross.look(x, other))?;
            part = 2;
        }
        around(&x, part, &|x| {
            let hidden = self.options.activation.forward(&self.hidden.forward(x)?)?;
            self.out.forward(&dropout.forward(&hidden, key(part + 1))?)
        })
    }
}

/// Blocks on top of each other; where norms stand first, one more follows the last.
#[derive(Clone, Debug, Tree)]
pub struct Transformer {
    /// The blocks.
    pub layers: Stack<TransformerLayer>,
    /// Behind the last.
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

    /// Of a sequence.
    pub fn look(&self, x: &Tensor, at: Sight<'_>) -> Result<Tensor> {
        let keys = at.key.map(|key| key.split_n(self.layers.len()));
        let mut x = x.clone();
        for (i, layer) in self.layers.iter().enumerate() {
            let key = keys.as_ref().map(|keys| &keys[i]);
            x = layer.look(&x, Sight { key, ..at })?;
        }
        match &self.norm {
            Some(norm) => norm.forward(&x),
            None => Ok(x),
        }
    }
}
