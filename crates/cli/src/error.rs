//! Errors of the command line: one message for people.

use std::fmt;

/// A message of the form `subject: expected X, got Y`.
#[derive(Debug)]
pub struct Error(String);

/// Result of a subcommand.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(message: impl Into<String>) -> Self {
        Error(message.into())
    }

    /// Converts an engine error, including its notes.
    pub fn from_engine(error: clematis::Error) -> Self {
        Error(error.to_string())
    }
}

impl From<clematis::Error> for Error {
    fn from(error: clematis::Error) -> Self {
        Error::from_engine(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
