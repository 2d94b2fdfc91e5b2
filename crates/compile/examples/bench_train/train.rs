//! A training step as one program, and its state.

use super::workload::Workload;
use clematis_core::autodiff::value_and_grad;
use clematis_core::jit::{Program, Recorder};
use clematis_core::pass::Options;
use clematis_core::{Result, Role, Tensor, ops};
use clematis_nn::functional::optimizer_rule::{Rule, Step};

const ADAM: Rule = Rule::Adam {
    beta1: 0.9,
    beta2: 0.999,
    epsilon: 1e-8,
    weight_decay: 0.0,
    decoupled: false,
};
/// Parameters and both moments, the numbers of Adam's step, the data.
pub fn inputs(w: &Workload) -> Result<Vec<Tensor>> {
    let mut all = w.params.clone();
    for _ in 0..2 {
        for p in &w.params {
            all.push(ops::materialize(&ops::zeros_like(p).done()?)?);
        }
    }
    all.extend([numbers(1)?, w.x.clone(), w.y.clone()]);
    Ok(all)
}

/// What changes from step to step.
pub fn numbers(count: u64) -> Result<Tensor> {
    ops::tensor(ADAM.numbers(1e-3, count).map(|x| x as f32).to_vec())
}

/// The step as a program: all state goes in and comes out, the loss comes last.
pub fn record(w: &Workload) -> Result<Program> {
    let recorder = Recorder::new("step");
    let n = w.params.len();
    let mut given = Vec::new();
    for (i, x) in inputs(w)?.iter().enumerate() {
        let role = if i < 3 * n { Role::Param } else { Role::Input };
        given.push(
            recorder
                .trace()
                .input(x.spec().clone(), role, &format!("x{i}")),
        );
    }
    let outputs = recorder.run(|| -> Result<Vec<(Tensor, Option<usize>)>> {
        let (x, y) = (&given[3 * n + 1], &given[3 * n + 2]);
        let loss = |p: &Vec<Tensor>| -> Result<Tensor> {
            let logits = (w.logits)(p, x)?;
            ops::mean(ops::cross_entropy(&logits, y), ..).done()
        };
        let (value, grads) = value_and_grad(loss)(&given[..n].to_vec())?;
        let mut new = Vec::new();
        for (i, grad) in grads.iter().enumerate() {
            let slots = [Some(given[n + i].clone()), Some(given[2 * n + i].clone())];
            let (p, moments) = ADAM.step(Step {
                path: "w",
                param: &given[i],
                grad,
                slots: &slots,
                lr: 1e-3,
                count: 1,
                numbers: Some(&given[3 * n]),
                stop: true,
            })?;
            new.push((p, Some(i)));
            for (k, m) in moments.into_iter().enumerate() {
                new.push((m, Some((k + 1) * n + i)));
            }
        }
        new.sort_by_key(|(_, at)| *at);
        new.push((value, None));
        Ok(new)
    })?;
    recorder.close(&outputs, Options::default())
}

/// One step: the state is donated and returned.
pub fn step(program: &Program, state: &mut Vec<Tensor>, count: u64) -> Result<f64> {
    let n = state.len() - 3;
    let mut given: Vec<Tensor> = state.drain(..n).collect();
    given.push(numbers(count)?);
    given.extend(state[1..].iter().cloned());
    let mut out = program.run(&mut given)?;
    let loss = out.pop();
    out.append(state);
    *state = out;
    match loss {
        Some(loss) => Ok(loss.item()?.as_f64()),
        None => clematis_core::bail!(Internal, "a step gives its loss"),
    }
}
