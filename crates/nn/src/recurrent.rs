//! Recurrent layers (LSTM, GRU, RNN): `[batch, time, channels]` to `[batch, time, channels]`.

use crate::functional::{gru, lstm};
use crate::init;
use crate::linear::positive;
use crate::stack::Stack;
use clematis_core::random::Key;
use clematis_core::{Result, Shape, Tensor, ensure, ops};
use clematis_derive::Tree;

/// The cell of a recurrent layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Long short-term memory.
    Lstm,
    /// A gated recurrent unit.
    Gru,
    /// A plain RNN: `tanh(x w + h u + b)`.
    Rnn,
    /// A plain RNN with `relu`.
    RnnRelu,
}

impl Cell {
    /// Number of gates in a kernel.
    fn gates(self) -> usize {
        match self {
            Cell::Lstm => 4,
            Cell::Gru => 3,
            Cell::Rnn | Cell::RnnRelu => 1,
        }
    }
}

/// Options of recurrent layers.
#[derive(Clone, Copy, Debug)]
pub struct RecurrentOptions {
    /// Number of layers.
    pub layers: usize,
    /// Whether each layer is bidirectional.
    pub bidirectional: bool,
    /// Whether there are biases.
    pub with_bias: bool,
}

impl Default for RecurrentOptions {
    fn default() -> Self {
        RecurrentOptions {
            layers: 1,
            bidirectional: false,
            with_bias: true,
        }
    }
}

/// A weight matrix and its bias.
#[derive(Clone, Debug, Tree)]
pub struct Kernel {
    /// `[inputs or outputs, gates outputs]`.
    pub w: Tensor,
    /// `[gates outputs]`.
    pub b: Option<Tensor>,
}

/// A stack of recurrent layers.
#[derive(Clone, Debug, Tree)]
pub struct Recurrent {
    /// Input kernels, one per layer.
    pub input: Stack<Kernel>,
    /// Recurrent kernels, one per layer.
    pub recurrent: Stack<Kernel>,
    /// Input kernels of the reverse direction.
    pub reverse_input: Option<Stack<Kernel>>,
    /// Recurrent kernels of the reverse direction.
    pub reverse_recurrent: Option<Stack<Kernel>>,
    /// The cell.
    #[tree(skip)]
    pub cell: Cell,
}

/// The result of recurrent layers.
#[derive(Clone, Debug)]
pub struct RecurrentOutput {
    /// All hidden states of the last layer.
    pub out: Tensor,
    /// The last hidden state of each layer and direction.
    pub h: Vec<Tensor>,
    /// The last cell state of each layer and direction; for LSTMs only.
    pub c: Vec<Tensor>,
}

impl Recurrent {
    /// Glorot uniform weights, zero biases.
    pub fn new(
        cell: Cell,
        inputs: usize,
        outputs: usize,
        options: RecurrentOptions,
        key: &Key,
    ) -> Result<Self> {
        let sizes = [
            ("inputs", inputs),
            ("outputs", outputs),
            ("layers", options.layers),
        ];
        positive("Recurrent", &sizes)?;
        let wide = outputs * cell.gates();
        let directions = if options.bidirectional { 2 } else { 1 };
        let make = |is_inner: bool, key: &Key| -> Result<Stack<Kernel>> {
            let keys = key.split_n(options.layers);
            let layer = |(i, key): (usize, &Key)| -> Result<Kernel> {
                let n = match (is_inner, i) {
                    (true, _) => outputs,
                    (false, 0) => inputs,
                    (false, _) => outputs * directions,
                };
                let w = init::glorot_uniform([n, wide], n, wide, &key.split().0)?;
                let b = match options.with_bias {
                    true => Some(init::zeros([wide])?),
                    false => None,
                };
                Ok(Kernel { w, b })
            };
            let all: Result<Vec<_>> = keys.iter().enumerate().map(layer).collect();
            Ok(Stack::named("layer_", all?))
        };
        // Keys are split for both directions even if one is absent, so that weights do not depend on the other.
        let keys = key.split_n(4);
        let other = |is_inner: bool, key: &Key| match options.bidirectional {
            true => make(is_inner, key).map(Some),
            false => Ok(None),
        };
        Ok(Recurrent {
            input: make(false, &keys[0])?,
            recurrent: make(true, &keys[1])?,
            reverse_input: other(false, &keys[2])?,
            reverse_recurrent: other(true, &keys[3])?,
            cell,
        })
    }

    /// Runs from zero states.
    pub fn forward(&self, x: &Tensor) -> Result<RecurrentOutput> {
        self.forward_from(x, None)
    }

    /// Runs from given hidden and cell states, one per layer and direction.
    pub fn forward_from(
        &self,
        x: &Tensor,
        state: Option<(&[Tensor], &[Tensor])>,
    ) -> Result<RecurrentOutput> {
        let reverse = self
            .reverse_input
            .as_ref()
            .zip(self.reverse_recurrent.as_ref());
        let directions = 1 + usize::from(reverse.is_some());
        let count = self.input.len() * directions;
        if let Some((h, c)) = state {
            let cells = if self.cell == Cell::Lstm { count } else { 0 };
            ensure!(
                h.len() == count && c.len() == cells,
                Value,
                "Recurrent: expected {count} hidden and {cells} cell states, got {} and {}",
                h.len(),
                c.len()
            );
        }
        let zero = Tensor::number(0.0);
        let (mut x, mut hs, mut cs) = (x.clone(), Vec::new(), Vec::new());
        for i in 0..self.input.len() {
            let forward = (&self.input[i], &self.recurrent[i], false);
            let back = reverse.map(|(input, inner)| (&input[i], &inner[i], true));
            let mut outs = Vec::new();
            for (input, inner, is_back) in [Some(forward), back].into_iter().flatten() {
                let h = state.map_or(&zero, |(h, _)| &h[hs.len()]);
                let c = state.and_then(|(_, c)| c.get(hs.len())).unwrap_or(&zero);
                let flipped = |x: &Tensor| match is_back {
                    true => ops::flip(x, -2).done(),
                    false => Ok(x.clone()),
                };
                let (all, c) = self.steps(&flipped(&x)?, [h, c], [input, inner])?;
                let n = all.shape().dims()[all.rank() - 2];
                let last = ops::slice_axis(&all, -2, n - 1usize.into(), n);
                hs.push(ops::squeeze(last, -2).done()?);
                cs.extend(c);
                outs.push(flipped(&all)?);
            }
            x = match &outs[..] {
                [one] => one.clone(),
                _ => ops::concat(&outs, -1).done()?,
            };
        }
        Ok(RecurrentOutput {
            out: x,
            h: hs,
            c: cs,
        })
    }

    fn steps(
        &self,
        x: &Tensor,
        [h, c]: [&Tensor; 2],
        [input, inner]: [&Kernel; 2],
    ) -> Result<(Tensor, Option<Tensor>)> {
        let (b, rb) = (input.b.as_ref(), inner.b.as_ref());
        let (w, u) = (&input.w, &inner.w);
        Ok(match self.cell {
            Cell::Lstm => {
                let (hs, c) = lstm::lstm_update(x, h, c, w, u, b, rb)?;
                (hs, Some(c))
            }
            Cell::Gru => (gru::gru_update(x, h, w, u, b, rb)?, None),
            Cell::Rnn => (gru::rnn_update(x, h, w, u, b, rb, false)?, None),
            Cell::RnnRelu => (gru::rnn_update(x, h, w, u, b, rb, true)?, None),
        })
    }

    /// The zero state of one layer and direction.
    pub fn initial_state(&self, batch: &[usize]) -> Result<Tensor> {
        let outputs = self.recurrent[0].w.shape().known_size(0, "Recurrent")?;
        let sizes: Vec<usize> = batch.iter().copied().chain([outputs]).collect();
        init::zeros(Shape::from_sizes(&sizes))
    }
}
