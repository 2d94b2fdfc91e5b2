//! Everything CI runs, ending in one line that says how much passed.

use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, Outcome, lint, shell};

pub fn run() -> Outcome {
    let mut total = Count::default();
    let mut faults = Vec::new();

    if let Err(failure) = lint::run() {
        total.failed += 1;
        faults.push(failure.message());
    }
    total += tests(&mut faults)?;
    for example in examples(&shell::root().join("crates"))? {
        match shell::run(Command::new(built(&example)?)) {
            Ok(()) => total.passed += 1,
            Err(message) => {
                total.failed += 1;
                faults.push(message);
            }
        }
    }

    for fault in &faults {
        eprintln!("{fault}");
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    if total.failed == 0 {
        Ok(())
    } else {
        Err(Failure::Told)
    }
}

/// `cargo test` over the workspace: unit, property, integration and doc tests.
fn tests(faults: &mut Vec<String>) -> Result<Count, String> {
    let mut count = Count::default();
    let args = ["test", "--workspace", "--no-fail-fast"];
    let good = shell::watch(shell::cargo(&args), |line| {
        if let Some(found) = Count::of(line) {
            count += found;
        }
    })?;
    if !good {
        faults.push("`cargo test --workspace` failed".into());
        // A test that does not build, or a process that dies, has no line of its own.
        count.failed = count.failed.max(1);
    }
    Ok(count)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    passed: usize,
    failed: usize,
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl Count {
    /// Reads `test result: ok. 3 passed; 0 failed; …`; any other line is `None`.
    fn of(line: &str) -> Option<Self> {
        // A test that prints without a final newline may stand before it on the line.
        let (_, rest) = line.split_once("test result: ")?;
        let number = |word: &str| {
            let before = rest.split_once(word)?.0.trim_end();
            before.rsplit(' ').next()?.parse().ok()
        };
        Some(Count {
            passed: number(" passed")?,
            failed: number(" failed")?,
        })
    }
}

/// The name of each file in `crates/*/examples`. Those named `bench_*` measure and belong to `bench`.
fn examples(crates: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for path in shell::files(crates, &["rs"])? {
        let folder = path.parent().unwrap_or(crates);
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let beside_manifest = folder.with_file_name("Cargo.toml").is_file();
        if folder.ends_with("examples") && beside_manifest && !name.starts_with("bench_") {
            found.push(name.into_owned());
        }
    }
    Ok(found)
}

/// Where `cargo test` has put an example: beside this very program. Run by `cargo run` it would be built once more,
/// and the engine with it, because the crate alone asks its dependencies for fewer features than the workspace does.
fn built(example: &str) -> Result<PathBuf, String> {
    let own = std::env::current_exe()
        .map_err(|error| format!("xtask does not know where it is: {error}"))?;
    let name = format!("{example}{}", std::env::consts::EXE_SUFFIX);
    Ok(own.with_file_name("examples").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(
            Count::of(line),
            Some(Count {
                passed: 12,
                failed: 3
            })
        );
        let ok = "loose outputtest result: ok. 0 passed; 0 failed; 0 ignored";
        assert_eq!(Count::of(ok), Some(Count::default()));
    }

    #[test]
    fn other_lines_are_not() {
        assert_eq!(Count::of("test result is unknown"), None);
        assert_eq!(Count::of("test result: ok. many passed; 0 failed"), None);
        assert_eq!(Count::of("running 3 tests"), None);
    }
}
