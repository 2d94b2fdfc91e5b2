//! Dispatch: runs an op on the backend of its operands, or records it in a trace.
//!
//! Owns the choice of the backend or trace and the one path by which an op runs. Knows no op by name. Keep it short:
//! `cargo xtask bench dispatch` measures its overhead.

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

/// Where an op runs.
enum Target<'a> {
    Backend(&'static dyn Backend),
    Trace(&'a Arc<Trace>),
    /// No operand has a backend: numbers and creation ops.
    Any,
}

/// The highest trace, else the backend of all operands; two backends are an error.
fn target<'a>(op: &Op, inputs: &[&'a Tensor]) -> Result<Target<'a>> {
    let mut found = Target::Any;
    for x in inputs {
        match (x.repr(), &found) {
            (Repr::Scalar { .. }, _) => {}
            (Repr::Traced { trace, .. }, Target::Trace(t)) if t.level() >= trace.level() => {}
            (Repr::Traced { trace, .. }, _) => found = Target::Trace(trace),
            (Repr::Concrete { .. }, Target::Trace(_)) => {}
            (Repr::Concrete { backend, .. }, Target::Backend(b)) => {
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
            (Repr::Concrete { backend, .. }, Target::Any) => found = Target::Backend(*backend),
        }
    }
    Ok(found)
}

/// Runs an op, or records it if an operand is traced.
pub fn apply(op: &Op, inputs: &[&Tensor]) -> Result<Outs<Tensor>> {
    let b = match target(op, inputs)? {
        Target::Backend(b) => b,
        Target::Trace(t) => return t.record(op, inputs),
        // Creation inside a traced function belongs to the program, not to its constants.
        Target::Any => match Trace::innermost_abstract() {
            Some(t) => return t.record(op, inputs),
            None => backend::current()?,
        },
    };
    match b.support(op) {
        Support::Runs => execute(b, op, inputs),
        // Tensors that an expansion creates belong on the operands' backend.
        Support::Expands => backend::with(b, || op.expand(inputs)),
        Support::Missing => bail!(
            Unsupported,
            "{}: unsupported operator on backend {}",
            op.name(),
            b.name()
        ),
    }
}

/// Runs an op that has one result.
pub fn apply_one(op: &Op, inputs: &[&Tensor]) -> Result<Tensor> {
    match apply(op, inputs)?.one() {
        Some(t) => Ok(t),
        None => bail!(Internal, "{}: expected one result", op.name()),
    }
}

fn execute(b: &'static dyn Backend, op: &Op, inputs: &[&Tensor]) -> Result<Outs<Tensor>> {
    // One and two operands take no list: this is the hot path of small ops.
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
