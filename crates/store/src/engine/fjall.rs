//! The engine on disk: a log-structured merge tree (`fjall`), one keyspace for each space. Owns its
//! tuning, its memory bounds and its reopening in process. Three habits of the library are worked
//! around here and nowhere else:
//!
//! - It refuses every write after one failed persist, until it is reopened ([`Engine::heal`]).
//! - When its background thread has died, a writer that runs into back-pressure waits for ever,
//!   inside a commit. So this engine decides when a write buffer is sealed, and waits before a
//!   commit, where it can notice the death.
//! - The journal that a failed sync went to may have a hole that the kernel reports only once. So
//!   it is sealed and flushed into tables before anything new is acknowledged.

mod close;

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use fjall::compaction::Leveled;
use fjall::config::{FilterPolicy, PartitioningPolicy};
use fjall::{
    AbstractTree, Database, Guard, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode,
    Readable, Snapshot,
};

use crate::engine::{Batch, Engine, EngineStats, Reader, Space, Visit};
use crate::error::StoreError;
use crate::store::Durability;

/// Sealed write buffers of one space that may wait for the background thread; beyond it a commit
/// waits. The library itself waits at 4.
const SEALED_MAX: usize = 2;

/// Tables on the first level beyond which a commit waits for compaction. The library waits at 30
/// runs.
const FIRST_LEVEL_TABLES_MAX: usize = 24;

/// Tables on the first level of logs that are merged into the next level together: a third as often
/// as the library would, because every merge reads and writes much of the next level again. A read
/// looks into a few more of them.
const LOG_TABLES_MERGED: u8 = 12;

/// Bytes of a table of logs behind the first level. The next level is of as many tables as are
/// merged into it: with the library's 64 MiB, made for larger write buffers than ours, each merge
/// of 36 MiB would write up to 768 MiB again.
const LOG_TABLE_BYTES: u64 = 16 * 1_024 * 1_024;

/// How long a commit, or a reopening, waits for the background thread, in steps of [`STEP`].
const BACKGROUND_STEPS_MAX: u32 = 30_000;

/// How long a reopening waits for readers to let go, in steps of [`STEP`].
const READERS_STEPS_MAX: u32 = 10_000;

const STEP: Duration = Duration::from_millis(1);

/// The library's own rotation is switched off by a bound that is never reached.
const NEVER_BYTES: u64 = u64::MAX / 4;

/// Smallest journal space that the library accepts.
const JOURNAL_BYTES_MIN: u64 = 64 * 1_024 * 1_024;

/// Tuning of a [`FjallEngine`]. The defaults are for a server that shares its machine: the memory
/// goes to users, not to caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FjallOptions {
    /// Bytes of the block cache, shared by all spaces. Default 8 MiB.
    pub cache_bytes: u64,
    /// Bytes at which the write buffer of a space is sealed and flushed. A space can hold three of
    /// them while the disk is slow. Default 4 MiB.
    pub write_buffer_bytes: u64,
    /// Bytes of all journal files beyond which the oldest one's data is flushed, at least 64 MiB.
    /// Bounds disk use and the time of a restart. Default 128 MiB.
    pub journal_bytes: u64,
    /// Background threads for flushing and compaction, at least 1. Default 1: with more, the
    /// library lets one of them spin while another compacts.
    pub threads: usize,
    /// Table files kept open, at least 10. Default 256.
    pub files_open_max: usize,
    /// A commit is refused as [`StoreError::Full`] while the disk has less than this much room
    /// left, so that flushes and compactions still have some. 0 switches it off. Default 32 MiB.
    pub reserve_bytes: u64,
    /// How long an orderly close waits for the background thread; then the next opening reads what
    /// is in the journal only. Default 5 s.
    pub close_within: Duration,
}

impl Default for FjallOptions {
    fn default() -> Self {
        FjallOptions {
            cache_bytes: 8 * 1_024 * 1_024,
            write_buffer_bytes: 4 * 1_024 * 1_024,
            journal_bytes: 128 * 1_024 * 1_024,
            threads: 1,
            files_open_max: 256,
            reserve_bytes: 32 * 1_024 * 1_024,
            close_within: Duration::from_secs(5),
        }
    }
}

/// The engine on disk.
pub struct FjallEngine {
    path: PathBuf,
    options: FjallOptions,
    slot: RwLock<Slot>,
    /// Set by a failed commit until healing succeeded.
    damaged: AtomicBool,
    reopened: AtomicU64,
}

enum Slot {
    Open(Arc<Open>),
    Closed(StoreError),
}

/// An open database. The keyspaces go before the database.
struct Open {
    spaces: [Keyspace; Space::ALL.len()],
    db: Database,
    /// Readers let go as soon as they see it.
    closing: AtomicBool,
}

impl FjallEngine {
    /// Opens or creates the database in the folder `path`. The caller holds a lock on it.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] if it cannot be read, [`StoreError::Full`], or [`StoreError::Io`].
    pub fn open(path: &Path, options: FjallOptions) -> Result<FjallEngine, StoreError> {
        let open = open(path, &options)?;
        Ok(FjallEngine {
            path: path.to_owned(),
            options,
            slot: RwLock::new(Slot::Open(Arc::new(open))),
            damaged: AtomicBool::new(false),
            reopened: AtomicU64::new(0),
        })
    }

    fn current(&self) -> Result<Arc<Open>, StoreError> {
        match &*self.slot.read().unwrap_or_else(PoisonError::into_inner) {
            Slot::Open(open) => Ok(Arc::clone(open)),
            Slot::Closed(why) => Err(StoreError::Unavailable(why.to_string())),
        }
    }

    /// Bytes that the file system has left for this process, if it says so.
    fn room(&self) -> Option<u64> {
        let stat = rustix::fs::statvfs(&self.path).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// The library says only that it is poisoned. Without room for one flush, that is the likely
    /// reason.
    fn explain(&self, error: StoreError) -> StoreError {
        let needed = self
            .options
            .write_buffer_bytes
            .max(self.options.reserve_bytes);
        match error {
            StoreError::Poisoned(_) if self.room().is_some_and(|room| room < needed) => {
                StoreError::Full
            }
            error => error,
        }
    }

    fn reserve_is_used_up(&self) -> bool {
        self.options.reserve_bytes > 0
            && self
                .room()
                .is_some_and(|room| room < self.options.reserve_bytes)
    }

    fn write(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        let open = self.current()?;
        let mut is_touched = [false; Space::ALL.len()];
        for change in &batch {
            is_touched[change.space.index()] = true;
        }
        // Of the others nothing changes, and to ask costs two locks each.
        let touched = || open.spaces.iter().zip(is_touched).filter(|(_, is)| *is);
        open.wait_for_background(|_| touched().all(|(space, _)| has_room(space)))?;
        let mode = match durability {
            Durability::Fsync if stdx::bugs::is("no_fsync") => PersistMode::Buffer,
            Durability::Fsync => PersistMode::SyncData,
            Durability::Memory => PersistMode::Buffer,
        };
        if batch.is_empty() {
            return open.db.persist(mode).map_err(from_fjall);
        }
        let mut write = OwnedWriteBatch::with_capacity(open.db.clone(), batch.len());
        write = write.durability(Some(mode));
        for change in batch {
            let space = &open.spaces[change.space.index()];
            match change.value {
                Some(value) => write.insert(space, change.key, value),
                None => write.remove(space, change.key),
            }
        }
        write.commit().map_err(from_fjall)?;
        for (space, _) in touched() {
            if space.tree.active_memtable().size() > self.options.write_buffer_bytes {
                // The batch is committed. If sealing fails, the next commit fails or tries again.
                let _ = space.rotate_memtable();
            }
        }
        Ok(())
    }

    /// Closes and opens the database. Old readers get an error; new ones wait.
    fn reopen(&self) -> Result<(), StoreError> {
        let mut slot = self.slot.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(
            &mut *slot,
            Slot::Closed(StoreError::Unavailable("reopening".to_owned())),
        );
        if let Slot::Open(mut open) = before {
            open.closing.store(true, Ordering::Release);
            let mut steps = 0;
            let open = loop {
                match Arc::try_unwrap(open) {
                    Ok(open) => break open,
                    Err(shared) if steps < READERS_STEPS_MAX => {
                        open = shared;
                        steps += 1;
                        thread::sleep(STEP);
                    }
                    Err(shared) => {
                        // It stays open for reading; the next attempt may find the readers gone.
                        shared.closing.store(false, Ordering::Release);
                        *slot = Slot::Open(shared);
                        return Err(StoreError::Unavailable("readers do not end".to_owned()));
                    }
                }
            };
            drop(open);
        }
        let opened = seal_journal(&self.path)
            .map_err(StoreError::from)
            .and_then(|()| open(&self.path, &self.options));
        match opened {
            Ok(open) => {
                self.reopened.fetch_add(1, Ordering::Relaxed);
                *slot = Slot::Open(Arc::new(open));
                Ok(())
            }
            Err(why) => {
                *slot = Slot::Closed(why.clone());
                Err(why)
            }
        }
    }

    /// Flushes everything into tables.
    fn flush(&self) -> Result<(), StoreError> {
        let open = self.current()?;
        for space in &open.spaces {
            space.rotate_memtable().map_err(from_fjall)?;
        }
        open.wait_for_background(|open| {
            open.spaces
                .iter()
                .all(|space| space.sealed_memtable_count() == 0)
        })
    }

    /// Flushes all write buffers and merges all tables: leaves the smallest files and the fastest
    /// reads, after a bulk load.
    ///
    /// # Errors
    /// Any [`StoreError`]; the data is as good as before.
    pub fn compact(&self) -> Result<(), StoreError> {
        self.flush()?;
        let open = self.current()?;
        for space in &open.spaces {
            space.major_compact().map_err(from_fjall)?;
        }
        Ok(())
    }
}

impl Open {
    fn wait_for_background(&self, ready: impl Fn(&Open) -> bool) -> Result<(), StoreError> {
        for _ in 0..BACKGROUND_STEPS_MAX {
            if ready(self) {
                return Ok(());
            }
            // The one public way to ask whether the background thread died.
            self.db.persist(PersistMode::Buffer).map_err(from_fjall)?;
            thread::sleep(STEP);
        }
        Err(StoreError::Poisoned(
            "flushing makes no progress".to_owned(),
        ))
    }
}

/// Whether a commit can go on without running into the library's own, endless waits.
fn has_room(space: &Keyspace) -> bool {
    space.sealed_memtable_count() <= SEALED_MAX && space.l0_table_count() <= FIRST_LEVEL_TABLES_MAX
}

impl Engine for FjallEngine {
    fn snapshot(&self) -> Result<Box<dyn Reader>, StoreError> {
        let open = self.current()?;
        let view = open.db.snapshot();
        Ok(Box::new(FjallSnapshot { view, open }))
    }

    fn commit(&self, batch: Batch, durability: Durability) -> Result<(), StoreError> {
        if self.damaged.load(Ordering::Acquire) {
            return Err(self.explain(StoreError::Poisoned("not healed yet".to_owned())));
        }
        if self.reserve_is_used_up() {
            return Err(StoreError::Full);
        }
        self.write(batch, durability).map_err(|error| {
            self.damaged.store(true, Ordering::Release);
            self.explain(error)
        })
    }

    fn heal(&self) -> Result<(), StoreError> {
        if !self.damaged.load(Ordering::Acquire) {
            return if self.reserve_is_used_up() {
                Err(StoreError::Full)
            } else {
                Ok(())
            };
        }
        if self.reserve_is_used_up() {
            // Reopening would only interrupt the readers.
            return Err(StoreError::Full);
        }
        self.reopen()
            .and_then(|()| self.flush())
            .map_err(|error| self.explain(error))?;
        self.damaged.store(false, Ordering::Release);
        Ok(())
    }

    fn is_settled(&self) -> bool {
        !self.damaged.load(Ordering::Acquire)
    }

    fn stats(&self) -> EngineStats {
        let reopened = self.reopened.load(Ordering::Relaxed);
        let Ok(open) = self.current() else {
            return EngineStats {
                reopened,
                ..EngineStats::default()
            };
        };
        EngineStats {
            disk_bytes: open.db.disk_space().unwrap_or(0),
            write_buffer_bytes: open.db.write_buffer_size(),
            cache_bytes: open.db.cache_size(),
            reopened,
        }
    }
}

impl Reader for FjallEngine {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let open = self.current()?;
        let value = open.spaces[space.index()].get(key).map_err(from_fjall)?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn scan(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.snapshot()?.scan(space, start, end, visit)
    }

    fn scan_back(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.snapshot()?.scan_back(space, start, end, visit)
    }
}

/// The view goes before what keeps the database open.
struct FjallSnapshot {
    view: Snapshot,
    open: Arc<Open>,
}

impl FjallSnapshot {
    fn check(&self) -> Result<(), StoreError> {
        if self.open.closing.load(Ordering::Acquire) {
            return Err(StoreError::Unavailable("being reopened".to_owned()));
        }
        Ok(())
    }

    /// The entries of a scan; `None` if its end is not behind its start.
    fn run(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
    ) -> Option<impl DoubleEndedIterator<Item = Guard> + use<>> {
        let space = &self.open.spaces[space.index()];
        if end.is_empty() {
            return Some(self.view.range(space, start..));
        }
        (start < end).then(|| self.view.range(space, start..end))
    }

    fn visit_all(
        &self,
        entries: impl Iterator<Item = Guard>,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        for entry in entries {
            self.check()?;
            let (key, value) = entry.into_inner().map_err(from_fjall)?;
            if visit(&key, &value) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }
}

impl Reader for FjallSnapshot {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.check()?;
        let value = self
            .view
            .get(&self.open.spaces[space.index()], key)
            .map_err(from_fjall)?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn scan(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        match self.run(space, start, end) {
            Some(entries) => self.visit_all(entries, visit),
            None => Ok(()),
        }
    }

    fn scan_back(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        match self.run(space, start, end) {
            Some(entries) => self.visit_all(entries.rev(), visit),
            None => Ok(()),
        }
    }
}

fn open(path: &Path, options: &FjallOptions) -> Result<Open, StoreError> {
    // A damaged file must not end the process: some damage is met by assertions in the library.
    let opened = panic::catch_unwind(AssertUnwindSafe(|| try_open(path, options)));
    opened.unwrap_or_else(|_| {
        Err(StoreError::Corrupt(
            "the engine panicked on its files".to_owned(),
        ))
    })
}

/// The keyspaces, in the order of the spaces' numbers.
const KEYSPACES: [&str; Space::ALL.len()] = ["meta", "head", "state", "log", "blob", "session"];

/// How a keyspace is laid out; fixed when it is created.
fn tuning(name: &str) -> KeyspaceCreateOptions {
    // In partitions, filters and indexes of a large table pass through a small cache by the block.
    // As a whole, with a million users, each is a megabyte, and every read would load it.
    let tuning = KeyspaceCreateOptions::default()
        .max_memtable_size(NEVER_BYTES)
        .filter_block_partitioning_policy(PartitioningPolicy::all(true))
        .index_block_partitioning_policy(PartitioningPolicy::all(true));
    match name {
        // Logs are scanned: a filter would never be asked.
        "log" => tuning
            .filter_policy(FilterPolicy::disabled())
            .compaction_strategy(Arc::new(
                Leveled::default()
                    .with_l0_threshold(LOG_TABLES_MERGED)
                    .with_table_target_size(LOG_TABLE_BYTES),
            )),
        // Most reads are of users that exist: the last level, which holds nearly all, needs no
        // filter.
        _ => tuning.expect_point_read_hits(true),
    }
}

fn try_open(path: &Path, options: &FjallOptions) -> Result<Open, StoreError> {
    let existed = path.join("version").exists();
    if existed && newest_journal(path)?.is_none() {
        // The library would begin a new history, in which nothing that is there can be seen.
        return Err(StoreError::Corrupt("the journal is missing".to_owned()));
    }
    let db = Database::builder(path)
        .cache_size(options.cache_bytes)
        .max_journaling_size(options.journal_bytes.max(JOURNAL_BYTES_MIN))
        .worker_threads(options.threads.max(1))
        .max_cached_files(Some(options.files_open_max.max(10)))
        .open()
        .map_err(from_fjall)?;
    let there = db.list_keyspace_names();
    let is_there = |name: &str| there.iter().any(|have| **have == *name);
    if existed && !keyspaces_of(&db)?.iter().all(|name| is_there(name)) {
        // The library drops a keyspace without its manifest, and would make an empty one.
        return Err(StoreError::Corrupt("a keyspace is missing".to_owned()));
    }
    let mut spaces = Vec::with_capacity(KEYSPACES.len());
    for name in KEYSPACES {
        spaces.push(db.keyspace(name, || tuning(name)).map_err(from_fjall)?);
    }
    let spaces: Result<[Keyspace; Space::ALL.len()], _> = spaces.try_into();
    let spaces = spaces.map_err(|_| StoreError::Corrupt("a keyspace is missing".to_owned()))?;
    Ok(Open {
        spaces,
        db,
        closing: AtomicBool::new(false),
    })
}

/// The keyspaces that there must be: data of an older schema has fewer.
fn keyspaces_of(db: &Database) -> Result<&'static [&'static str], StoreError> {
    if !db.keyspace_exists(KEYSPACES[0]) {
        return Ok(&KEYSPACES);
    }
    let meta = db.keyspace(KEYSPACES[0], || tuning(KEYSPACES[0]));
    let schema = meta.and_then(|meta| meta.get(crate::keys::SCHEMA));
    let is_old = schema
        .map_err(from_fjall)?
        .is_some_and(|schema| schema[..] < 3u32.to_be_bytes()[..]);
    Ok(if is_old { &KEYSPACES[..5] } else { &KEYSPACES })
}

/// Number and path of the journal file that is written to.
fn newest_journal(path: &Path) -> io::Result<Option<(u64, PathBuf)>> {
    let mut newest: Option<(u64, PathBuf)> = None;
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        let id = path.file_name().and_then(|name| name.to_str());
        let id = id
            .and_then(|name| name.strip_suffix(".jnl"))
            .and_then(|id| id.parse().ok());
        if let Some(id) = id
            && newest.as_ref().is_none_or(|(newest, _)| id > *newest)
        {
            newest = Some((id, path));
        }
    }
    Ok(newest)
}

/// Puts an empty journal behind the last one, so that the library treats that one as sealed: it
/// replays and flushes it, and appends only to the new one.
fn seal_journal(path: &Path) -> io::Result<()> {
    if let Some((id, newest)) = newest_journal(path)?
        && newest.metadata()?.len() > 0
    {
        File::create_new(path.join(format!("{}.jnl", id + 1)))?.sync_all()?;
        File::open(path)?.sync_all()?;
    }
    Ok(())
}

fn from_fjall(error: fjall::Error) -> StoreError {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => {
            from_io(error)
        }
        fjall::Error::Poisoned => StoreError::Poisoned("a write failed before".to_owned()),
        fjall::Error::Locked => StoreError::Io("the engine's own lock is held".to_owned()),
        damage => StoreError::Corrupt(damage.to_string()),
    }
}

/// Inside the engine's own files, what is missing or ends early is damage.
fn from_io(error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::UnexpectedEof
        | io::ErrorKind::InvalidData
        // Mapping or seeking in a file that is shorter than its index says.
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::AlreadyExists => StoreError::Corrupt(error.to_string()),
        _ => error.into(),
    }
}
