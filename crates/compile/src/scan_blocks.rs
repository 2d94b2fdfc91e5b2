//! Row blocks for scans: if the steps treat the rows of the batch independently, each block of rows runs through all
//! steps on its own.
//!
//! Threads then synchronize once per scan instead of several times per step. The blocks depend on sizes alone.

use clematis_core::graph::{Arg, Graph, Output, ValueId};
use clematis_core::infer::infer;
use clematis_core::op::{Broadcast, Dot, Full, Iota, Slice};
use clematis_core::{Composite, Dim, Op, Shape, Spec, Support};
use clematis_native::backend;
use smallvec::SmallVec;

/// Rows per block: large enough to amortize reading the weights in a matmul.
const BLOCK_ROWS: usize = 16;
/// MACs of a block's step beyond which all threads share each matmul instead.
const MAX_BLOCK_MACS: usize = 1 << 26;

/// A scan body for one block of rows.
pub struct RowBlocks {
    /// The body.
    pub body: Graph,
    /// Rows per block, and the number of blocks.
    pub rows: usize,
    pub blocks: usize,
    /// Which inputs of the body have a batch axis.
    pub inputs: Vec<bool>,
}

/// The sizes of the batch and of a block.
#[derive(Clone, Copy)]
struct BatchSizes {
    all: usize,
    block: usize,
}

impl BatchSizes {
    fn has_batch(self, shape: &Shape) -> bool {
        shape.rank() > 0 && shape.size(0) == self.all
    }

    fn to_block(self, shape: &Shape) -> Shape {
        shape.with(0, self.block)
    }
}

/// Rewrites a body to run on one block of rows, if no row depends on another. The first `fixed` inputs have no batch
/// axis; the next `carries` inputs come back as outputs.
pub fn split(body: &Graph, fixed: usize, carries: usize, inputs: usize) -> Option<RowBlocks> {
    let specs = body.input_specs();
    let batch = specs.get(fixed..fixed + carries)?;
    let all = batch.iter().find(|s| s.rank() > 1)?.shape.size(0);
    let sizes = BatchSizes {
        all,
        block: BLOCK_ROWS,
    };
    if all <= BLOCK_ROWS
        || !all.is_multiple_of(BLOCK_ROWS)
        || step_macs(body) / all * BLOCK_ROWS > MAX_BLOCK_MACS
    {
        return None;
    }
    let has_rows: Vec<bool> = (0..specs.len())
        .map(|i| (fixed..inputs).contains(&i) && sizes.has_batch(&specs[i].shape))
        .collect();
    let mut new = Graph {
        scopes: body.scopes.clone(),
        ..Graph::default()
    };
    let mut row_wise = vec![false; body.values.len()];
    let mut mapped: Vec<Option<ValueId>> = vec![None; body.values.len()];
    for (input, (spec, &has)) in body.inputs.iter().zip(specs.iter().zip(&has_rows)) {
        let spec = if has {
            spec.with_shape(sizes.to_block(&spec.shape))
        } else {
            spec.clone()
        };
        let v = input.value.0 as usize;
        row_wise[v] = has;
        mapped[v] = Some(new.input(spec, input.role, input.name.clone()));
    }
    let is_row_wise = |row_wise: &[bool], arg: &Arg| match arg {
        Arg::Value(id) => row_wise[id.0 as usize],
        Arg::Const(_) => false,
    };
    let lookup = |mapped: &[Option<ValueId>], arg: &Arg| match arg {
        Arg::Value(id) => mapped[id.0 as usize].map(Arg::Value),
        Arg::Const(_) => Some(arg.clone()),
    };
    for node in &body.nodes {
        let flags: Vec<bool> = node
            .args
            .iter()
            .map(|a| is_row_wise(&row_wise, a))
            .collect();
        let shapes: Vec<&Shape> = node.args.iter().map(|a| &body.arg_spec(a).shape).collect();
        let out = &body.values[node.outs.start as usize].shape;
        let (op, has) = op_for_block(&node.op, &flags, &shapes, out, sizes)?;
        let args: SmallVec<[Arg; 3]> = node
            .args
            .iter()
            .map(|a| lookup(&mapped, a))
            .collect::<Option<_>>()?;
        let given: Vec<Spec> = args.iter().map(|a| new.arg_spec(a).clone()).collect();
        let given: Vec<&Spec> = given.iter().collect();
        let made = infer(&op, &given).ok()?.into_vec();
        if has
            && made
                .iter()
                .any(|s| s.rank() == 0 || s.shape.size(0) != BLOCK_ROWS)
        {
            return None;
        }
        let outs = new.node(op, args, &made, node.scope);
        for (old, v) in node.outs.clone().zip(outs) {
            row_wise[old as usize] = has;
            mapped[old as usize] = Some(ValueId(v));
        }
    }
    for (i, output) in body.outputs.iter().enumerate() {
        let has = is_row_wise(&row_wise, &output.arg);
        // An output without rows would be computed once per block.
        let fits = i >= carries || has_rows[fixed + i];
        if !has || !fits {
            return None;
        }
        new.outputs.push(Output {
            arg: lookup(&mapped, &output.arg)?,
            updates: output.updates,
        });
    }
    Some(RowBlocks {
        body: new,
        rows: BLOCK_ROWS,
        blocks: all / BLOCK_ROWS,
        inputs: has_rows,
    })
}

/// MACs of all dots of a body.
fn step_macs(body: &Graph) -> usize {
    let macs = body.nodes.iter().filter_map(|node| match &node.op {
        Op::Dot(p) => {
            let left = &body.arg_spec(&node.args[0]).shape;
            let k: usize = p.lhs_contract.iter().map(|&a| left.size(a)).product();
            Some(body.values[node.outs.start as usize].shape.count() * k)
        }
        _ => None,
    });
    macs.sum()
}

/// The op for one block, and whether its results have rows; `None` if a row would depend on another.
fn op_for_block(
    op: &Op,
    row_wise: &[bool],
    shapes: &[&Shape],
    out: &Shape,
    sizes: BatchSizes,
) -> Option<(Op, bool)> {
    let same = |has: bool| Some((op.clone(), has));
    match op {
        Op::Full(p) if sizes.has_batch(&p.shape) => {
            let shape = sizes.to_block(&p.shape);
            Some((
                Full {
                    shape,
                    ..(**p).clone()
                }
                .into(),
                true,
            ))
        }
        Op::Iota(p) if sizes.has_batch(&p.shape) && p.axis != 0 => {
            let shape = sizes.to_block(&p.shape);
            Some((
                Iota {
                    shape,
                    ..(**p).clone()
                }
                .into(),
                true,
            ))
        }
        Op::Broadcast(p) if sizes.has_batch(&p.shape) => {
            let first = p.axes.iter().position(|&a| a == 0);
            // Rows must come from rows, and a broadcast axis must have size 1.
            let fits = match first {
                Some(at) => at == 0 && (row_wise[0] || shapes[0].size(at) == 1),
                None => !row_wise[0],
            };
            let shape = sizes.to_block(&p.shape);
            fits.then(|| {
                (
                    Broadcast {
                        shape,
                        ..(**p).clone()
                    }
                    .into(),
                    true,
                )
            })
        }
        _ if !row_wise.contains(&true) => same(false),
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Cast(_) => {
            elementwise(row_wise, shapes, out, sizes).then_some(())?;
            same(true)
        }
        Op::Call(c) if is_elementwise(c) => same(true),
        Op::Dot(p) => dot_keeps_rows(p, row_wise).then(|| (op.clone(), true)),
        Op::Reshape(shape) if sizes.has_batch(shape) => {
            Some((Op::Reshape(sizes.to_block(shape)), true))
        }
        Op::Transpose(axes) if axes.first() == Some(&0) => same(true),
        Op::Concat(axis) if *axis != 0 && !row_wise.contains(&false) => same(true),
        Op::Reduce(p) if !p.axes.contains(&0) => same(true),
        Op::Slice(p) => {
            let whole = p.start[0] == 0 && p.limit[0] == sizes.all && p.strides[0] == 1;
            let mut limit = p.limit.clone();
            limit[0] = Dim::from(sizes.block);
            whole.then(|| {
                (
                    Slice {
                        limit,
                        ..(**p).clone()
                    }
                    .into(),
                    true,
                )
            })
        }
        Op::Pad(p) => {
            let whole = p.low[0] == 0 && p.high[0] == 0 && p.interior[0] == 0;
            (whole && row_wise[0] && !row_wise[1]).then_some(())?;
            same(true)
        }
        _ => None,
    }
}

/// Whether rows combine only with rows, or with operands that are the same for all rows.
fn elementwise(row_wise: &[bool], shapes: &[&Shape], out: &Shape, sizes: BatchSizes) -> bool {
    row_wise.iter().zip(shapes).all(|(&has, shape)| {
        let aligned = shape.rank() == out.rank();
        if has {
            aligned
        } else {
            !(aligned && sizes.has_batch(shape))
        }
    })
}

fn is_elementwise(c: &Composite) -> bool {
    matches!(
        c,
        Composite::Relu {} | Composite::Sigmoid {} | Composite::Silu {} | Composite::Gelu { .. }
    ) && backend().support(&c.clone().into()) == Support::Runs
}

/// Whether each row of a dot depends on one row of its operands.
fn dot_keeps_rows(p: &Dot, row_wise: &[bool]) -> bool {
    match row_wise {
        [true, false] => p.lhs_batch.is_empty() && !p.lhs_contract.contains(&0),
        [true, true] => p.lhs_batch.first() == Some(&0) && p.rhs_batch.first() == Some(&0),
        _ => false,
    }
}

impl RowBlocks {
    /// A short description for the plan.
    pub fn describe(&self) -> String {
        format!("{} blocks of {} rows in parallel", self.blocks, self.rows)
    }
}
