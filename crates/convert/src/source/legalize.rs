//! Legalizes a program for a target framework: memory layout of channels, explicit padding, decomposition of composites.

use super::op_printer::OpPrinter;
use super::program::{Operand, Program, Step, Value, What, value};
use clematis_core::graph::Arg;
use clematis_core::op::{Composite, Op, Pad};
use clematis_core::trace::trace;
use clematis_core::{Axes, DType, Dim, Result, Scalar, Shape, Spec, bail};
use std::collections::HashMap;

/// The position of the channel axis in a target's layers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Channels {
    /// Axis 1.
    First,
    /// The last axis.
    Last,
    /// Either.
    Any,
}

/// Decomposes the composites that have no template in the target framework.
pub fn decompose(program: &mut Program, printer: &OpPrinter) -> Result<()> {
    loop {
        let mut changed = false;
        let mut steps = Vec::new();
        for step in std::mem::take(&mut program.steps) {
            let What::Op(op @ Op::Call(_)) = &step.what else {
                steps.push(step);
                continue;
            };
            if printer.print(program, &step, op)?.is_some() {
                steps.push(step);
                continue;
            }
            changed = true;
            opened(program, &step, op, &mut steps)?;
        }
        program.steps = steps;
        if !changed {
            return Ok(());
        }
        program.sweep();
    }
}

fn opened(program: &mut Program, step: &Step, op: &Op, into: &mut Vec<Step>) -> Result<()> {
    let specs: Vec<Spec> = step.args.iter().map(|x| program.spec(x)).collect();
    let inside = trace(&specs, |xs| {
        Ok(op.expand(&xs.iter().collect::<Vec<_>>())?.into_vec())
    })?;
    if !inside.captured.is_empty() {
        bail!(
            Unsupported,
            "source: `{}` holds tensors of its own",
            op.name()
        );
    }
    let graph = inside.graph.prune();
    let mut known: HashMap<u32, Operand> = HashMap::new();
    for (input, x) in graph.inputs.iter().zip(&step.args) {
        known.insert(input.value.0, x.clone());
    }
    let found = |known: &HashMap<u32, Operand>, arg: &Arg| match arg {
        Arg::Value(v) => known[&v.0].clone(),
        Arg::Const(x) => Operand::Num(x.as_number().unwrap_or(Scalar::Int(0)), x.dtype()),
    };
    let first = into.len();
    for node in &graph.nodes {
        let args = node.args.iter().map(|x| found(&known, x)).collect();
        let mut outs = Vec::new();
        for v in node.outs.clone() {
            let own = program.value(graph.values[v as usize].clone());
            known.insert(v, Operand::Val(own));
            outs.push(own);
        }
        into.push(Step {
            what: What::Op(node.op.clone()),
            args,
            outs,
            path: step.path.clone(),
            calls: step.calls.clone(),
        });
    }
    for (own, out) in step.outs.iter().zip(&graph.outputs) {
        let x = found(&known, &out.arg);
        let made = value(&x).filter(|v| into[first..].iter().any(|s| s.outs.contains(v)));
        match made {
            Some(v) => {
                for s in &mut into[first..] {
                    let swap = |x: &mut u32| {
                        if *x == v {
                            *x = *own;
                        }
                    };
                    s.outs.iter_mut().for_each(swap);
                    for arg in &mut s.args {
                        if let Operand::Val(x) = arg {
                            swap(x);
                        }
                    }
                }
            }
            None => into.push(Step {
                what: What::Op(Op::Reshape(program.specs[*own as usize].shape.clone())),
                args: vec![x],
                outs: vec![*own],
                path: step.path.clone(),
                calls: step.calls.clone(),
            }),
        }
    }
    Ok(())
}

fn order(rank: usize, to_last: bool) -> Vec<usize> {
    let mut axes = vec![0];
    if to_last {
        axes.extend(2..rank);
        axes.push(1);
    } else {
        axes.push(rank - 1);
        axes.extend(1..rank - 1);
    }
    axes
}

fn permuted(shape: &Shape, axes: &[usize]) -> Shape {
    Shape::from_dims(axes.iter().map(|i| shape.dims()[*i]))
}

/// Moves the channel axis of each layer to where the target has it; the inserted transposes cancel where they meet.
pub fn channels(program: &mut Program, wanted: Channels, pools: Channels, norms: Channels) {
    let mut steps = Vec::new();
    for mut step in std::mem::take(&mut program.steps) {
        let rank = step.args.first().map_or(0, |x| program.spec(x).rank());
        let to_last = match &mut step.what {
            What::Layer(layer) if layer.kind == "conv" => {
                let last = layer.int("last") == 1;
                let turn = wanted != Channels::Any && last != (wanted == Channels::Last);
                turn.then(|| {
                    for (name, v) in &mut layer.config {
                        if *name == "last" {
                            *v = Value::Bool(!last);
                        }
                    }
                    !last
                })
            }
            What::Layer(layer) if matches!(layer.kind, "batch_norm" | "group_norm") && rank > 2 => {
                let axis = layer.int("axis") as usize;
                let turn = match norms {
                    Channels::First => axis != 1,
                    Channels::Last => axis != rank - 1,
                    Channels::Any => false,
                };
                (turn && (axis == 1 || axis == rank - 1)).then(|| {
                    let new = if axis == 1 { rank - 1 } else { 1 };
                    for (name, v) in &mut layer.config {
                        if *name == "axis" {
                            *v = Value::Int(new as i64);
                        }
                    }
                    axis == 1
                })
            }
            What::Op(Op::Call(c)) => match &mut **c {
                Composite::MaxPool {
                    size,
                    strides,
                    padding,
                    dilation,
                }
                | Composite::AvgPool {
                    size,
                    strides,
                    padding,
                    dilation,
                    ..
                } if rank > 2 => {
                    let plain = |i: usize| size[i] == 1 && strides[i] == 1;
                    let (first, last) = (plain(0) && plain(1), plain(0) && plain(rank - 1));
                    let to_last = match pools {
                        Channels::First if last && !first => Some(false),
                        Channels::Last if first && !last => Some(true),
                        _ => None,
                    };
                    if let Some(to_last) = to_last {
                        let axes = order(rank, to_last);
                        for xs in [size, strides, dilation] {
                            *xs = Axes::new(&axes.iter().map(|i| xs[*i]).collect::<Vec<_>>());
                        }
                        *padding = axes.iter().map(|i| padding[*i]).collect();
                    }
                    to_last
                }
                _ => None,
            },
            _ => None,
        };
        let Some(to_last) = to_last else {
            steps.push(step);
            continue;
        };
        let axes = order(rank, to_last);
        let back = Axes::new(&axes).inverse();
        let x = program.spec(&step.args[0]);
        let before = program.value(x.with_shape(permuted(&x.shape, &axes)));
        let out = step.outs[0];
        let y = program.specs[out as usize].clone();
        let after = program.value(y.with_shape(permuted(&y.shape, &axes)));
        let turn = |arg: Operand, out: u32, axes: Axes, step: &Step| Step {
            what: What::Op(Op::Transpose(axes)),
            args: vec![arg],
            outs: vec![out],
            path: around(&step.path),
            calls: step.calls.clone(),
        };
        steps.push(turn(step.args[0].clone(), before, Axes::new(&axes), &step));
        let last = turn(Operand::Val(after), out, back, &step);
        step.args[0] = Operand::Val(before);
        step.outs[0] = after;
        steps.push(step);
        steps.push(last);
    }
    program.steps = steps;
    sink(program);
}

/// The path of the enclosing module.
fn around(path: &str) -> String {
    let (above, word) = path.rsplit_once('.').unwrap_or(("", path));
    match super::module_tree::is_number(word) {
        // A list is not a module of its own.
        true => around(above),
        false => above.to_string(),
    }
}

fn is_elementwise(op: &Op) -> bool {
    match op {
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Clamp => true,
        Op::Call(c) => matches!(
            **c,
            Composite::Relu {}
                | Composite::LeakyRelu { .. }
                | Composite::Elu { .. }
                | Composite::Selu {}
                | Composite::Gelu { .. }
                | Composite::Sigmoid {}
                | Composite::LogSigmoid {}
                | Composite::Silu {}
                | Composite::Softplus {}
                | Composite::Mish {}
                | Composite::HardSigmoid {}
                | Composite::HardSwish {}
        ),
        _ => false,
    }
}

/// Moves transposes past elementwise ops and removes pairs that cancel.
pub fn sink(program: &mut Program) {
    // For each value that is a transpose: its operand and the axes.
    let mut turns: HashMap<u32, (u32, Vec<usize>)> = HashMap::new();
    let mut steps: Vec<Step> = Vec::new();
    let mut same: HashMap<u32, Operand> = HashMap::new();
    for mut step in std::mem::take(&mut program.steps) {
        for arg in &mut step.args {
            if let Some(new) = value(arg).and_then(|v| same.get(&v)) {
                *arg = new.clone();
            }
        }
        if let What::Op(Op::Transpose(axes)) = &step.what
            && let Some(x) = value(&step.args[0])
        {
            let axes: Vec<usize> = axes.iter().copied().collect();
            let joined = turns.get(&x).map(|(base, before)| {
                let both: Vec<usize> = axes.iter().map(|i| before[*i]).collect();
                (*base, both)
            });
            // Across modules only transposes that cancel: otherwise a module would need two inputs for one.
            let apart = steps.iter().any(|s| s.outs == [x] && s.path != step.path);
            let (from, axes) = match joined {
                Some((base, both)) if !apart || both.iter().enumerate().all(|(i, a)| i == *a) => {
                    (base, both)
                }
                _ => (x, axes),
            };
            if axes.iter().enumerate().all(|(i, a)| i == *a) {
                same.insert(step.outs[0], Operand::Val(from));
                continue;
            }
            turns.insert(step.outs[0], (from, axes.clone()));
            step.args[0] = Operand::Val(from);
            step.what = What::Op(Op::Transpose(Axes::new(&axes)));
            steps.push(step);
            continue;
        }
        let arrays: Vec<u32> = step.reads().collect();
        let found: Vec<Option<&(u32, Vec<usize>)>> = arrays.iter().map(|v| turns.get(v)).collect();
        let agreed = match found.first() {
            Some(Some((_, axes))) if found.iter().all(|t| t.is_some_and(|t| t.1 == *axes)) => {
                Some(axes.clone())
            }
            _ => None,
        };
        let takes = match &mut step.what {
            What::Op(op) => is_elementwise(op),
            What::Layer(layer) => layer.kind == "batch_norm",
        };
        let reduces = matches!(&step.what, What::Op(Op::Reduce(_)))
            || matches!(&step.what, What::Op(Op::Call(c)) if matches!(**c, Composite::Mean { .. }));
        let Some(axes) = agreed.filter(|_| (takes || reduces) && step.outs.len() == 1) else {
            steps.push(step);
            continue;
        };
        if reduces {
            let own = match &step.what {
                What::Op(Op::Reduce(p)) => p.axes.clone(),
                What::Op(Op::Call(c)) => match &**c {
                    Composite::Mean { axes } => axes.clone(),
                    _ => Axes::new(&[]),
                },
                _ => Axes::new(&[]),
            };
            let new = Axes::new(&own.iter().map(|i| axes[*i]).collect::<Vec<_>>()).sorted();
            let left: Vec<usize> = (0..axes.len())
                .filter(|i| !own.contains(i))
                .map(|i| axes[i])
                .collect();
            // The remaining axes have to be in the same order.
            if left.windows(2).any(|w| w[0] > w[1]) {
                steps.push(step);
                continue;
            }
            match &mut step.what {
                What::Op(Op::Reduce(p)) => p.axes = new,
                What::Op(Op::Call(c)) => {
                    if let Composite::Mean { axes } = &mut **c {
                        *axes = new;
                    }
                }
                _ => {}
            }
            step.args[0] = Operand::Val(turns[&arrays[0]].0);
            steps.push(step);
            continue;
        }
        for arg in &mut step.args {
            if let Some((base, _)) = value(arg).and_then(|v| turns.get(&v)) {
                *arg = Operand::Val(*base);
            }
        }
        if let What::Layer(layer) = &mut step.what {
            for (name, v) in &mut layer.config {
                if let (&mut "axis", Value::Int(axis)) = (&mut *name, v) {
                    *axis = axes[*axis as usize] as i64;
                }
            }
        }
        let out = step.outs[0];
        let spec = program.specs[out as usize].clone();
        let undo = Axes::new(&axes).inverse();
        let undo: Vec<usize> = undo.iter().copied().collect();
        let new = program.value(spec.with_shape(permuted(&spec.shape, &undo)));
        step.outs[0] = new;
        let last = Step {
            what: What::Op(Op::Transpose(Axes::new(&axes))),
            args: vec![Operand::Val(new)],
            outs: vec![out],
            path: match &step.what {
                What::Layer(_) => around(&step.path),
                What::Op(_) => step.path.clone(),
            },
            calls: step.calls.clone(),
        };
        turns.insert(out, (new, axes));
        steps.push(step);
        steps.push(last);
    }
    program.steps = steps;
    for out in &mut program.outputs {
        if let Some(new) = value(out).and_then(|v| same.get(&v)) {
            *out = new.clone();
        }
    }
    program.sweep();
}

/// Makes padding a step of its own where a target's layers do not support it.
pub fn padding(
    program: &mut Program,
    fits: &dyn Fn(&[Option<i64>], &super::program::Layer) -> bool,
) {
    let mut steps = Vec::new();
    for mut step in std::mem::take(&mut program.steps) {
        let shape = step.args.first().map(|x| program.spec(x));
        if let (What::Layer(layer), Some(spec)) = (&mut step.what, shape)
            && layer.kind == "conv"
        {
            let last = layer.int("last") == 1;
            let n = spec.rank() - 2;
            let at = if last { 1 } else { 2 };
            let sizes: Vec<Option<i64>> = spec.shape.dims()[at..at + n]
                .iter()
                .map(|d| d.value())
                .collect();
            if !fits(&sizes, layer) {
                let pads = layer.pads();
                let mut low = vec![Dim::number(0); n + 2];
                let mut high = low.clone();
                let mut dims = spec.shape.dims().to_vec();
                for (i, (a, b)) in pads.iter().enumerate() {
                    low[at + i] = Dim::number(*a);
                    high[at + i] = Dim::number(*b);
                    dims[at + i] = dims[at + i] + Dim::number(a + b);
                }
                for (name, v) in &mut layer.config {
                    if *name == "padding" {
                        *v = Value::Pads(vec![(0, 0); n]);
                    }
                }
                let out = program.value(spec.with_shape(Shape::from_dims(dims)));
                let zero = Operand::Num(Scalar::Float(clematis_core::Real(0.0)), DType::F32);
                let op = Pad {
                    low: low.into_iter().collect(),
                    high: high.into_iter().collect(),
                    interior: Axes::new(&vec![0; n + 2]),
                };
                steps.push(Step {
                    what: What::Op(op.into()),
                    args: vec![step.args[0].clone(), zero],
                    outs: vec![out],
                    path: around(&step.path),
                    calls: step.calls.clone(),
                });
                step.args[0] = Operand::Val(out);
            }
        }
        steps.push(step);
    }
    program.steps = steps;
}

/// Merges consecutive reshapes, and removes casts and broadcasts that change nothing.
pub fn simplify(program: &mut Program) {
    loop {
        let (uses, makers) = (program.uses(), program.makers());
        let mut same: HashMap<u32, Operand> = HashMap::new();
        let mut changed = false;
        for at in 0..program.steps.len() {
            let step = &program.steps[at];
            let Some(x) = step.args.first().and_then(value) else {
                continue;
            };
            let before = makers.get(&x).map(|m| &program.steps[*m]);
            let (own, out) = (&program.specs[x as usize], step.outs[0]);
            match step.op() {
                Some(Op::Reshape(_) | Op::Broadcast(_)) if own == &program.specs[out as usize] => {
                    same.insert(out, Operand::Val(x));
                }
                Some(Op::Reshape(_)) if uses.get(&x) == Some(&1) => {
                    if let Some(maker) = before
                        && matches!(maker.op(), Some(Op::Reshape(_)))
                    {
                        let arg = maker.args[0].clone();
                        program.steps[at].args[0] = arg;
                        changed = true;
                    }
                }
                Some(Op::Broadcast(p)) => {
                    // Next to operands of the full shape, frameworks broadcast implicitly.
                    let whole = &program.specs[out as usize].shape;
                    let implicit = uses.contains_key(&out)
                        && !program.outputs.contains(&Operand::Val(out))
                        && program
                            .steps
                            .iter()
                            .filter(|s| s.reads().any(|v| v == out))
                            .all(|s| {
                                s.op()
                                    .is_some_and(|op| matches!(op, Op::Binary(_) | Op::Compare(_)))
                                    && s.args.iter().any(|a| {
                                        value(a) != Some(out) && program.spec(a).shape == *whole
                                    })
                            });
                    let rank = own.rank();
                    let trailing = p
                        .axes
                        .iter()
                        .enumerate()
                        .all(|(i, a)| *a == whole.rank() - rank + i);
                    if implicit && trailing && rank > 0 {
                        same.insert(out, Operand::Val(x));
                    } else if implicit && rank > 0 {
                        let mut dims = vec![Dim::number(1); whole.rank()];
                        for (d, a) in own.shape.dims().iter().zip(p.axes.iter()) {
                            dims[*a] = *d;
                        }
                        let first = dims.iter().position(|d| *d != Dim::number(1)).unwrap_or(0);
                        let shape = Shape::from_dims(dims[first..].iter().copied());
                        let spec = own.with_shape(shape.clone());
                        program.specs[out as usize] = spec;
                        program.steps[at].what = What::Op(Op::Reshape(shape));
                        changed = true;
                    }
                }
                Some(Op::Cast(dtype)) if own.dtype == *dtype => {
                    same.insert(out, Operand::Val(x));
                }
                _ => {}
            }
        }
        if same.is_empty() && !changed {
            return;
        }
        let swap = |x: &mut Operand| {
            while let Some(new) = value(x).and_then(|v| same.get(&v)) {
                *x = new.clone();
            }
        };
        program
            .steps
            .iter_mut()
            .flat_map(|s| &mut s.args)
            .for_each(swap);
        program.outputs.iter_mut().for_each(swap);
        program.sweep();
    }
}
