//! The folder of a store: who has it open and whether its making was finished. Owns the lock file
//! and the marker; the engine's files below `db/` are the engine's.
//!
//! ```text
//! lock     locked (flock) while open; holds the process id
//! marker   "roost store\n" and one of: creating, restoring, ready
//! appends  appends counted when the store was last closed: a store with fewer has lost its end
//! db/      the engine
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::OpenError;

const MAGIC: &str = "roost store\n";

/// Longest content of the lock file that is of interest.
const PID_BYTES_MAX: u64 = 16;

/// How far the making of a store got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing there yet.
    New,
    /// A first start was interrupted: there is no data to lose.
    Creating,
    /// A restore is under way or was interrupted.
    Restoring,
    /// A store.
    Ready,
}

/// A folder that this process has locked. The lock is the operating system's: it ends with the
/// process, however the process ends.
#[derive(Debug)]
pub(crate) struct Dir {
    path: PathBuf,
    lock: File,
}

impl Drop for Dir {
    /// Unlocks explicitly and not by closing: a child process that is just being started shares the
    /// open file for a moment.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

/// The process that has the store in a folder open, as it said itself; 0 if it said nothing. `None`
/// if there is no such process.
pub fn holder(path: &Path) -> Option<u32> {
    let lock = File::open(path.join("lock")).ok()?;
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let _ = (&lock).take(PID_BYTES_MAX).read_to_string(&mut pid);
            Some(pid.trim().parse().unwrap_or_default())
        }
        _ => None,
    }
}

impl Dir {
    /// Creates the folder if needed and locks it.
    pub(crate) fn lock(path: &Path) -> Result<Dir, OpenError> {
        let io = |source| OpenError::from_io(path, source);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(io)?;
        let lock_path = path.join("lock");
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let _ = (&lock).take(PID_BYTES_MAX).read_to_string(&mut pid);
                let path = path.to_owned();
                return Err(OpenError::Locked {
                    path,
                    pid: pid.trim().parse().ok(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        // The number only helps the operator: on a full disk the lock is as good without it.
        let written = lock.set_len(0).and_then(|()| lock.rewind());
        let _ = written.and_then(|()| writeln!(lock, "{}", std::process::id()));
        Ok(Dir {
            path: path.to_owned(),
            lock,
        })
    }

    /// Where the engine lives.
    pub(crate) fn engine_path(&self) -> PathBuf {
        self.path.join("db")
    }

    fn marker_path(&self) -> PathBuf {
        self.path.join("marker")
    }

    /// How far the store's making got.
    pub(crate) fn stage(&self) -> Result<Stage, OpenError> {
        let marker = match read_text(&self.marker_path()) {
            Ok(marker) => marker,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return if self.engine_path().exists() {
                    Err(OpenError::Corrupt("the marker file is missing".to_owned()))
                } else {
                    Ok(Stage::New)
                };
            }
            Err(error) => return Err(OpenError::from_io(&self.path, error)),
        };
        match marker.strip_prefix(MAGIC).map(str::trim_end) {
            Some("creating") => Ok(Stage::Creating),
            Some("restoring") => Ok(Stage::Restoring),
            Some("ready") => Ok(Stage::Ready),
            _ => Err(OpenError::Corrupt(
                "the marker file says nothing known".to_owned(),
            )),
        }
    }

    /// Durably notes how far the making got.
    pub(crate) fn set_stage(&self, stage: Stage) -> Result<(), OpenError> {
        let word = match stage {
            Stage::New | Stage::Creating => "creating",
            Stage::Restoring => "restoring",
            Stage::Ready => "ready",
        };
        let content = format!("{MAGIC}{word}\n");
        replace_file(&self.marker_path(), content.as_bytes())
            .map_err(|error| OpenError::from_io(&self.path, error))
    }

    fn appends_path(&self) -> PathBuf {
        self.path.join("appends")
    }

    /// The number of appends that was noted at the last orderly close, if there was one.
    pub(crate) fn appends(&self) -> Result<Option<u64>, OpenError> {
        match read_text(&self.appends_path()) {
            Ok(text) => match text.trim().parse() {
                Ok(appends) => Ok(Some(appends)),
                Err(_) => Err(OpenError::Corrupt(
                    "the file appends is no number".to_owned(),
                )),
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(OpenError::from_io(&self.path, error)),
        }
    }

    /// Notes the number of appends, all of which are durable.
    pub(crate) fn set_appends(&self, appends: u64) -> std::io::Result<()> {
        replace_file(&self.appends_path(), format!("{appends}\n").as_bytes())
    }

    /// Removes what an interrupted first start left.
    pub(crate) fn wipe_engine(&self) -> Result<(), OpenError> {
        let _ = fs::remove_file(self.appends_path());
        match fs::remove_dir_all(self.engine_path()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(OpenError::from_io(&self.path, error))
            }
            _ => Ok(()),
        }
    }
}

/// Reads a small text file; bytes that are no text become something that is not understood.
fn read_text(path: &Path) -> std::io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
}

/// Replaces a file durably: the old content or the new one, never half of it.
pub(crate) fn replace_file(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_parent(path)
}

/// Makes a new or renamed file's name durable.
pub(crate) fn sync_parent(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}
