//! Optimisers over trees of parameters.
//!
//! The update formulas are in `functional::optimizer_rule`; here are the hyperparameters and the traversal of trees.
//! Parameters and state are updated together or, on an error, not at all.

mod accumulate;
mod clip;
mod groups;
mod jit;
mod rules;
mod scale;
mod state;

pub use accumulate::Accumulate;
pub use clip::{clip_by_global_norm, clip_by_value, global_norm};
pub use groups::Groups;
pub use jit::JitStep;
pub use rules::{Adagrad, Adam, AdamW, Lamb, Lars, Lion, RmsProp, Sgd};
pub use scale::LossScale;
pub use state::State;

use crate::functional::optimizer_rule::{Rule, Step};
use crate::schedule::Schedule;
use clematis_core::tree::{self, Path, Role, Tree};
use clematis_core::{DType, Repr, Result, Tensor, backend, bail, ensure, ops};
use std::collections::HashSet;

/// A gradient-based optimiser.
pub trait Optimizer {
    /// The update rule with its hyperparameters.
    fn rule(&self) -> Rule;

    /// The learning rate schedule.
    fn lr(&self) -> &Schedule;

    /// The rule and the learning rate schedule of one parameter.
    fn of_path(&self, path: &str) -> (Rule, &Schedule) {
        let _ = path;
        (self.rule(), self.lr())
    }

    /// The initial state.
    fn init(&self, params: &dyn Tree) -> Result<State> {
        self.rule().check()?;
        self.lr().check()?;
        State::zeros(self.rule(), &trained(params))
    }

    /// Performs one step.
    fn step(&self, params: &mut dyn Tree, grads: &dyn Tree, state: &mut State) -> Result<()> {
        let traced = |leaf: &Trained| matches!(leaf.tensor.lowest().repr(), Repr::Traced { .. });
        ensure!(
            !self.counts() || !trained(params).iter().any(traced),
            Trace,
            "{}: a traced program would fix the number of this step; use nn::JitStep, or step_by",
            self.rule().name()
        );
        self.step_by(params, grads, state, None)
    }

    /// Whether a step depends on the number of steps taken.
    fn counts(&self) -> bool {
        let by_rule = matches!(self.rule(), Rule::Adam { .. } | Rule::Lamb { .. });
        by_rule || !matches!(self.lr(), Schedule::Constant(_))
    }

    /// The scalar inputs of the next step, one row per parameter.
    fn numbers(&self, params: &dyn Tree, state: &State) -> Result<Tensor> {
        let own = trained(params);
        let rows: Vec<f64> = own
            .iter()
            .flat_map(|leaf| {
                let (rule, lr) = self.of_path(&leaf.path);
                rule.numbers(lr.at(state.steps), state.steps + 1)
            })
            .collect();
        let shape = [own.len(), rows.len() / own.len().max(1)];
        let is_wide = own
            .iter()
            .any(|leaf| leaf.tensor.dtype().real() == DType::F64);
        let make = || match is_wide {
            true => ops::from_slice(&rows, shape),
            false => ops::from_slice(&rows.iter().map(|&x| x as f32).collect::<Vec<_>>(), shape),
        };
        match own.iter().find_map(|leaf| leaf.tensor.backend()) {
            Some(backend) => backend::with(backend, make),
            None => make(),
        }
    }

    /// Performs one step with the result of `numbers`, as a program takes it at each call; without, by the state's
    /// own count.
    fn step_by(
        &self,
        params: &mut dyn Tree,
        grads: &dyn Tree,
        state: &mut State,
        numbers: Option<&Tensor>,
    ) -> Result<()> {
        let rule = self.rule();
        rule.check()?;
        self.lr().check()?;
        let (own, grads) = (trained(params), trained(grads));
        check_paths(rule.name(), &own, &grads)?;
        state.check(rule, &own)?;
        let mut next = State {
            steps: state.steps + 1,
            moments: Vec::with_capacity(own.len()),
        };
        let mut leaves = tree::leaves(params);
        for (i, ((leaf, grad), known)) in own.iter().zip(&grads).zip(&state.moments).enumerate() {
            let row = |all: &Tensor| ops::squeeze(ops::slice_axis(all, 0, i, i + 1), 0).done();
            let row = numbers.map(row).transpose()?;
            let slots: Vec<_> = known.slots.iter().cloned().map(Some).collect();
            let (rule, lr) = self.of_path(&leaf.path);
            let (moved, slots) = rule.step(Step {
                path: &leaf.path,
                param: &leaf.tensor,
                grad: &grad.tensor,
                slots: &slots,
                lr: lr.at(state.steps),
                count: next.steps,
                numbers: row.as_ref(),
                stop: true,
            })?;
            leaves[leaf.place] = moved;
            next.moments.push(known.with(slots));
        }
        put(params, leaves);
        *state = next;
        Ok(())
    }
}

/// A trained leaf, with its index among all leaves.
struct Trained {
    place: usize,
    path: String,
    tensor: Tensor,
}

fn trained(params: &dyn Tree) -> Vec<Trained> {
    let all = tree::entries(params).into_iter().enumerate();
    all.filter(|(_, (_, role, _))| *role == Role::Param)
        .map(|(place, (path, _, tensor))| Trained {
            place,
            path,
            tensor,
        })
        .collect()
}

/// Checks that parameters and gradients have the same paths; an error lists all differences.
fn check_paths(name: &str, own: &[Trained], grads: &[Trained]) -> Result<()> {
    let paths =
        |all: &[Trained]| -> HashSet<String> { all.iter().map(|leaf| leaf.path.clone()).collect() };
    if own
        .iter()
        .map(|x| &x.path)
        .eq(grads.iter().map(|x| &x.path))
    {
        return Ok(());
    }
    let (have, given) = (paths(own), paths(grads));
    let mut message = format!("{name}: parameters and gradients have different structures:");
    for leaf in own.iter().filter(|leaf| !given.contains(&leaf.path)) {
        message.push_str(&format!("\n  `{}` has no gradient", leaf.path));
    }
    for leaf in grads.iter().filter(|leaf| !have.contains(&leaf.path)) {
        message.push_str(&format!("\n  `{}` is not a parameter", leaf.path));
    }
    bail!(Structure, "{message}")
}

/// Replaces the leaves of a tree, in order.
fn put(params: &mut dyn Tree, leaves: Vec<Tensor>) {
    let mut next = leaves.into_iter();
    params.visit_mut(&mut Path::default(), &mut |_, _, x| {
        if let Some(new) = next.next() {
            *x = new;
        }
    });
}
