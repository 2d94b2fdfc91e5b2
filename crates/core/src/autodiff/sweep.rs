//! Recordings of function runs, and the forward and backward sweeps over them.

use super::cotangent::Cotangent;
use super::rule::{Jvp, Rule};
use super::scan;
use crate::error::Result;
use crate::graph::{Arg, Graph, Node, ValueId};
use crate::op::Op;
use crate::ops::{self};
use crate::tensor::{Repr, Tensor};
use crate::trace::{Pullback, Trace};
use crate::{bail, ensure};
use std::sync::Arc;

/// The direction of the sweeps over a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Forward sweeps: JVPs.
    Forward,
    /// Backward sweeps: VJPs. Loops save residuals.
    Reverse,
}

/// The recording of one function run: its graph with the value of every intermediate.
pub struct Recorded {
    graph: Graph,
    values: Vec<Tensor>,
    inputs: Vec<Tensor>,
    outputs: Vec<Tensor>,
    output_ids: Vec<Option<ValueId>>,
    /// Whether each value depends differentiably on an input.
    active: Vec<bool>,
    /// Prepared backward passes, by node, in ascending order.
    pullbacks: Vec<(usize, Arc<dyn Pullback>)>,
}

/// Whether each value depends differentiably on an input.
pub fn active(graph: &Graph) -> Vec<bool> {
    let mut active = vec![false; graph.values.len()];
    for input in &graph.inputs {
        active[input.value.0 as usize] = graph.spec(input.value).dtype.is_inexact();
    }
    for node in &graph.nodes {
        let depends = node.args.iter().any(|a| is_active(&active, a));
        if depends && !matches!(node.op.rule(), Rule::Zero) {
            for id in node.outs.clone() {
                active[id as usize] = graph.values[id as usize].dtype.is_inexact();
            }
        }
    }
    active
}

impl Recorded {
    /// Runs `f` on inputs one trace level up.
    pub fn new(
        mode: Mode,
        inputs: &[Tensor],
        f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<Self> {
        let open = match mode {
            Mode::Forward => Trace::open(true),
            Mode::Reverse => Trace::open_reverse(scan::prepare),
        };
        let lifted: Vec<Tensor> = inputs.iter().map(|x| open.trace.lift(x)).collect();
        let traced = f(&lifted)?;
        let trace = open.trace.clone();
        drop(open);
        let output_ids: Vec<Option<ValueId>> = traced.iter().map(|y| trace.id_of(y)).collect();
        let outputs = traced.iter().map(|y| below(&trace, y)).collect();
        let mut recording = trace.recording();
        let graph = std::mem::take(&mut recording.graph);
        let values = std::mem::take(&mut recording.values);
        let pullbacks = std::mem::take(&mut recording.pullbacks);
        let active = active(&graph);
        Ok(Recorded {
            graph,
            values,
            inputs: inputs.to_vec(),
            outputs,
            output_ids,
            active,
            pullbacks,
        })
    }

    /// The inputs of the function.
    pub fn inputs(&self) -> &[Tensor] {
        &self.inputs
    }

    /// The outputs of the function.
    pub fn outputs(&self) -> &[Tensor] {
        &self.outputs
    }

    fn operand<'a>(&'a self, arg: &'a Arg) -> &'a Tensor {
        match arg {
            Arg::Value(id) => &self.values[id.0 as usize],
            Arg::Const(t) => t,
        }
    }

    fn operands<'a>(&'a self, node: &'a Node) -> (Vec<&'a Tensor>, Vec<&'a Tensor>) {
        (
            node.args.iter().map(|a| self.operand(a)).collect(),
            node.outs
                .clone()
                .map(|id| &self.values[id as usize])
                .collect(),
        )
    }

    /// Backward sweep: cotangents of the inputs from cotangents of the outputs; absent ones are zero.
    pub fn backward(&self, cotangents: Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>> {
        let mut cts = vec![Cotangent::default(); self.values.len()];
        for ((ct, id), y) in cotangents
            .into_iter()
            .zip(&self.output_ids)
            .zip(&self.outputs)
        {
            if let (Some(ct), Some(id)) = (ct, id)
                && self.active[id.0 as usize]
            {
                cts[id.0 as usize].add(ops::cast(ct, y.dtype()).done()?)?;
            }
        }
        let mut pullbacks = self.pullbacks.iter().rev().peekable();
        for (n, node) in self.graph.nodes.iter().enumerate().rev() {
            let pullback = pullbacks.next_if(|(at, _)| *at == n);
            let outs = node.outs.start as usize..node.outs.end as usize;
            if cts[outs.clone()].iter().all(Cotangent::is_none) {
                continue;
            }
            let (xs, ys) = self.operands(node);
            let own = cts[outs].iter_mut().zip(&ys);
            let own = own.map(|(ct, y)| ct.take(y));
            let own = own.collect::<Result<Vec<Option<Tensor>>>>()?;
            if let ([Arg::Value(id)], [x], [Some(ct)]) = (&node.args[..], &xs[..], &own[..])
                && self.active[id.0 as usize]
                && cts[id.0 as usize].add_slice(&node.op, x, ct)
            {
                continue;
            }
            let back = match pullback {
                Some((_, pullback)) => pullback.pull(&xs, &ys, &own),
                None => {
                    let wanted = node.args.iter().map(|a| is_active(&self.active, a));
                    pull(&node.op, &xs, &ys, &own, &wanted.collect::<Vec<bool>>())
                }
            };
            let back =
                back.map_err(|e| e.note(format!("while differentiating {}", node.op.name())))?;
            for ((arg, part), x) in node.args.iter().zip(back).zip(&xs) {
                if let (Arg::Value(id), Some(part)) = (arg, part)
                    && self.active[id.0 as usize]
                {
                    ensure!(
                        part.shape() == x.shape() && part.dtype() == x.dtype(),
                        Internal,
                        "{}: got a cotangent of {} for an operand of {}",
                        node.op.name(),
                        part.spec(),
                        x.spec()
                    );
                    cts[id.0 as usize].add(part)?;
                }
            }
        }
        let inputs = self.graph.inputs.iter().zip(&self.inputs);
        inputs
            .map(|(input, x)| cts[input.value.0 as usize].take(x))
            .collect()
    }

    /// Forward sweep: tangents of the outputs from tangents of the inputs; absent ones are zero.
    pub fn forward(&self, tangents: Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>> {
        let mut ts: Vec<Option<Tensor>> = vec![None; self.values.len()];
        for (input, tangent) in self.graph.inputs.iter().zip(tangents) {
            ts[input.value.0 as usize] = tangent;
        }
        for node in &self.graph.nodes {
            let own: Vec<Option<Tensor>> = node
                .args
                .iter()
                .map(|a| match a {
                    Arg::Value(id) => ts[id.0 as usize].clone(),
                    Arg::Const(_) => None,
                })
                .collect();
            if own.iter().all(Option::is_none) {
                continue;
            }
            let (xs, ys) = self.operands(node);
            let out = push(&node.op, &xs, &ys, &own)
                .map_err(|e| e.note(format!("while differentiating {}", node.op.name())))?;
            for (id, t) in node.outs.clone().zip(out) {
                ts[id as usize] = t.filter(|_| self.graph.values[id as usize].dtype.is_inexact());
            }
        }
        Ok(self
            .output_ids
            .iter()
            .map(|id| id.and_then(|id| ts[id.0 as usize].clone()))
            .collect())
    }
}

/// A traced tensor's value one level below.
fn below(trace: &Arc<Trace>, y: &Tensor) -> Tensor {
    match y.repr() {
        Repr::Traced {
            trace: t,
            value: Some(value),
            ..
        } if Arc::ptr_eq(t, trace) => value.clone(),
        _ => y.clone(),
    }
}

fn is_active(active: &[bool], arg: &Arg) -> bool {
    matches!(arg, Arg::Value(id) if active[id.0 as usize])
}

fn accumulate(slot: &mut Option<Tensor>, part: Tensor) -> Result<()> {
    *slot = Some(match slot.take() {
        Some(old) => (&old + &part).done()?,
        None => part,
    });
    Ok(())
}

/// Computes the cotangents of an op's operands.
pub fn pull(
    op: &Op,
    xs: &[&Tensor],
    ys: &[&Tensor],
    cts: &[Option<Tensor>],
    wanted: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let each = |f: &dyn Fn(usize) -> Result<Tensor>| -> Result<Vec<Option<Tensor>>> {
        wanted
            .iter()
            .enumerate()
            .map(|(i, &w)| if w { f(i).map(Some) } else { Ok(None) })
            .collect()
    };
    match (op.rule(), cts) {
        (Rule::Zero, _) => Ok(vec![None; xs.len()]),
        (Rule::Pointwise(partial), [Some(ct)]) => {
            each(&|i| ops::sum_to(ct * partial(op, i, xs, ys[0]), xs[i].shape()).done())
        }
        (Rule::Linear(transpose) | Rule::Multilinear(transpose), [Some(ct)]) => {
            each(&|i| transpose(op, i, xs, ct).done())
        }
        (Rule::General { vjp, .. }, _) => vjp(op, xs, ys, cts, wanted),
        (Rule::Forward(jvp), _) => transpose_of(jvp, op, xs, ys, cts, wanted),
        (Rule::None(why), _) => bail!(Diff, "{}: {why}", op.name()),
        _ => bail!(Internal, "{}: one cotangent was expected", op.name()),
    }
}

/// Computes the tangents of an op's results.
pub fn push(
    op: &Op,
    xs: &[&Tensor],
    ys: &[&Tensor],
    dxs: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    match op.rule() {
        Rule::Zero => Ok(vec![None; ys.len()]),
        Rule::Pointwise(partial) => {
            let mut sum: Option<Tensor> = None;
            for (i, dx) in dxs.iter().enumerate() {
                if let Some(dx) = dx {
                    accumulate(&mut sum, (dx * partial(op, i, xs, ys[0])).done()?)?;
                }
            }
            let whole = sum
                .map(|s| ops::broadcast_to(&s, ys[0].shape()).done())
                .transpose()?;
            Ok(vec![whole])
        }
        Rule::Linear(_) => {
            let mut filled = Vec::with_capacity(xs.len());
            for (x, dx) in xs.iter().zip(dxs) {
                filled.push(match dx {
                    Some(dx) => dx.clone(),
                    None if x.dtype().is_inexact() => ops::zeros_like(x).done()?,
                    None => (*x).clone(),
                });
            }
            Ok(vec![Some(
                ops::call(op.clone(), &filled.iter().collect::<Vec<_>>()).done()?,
            )])
        }
        Rule::Multilinear(_) => {
            let mut sum = None;
            for (i, dx) in dxs.iter().enumerate() {
                if let Some(dx) = dx {
                    let args: Vec<&Tensor> = xs
                        .iter()
                        .enumerate()
                        .map(|(j, x)| if i == j { dx } else { *x })
                        .collect();
                    accumulate(&mut sum, ops::call(op.clone(), &args).done()?)?;
                }
            }
            Ok(vec![sum])
        }
        Rule::Forward(jvp) | Rule::General { jvp, .. } => jvp(op, xs, ys, dxs),
        Rule::None(why) => bail!(Diff, "{}: {why}", op.name()),
    }
}

/// Derives the VJP of a rule that defines only a JVP: records the JVP at zero tangents (it is linear, so any point
/// will do) and sweeps that recording backward.
pub fn transpose_of(
    jvp: Jvp,
    op: &Op,
    xs: &[&Tensor],
    ys: &[&Tensor],
    cts: &[Option<Tensor>],
    wanted: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let places: Vec<usize> = (0..xs.len()).filter(|&i| wanted[i]).collect();
    let zeros: Vec<Tensor> = places
        .iter()
        .map(|&i| ops::zeros_like(xs[i]).done())
        .collect::<Result<_>>()?;
    let mut kept = Vec::new();
    let recorded = Recorded::new(Mode::Reverse, &zeros, |tangents| {
        let mut dxs = vec![None; xs.len()];
        for (&i, t) in places.iter().zip(tangents) {
            dxs[i] = Some(t.clone());
        }
        let dys = jvp(op, xs, ys, &dxs)?;
        let mut out = Vec::new();
        for (i, dy) in dys.into_iter().enumerate() {
            if let (Some(dy), Some(ct)) = (dy, &cts[i]) {
                out.push(dy);
                kept.push(Some(ct.clone()));
            }
        }
        Ok(out)
    })?;
    let mut back = vec![None; xs.len()];
    for (&i, part) in places.iter().zip(recorded.backward(kept)?) {
        back[i] = part;
    }
    Ok(back)
}
