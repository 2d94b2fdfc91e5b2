//! Results of other runners: files of them, and the functional rows, which are tests of the Python package.
//!
//! Those tests stand in the source tree and not in the wheel, so `--full` works in a checkout alone.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clematis_conform::Cell;

use crate::error::{Error, Result};

/// Where the tests are, from the root of a checkout.
const TESTS: &str = "python/tests/rows";
/// Where they leave what they found, in the folder of the results.
pub const FILE: &str = "rows.jsonl";
/// What pytest says when all tests ran and some failed.
const SOME_FAILED: i32 = 1;

/// Reads what other runners have found.
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

/// The checkout that this folder is in.
fn checkout(from: &Path) -> Result<PathBuf> {
    let found = from.ancestors().find(|folder| folder.join(TESTS).is_dir());
    found.map(Path::to_path_buf).ok_or_else(|| {
        Error::new(format!(
            "check: --full runs the tests in {TESTS}, and {} is not in a checkout that has them",
            from.display()
        ))
    })
}

/// The Python that is active, or else the one of `cargo xtask setup`.
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

/// Runs all rows with all their examples, and gives what they found, which is left in a file too.
pub fn full(file: &Path, backends: &[String], quiet: bool) -> Result<Vec<Cell>> {
    let unknown = |error| Error::new(format!("check: where this is is not known: {error}"));
    let root = checkout(&std::env::current_dir().map_err(unknown)?)?;
    let file = std::path::absolute(file).map_err(unknown)?;
    // A file of an earlier run must not pass for this one's. That there is none is just as well.
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
            "check: the rows did not run: {name} -m pytest {TESTS} ended with {status}"
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
