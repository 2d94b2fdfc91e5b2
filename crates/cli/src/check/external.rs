//! Results of other test runners: their files, and the Python tests of the package, run with `--full`.
//!
//! Those tests are in the source tree and not in the wheel, so `--full` works only in a checkout.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clematis_conform::Cell;

use crate::error::{Error, Result};

/// The folder of the tests, from the root of a checkout.
const TESTS: &str = "python/tests/ivy_rows";
/// The file that they write, in the folder of the results.
pub const FILE: &str = "rows.jsonl";
/// pytest's exit code if all tests ran and some failed.
const SOME_FAILED: i32 = 1;

/// Reads result files of other runners.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Cell>> {
    let mut rows = Vec::new();
    for path in paths {
        let wrong = |why: String| Error::new(format!("{}: {why}", path.display()));
        let text = std::fs::read_to_string(path)
            .map_err(|error| wrong(format!("cannot be read: {error}")))?;
        rows.extend(Cell::read(&text).map_err(|error| wrong(error.to_string()))?);
    }
    Ok(rows)
}

/// The checkout that contains this folder.
fn checkout(from: &Path) -> Result<PathBuf> {
    let found = from.ancestors().find(|folder| folder.join(TESTS).is_dir());
    found.map(Path::to_path_buf).ok_or_else(|| {
        Error::new(format!(
            "check: --full runs the tests in {TESTS}, and {} is not in a checkout that has them",
            from.display()
        ))
    })
}

/// The active Python, or else the one of `cargo xtask setup`.
fn interpreter(root: &Path) -> PathBuf {
    let of = |venv: PathBuf| match cfg!(windows) {
        true => venv.join("Scripts").join("python.exe"),
        false => venv.join("bin").join("python"),
    };
    let active = std::env::var_os("VIRTUAL_ENV").map(|venv| of(venv.into()));
    active
        .into_iter()
        .chain([of(root.join(".venv"))])
        .find(|python| python.is_file())
        .unwrap_or_else(|| "python3".into())
}

/// Runs all Python tests with all examples; returns their results, which are also written to a file.
pub fn full(file: &Path, backends: &[String], quiet: bool) -> Result<Vec<Cell>> {
    let unknown = |error| {
        Error::new(format!(
            "check: cannot determine the current folder: {error}"
        ))
    };
    let root = checkout(&std::env::current_dir().map_err(unknown)?)?;
    let file = std::path::absolute(file).map_err(unknown)?;
    // A file of an earlier run must not be mistaken for this one's. It is fine if there is none.
    let _ = std::fs::remove_file(&file);
    let python = interpreter(&root);
    let mut command = Command::new(&python);
    command
        .args(["-m", "pytest", TESTS, "--rows-full", "--rows-out"])
        .arg(&file)
        .current_dir(&root);
    if !backends.is_empty() {
        command.args(["-k", &backends.join(" or ")]);
    }
    if quiet {
        command.stdout(Stdio::null());
    }
    let name = python.display();
    let status = command
        .status()
        .map_err(|error| Error::new(format!("check: {name} cannot be run: {error}")))?;
    match status.code() {
        Some(0 | SOME_FAILED) if file.is_file() => read(&[file]),
        _ => Err(Error::new(format!(
            "check: the Python tests did not run: {name} -m pytest {TESTS} ended with {status}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkout_is_found_from_inside_and_missed_from_outside() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = checkout(folder.path()).map_err(|e| e.to_string());
        assert!(error.is_err_and(|why| why.contains(TESTS)));
        std::fs::create_dir_all(folder.path().join(TESTS)).expect("made");
        let deep = folder.path().join("python/tests");
        assert_eq!(checkout(&deep).ok().as_deref(), Some(folder.path()));
    }
}
