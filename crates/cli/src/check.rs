//! `clematis check`: every op on every backend, and the pages that say what works where.
//!
//! Owns the order of events. What is checked and how is `clematis-conform`'s; what is kept between runs is in
//! `check/store.rs`. Nothing catches a Ctrl-C: results are on disk as soon as they are found, and the next run
//! resumes from there.

mod choice;
mod progress;
mod rows;
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

    /// Run nothing: write the pages from what is there
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

/// What was asked for, in the words of the command line; empty: everything.
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
    let units = clematis_conform::units().map_err(Error::from_engine)?;
    let mut choice = Choice::new(&units, &args.filters, &args.dtype)?;
    if args.list {
        return terminal::say(&choice.list());
    }
    let mut rows = rows::read(&args.rows)?;
    let chosen = |b: &&'static dyn Backend| {
        args.backend.is_empty() || args.backend.iter().any(|name| name == b.name())
    };
    let found = clematis::backend::all().into_iter().filter(chosen);
    let folder = Folder::open(&args.out, "the results", &store::FILES)?;
    if args.full {
        rows.extend(rows::full(
            &folder.at(rows::FILE),
            &args.backend,
            args.json,
        )?);
    }
    let mut store = Store::open(folder, &units, args.fresh)?;
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
    // Who runs nothing asks about everything.
    let mine = |cell: &Cell| args.no_run || mine(cell);
    let outcome = summary::Outcome {
        matrix: store.matrix(),
        mine: &mine,
        resumed,
        seconds: start.elapsed().as_secs_f64(),
        page: store.page(),
    };
    terminal::say(&match args.json {
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

/// Runs what is chosen and not done yet; says how many tests were done already.
fn backend_checked(
    runner: &Runner,
    choice: &Choice,
    store: &Mutex<Store>,
    progress: &Progress,
) -> Result<usize> {
    let locked = || store.lock().unwrap_or_else(PoisonError::into_inner);
    let (units, named) = {
        let store = locked();
        let units = choice.units().filter(|unit| !store.has_unit(runner, unit));
        let named = choice
            .named()
            .filter(|named| !store.has_named(runner, named));
        (units.collect::<Vec<_>>(), named.collect::<Vec<_>>())
    };
    let todo = units.len() + named.len();
    let resumed = choice.units().count() + choice.named().count() - todo;
    progress.backend(runner.backend().name(), todo, resumed);
    runner
        .run(&units, &|unit, rows| {
            let cells = rows.into_iter().map(|row| Cell::of(runner, unit, row));
            let cells: Vec<Cell> = cells.collect();
            progress.step(&format!("{} {}", unit.op, unit.dtype), &cells);
            // The engine carries the error through; its words are ours.
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
