//! The library's error type.
//!
//! Owns `Error`, its closed list of kinds and the two macros that construct errors. A kind tells the caller how to
//! react, never which op failed; the message names the op and both values.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// Result of every fallible function of the library.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an error, as far as a caller can react to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Mismatched shapes.
    Shape,
    /// A dtype that an op does not support, or two dtypes that do not match.
    DType,
    /// An axis or index out of range.
    Index,
    /// An invalid value.
    Value,
    /// Tensors of two backends, or an unknown backend.
    Backend,
    /// An op or feature that a backend does not support.
    Unsupported,
    /// An op that is not differentiable.
    Diff,
    /// Trees with different structures.
    Structure,
    /// A value read from a tracer, or a tracer used after its trace has ended.
    Trace,
    /// A graph, model or text that cannot be read or written.
    Convert,
    /// A file that cannot be read or written.
    Io,
    /// An error raised by a framework.
    Framework,
    /// A bug in this library: please report it.
    Internal,
}

/// The boxed report: eight bytes, so that `Result<Tensor>` is two words.
#[derive(Clone)]
pub struct Error(Box<Report>);

#[derive(Clone)]
struct Report {
    kind: Kind,
    message: String,
    notes: Vec<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    location: &'static Location<'static>,
}

impl Error {
    /// Creates an error. The message has the form `op: expected X, got Y`, with both values.
    #[track_caller]
    #[cold]
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error(Box::new(Report {
            kind,
            message: message.into(),
            notes: Vec::new(),
            source: None,
            location: Location::caller(),
        }))
    }

    /// Adds a note that says where it happened or what to do.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.0.notes.push(note.into());
        self
    }

    /// Attaches the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The message without notes.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The notes, in the order in which they were added.
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }

    /// The location in the Rust source where it was created.
    pub fn location(&self) -> &'static Location<'static> {
        self.0.location
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for note in &self.0.notes {
            write!(f, "\n  note: {note}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self} ({})", self.0.kind, self.0.location)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// Returns an error: `bail!(Shape, "dot: …")`.
#[macro_export]
macro_rules! bail {
    ($kind:ident, $($message:tt)+) => {
        return Err($crate::Error::new($crate::Kind::$kind, format!($($message)+)))
    };
}

/// Returns an error unless the condition holds: `ensure!(rank < 3, Shape, "dot: …")`.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $kind:ident, $($message:tt)+) => {
        // Not `!condition`: negating a comparison of floats trips a lint, because NaN compares false.
        if $condition {
        } else {
            $crate::bail!($kind, $($message)+);
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_a_pointer_is_two_words() {
        assert_eq!(size_of::<Error>(), 8);
        assert!(size_of::<Result<Box<u8>>>() <= 16);
    }

    #[test]
    fn notes_follow_the_message() {
        let e = Error::new(Kind::Shape, "dot: 3 and 4").note("in layers.0");
        assert_eq!(e.to_string(), "dot: 3 and 4\n  note: in layers.0");
        assert_eq!(e.kind(), Kind::Shape);
    }
}
