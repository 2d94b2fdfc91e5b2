//! Checks derivatives against those of another engine, which has passed the checks by finite differences.
//!
//! The other engine computes in double precision where the op supports it, so that only the backend's error is
//! measured.

use super::subject::{Part, Subject, gap, values, widened};
use super::{Verdict, cotangent, judged, same_specs, tangent, uploaded, zero};
use crate::array::{Array, C, epsilon};
use clematis_core::autodiff::{jvp, vjp};
use clematis_core::{Backend, Result, Tensor, backend};

/// Forward mode.
pub fn forward(s: &Subject, other: &'static dyn Backend, part: &Part) -> Verdict {
    let direction = tangent(s, part)?;
    let operands = s.operands(part);
    let dx = uploaded(s, &direction)?;
    let (y, dy) = jvp(|x: &Vec<Tensor>| s.call(part, x), &operands, &dx)?;
    if let Err(message) = same_specs("tangent", &dy, &y) {
        return Ok(Err(message));
    }
    let dy = values(&dy)?;
    if s.flat {
        return Ok(zero(&dy));
    }
    let want = on(s, other, &direction, |s, dx| {
        let (_, dy) = jvp(|x: &Vec<Tensor>| s.call(part, x), &s.operands(part), dx)?;
        Ok(dy)
    })?;
    Ok(judged("jvp", gap(&dy, &want), allowed(s, &operands, &y)))
}

/// Reverse mode.
pub fn reverse(s: &Subject, other: &'static dyn Backend, part: &Part) -> Verdict {
    let operands = s.operands(part);
    let (y, pull) = vjp(|x: &Vec<Tensor>| s.call(part, x), &operands)?;
    let ct = cotangent(s, part, &y)?;
    let back = pull.call(&uploaded(s, &ct)?)?;
    if let Err(message) = same_specs("cotangent", &back, &operands) {
        return Ok(Err(message));
    }
    let back = values(&back)?;
    if s.flat {
        return Ok(zero(&back));
    }
    let want = on(s, other, &ct, |s, ct| {
        let (_, pull) = vjp(|x: &Vec<Tensor>| s.call(part, x), &s.operands(part))?;
        pull.call(ct)
    })?;
    Ok(judged("vjp", gap(&back, &want), allowed(s, &operands, &y)))
}

/// Runs the same computation on the other engine.
fn on(
    s: &Subject,
    other: &'static dyn Backend,
    directions: &[Array],
    f: impl Fn(&Subject, &Vec<Tensor>) -> Result<Vec<Tensor>>,
) -> Result<Vec<Vec<C>>> {
    backend::with(other, || {
        let wide = s.case.widened();
        let directions: Vec<Array> = match &wide {
            Some(_) => directions.iter().map(widened).collect(),
            None => directions.to_vec(),
        };
        let subject = Subject::new(other, wide.as_ref().unwrap_or(s.case), s.flat)?;
        values(&f(&subject, &uploaded(&subject, &directions)?)?)
    })
}

/// The tolerance: the precision of the narrowest dtype, and at least that of finite differences. Duality bounds the
/// error of a sum over all cotangents; a single cotangent that nearly cancels (queries of attention) may have a
/// slightly larger error.
fn allowed(s: &Subject, xs: &[Tensor], ys: &[Tensor]) -> f64 {
    let all = xs.iter().chain(ys);
    let precision = all.map(|x| epsilon(x.dtype())).fold(0.0, f64::max);
    (4.0 * s.case.derivative.duality * precision).max(s.case.derivative.tolerance)
}
