//! What a run found: one row for each op and element type.

use clematis_core::DType;
use std::collections::BTreeMap;
use std::fmt;

/// What was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// Values, element types and shapes of results.
    Forward,
    /// Reverse mode.
    Vjp,
    /// Forward mode.
    Jvp,
    /// Second derivatives.
    Second,
}

impl Check {
    /// All of them.
    pub const ALL: [Check; 4] = [Check::Forward, Check::Vjp, Check::Jvp, Check::Second];

    /// The word in limits and reports.
    pub fn name(self) -> &'static str {
        match self {
            Check::Forward => "forward",
            Check::Vjp => "vjp",
            Check::Jvp => "jvp",
            Check::Second => "second",
        }
    }
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

/// What one check of one case found.
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
}

/// What a run found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    rows: BTreeMap<(usize, DType, Check), Row>,
}

impl Report {
    /// Adds what one check of one case found.
    pub fn add(
        &mut self,
        at: usize,
        op: &str,
        dtype: DType,
        check: Check,
        case: &str,
        outcome: Outcome,
    ) {
        let row = self.rows.entry((at, dtype, check)).or_insert_with(|| Row {
            op: op.to_string(),
            dtype,
            check,
            state: State::None,
            cases: 0,
            worst: 0.0,
            message: String::new(),
        });
        match outcome {
            Outcome::None => {}
            Outcome::Passed(error) => {
                row.cases += 1;
                row.worst = row.worst.max(error);
                row.state = row.state.max(State::Passed);
            }
            Outcome::Failed(message) => {
                row.cases += 1;
                if row.state != State::Failed {
                    row.message = format!("{case}: {message}");
                }
                row.state = State::Failed;
            }
        }
    }

    /// Puts another report's rows beside these; both are of different cases.
    pub fn join(&mut self, other: Report) {
        for (key, row) in other.rows {
            match self.rows.get_mut(&key) {
                None => {
                    self.rows.insert(key, row);
                }
                Some(own) => {
                    if own.state != State::Failed && row.state == State::Failed {
                        own.message = row.message;
                    }
                    own.state = own.state.max(row.state);
                    own.cases += row.cases;
                    own.worst = own.worst.max(row.worst);
                }
            }
        }
    }

    /// Every row, in the order of op codes.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut Row> {
        self.rows.values_mut()
    }

    /// The rows that failed.
    pub fn failures(&self) -> Vec<&Row> {
        self.rows().filter(|r| r.state == State::Failed).collect()
    }

    /// How many checks of cases were made.
    pub fn checks(&self) -> usize {
        self.rows().map(|r| r.cases).sum()
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
        let count = |state| self.rows().filter(|r| r.state == state).count();
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
