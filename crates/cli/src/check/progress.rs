//! Progress of the checks: a bar on a terminal, lines in a pipe.

use std::sync::Mutex;
use std::sync::PoisonError;

use clematis_conform::{Cell, Tally};
use indicatif::{ProgressBar, ProgressStyle};

use crate::terminal;

/// Reports progress.
pub struct Progress {
    style: Style,
    now: Mutex<Now>,
}

enum Style {
    Bar(ProgressBar),
    Lines,
    /// With --json into a pipe: only the object is printed.
    Silent,
}

#[derive(Default)]
struct Now {
    backend: String,
    todo: usize,
    done: usize,
    tally: Tally,
}

impl Progress {
    pub fn new(json: bool) -> Self {
        let style = match (terminal::are_terminals(), json) {
            // The bar is drawn on standard error, so that standard output has only the object.
            ((_, true), true) | ((true, true), false) => Style::Bar(bar()),
            (_, true) => Style::Silent,
            (_, false) => Style::Lines,
        };
        Progress {
            style,
            now: Mutex::default(),
        }
    }

    /// Starts a backend.
    pub fn backend(&self, name: &str, todo: usize, resumed: usize) {
        let mut now = self.now();
        *now = Now {
            backend: name.to_string(),
            todo,
            ..Now::default()
        };
        let text = match (todo, resumed) {
            (0, 0) => return,
            (0, _) => format!("{name}: all {resumed} were done by an unfinished run"),
            (1, 0) => format!("{name}: 1 test"),
            (_, 0) => format!("{name}: {todo} tests"),
            _ => format!("{name}: {todo} to run; {resumed} were done by an unfinished run"),
        };
        match &self.style {
            Style::Bar(bar) => {
                bar.set_length(todo as u64);
                bar.set_position(0);
                bar.set_message(text);
            }
            style => style.line(&text),
        }
    }

    /// Reports a finished test.
    pub fn step(&self, test: &str, cells: &[Cell]) {
        let mut now = self.now();
        now.done += 1;
        for cell in cells {
            now.tally.add(cell);
        }
        let failed = match now.tally.failed {
            0 => String::new(),
            n => format!(", {n} failed"),
        };
        match &self.style {
            Style::Bar(bar) => {
                bar.inc(1);
                bar.set_message(format!("{}: {test}{failed}", now.backend));
            }
            // One line per fifth is enough for a log.
            style
                if now.done < now.todo
                    && now.done * 5 / now.todo > (now.done - 1) * 5 / now.todo =>
            {
                style.line(&format!(
                    "{}: {} of {}{failed}",
                    now.backend, now.done, now.todo
                ));
            }
            _ => {}
        }
    }

    /// Finishes a backend.
    pub fn backend_done(&self) {
        let now = self.now();
        let t = &now.tally;
        if now.todo > 0 && matches!(self.style, Style::Lines) {
            let text = format!(
                "{}: {} passed, {} limits, {} failed",
                now.backend, t.passed, t.limits, t.failed
            );
            self.style.line(&text);
        }
    }

    /// Removes the bar, also after an error.
    pub fn finish(&self) {
        if let Style::Bar(bar) = &self.style {
            bar.finish_and_clear();
        }
    }

    fn now(&self) -> std::sync::MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Style {
    fn line(&self, text: &str) {
        if let Style::Lines = self {
            // A closed output must not stop the run.
            let _ = terminal::print_line(text);
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

#[cfg(test)]
mod tests {
    use super::*;
    use clematis_conform::{Dashboard, State};

    #[test]
    fn every_style_handles_a_whole_run() {
        for style in [Style::Bar(bar()), Style::Lines, Style::Silent] {
            let progress = Progress {
                style,
                now: Mutex::default(),
            };
            for (todo, resumed) in [(7, 0), (1, 3), (0, 2), (0, 0)] {
                progress.backend("native", todo, resumed);
                for _ in 0..todo {
                    let cell = Cell::new(Dashboard::Ops, "test_add", "native", State::Failed);
                    progress.step("add f32", &[cell]);
                }
                assert_eq!(progress.now().tally.failed, todo);
                progress.backend_done();
            }
            progress.finish();
        }
    }
}
