//! Runs cases on a backend.

use crate::array::{Array, Num, places, tiny, upload};
use crate::case::{Case, Expect, cases};
use crate::case_group::{CaseGroup, group_cases};
use crate::compare::compare_where;
use crate::derivative;
use crate::known_limit::{self, KnownLimit};
use crate::report::{Check, Finding, Outcome, Report, Row};
use clematis_core::dispatch::apply;
use clematis_core::{Backend, DType, Op, Result, Tensor, backend, ops};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The engine whose derivatives are checked by finite differences; all others are compared with it.
pub const NATIVE: &str = "native";

/// Runs every case that the filter accepts, by op name and case name, and applies the backend's known limits.
pub fn run(
    backend: &'static dyn Backend,
    filter: impl Fn(&str, &str) -> bool + Sync,
) -> Result<Report> {
    let mut chosen = cases()?;
    chosen.retain(|c| filter(c.op.name(), &c.name));
    Runner::new(backend)?.report(&group_cases(chosen))
}

/// Configuration of a run on a backend.
pub struct Runner {
    backend: &'static dyn Backend,
    against: Option<&'static dyn Backend>,
    threads: usize,
    limits: Vec<KnownLimit>,
    version: String,
}

impl Runner {
    /// Uses all threads and every check on the native engine. Other backends, which may be slow and hold a lock of
    /// their own, run on the calling thread, and their derivatives are compared with the engine's.
    pub fn new(backend: &'static dyn Backend) -> Result<Runner> {
        let native = backend::find(NATIVE).ok();
        let own = native.is_some_and(|native| backend::same(native, backend));
        Ok(Runner {
            backend,
            against: native.filter(|_| !own),
            threads: match own {
                true => std::thread::available_parallelism().map_or(1, usize::from),
                false => 1,
            },
            limits: KnownLimit::of(backend.name())?,
            version: backend.version(),
        })
    }

    /// Uses the native engine's checks for any backend.
    pub fn by_differences(mut self) -> Runner {
        self.against = None;
        self
    }

    /// The backend.
    pub fn backend(&self) -> &'static dyn Backend {
        self.backend
    }

    /// The backend's version, queried once because a framework may be slow to answer.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The backend with which derivatives are compared.
    pub fn against(&self) -> Option<&'static dyn Backend> {
        self.against
    }

    /// The known limits.
    pub fn limits(&self) -> &[KnownLimit] {
        &self.limits
    }

    /// The checks to run.
    pub fn checks(&self) -> &'static [Check] {
        match self.against {
            None => &Check::ALL,
            Some(_) => &[
                Check::Forward,
                Check::Subnormal,
                Check::Special,
                Check::Vjp,
                Check::Jvp,
            ],
        }
    }

    /// Runs everything and returns one report.
    pub fn report(&self, groups: &[CaseGroup]) -> Result<Report> {
        let found = Mutex::new(BTreeMap::new());
        let all: Vec<(usize, &CaseGroup)> = groups.iter().enumerate().collect();
        self.share(&all, &|&(at, group)| {
            let rows = self.run_group(group);
            found
                .lock()
                .unwrap_or_else(|e| e.into_inner())
                .insert(at, rows);
            Ok(())
        })?;
        let found = found.into_inner().unwrap_or_else(|e| e.into_inner());
        Ok(Report {
            rows: found.into_values().flatten().collect(),
        })
    }

    /// Runs case groups and passes the rows of each to `done`; an error there ends the run.
    pub fn run(
        &self,
        groups: &[&CaseGroup],
        done: &(dyn Fn(&CaseGroup, Vec<Row>) -> Result<()> + Sync),
    ) -> Result<()> {
        self.share(groups, &|group| done(group, self.run_group(group)))
    }

    /// Calls a function for each item, on as many threads as configured.
    fn share<T: Sync>(&self, items: &[T], f: &(dyn Fn(&T) -> Result<()> + Sync)) -> Result<()> {
        let next = AtomicUsize::new(0);
        let worker = || -> Result<()> {
            while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Err(e) = f(item) {
                    next.store(items.len(), Ordering::Relaxed);
                    return Err(e);
                }
            }
            Ok(())
        };
        if self.threads <= 1 {
            return worker();
        }
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..self.threads).map(|_| scope.spawn(worker)).collect();
            running.into_iter().try_for_each(|thread| {
                // Panics of cases are caught; this one is a bug of ours.
                thread
                    .join()
                    .unwrap_or_else(|e| std::panic::resume_unwind(e))
            })
        })
    }

    /// Runs one case group: one row per check, with limits applied.
    pub fn run_group(&self, group: &CaseGroup) -> Vec<Row> {
        let checks = self.checks().iter();
        let mut rows: Vec<Row> = checks
            .map(|&c| Row::new(group.op, group.dtype, c))
            .collect();
        backend::with(self.backend, || {
            for case in &group.cases {
                for finding in self.case(case) {
                    if let Some(row) = rows.iter_mut().find(|row| row.check == finding.check) {
                        row.add(&case.name, finding);
                    }
                }
            }
        });
        known_limit::apply(&mut rows, &self.limits);
        rows
    }

    fn case(&self, case: &Case) -> Vec<Finding> {
        let mut subnormal = Outcome::None;
        let check = match case.special {
            true => Check::Special,
            false => Check::Forward,
        };
        let mut findings = vec![Finding::timed(check, || {
            let both = guarded(|| forward(self.backend, case));
            let both = both.map(|found| found.map_err(|e| e.to_string()));
            match both {
                Ok(Ok((normal, below))) => {
                    subnormal = below;
                    normal
                }
                Ok(Err(message)) | Err(message) => Outcome::Failed(message),
            }
        })];
        findings.push(Finding::timed(Check::Subnormal, || subnormal));
        match guarded(|| derivative::check(self.backend, case, self.against)) {
            Ok(more) => findings.extend(more),
            Err(message) => findings.push(Finding::timed(Check::Vjp, || Outcome::Failed(message))),
        }
        findings
    }
}

/// Turns a panic into a failure, so that the other cases still run.
pub fn guarded<R>(f: impl FnOnce() -> R) -> std::result::Result<R, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).map_err(|panic| {
        let text = (panic.downcast_ref::<String>().map(String::as_str))
            .or_else(|| panic.downcast_ref::<&str>().copied());
        format!("panicked: {}", text.unwrap_or("for no reason given"))
    })
}

/// Uploads an array with permuted strides.
fn upload_permuted(backend: &'static dyn Backend, x: &Array) -> Result<Tensor> {
    let back: Vec<usize> = (0..x.rank()).rev().collect();
    let permuted = upload(backend, &x.transposed(&back))?;
    let axes: Vec<i64> = back.iter().map(|&a| a as i64).collect();
    ops::permute(&permuted, axes).done()
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

/// The outcomes of a forward run: for normal and for subnormal numbers.
fn forward(backend: &'static dyn Backend, case: &Case) -> Result<(Outcome, Outcome)> {
    let plain: Vec<Tensor> = case
        .inputs
        .iter()
        .map(|x| upload(backend, x))
        .collect::<Result<_>>()?;
    if let Expect::Refused(kind) = case.expect {
        let outcome = match results(&case.op, &plain) {
            Err(e) if e.kind() == kind => Outcome::Passed(0.0),
            Err(e) => Outcome::Failed(format!("expected {kind:?}, got {e}")),
            Ok(_) => Outcome::Failed(format!("expected {kind:?}, got a result")),
        };
        return Ok((outcome, Outcome::None));
    }
    let mut judged = judge(case, &results(&case.op, &plain)?)?;
    // Operands with permuted strides must give the same results.
    if case.inputs.iter().any(|x| x.rank() > 1) {
        let permuted: Vec<Tensor> = case
            .inputs
            .iter()
            .map(|x| upload_permuted(backend, x))
            .collect::<Result<_>>()?;
        let again = judge(case, &results(&case.op, &permuted)?)?;
        judged = (worse(judged.0, again.0), worse(judged.1, again.1));
    }
    Ok(judged)
}

/// The worse of two outcomes; the second is with permuted strides.
fn worse(first: Outcome, second: Outcome) -> Outcome {
    match (first, second) {
        (Outcome::Passed(a), Outcome::Passed(b)) => Outcome::Passed(f64::max(a, b)),
        (Outcome::Failed(message), _) => Outcome::Failed(message),
        (_, Outcome::Failed(message)) => {
            Outcome::Failed(format!("with column-major operands: {message}"))
        }
        (first, _) => first,
    }
}

fn failed(message: String) -> (Outcome, Outcome) {
    (Outcome::Failed(message), Outcome::None)
}

/// The worst error as a fraction of the tolerance, or what is wrong.
fn judge(case: &Case, got: &[Array]) -> Result<(Outcome, Outcome)> {
    let specs = case.results()?;
    if got.len() != specs.len() {
        return Ok(failed(format!(
            "{} results, not {}",
            got.len(),
            specs.len()
        )));
    }
    for (g, spec) in got.iter().zip(&specs) {
        if g.spec() != *spec {
            return Ok(failed(format!(
                "expected {spec} by infer, got {}",
                g.spec()
            )));
        }
    }
    let allowed = case.tolerance.units.max(f64::MIN_POSITIVE);
    match &case.expect {
        Expect::Values(reference) => {
            let want = reference(&case.inputs)?;
            if want.len() != got.len() {
                return Ok(failed(format!(
                    "the reference gives {} results",
                    want.len()
                )));
            }
            let mut normal = Outcome::Passed(0.0);
            let mut below = Outcome::None;
            for (i, (g, w)) in got.iter().zip(&want).enumerate() {
                let low = subnormals(case, w);
                let part = |low_ones: bool| -> Result<Outcome> {
                    let found = compare_where(g, w, &case.tolerance, |at| low[at] == low_ones)?;
                    Ok(match found {
                        Ok(error) => Outcome::Passed(error / allowed),
                        Err(message) => Outcome::Failed(format!("result {i}: {message}")),
                    })
                };
                normal = combined(normal, part(false)?);
                if low.contains(&true) {
                    below = combined(below, part(true)?);
                }
            }
            Ok((normal, below))
        }
        Expect::Holds(identity) => {
            let error = identity(&case.inputs, got)?;
            // Also false for NaN.
            let within = error <= case.tolerance.units;
            Ok(if within {
                (Outcome::Passed(error / allowed), Outcome::None)
            } else {
                failed(format!(
                    "the identity is off by {error:.3e} units of {}",
                    case.dtype
                ))
            })
        }
        Expect::Refused(_) => Ok((Outcome::Passed(0.0), Outcome::None)),
    }
}

/// The worse of two results' outcomes.
fn combined(first: Outcome, second: Outcome) -> Outcome {
    match (first, second) {
        (Outcome::None, other) | (other, Outcome::None) => other,
        (Outcome::Passed(a), Outcome::Passed(b)) => Outcome::Passed(f64::max(a, b)),
        (Outcome::Failed(message), _) | (_, Outcome::Failed(message)) => Outcome::Failed(message),
    }
}

/// Which elements of a result are subnormal, or are computed from subnormals.
fn subnormals(case: &Case, want: &Array) -> Vec<bool> {
    let low = |dtype: DType, x: Num| {
        dtype.is_inexact() && {
            let z = x.c();
            [z.re, z.im]
                .iter()
                .any(|v| *v != 0.0 && v.abs() < tiny(dtype))
        }
    };
    let mut found: Vec<bool> = want.values.iter().map(|&v| low(want.dtype, v)).collect();
    let elementwise = matches!(
        case.op,
        Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Cast(_) | Op::Select | Op::Clamp
    );
    if elementwise {
        for x in &case.inputs {
            if !x.values.iter().any(|&v| low(x.dtype, v)) {
                continue;
            }
            for (at, place) in places(&want.shape).enumerate() {
                found[at] |= low(x.dtype, x.spread(&place));
            }
        }
    }
    found
}
