//! An orderly close: what only the journal has is flushed into tables, and the journal begins anew.
//! The library reads the whole journal when it opens, up to [`FjallOptions::journal_bytes`] of it,
//! looks each entry up, and keeps in memory what is not in tables: seconds, and megabytes, for what
//! was written last, however long ago. Owns nothing of a close after a fault: that leaves the
//! journal as it is, and the next opening reads it.
//!
//! [`FjallOptions::journal_bytes`]: super::FjallOptions::journal_bytes

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::Duration;

use fjall::{AbstractTree, PersistMode};

use super::{FjallEngine, Open, STEP, Slot, newest_journal, seal_journal};
use crate::error::StoreError;

/// Bytes of journal files that are left to the next opening: to read them takes less than to flush.
const JOURNAL_BYTES_LEFT: u64 = 1_024 * 1_024;

/// Bytes of a block of [`fs::Metadata::blocks`].
const BLOCK_BYTES: u64 = 512;

impl Drop for FjallEngine {
    fn drop(&mut self) {
        if self.damaged.load(Ordering::Acquire) || written(&self.path) <= JOURNAL_BYTES_LEFT {
            return;
        }
        let slot = self.slot.get_mut().unwrap_or_else(PoisonError::into_inner);
        let closed = Slot::Closed(StoreError::Unavailable("closed".to_owned()));
        let Slot::Open(open) = std::mem::replace(slot, closed) else {
            return;
        };
        // A reader that is left may still keep the library's threads alive.
        let Ok(open) = Arc::try_unwrap(open) else {
            return;
        };
        if flush(&open, self.options.close_within) {
            drop(open);
            // Without it the next opening reads what is in tables already, and passes it over.
            let _ = renew(&self.path);
        }
    }
}

/// Flushes everything into tables; false if that cannot be, or takes longer than `within`.
fn flush(open: &Open, within: Duration) -> bool {
    let is_sealed = |space: &fjall::Keyspace| space.rotate_memtable().is_ok();
    if !open.spaces.iter().all(is_sealed) {
        return false;
    }
    let is_flushed = |space: &fjall::Keyspace| {
        space.sealed_memtable_count() == 0 && space.tree.active_memtable().size() == 0
    };
    for _ in 0..within.as_millis() / STEP.as_millis() {
        if open.spaces.iter().all(is_flushed) {
            return true;
        }
        // The one public way to ask whether the background thread died.
        if open.db.persist(PersistMode::Buffer).is_err() {
            return false;
        }
        thread::sleep(STEP);
    }
    false
}

/// Puts an empty journal behind the others, then removes these: all that they have is in tables. A
/// kill in between leaves journals that the library reads and removes.
fn renew(path: &Path) -> io::Result<()> {
    let old = journals(path)?;
    seal_journal(path)?;
    let newest = newest_journal(path)?.map(|(_, path)| path);
    for journal in old {
        if newest.as_ref() != Some(&journal) {
            fs::remove_file(journal)?;
        }
    }
    File::open(path)?.sync_all()
}

/// Bytes that the disk has of all journals. The library makes them long and fills them later.
fn written(path: &Path) -> u64 {
    let all = journals(path).unwrap_or_default();
    let blocks = all
        .iter()
        .filter_map(|path| Some(path.metadata().ok()?.blocks()));
    blocks.sum::<u64>() * BLOCK_BYTES
}

fn journals(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            found.push(path);
        }
    }
    Ok(found)
}
