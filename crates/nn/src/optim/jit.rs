//! A whole training step as one program.

use super::{Optimizer, State};
use clematis_core::autodiff::value_and_grad_aux;
use clematis_core::jit::{Jitted, Stats, jit};
use clematis_core::tree::{self, Role, Tree};
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
        JitStep::with_state(optimizer, move |model: &mut M, batch: &B| {
            loss(model, batch)
        })
    }

    /// The same for a loss that moves the [`State`](tree::State) of the model, as
    /// [`Module::forward_train`](crate::Module::forward_train) does.
    pub fn with_state(
        optimizer: O,
        loss: impl Fn(&mut M, &B) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Self {
        let optimizer = Arc::new(optimizer);
        let own = optimizer.clone();
        let program = jit(move |(model, state, numbers, batch): &Taken<M, B>| {
            let run = |model: &M| {
                let mut moved = model.clone();
                let value = loss(&mut moved, batch)?;
                Ok((value, kept(&moved)))
            };
            let ((value, moved), gradient) = value_and_grad_aux(run)(model)?;
            let (mut model, mut state) = (model.clone(), state.clone());
            own.step_by(&mut model, &gradient, &mut state, Some(numbers))?;
            keep(&mut model, moved);
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

/// The tensors of a model that are kept and not trained.
fn kept(model: &impl Tree) -> Vec<Tensor> {
    let entries = tree::entries(model).into_iter();
    let states = entries.filter(|(_, role, _)| *role == Role::State);
    states.map(|(.., x)| x).collect()
}

/// Puts others in their places.
fn keep(model: &mut impl Tree, states: Vec<Tensor>) {
    let mut states = states.into_iter();
    model.visit_mut(&mut tree::Path::default(), &mut |_, role, x| {
        if role == Role::State
            && let Some(state) = states.next()
        {
            *x = state;
        }
    });
}
