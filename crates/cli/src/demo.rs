//! `clematis demo`: trains a small network on handwritten digits, prints a summary and writes a page.
//!
//! Owns the sequence of steps and the output. Everything that can fail early (arguments, data, output folder) is
//! checked before the training starts.

mod compare;
mod curve;
mod digits;
mod history;
mod progress;
mod report;
mod train;

use std::path::PathBuf;

use comfy_table::{CellAlignment, Table, presets};

use crate::backends;
use crate::error::{Error, Result};
use crate::terminal;
use compare::Run;
use digits::Digits;
use history::History;
use progress::Progress;
use report::Page;

/// The options of `demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Seed of all randomness: the same seed gives the same bits
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// How often to go through the training data
    #[arg(long, default_value_t = train::EPOCHS, value_parser = epochs)]
    epochs: usize,

    /// The backend to train on; may be given several times [default: all that are there]
    #[arg(long, value_parser = backend())]
    backend: Vec<String>,

    /// Number of threads [default: all cores]; changes the time, not the result
    #[arg(long, value_parser = threads)]
    threads: Option<usize>,

    /// A gzipped CSV of 1797 digits instead of the built-in one
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,

    /// Folder for the page
    #[arg(long, value_name = "DIR", default_value = "clematis-demo")]
    out: PathBuf,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn epochs(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("0 epochs train nothing; at least 1 is needed".into()),
        Ok(epochs) => Ok(epochs),
        Err(error) => Err(error.to_string()),
    }
}

fn threads(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("0 threads run nothing; at least 1 is needed".into()),
        Ok(threads) => Ok(threads),
        Err(error) => Err(error.to_string()),
    }
}

fn backend() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(backends::names())
}

pub fn run(args: &Args) -> Result<()> {
    let digits = match &args.data {
        None => Digits::built_in()?,
        Some(path) => Digits::read(path)?,
    };
    let page = Page::in_folder(&args.out)?;
    let (history, runs) = train_on_all(args, &digits)?;
    page.write(&history, &runs)?;
    if args.json {
        return terminal::print_json(&report::json(&history, &runs)?);
    }
    terminal::print_line(&summary(&history))?;
    if runs.len() > 1 {
        terminal::print_line(&format!("\n{}", compare::table(&runs)))?;
    }
    terminal::print_line(&format!("page: {}", page.path().display()))
}

/// Returns the full history of the first backend, and a summary of each.
fn train_on_all(args: &Args, digits: &Digits) -> Result<(History, Vec<Run>)> {
    let names = match args.backend.as_slice() {
        [] => backends::names().into_iter().map(String::from).collect(),
        chosen => chosen.to_vec(),
    };
    let mut first: Option<History> = None;
    let mut runs = Vec::new();
    for name in &names {
        let options = train::Options {
            seed: args.seed,
            epochs: args.epochs,
            backend: name.clone(),
            threads: args.threads,
        };
        let progress = Progress::new(args.epochs, args.json, (names.len() > 1).then_some(name));
        let history = train::train(digits, &options, &progress);
        progress.finish();
        match history {
            Ok(history) => {
                let first = first.get_or_insert_with(|| history.clone());
                runs.push(Run::new(&history, first));
            }
            // A missing or broken backend does not affect the others; alone, its error is returned.
            Err(error) if names.len() == 1 => return Err(error),
            Err(error) => runs.push(Run::failed(name, "", error.to_string())),
        }
    }
    match first {
        Some(first) => Ok((first, runs)),
        None => Err(Error::new(compare::table(&runs))),
    }
}

/// The summary for people: a table, curves, the accuracy.
fn summary(history: &History) -> String {
    let loss = history.series(|epoch| epoch.loss);
    let accuracy = history.series(|epoch| 100.0 * epoch.test_accuracy);
    let curves = curve::beside(
        &curve::draw("training loss", &loss),
        &curve::draw("test accuracy, %", &accuracy),
    );
    format!("{}\n\n{curves}\n\n{}", table(history), verdict(history))
}

fn verdict(history: &History) -> String {
    let (right, all) = history.test_score();
    let accuracy = match history.test_accuracy() {
        Some(accuracy) => format!("{:.2} %", 100.0 * accuracy),
        None => "unknown".into(),
    };
    format!(
        "test accuracy {accuracy} ({right} of {all}) in {:.1} s on {}",
        history.seconds, history.backend
    )
}

/// One row per epoch; for many epochs about a dozen, evenly spaced, including the first and the last.
fn table(history: &History) -> String {
    const ROWS: usize = 12;
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(["epoch", "loss", "train", "test", "seconds"]);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let count = history.epochs.len();
    let stride = count.div_ceil(ROWS).max(1);
    for (index, epoch) in history.epochs.iter().enumerate() {
        if index % stride == 0 || index + 1 == count {
            table.add_row([
                (index + 1).to_string(),
                format!("{:.4}", epoch.loss),
                format!("{:.2} %", 100.0 * epoch.train_accuracy),
                format!("{:.2} %", 100.0 * epoch.test_accuracy),
                format!("{:.2}", epoch.seconds),
            ]);
        }
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_epochs_and_zero_threads_are_refused() {
        assert_eq!(epochs("3"), Ok(3));
        assert!(epochs("0").is_err_and(|why| why.contains("at least 1")));
        assert!(epochs("-1").is_err());
        assert!(threads("0").is_err_and(|why| why.contains("at least 1")));
    }

    #[test]
    fn the_summary_has_a_table_two_curves_and_the_accuracy() {
        let text = summary(&History::sample(5));
        for wanted in [
            "epoch",
            "training loss",
            "test accuracy, %",
            "97.78 % (352 of 360)",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
    }

    #[test]
    fn a_long_table_keeps_its_first_and_last_row() {
        let text = table(&History::sample(100));
        let first = |line: &str| line.split_whitespace().nth(1).map(String::from);
        let rows: Vec<_> = text.lines().filter_map(first).collect();
        assert!(rows.contains(&"1".into()) && rows.contains(&"100".into()));
        assert!(text.lines().count() < 20, "{text}");
    }
}
