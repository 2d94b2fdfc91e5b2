//! Progress of the training: a bar on a terminal, lines in a pipe.

use indicatif::{ProgressBar, ProgressStyle};

use super::history::Epoch;
use crate::terminal;

/// Reports progress.
pub struct Progress {
    epochs: usize,
    /// The prefix of each line: the backend, if there are several.
    label: String,
    style: Style,
}

enum Style {
    Bar(ProgressBar),
    Lines,
    /// With --json into a pipe: only the object is printed.
    Silent,
}

impl Progress {
    pub fn new(epochs: usize, json: bool, backend: Option<&String>) -> Self {
        let style = match (terminal::are_terminals(), json) {
            // The bar is drawn on standard error, so that standard output has only the object.
            ((_, true), true) | ((true, true), false) => Style::Bar(bar()),
            (_, true) => Style::Silent,
            (_, false) => Style::Lines,
        };
        Progress {
            epochs,
            label: backend.map_or(String::new(), |name| format!("{name}: ")),
            style,
        }
    }

    /// Starts the training with this total number of steps.
    pub fn start(&self, steps: u64) {
        if let Style::Bar(bar) = &self.style {
            bar.set_length(steps);
            bar.set_message(format!("{}training", self.label));
        }
    }

    /// Reports an optimiser step.
    pub fn step(&self) {
        if let Style::Bar(bar) = &self.style {
            bar.inc(1);
        }
    }

    /// Reports an epoch; `index` counts from 0.
    pub fn epoch(&self, index: usize, epoch: &Epoch) {
        let text = format!("{}{}", self.label, line(index, self.epochs, epoch));
        match &self.style {
            Style::Bar(bar) => bar.set_message(text),
            Style::Lines => {
                // A closed output must not stop the training.
                let _ = terminal::print_line(&text);
            }
            Style::Silent => {}
        }
    }

    /// Removes the bar, also after an error.
    pub fn finish(&self) {
        if let Style::Bar(bar) = &self.style {
            bar.finish_and_clear();
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    // The template is a constant; if it were invalid, the default one would do.
    if let Ok(style) =
        ProgressStyle::with_template("{bar:24.green/dim} {percent:>3} %  {wide_msg}  {elapsed}")
    {
        bar.set_style(style.progress_chars("━╸━"));
    }
    bar
}

fn line(index: usize, epochs: usize, epoch: &Epoch) -> String {
    let width = epochs.to_string().len();
    format!(
        "epoch {:>width$}/{epochs}  loss {:.4}  train {:.2} %  test {:.2} %  {:.2} s",
        index + 1,
        epoch.loss,
        100.0 * epoch.train_accuracy,
        100.0 * epoch.test_accuracy,
        epoch.seconds,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch {
        loss: 0.25,
        train_accuracy: 0.9375,
        test_accuracy: 0.5,
        seconds: 1.5,
    };

    #[test]
    fn a_line_shows_the_progress() {
        assert_eq!(
            line(2, 12, &EPOCH),
            "epoch  3/12  loss 0.2500  train 93.75 %  test 50.00 %  1.50 s"
        );
    }

    #[test]
    fn every_style_handles_a_whole_run() {
        for style in [Style::Bar(bar()), Style::Lines, Style::Silent] {
            let progress = Progress {
                epochs: 1,
                label: String::new(),
                style,
            };
            progress.start(2);
            progress.step();
            progress.step();
            progress.epoch(0, &EPOCH);
            progress.finish();
        }
    }
}
