//! The support matrix: all results by table, test and backend.

use crate::cell::{CONTRACT, Cell, Key};
use crate::dashboard::Dashboard;
use crate::report::State;
use std::collections::{BTreeMap, BTreeSet};

/// A test and its cells by backend.
pub type Line<'a> = (&'a str, BTreeMap<&'a str, Vec<&'a Cell>>);

/// All results. A newer result replaces an older one.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    cells: BTreeMap<Key, Cell>,
}

/// A summary of several cells.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Number of cells that passed.
    pub passed: usize,
    /// Number of cells that fail as known limits.
    pub limits: usize,
    /// Number of cells that failed.
    pub failed: usize,
    /// Total duration.
    pub seconds: f64,
    /// Number of examples compared.
    pub cases: usize,
    /// The worst error among them, as a fraction of the tolerance.
    pub worst: f64,
}

impl Tally {
    /// Adds a cell to the counts.
    pub fn add(&mut self, cell: &Cell) {
        match cell.state {
            State::None => {}
            State::Passed => self.passed += 1,
            State::Limit => self.limits += 1,
            State::Failed => self.failed += 1,
        }
        self.seconds += cell.seconds;
        self.cases += cell.cases;
        self.worst = self.worst.max(cell.worst);
    }

    /// Number of cells with a check.
    pub fn cells(&self) -> usize {
        self.passed + self.limits + self.failed
    }

    /// The worst state.
    pub fn state(&self) -> State {
        match self {
            t if t.failed > 0 => State::Failed,
            t if t.limits > 0 => State::Limit,
            t if t.passed > 0 => State::Passed,
            _ => State::None,
        }
    }
}

impl<'a> FromIterator<&'a Cell> for Tally {
    fn from_iter<I: IntoIterator<Item = &'a Cell>>(cells: I) -> Tally {
        let mut tally = Tally::default();
        for cell in cells {
            tally.add(cell);
        }
        tally
    }
}

impl Matrix {
    /// Adds a result.
    pub fn add(&mut self, cell: Cell) {
        self.cells.insert(cell.key(), cell);
    }

    /// Keeps only some cells.
    pub fn retain(&mut self, keep: impl Fn(&Cell) -> bool) {
        self.cells.retain(|_, cell| keep(cell));
    }

    /// Every cell, by table, row and backend.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.cells.values()
    }

    /// The cell with this key.
    pub fn find(&self, key: &Key) -> Option<&Cell> {
        self.cells.get(key)
    }

    /// The backends with results: in the given order, then others by name.
    pub fn backends(&self, order: &[&str]) -> Vec<String> {
        let found: BTreeSet<&str> = self.cells().map(|c| c.backend.as_str()).collect();
        let first = order.iter().copied().filter(|name| found.contains(name));
        let rest = found.iter().copied().filter(|name| !order.contains(name));
        first.chain(rest).map(String::from).collect()
    }

    /// The version of a backend in its results; the last one if there are several.
    pub fn version(&self, backend: &str) -> String {
        let own = self.cells().filter(|c| c.backend == backend);
        let known = own.filter(|c| !c.version.is_empty());
        known.last().map(|c| c.version.clone()).unwrap_or_default()
    }

    /// The summary of a backend.
    pub fn tally(&self, backend: &str) -> Tally {
        self.cells().filter(|c| c.backend == backend).collect()
    }

    /// A table in two parts: functions tested by other runners, then ops and named tests.
    pub fn parts(&self, dashboard: Dashboard) -> [Vec<Line<'_>>; 2] {
        let held = |line: &Line<'_>| line.1.values().flatten().any(|c| c.check == CONTRACT);
        let (first, second) = self.rows(dashboard).into_iter().partition(held);
        [first, second]
    }

    /// A table: each test with its cells by backend. Tests without checks are left out.
    pub fn rows(&self, dashboard: Dashboard) -> BTreeMap<&str, BTreeMap<&str, Vec<&Cell>>> {
        let mut rows: BTreeMap<&str, BTreeMap<&str, Vec<&Cell>>> = BTreeMap::new();
        for cell in self.cells().filter(|c| c.dashboard == dashboard) {
            if cell.state != State::None {
                let row = rows.entry(&cell.row).or_default();
                row.entry(&cell.backend).or_default().push(cell);
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(row: &str, backend: &str, state: State) -> Cell {
        Cell::new(Dashboard::Ops, row, backend, state)
    }

    #[test]
    fn newer_results_replace_older_ones() {
        let mut matrix = Matrix::default();
        matrix.add(cell("test_add", "native", State::Failed));
        matrix.add(cell("test_add", "native", State::Passed));
        matrix.add(cell("test_sub", "native", State::None));
        assert_eq!(matrix.tally("native").state(), State::Passed);
        assert_eq!(matrix.rows(Dashboard::Ops).len(), 1);
        assert!(matrix.rows(Dashboard::Layers).is_empty());
    }

    #[test]
    fn backends_are_in_the_requested_order() {
        let mut matrix = Matrix::default();
        for name in ["jax", "torch", "native", "another"] {
            matrix.add(cell("test_add", name, State::Passed));
        }
        assert_eq!(
            matrix.backends(&["native", "torch", "missing"]),
            ["native", "torch", "another", "jax"]
        );
    }

    #[test]
    fn one_failure_fails_the_tally() {
        let cells = [State::Passed, State::Limit, State::None].map(|s| cell("x", "y", s));
        let mut tally: Tally = cells.iter().collect();
        assert_eq!((tally.state(), tally.cells()), (State::Limit, 2));
        tally.add(&cell("x", "y", State::Failed));
        assert_eq!(tally.state(), State::Failed);
    }

    #[test]
    fn a_tally_has_all_examples_and_the_worst_error() {
        let with = |cases, worst| Cell {
            cases,
            worst,
            ..cell("x", "y", State::Passed)
        };
        let tally: Tally = [with(3, 0.5), with(4, 0.25)].iter().collect();
        assert_eq!((tally.cases, tally.worst), (7, 0.5));
    }

    #[test]
    fn functions_stand_before_ops_and_a_row_stands_once() {
        let mut matrix = Matrix::default();
        matrix.add(cell("test_add", "native", State::Passed));
        matrix.add(cell("test_shuffle", "native", State::Passed));
        let mut contract = cell("test_shuffle", "native", State::Passed);
        contract.check = CONTRACT.into();
        matrix.add(contract);
        let [functions, ops] = matrix.parts(Dashboard::Ops);
        let names = |lines: &[Line<'_>]| lines.iter().map(|l| l.0.to_string()).collect::<Vec<_>>();
        assert_eq!(names(&functions), ["test_shuffle"]);
        assert_eq!(names(&ops), ["test_add"]);
        assert_eq!(functions[0].1["native"].len(), 2);
    }
}
