//! Bodies: the graphs inside branches, loops and functions.

use crate::rewriter::rewrite;
use clematis_core::graph::{Body, Graph};
use clematis_core::op::{Cond, Scan, While};
use clematis_core::{Composite, Op, Result};
use rustc_hash::FxHashMap;

fn has_bodies(op: &Op) -> bool {
    match op {
        Op::Cond(_) | Op::While(_) | Op::Scan(_) => true,
        Op::Call(c) => matches!(**c, Composite::Function { .. }),
        _ => false,
    }
}

/// Replaces each body by what `pass` makes of it: `scan {body} → scan {pass(body)}`. Equal bodies stay equal.
pub fn for_each_body(graph: Graph, pass: impl Fn(&Graph) -> Result<Graph>) -> Result<Graph> {
    if !graph.nodes.iter().any(|node| has_bodies(&node.op)) {
        return Ok(graph);
    }
    // Bodies compare by identity, so each one is rewritten once.
    let mut known: FxHashMap<*const Graph, Body> = FxHashMap::default();
    let mut of = |body: &Body| -> Result<Body> {
        let key: *const Graph = &*body.0;
        if let Some(new) = known.get(&key) {
            return Ok(new.clone());
        }
        let new = Body::new(pass(&body.0)?);
        known.insert(key, new.clone());
        Ok(new)
    };
    let new = rewrite(&graph, |new, node, args| {
        let op: Op = match &node.op {
            Op::Cond(p) => Cond {
                branches: p.branches.iter().map(&mut of).collect::<Result<_>>()?,
            }
            .into(),
            Op::While(p) => While {
                test: of(&p.test)?,
                body: of(&p.body)?,
                ..(**p).clone()
            }
            .into(),
            Op::Scan(p) => Scan {
                body: of(&p.body)?,
                ..(**p).clone()
            }
            .into(),
            Op::Call(c) => match &**c {
                Composite::Function { name, body } => Composite::Function {
                    name: name.clone(),
                    body: of(body)?,
                }
                .into(),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        new.several(op, args.clone(), node.scope).map(Some)
    })?;
    Ok(new.unwrap_or(graph))
}
