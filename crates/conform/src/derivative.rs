//! Checks derivatives against finite differences, and JVP against VJP.
//!
//! A case is differentiated with respect to all its operands, with respect to each alone, and through each result
//! alone, so that a rule sees every pattern of absent tangents and cotangents. In f64 and c128 both modes are
//! compared with fourth-order finite differences along a random direction; in every dtype they must be transposes of
//! each other, ⟨ct, J dx⟩ = ⟨Jᵀ ct, dx⟩ with ⟨a, b⟩ = Re Σ a b, JAX's convention.
//!
//! Rules are in the core and the same on every backend. Once one engine has passed all this, other backends are only
//! compared with its results (`against.rs`), which takes a fraction of the calls.

mod compare_backends;
mod subject;

use self::subject::{Part, Subject, cells, gap, pairing, parts, values, wide, widened};
use crate::array::{Array, C, epsilon, upload};
use crate::case::{Case, Expect};
use crate::draw::Draw;
use crate::report::{Check, Finding, Outcome};
use clematis_core::autodiff::{jvp, vjp};
use clematis_core::{Backend, Kind, Result, Tensor};
use std::time::Instant;

/// Checks both modes and second derivatives of a case: by finite differences, or against another engine.
pub fn check(
    backend: &'static dyn Backend,
    case: &Case,
    against: Option<&'static dyn Backend>,
) -> Vec<Finding> {
    let start = Instant::now();
    let (subject, parts, smooth) = match prepared(backend, case) {
        Ok(Some(found)) => found,
        Ok(None) => return Vec::new(),
        Err(e) => {
            let failed = |check| Finding::timed(check, || Outcome::Failed(e.to_string()));
            return vec![failed(Check::Vjp), failed(Check::Jvp)];
        }
    };
    let setup = start.elapsed().as_secs_f64();
    let d = &case.derivative;
    let mut findings = vec![
        Finding::timed(Check::Vjp, || match (d.none.or(d.no_reverse), against) {
            (Some(kind), _) => refusal(reverse(&subject, &parts[0]), kind),
            (None, Some(other)) => over(&parts[..1], |p| {
                compare_backends::reverse(&subject, other, p)
            }),
            (None, None) => over(&parts, |part| reverse_checked(&subject, part)),
        }),
        Finding::timed(Check::Jvp, || match (d.none, against) {
            (Some(kind), _) => refusal(forward(&subject, &parts[0]), kind),
            (None, Some(other)) => over(&parts[..1], |p| {
                compare_backends::forward(&subject, other, p)
            }),
            (None, None) => over(&parts, |part| forward_checked(&subject, part)),
        }),
    ];
    findings[0].seconds += setup;
    let refused = d.none.or(d.no_reverse).is_some();
    if smooth && !subject.flat && !refused && against.is_none() {
        findings.push(Finding::timed(Check::Second, || {
            Outcome::settled(second(&subject, &parts[0]))
        }));
    }
    findings
}

/// The subject to differentiate, its parts, and whether second derivatives are checked; `None`: nothing is checked.
fn prepared<'a>(
    backend: &'static dyn Backend,
    case: &'a Case,
) -> Result<Option<(Subject<'a>, Vec<Part>, bool)>> {
    let d = &case.derivative;
    let operands: Vec<usize> = (0..case.inputs.len())
        .filter(|&i| case.inputs[i].dtype.is_inexact() && !d.constants.contains(&i))
        .collect();
    if !d.checked || operands.is_empty() || matches!(case.expect, Expect::Refused(_)) {
        return Ok(None);
    }
    let mut subject = Subject::new(backend, case, false)?;
    let found = subject.results(&subject.all.iter().collect::<Vec<_>>())?;
    let mut results: Vec<usize> = (0..found.len())
        .filter(|&i| found[i].dtype().is_inexact())
        .collect();
    if results.is_empty() || d.flat {
        subject.flat = true;
        results = (0..found.len()).collect();
    }
    let smooth = d.smooth && wide(&found);
    Ok(Some((subject, parts(&operands, &results), smooth)))
}

/// The worst error of all parts, or the first failure.
fn over(parts: &[Part], f: impl Fn(&Part) -> Verdict) -> Outcome {
    let mut worst = 0.0f64;
    for part in parts {
        let about = format!("operands {:?}, results {:?}", part.operands, part.results);
        match f(part) {
            Ok(Ok(error)) => worst = worst.max(error),
            Ok(Err(message)) => return Outcome::Failed(format!("{about}: {message}")),
            Err(e) => return Outcome::Failed(e.note(about).to_string()),
        }
    }
    Outcome::Passed(worst)
}

fn refusal(result: Result<f64>, kind: Kind) -> Outcome {
    match result {
        Err(e) if e.kind() == kind => Outcome::Passed(0.0),
        Err(e) => Outcome::Failed(format!("expected {kind:?}, got {e}")),
        Ok(_) => Outcome::Failed(format!("expected {kind:?}, got a derivative")),
    }
}

/// A random tangent of a part's operands.
fn tangent(s: &Subject, part: &Part) -> Result<Vec<Array>> {
    let mut draw = Draw::new(&format!("{} tangent {:?}", s.case.name, part.operands));
    part.operands
        .iter()
        .map(|&i| draw.direction(s.case.inputs[i].dtype, &s.case.inputs[i].shape))
        .collect()
}

/// A random cotangent of a part's results.
fn cotangent(s: &Subject, part: &Part, ys: &[Tensor]) -> Result<Vec<Array>> {
    let mut draw = Draw::new(&format!("{} cotangent {:?}", s.case.name, part.results));
    ys.iter()
        .map(|y| draw.direction(y.dtype(), &y.shape().sizes()))
        .collect()
}

fn uploaded(s: &Subject, xs: &[Array]) -> Result<Vec<Tensor>> {
    xs.iter().map(|x| upload(s.backend, x)).collect()
}

/// Checks that forward mode runs, and reverse mode is rejected.
fn forward(s: &Subject, part: &Part) -> Result<f64> {
    let dx = uploaded(s, &tangent(s, part)?)?;
    jvp(|x: &Vec<Tensor>| s.call(part, x), &s.operands(part), &dx)?;
    Ok(0.0)
}

/// Checks that reverse mode runs.
fn reverse(s: &Subject, part: &Part) -> Result<f64> {
    let (y, pull) = vjp(|x: &Vec<Tensor>| s.call(part, x), &s.operands(part))?;
    pull.call(&uploaded(s, &cotangent(s, part, &y)?)?)?;
    Ok(0.0)
}

type Verdict = Result<std::result::Result<f64, String>>;

/// Checks that tangents have the dtype and shape of the results.
fn same_specs(what: &str, got: &[Tensor], like: &[Tensor]) -> std::result::Result<(), String> {
    for (g, y) in got.iter().zip(like) {
        if g.spec() != y.spec() {
            return Err(format!("a {what} of {} for {}", g.spec(), y.spec()));
        }
    }
    Ok(())
}

fn forward_checked(s: &Subject, part: &Part) -> Verdict {
    let direction = tangent(s, part)?;
    let dx = uploaded(s, &direction)?;
    let (y, dy) = jvp(|x: &Vec<Tensor>| s.call(part, x), &s.operands(part), &dx)?;
    if let Err(message) = same_specs("tangent", &dy, &y) {
        return Ok(Err(message));
    }
    let dy = values(&dy)?;
    if s.flat {
        return Ok(zero(&dy));
    }
    if !(wide(&s.operands(part)) && wide(&y)) {
        return narrow_checked(s, part, &direction, &dy, &y);
    }
    let want = s.difference(part, &direction, &|xs| s.call(part, xs))?;
    Ok(judged("jvp", gap(&dy, &want), s.case.derivative.tolerance))
}

/// LowPrecision dtypes are too coarse for finite differences: their tangents are compared with the same computation in f64
/// or c128.
fn narrow_checked(
    s: &Subject,
    part: &Part,
    direction: &[Array],
    dy: &[Vec<C>],
    y: &[Tensor],
) -> Verdict {
    let precision = y.iter().map(|y| epsilon(y.dtype())).fold(0.0, f64::max);
    let allowed = s.case.derivative.duality * precision;
    // The dtypes of a cast or a graph are in its parameters, so it cannot be widened: its tangent must only be
    // finite.
    let Some(case) = s.case.widened() else {
        let finite = dy
            .iter()
            .flatten()
            .all(|v| v.re.is_finite() && v.im.is_finite());
        return Ok(if finite {
            Ok(0.0)
        } else {
            Err("a tangent is not finite".into())
        });
    };
    let wide = Subject::new(s.backend, &case, false)?;
    let dx = uploaded(&wide, &direction.iter().map(widened).collect::<Vec<_>>())?;
    let operands = wide.operands(part);
    let (_, want) = jvp(|x: &Vec<Tensor>| wide.call(part, x), &operands, &dx)?;
    Ok(judged("jvp", gap(dy, &values(&want)?), allowed))
}

fn zero(parts: &[Vec<C>]) -> std::result::Result<f64, String> {
    if parts.iter().flatten().all(|v| *v == C::new(0.0, 0.0)) {
        Ok(0.0)
    } else {
        Err("a derivative of what is piecewise constant is not zero".into())
    }
}

fn judged(what: &str, error: f64, allowed: f64) -> std::result::Result<f64, String> {
    // Also false for NaN.
    let within = error <= allowed;
    if within {
        Ok(error / allowed)
    } else {
        Err(format!(
            "{what} is off by {error:.3e}, allowed {allowed:.1e}"
        ))
    }
}

fn reverse_checked(s: &Subject, part: &Part) -> Verdict {
    let (y, pull) = vjp(|x: &Vec<Tensor>| s.call(part, x), &s.operands(part))?;
    let ct = cotangent(s, part, &y)?;
    let back = pull.call(&uploaded(s, &ct)?)?;
    if let Err(message) = same_specs("cotangent", &back, &s.operands(part)) {
        return Ok(Err(message));
    }
    let back = values(&back)?;
    if s.flat {
        return Ok(zero(&back));
    }
    let direction = tangent(s, part)?;
    let (right, right_size) = pairing(&back, &cells(&direction));
    let dx = uploaded(s, &direction)?;
    let mut worst = 0.0f64;
    if wide(&s.operands(part)) && wide(&y) {
        let want = s.difference(part, &direction, &|xs| s.call(part, xs))?;
        let (left, left_size) = pairing(&cells(&ct), &want);
        let error = (left - right).abs() / (left_size + right_size).max(1e-3);
        match judged("vjp", error, s.case.derivative.tolerance) {
            Ok(error) => worst = error,
            wrong => return Ok(wrong),
        }
    }
    let (_, dy) = jvp(|x: &Vec<Tensor>| s.call(part, x), &s.operands(part), &dx)?;
    let (left, left_size) = pairing(&cells(&ct), &values(&dy)?);
    let precision = s
        .operands(part)
        .iter()
        .chain(&y)
        .map(|x| epsilon(x.dtype()))
        .fold(0.0, f64::max);
    let error = (left - right).abs() / (left_size + right_size).max(1e-3) / precision;
    Ok(judged("duality", error, s.case.derivative.duality).map(|e| worst.max(e)))
}

/// Checks the derivative of the VJP, in both modes, against finite differences of the VJP.
fn second(s: &Subject, part: &Part) -> Result<Outcome> {
    let xs = s.operands(part);
    let direction = tangent(s, part)?;
    let dx = uploaded(s, &direction)?;
    let ct = uploaded(s, &cotangent(s, part, &s.call(part, &xs)?)?)?;
    let pulled = |x: &Vec<Tensor>| -> Result<Vec<Tensor>> {
        let (_, pull) = vjp(|x: &Vec<Tensor>| s.call(part, x), x)?;
        pull.call(&ct)
    };
    let want = s.difference(part, &direction, &|xs| pulled(&xs.to_vec()))?;
    let (_, ahead) = jvp(pulled, &xs, &dx)?;
    let ahead = values(&ahead)?;
    let allowed = s.case.derivative.tolerance * 10.0;
    let first = match judged("jvp of vjp", gap(&ahead, &want), allowed) {
        Ok(error) => error,
        Err(message) => return Ok(Outcome::Failed(message)),
    };
    let (g, pull) = vjp(pulled, &xs)?;
    let mut draw = Draw::new(&format!("{} second", s.case.name));
    let weights: Vec<Array> = g
        .iter()
        .map(|g| draw.direction(g.dtype(), &g.shape().sizes()))
        .collect::<Result<_>>()?;
    let back = values(&pull.call(&uploaded(s, &weights)?)?)?;
    let (left, left_size) = pairing(&cells(&weights), &want);
    let (right, right_size) = pairing(&back, &cells(&direction));
    let error = (left - right).abs() / (left_size + right_size).max(1e-3);
    Ok(match judged("vjp of vjp", error, allowed) {
        Ok(error) => Outcome::Passed(first.max(error)),
        Err(message) => Outcome::Failed(message),
    })
}
