//! A compiled training step.

use super::{Optimizer, State};
use clematis_core::autodiff::value_and_grad_aux;
use clematis_core::jit::{Jitted, Stats, jit};
use clematis_core::tree::{self, Role, Tree};
use clematis_core::{Result, Tensor};
use std::sync::Arc;

/// Inputs of the program: the model, the optimiser state, the scalars of the step, the batch.
type StepInputs<M, B> = (M, State, Tensor, B);
/// Outputs of the program: the new model and state, and the loss.
type StepOutputs<M> = (M, State, Tensor);

/// Loss, gradient and optimiser step, compiled as one program.
pub struct JitStep<O, M, B> {
    optimizer: Arc<O>,
    program: Jitted<(), StepInputs<M, B>, StepOutputs<M>>,
}

impl<O, M, B> JitStep<O, M, B>
where
    O: Optimizer + Send + Sync + 'static,
    M: Tree + Clone + 'static,
    B: Tree + Clone + 'static,
{
    /// A step of this optimiser on a loss of a model and a batch.
    pub fn new(
        optimizer: O,
        loss: impl Fn(&M, &B) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Self {
        JitStep::with_state(optimizer, move |model: &mut M, batch: &B| {
            loss(model, batch)
        })
    }

    /// The same for a loss that updates the [`State`](tree::State) of the model, as
    /// [`Module::forward_train`](crate::Module::forward_train) does.
    pub fn with_state(
        optimizer: O,
        loss: impl Fn(&mut M, &B) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Self {
        let optimizer = Arc::new(optimizer);
        let own = optimizer.clone();
        let program = jit(move |(model, state, numbers, batch): &StepInputs<M, B>| {
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

    /// The initial optimiser state.
    pub fn init(&self, model: &M) -> Result<State> {
        self.optimizer.init(model)
    }

    /// Performs one step; returns the loss before it. On an error the model and the state are unchanged.
    pub fn step(&self, model: &mut M, state: &mut State, batch: &B) -> Result<Tensor> {
        let numbers = self.optimizer.numbers(model, state)?;
        let taken = (model.clone(), state.clone(), numbers, batch.clone());
        let (new, mut next, loss) = self.program.call(&taken)?;
        // The program does not contain the step count.
        next.steps = state.steps + 1;
        (*model, *state) = (new, next);
        Ok(loss)
    }

    /// Cache statistics.
    pub fn stats(&self) -> Stats {
        self.program.stats()
    }
}

/// The state tensors of a model, which are saved but not trained.
fn kept(model: &impl Tree) -> Vec<Tensor> {
    let entries = tree::entries(model).into_iter();
    let states = entries.filter(|(_, role, _)| *role == Role::State);
    states.map(|(.., x)| x).collect()
}

/// Replaces the state tensors of a model.
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
