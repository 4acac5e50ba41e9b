//! Errors of the store, by the party at fault: the operator (lock, schema, permissions, disk space)
//! or the storage itself. Owns the mapping from operating-system errors.

use std::io;
use std::path::PathBuf;

/// Why a read or a write failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No space left on the device, or a quota is used up. Clears when the operator makes room.
    #[error("the disk is full")]
    Full,
    /// The engine is closed for the moment: it is being reopened after a failure.
    #[error("the store is being reopened after a failure: {0}")]
    Unavailable(String),
    /// The engine refuses writes since a write failed; it takes a reopening.
    #[error("the engine refuses writes since a failure: {0}")]
    Poisoned(String),
    /// What is stored contradicts its own format.
    #[error("stored data is damaged: {0}")]
    Corrupt(String),
    /// Something else writes to this store already (a journal, a bulk load).
    #[error("the store has another writer")]
    HasWriter,
    /// A record that must not be applied.
    #[error(transparent)]
    Record(#[from] crate::record::RecordError),
    /// Any other error of the operating system.
    #[error("storage failed: {0}")]
    Io(String),
}

/// Why a store could not be opened, backed up or restored.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("{} is in use by another process{}", path.display(), owner(*pid))]
    Locked {
        /// The store's folder.
        path: PathBuf,
        /// The other process, if it said who it is.
        pid: Option<u32>,
    },
    /// Written by a newer version of this program.
    #[error(
        "the data has schema {found}; this version knows up to {supported}: upgrade the program"
    )]
    NewerSchema {
        /// The schema of the data.
        found: u32,
        /// The newest schema that this program knows.
        supported: u32,
    },
    /// Damaged, truncated, or not a store.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// The folder cannot be written to.
    #[error("{} cannot be written to (read-only or not permitted)", .0.display())]
    ReadOnly(PathBuf),
    /// No space left.
    #[error("the disk is full")]
    Full,
    /// The place to restore to already has something in it.
    #[error("{} is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// Any other error of the operating system.
    #[error("{}: {}", path.display(), source)]
    Io {
        /// What was accessed.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The store was open but an operation on it failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn owner(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

/// Whether an operating-system error means that there is no room.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

impl OpenError {
    /// Sorts an operating-system error about `path` into the operator's terms.
    pub(crate) fn from_io(path: &std::path::Path, source: io::Error) -> OpenError {
        match source.kind() {
            _ if is_full(&source) => OpenError::Full,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                OpenError::ReadOnly(path.to_owned())
            }
            _ => OpenError::Io {
                path: path.to_owned(),
                source,
            },
        }
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> StoreError {
        if is_full(&error) {
            StoreError::Full
        } else {
            StoreError::Io(error.to_string())
        }
    }
}
