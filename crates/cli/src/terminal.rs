//! Standard output and standard error, without the panics of `println!`.

use std::io::{ErrorKind, IsTerminal, Write};

use crate::error::{Error, Result};

/// Prints a line. A reader that has seen enough (`clematis demo | head`) is no failure.
pub fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::new(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints an error. There is nowhere to report that this failed.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "error: {text}");
}

/// Whether a person is watching standard output and standard error.
pub fn watched() -> (bool, bool) {
    (
        std::io::stdout().is_terminal(),
        std::io::stderr().is_terminal(),
    )
}
