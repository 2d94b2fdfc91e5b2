//! Runs the Python tests that fill the dashboards, and writes the pages with their results.

use std::thread;

use crate::{Failure, Outcome, python, shell};

/// The tests.
pub const TESTS: &str = "python/tests/ivy_rows";
/// The folder of `clematis check` that the pages are written to.
pub const OUT: &str = "target/check";
/// Two shards of the backends, as pytest's `-k` selects them, with the file of each shard's results. jax compiles
/// most of the time, so it gets a core of its own.
const SHARDS: [(&str, &str); 2] = [
    ("jax", "target/rows-jax.jsonl"),
    ("not jax", "target/rows.jsonl"),
];

/// The result of one shard: whether it passed, and its output.
pub struct Shard {
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
    let shards = examples(full)?;
    let mut words = vec!["check", "--no-run", "--out", OUT];
    words.extend(files());
    let shown = shell::run(python::command("clematis", &words));
    match shards.iter().find(|shard| !shard.good) {
        Some(shard) => Err(Failure::Check(format!("{} failed", shard.name))),
        None => Ok(shown?),
    }
}

/// The options with which `clematis check` reads the results.
pub fn files() -> Vec<&'static str> {
    let pairs = SHARDS.iter().map(|(_, file)| ["--rows", file]);
    pairs.flatten().collect()
}

/// Runs the tests, with few examples or all of them, both shards in parallel.
pub fn examples(full: bool) -> Result<Vec<Shard>, String> {
    let shard = |(backends, file): (&str, &str)| -> Result<Shard, String> {
        let mut words = vec!["-m", "pytest", TESTS, "-k", backends, "--rows-out", file];
        words.extend(full.then_some("--rows-full"));
        let command = python::command("python", &words);
        let name = format!("`{}`", shell::shown(&command));
        let mut lines = Vec::new();
        let good = shell::watch(command, |line| lines.push(line.to_string()))?;
        Ok(Shard { name, good, lines })
    };
    thread::scope(|scope| {
        let started = SHARDS.map(|which| scope.spawn(move || shard(which)));
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
        assert_eq!(files().len(), 2 * SHARDS.len());
    }
}
