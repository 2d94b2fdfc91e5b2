//! Common subexpression elimination: `exp(x) + exp(x) → y = exp(x); y + y`.
//!
//! Every op is pure (randomness is an operand), so equal nodes give equal values.

use crate::rewriter::{Args, rewrite};
use clematis_core::dtype::{DType, Scalar};
use clematis_core::graph::{Arg, Graph, ValueId};
use clematis_core::pass::Options;
use clematis_core::tensor::Repr;
use clematis_core::{Op, Result};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// An operand that can be compared.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Value(ValueId),
    /// A number, its dtype, and whether it is weak.
    Number(Scalar, DType, bool),
}

fn key(arg: &Arg) -> Option<Key> {
    match arg {
        Arg::Value(id) => Some(Key::Value(*id)),
        Arg::Const(t) => match t.repr() {
            Repr::Scalar { value, weak } => Some(Key::Number(*value, t.dtype(), *weak)),
            _ => None,
        },
    }
}

/// The hash of a node; `None` if an operand cannot be compared.
fn hash(op: &Op, args: &Args) -> Option<u64> {
    let mut hasher = FxHasher::default();
    op.hash(&mut hasher);
    for arg in args {
        key(arg)?.hash(&mut hasher);
    }
    Some(hasher.finish())
}

/// Merges equal nodes.
pub fn run(graph: &Graph, _: Options) -> Result<Option<Graph>> {
    // The nodes of the new graph by hash.
    let mut seen: FxHashMap<u64, SmallVec<[u32; 2]>> = FxHashMap::default();
    rewrite(graph, |new, node, args| {
        // A user-defined op may have side effects, such as counting its calls.
        if matches!(node.op, Op::Custom(_)) {
            return Ok(None);
        }
        let Some(hash) = hash(&node.op, args) else {
            return Ok(None);
        };
        let nodes = seen.entry(hash).or_default();
        for &n in nodes.iter() {
            let other = &new.graph.nodes[n as usize];
            let same_args = || other.args.iter().map(key).eq(args.iter().map(key));
            if other.op == node.op && same_args() {
                let outs = other.outs.clone();
                return Ok(Some(outs.map(|v| Arg::Value(ValueId(v))).collect()));
            }
        }
        // The node that is going to be added.
        nodes.push(new.graph.nodes.len() as u32);
        Ok(None)
    })
}
