//! What goes wrong on the command line: one message for a person to read.

use std::fmt;

/// A message in the form `subject: what was wrong, with both values`.
#[derive(Debug)]
pub struct Error(String);

/// The result of everything a verb does.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(message: impl Into<String>) -> Self {
        Error(message.into())
    }

    /// What the engine said, its notes included.
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
