//! Writes to standard output and standard error without the panics of `println!`.

use std::io::{ErrorKind, IsTerminal, Write};

use clematis_convert::literal;

use crate::error::{Error, Result};

/// Escapes control characters of files and errors, which could move the cursor and hide text.
fn plain(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(literal::terminal).collect();
    lines.join("\n")
}

/// Prints JSON on one line, with control characters escaped.
pub fn print_json(value: &serde_json::Value) -> Result<()> {
    print_line(&literal::json(&value.to_string()))
}

/// Prints a line. A closed pipe (`clematis demo | head`) is not a failure.
pub fn print_line(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{}", plain(text)).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::new(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints an error. A failure to do so cannot be reported.
pub fn print_error(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "error: {}", plain(text));
}

/// Whether standard output and standard error are terminals.
pub fn are_terminals() -> (bool, bool) {
    (
        std::io::stdout().is_terminal(),
        std::io::stderr().is_terminal(),
    )
}
