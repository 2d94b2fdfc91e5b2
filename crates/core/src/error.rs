//! The one error of the library.
//!
//! Owns `Error`, its closed list of kinds and the two macros that make one.
//! A kind says what the caller can do about it, never which op failed; the message names the op and both values.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// The result of everything that can fail here.
pub type Result<T> = std::result::Result<T, Error>;

/// What sort of mistake it was, as far as a caller can act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Sizes that do not fit each other.
    Shape,
    /// An element type that an op does not take, or two that do not fit.
    DType,
    /// An axis or an index out of range.
    Index,
    /// A value outside of what is allowed.
    Value,
    /// Tensors of two backends, or a backend that is not there.
    Backend,
    /// Something that a backend cannot do.
    Unsupported,
    /// Something that cannot be differentiated.
    Diff,
    /// Trees that are not made alike.
    Structure,
    /// A value asked for while tracing, or a tensor that outlived its trace.
    Trace,
    /// A graph, a model or a text that cannot be read or written.
    Convert,
    /// A file that cannot be read or written.
    Io,
    /// A framework's own failure.
    Foreign,
    /// A mistake of ours: please report it.
    Internal,
}

/// A boxed report: eight bytes, so that `Result<Tensor>` stays two words.
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
    /// An error of this kind; the message has the form `op: what was wrong, with both values`.
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

    /// Adds a line that tells where it happened or what to do.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.0.notes.push(note.into());
        self
    }

    /// Keeps the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// What sort of mistake it was.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The first line, without notes.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The lines added on the way up.
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }

    /// Where in the Rust source it was raised.
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
        // Not `!condition`: a comparison with NaN is false, and negating it reads as a mistake.
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
    fn a_result_of_a_pointer_stays_two_words() {
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
