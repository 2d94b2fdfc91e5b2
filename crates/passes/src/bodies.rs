//! Runs the passes inside branches, loops and functions.

use crate::optimize;
use crate::rewrite::rewrite;
use clematis_core::error::Result;
use clematis_core::graph::{Body, Graph};
use clematis_core::op::{Composite, Cond, Op, Scan, While};
use clematis_core::pass::Options;

/// Optimises every body. A body that does not shrink is kept, so that it stays equal to itself.
pub fn run(graph: &Graph, options: Options) -> Result<Graph> {
    let improved = |body: &Body| -> Result<Body> {
        let new = optimize(&body.0, options)?;
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
                branches: p.branches.iter().map(improved).collect::<Result<_>>()?,
            }
            .into(),
            Op::While(p) => While {
                test: improved(&p.test)?,
                body: improved(&p.body)?,
                ..(**p).clone()
            }
            .into(),
            Op::Scan(p) => Scan {
                body: improved(&p.body)?,
                ..(**p).clone()
            }
            .into(),
            Op::Call(c) => match &**c {
                Composite::Function { name, body } => Composite::Function {
                    name: name.clone(),
                    body: improved(body)?,
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
