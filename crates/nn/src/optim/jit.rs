//! A whole training step as one program.

use super::{Optimizer, State};
use clematis_core::autodiff::value_and_grad;
use clematis_core::jit::{Jitted, Stats, jit};
use clematis_core::tree::Tree;
use clematis_core::{Result, Tensor};
use std::sync::Arc;

/// What the program takes: the model, what the optimiser remembers, the numbers of the step, the batch.
type Taken<M, B> = (M, State, Tensor, B);
/// What it gives: the new model and state, and the loss.
type Given<M> = (M, State, Tensor);

/// The loss, its gradient and the optimiser's step as one program.
pub struct JitStep<O, M, B> {
    optimizer: Arc<O>,
    program: Jitted<(), Taken<M, B>, Given<M>>,
}

impl<O, M, B> JitStep<O, M, B>
where
    O: Optimizer + Send + Sync + 'static,
    M: Tree + Clone + 'static,
    B: Tree + Clone + 'static,
{
    /// A step of this optimiser against a loss of a model on a batch.
    pub fn new(
        optimizer: O,
        loss: impl Fn(&M, &B) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Self {
        let optimizer = Arc::new(optimizer);
        let own = optimizer.clone();
        let program = jit(move |(model, state, numbers, batch): &Taken<M, B>| {
            let (value, slopes) = value_and_grad(|model: &M| loss(model, batch))(model)?;
            let (mut model, mut state) = (model.clone(), state.clone());
            own.step_by(&mut model, &slopes, &mut state, Some(numbers))?;
            Ok((model, state, value))
        });
        JitStep { optimizer, program }
    }

    /// What the optimiser remembers before the first step.
    pub fn init(&self, model: &M) -> Result<State> {
        self.optimizer.init(model)
    }

    /// One step: the loss before it. After an error the model and the state are as they were.
    pub fn step(&self, model: &mut M, state: &mut State, batch: &B) -> Result<Tensor> {
        let numbers = self.optimizer.numbers(model, state)?;
        let taken = (model.clone(), state.clone(), numbers, batch.clone());
        let (new, mut next, loss) = self.program.call(&taken)?;
        // The program knows of no count.
        next.steps = state.steps + 1;
        (*model, *state) = (new, next);
        Ok(loss)
    }

    /// How many programs there are, were made and were dropped.
    pub fn stats(&self) -> Stats {
        self.program.stats()
    }
}
