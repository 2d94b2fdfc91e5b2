//! Common subexpression elimination.

use crate::rewrite::{Args, rewrite};
use clematis_core::dtype::{DType, Scalar};
use clematis_core::error::Result;
use clematis_core::graph::{Arg, Graph, ValueId};
use clematis_core::op::Op;
use clematis_core::pass::Options;
use clematis_core::tensor::Repr;
use rustc_hash::FxHashMap;

/// A hashable operand.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Value(ValueId),
    /// A number, its dtype, and whether it is weak.
    Number(Scalar, DType, bool),
}

fn keys(args: &Args) -> Option<Vec<Key>> {
    let key = |arg: &Arg| match arg {
        Arg::Value(id) => Some(Key::Value(*id)),
        Arg::Const(t) => match t.repr() {
            Repr::Scalar { value, weak } => Some(Key::Number(*value, t.dtype(), *weak)),
            _ => None,
        },
    };
    args.iter().map(key).collect()
}

/// Every op is pure (randomness is an operand), so equal nodes give equal values.
pub fn run(graph: &Graph, _: Options) -> Result<Graph> {
    let mut seen: FxHashMap<(Op, Vec<Key>), Vec<Arg>> = FxHashMap::default();
    rewrite(graph, |new, node, args| {
        // A user-defined op may have side effects, such as counting its calls.
        if matches!(node.op, Op::Custom(_)) {
            return Ok(None);
        }
        let Some(keys) = keys(args) else {
            return Ok(None);
        };
        let key = (node.op.clone(), keys);
        if let Some(found) = seen.get(&key) {
            return Ok(Some(found.clone()));
        }
        // The values that this node is going to define.
        let first = new.graph.values.len() as u32;
        let count = node.outs.end - node.outs.start;
        let outs = (first..first + count).map(|id| Arg::Value(ValueId(id)));
        seen.insert(key, outs.collect());
        Ok(None)
    })
}
