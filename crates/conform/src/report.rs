//! What a run found: one row for each op and element type.

use clematis_core::DType;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Instant;

/// What was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// Values, element types and shapes of results.
    Forward,
    /// Values that are or come from numbers below the smallest normal one, which some processors' settings make zero.
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
    /// All of them.
    pub const ALL: [Check; 6] = [
        Check::Forward,
        Check::Subnormal,
        Check::Special,
        Check::Vjp,
        Check::Jvp,
        Check::Second,
    ];

    /// The word in limits and reports.
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

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// There is nothing to check.
    None,
    /// All cases agree.
    Passed,
    /// It fails as a limit says.
    Limit,
    /// Some case does not agree, or a limit no longer holds.
    Failed,
}

/// What one check of one case found, and how long that took.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What was checked.
    pub check: Check,
    /// What was found.
    pub outcome: Outcome,
    /// How long it took.
    pub seconds: f64,
}

impl Finding {
    /// Runs a check by the clock.
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

/// How one check of one case ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// There was nothing to check.
    None,
    /// The worst error, relative to what was allowed.
    Passed(f64),
    /// What went wrong.
    Failed(String),
}

/// One check of one op and element type, over all its cases.
#[derive(Clone, Debug)]
pub struct Row {
    /// The op.
    pub op: String,
    /// The element type.
    pub dtype: DType,
    /// What was checked.
    pub check: Check,
    /// How it ended.
    pub state: State,
    /// How many cases had something to check.
    pub cases: usize,
    /// The worst error of those that passed, as a share of what is allowed.
    pub worst: f64,
    /// What went wrong in the first case that did, or the limit's reason.
    pub message: String,
    /// How long it took.
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

    /// Adds what this check of one case found.
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

/// What a run found, in the order of op codes.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// One for each op, element type and check.
    pub rows: Vec<Row>,
}

impl Report {
    /// The rows that failed.
    pub fn failures(&self) -> Vec<&Row> {
        let failed = |row: &&Row| row.state == State::Failed;
        self.rows.iter().filter(failed).collect()
    }

    /// How many checks of cases were made.
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
