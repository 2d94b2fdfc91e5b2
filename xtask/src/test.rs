//! Runs everything that CI runs, and prints one line with the total.

use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, Outcome, ivy_rows, lint, python, sanitize, shell};

pub fn run(args: &[String]) -> Outcome {
    let mut total = Count::default();
    let mut faults = Vec::new();
    let all = match args {
        [] => false,
        [flag] if flag == "--all" => true,
        [flag] if flag == "--deep" => {
            total += sanitized(&mut faults, true);
            return end(total, &faults);
        }
        [other, ..] => {
            return Err(Failure::Usage(format!(
                "test takes `--all`, `--deep` or nothing, not `{other}`"
            )));
        }
    };

    if let Err(failure) = lint::run() {
        total.failed += 1;
        faults.push(failure.message());
    }
    total += tests(&mut faults)?;
    total += sanitized(&mut faults, false);
    for example in examples(&shell::root().join("crates"))? {
        match shell::run(Command::new(built(&example)?)) {
            Ok(()) => total.passed += 1,
            Err(message) => {
                total.failed += 1;
                faults.push(message);
            }
        }
    }

    match python(&mut faults, all) {
        Ok(count) => total += count,
        Err(message) => {
            total.failed += 1;
            faults.push(message);
        }
    }

    end(total, &faults)
}

/// Miri and sanitizers, the short form or everything; a step counts as one test.
fn sanitized(faults: &mut Vec<String>, deep: bool) -> Count {
    let before = faults.len();
    let passed = sanitize::run(deep, faults);
    Count {
        passed,
        failed: faults.len() - before,
    }
}

/// Prints the failures, then one line with the total.
fn end(total: Count, faults: &[String]) -> Outcome {
    for fault in faults {
        eprintln!("{fault}");
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    if total.failed == 0 {
        Ok(())
    } else {
        Err(Failure::Reported)
    }
}

/// `cargo test` for the workspace: unit, property, integration and doc tests.
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
        // A test that does not build, or a process that crashes, has no result line.
        count.failed = count.failed.max(1);
    }
    Ok(count)
}

/// Python environment, Python tests, dashboards, and the matrix of ops and backends.
fn python(faults: &mut Vec<String>, all: bool) -> Result<Count, String> {
    python::set_up()?;
    let mut count = Count::default();
    let mut both = |name: &str, args: &[&str]| -> Result<(), String> {
        let mut found = None;
        let good = shell::watch(python::command(name, args), |line| {
            found = Count::of_python(line).or(found);
        })?;
        count += found.unwrap_or_default();
        if !good {
            faults.push(format!("`{name} {}` failed", args.join(" ")));
            if found.is_none_or(|f| f.failed == 0) {
                count.failed += 1;
            }
        }
        Ok(())
    };
    let others = format!("--ignore={}", ivy_rows::TESTS);
    both("python", &["-m", "pytest", "python/tests", &others])?;
    let shards = ivy_rows::examples(false)?;
    let out = ["--out", ivy_rows::OUT];
    let cells = ivy_rows::files();
    if all {
        both(
            "clematis",
            &[&["check", "--fresh"], &out[..], &cells].concat(),
        )?;
    } else {
        let quick = [
            "--backend",
            "native",
            "--backend",
            "numpy",
            "--backend",
            "torch",
            "--backend",
            "tensorflow",
        ];
        both(
            "clematis",
            &[&["check", "--fresh"], &out[..], &quick].concat(),
        )?;
        // jax compiles each op for every shape and dtype: only the common dtypes here, all with `--all`.
        let slow = [
            "--backend",
            "jax",
            "--dtype",
            "f32",
            "--dtype",
            "i32",
            "--dtype",
            "c64",
            "--dtype",
            "bool",
        ];
        both(
            "clematis",
            &[&["check"], &out[..], &slow, &cells[..]].concat(),
        )?;
    }
    for shard in shards {
        let found = shard
            .lines
            .iter()
            .rev()
            .find_map(|line| Count::of_python(line));
        count += found.unwrap_or_default();
        if !shard.good {
            faults.push(format!("{} failed", shard.name));
            if found.is_none_or(|f| f.failed == 0) {
                count.failed += 1;
            }
        }
    }
    match python::check_types() {
        Ok(()) => count.passed += 1,
        Err(message) => {
            count.failed += 1;
            faults.push(message);
        }
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
    /// Parses `test result: ok. 3 passed; 0 failed; …`; any other line is `None`.
    fn of(line: &str) -> Option<Self> {
        // A test that prints without a final newline may precede it on the line.
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

impl Count {
    /// Parses pytest's `3 failed, 12 passed in 0.5s` and the matrix's `12 passed, 1 limits, 3 failed in 2 s`.
    fn of_python(line: &str) -> Option<Self> {
        let (counts, _) = line.trim_matches(['=', ' ']).split_once(" in ")?;
        let number = |word: &str| {
            counts.split(", ").find_map(|part| {
                let (number, name) = part.split_once(' ')?;
                (name == word || name == format!("{word}s")).then(|| number.parse().ok())?
            })
        };
        let broken: usize = number("error").unwrap_or(0);
        let passed = number("passed")?;
        Some(Count {
            passed,
            failed: number("failed").unwrap_or(0) + broken,
        })
    }
}

/// The examples in `crates/*/examples`, without benchmarks (`bench_*`).
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

/// The path of an example that `cargo test` built, next to this program. `cargo run` would build it again, and the
/// engine with it, because a single crate enables fewer features than the workspace.
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
    fn python_lines_are_counted() {
        let of = |line| Count::of_python(line).map(|c| (c.passed, c.failed));
        assert_eq!(
            of("=== 2 failed, 12 passed, 1 error in 0.5s ==="),
            Some((12, 3))
        );
        assert_eq!(
            of("3398 passed, 0 limits, 137 failed in 13.3 s"),
            Some((3398, 137))
        );
        assert_eq!(of("12 passed in 1.20s"), Some((12, 0)));
        assert_eq!(of("tests passed in time"), None);
    }

    #[test]
    fn other_lines_are_not() {
        assert_eq!(Count::of("test result is unknown"), None);
        assert_eq!(Count::of("test result: ok. many passed; 0 failed"), None);
        assert_eq!(Count::of("running 3 tests"), None);
    }
}
