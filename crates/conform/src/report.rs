//! The report of a run: one row per op and dtype.

use clematis_core::{DType, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Instant;

/// A kind of check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// Values, dtypes and shapes of results.
    Forward,
    /// Values that are subnormal or computed from subnormals, which some CPU settings flush to zero.
    Subnormal,
    /// Values of infinities and NaNs where a formula of several steps, not one rounding, decides them.
    Special,
    /// Reverse mode.
    Vjp,
    /// Forward mode.
    Jvp,
    /// Second derivatives.
    Second,
}

impl Check {
    /// All checks.
    pub const ALL: [Check; 6] = [
        Check::Forward,
        Check::Subnormal,
        Check::Special,
        Check::Vjp,
        Check::Jvp,
        Check::Second,
    ];

    /// The name in limits and reports.
    pub fn name(self) -> &'static str {
        match self {
            Check::Forward => "forward",
            Check::Subnormal => "subnormal",
            Check::Special => "special",
            Check::Vjp => "vjp",
            Check::Jvp => "jvp",
            Check::Second => "second",
        }
    }
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// There was nothing to check.
    None,
    /// All cases agree.
    Passed,
    /// It fails as a known limit.
    Limit,
    /// A case fails, or a known limit no longer holds.
    Failed,
}

/// The finding of one check of one case, with its duration.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The check.
    pub check: Check,
    /// The outcome.
    pub outcome: Outcome,
    /// The duration.
    pub seconds: f64,
}

impl Finding {
    /// Runs and times a check.
    pub fn timed(check: Check, run: impl FnOnce() -> Outcome) -> Finding {
        let start = Instant::now();
        let outcome = run();
        Finding {
            check,
            outcome,
            seconds: start.elapsed().as_secs_f64(),
        }
    }
}

/// The outcome of one check of one case.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// There was nothing to check.
    None,
    /// The worst error, as a fraction of the tolerance.
    Passed(f64),
    /// What went wrong.
    Failed(String),
}

impl Outcome {
    /// The outcome of a check; an error is a failure of the case.
    pub fn settled(outcome: Result<Outcome>) -> Outcome {
        outcome.unwrap_or_else(|e| Outcome::Failed(e.to_string()))
    }
}

/// One check of one op and dtype, over all its cases.
#[derive(Clone, Debug)]
pub struct Row {
    /// The op.
    pub op: String,
    /// The dtype.
    pub dtype: DType,
    /// The check.
    pub check: Check,
    /// The result.
    pub state: State,
    /// Number of cases that were checked.
    pub cases: usize,
    /// The worst error that passed, as a fraction of the tolerance.
    pub worst: f64,
    /// What went wrong in the first failing case, or the reason of the known limit.
    pub message: String,
    /// The duration.
    pub seconds: f64,
}

impl Row {
    /// A row without cases.
    pub fn new(op: &str, dtype: DType, check: Check) -> Row {
        Row {
            op: op.to_string(),
            dtype,
            check,
            state: State::None,
            cases: 0,
            worst: 0.0,
            message: String::new(),
            seconds: 0.0,
        }
    }

    /// Adds the finding of one case.
    pub fn add(&mut self, case: &str, finding: Finding) {
        self.seconds += finding.seconds;
        match finding.outcome {
            Outcome::None => {}
            Outcome::Passed(error) => {
                self.cases += 1;
                self.worst = self.worst.max(error);
                self.state = self.state.max(State::Passed);
            }
            Outcome::Failed(message) => {
                self.cases += 1;
                if self.state != State::Failed {
                    self.message = format!("{case}: {message}");
                }
                self.state = State::Failed;
            }
        }
    }
}

/// The rows of a run, in the order of op codes.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One per op, dtype and check.
    pub rows: Vec<Row>,
}

impl Report {
    /// The failed rows.
    pub fn failures(&self) -> Vec<&Row> {
        let failed = |row: &&Row| row.state == State::Failed;
        self.rows.iter().filter(failed).collect()
    }

    /// Number of case checks.
    pub fn checks(&self) -> usize {
        self.rows.iter().map(|r| r.cases).sum()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (op, dtype, check) = (&self.op, self.dtype, self.check.name());
        match self.state {
            State::None => write!(f, "{op} {dtype} {check}: nothing to check"),
            State::Passed => write!(
                f,
                "{op} {dtype} {check}: {} passed, worst {:.2}",
                self.cases, self.worst
            ),
            State::Limit => write!(f, "{op} {dtype} {check}: limit: {}", self.message),
            State::Failed => write!(f, "{op} {dtype} {check}: FAILED: {}", self.message),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |state| self.rows.iter().filter(|r| r.state == state).count();
        writeln!(
            f,
            "{} checks: {} rows passed, {} limits, {} failed",
            self.checks(),
            count(State::Passed),
            count(State::Limit),
            count(State::Failed)
        )?;
        for row in self.failures() {
            writeln!(f, "{row}")?;
        }
        Ok(())
    }
}
