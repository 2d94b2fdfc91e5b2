//! The static checks: formatting, clippy, layers, sizes, documents.

use crate::{Failure, Outcome, documents, layers, shell, sizes};

/// Runs all checks, even after one has failed, so that one run reports everything.
pub fn run() -> Outcome {
    let checks = [
        command(&["fmt", "--all", "--check"]),
        command(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]),
        layers::run(),
        sizes::run(),
        documents::run(),
    ];
    let failed: Vec<String> = checks
        .into_iter()
        .filter_map(|check| check.err().map(Failure::message))
        .collect();
    if failed.is_empty() {
        println!("lint: clean");
        return Ok(());
    }
    Err(format!("lint found:\n{}", failed.join("\n")).into())
}

fn command(args: &[&str]) -> Outcome {
    Ok(shell::run(shell::cargo(args))?)
}
