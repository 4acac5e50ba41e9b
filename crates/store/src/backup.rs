//! Backup and restore: one file with everything a store holds, taken from a snapshot while the
//! store is in use. Owns the file format, which no engine knows of: a backup outlives a change of
//! engine.
//!
//! ```text
//! "ROOSTBK1"
//! chunk:  length:u32  checksum:u64  entries
//! entry:  space:u8  key length:u32  value length:u32  key  value
//! end:    0:u32       checksum:u64  number of entries:u64
//! ```
//! Numbers are little-endian. The checksum (SipHash-1-3 with a fixed key) covers the number of the
//! chunk and its bytes: it finds damage, missing and swapped chunks; it does not stop a forger.

use std::fs::{self, File, OpenOptions};
use std::hash::Hasher;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use siphasher::sip::SipHasher13;
use stdx::Level;

use crate::dir::{Dir, Stage, sync_parent};
use crate::engine::fjall::FjallEngine;
use crate::engine::{Batch, Change, Engine, Space};
use crate::error::{OpenError, StoreError};
use crate::joined::forget_streams;
use crate::keys;
use crate::limits::{BACKUP_CHUNK_BYTES, BACKUP_CHUNK_BYTES_MAX};
use crate::schema::{self, SCHEMA, schema_known};
use crate::store::{Durability, Options, Store, raise_epoch};
use crate::verify::{Report, check_entry, is_log_entry};

const MAGIC: &[u8; 8] = b"ROOSTBK1";

/// What a backup or a restore moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Entries of all spaces.
    pub entries: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

fn checksum(number: u64, bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0x726f_6f73_7462_6163, 0x6b75_7030_3030_3031);
    hasher.write_u64(number);
    hasher.write(bytes);
    hasher.finish()
}

pub(crate) struct ChunkWriter<W> {
    to: W,
    chunk: Vec<u8>,
    chunks: u64,
    moved: Moved,
}

impl<W: Write> ChunkWriter<W> {
    pub(crate) fn new(mut to: W, magic: &[u8; 8]) -> io::Result<ChunkWriter<W>> {
        to.write_all(magic)?;
        let moved = Moved {
            entries: 0,
            bytes: magic.len() as u64,
        };
        Ok(ChunkWriter {
            to,
            chunk: Vec::new(),
            chunks: 0,
            moved,
        })
    }

    pub(crate) fn entry(&mut self, space: Space, key: &[u8], value: &[u8]) -> io::Result<()> {
        let length = |bytes: &[u8]| {
            u32::try_from(bytes.len()).map_err(|_| io::Error::other("an entry of over 4 GiB"))
        };
        self.chunk.push(space as u8);
        self.chunk.extend_from_slice(&length(key)?.to_le_bytes());
        self.chunk.extend_from_slice(&length(value)?.to_le_bytes());
        self.chunk.extend_from_slice(key);
        self.chunk.extend_from_slice(value);
        self.moved.entries += 1;
        if self.chunk.len() >= BACKUP_CHUNK_BYTES {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let length = u32::try_from(self.chunk.len()).map_err(io::Error::other)?;
        self.write(length)?;
        self.chunk.clear();
        Ok(())
    }

    fn write(&mut self, length: u32) -> io::Result<()> {
        self.to.write_all(&length.to_le_bytes())?;
        self.to
            .write_all(&checksum(self.chunks, &self.chunk).to_le_bytes())?;
        self.to.write_all(&self.chunk)?;
        self.chunks += 1;
        self.moved.bytes += 12 + self.chunk.len() as u64;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<(W, Moved)> {
        self.flush()?;
        self.chunk
            .extend_from_slice(&self.moved.entries.to_le_bytes());
        self.write(0)?;
        self.to.flush()?;
        Ok((self.to, self.moved))
    }
}

/// One entry of a backup.
pub(crate) struct Entry<'a> {
    pub(crate) space: Space,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// Reads a whole backup, giving out entries of verified chunks only.
fn read_backup(
    path: &Path,
    each: impl FnMut(Entry<'_>) -> Result<(), StoreError>,
) -> Result<Moved, OpenError> {
    read_chunks(path, (MAGIC, "a backup"), each)
}

/// Reads a whole file of chunks, giving out entries of verified chunks only. What it is comes with
/// its first bytes.
pub(crate) fn read_chunks(
    path: &Path,
    (expected, what): (&[u8; 8], &str),
    mut each: impl FnMut(Entry<'_>) -> Result<(), StoreError>,
) -> Result<Moved, OpenError> {
    let file = File::open(path).map_err(|error| OpenError::from_io(path, error))?;
    let bad = |why: &str| OpenError::Corrupt(format!("{}: {why}", path.display()));
    let read = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => bad("the file ends early"),
        _ => OpenError::from_io(path, error),
    };
    let mut from = BufReader::with_capacity(BACKUP_CHUNK_BYTES, file);
    let mut magic = [0; 8];
    from.read_exact(&mut magic).map_err(read)?;
    if &magic != expected {
        return Err(bad(&format!(
            "this is not {what}, or one of a newer version"
        )));
    }
    let mut moved = Moved {
        entries: 0,
        bytes: MAGIC.len() as u64,
    };
    let mut chunk = Vec::new();
    for number in 0.. {
        let mut head = [0; 12];
        from.read_exact(&mut head).map_err(read)?;
        let (length, sum) = head.split_at(4);
        // Invariant: the two parts of the 12 bytes are 4 and 8 bytes long.
        let length = u32::from_le_bytes(length.try_into().expect("4 bytes")) as usize;
        // Invariant: as above.
        let sum = u64::from_le_bytes(sum.try_into().expect("8 bytes"));
        let is_end = length == 0;
        let length = if is_end { 8 } else { length };
        if length > BACKUP_CHUNK_BYTES_MAX {
            return Err(bad("a chunk is too long"));
        }
        chunk.resize(length, 0);
        from.read_exact(&mut chunk).map_err(read)?;
        if checksum(number, &chunk) != sum {
            return Err(bad("a chunk is damaged"));
        }
        moved.bytes += (head.len() + chunk.len()) as u64;
        if is_end {
            return if chunk == moved.entries.to_le_bytes() {
                Ok(moved)
            } else {
                Err(bad("entries are missing"))
            };
        }
        let mut rest = chunk.as_slice();
        while !rest.is_empty() {
            let (entry, after) = split_entry(rest).ok_or_else(|| bad("a chunk is malformed"))?;
            each(entry)?;
            moved.entries += 1;
            rest = after;
        }
    }
    Err(bad("too many chunks"))
}

fn split_entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (&space, rest) = bytes.split_first()?;
    let space = Space::from_index(space)?;
    let (key_len, rest) = rest.split_first_chunk::<4>()?;
    let (value_len, rest) = rest.split_first_chunk::<4>()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_len) as usize)?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value_len) as usize)?;
    Some((Entry { space, key, value }, rest))
}

impl Store {
    /// Writes everything, as it is at this moment, to the new file `dest`, while the store is in
    /// use. The file appears under its name only when it is complete and durable. It holds password
    /// keys: its mode is 0600.
    ///
    /// # Errors
    /// [`OpenError::NotEmpty`] if `dest` exists, [`OpenError::Full`], [`OpenError::Io`], or an
    /// error of reading the store. An engine that has to be reopened meanwhile ends the backup.
    pub fn backup(&self, dest: &Path) -> Result<Moved, OpenError> {
        if dest.exists() {
            return Err(OpenError::NotEmpty(dest.to_owned()));
        }
        let mut partial = dest.as_os_str().to_owned();
        partial.push(".partial");
        let partial = Path::new(&partial);
        let written = self.write_backup(partial);
        let moved = match written {
            Ok(moved) => moved,
            Err(error) => {
                let _ = fs::remove_file(partial);
                return Err(error);
            }
        };
        fs::rename(partial, dest)
            .and_then(|()| sync_parent(dest))
            .map_err(|error| OpenError::from_io(dest, error))?;
        Ok(moved)
    }

    fn write_backup(&self, path: &Path) -> Result<Moved, OpenError> {
        let io = |error| OpenError::from_io(path, error);
        let snapshot = self.snapshot()?;
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)
            .map_err(io)?;
        let mut writer = ChunkWriter::new(BufWriter::new(file), MAGIC).map_err(io)?;
        for space in Space::ALL {
            let mut failed = None;
            snapshot.scan(
                space,
                &[],
                &[],
                &mut |key, value| match writer.entry(space, key, value) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(error) => {
                        failed = Some(error);
                        ControlFlow::Break(())
                    }
                },
            )?;
            if let Some(error) = failed {
                return Err(io(error));
            }
        }
        let (file, moved) = writer.finish().map_err(io)?;
        let file = file.into_inner().map_err(|error| io(error.into_error()))?;
        file.sync_all().map_err(io)?;
        Ok(moved)
    }
}

/// Makes a new store in the folder `dest` from the backup file `source`: that of a server that
/// stands alone, also if the backup is of a node of a cluster. A restore that is interrupted leaves
/// a folder that says so when it is opened.
///
/// # Errors
/// [`OpenError::NotEmpty`] if there is something in `dest`, [`OpenError::Corrupt`] if the backup is
/// damaged, [`OpenError::NewerSchema`] if a newer version wrote it, and those of [`Store::open`].
pub fn restore(source: &Path, dest: &Path, options: &Options) -> Result<Moved, OpenError> {
    if fs::read_dir(dest).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(OpenError::NotEmpty(dest.to_owned()));
    }
    // First all of it is read once: one that is damaged or of a newer version leaves no trace.
    let mut schema = None;
    read_backup(source, |entry| {
        schema = schema.or(schema_in(&entry));
        Ok(())
    })?;
    not_newer(schema)?;
    let dir = Dir::lock(dest)?;
    dir.set_stage(Stage::Restoring)?;
    let engine = FjallEngine::open(&dir.engine_path(), options.engine.clone())?;
    let mut batch = Batch::new();
    let mut bytes = 0;
    let moved = read_backup(source, |entry| {
        bytes += entry.key.len() + entry.value.len();
        let (key, value) = (entry.key.into(), Some(entry.value.into()));
        batch.push(Change {
            space: entry.space,
            key,
            value,
        });
        if bytes < BACKUP_CHUNK_BYTES {
            return Ok(());
        }
        bytes = 0;
        engine.commit(std::mem::take(&mut batch), Durability::Memory)
    })?;
    engine.commit(batch, Durability::Memory)?;
    schema::prepare(&engine, Level::known(), || {
        Err(OpenError::Corrupt("the backup is empty".to_owned()))
    })?;
    forget_streams(&engine)?;
    // What the store gave out after the backup was taken must not be given out again.
    raise_epoch(&engine)?;
    drop(engine);
    dir.set_stage(Stage::Ready)?;
    Ok(moved)
}

/// The number of the schema, if this is the entry that has it.
fn schema_in(entry: &Entry<'_>) -> Option<u32> {
    let is_schema = entry.space == Space::Meta && entry.key == keys::SCHEMA;
    let value = is_schema.then_some(entry.value)?;
    value.try_into().ok().map(u32::from_be_bytes)
}

/// Refuses what a newer version wrote.
fn not_newer(schema: Option<u32>) -> Result<(), OpenError> {
    match schema {
        Some(found) if found > schema_known() => Err(OpenError::NewerSchema {
            found,
            supported: schema_known(),
        }),
        _ => Ok(()),
    }
}

/// Verifies a backup file: every checksum, every key and value by itself.
pub(crate) fn verify_file(path: &Path) -> Result<Report, OpenError> {
    let mut report = Report::default();
    let mut found = None;
    read_backup(path, |entry| {
        report.bytes += (entry.key.len() + entry.value.len()) as u64;
        found = found.or(schema_in(&entry));
        // Values of other schemas are decoded by the upgrade that follows a restore.
        if found.is_some_and(|found| (SCHEMA..=schema_known()).contains(&found))
            && let Err(problem) = check_entry(entry.space, entry.key, entry.value)
        {
            report.problem(problem);
        }
        match entry.space {
            Space::Meta => {}
            Space::Head => report.removed += u64::from(entry.value.get(1) == Some(&0)),
            Space::State => report.accounts += 1,
            Space::Log => report.log_entries += u64::from(is_log_entry(entry.key)),
            Space::Session => report.resumable += 1,
            Space::Blob => report.blobs += 1,
        }
        Ok(())
    })?;
    not_newer(found)?;
    match found {
        Some(_) => Ok(report),
        None => Err(OpenError::Corrupt(format!(
            "{}: no schema number",
            path.display()
        ))),
    }
}
