//! The results folder: finished results, those of an unfinished run, the history, and the pages.
//!
//! A run appends results to `partial.jsonl` at once and moves them to `results.jsonl` when it finishes. So an
//! interrupted run is resumed by the next, while a finished one is run again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clematis_conform::cell::CORE;
use clematis_conform::history::{PastRun, date};
use clematis_conform::named_test::NamedTest;
use clematis_conform::{CaseGroup, Cell, Dashboard, Matrix, Runner, State, markdown, page};

use crate::backends;
use crate::error::{Error, Result};
use crate::folder::Folder;

const RESULTS: &str = "results.jsonl";
const PARTIAL: &str = "partial.jsonl";
const HISTORY: &str = "history.jsonl";
const PAGE: &str = "index.html";

/// The files that every run writes.
pub const FILES: [&str; 4] = [RESULTS, PARTIAL, HISTORY, PAGE];

/// How often the pages are rewritten during a run.
const REFRESH: Duration = Duration::from_secs(10);

pub struct Store {
    folder: Folder,
    results: Matrix,
    partial: Matrix,
    history: Vec<PastRun>,
    build: String,
    written: Instant,
}

impl Store {
    /// Reads the folder and drops stale results: those of other cases, versions or cores.
    pub fn open(folder: Folder, groups: &[CaseGroup], fresh: bool) -> Result<Store> {
        let mut store = Store {
            results: Matrix::default(),
            partial: Matrix::default(),
            history: PastRun::read(&folder.read(HISTORY)?),
            folder,
            build: build(),
            written: Instant::now(),
        };
        if fresh {
            store.folder.write(RESULTS, "")?;
            store.folder.write(PARTIAL, "")?;
            return Ok(store);
        }
        let known = Known::new(groups);
        for cell in Cell::recover(&store.folder.read(RESULTS)?) {
            if known.holds(&cell) {
                store.results.add(cell);
            }
        }
        for cell in Cell::recover(&store.folder.read(PARTIAL)?) {
            if known.holds(&cell) && cell.build == store.build {
                store.partial.add(cell);
            }
        }
        // A line truncated by a kill must not merge with the next one.
        store.write_partial()?;
        Ok(store)
    }

    /// Whether an unfinished run has all results of a case group.
    pub fn has_group(&self, runner: &Runner, group: &CaseGroup) -> bool {
        let row = group.row();
        let own = |check: &str, dashboard| {
            let key = (
                dashboard,
                row.clone(),
                runner.backend().name().to_string(),
                group.dtype.name().to_string(),
                check.to_string(),
            );
            self.partial.find(&key).is_some()
        };
        runner.checks().iter().all(|check| {
            own(check.name(), Dashboard::Ops) || own(check.name(), Dashboard::Gradients)
        })
    }

    /// Whether an unfinished run has the result of a named test.
    pub fn has_named(&self, runner: &Runner, named: &NamedTest) -> bool {
        let backend = runner.backend().name().to_string();
        let key = (
            named.dashboard,
            named.row.to_string(),
            backend,
            String::new(),
            String::new(),
        );
        self.partial.find(&key).is_some()
    }

    /// Adds results of other runners.
    pub fn import(&mut self, cells: Vec<Cell>) -> Result<()> {
        if cells.is_empty() {
            return Ok(());
        }
        for cell in cells {
            self.results.add(cell);
        }
        self.write_results()
    }

    /// Adds results and writes them to disk at once.
    pub fn add(&mut self, cells: Vec<Cell>) -> Result<()> {
        let mut text = String::new();
        for mut cell in cells {
            cell.build = self.build.clone();
            text += &cell.line().map_err(Error::from_engine)?;
            self.partial.add(cell);
        }
        self.folder.append(PARTIAL, &text)?;
        if self.written.elapsed() > REFRESH {
            self.write_pages(&self.merged())?;
            self.written = Instant::now();
        }
        Ok(())
    }

    /// Finishes the run: makes its results final and appends to the history.
    pub fn finish(&mut self, mine: &dyn Fn(&Cell) -> bool, asked: Option<String>) -> Result<()> {
        let merged = self.merged();
        for cell in merged.cells().filter(|cell| mine(cell)) {
            let mut cell = cell.clone();
            cell.build.clear();
            self.results.add(cell);
        }
        self.partial.retain(|cell| !mine(cell));
        self.write_results()?;
        self.write_partial()?;
        let merged = self.merged();
        if let Some(asked) = asked {
            let past = PastRun::of(&merged, &asked, SystemTime::now());
            self.folder
                .append(HISTORY, &past.line().map_err(Error::from_engine)?)?;
            self.history.push(past);
        }
        self.write_pages(&merged)?;
        self.results = merged;
        Ok(())
    }

    /// All results of a finished run.
    pub fn matrix(&self) -> &Matrix {
        &self.results
    }

    pub fn page(&self) -> PathBuf {
        self.folder.at(PAGE)
    }

    /// Final results, overridden by newer ones of the unfinished run.
    fn merged(&self) -> Matrix {
        let mut all = self.results.clone();
        for cell in self.partial.cells() {
            all.add(cell.clone());
        }
        all
    }

    /// Cells without a check are only kept for resuming an unfinished run.
    fn write_results(&self) -> Result<()> {
        let is_checked = |cell: &&Cell| cell.state != State::None;
        let text = lines(self.results.cells().filter(is_checked))?;
        self.folder.write(RESULTS, &text)
    }

    fn write_partial(&self) -> Result<()> {
        self.folder.write(PARTIAL, &lines(self.partial.cells())?)
    }

    fn write_pages(&self, matrix: &Matrix) -> Result<()> {
        let now = date(SystemTime::now());
        let order = backends::names();
        for (name, text) in markdown::badges() {
            self.folder.write(&name, &text)?;
        }
        for dashboard in Dashboard::ALL {
            let text = markdown::page(matrix, dashboard, &order, &now);
            self.folder
                .write(&format!("{}.md", dashboard.name()), &text)?;
        }
        let text = page::page(matrix, &self.history, &order, &now);
        self.folder.write(PAGE, &text)
    }
}

fn lines<'a>(cells: impl Iterator<Item = &'a Cell>) -> Result<String> {
    let mut text = String::new();
    for cell in cells {
        text += &cell.line().map_err(Error::from_engine)?;
    }
    Ok(text)
}

/// The versions that a result must match.
struct Known {
    digests: BTreeMap<(String, String), String>,
    versions: BTreeMap<&'static str, String>,
}

impl Known {
    fn new(groups: &[CaseGroup]) -> Known {
        let digests = groups
            .iter()
            .map(|u| ((u.row(), u.dtype.name().to_string()), u.digest.clone()));
        let versions = clematis::backend::all()
            .into_iter()
            .map(|b| (b.name(), b.version()));
        Known {
            digests: digests.collect(),
            versions: versions.collect(),
        }
    }

    fn holds(&self, cell: &Cell) -> bool {
        // Results of other runners are not validated.
        if cell.core.is_empty() {
            return true;
        }
        let version = self.versions.get(cell.backend.as_str());
        let digest = self.digests.get(&(cell.row.clone(), cell.dtype.clone()));
        cell.core == CORE
            && version.is_none_or(|version| *version == cell.version)
            && (cell.digest.is_empty() || digest.is_some_and(|digest| *digest == cell.digest))
    }
}

/// Identifies the build of the program: a changed kernel invalidates earlier results.
fn build() -> String {
    let file = std::env::current_exe().and_then(std::fs::metadata);
    let changed = file.and_then(|file| Ok((file.len(), file.modified()?)));
    match changed {
        Ok((length, time)) => {
            let time = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
            format!("{length:x}-{:x}", time.as_nanos())
        }
        // Unknown: versions and digests must suffice.
        Err(_) => String::new(),
    }
}
