//! Checks preconditions on values: immediately for concrete values, when the program runs for traced ones.

use super::index::has_values;
use crate::dtype::DType;
use crate::error::Result;
use crate::host::Host;
use crate::op::Unary;
use crate::precondition::Precondition;
use crate::tensor::{Repr, Tensor};
use crate::trace::{DeferredCheck, Trace};

/// Up to this many elements, reading them is faster than calling the backend.
const MANY: usize = 4096;

/// Returns an error if an element of the operand violates the precondition, now or when the program runs. Values that
/// a framework traces by itself, outside of our programs, are not checked.
pub fn require(x: &Tensor, precondition: Precondition) -> Result<()> {
    keep(x, precondition, false, |x| match x.as_number() {
        // Checks the number as given, not as rounded to a dtype.
        Some(value) => {
            let dtype = match precondition {
                Precondition::Index { .. } => DType::INDEX,
                _ => DType::F64,
            };
            precondition.check(&Host::scalar(value, dtype)?)
        }
        // For many elements the backend computes the summary on its device.
        None if x.shape().count() > MANY => {
            let found = summary(x, precondition, false)?;
            precondition.check_summary(&found.to_host()?)
        }
        None => precondition.check(&x.to_host()?),
    })
}

/// The same for an operand given by its summaries, along the last axis.
pub(crate) fn require_summary(x: &Tensor, precondition: Precondition) -> Result<()> {
    keep(x, precondition, true, |x| {
        precondition.check_summary(&x.to_host()?)
    })
}

fn keep(
    x: &Tensor,
    precondition: Precondition,
    is_summary: bool,
    now: impl FnOnce(&Tensor) -> Result<()>,
) -> Result<()> {
    let x = x.lowest();
    match x.repr() {
        Repr::Traced { trace, id, .. } => trace.defer(DeferredCheck {
            value: *id,
            precondition,
            is_summary,
        }),
        _ if has_values(x) => return now(x),
        _ => {}
    }
    Ok(())
}

/// The summary of an operand, or of several summaries.
pub(crate) fn summary(x: &Tensor, precondition: Precondition, is_summary: bool) -> Result<Tensor> {
    let dtype = precondition.summary_dtype(x.dtype());
    if x.shape().dims().iter().any(|&d| d == 0usize) {
        return neutral(precondition, dtype);
    }
    let wide = super::cast(x, dtype).done()?;
    if is_summary {
        let leading: Vec<i64> = (0..x.rank() as i64 - 1).collect();
        return super::min(&wide, leading).done();
    }
    let least = super::min(&wide, ..).done()?;
    let most = super::max(&wide, ..).done()?;
    let most = match precondition {
        Precondition::Index { .. } => super::unary(Unary::BitwiseNot, &most).done()?,
        _ => super::neg(&most).done()?,
    };
    let mut parts = vec![least, most];
    if let Precondition::Weights { .. } = precondition {
        let positive = super::cast(super::greater(&wide, 0.0), dtype);
        parts.push(super::min(super::sum(positive, -1), ..).done()?);
    }
    super::stack(&parts, 0).done()
}

/// The neutral summary, of no elements.
pub(crate) fn neutral(precondition: Precondition, dtype: DType) -> Result<Tensor> {
    let parts: Vec<Tensor> = precondition
        .neutral()
        .into_iter()
        .map(|v| super::materialize(&Tensor::scalar(v, dtype)))
        .collect::<Result<_>>()?;
    super::stack(&parts, 0).done()
}

/// Takes the pending summaries of the innermost abstract trace, each with its precondition.
pub(crate) fn summaries() -> Result<Vec<(Tensor, Precondition)>> {
    let Some(trace) = Trace::innermost_abstract() else {
        return Ok(Vec::new());
    };
    let each = trace.take_deferred().into_iter().map(|check| {
        let x = trace.tensor_of(check.value);
        Ok((
            summary(&x, check.precondition, check.is_summary)?,
            check.precondition,
        ))
    });
    each.collect()
}
