//! One result of the support matrix, and its file format: JSON lines, one cell each.
//!
//! `{"dashboard": "layers", "row": "test_conv2d", "backend": "torch", "state": "passed"}` is a complete cell.
//! `message` and `seconds` are optional, `dtype` and `check` distinguish cells of one row, and the other fields
//! describe what the result was produced with. Any test runner can write such lines.

use crate::array::Array;
use crate::case_group::CaseGroup;
use crate::compare::{Tolerance, compare};
use crate::dashboard::Dashboard;
use crate::named_test::NamedTest;
use crate::report::{Check, Row, State};
use crate::run::{Runner, guarded};
use clematis_core::{Error, Kind, Result, backend, bail};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// The core version that results are produced with.
pub const CORE: &str = env!("CARGO_PKG_VERSION");

/// The check of functions whose whole contract another runner tests: calls of every kind, values, derivatives. It
/// distinguishes their cells from those of an op or named test with the same name.
pub const CONTRACT: &str = "contract";

/// The key of a cell.
pub type Key = (Dashboard, String, String, String, String);

/// One result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The table.
    pub dashboard: Dashboard,
    /// The test, such as `test_conv2d`.
    pub row: String,
    /// The backend.
    pub backend: String,
    /// The dtype, if the row has several.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dtype: String,
    /// The check, if the row has several.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub check: String,
    /// The result.
    pub state: State,
    /// What went wrong, or the reason of the known limit.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The duration.
    #[serde(default)]
    pub seconds: f64,
    /// Number of cases.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cases: usize,
    /// The worst error that passed, as a fraction of the tolerance.
    #[serde(default)]
    pub worst: f64,
    /// The version of the framework.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The version of the core.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub core: String,
    /// The digest of the cases.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// The program that produced it: an unfinished run is resumed only by the same program.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build: String,
}

/// Rounds to six decimals: nobody reads more, and twenty digits would double the file.
pub fn micros(x: f64) -> f64 {
    (x * 1e6).round() / 1e6
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Cell {
    /// A cell with only a state.
    pub fn new(dashboard: Dashboard, row: &str, backend: &str, state: State) -> Cell {
        Cell {
            dashboard,
            row: row.to_string(),
            backend: backend.to_string(),
            dtype: String::new(),
            check: String::new(),
            state,
            message: String::new(),
            seconds: 0.0,
            cases: 0,
            worst: 0.0,
            version: String::new(),
            core: String::new(),
            digest: String::new(),
            build: String::new(),
        }
    }

    /// A row of a run as a cell: values belong to the ops table, derivatives to the gradients table.
    pub fn of(runner: &Runner, group: &CaseGroup, row: Row) -> Cell {
        let dashboard = match row.check {
            Check::Forward | Check::Subnormal | Check::Special => Dashboard::Ops,
            _ => Dashboard::Gradients,
        };
        let backend = runner.backend();
        Cell {
            dtype: row.dtype.name().to_string(),
            check: row.check.name().to_string(),
            message: row.message,
            seconds: micros(row.seconds),
            cases: row.cases,
            // JSON has no infinities.
            worst: match row.worst.is_finite() {
                true => micros(row.worst),
                false => 0.0,
            },
            version: runner.version().to_string(),
            core: CORE.to_string(),
            digest: group.digest.clone(),
            ..Cell::new(dashboard, &group.row(), backend.name(), row.state)
        }
    }

    /// The key.
    pub fn key(&self) -> Key {
        let words = |s: &String| s.clone();
        (
            self.dashboard,
            words(&self.row),
            words(&self.backend),
            words(&self.dtype),
            words(&self.check),
        )
    }

    /// The cell as a line, including the newline.
    pub fn line(&self) -> Result<String> {
        let text = serde_json::to_string(self)
            .map_err(|e| Error::new(Kind::Convert, format!("{}: no JSON form: {e}", self.row)))?;
        Ok(text + "\n")
    }

    /// Parses lines of another runner: an invalid line is an error.
    pub fn read(text: &str) -> Result<Vec<Cell>> {
        let mut cells = Vec::new();
        for (at, line) in text.lines().enumerate() {
            if !line.trim().is_empty() {
                cells.push(Cell::from_line(line).map_err(|e| e.note(format!("line {}", at + 1)))?);
            }
        }
        Ok(cells)
    }

    /// Parses our own lines: an incomplete line of a killed run is skipped.
    pub fn recover(text: &str) -> Vec<Cell> {
        text.lines()
            .filter_map(|line| Cell::from_line(line).ok())
            .collect()
    }

    fn from_line(line: &str) -> Result<Cell> {
        let wrong = |why: String| Error::new(Kind::Convert, format!("rows: {why}"));
        let cell: Cell = serde_json::from_str(line).map_err(|e| wrong(e.to_string()))?;
        if cell.row.is_empty() || cell.backend.is_empty() {
            return Err(wrong("a cell needs a row and a backend".into()));
        }
        Ok(cell)
    }
}

impl NamedTest {
    /// Runs the test.
    pub fn cell(&self, runner: &Runner) -> Cell {
        let start = Instant::now();
        let found = guarded(|| self.check(runner))
            .and_then(|result| result.map_err(|error| error.to_string()));
        let mut state = match found {
            Ok(()) => State::Passed,
            Err(_) => State::Failed,
        };
        let mut message = found.err().unwrap_or_default();
        if let Some(limit) = runner.limits().iter().find(|limit| limit.names(self.row)) {
            limit.settle(&mut state, &mut message);
        }
        let backend = runner.backend();
        Cell {
            message,
            seconds: micros(start.elapsed().as_secs_f64()),
            cases: 1,
            version: runner.version().to_string(),
            core: CORE.to_string(),
            ..Cell::new(self.dashboard, self.row, backend.name(), state)
        }
    }

    fn check(&self, runner: &Runner) -> Result<()> {
        let on = |b| backend::with(b, || Array::from_tensor(&(self.run)()?));
        let got = on(runner.backend())?;
        if let Err(message) = (self.judge)(&got) {
            bail!(Value, "{message}");
        }
        let Some(other) = runner.against() else {
            return Ok(());
        };
        // Logarithms and the like differ in the last bits, and so may results computed from them.
        let tolerance = Tolerance::overall(if got.dtype.is_inexact() { 64.0 } else { 0.0 });
        if let Err(message) = compare(&got, &on(other)?, &tolerance)? {
            bail!(Value, "differs from {}: {message}", other.name());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_survives_its_line() {
        let mut cell = Cell::new(Dashboard::ArrayApi, "test_add", "torch", State::Failed);
        cell.message = "1 ≠ 2\n\"quoted\"".into();
        cell.seconds = 0.25;
        let line = cell.line().unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        assert_eq!(Cell::read(&line).unwrap(), [cell]);
    }

    #[test]
    fn four_fields_are_a_whole_cell() {
        let line =
            r#"{"dashboard":"custom-gradients","row":"test_x","backend":"jax","state":"limit"}"#;
        let cells = Cell::read(&format!("{line}\n\n{line}\n")).unwrap();
        assert_eq!(cells.len(), 2);
        assert_eq!(cells[0].state, State::Limit);
    }

    #[test]
    fn invalid_cells_are_reported_by_line() {
        let good = r#"{"dashboard":"ops","row":"test_x","backend":"jax","state":"passed"}"#;
        for bad in [
            "nonsense",
            r#"{"dashboard":"ops","row":"","backend":"jax","state":"passed"}"#,
            r#"{"dashboard":"ops","row":"x","backend":"jax","state":"maybe"}"#,
            r#"{"dashboard":"ops","row":"x","backend":"jax","state":"passed","mesage":""}"#,
        ] {
            let text = format!("{good}\n{bad}\n");
            let error = Cell::read(&text).unwrap_err().to_string();
            assert!(error.contains("line 2"), "{error}");
            assert_eq!(Cell::recover(&text).len(), 1);
        }
    }

    #[test]
    fn complete_lines_are_recovered_after_a_kill() {
        let cells: Vec<Cell> = ["test_a", "test_é"]
            .iter()
            .map(|row| Cell::new(Dashboard::Ops, row, "native", State::Passed))
            .collect();
        let lines: Vec<String> = cells.iter().map(|c| c.line().unwrap()).collect();
        let text = lines.concat();
        for cut in 0..=text.len() {
            let left = String::from_utf8_lossy(&text.as_bytes()[..cut]);
            // The newline at the end of the last line is optional.
            let whole = usize::from(cut >= lines[0].len() - 1) + usize::from(cut >= text.len() - 1);
            assert_eq!(Cell::recover(&left), cells[..whole], "{cut}");
        }
    }
}
