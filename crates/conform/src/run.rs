//! Runs cases on a backend.

use crate::array::Array;
use crate::case::{Case, Expect, cases};
use crate::compare::compare;
use crate::derivative;
use crate::limit::{self, Limit};
use crate::report::{Check, Outcome, Report};
use clematis_core::dispatch::apply;
use clematis_core::{Backend, Device, Op, Result, Tensor, backend, ops};

/// Runs every case that the filter takes, by its op's name and its own, and applies the backend's limits.
pub fn run(
    backend: &'static dyn Backend,
    filter: impl Fn(&str, &str) -> bool + Sync,
) -> Result<Report> {
    let chosen: Vec<Case> = cases()?
        .into_iter()
        .filter(|c| filter(c.op.name(), &c.name))
        .collect();
    let mut report = run_cases(backend, &chosen);
    limit::apply(&mut report, &Limit::of(backend.name())?);
    Ok(report)
}

/// Runs these cases, on as many threads as the machine has; knows no limits.
pub fn run_cases(backend: &'static dyn Backend, cases: &[Case]) -> Report {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    // Dealt out in turn, so that slow families are shared.
    let hands: Vec<Vec<&Case>> = (0..threads)
        .map(|t| cases.iter().skip(t).step_by(threads).collect())
        .collect();
    std::thread::scope(|scope| {
        let running: Vec<_> = hands
            .iter()
            .map(|hand| scope.spawn(move || one_thread(backend, hand)))
            .collect();
        let mut report = Report::default();
        for thread in running {
            // Not a case's, which is caught: one of ours.
            match thread.join() {
                Ok(part) => report.join(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        report
    })
}

fn one_thread(backend: &'static dyn Backend, cases: &[&Case]) -> Report {
    let mut report = Report::default();
    backend::with(backend, || {
        for case in cases {
            let mut add = |check, outcome| {
                let (at, op) = (case.op.code(), case.op.name());
                report.add(at, op, case.dtype, check, &case.name, outcome);
            };
            add(
                Check::Forward,
                guarded(|| settled(forward(backend, case))).unwrap_or_else(Outcome::Failed),
            );
            match guarded(|| derivative::check(backend, case)) {
                Ok(outcomes) => {
                    for (check, outcome) in outcomes {
                        add(check, outcome);
                    }
                }
                Err(message) => add(Check::Vjp, Outcome::Failed(message)),
            }
        }
    });
    report
}

/// A panic is a failure of the case, and no reason to forget the others.
fn guarded<R>(f: impl FnOnce() -> R) -> std::result::Result<R, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).map_err(|panic| {
        let text = (panic.downcast_ref::<String>().map(String::as_str))
            .or_else(|| panic.downcast_ref::<&str>().copied());
        format!("panicked: {}", text.unwrap_or("for no reason given"))
    })
}

/// An error is a failure of the case.
pub fn settled(outcome: Result<Outcome>) -> Outcome {
    outcome.unwrap_or_else(|e| Outcome::Failed(e.to_string()))
}

/// A tensor of these values.
pub fn upload(backend: &'static dyn Backend, x: &Array) -> Result<Tensor> {
    let host = x.to_host()?;
    let spec = host.spec().clone();
    let data = backend.from_host(host, Device::Cpu)?;
    Ok(Tensor::concrete(spec, backend, data))
}

/// The same values, lying in memory with the axes in another order.
fn upload_turned(backend: &'static dyn Backend, x: &Array) -> Result<Tensor> {
    let back: Vec<usize> = (0..x.rank()).rev().collect();
    let turned = upload(backend, &x.transposed(&back))?;
    let axes: Vec<i64> = back.iter().map(|&a| a as i64).collect();
    ops::permute(&turned, axes).done()
}

/// Applies an op to arrays and reads all results.
fn results(op: &Op, inputs: &[Tensor]) -> Result<Vec<Array>> {
    let refs: Vec<&Tensor> = inputs.iter().collect();
    apply(op, &refs)?
        .into_vec()
        .iter()
        .map(Array::from_tensor)
        .collect()
}

fn forward(backend: &'static dyn Backend, case: &Case) -> Result<Outcome> {
    let plain: Vec<Tensor> = case
        .inputs
        .iter()
        .map(|x| upload(backend, x))
        .collect::<Result<_>>()?;
    if let Expect::Refused(kind) = case.expect {
        return Ok(match results(&case.op, &plain) {
            Err(e) if e.kind() == kind => Outcome::Passed(0.0),
            Err(e) => Outcome::Failed(format!("{kind:?} was expected, not {e}")),
            Ok(_) => Outcome::Failed(format!("{kind:?} was expected, not a result")),
        });
    }
    let mut worst = judge(case, &results(&case.op, &plain)?)?;
    // Operands that lie in memory in another order must give the same.
    if case.inputs.iter().any(|x| x.rank() > 1) && worst.is_ok() {
        let turned: Vec<Tensor> = case
            .inputs
            .iter()
            .map(|x| upload_turned(backend, x))
            .collect::<Result<_>>()?;
        let again = judge(case, &results(&case.op, &turned)?)?;
        worst = match (worst, again) {
            (Ok(a), Ok(b)) => Ok(f64::max(a, b)),
            (_, Err(message)) => Err(format!("with operands stored column by column: {message}")),
            (first, _) => first,
        };
    }
    Ok(match worst {
        Ok(error) => Outcome::Passed(error),
        Err(message) => Outcome::Failed(message),
    })
}

/// The worst error as a share of what is allowed, or what is wrong.
fn judge(case: &Case, got: &[Array]) -> Result<std::result::Result<f64, String>> {
    let specs = case.results()?;
    if got.len() != specs.len() {
        return Ok(Err(format!("{} results, not {}", got.len(), specs.len())));
    }
    for (g, spec) in got.iter().zip(&specs) {
        if g.spec() != *spec {
            return Ok(Err(format!("{} came out, infer says {spec}", g.spec())));
        }
    }
    let allowed = case.tolerance.units.max(f64::MIN_POSITIVE);
    match &case.expect {
        Expect::Values(reference) => {
            let want = reference(&case.inputs)?;
            if want.len() != got.len() {
                return Ok(Err(format!("the reference gives {} results", want.len())));
            }
            let mut worst = 0.0f64;
            for (i, (g, w)) in got.iter().zip(&want).enumerate() {
                match compare(g, w, &case.tolerance)? {
                    Ok(error) => worst = worst.max(error),
                    Err(message) => return Ok(Err(format!("result {i}: {message}"))),
                }
            }
            Ok(Ok(worst / allowed))
        }
        Expect::Holds(identity) => {
            let error = identity(&case.inputs, got)?;
            // Also where it is NaN.
            let within = error <= case.tolerance.units;
            Ok(if within {
                Ok(error / allowed)
            } else {
                Err(format!(
                    "the identity is {error:.3e} units of {} off",
                    case.dtype
                ))
            })
        }
        Expect::Refused(_) => Ok(Ok(0.0)),
    }
}
