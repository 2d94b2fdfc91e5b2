//! One result of the matrix, and the file format it travels in: JSON lines, one cell each.
//!
//! `{"dashboard": "layers", "row": "test_conv2d", "backend": "torch", "state": "passed"}` is a whole cell; `message`
//! and `seconds` say more, `dtype` and `check` tell cells of one row apart, and the rest says what the result was
//! found with. Any runner can write such lines.

use crate::report::{Check, Row, State};
use crate::run::Runner;
use crate::unit::Unit;
use clematis_core::{Error, Kind, Result};
use serde::{Deserialize, Serialize};

/// The version of the core that results are found with.
pub const CORE: &str = env!("CARGO_PKG_VERSION");

/// The check of functions whose whole contract another runner tests: calls of every kind, values, derivatives. It tells
/// their cells from those of an op or a named row of the same name, beside which they stand.
pub const CONTRACT: &str = "contract";

/// A table of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dashboard {
    /// Layers as functions.
    Layers,
    /// Derivatives of ops.
    Gradients,
    /// Random numbers.
    Random,
    /// Modules with parameters and state.
    Modules,
    /// Importers and exporters.
    Converters,
    /// Functions with a derivative of their own.
    CustomGradients,
    /// Values of ops.
    Ops,
    /// The Array API's own functions.
    ArrayApi,
}

impl Dashboard {
    /// All of them.
    pub const ALL: [Dashboard; 8] = [
        Dashboard::Layers,
        Dashboard::Gradients,
        Dashboard::Random,
        Dashboard::Modules,
        Dashboard::Converters,
        Dashboard::CustomGradients,
        Dashboard::Ops,
        Dashboard::ArrayApi,
    ];

    /// The word in files and file names.
    pub fn name(self) -> &'static str {
        match self {
            Dashboard::Layers => "layers",
            Dashboard::Gradients => "gradients",
            Dashboard::Random => "random",
            Dashboard::Modules => "modules",
            Dashboard::Converters => "converters",
            Dashboard::CustomGradients => "custom-gradients",
            Dashboard::Ops => "ops",
            Dashboard::ArrayApi => "array-api",
        }
    }

    /// The words on pages.
    pub fn title(self) -> &'static str {
        match self {
            Dashboard::Layers => "Layers",
            Dashboard::Gradients => "Gradients",
            Dashboard::Random => "Random numbers",
            Dashboard::Modules => "Modules",
            Dashboard::Converters => "Converters",
            Dashboard::CustomGradients => "Custom gradients",
            Dashboard::Ops => "Ops",
            Dashboard::ArrayApi => "Array API",
        }
    }
}

/// What tells cells apart.
pub type Key = (Dashboard, String, String, String, String);

/// One result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The table it stands in.
    pub dashboard: Dashboard,
    /// The test, `test_conv2d`.
    pub row: String,
    /// The backend.
    pub backend: String,
    /// The element type, where a row has several.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dtype: String,
    /// What was checked, where a row has several checks.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub check: String,
    /// How it ended.
    pub state: State,
    /// What went wrong, or the limit's reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// How long it took.
    #[serde(default)]
    pub seconds: f64,
    /// How many cases there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cases: usize,
    /// The worst error that passed, as a share of what is allowed.
    #[serde(default)]
    pub worst: f64,
    /// The framework's version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The core's version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub core: String,
    /// The digest of the cases.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// The program that found it: an unfinished run is resumed by the same one only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub build: String,
}

/// Six digits are more than anyone reads, and twenty make a file twice as long.
pub fn micros(x: f64) -> f64 {
    (x * 1e6).round() / 1e6
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Cell {
    /// A cell with nothing but a state.
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

    /// A row of a run as a cell: values among the ops, derivatives among the gradients.
    pub fn of(runner: &Runner, unit: &Unit, row: Row) -> Cell {
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
            digest: unit.digest.clone(),
            ..Cell::new(dashboard, &unit.row(), backend.name(), row.state)
        }
    }

    /// What tells it from others.
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

    /// As a line of a file, its end included.
    pub fn line(&self) -> Result<String> {
        let text = serde_json::to_string(self)
            .map_err(|e| Error::new(Kind::Convert, format!("{}: no JSON form: {e}", self.row)))?;
        Ok(text + "\n")
    }

    /// Reads lines that someone else wrote: a line that is no cell is an error.
    pub fn read(text: &str) -> Result<Vec<Cell>> {
        let mut cells = Vec::new();
        for (at, line) in text.lines().enumerate() {
            if !line.trim().is_empty() {
                cells.push(Cell::from_line(line).map_err(|e| e.note(format!("line {}", at + 1)))?);
            }
        }
        Ok(cells)
    }

    /// Reads lines of our own: what a kill left half written is passed over.
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
    fn what_is_no_cell_is_named_by_its_line() {
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
    fn wherever_a_kill_cuts_whole_lines_are_recovered() {
        let cells: Vec<Cell> = ["test_a", "test_é"]
            .iter()
            .map(|row| Cell::new(Dashboard::Ops, row, "native", State::Passed))
            .collect();
        let lines: Vec<String> = cells.iter().map(|c| c.line().unwrap()).collect();
        let text = lines.concat();
        for cut in 0..=text.len() {
            let left = String::from_utf8_lossy(&text.as_bytes()[..cut]);
            // The last character of a line is its end, which need not be there.
            let whole = usize::from(cut >= lines[0].len() - 1) + usize::from(cut >= text.len() - 1);
            assert_eq!(Cell::recover(&left), cells[..whole], "{cut}");
        }
    }
}
