//! Multi-head attention layers.

use crate::dropout::Dropout;
use crate::functional::{attention, mask};
use crate::linear::{Linear, positive};
use crate::module::Module;
use crate::stack::Stack;
use clematis_core::random::Key;
use clematis_core::{Result, Tensor};
use clematis_derive::Tree;

/// The projections of keys and values.
#[derive(Clone, Debug, Tree)]
pub struct KeysValues {
    /// Keys.
    pub k: Linear,
    /// Values.
    pub v: Linear,
}

/// The output projection, followed by dropout.
#[derive(Clone, Debug, Tree)]
pub struct Out {
    /// One linear layer, in a stack so that its path is the same as in Python.
    pub submodules: Stack<Linear>,
    /// Dropout of the output.
    #[tree(skip)]
    pub dropout: Dropout,
}

/// Multi-head attention of the inputs to a context, or to themselves.
#[derive(Clone, Debug, Tree)]
pub struct MultiHeadAttention {
    /// The projection of queries.
    pub to_q: Linear,
    /// The projections of keys and values.
    pub to_kv: KeysValues,
    /// The output projection.
    pub to_out: Out,
    /// Number of heads.
    #[tree(skip)]
    pub heads: usize,
    /// Scale of the scores, the dot products of queries and keys.
    #[tree(skip)]
    pub scale: f64,
}

/// Optional arguments of [`MultiHeadAttention::forward_with`].
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionArgs<'a> {
    /// The sequence to attend to; `None` for self-attention.
    pub context: Option<&'a Tensor>,
    /// Positions where it is 0 are masked out.
    pub mask: Option<&'a Tensor>,
    /// Whether a position attends only to itself and earlier positions.
    pub causal: bool,
    /// The key of dropout; without one (in evaluation) nothing is dropped.
    pub key: Option<&'a Key>,
}

impl MultiHeadAttention {
    /// Initialises the projections for the given widths of inputs, context and heads.
    pub fn new(
        query_dim: usize,
        context_dim: usize,
        heads: usize,
        head_dim: usize,
        key: &Key,
    ) -> Result<Self> {
        let sizes = [("query_dim", query_dim), ("context_dim", context_dim)];
        positive("MultiHeadAttention", &sizes)?;
        positive(
            "MultiHeadAttention",
            &[("heads", heads), ("head_dim", head_dim)],
        )?;
        let (keys, inner) = (key.split_n(4), heads * head_dim);
        Ok(MultiHeadAttention {
            to_q: Linear::new(query_dim, inner, &keys[0])?,
            to_kv: KeysValues {
                k: Linear::new(context_dim, inner, &keys[1])?,
                v: Linear::new(context_dim, inner, &keys[2])?,
            },
            to_out: Out {
                submodules: Stack::new(vec![Linear::new(inner, query_dim, &keys[3])?]),
                dropout: Dropout { rate: 0.0 },
            },
            heads,
            scale: (head_dim as f64).powf(-0.5),
        })
    }

    /// Attention with a context, a mask or dropout.
    pub fn forward_with(&self, x: &Tensor, at: AttentionArgs<'_>) -> Result<Tensor> {
        let context = at.context.unwrap_or(x);
        let open = match at.causal {
            true => Some(mask::causal_mask(x, context, at.mask).done()?),
            false => at.mask.cloned(),
        };
        let q = self.to_q.forward(x)?;
        let (k, v) = (
            self.to_kv.k.forward(context)?,
            self.to_kv.v.forward(context)?,
        );
        let scale = Tensor::number(self.scale);
        let y = attention::attention_of_heads(&q, &k, &v, &scale, self.heads, open.as_ref());
        let mut y = y.done()?;
        for layer in self.to_out.submodules.iter() {
            y = layer.forward(&y)?;
        }
        self.to_out.dropout.forward(&y, at.key)
    }
}

impl Module for MultiHeadAttention {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_with(x, AttentionArgs::default())
    }
}
