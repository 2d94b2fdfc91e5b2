//! Where backends and traces meet.
//!
//! Owns the choice of a tensor's home and the one path by which an op is run. Knows no op by name.
//! Keep it short: `cargo xtask bench dispatch` watches what it costs.

use crate::backend::{self, Backend, Support};
use crate::bail;
use crate::error::Result;
use crate::infer::infer;
use crate::op::Op;
use crate::outs::Outs;
use crate::spec::Spec;
use crate::tensor::{Data, Repr, Tensor};
use crate::trace::Trace;
use smallvec::SmallVec;
use std::sync::Arc;

/// Where an op is to be run.
enum Home<'a> {
    Backend(&'static dyn Backend),
    Trace(&'a Arc<Trace>),
    /// Nothing with a home takes part: numbers and creation.
    Nowhere,
}

/// The highest trace, else the one backend; two backends are an error.
fn home<'a>(op: &Op, inputs: &[&'a Tensor]) -> Result<Home<'a>> {
    let mut found = Home::Nowhere;
    for x in inputs {
        match (x.repr(), &found) {
            (Repr::Scalar { .. }, _) => {}
            (Repr::Traced { trace, .. }, Home::Trace(t)) if t.level() >= trace.level() => {}
            (Repr::Traced { trace, .. }, _) => found = Home::Trace(trace),
            (Repr::Concrete { .. }, Home::Trace(_)) => {}
            (Repr::Concrete { backend, .. }, Home::Backend(b)) => {
                if !backend::same(*backend, *b) {
                    return Err(crate::Error::new(
                        crate::Kind::Backend,
                        format!(
                            "{}: tensors of {} and {}",
                            op.name(),
                            b.name(),
                            backend.name()
                        ),
                    )
                    .note(format!("move one with .to(\"{}\")", b.name())));
                }
            }
            (Repr::Concrete { backend, .. }, Home::Nowhere) => found = Home::Backend(*backend),
        }
    }
    Ok(found)
}

/// Runs an op, or records it where a trace is on.
pub fn apply(op: &Op, inputs: &[&Tensor]) -> Result<Outs<Tensor>> {
    let b = match home(op, inputs)? {
        Home::Backend(b) => b,
        Home::Trace(t) => return t.record(op, inputs),
        // Creation inside a traced function belongs to the program, not to its constants.
        Home::Nowhere => match Trace::innermost_abstract() {
            Some(t) => return t.record(op, inputs),
            None => backend::current()?,
        },
    };
    match b.support(op) {
        Support::Runs => execute(b, op, inputs),
        // What an expansion creates belongs where its operands are.
        Support::Expands => backend::with(b, || op.expand(inputs)),
        Support::Missing => bail!(Unsupported, "{}: {} has no such op", op.name(), b.name()),
    }
}

/// The same for an op with one result.
pub fn apply_one(op: &Op, inputs: &[&Tensor]) -> Result<Tensor> {
    match apply(op, inputs)?.one() {
        Some(t) => Ok(t),
        None => bail!(Internal, "{}: one result was expected", op.name()),
    }
}

fn execute(b: &'static dyn Backend, op: &Op, inputs: &[&Tensor]) -> Result<Outs<Tensor>> {
    // One and two operands without a list: this is where small calls spend their time.
    let out = match inputs {
        [x] => infer(op, &[x.spec()])?,
        [x, y] => infer(op, &[x.spec(), y.spec()])?,
        _ => {
            let specs: SmallVec<[&Spec; 4]> = inputs.iter().map(|x| x.spec()).collect();
            infer(op, &specs)?
        }
    };
    let data = b.execute(op, inputs, out.as_slice())?;
    match (out, data) {
        (Outs::One(spec), Outs::One(data)) => Ok(Outs::One(Tensor::concrete(spec, b, data))),
        (out, data) => wrap_many(b, op, out.into_vec(), data.into_vec()),
    }
}

fn wrap_many(
    b: &'static dyn Backend,
    op: &Op,
    out: Vec<Spec>,
    data: Vec<Data>,
) -> Result<Outs<Tensor>> {
    if out.len() != data.len() {
        bail!(
            Internal,
            "{}: {} gave {} results, not {}",
            op.name(),
            b.name(),
            data.len(),
            out.len()
        );
    }
    Ok(out
        .into_iter()
        .zip(data)
        .map(|(spec, data)| Tensor::concrete(spec, b, data))
        .collect())
}
