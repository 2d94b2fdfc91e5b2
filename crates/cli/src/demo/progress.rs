//! How far the training is: a bar for a person who watches, lines for a pipe.

use indicatif::{ProgressBar, ProgressStyle};

use super::history::Epoch;
use crate::terminal;

/// Tells about a run while it runs.
pub struct Progress {
    epochs: usize,
    /// What stands before each line: the backend, where there are several.
    label: String,
    style: Style,
}

enum Style {
    Bar(ProgressBar),
    Lines,
    /// JSON into a pipe: nobody reads anything but the object.
    Silent,
}

impl Progress {
    pub fn new(epochs: usize, json: bool, backend: Option<&String>) -> Self {
        let style = match (terminal::watched(), json) {
            // The bar is drawn on standard error, so the object on standard output stays alone.
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

    /// The training is about to begin and has this many steps in all.
    pub fn start(&self, steps: u64) {
        if let Style::Bar(bar) = &self.style {
            bar.set_length(steps);
            bar.set_message(format!("{}training", self.label));
        }
    }

    /// One step of the optimiser is done.
    pub fn step(&self) {
        if let Style::Bar(bar) = &self.style {
            bar.inc(1);
        }
    }

    /// An epoch is done; `index` counts from 0.
    pub fn epoch(&self, index: usize, epoch: &Epoch) {
        let text = format!("{}{}", self.label, line(index, self.epochs, epoch));
        match &self.style {
            Style::Bar(bar) => bar.set_message(text),
            Style::Lines => {
                // Whether anyone still reads the lines does not matter to the training.
                let _ = terminal::say(&text);
            }
            Style::Silent => {}
        }
    }

    /// The training is over, well or not: the bar leaves no trace.
    pub fn finish(&self) {
        if let Style::Bar(bar) = &self.style {
            bar.finish_and_clear();
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    // A template is text of ours; if it were wrong, the default one still shows how far things are.
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
    fn a_line_says_where_we_are() {
        assert_eq!(
            line(2, 12, &EPOCH),
            "epoch  3/12  loss 0.2500  train 93.75 %  test 50.00 %  1.50 s"
        );
    }

    #[test]
    fn every_style_bears_the_whole_run() {
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
