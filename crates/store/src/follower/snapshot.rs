//! Snapshots of the ranges of one stream: a file with everything that followers share of them, as
//! of one message. Owns its format, which is that of a backup's chunks with a beginning of its own,
//! and the loading, which a kill may interrupt: the stream's mark goes first and comes back last.

use std::cell::{RefCell, RefMut};
use std::fs::OpenOptions;
use std::io::BufWriter;
use std::ops::{ControlFlow, DerefMut, RangeInclusive};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use stdx::Level;

use super::{Follower, StreamMark, meta, range_of, read_stream};
use crate::backup::{ChunkWriter, Entry, Moved, read_chunks};
use crate::engine::{Batch, Change, Reader, Space};
use crate::error::{OpenError, StoreError};
use crate::keys;
use crate::limits::BACKUP_CHUNK_BYTES;
use crate::schema::{self, SCHEMA, level_of, schema_known, schema_of};
use crate::slot::{RangeId, SlotKey};
use crate::store::Store;

const MAGIC: (&[u8; 8], &str) = (b"ROOSTSN1", "a snapshot of a stream");
/// Key of the entry that says whose slots these are, without giving the key away.
const WHOSE: &[u8] = b"whose";

/// The contiguous ranges of one stream.
type Ranges = RangeInclusive<u16>;

fn bounds(ranges: &[RangeId]) -> Option<Ranges> {
    let (first, last) = (ranges.first()?.index(), ranges.last()?.index());
    (usize::from(last.checked_sub(first)?) + 1 == ranges.len()).then_some(first..=last)
}

fn not_a_run() -> OpenError {
    OpenError::Corrupt("the ranges of a stream are no run".to_owned())
}

/// Start and end of the keys of these ranges in every space but `Meta`.
fn run(ranges: &Ranges) -> (Vec<u8>, Vec<u8>) {
    let edge = |index: u16| {
        let slot = RangeId::from_index(index).map(|range| range.slots().0);
        slot.map_or_else(|| vec![0xff], |slot| slot.index().to_be_bytes().to_vec())
    };
    (edge(*ranges.start()), edge(ranges.end() + 1))
}

/// Visits everything that followers share of these ranges.
fn each(
    reader: &dyn Reader,
    slots: &SlotKey,
    ranges: &Ranges,
    mut visit: impl FnMut(Space, &[u8], &[u8]) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let (start, end) = run(ranges);
    for space in Space::ALL {
        let (start, end): (&[u8], &[u8]) = match space {
            Space::Meta => (&[], &[]),
            _ => (&start, &end),
        };
        reader.scan(
            space,
            start,
            end,
            &mut |key, value| match range_of(slots, space, key) {
                Some(range) if ranges.contains(&range.index()) => visit(space, key, value),
                _ => ControlFlow::Continue(()),
            },
        )?;
    }
    Ok(())
}

fn whose(slots: &SlotKey) -> u64 {
    slots.peer("whose slots these are")
}

impl Store {
    /// Writes what followers share of a stream's ranges to the new file `dest`, as of one message,
    /// whose mark it returns. The store stays in use. The file holds password keys: its mode is
    /// 0600.
    ///
    /// # Errors
    /// [`OpenError::Io`] (also if the file exists), [`OpenError::Full`], [`OpenError::Corrupt`] if
    /// the ranges are no contiguous run, or an error of reading the store.
    pub fn snapshot_stream(
        &self,
        stream: u16,
        ranges: &[RangeId],
        dest: &Path,
    ) -> Result<(StreamMark, Moved), OpenError> {
        let ranges = bounds(ranges).ok_or_else(not_a_run)?;
        let fail = |error| OpenError::from_io(dest, error);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(dest)
            .map_err(fail)?;
        let reader = self.snapshot()?;
        let slots = self.slot_key();
        let mark = read_stream(&*reader, stream)?;
        let mut to = ChunkWriter::new(BufWriter::new(file), MAGIC.0).map_err(fail)?;
        let mut head = |key: &[u8], value: &[u8]| to.entry(Space::Meta, key, value).map_err(fail);
        let schema = schema_of(schema::level(&*reader)?);
        head(keys::SCHEMA, &schema.to_be_bytes())?;
        head(WHOSE, &whose(&slots).to_be_bytes())?;
        head(&keys::stream(stream), &mark.encode())?;
        let mut failed = None;
        each(&*reader, &slots, &ranges, |space, key, value| {
            if failed.is_none() {
                failed = to.entry(space, key, value).err();
            }
            match failed {
                Some(_) => ControlFlow::Break(()),
                None => ControlFlow::Continue(()),
            }
        })?;
        if let Some(error) = failed {
            return Err(fail(error));
        }
        let (file, moved) = to.finish().map_err(fail)?;
        let file = file
            .into_inner()
            .map_err(|error| fail(error.into_error()))?;
        file.sync_all().map_err(fail)?;
        Ok((mark, moved))
    }
}

/// What the beginning of a snapshot says.
#[derive(Default)]
struct Head {
    schema: Option<u32>,
    whose: Option<u64>,
    mark: Option<StreamMark>,
}

impl Head {
    /// Whether the entry belongs to the beginning.
    fn takes(&mut self, stream: u16, entry: &Entry<'_>) -> Result<bool, StoreError> {
        if entry.space != Space::Meta {
            return Ok(false);
        }
        let malformed = |_| StoreError::Corrupt("malformed beginning of a snapshot".to_owned());
        if entry.key == keys::SCHEMA {
            let value = entry.value.try_into().map_err(malformed)?;
            self.schema = Some(u32::from_be_bytes(value));
        } else if entry.key == WHOSE {
            let value = entry.value.try_into().map_err(malformed)?;
            self.whose = Some(u64::from_be_bytes(value));
        } else if entry.key == keys::stream(stream) {
            self.mark = Some(StreamMark::decode(entry.value)?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// Reads a snapshot to its end: every checksum, and whether it is for this stream of this
/// deployment.
fn check(
    path: &Path,
    stream: u16,
    slots: &SlotKey,
    ranges: &Ranges,
) -> Result<(StreamMark, Level), OpenError> {
    let mut head = Head::default();
    let mut is_foreign = false;
    read_chunks(path, MAGIC, |entry| {
        if !head.takes(stream, &entry)? {
            let range = range_of(slots, entry.space, entry.key);
            is_foreign |= range.is_none_or(|range| !ranges.contains(&range.index()));
        }
        Ok(())
    })?;
    let bad = |why: &str| OpenError::Corrupt(format!("{}: {why}", path.display()));
    let level = match head.schema {
        Some(found) if found > schema_known() => {
            return Err(OpenError::NewerSchema {
                found,
                supported: schema_known(),
            });
        }
        found => found.filter(|found| *found >= SCHEMA).and_then(level_of),
    };
    let level = level.ok_or_else(|| bad("a snapshot of an older version, or damaged"))?;
    match head.mark {
        _ if head.whose != Some(whose(slots)) => Err(bad("a snapshot of another deployment")),
        Some(mark) if !is_foreign => Ok((mark, level)),
        _ => Err(bad("a snapshot of another stream")),
    }
}

impl Store {
    /// Reads a snapshot to its end and checks it: every checksum, whose it is, and for which
    /// stream.
    ///
    /// # Errors
    /// [`OpenError::Corrupt`], [`OpenError::NewerSchema`] or [`OpenError::Io`].
    pub fn check_snapshot(
        &self,
        stream: u16,
        ranges: &[RangeId],
        path: &Path,
    ) -> Result<StreamMark, OpenError> {
        let ranges = bounds(ranges).ok_or_else(not_a_run)?;
        check(path, stream, &self.slot_key(), &ranges).map(|(mark, _)| mark)
    }
}

impl Follower {
    /// Replaces everything of a stream's ranges by what a snapshot says. If it is interrupted, the
    /// stream counts as not applied at all, and its ranges hold nothing that anybody should read.
    ///
    /// # Errors
    /// Those of [`Store::check_snapshot`], before anything was changed, or of the engine.
    pub fn load_snapshot(
        &mut self,
        stream: u16,
        ranges: &[RangeId],
        path: &Path,
    ) -> Result<StreamMark, OpenError> {
        let slots = self.slots;
        let own = RefCell::new(self);
        let lock = || RefMut::map(own.borrow_mut(), |follower| &mut **follower);
        load(lock, &slots, stream, ranges, path)
    }

    /// The same with a follower that applies messages of other streams meanwhile: it is locked
    /// anew for each 256 KiB or so ([`BACKUP_CHUNK_BYTES`]), and not while the file is checked.
    /// Nothing may be applied of this stream until it returns.
    ///
    /// # Errors
    /// As of [`Follower::load_snapshot`].
    pub fn load_shared<L: DerefMut<Target = Follower>>(
        mut lock: impl FnMut() -> L,
        stream: u16,
        ranges: &[RangeId],
        path: &Path,
    ) -> Result<StreamMark, OpenError> {
        let slots = lock().slots;
        load(lock, &slots, stream, ranges, path)
    }

    fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        self.engine.commit(batch, self.store.durability())
    }

    /// Keeps programs out that do not know this level. In one go: the level only rises, and another
    /// stream may raise it, too.
    fn rise(&mut self, level: Level) -> Result<(), StoreError> {
        let mut batch = Batch::new();
        self.raise(level, &mut batch);
        if !batch.is_empty() {
            self.commit(batch)?;
        }
        self.level = self.level.max(level);
        Ok(())
    }
}

fn delete(space: Space, key: &[u8]) -> Change {
    Change {
        space,
        key: key.into(),
        value: None,
    }
}

fn load<L: DerefMut<Target = Follower>>(
    mut lock: impl FnMut() -> L,
    slots: &SlotKey,
    stream: u16,
    ranges: &[RangeId],
    path: &Path,
) -> Result<StreamMark, OpenError> {
    let ranges = bounds(ranges).ok_or_else(not_a_run)?;
    let (mark, level) = check(path, stream, slots, &ranges)?;
    clear(&mut lock, stream, &ranges)?;
    lock().rise(level)?;
    let mut batch = Batch::new();
    let mut bytes = 0;
    let mut head = Head::default();
    read_chunks(path, MAGIC, |entry| {
        if head.takes(stream, &entry)? {
            return Ok(());
        }
        bytes += entry.key.len() + entry.value.len();
        batch.push(Change {
            space: entry.space,
            key: entry.key.into(),
            value: Some(entry.value.into()),
        });
        match bytes < BACKUP_CHUNK_BYTES {
            true => Ok(()),
            false => {
                bytes = 0;
                lock().commit(std::mem::take(&mut batch))
            }
        }
    })?;
    if head.mark != Some(mark) {
        return Err(OpenError::Store(StoreError::Corrupt(
            "the file of the snapshot became another one meanwhile".to_owned(),
        )));
    }
    batch.push(meta(&keys::stream(stream), &mark.encode()));
    lock().commit(batch)?;
    Ok(mark)
}

/// Forgets a stream: its mark first, then all of its ranges. Nobody else changes these, so that
/// they are read without the lock.
fn clear<L: DerefMut<Target = Follower>>(
    lock: &mut impl FnMut() -> L,
    stream: u16,
    ranges: &Ranges,
) -> Result<(), StoreError> {
    let mut follower = lock();
    follower.heads.clear();
    let (engine, slots) = (Arc::clone(&follower.engine), follower.slots);
    drop(follower);
    let mut batch = vec![delete(Space::Meta, &keys::stream(stream))];
    while !batch.is_empty() {
        lock().commit(batch)?;
        batch = Batch::new();
        let mut bytes = 0;
        each(&*engine, &slots, ranges, |space, key, _| {
            batch.push(delete(space, key));
            bytes += key.len();
            match bytes < BACKUP_CHUNK_BYTES {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
    }
    Ok(())
}
