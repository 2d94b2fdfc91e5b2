//! The summary at the end of a run, as text and as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clematis_conform::{Cell, Dashboard, Matrix, State, Tally};
use comfy_table::{Table, presets};
use serde_json::json;

use crate::backends;
use crate::error::{Error, Result};

/// Maximum number of rows that are listed.
const ROWS: usize = 40;
/// Maximum number of messages that are printed; the page has the rest.
const MESSAGES: usize = 20;

/// The outcome of a finished run.
pub struct Outcome<'a> {
    pub matrix: &'a Matrix,
    /// Whether a cell was selected.
    pub mine: &'a dyn Fn(&Cell) -> bool,
    pub resumed: usize,
    pub seconds: f64,
    pub page: PathBuf,
}

type Rows<'a> = BTreeMap<(Dashboard, &'a str), BTreeMap<&'a str, Tally>>;

impl Outcome<'_> {
    fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.matrix.cells().filter(|cell| (self.mine)(cell))
    }

    fn backends(&self) -> Vec<String> {
        let mut names = self.matrix.backends(&backends::names());
        names.retain(|name| self.cells().any(|cell| cell.backend == *name));
        names
    }

    pub fn text(&self) -> String {
        let backends = self.backends();
        let mut rows = Rows::new();
        let mut tables = Rows::new();
        for cell in self.cells().filter(|cell| cell.state != State::None) {
            let row = rows.entry((cell.dashboard, &cell.row)).or_default();
            row.entry(&cell.backend).or_default().add(cell);
            let table = tables.entry((cell.dashboard, "")).or_default();
            table.entry(&cell.backend).or_default().add(cell);
        }
        let mut parts = Vec::new();
        // Of many rows, only those that need attention.
        if rows.len() > ROWS {
            parts.push(self.table(&tables, &backends));
            rows.retain(|_, row| row.values().any(|tally| tally.state() != State::Passed));
        }
        if (1..=ROWS).contains(&rows.len()) {
            parts.push(self.table(&rows, &backends));
        }
        parts.extend(self.messages());
        let total: Tally = self.cells().collect();
        let resumed = match self.resumed {
            0 => String::new(),
            1 => "; 1 test was done before".to_string(),
            n => format!("; {n} tests were done before"),
        };
        parts.push(format!(
            "{} passed, {} limits, {} failed in {:.1} s{resumed}\npage: {}",
            total.passed,
            total.limits,
            total.failed,
            self.seconds,
            self.page.display()
        ));
        parts.join("\n\n")
    }

    fn table(&self, rows: &Rows, backends: &[String]) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        let heads = backends.iter().map(|name| {
            let version = self.matrix.version(name);
            format!("{name} {version}").trim_end().to_string()
        });
        let named = rows.keys().any(|(_, row)| !row.is_empty());
        let head = ["table", "test"].into_iter().take(1 + usize::from(named));
        table.set_header(head.map(String::from).chain(heads));
        let mut before = None;
        for ((dashboard, row), by_backend) in rows {
            let title = match before == Some(*dashboard) {
                true => "",
                false => dashboard.title(),
            };
            before = Some(*dashboard);
            let cells = backends
                .iter()
                .map(|name| match by_backend.get(name.as_str()) {
                    Some(tally) => shown(tally),
                    None => "–".to_string(),
                });
            let head = [title, row].into_iter().take(1 + usize::from(named));
            table.add_row(head.map(String::from).chain(cells));
        }
        table.trim_fmt()
    }

    /// The failures.
    fn messages(&self) -> Option<String> {
        let failed: Vec<&Cell> = self.cells().filter(|c| c.state == State::Failed).collect();
        let mut lines: Vec<String> = failed.iter().take(MESSAGES).map(|c| message(c)).collect();
        if failed.len() > MESSAGES {
            lines.push(format!(
                "… and {} more, on the page",
                failed.len() - MESSAGES
            ));
        }
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    pub fn json(&self) -> Result<String> {
        let backends: Vec<_> = self
            .backends()
            .into_iter()
            .map(|name| {
                let tally: Tally = self.cells().filter(|c| c.backend == name).collect();
                json!({
                    "name": name,
                    "version": self.matrix.version(&name),
                    "passed": tally.passed,
                    "limits": tally.limits,
                    "failed": tally.failed,
                    "seconds": tally.seconds,
                })
            })
            .collect();
        let failures: Vec<&Cell> = self.cells().filter(|c| c.state == State::Failed).collect();
        let object = json!({
            "core": clematis_conform::cell::CORE,
            "backends": backends,
            "failures": failures,
            "resumed": self.resumed,
            "seconds": self.seconds,
            "page": self.page.display().to_string(),
        });
        serde_json::to_string(&object)
            .map_err(|error| Error::new(format!("the results have no JSON form: {error}")))
    }
}

fn shown(tally: &Tally) -> String {
    let counts = [
        (tally.passed, "✓"),
        (tally.limits, "△"),
        (tally.failed, "✗"),
    ];
    let words = counts.iter().filter(|(n, _)| *n > 0);
    let words: Vec<String> = words.map(|(n, mark)| format!("{n} {mark}")).collect();
    words.join(" ")
}

fn message(cell: &Cell) -> String {
    let about = [&cell.dtype, &cell.check]
        .into_iter()
        .filter(|w| !w.is_empty());
    let about: Vec<&str> = about.map(String::as_str).collect();
    let about = match about.is_empty() {
        true => String::new(),
        false => format!(", {}", about.join(" ")),
    };
    format!(
        "✗ {} on {}{about}: {}",
        cell.row, cell.backend, cell.message
    )
}
