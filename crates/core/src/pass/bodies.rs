//! Runs the passes inside branches, loops and functions.

use super::Options;
use super::rewrite::rewrite;
use crate::error::Result;
use crate::graph::{Body, Graph};
use crate::op::{Composite, Cond, Op, Scan, While};

/// Optimises every body. A body that does not shrink is kept, so that it stays equal to itself.
pub fn run(graph: &Graph, options: Options) -> Result<Graph> {
    let better = |body: &Body| -> Result<Body> {
        let new = body.0.optimise(options)?;
        let is_shorter = new.nodes.len() < body.0.nodes.len();
        Ok(if is_shorter {
            Body::new(new)
        } else {
            body.clone()
        })
    };
    rewrite(graph, |new, node, args| {
        let op: Op = match &node.op {
            Op::Cond(p) => Cond {
                branches: p.branches.iter().map(better).collect::<Result<_>>()?,
            }
            .into(),
            Op::While(p) => While {
                test: better(&p.test)?,
                body: better(&p.body)?,
                ..(**p).clone()
            }
            .into(),
            Op::Scan(p) => Scan {
                body: better(&p.body)?,
                ..(**p).clone()
            }
            .into(),
            Op::Call(c) => match &**c {
                Composite::Function { name, body } => Composite::Function {
                    name: name.clone(),
                    body: better(body)?,
                }
                .into(),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        if op == node.op {
            return Ok(None);
        }
        new.several(op, args.clone(), node.scope).map(Some)
    })
}
