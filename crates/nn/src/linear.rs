//! Linear, Bilinear and Embedding layers.

use crate::functional::bilinear as pairs;
use crate::init;
use crate::module::Module;
use clematis_core::random::Key;
use clematis_core::{Result, Tensor, ensure, ops};
use clematis_derive::Tree;

/// Checks that sizes are positive.
pub(crate) fn positive(layer: &str, sizes: &[(&str, usize)]) -> Result<()> {
    for (name, size) in sizes {
        ensure!(
            *size > 0,
            Value,
            "{layer}: expected {name} of at least 1, got {size}"
        );
    }
    Ok(())
}

/// Linear layer: `y = x wᵀ + b` over the last axis.
#[derive(Clone, Debug, Tree)]
pub struct Linear {
    /// `[outputs, inputs]`.
    pub w: Tensor,
    /// `[outputs]`.
    pub b: Option<Tensor>,
}

impl Linear {
    /// Glorot uniform weights, zero bias.
    pub fn new(inputs: usize, outputs: usize, key: &Key) -> Result<Self> {
        positive("Linear", &[("inputs", inputs), ("outputs", outputs)])?;
        // The second key is reserved for the bias, which is zero.
        let (w, _) = key.split();
        Ok(Linear {
            w: init::glorot_uniform([outputs, inputs], inputs, outputs, &w)?,
            b: Some(init::zeros([outputs])?),
        })
    }

    /// Removes the bias.
    pub fn without_bias(self) -> Self {
        Linear { b: None, ..self }
    }
}

impl Module for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::linear(x, &self.w, self.b.as_ref()).done()
    }
}

/// Bilinear layer: `y = x1 w x2 + b` over the last axes.
#[derive(Clone, Debug, Tree)]
pub struct Bilinear {
    /// `[outputs, first inputs, second inputs]`.
    pub w: Tensor,
    /// `[outputs]`.
    pub b: Option<Tensor>,
}

impl Bilinear {
    /// Glorot uniform weights, zero bias.
    pub fn new(first: usize, second: usize, outputs: usize, key: &Key) -> Result<Self> {
        positive(
            "Bilinear",
            &[("first", first), ("second", second), ("outputs", outputs)],
        )?;
        let (w, _) = key.split();
        Ok(Bilinear {
            w: init::glorot_uniform(
                [outputs, first, second],
                first.saturating_mul(second),
                outputs,
                &w,
            )?,
            b: Some(init::zeros([outputs])?),
        })
    }

    /// Applies the layer to two inputs.
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
        pairs::bilinear(x1, x2, &self.w, self.b.as_ref()).done()
    }
}

/// Embedding layer: rows of a table by index.
#[derive(Clone, Debug, Tree)]
pub struct Embedding {
    /// `[rows, features]`.
    pub w: Tensor,
    /// The padding index: its row gives zeros and is not trained.
    #[tree(skip)]
    pub padding: Option<i64>,
    /// Maximum norm: longer rows are rescaled to it.
    #[tree(skip)]
    pub max_norm: Option<f64>,
}

impl Embedding {
    /// Glorot uniform rows.
    pub fn new(rows: usize, features: usize, key: &Key) -> Result<Self> {
        positive("Embedding", &[("rows", rows), ("features", features)])?;
        Ok(Embedding {
            w: init::glorot_uniform([rows, features], rows, features, &key.split().0)?,
            padding: None,
            max_norm: None,
        })
    }
}

impl Module for Embedding {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        pairs::padded_embedding(&self.w, x, self.max_norm, self.padding).done()
    }
}
