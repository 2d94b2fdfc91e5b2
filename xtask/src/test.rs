//! Everything CI runs, ending in one line that says how much passed.

use std::ops::AddAssign;
use std::path::Path;

use crate::{Failure, Outcome, lint, shell};

pub fn run() -> Outcome {
    let mut total = Count::default();
    let mut faults = Vec::new();

    if let Err(failure) = lint::run() {
        total.failed += 1;
        faults.push(failure.message());
    }
    total += tests(&mut faults)?;
    for (package, example) in examples(&shell::root().join("crates"))? {
        let args = ["run", "--quiet", "-p", &package, "--example", &example];
        match shell::run(shell::cargo(&args)) {
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

/// `(package, example)` for each file in `crates/*/examples`. Those named `bench_*` measure and belong to `bench`.
fn examples(crates: &Path) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    for manifest in shell::files(crates, &["toml"])? {
        let folder = manifest.parent().unwrap_or(crates).join("examples");
        if !manifest.ends_with("Cargo.toml") || !folder.is_dir() {
            continue;
        }
        let Some(package) = package(&shell::read(&manifest)?) else {
            return Err(format!("{}: no package name", manifest.display()));
        };
        for path in shell::files(&folder, &["rs"])? {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let single = path.parent() == Some(folder.as_path());
            if single && !name.starts_with("bench_") {
                found.push((package.clone(), name.into_owned()));
            }
        }
    }
    Ok(found)
}

/// The `name` in the `[package]` table of a manifest.
fn package(manifest: &str) -> Option<String> {
    let (_, table) = manifest.split_once("[package]")?;
    table
        .lines()
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .find_map(|line| {
            let (key, value) = line.split_once('=')?;
            (key.trim() == "name").then(|| value.trim().trim_matches('"').to_string())
        })
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

    #[test]
    fn a_manifest_tells_its_package() {
        let text = "[package]\nname = \"clematis-core\"\nversion = \"1\"\n[lib]\nname = \"x\"\n";
        assert_eq!(package(text).as_deref(), Some("clematis-core"));
        assert_eq!(package("[workspace]\n"), None);
        assert_eq!(package("[package]\n[lib]\nname = \"x\"\n"), None);
    }
}
