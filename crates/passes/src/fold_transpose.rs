//! Folds transposes into the `dot_general` that reads them: `dot(transpose(a), b) → dot(a, b)` over other axes.

use crate::rewriter::{Args, Rewriter, rewrite};
use clematis_core::error::Result;
use clematis_core::graph::{Arg, Graph};
use clematis_core::op::{Dot, Op};
use clematis_core::pass::Options;
use clematis_core::shape::Axes;

/// `dot_general` names its contracted axes, so it can read the operand before the transpose.
pub fn run(graph: &Graph, _: Options) -> Result<Option<Graph>> {
    rewrite(graph, |new, node, args| {
        let (Op::Dot(p), [x, y]) = (&node.op, args.as_slice()) else {
            return Ok(None);
        };
        let left = through(new, x, &p.lhs_batch, &p.lhs_contract);
        let right = through(new, y, &p.rhs_batch, &p.rhs_contract);
        if left.is_none() && right.is_none() {
            return Ok(None);
        }
        let keep = |arg: &Arg, batch: &Axes, contract: &Axes| {
            (arg.clone(), batch.clone(), contract.clone())
        };
        let (x, lhs_batch, lhs_contract) =
            left.unwrap_or_else(|| keep(x, &p.lhs_batch, &p.lhs_contract));
        let (y, rhs_batch, rhs_contract) =
            right.unwrap_or_else(|| keep(y, &p.rhs_batch, &p.rhs_contract));
        let dot = Dot {
            lhs_batch,
            rhs_batch,
            lhs_contract,
            rhs_contract,
        };
        let args: Args = [x, y].into_iter().collect();
        Ok(Some(vec![new.one(dot.into(), args, node.scope)?]))
    })
}

/// The operand of a transpose and the axes within it, if the free axes keep their order.
fn through(new: &Rewriter, arg: &Arg, batch: &Axes, contract: &Axes) -> Option<(Arg, Axes, Axes)> {
    let inner = new.producer(arg)?;
    let Op::Transpose(axes) = &inner.op else {
        return None;
    };
    let before = |list: &Axes| -> Axes {
        let list: Vec<usize> = list.iter().map(|&axis| axes[axis]).collect();
        Axes::new(&list)
    };
    let mut free = (0..axes.len())
        .filter(|axis| !batch.contains(axis) && !contract.contains(axis))
        .map(|axis| axes[axis]);
    free.clone()
        .zip(free.by_ref().skip(1))
        .all(|(a, b)| a < b)
        .then_some(())?;
    Some((inner.args.first()?.clone(), before(batch), before(contract)))
}
