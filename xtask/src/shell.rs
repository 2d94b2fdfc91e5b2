//! Runs other programs from the repository root, and lists files.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The repository root: the folder above this crate.
pub fn root() -> PathBuf {
    // Cargo sets the variable for `cargo run`; it is correct even if the checkout was moved after the build.
    let own = std::env::var_os("CARGO_MANIFEST_DIR")
        .unwrap_or_else(|| OsString::from(env!("CARGO_MANIFEST_DIR")));
    let own = PathBuf::from(own);
    own.parent().map(Path::to_path_buf).unwrap_or(own)
}

/// A `cargo` command at the root, with the same toolchain as this tool.
pub fn cargo<S: AsRef<str>>(args: &[S]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command
        .args(args.iter().map(|arg| arg.as_ref()))
        .current_dir(root())
        // The crates that use Python are built for the stable ABI, so no interpreter is needed.
        .env("PYO3_NO_PYTHON", "1")
        .env("PYO3_BUILD_EXTENSION_MODULE", "1");
    command
}

/// A command as text, for messages.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut words = vec![
        program
            .file_name()
            .unwrap_or(program.as_os_str())
            .to_string_lossy()
            .into_owned(),
    ];
    words.extend(
        command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

/// Runs a command in our terminal; an error names the command and its exit status.
pub fn run(mut command: Command) -> Result<(), String> {
    let name = shown(&command);
    eprintln!("> {name}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{name}` failed ({status})")),
        Err(error) => Err(format!("`{name}` could not be started: {error}")),
    }
}

/// Runs a command, passes each line of its output to `see` and prints it too. Returns whether it succeeded.
pub fn watch(mut command: Command, mut see: impl FnMut(&str)) -> Result<bool, String> {
    let name = shown(&command);
    eprintln!("> {name}");
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("`{name}` could not be started: {error}"))?;
    if let Some(out) = child.stdout.take() {
        // Tests may print anything, so lines are bytes first, decoded lossily.
        for line in BufReader::new(out).split(b'\n') {
            let line = line.map_err(|error| format!("`{name}`: output not readable: {error}"))?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            see(&line);
        }
    }
    let status = child
        .wait()
        .map_err(|error| format!("`{name}` did not end: {error}"))?;
    Ok(status.success())
}

/// The output of a command, or an error with its output.
pub fn output(mut command: Command) -> Result<String, String> {
    let name = shown(&command);
    let out = command
        .output()
        .map_err(|error| format!("`{name}` could not be started: {error}"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(format!("`{name}` failed ({}): {}", out.status, said.trim()));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// All files below `folder` with one of these extensions, sorted, without build output and hidden folders.
pub fn files(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let cannot = |error| format!("{} cannot be read: {error}", folder.display());
        for entry in std::fs::read_dir(&folder).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if path.is_dir() {
                if !name.starts_with('.') && name != "target" && name != "__pycache__" {
                    folders.push(path);
                }
            } else if path
                .extension()
                .is_some_and(|own| extensions.iter().any(|wanted| own == *wanted))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Reads a text file; an error names it.
pub fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

/// A path relative to the root, with forward slashes.
pub fn relative(path: &Path, root: &Path) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = path
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    parts.join("/")
}
