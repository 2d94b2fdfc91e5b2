//! `clematis check`: runs the conformance suite on every backend and writes the support matrix.
//!
//! Owns the sequence of steps. The checks are in `clematis-conform`; what is kept between runs is in
//! `check/store.rs`. Ctrl-C is not handled: results are written to disk as soon as they are found, and the next run
//! resumes from there.

mod choice;
mod progress;
mod external;
mod store;
mod summary;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clematis::{Backend, DType};
use clematis_conform::{Cell, Runner, State};

use crate::backends;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::terminal;
use choice::Choice;
use progress::Progress;
use store::Store;

/// The options of `check`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Tests to run: those that begin with a word, or else contain it [default: all]
    #[arg(value_name = "TEST")]
    filters: Vec<String>,

    /// The backend to check; may be repeated [default: every one found]
    #[arg(long, value_name = "NAME", value_parser = backend())]
    backend: Vec<String>,

    /// The element type to check; may be repeated [default: all]
    #[arg(long, value_name = "DTYPE", value_parser = dtype)]
    dtype: Vec<DType>,

    /// Folder for results and pages
    #[arg(long, value_name = "DIR", default_value = "clematis-check")]
    out: PathBuf,

    /// A file of results from another runner, one JSON object a line; may be repeated
    #[arg(long, value_name = "FILE")]
    rows: Vec<PathBuf>,

    /// Run the functional rows too, with all their examples; in a checkout, whose Python tests they are
    #[arg(long, conflicts_with_all = ["filters", "dtype", "no_run"])]
    full: bool,

    /// Forget the results that the folder has, those of an unfinished run included
    #[arg(long)]
    fresh: bool,

    /// Run nothing: write the pages from existing results
    #[arg(long, conflicts_with = "fresh")]
    no_run: bool,

    /// List the tests with their element types and numbers of cases, and run nothing
    #[arg(long, conflicts_with_all = ["json", "rows", "full", "fresh", "no_run"])]
    list: bool,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn backend() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(backends::names())
}

fn dtype(text: &str) -> std::result::Result<DType, String> {
    text.parse()
        .map_err(|error: clematis::Error| error.to_string())
}

/// The selection in the words of the command line; empty for everything.
fn asked(args: &Args) -> String {
    let backends = args.backend.iter().map(|name| format!("--backend {name}"));
    let dtypes = args.dtype.iter().map(|dtype| format!("--dtype {dtype}"));
    let full = args.full.then(|| "--full".to_string());
    let words: Vec<String> = args
        .filters
        .iter()
        .cloned()
        .chain(backends)
        .chain(dtypes)
        .chain(full)
        .collect();
    words.join(" ")
}

pub fn run(args: &Args) -> Result<()> {
    let start = Instant::now();
    let groups = clematis_conform::case_groups().map_err(Error::from_engine)?;
    let mut choice = Choice::new(&groups, &args.filters, &args.dtype)?;
    if args.list {
        return terminal::print_line(&choice.list());
    }
    let mut rows = external::read(&args.rows)?;
    let chosen = |b: &&'static dyn Backend| {
        args.backend.is_empty() || args.backend.iter().any(|name| name == b.name())
    };
    let found = clematis::backend::all().into_iter().filter(chosen);
    let folder = Folder::open(&args.out, "the results", &store::FILES)?;
    if args.full {
        rows.extend(external::full(
            &folder.at(external::FILE),
            &args.backend,
            args.json,
        )?);
    }
    let mut store = Store::open(folder, &groups, args.fresh)?;
    let imported: Vec<_> = rows.iter().map(Cell::key).collect();
    store.import(rows)?;
    if args.no_run {
        choice = Choice::nothing();
    }

    let runners = found
        .map(Runner::new)
        .collect::<clematis::Result<Vec<_>>>()
        .map_err(Error::from_engine)?;
    let progress = Progress::new(args.json);
    let store = Mutex::new(store);
    let mut resumed = 0;
    for runner in &runners {
        match backend_checked(runner, &choice, &store, &progress) {
            Ok(count) => resumed += count,
            Err(error) => {
                progress.finish();
                return Err(error);
            }
        }
    }
    progress.finish();

    let mut store = store.into_inner().unwrap_or_else(PoisonError::into_inner);
    let names: Vec<&str> = runners.iter().map(|r| r.backend().name()).collect();
    let mine = |cell: &Cell| {
        let run = names.contains(&cell.backend.as_str()) && choice.covers(cell);
        run || imported.contains(&cell.key())
    };
    store.finish(&mine, (!args.no_run).then(|| asked(args)))?;
    // With --no-run, all cells count.
    let mine = |cell: &Cell| args.no_run || mine(cell);
    let outcome = summary::Outcome {
        matrix: store.matrix(),
        mine: &mine,
        resumed,
        seconds: start.elapsed().as_secs_f64(),
        page: store.page(),
    };
    terminal::print_line(&match args.json {
        true => outcome.json()?,
        false => outcome.text(),
    })?;
    let failed = |cell: &&Cell| mine(cell) && cell.state == State::Failed;
    match store.matrix().cells().filter(failed).count() {
        0 => Ok(()),
        1 => Err(Error::new("check: 1 result is a failure")),
        n => Err(Error::new(format!("check: {n} results are failures"))),
    }
}

/// Runs the selected tests that are not done yet; returns how many were done already.
fn backend_checked(
    runner: &Runner,
    choice: &Choice,
    store: &Mutex<Store>,
    progress: &Progress,
) -> Result<usize> {
    let locked = || store.lock().unwrap_or_else(PoisonError::into_inner);
    let (groups, named) = {
        let store = locked();
        let groups = choice
            .groups()
            .filter(|group| !store.has_group(runner, group));
        let named = choice
            .named()
            .filter(|named| !store.has_named(runner, named));
        (groups.collect::<Vec<_>>(), named.collect::<Vec<_>>())
    };
    let todo = groups.len() + named.len();
    let resumed = choice.groups().count() + choice.named().count() - todo;
    progress.backend(runner.backend().name(), todo, resumed);
    runner
        .run(&groups, &|group, rows| {
            let cells = rows.into_iter().map(|row| Cell::of(runner, group, row));
            let cells: Vec<Cell> = cells.collect();
            progress.step(&format!("{} {}", group.op, group.dtype), &cells);
            // The engine propagates the error; the message is ours.
            locked()
                .add(cells)
                .map_err(|error| clematis::Error::new(clematis::Kind::Io, error.to_string()))
        })
        .map_err(|error| Error::new(error.message()))?;
    for named in named {
        let cells = vec![named.cell(runner)];
        progress.step(named.row, &cells);
        locked().add(cells)?;
    }
    progress.backend_done();
    Ok(resumed)
}
