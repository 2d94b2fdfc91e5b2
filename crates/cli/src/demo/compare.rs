//! Compares runs: the same key and the same order of data on each backend.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::history::History;

/// Number of steps over which loss curves are compared: later, rounding alone makes any two runs diverge.
pub const STEPS: usize = 20;

/// The result of one backend, or its error.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    pub backend: String,
    pub version: String,
    pub seconds: Option<f64>,
    /// Mean loss of the last epoch.
    pub loss: Option<f64>,
    pub test_accuracy: Option<f64>,
    /// Maximum difference from the first run's loss over the first steps.
    pub difference: Option<f64>,
    /// The loss of each step.
    pub losses: Vec<f64>,
    pub error: Option<String>,
}

impl Run {
    /// A run compared with the first one.
    pub fn new(history: &History, first: &History) -> Self {
        let pairs = history.losses.iter().zip(&first.losses).take(STEPS);
        Run {
            backend: history.backend.clone(),
            version: history.backend_version.clone(),
            seconds: Some(history.seconds),
            loss: history.epochs.last().map(|epoch| epoch.loss),
            test_accuracy: history.test_accuracy(),
            // Two non-finite losses differ by NaN, which is not a small difference.
            difference: pairs
                .map(|(a, b)| (a - b).abs())
                .reduce(|a, b| if a.is_nan() || a > b { a } else { b }),
            losses: history.losses.clone(),
            error: None,
        }
    }

    /// A backend that failed.
    pub fn failed(backend: &str, version: &str, error: String) -> Self {
        Run {
            backend: backend.into(),
            version: version.into(),
            seconds: None,
            loss: None,
            test_accuracy: None,
            difference: None,
            losses: Vec::new(),
            error: Some(error),
        }
    }
}

/// A table with one line per backend.
pub fn table(runs: &[Run]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    let first = runs.first().map_or("first", |run| run.backend.as_str());
    table.set_header([
        "backend".to_string(),
        "version".into(),
        "seconds".into(),
        "loss".into(),
        "accuracy".into(),
        format!("loss − {first}"),
    ]);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for run in runs {
        let shown = |x: Option<f64>, f: fn(f64) -> String| x.map_or("–".to_string(), f);
        table.add_row([
            run.backend.clone(),
            run.version.clone(),
            shown(run.seconds, |x| format!("{x:.1}")),
            shown(run.loss, |x| format!("{x:.4}")),
            shown(run.test_accuracy, |x| format!("{:.2} %", 100.0 * x)),
            shown(run.difference, |x| format!("{x:.1e}")),
        ]);
    }
    let mut text = table.trim_fmt();
    text.push_str(&format!(
        "\nthe last column is the largest difference over the first {STEPS} steps"
    ));
    for run in runs {
        if let Some(error) = &run.error {
            text.push_str(&format!("\n{}: {error}", run.backend));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_difference_counts_and_only_at_first() {
        let first = History::sample(2);
        let mut other = first.clone();
        other.backend = "other".into();
        other.losses[3] += 0.25;
        other.losses[STEPS] += 9.0;
        let run = Run::new(&other, &first);
        assert_eq!(run.difference, Some(0.25));
        other.losses[5] = f64::NAN;
        assert!(Run::new(&other, &first).difference.is_some_and(f64::is_nan));
        let runs = [
            Run::new(&first, &first),
            run,
            Run::failed("torch", "", "not installed".into()),
        ];
        let text = table(&runs);
        for wanted in ["0.0e0", "2.5e-1", "97.78 %", "torch: not installed"] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
    }
}
