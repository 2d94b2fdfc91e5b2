//! Standard output and standard error, without the panics of `println!`.

use std::io::{ErrorKind, IsTerminal, Write};

use clematis_convert::literal;

use crate::error::{Error, Result};

/// What comes from files and errors may hold control characters, which move cursors and hide text: they are shown, not sent.
fn plain(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(literal::terminal).collect();
    lines.join("\n")
}

/// Prints JSON on one line, with the characters escaped that a terminal would act on.
pub fn say_json(value: &serde_json::Value) -> Result<()> {
    say(&literal::json(&value.to_string()))
}

/// Prints a line. A reader that has seen enough (`clematis demo | head`) is no failure.
pub fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{}", plain(text)).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::new(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints an error. There is nowhere to report that this failed.
pub fn complain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "error: {}", plain(text));
}

/// Whether a person is watching standard output and standard error.
pub fn watched() -> (bool, bool) {
    (
        std::io::stdout().is_terminal(),
        std::io::stderr().is_terminal(),
    )
}
