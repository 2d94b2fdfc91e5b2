//! What a command returns: success, or why it failed.

/// Why a command failed.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// Invalid command line.
    Usage(String),
    /// A check or a command failed.
    Check(String),
    /// A check failed and has already printed its report.
    Reported,
}

impl Failure {
    pub fn message(self) -> String {
        match self {
            Failure::Usage(message) | Failure::Check(message) => message,
            Failure::Reported => "failed, see above".into(),
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Failure::Check(message)
    }
}

/// What a command returns.
pub type Outcome = Result<(), Failure>;
