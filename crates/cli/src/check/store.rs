//! What the folder keeps: results, those of an unfinished run, the history, and the pages made of them.
//!
//! A run adds what it finds to `partial.jsonl` at once and moves it to `results.jsonl` when it is through. So a run
//! that was interrupted, however roughly, is resumed by the next, while one that was finished is run again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clematis_conform::cell::CORE;
use clematis_conform::history::{Past, date};
use clematis_conform::named::Named;
use clematis_conform::{Cell, Dashboard, Matrix, Runner, State, Unit, markdown, page};

use crate::backends;
use crate::error::{Error, Result};
use crate::folder::Folder;

const RESULTS: &str = "results.jsonl";
const PARTIAL: &str = "partial.jsonl";
const HISTORY: &str = "history.jsonl";
const PAGE: &str = "index.html";

/// The files that every run writes.
pub const FILES: [&str; 4] = [RESULTS, PARTIAL, HISTORY, PAGE];

/// How often the pages are written while a run goes on.
const REFRESH: Duration = Duration::from_secs(10);

pub struct Store {
    folder: Folder,
    results: Matrix,
    partial: Matrix,
    history: Vec<Past>,
    build: String,
    written: Instant,
}

impl Store {
    /// Reads what the folder has and what still holds: results of other cases, versions or cores do not.
    pub fn open(folder: Folder, units: &[Unit], fresh: bool) -> Result<Store> {
        let mut store = Store {
            results: Matrix::default(),
            partial: Matrix::default(),
            history: Past::read(&folder.read(HISTORY)?),
            folder,
            build: build(),
            written: Instant::now(),
        };
        if fresh {
            store.folder.write(RESULTS, "")?;
            store.folder.write(PARTIAL, "")?;
            return Ok(store);
        }
        let known = Known::new(units);
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
        // A line that a kill has cut off must not swallow the next one.
        store.write_partial()?;
        Ok(store)
    }

    /// Whether an unfinished run has done a unit whole.
    pub fn has_unit(&self, runner: &Runner, unit: &Unit) -> bool {
        let row = unit.row();
        let own = |check: &str, dashboard| {
            let key = (
                dashboard,
                row.clone(),
                runner.backend().name().to_string(),
                unit.dtype.name().to_string(),
                check.to_string(),
            );
            self.partial.find(&key).is_some()
        };
        runner.checks().iter().all(|check| {
            own(check.name(), Dashboard::Ops) || own(check.name(), Dashboard::Gradients)
        })
    }

    /// Whether an unfinished run has done a named row.
    pub fn has_named(&self, runner: &Runner, named: &Named) -> bool {
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

    /// Takes results of other runners in.
    pub fn import(&mut self, cells: Vec<Cell>) -> Result<()> {
        if cells.is_empty() {
            return Ok(());
        }
        for cell in cells {
            self.results.add(cell);
        }
        self.write_results()
    }

    /// Keeps what was found, at once.
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

    /// The run is through: its results are results, and the history has one more line.
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
            let past = Past::of(&merged, &asked, SystemTime::now());
            self.folder
                .append(HISTORY, &past.line().map_err(Error::from_engine)?)?;
            self.history.push(past);
        }
        self.write_pages(&merged)?;
        self.results = merged;
        Ok(())
    }

    /// All results, once the run is through.
    pub fn matrix(&self) -> &Matrix {
        &self.results
    }

    pub fn page(&self) -> PathBuf {
        self.folder.at(PAGE)
    }

    /// Results, and newer ones of unfinished runs.
    fn merged(&self) -> Matrix {
        let mut all = self.results.clone();
        for cell in self.partial.cells() {
            all.add(cell.clone());
        }
        all
    }

    /// That there was nothing to check matters to an unfinished run alone.
    fn write_results(&self) -> Result<()> {
        let told = |cell: &&Cell| cell.state != State::None;
        let text = lines(self.results.cells().filter(told))?;
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

/// What results must have been found with.
struct Known {
    digests: BTreeMap<(String, String), String>,
    versions: BTreeMap<&'static str, String>,
}

impl Known {
    fn new(units: &[Unit]) -> Known {
        let digests = units
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
        // Another runner's results are its own affair.
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

/// Tells builds of the program apart: who changes a kernel does not want the results of the one before.
fn build() -> String {
    let file = std::env::current_exe().and_then(std::fs::metadata);
    let changed = file.and_then(|file| Ok((file.len(), file.modified()?)));
    match changed {
        Ok((length, time)) => {
            let time = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
            format!("{length:x}-{:x}", time.as_nanos())
        }
        // Then it is not known, and versions and cases must do.
        Err(_) => String::new(),
    }
}
