//! Lets a mask read `relu(x)` instead of `x`: `relu(x), x > 0 → y = relu(x), y > 0`.
//!
//! The backward pass of relu then needs `relu(x)` only, and `x` is not kept alive.

use clematis_core::graph::{Arg, Graph, ValueId};
use clematis_core::op::Compare;
use clematis_core::pass::Options;
use clematis_core::{Composite, Op, Result};

/// Rewrites masks whose relu is computed before them.
pub fn run(graph: &Graph, _: Options) -> Result<Option<Graph>> {
    let relu: Op = Composite::Relu {}.into();
    let zero = |arg: &Arg| match arg {
        Arg::Const(t) => t.as_number().is_some_and(|n| n.as_f64() == 0.0),
        Arg::Value(_) => false,
    };
    // The first relu of each value, among the nodes so far.
    let mut activated: Vec<Option<ValueId>> = vec![None; graph.values.len()];
    let mut masks: Vec<(usize, ValueId)> = Vec::new();
    for (n, node) in graph.nodes.iter().enumerate() {
        let Some(Arg::Value(x)) = node.args.first() else {
            continue;
        };
        let known = &mut activated[x.0 as usize];
        match &node.op {
            op if *op == relu => {
                known.get_or_insert(ValueId(node.outs.start));
            }
            Op::Compare(Compare::Greater) if zero(&node.args[1]) => {
                masks.extend(known.map(|relu| (n, relu)));
            }
            _ => {}
        }
    }
    if masks.is_empty() {
        return Ok(None);
    }
    let mut graph = graph.clone();
    for (n, relu) in masks {
        graph.nodes[n].args[0] = Arg::Value(relu);
    }
    Ok(Some(graph))
}
