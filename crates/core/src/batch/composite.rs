//! Batching rules of composites and custom ops: directly where the op supports a batch, else by expansion.

use super::{Value, call as call_graph, run, up};
use crate::dim::Dim;
use crate::error::Result;
use crate::graph::Graph;
use crate::op::{Composite, Custom, CustomOp, Op};
use crate::ops;
use crate::spec::Spec;
use crate::tensor::Tensor;
use crate::trace::trace;
use std::sync::Arc;

pub fn call(op: &Op, c: &Composite, args: &[Value], size: Dim) -> Result<Vec<Value>> {
    use Composite::*;
    let only_first = args.iter().skip(1).all(|v| !v.batched);
    let all: Vec<&Tensor> = args.iter().map(|v| &v.x).collect();
    match c {
        Relu {}
        | LeakyRelu { .. }
        | Elu { .. }
        | Selu {}
        | Gelu { .. }
        | Sigmoid {}
        | LogSigmoid {}
        | Silu {}
        | Softplus {}
        | Mish {}
        | HardSigmoid {}
        | HardSwish {}
        | OneHot { .. } => run(op.clone(), &all),
        Softmax { axis } => run(Softmax { axis: axis + 1 }, &all),
        LogSoftmax { axis } => run(LogSoftmax { axis: axis + 1 }, &all),
        LogSumExp { axes } => run(LogSumExp { axes: up(axes) }, &all),
        Mean { axes } => run(Mean { axes: up(axes) }, &all),
        Var { axes, correction } => run(
            Var {
                axes: up(axes),
                correction: *correction,
            },
            &all,
        ),
        LayerNorm { axis, epsilon } if only_first => run(
            LayerNorm {
                axis: axis + 1,
                epsilon: *epsilon,
            },
            &all,
        ),
        RmsNorm { axis, epsilon } if only_first => run(
            RmsNorm {
                axis: axis + 1,
                epsilon: *epsilon,
            },
            &all,
        ),
        BatchNorm { axis, epsilon } if only_first => run(
            BatchNorm {
                axis: axis + 1,
                epsilon: *epsilon,
            },
            &all,
        ),
        // Works on the last axis; leading axes do not matter.
        Linear {} if only_first => run(op.clone(), &all),
        Embedding {} if !args[0].batched => run(op.clone(), &all),
        CrossEntropy {} => {
            let args = args.iter().map(|v| v.full(size));
            let args = args.collect::<Result<Vec<_>>>()?;
            run(op.clone(), &args.iter().collect::<Vec<_>>())
        }
        Function { body, .. } => call_graph(body, args, size),
        _ => expanded(op, args, size),
    }
}

/// The expansion of an op for one example.
fn made_of(op: &Op, specs: &[Spec]) -> Result<(Graph, Vec<Tensor>)> {
    let closed = trace(specs, |xs| {
        Ok(op.expand(&xs.iter().collect::<Vec<_>>())?.into_vec())
    })?;
    Ok((closed.graph.prune(), closed.captured))
}

fn expanded(op: &Op, args: &[Value], size: Dim) -> Result<Vec<Value>> {
    let specs: Vec<Spec> = args.iter().map(Value::spec).collect();
    let (graph, more) = made_of(op, &specs)?;
    let held = more.into_iter().map(Value::same);
    let all: Vec<Value> = args.iter().cloned().chain(held).collect();
    call_graph(&graph, &all, size)
}

pub fn custom(c: &Custom, args: &[Value], size: Dim) -> Result<Vec<Value>> {
    if !c.0.has_vjp() {
        return expanded(&Op::Custom(c.clone()), args, size);
    }
    let op = Batched {
        inner: c.clone(),
        batched: args.iter().map(|v| v.batched).collect(),
        size,
    };
    let all: Vec<&Tensor> = args.iter().map(|v| &v.x).collect();
    run(Op::Custom(Custom(Arc::new(op))), &all)
}

/// A custom op with its own derivative rule, run on all examples at once.
struct Batched {
    inner: Custom,
    /// Which operands are batched.
    batched: Vec<bool>,
    size: Dim,
}

impl Batched {
    fn values(&self, xs: &[&Tensor]) -> Vec<Value> {
        let each = xs.iter().zip(&self.batched);
        each.map(|(x, &batched)| Value {
            x: (*x).clone(),
            batched,
        })
        .collect()
    }
}

impl CustomOp for Batched {
    fn name(&self) -> &str {
        self.inner.0.name()
    }

    fn infer(&self, inputs: &[&Spec]) -> Result<Vec<Spec>> {
        let specs: Vec<Spec> = inputs.iter().map(|&s| s.clone()).collect();
        let closed = trace(&specs, |xs| self.expand(&xs.iter().collect::<Vec<_>>()))?;
        Ok(closed.graph.output_specs())
    }

    fn expand(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let op = Op::Custom(self.inner.clone());
        let outs = expanded(&op, &self.values(inputs), self.size)?;
        outs.iter().map(|v| v.full(self.size)).collect()
    }

    fn vjp(
        &self,
        inputs: &[&Tensor],
        outputs: &[&Tensor],
        cotangents: &[Tensor],
    ) -> Option<Result<Vec<Option<Tensor>>>> {
        Some(self.back(inputs, outputs, cotangents))
    }

    fn has_vjp(&self) -> bool {
        true
    }
}

impl Batched {
    fn back(
        &self,
        inputs: &[&Tensor],
        outputs: &[&Tensor],
        cotangents: &[Tensor],
    ) -> Result<Vec<Option<Tensor>>> {
        let mut all = self.values(inputs);
        all.extend(outputs.iter().map(|&y| Value::each(y.clone())));
        all.extend(cotangents.iter().map(|ct| Value::each(ct.clone())));
        let specs: Vec<Spec> = all.iter().map(Value::spec).collect();
        let mut some = Vec::new();
        let closed = trace(&specs, |xs| {
            let xs: Vec<&Tensor> = xs.iter().collect();
            let (own, rest) = xs.split_at(inputs.len());
            let (ys, cts) = rest.split_at(outputs.len());
            let cts: Vec<Tensor> = cts.iter().map(|&ct| ct.clone()).collect();
            let Some(back) = self.inner.0.vjp(own, ys, &cts) else {
                crate::bail!(Internal, "vmap: {} has no derivative rule", self.name());
            };
            let back = back?;
            some = back.iter().map(Option::is_some).collect();
            Ok(back.into_iter().flatten().collect())
        })?;
        all.extend(closed.captured.into_iter().map(Value::same));
        let mut found = call_graph(&closed.graph.prune(), &all, self.size)?.into_iter();
        let each = some.iter().zip(&self.batched).map(|(&is_some, &batched)| {
            let Some(ct) = (if is_some { found.next() } else { None }) else {
                return Ok(None);
            };
            let ct = ct.full(self.size)?;
            // An operand shared by all examples gets the sum of their cotangents.
            match batched {
                true => Ok(Some(ct)),
                false => ops::sum(&ct, 0).done().map(Some),
            }
        });
        each.collect()
    }
}
