//! Why somebody cannot watch. Owns the kinds, which are exit codes of the binary.

use std::{fmt, io};

/// Why a watcher ended, or got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It was refused, or it failed.
    Failed(String),
    /// The command line makes no sense.
    Usage(String),
    /// A recording is damaged.
    Data(String),
    /// It may work later: the server is starting, stopping or busy.
    TryAgain(String),
    /// Whoever reads our output has gone: there is nothing left to do.
    NoReader,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Failed(message)
            | Failure::Usage(message)
            | Failure::Data(message)
            | Failure::TryAgain(message) => f.write_str(message),
            Failure::NoReader => f.write_str("nobody reads the output"),
        }
    }
}

impl std::error::Error for Failure {}

/// An error while writing to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::NoReader,
            _ => Failure::Failed(format!("standard output: {error}")),
        }
    }
}
