//! Attention by heads.

use crate::dropout::Dropout;
use crate::functional::{arrange, attention};
use crate::linear::{Linear, positive};
use crate::module::Module;
use crate::stack::Stack;
use clematis_core::random::Key;
use clematis_core::{Result, Tensor};
use clematis_derive::Tree;

/// The layers of keys and values.
#[derive(Clone, Debug, Tree)]
pub struct KeysValues {
    /// Keys.
    pub k: Linear,
    /// Values.
    pub v: Linear,
}

/// The layer of the result, and dropout behind it.
#[derive(Clone, Debug, Tree)]
pub struct Out {
    /// One linear layer, at the place that it has in Python.
    pub submodules: Stack<Linear>,
    /// Behind it.
    #[tree(skip)]
    pub dropout: Dropout,
}

/// Each place of the inputs looks at all places of the context, or of the inputs themselves.
#[derive(Clone, Debug, Tree)]
pub struct MultiHeadAttention {
    /// Queries.
    pub to_q: Linear,
    /// Keys and values.
    pub to_kv: KeysValues,
    /// The result.
    pub to_out: Out,
    /// How many heads.
    #[tree(skip)]
    pub heads: usize,
    /// What products of queries and keys are multiplied by.
    #[tree(skip)]
    pub scale: f64,
}

/// What is looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looking<'a> {
    /// Another sequence; the inputs themselves without one.
    pub context: Option<&'a Tensor>,
    /// Nothing is looked at where it is 0.
    pub mask: Option<&'a Tensor>,
    /// Whether a place sees nothing behind it.
    pub causal: bool,
    /// The key of dropout; without one, as in evaluation, nothing is dropped.
    pub key: Option<&'a Key>,
}

impl MultiHeadAttention {
    /// Inputs of a width, a context of another, heads of a third.
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

    /// With another sequence, a mask, dropout.
    pub fn look(&self, x: &Tensor, at: Looking<'_>) -> Result<Tensor> {
        let context = at.context.unwrap_or(x);
        let open = match at.causal {
            true => Some(arrange::causal_mask(x, context, at.mask).done()?),
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
        self.look(x, Looking::default())
    }
}
