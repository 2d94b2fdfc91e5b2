//! The functional rows: Python tests that fill the dashboards, and the pages made of what they found.

use std::thread;

use crate::{Failure, Outcome, python, shell};

/// The tests.
pub const TESTS: &str = "python/tests/rows";
/// The folder of `clematis check` that the pages are written to.
pub const OUT: &str = "target/check";
/// Both halves of the backends, as pytest's `-k` chooses them, and the file of each half's cells. jax compiles for
/// most of the time, so that it has a processor of its own.
const HALVES: [(&str, &str); 2] = [
    ("jax", "target/rows-jax.jsonl"),
    ("not jax", "target/rows.jsonl"),
];

/// What one half said: whether all is well, and its lines.
pub struct Half {
    pub name: String,
    pub good: bool,
    pub lines: Vec<String>,
}

pub fn run(args: &[String]) -> Outcome {
    let full = match args {
        [] => false,
        [flag] if flag == "--full" => true,
        [other, ..] => {
            return Err(Failure::Usage(format!(
                "rows takes `--full` or nothing, not `{other}`"
            )));
        }
    };
    python::set_up()?;
    let halves = examples(full)?;
    let mut words = vec!["check", "--no-run", "--out", OUT];
    words.extend(files());
    let shown = shell::run(python::command("clematis", &words));
    match halves.iter().find(|half| !half.good) {
        Some(half) => Err(Failure::Check(format!("{} failed", half.name))),
        None => Ok(shown?),
    }
}

/// The options by which `clematis check` reads the cells.
pub fn files() -> Vec<&'static str> {
    let pairs = HALVES.iter().map(|(_, file)| ["--rows", file]);
    pairs.flatten().collect()
}

/// Runs the tests, few examples or all of them, both halves at once.
pub fn examples(full: bool) -> Result<Vec<Half>, String> {
    let half = |(backends, file): (&str, &str)| -> Result<Half, String> {
        let mut words = vec!["-m", "pytest", TESTS, "-k", backends, "--rows-out", file];
        words.extend(full.then_some("--rows-full"));
        let command = python::command("python", &words);
        let name = format!("`{}`", shell::shown(&command));
        let mut lines = Vec::new();
        let good = shell::watch(command, |line| lines.push(line.to_string()))?;
        Ok(Half { name, good, lines })
    };
    thread::scope(|scope| {
        let started = HALVES.map(|which| scope.spawn(move || half(which)));
        let ended = started.map(|thread| thread.join().unwrap_or_else(|_| Err("a panic".into())));
        ended.into_iter().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_arguments_are_refused() {
        let args = ["--fast".to_string()];
        assert!(matches!(run(&args), Err(Failure::Usage(why)) if why.contains("--fast")));
    }

    #[test]
    fn the_tests_are_where_they_are_looked_for() {
        assert!(shell::root().join(TESTS).join("conftest.py").is_file());
        assert_eq!(files().len(), 2 * HALVES.len());
    }
}
