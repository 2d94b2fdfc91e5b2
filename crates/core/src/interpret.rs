//! The interpreter: runs a graph op by op on the backend of its inputs.

use crate::dispatch::apply;
use crate::error::Result;
use crate::graph::{Arg, Graph};
use crate::interrupt;
use crate::spec::Spec;
use crate::tensor::Tensor;
use crate::{bail, ensure};

impl Graph {
    /// Runs the graph. Symbolic dimensions are bound by the input shapes. Returns all outputs in order.
    pub fn call(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        ensure!(
            inputs.len() == self.inputs.len(),
            Value,
            "graph: takes {} inputs, not {}",
            self.inputs.len(),
            inputs.len()
        );
        let specs: Vec<&Spec> = inputs.iter().map(|x| x.spec()).collect();
        let bindings = self.bindings(&specs)?;
        let symbolic = self.values.iter().any(|s| s.shape.is_symbolic());
        let mut values: Vec<Option<Tensor>> = vec![None; self.values.len()];
        for (input, x) in self.inputs.iter().zip(inputs) {
            let want = self.spec(input.value);
            let bound = if symbolic && !x.shape().is_symbolic() {
                want.shape.bind(&bindings)?
            } else {
                want.shape.clone()
            };
            ensure!(
                x.dtype() == want.dtype && *x.shape() == bound,
                Shape,
                "graph: input `{}` is {want}, not {}",
                input.name,
                x.spec()
            );
            values[input.value.0 as usize] = Some((*x).clone());
        }
        let last_use = self.last_uses();
        for (n, node) in self.nodes.iter().enumerate() {
            interrupt::check()?;
            let outs = {
                let args: Vec<&Tensor> = node
                    .args
                    .iter()
                    .map(|a| look_up(&values, a))
                    .collect::<Result<_>>()?;
                if symbolic && args.iter().all(|x| !x.shape().is_symbolic()) {
                    apply(&node.op.bind(&bindings)?, &args)?
                } else {
                    apply(&node.op, &args)?
                }
            };
            for (id, t) in node.outs.clone().zip(outs.into_vec()) {
                values[id as usize] = Some(t);
            }
            // Frees operands after their last use.
            for arg in &node.args {
                if let Arg::Value(id) = arg
                    && last_use[id.0 as usize] == n
                {
                    values[id.0 as usize] = None;
                }
            }
        }
        self.outputs
            .iter()
            .map(|o| look_up(&values, &o.arg).cloned())
            .collect()
    }

    /// The last node that uses each value; `usize::MAX` for outputs.
    fn last_uses(&self) -> Vec<usize> {
        let mut last = vec![0; self.values.len()];
        for (n, node) in self.nodes.iter().enumerate() {
            for arg in &node.args {
                if let Arg::Value(id) = arg {
                    last[id.0 as usize] = n;
                }
            }
        }
        for out in &self.outputs {
            if let Arg::Value(id) = out.arg {
                last[id.0 as usize] = usize::MAX;
            }
        }
        last
    }
}

fn look_up<'a>(values: &'a [Option<Tensor>], arg: &'a Arg) -> Result<&'a Tensor> {
    match arg {
        Arg::Const(t) => Ok(t),
        Arg::Value(id) => match values.get(id.0 as usize) {
            Some(Some(t)) => Ok(t),
            _ => bail!(Internal, "graph: %{} is used before it is defined", id.0),
        },
    }
}
