//! `vmap`: vectorises a function of one example over a batch.
//!
//! A function is traced for one example; each op is then run for the whole batch at once. A value either has the
//! batch as its first axis or is the same for all examples. The batching rule of each op is in `batch/`; ops without
//! a rule run example by example (`each`). Batching uses ordinary ops only, so it composes with derivatives, `jit`
//! and further `vmap`s.

mod composite;
mod control;
mod index;
mod linear;
mod structural;

use crate::backend;
use crate::dim::Dim;
use crate::dispatch::apply;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Arg, Body, Graph};
use crate::op::{Op, Scan};
use crate::ops;
use crate::random::{Key, stream};
use crate::shape::{Axes, Shape};
use crate::spec::Spec;
use crate::tensor::Tensor;
use crate::trace::{Trace, trace};
use crate::tree::{self, Role, Tree};
use crate::{bail, ensure};
use std::cell::Cell;
use std::rc::Rc;

/// A value during batching.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    /// The tensor.
    pub x: Tensor,
    /// Whether its first axis is the batch; else it is the same for all examples.
    pub batched: bool,
}

impl Value {
    fn same(x: Tensor) -> Value {
        Value { x, batched: false }
    }

    fn each(x: Tensor) -> Value {
        Value { x, batched: true }
    }

    /// The spec that one example sees.
    fn spec(&self) -> Spec {
        match self.batched {
            true => self.x.spec().with_shape(self.x.shape().without(&[0])),
            false => self.x.spec().clone(),
        }
    }

    fn rank(&self) -> usize {
        self.x.rank() - usize::from(self.batched)
    }

    /// The value with the batch as its first axis, broadcast if it has none.
    fn full(&self, size: Dim) -> Result<Tensor> {
        if self.batched {
            return Ok(self.x.clone());
        }
        let shape = self.x.shape().insert(0, size);
        let axes: Vec<usize> = (1..shape.rank()).collect();
        ops::broadcast_in(&self.x, &shape, &axes).done()
    }

    /// Pads the axes of each example to a common rank, so that values broadcast.
    fn aligned(&self, rank: usize) -> Result<Tensor> {
        let missing = rank.saturating_sub(self.rank());
        if !self.batched || missing == 0 {
            return Ok(self.x.clone());
        }
        let dims = self.x.shape().dims();
        let ones = std::iter::repeat_n(Dim::number(1), missing);
        let shape = dims[..1]
            .iter()
            .copied()
            .chain(ones)
            .chain(dims[1..].iter().copied());
        ops::reshape(&self.x, Shape::from_dims(shape)).done()
    }
}

/// Maps axes of an example to axes of the batched value.
fn up(axes: &[usize]) -> Axes {
    axes.iter().map(|a| a + 1).collect()
}

/// The same, with the batch axis in front.
fn with_first(axes: &[usize]) -> Axes {
    std::iter::once(0)
        .chain(axes.iter().map(|a| a + 1))
        .collect()
}

fn with_size(size: Dim, shape: &Shape) -> Shape {
    shape.insert(0, size)
}

fn run(op: impl Into<Op>, args: &[&Tensor]) -> Result<Vec<Value>> {
    let outs = apply(&op.into(), args)?.into_vec();
    Ok(outs.into_iter().map(Value::each).collect())
}

/// Runs an op on all examples.
fn batch(op: &Op, args: &[Value], size: Dim) -> Result<Vec<Value>> {
    if !args.iter().any(|v| v.batched) {
        let args: Vec<&Tensor> = args.iter().map(|v| &v.x).collect();
        let outs = apply(op, &args)?.into_vec();
        return Ok(outs.into_iter().map(Value::same).collect());
    }
    let full = || {
        args.iter()
            .map(|v| v.full(size))
            .collect::<Result<Vec<_>>>()
    };
    // Runs an op with adjusted axes when all operands are batched.
    let on_all = |op: Op| -> Result<Vec<Value>> {
        let args = full()?;
        run(op, &args.iter().collect::<Vec<_>>())
    };
    match op {
        Op::Unary(_) | Op::Cast(_) | Op::Bitcast(_) | Op::StopGradient => on_all(op.clone()),
        Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Clamp => pointwise(op, args),
        // These have no operands.
        Op::Full(_) | Op::Iota(_) => bail!(Internal, "{}: has no operands", op.name()),
        Op::Reshape(shape) => on_all(Op::Reshape(with_size(size, shape))),
        Op::Transpose(axes) => on_all(Op::Transpose(with_first(axes))),
        Op::Reverse(axes) => on_all(Op::Reverse(up(axes))),
        Op::Concat(axis) => on_all(Op::Concat(axis + 1)),
        Op::Broadcast(p) => structural::broadcast(p, args, size),
        Op::Slice(p) => structural::slice(p, args, size),
        Op::Pad(p) => structural::pad(p, args, size),
        Op::Reduce(p) => {
            let mut p = (**p).clone();
            p.axes = up(&p.axes);
            on_all(p.into())
        }
        Op::ArgReduce(p) => {
            let mut p = (**p).clone();
            p.axis += 1;
            on_all(p.into())
        }
        Op::Cumulative(p) => {
            let mut p = (**p).clone();
            p.axis += 1;
            on_all(p.into())
        }
        Op::Sort(p) => {
            let mut p = (**p).clone();
            p.axis += 1;
            on_all(p.into())
        }
        Op::Fft(p) => {
            let mut p = (**p).clone();
            p.axes = up(&p.axes);
            on_all(p.into())
        }
        // Matrices are on the last two axes; leading axes are batch axes.
        Op::TopK(_)
        | Op::Lu
        | Op::Cholesky(_)
        | Op::Qr(_)
        | Op::Svd(_)
        | Op::Eigh(_)
        | Op::Eig(_)
        | Op::TriangularSolve(_) => on_all(op.clone()),
        Op::Window(_) | Op::WindowScatter(_) | Op::WindowGather(_) => {
            on_all(structural::window(op)?)
        }
        Op::DynamicSlice(sizes) => index::dynamic_slice(sizes, args, size),
        Op::DynamicUpdate => index::dynamic_update(args, size),
        Op::Gather(p) => index::gather(p, args, size),
        Op::Scatter(p) => index::scatter(p, args, size),
        Op::SearchSorted(_) => index::search_sorted(op, args, size),
        Op::NonZero(_) => each(op, args, size),
        Op::Dot(p) => linear::dot(p, args),
        Op::Conv(p) => linear::conv(p, args, size),
        Op::Cond(p) => control::cond(p, args, size),
        Op::While(p) => control::while_(p, args, size),
        Op::Scan(p) => control::scan(p, args, size),
        Op::Collective(_) => bail!(
            Unsupported,
            "vmap: {} is a collective op, which cannot be batched",
            op.name()
        ),
        Op::Call(c) => composite::call(op, c, args, size),
        Op::Custom(c) => composite::custom(c, args, size),
    }
}

/// Elementwise ops; operands broadcast from their last axes on.
fn pointwise(op: &Op, args: &[Value]) -> Result<Vec<Value>> {
    let rank = args.iter().map(Value::rank).max().unwrap_or(0);
    let args = args.iter().map(|v| v.aligned(rank));
    let args = args.collect::<Result<Vec<_>>>()?;
    run(op.clone(), &args.iter().collect::<Vec<_>>())
}

/// Runs an op example by example.
fn each(op: &Op, args: &[Value], size: Dim) -> Result<Vec<Value>> {
    let (rows, consts): (Vec<usize>, Vec<usize>) = (0..args.len()).partition(|&i| args[i].batched);
    let order: Vec<usize> = consts.iter().chain(&rows).copied().collect();
    let specs: Vec<Spec> = order.iter().map(|&i| args[i].spec()).collect();
    let closed = trace(&specs, |xs| {
        let mut own: Vec<Option<&Tensor>> = vec![None; args.len()];
        for (&i, x) in order.iter().zip(xs) {
            own[i] = Some(x);
        }
        let own: Vec<&Tensor> = own.into_iter().flatten().collect();
        Ok(apply(op, &own)?.into_vec())
    })?;
    let scan = Scan {
        body: Body::new(closed.graph),
        consts: consts.len(),
        carries: 0,
        length: size,
        reverse: false,
    };
    let operands: Vec<&Tensor> = order.iter().map(|&i| &args[i].x).collect();
    run(scan, &operands)
}

/// Runs a graph of one example on the whole batch.
pub(crate) fn call(graph: &Graph, inputs: &[Value], size: Dim) -> Result<Vec<Value>> {
    ensure!(
        inputs.len() == graph.inputs.len(),
        Value,
        "vmap: expected {} inputs, got {}",
        graph.inputs.len(),
        inputs.len()
    );
    let mut values: Vec<Option<Value>> = vec![None; graph.values.len()];
    for (input, x) in graph.inputs.iter().zip(inputs) {
        values[input.value.0 as usize] = Some(x.clone());
    }
    let found = |values: &[Option<Value>], arg: &Arg| match arg {
        Arg::Const(x) => Ok(Value::same(x.clone())),
        Arg::Value(id) => match values.get(id.0 as usize) {
            Some(Some(v)) => Ok(v.clone()),
            _ => bail!(Internal, "vmap: %{} is used before it is made", id.0),
        },
    };
    for node in &graph.nodes {
        let args = node.args.iter().map(|arg| found(&values, arg));
        let outs = batch(&node.op, &args.collect::<Result<Vec<_>>>()?, size)?;
        for (id, out) in node.outs.clone().zip(outs) {
            values[id as usize] = Some(out);
        }
    }
    let outputs = graph.outputs.iter();
    outputs.map(|o| found(&values, &o.arg)).collect()
}

/// Vectorises a function of one example; the batch is the first axis of every leaf.
pub fn vmap<T: Tree + Clone, O: Tree + Clone>(
    f: impl Fn(&T) -> Result<O>,
) -> impl Fn(&T) -> Result<O> {
    move |x| {
        let axes = vec![Some(0); tree::leaves(x).len()];
        vmap_along(&f, x, &axes, 0)
    }
}

/// Vectorises over one axis of each leaf. A leaf without an axis is the same for all examples. Results have the batch
/// at `out_axis`.
pub fn vmap_along<T: Tree + Clone, O: Tree + Clone>(
    f: impl FnOnce(&T) -> Result<O>,
    x: &T,
    axes: &[Option<i64>],
    out_axis: i64,
) -> Result<O> {
    let entries = tree::entries(x);
    ensure!(
        entries.len() == axes.len(),
        Value,
        "vmap: got {} axes for {} leaves",
        axes.len(),
        entries.len()
    );
    let backend = entries.iter().find_map(|(_, _, x)| x.backend());
    let compute = || {
        let (values, size) = spread(&entries, axes)?;
        mapped(f, x, values, size, out_axis)
    };
    match backend {
        Some(backend) => backend::with(backend, compute),
        None => compute(),
    }
}

/// Moves the batch axis of every leaf to the front, and returns the common batch size.
fn spread(entries: &[(String, Role, Tensor)], axes: &[Option<i64>]) -> Result<(Vec<Value>, Dim)> {
    let mut size: Option<(Dim, String)> = None;
    let mut values = Vec::with_capacity(entries.len());
    for ((path, _, x), axis) in entries.iter().zip(axes) {
        let x = ops::materialize(x)?;
        let Some(axis) = axis else {
            values.push(Value::same(x));
            continue;
        };
        let path = if path.is_empty() {
            "the argument"
        } else {
            path
        };
        ensure!(
            x.rank() > 0,
            Shape,
            "vmap: {path} is {}, which has no axis to map over",
            x.spec()
        );
        let axis = x.shape().axis(*axis, "vmap")?;
        let here = x.shape().dims()[axis];
        match &size {
            Some((n, other)) => ensure!(
                *n == here,
                Shape,
                "vmap: {path} has {here} examples, {other} has {n}"
            ),
            None => size = Some((here, path.to_string())),
        }
        values.push(Value::each(ops::move_axis(&x, axis as i64, 0).done()?));
    }
    match size {
        Some((size, _)) => Ok((values, size)),
        None => bail!(Value, "vmap: no argument has an axis to map over"),
    }
}

fn mapped<T: Tree + Clone, O: Tree + Clone>(
    f: impl FnOnce(&T) -> Result<O>,
    x: &T,
    mut values: Vec<Value>,
    size: Dim,
    out_axis: i64,
) -> Result<O> {
    let open = Trace::open(false);
    open.trace.set_mapped();
    let inputs: Vec<Tensor> = values
        .iter()
        .map(|v| open.trace.input(v.spec(), Role::Input, ""))
        .collect();
    // Each example draws different random numbers: the key of a draw is split once per example.
    let draws = Rc::new(Cell::new(0));
    let (keys, count) = (open.trace.clone(), draws.clone());
    let source = move || {
        count.set(count.get() + 1);
        let words = Spec::new(DType::U32, Shape::from_sizes(&[2]));
        Key::from_tensor(keys.input(words, Role::Key, ""))
    };
    let own = tree::with_leaves(x, &inputs)?;
    let like = stream::with_source(source, || f(&own))?;
    let mut outs: Vec<Tensor> = tree::leaves(&like)
        .iter()
        .map(ops::materialize)
        .collect::<Result<_>>()?;
    let own = outs.len();
    let (summaries, kept): (Vec<_>, Vec<_>) = ops::require::summaries()?.into_iter().unzip();
    outs.extend(summaries);
    let closed = Trace::close(open, &outs);
    for _ in 0..draws.get() {
        let shape = Shape::from_dims([size, Dim::number(2)]);
        values.push(Value::each(
            stream::next_key().bits(DType::U32, shape).done()?,
        ));
    }
    values.extend(closed.captured.into_iter().map(Value::same));
    let mut outs = call(&closed.graph.prune(), &values, size)?;
    for (found, precondition) in outs.split_off(own).iter().zip(kept) {
        ops::require::require_summary(&found.full(size)?, precondition)?;
    }
    let outs = outs.iter().map(|v| {
        let y = v.full(size)?;
        let axis = crate::shape::normalize_axis(out_axis, y.rank(), "vmap")?;
        ops::move_axis(y, 0, axis as i64).done()
    });
    tree::with_leaves(&like, &outs.collect::<Result<Vec<_>>>()?)
}
