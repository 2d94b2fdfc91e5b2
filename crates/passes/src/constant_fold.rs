//! Constant folding: `x * (2 * 3) → x * 6`.

use crate::algebraic_simplify::number;
use crate::rewriter::rewrite;
use clematis_core::backend::{self, LINKED};
use clematis_core::dispatch::apply;
use clematis_core::error::Result;
use clematis_core::graph::{Arg, Graph};
use clematis_core::op::{Full, Op};
use clematis_core::pass::Options;
use clematis_core::shape::Shape;
use clematis_core::tensor::Tensor;
use clematis_core::trace::Trace;
use smallvec::smallvec;

/// Folds elementwise ops on numbers, and on arrays filled with one number.
///
/// The engine computes them, as it does eager calls on numbers; without a linked engine nothing is folded.
pub fn run(graph: &Graph, _: Options) -> Result<Option<Graph>> {
    // Inside a trace numbers would be recorded, not computed.
    let (Some(engine), None) = (LINKED.first(), Trace::innermost_abstract()) else {
        return Ok(None);
    };
    rewrite(graph, |new, node, args| {
        let is_elementwise = matches!(
            node.op,
            Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Cast(_)
        );
        if !is_elementwise {
            return Ok(None);
        }
        let numbers: Option<Vec<Tensor>> = args
            .iter()
            .map(|arg| match arg {
                Arg::Const(t) if t.as_number().is_some() => Some(t.clone()),
                _ => number(new, arg).map(|v| Tensor::scalar(v, new.spec(arg).dtype)),
            })
            .collect();
        let Some(numbers) = numbers else {
            return Ok(None);
        };
        let operands: Vec<&Tensor> = numbers.iter().collect();
        // An op that fails now is kept: it reports its error at each call.
        let Ok(found) = backend::with(engine(), || {
            let out = apply(&node.op, &operands)?.into_vec().pop();
            let read = |x: Tensor| -> Result<_> { Ok((x.item()?, x.dtype())) };
            out.map(read).transpose()
        }) else {
            return Ok(None);
        };
        let Some((value, dtype)) = found else {
            return Ok(None);
        };
        let shapes = args.iter().map(|arg| new.spec(arg).shape.clone());
        let shape = shapes.reduce(|a, b| Shape::broadcast(&a, &b).unwrap_or(a));
        let shape = shape.unwrap_or_default();
        if shape.rank() == 0 {
            return Ok(Some(vec![Arg::Const(Tensor::scalar(value, dtype))]));
        }
        let full = Full {
            value,
            dtype,
            shape,
        };
        Ok(Some(vec![new.one(full.into(), smallvec![], node.scope)?]))
    })
}
