//! Loops whose steps treat the rows of a batch alike: blocks of rows go through all steps by themselves, side by side.
//!
//! So threads meet once per loop and not several times in each of its steps. Blocks are cut by sizes alone.

use clematis_core::graph::{Arg, Graph, Output, ValueId};
use clematis_core::infer::infer;
use clematis_core::op::{Broadcast, Dot, Full, Iota, Slice};
use clematis_core::{Composite, Dim, Op, Shape, Spec, Support};
use clematis_native::backend;
use smallvec::SmallVec;

/// Rows of a block: a product of so many still reads its weights seldom enough.
const ROWS: usize = 16;
/// Sums of a step's products beyond which threads rather share each of them.
const LARGE: usize = 1 << 26;

/// A body for one block of rows.
pub struct Rows {
    /// The body.
    pub body: Graph,
    /// How many rows a block has, and how many blocks there are.
    pub rows: usize,
    pub blocks: usize,
    /// Which inputs of the body have rows.
    pub inputs: Vec<bool>,
}

/// The sizes of the batch and of a block.
#[derive(Clone, Copy)]
struct Sizes {
    all: usize,
    block: usize,
}

impl Sizes {
    fn leads(self, shape: &Shape) -> bool {
        shape.rank() > 0 && shape.size(0) == self.all
    }

    fn cut(self, shape: &Shape) -> Shape {
        shape.with(0, self.block)
    }
}

/// The same body for blocks of rows, if it never looks from one row at another. `fixed` inputs come first and have no rows;
/// the next `carries` come back as outputs.
pub fn split(body: &Graph, fixed: usize, carries: usize, inputs: usize) -> Option<Rows> {
    let specs = body.input_specs();
    let batch = specs.get(fixed..fixed + carries)?;
    let all = batch.iter().find(|s| s.rank() > 1)?.shape.size(0);
    let sizes = Sizes { all, block: ROWS };
    if all <= ROWS || !all.is_multiple_of(ROWS) || sums(body) / all * ROWS > LARGE {
        return None;
    }
    let has_rows: Vec<bool> = (0..specs.len())
        .map(|i| (fixed..inputs).contains(&i) && sizes.leads(&specs[i].shape))
        .collect();
    let mut new = Graph {
        scopes: body.scopes.clone(),
        ..Graph::default()
    };
    let mut rowed = vec![false; body.values.len()];
    let mut known: Vec<Option<ValueId>> = vec![None; body.values.len()];
    for (input, (spec, &has)) in body.inputs.iter().zip(specs.iter().zip(&has_rows)) {
        let spec = if has {
            spec.with_shape(sizes.cut(&spec.shape))
        } else {
            spec.clone()
        };
        let v = input.value.0 as usize;
        rowed[v] = has;
        known[v] = Some(new.input(spec, input.role, input.name.clone()));
    }
    let is_rowed = |rowed: &[bool], arg: &Arg| match arg {
        Arg::Value(id) => rowed[id.0 as usize],
        Arg::Const(_) => false,
    };
    let follow = |known: &[Option<ValueId>], arg: &Arg| match arg {
        Arg::Value(id) => known[id.0 as usize].map(Arg::Value),
        Arg::Const(_) => Some(arg.clone()),
    };
    for node in &body.nodes {
        let flags: Vec<bool> = node.args.iter().map(|a| is_rowed(&rowed, a)).collect();
        let shapes: Vec<&Shape> = node.args.iter().map(|a| &body.arg_spec(a).shape).collect();
        let out = &body.values[node.outs.start as usize].shape;
        let (op, has) = by_rows(&node.op, &flags, &shapes, out, sizes)?;
        let args: SmallVec<[Arg; 3]> = node
            .args
            .iter()
            .map(|a| follow(&known, a))
            .collect::<Option<_>>()?;
        let given: Vec<Spec> = args.iter().map(|a| new.arg_spec(a).clone()).collect();
        let given: Vec<&Spec> = given.iter().collect();
        let made = infer(&op, &given).ok()?.into_vec();
        if has
            && made
                .iter()
                .any(|s| s.rank() == 0 || s.shape.size(0) != ROWS)
        {
            return None;
        }
        let outs = new.node(op, args, &made, node.scope);
        for (old, v) in node.outs.clone().zip(outs) {
            rowed[old as usize] = has;
            known[old as usize] = Some(ValueId(v));
        }
    }
    for (i, output) in body.outputs.iter().enumerate() {
        let has = is_rowed(&rowed, &output.arg);
        // What has no rows would be made once for each block.
        let fits = i >= carries || has_rows[fixed + i];
        if !has || !fits {
            return None;
        }
        new.outputs.push(Output {
            arg: follow(&known, &output.arg)?,
            updates: output.updates,
        });
    }
    Some(Rows {
        body: new,
        rows: ROWS,
        blocks: all / ROWS,
        inputs: has_rows,
    })
}

/// The sums of all products of a body.
fn sums(body: &Graph) -> usize {
    let products = body.nodes.iter().filter_map(|node| match &node.op {
        Op::Dot(p) => {
            let left = &body.arg_spec(&node.args[0]).shape;
            let k: usize = p.lhs_contract.iter().map(|&a| left.size(a)).product();
            Some(body.values[node.outs.start as usize].shape.count() * k)
        }
        _ => None,
    });
    products.sum()
}

/// An op for one block, and whether its results have rows; `None` where a row would need another.
fn by_rows(
    op: &Op,
    rowed: &[bool],
    shapes: &[&Shape],
    out: &Shape,
    sizes: Sizes,
) -> Option<(Op, bool)> {
    let same = |has: bool| Some((op.clone(), has));
    match op {
        Op::Full(p) if sizes.leads(&p.shape) => {
            let shape = sizes.cut(&p.shape);
            Some((
                Full {
                    shape,
                    ..(**p).clone()
                }
                .into(),
                true,
            ))
        }
        Op::Iota(p) if sizes.leads(&p.shape) && p.axis != 0 => {
            let shape = sizes.cut(&p.shape);
            Some((
                Iota {
                    shape,
                    ..(**p).clone()
                }
                .into(),
                true,
            ))
        }
        Op::Broadcast(p) if sizes.leads(&p.shape) => {
            let first = p.axes.iter().position(|&a| a == 0);
            // Rows must come from rows, and what is repeated must be one.
            let fits = match first {
                Some(at) => at == 0 && (rowed[0] || shapes[0].size(at) == 1),
                None => !rowed[0],
            };
            let shape = sizes.cut(&p.shape);
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
        _ if !rowed.contains(&true) => same(false),
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Cast(_) => {
            elementwise(rowed, shapes, out, sizes).then_some(())?;
            same(true)
        }
        Op::Call(c) if is_elementwise(c) => same(true),
        Op::Dot(p) => products(p, rowed).then(|| (op.clone(), true)),
        Op::Reshape(shape) if sizes.leads(shape) => Some((Op::Reshape(sizes.cut(shape)), true)),
        Op::Transpose(axes) if axes.first() == Some(&0) => same(true),
        Op::Concat(axis) if *axis != 0 && !rowed.contains(&false) => same(true),
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
            (whole && rowed[0] && !rowed[1]).then_some(())?;
            same(true)
        }
        _ => None,
    }
}

/// Whether rows meet rows only, or what is the same for all.
fn elementwise(rowed: &[bool], shapes: &[&Shape], out: &Shape, sizes: Sizes) -> bool {
    rowed.iter().zip(shapes).all(|(&has, shape)| {
        let aligned = shape.rank() == out.rank();
        if has {
            aligned
        } else {
            !(aligned && sizes.leads(shape))
        }
    })
}

fn is_elementwise(c: &Composite) -> bool {
    matches!(
        c,
        Composite::Relu {} | Composite::Sigmoid {} | Composite::Silu {} | Composite::Gelu { .. }
    ) && backend().support(&c.clone().into()) == Support::Runs
}

/// Whether each row of a product comes of one row.
fn products(p: &Dot, rowed: &[bool]) -> bool {
    match rowed {
        [true, false] => p.lhs_batch.is_empty() && !p.lhs_contract.contains(&0),
        [true, true] => p.lhs_batch.first() == Some(&0) && p.rhs_batch.first() == Some(&0),
        _ => false,
    }
}

impl Rows {
    /// What is said about it in a plan.
    pub fn describe(&self) -> String {
        format!("{} blocks of {} rows side by side", self.blocks, self.rows)
    }
}
