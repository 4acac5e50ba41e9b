//! Exit codes and the failures behind them. Owns the numbers, which are those of sysexits.h where
//! it has one; scripts and supervisors rely on them.

use std::fmt;
use std::process::ExitCode;

use crate::config::ConfigError;

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was refused, or it failed; a server did not start. Code 1.
    Failed(String),
    /// The command line makes no sense. Code 64.
    Usage(String),
    /// Data of the operator or of the store is damaged. Code 65.
    Data(String),
    /// It may work later: the server is starting, stopping or busy. Code 75.
    TryAgain(String),
    /// The configuration is wrong. Code 78.
    Config(ConfigError),
    /// Whoever reads our output has gone: there is nothing left to do. Code 0.
    NoReader,
}

/// A bug of ours: something panicked that nothing could be isolated from. Code 70.
pub(crate) const CRASH: u8 = 70;

/// A server that was told a second time to stop, before its streams were closed.
pub(crate) const CUT_SHORT: u8 = 1;

/// A machine that cannot hold the connections that the doctor was asked about, or an engine that
/// does not keep what a cluster needs.
pub(crate) const UNFIT: u8 = 1;

/// An upgrade that was undone, or not begun.
pub(crate) const UNDONE: u8 = 1;

/// A node whose deployment was raised to a format level that it does not know.
pub(crate) const OUTDATED: u8 = 1;

/// What `roost --help` says about exit codes.
pub(crate) const HELP: &str = "\
Exit codes:
  0   done; for serve: stopped in order
  1   refused or failed; for serve: could not start, or must be upgraded; for upgrade: undone, or
      not begun; for doctor and cluster check: something must be changed
  64  wrong command line
  65  damaged data: a store, a backup, a file to import
  70  crash: a bug in Roost
  75  try again: the server is starting, stopping or busy
  78  wrong configuration";

impl Failure {
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::NoReader => 0,
            Failure::Failed(_) => 1,
            Failure::Usage(_) => 64,
            Failure::Data(_) => 65,
            Failure::TryAgain(_) => 75,
            Failure::Config(_) => 78,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Failed(message)
            | Failure::Usage(message)
            | Failure::Data(message)
            | Failure::TryAgain(message) => f.write_str(message),
            Failure::Config(error) => error.fmt(f),
            Failure::NoReader => Ok(()),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::Config(error)
    }
}

impl From<watch::Failure> for Failure {
    fn from(failure: watch::Failure) -> Failure {
        match failure {
            watch::Failure::Failed(message) => Failure::Failed(message),
            watch::Failure::Usage(message) => Failure::Usage(message),
            watch::Failure::Data(message) => Failure::Data(message),
            watch::Failure::TryAgain(message) => Failure::TryAgain(message),
            watch::Failure::NoReader => Failure::NoReader,
        }
    }
}

/// An error while writing to standard output.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::NoReader,
            _ => Failure::Failed(format!("standard output: {error}")),
        }
    }
}
