//! The store: typed reads over an engine. Owns opening, options and the shape of every read;
//! changes go through a journal, or in bulk while no journal is running.

use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use stdx::Level;

use crate::apply::{Txn, apply, decode_u64};
use crate::delivery::{LogEntry, Recognition};
use crate::dir::{Dir, Stage};
use crate::doubt::InDoubt;
use crate::engine::faulty::FaultyEngine;
use crate::engine::fjall::{FjallEngine, FjallOptions};
use crate::engine::memory::MemoryEngine;
use crate::engine::{Change, Engine, EngineStats, Reader, Space};
use crate::error::{OpenError, StoreError};
use crate::journal::read_position;
use crate::keys;
use crate::limits::{
    ACCOUNTS_PAGE_MAX, BULK_BYTES_MAX, BULK_RECORDS_MAX, LOG_READ_MAX, SEQ_EPOCH_SHIFT,
};
use crate::log::{parse_entry, read_head, scan_heads, tail};
use crate::overlay::Overlay;
use crate::record::{KnownAddress, Record, Seq};
use crate::scan::{self, until};
use crate::schema::{self, schema_of};
use crate::slot::{RANGES, RangeId, SlotKey};
use crate::state::{
    BLOB_VERSION, Head, LogHead, OlderMark, UserState, decode, decode_head, decode_profile,
    decode_version,
};

/// What a commit promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// It is on the disk (`fdatasync`, once per group).
    #[default]
    Fsync,
    /// It is in the operating system's hands: it survives the process, not the machine.
    Memory,
}

/// How to open a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What a commit promises. Default: [`Durability::Fsync`].
    pub durability: Durability,
    /// Memory and other bounds of the engine.
    pub engine: FjallOptions,
    /// The key of the slot hash for a store that is created by this call. `None`: 16 bytes from the
    /// operating system.
    pub slot_key: Option<[u8; 16]>,
    /// Of a node of a deployment: how often sequence numbers have begun anew, the same on all nodes
    /// and for ever. Numbers of one that began higher would lie above what the next home gives out.
    /// `None`: as often as this store was restored, or may have lost some. Default: `None`.
    pub numbering: Option<u64>,
    /// At which level a store begins that is created by this call; another one stays at its own.
    /// `None`: the newest that this program knows.
    pub level: Option<Level>,
    /// What every read takes longer, for tests of isolation. Default: nothing.
    pub read_delay: Duration,
}

/// A handle to one store. Clones share it. Reads block for as long as the disk takes: they belong
/// on a pool, not on a shard.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

/// Fields drop in this order: the engine closes before the folder's lock is given up.
struct Shared {
    engine: Arc<dyn Engine>,
    slots: SlotKey,
    /// The lowest sequence number that may be given out: the first one of this epoch.
    first_seq: Seq,
    durability: Durability,
    /// The number of the level at which everything is written.
    level: AtomicU32,
    has_writer: Arc<AtomicBool>,
    in_doubt: Arc<InDoubt>,
    dir: Option<Dir>,
}

impl Drop for Shared {
    /// Notes how much there is, so that a journal that is cut off while the store is closed is
    /// noticed: to the engine it would look like a crash.
    fn drop(&mut self) {
        let Some(dir) = &self.dir else { return };
        let synced = self.engine.commit(Vec::new(), Durability::Fsync);
        if let Ok(appends) = synced.and_then(|()| count_appends(&*self.engine)) {
            // Without the note the store is as good; only the check is weaker.
            let _ = dir.set_appends(appends);
        }
    }
}

/// The right to write to a store: there is one.
pub(crate) struct WriterToken(Arc<AtomicBool>);

impl Drop for WriterToken {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Store {
    /// Opens the store in the folder `path`, creating or upgrading it as needed.
    ///
    /// # Errors
    /// [`OpenError::Locked`] if another process has it, [`OpenError::NewerSchema`] if a newer
    /// version wrote it, [`OpenError::Corrupt`], [`OpenError::ReadOnly`], [`OpenError::Full`] or
    /// [`OpenError::Io`].
    pub fn open(path: &Path, options: &Options) -> Result<Store, OpenError> {
        let dir = Dir::lock(path)?;
        let fresh = match dir.stage()? {
            Stage::Ready => false,
            Stage::Restoring => {
                let why = "a restore was interrupted: remove the folder and restore again";
                return Err(OpenError::Corrupt(why.to_owned()));
            }
            Stage::New | Stage::Creating => {
                dir.wipe_engine()?;
                dir.set_stage(Stage::Creating)?;
                true
            }
        };
        if !fresh && !dir.engine_path().join("version").exists() {
            // The library would silently create an empty database.
            return Err(OpenError::Corrupt(
                "the engine's files are missing".to_owned(),
            ));
        }
        let engine = open_engine(&dir, options)?;
        let begin_at = options.level.unwrap_or_else(Level::known);
        let slots = schema::prepare(&engine, begin_at, || {
            if fresh {
                new_slot_key(options)
            } else {
                Err(OpenError::Corrupt("the store has lost its data".to_owned()))
            }
        })?;
        if fresh {
            dir.set_stage(Stage::Ready)?;
        }
        if let Some(noted) = dir.appends()? {
            let there = count_appends(&engine)?;
            if there < noted {
                return Err(OpenError::Corrupt(format!(
                    "the end is missing: {there} of {noted} appends are there; restore a \
                     backup, or remove the file `appends` to accept the loss"
                )));
            }
        }
        if options.numbering.is_none() && !fresh && options.durability == Durability::Memory {
            // What the machine lost may have been seen by others. With a full disk nothing new is
            // accepted either.
            match raise_epoch(&engine) {
                Ok(()) | Err(StoreError::Full) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(numbering) = options.numbering
            && read_epoch(&engine)? < numbering
        {
            set_epoch(&engine, numbering)?;
        }
        let engine: Arc<dyn Engine> = if options.read_delay.is_zero() {
            Arc::new(engine)
        } else {
            let twin = FaultyEngine::new(engine);
            twin.faults().set_read_delay(options.read_delay);
            Arc::new(twin)
        };
        let numbering = match options.numbering {
            Some(numbering) => numbering,
            None => read_epoch(&*engine)?,
        };
        let made = (options.durability, numbering);
        Ok(Store::new(engine, slots, made, Some(dir))?)
    }

    /// An empty store in memory.
    pub fn in_memory() -> Store {
        let slots = SlotKey::new([0; 16]);
        let store = Store::with_engine(Arc::new(MemoryEngine::new()), Durability::Memory, slots);
        // Invariant: an empty memory engine has no schema to refuse and no disk to fail.
        store.expect("an empty memory engine opens")
    }

    /// A store over any engine; `slot_key` is for an engine that is empty.
    ///
    /// # Errors
    /// As [`Store::open`], as far as they come from what the engine holds.
    pub fn with_engine(
        engine: Arc<dyn Engine>,
        durability: Durability,
        slot_key: SlotKey,
    ) -> Result<Store, OpenError> {
        let slots = schema::prepare(&*engine, Level::known(), || Ok(slot_key))?;
        let numbering = read_epoch(&*engine)?;
        Ok(Store::new(engine, slots, (durability, numbering), None)?)
    }

    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        slots: SlotKey,
        (durability, numbering): (Durability, u64),
        dir: Option<Dir>,
    ) -> Result<Store, StoreError> {
        let has_writer = Arc::default();
        let first_seq = (numbering << SEQ_EPOCH_SHIFT) + 1;
        let level = schema::level(&*engine)?.number().into();
        Ok(Store {
            shared: Arc::new(Shared {
                engine,
                level,
                slots,
                first_seq,
                durability,
                has_writer,
                in_doubt: Arc::default(),
                dir,
            }),
        })
    }

    /// The level at which this store, and the streams that it follows, are written.
    pub fn level(&self) -> Level {
        Level::new(self.shared.level.load(Ordering::Acquire))
    }

    /// The nodes of the deployment have agreed upon a level: what this one writes is of it from now
    /// on. The store itself rises with the first message of that level that it applies. One that
    /// this program does not know is not for it to write.
    pub fn agree(&self, level: Level) {
        let level = level.min(Level::known());
        self.shared
            .level
            .fetch_max(level.number(), Ordering::AcqRel);
    }

    /// Raises the level of a single server's store to the newest that this program knows: older
    /// ones cannot open it from then on. Durable on return, which says the level.
    ///
    /// # Errors
    /// Any [`StoreError`] of the engine: the level is as it was, or raised.
    pub fn raise(&self) -> Result<Level, StoreError> {
        let level = Level::known();
        let before = schema::level(&*self.shared.engine)?;
        if schema_of(level) > schema_of(before) {
            let raised = vec![schema::schema_change(schema_of(level))];
            self.shared.engine.commit(raised, Durability::Fsync)?;
        }
        self.agree(level);
        Ok(level)
    }

    /// The key of the slot hash.
    pub fn slot_key(&self) -> SlotKey {
        self.shared.slots
    }

    /// What a commit promises.
    pub fn durability(&self) -> Durability {
        self.shared.durability
    }

    /// Sizes for operators.
    pub fn stats(&self) -> EngineStats {
        self.shared.engine.stats()
    }

    pub(crate) fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.shared.engine)
    }

    pub(crate) fn in_doubt(&self) -> Arc<InDoubt> {
        Arc::clone(&self.shared.in_doubt)
    }

    pub(crate) fn snapshot(&self) -> Result<Box<dyn Reader>, StoreError> {
        self.shared.engine.snapshot()
    }

    /// Takes the right to write.
    pub(crate) fn writer(&self) -> Result<WriterToken, StoreError> {
        if self.shared.has_writer.swap(true, Ordering::AcqRel) {
            return Err(StoreError::HasWriter);
        }
        Ok(WriterToken(Arc::clone(&self.shared.has_writer)))
    }

    /// The one read of a login, in one snapshot: two keys, and for a user with a log what
    /// recognises messages and the entries behind it. `None` if there is no such account.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] while a change of the user is in doubt; any [`StoreError`] of a
    /// read.
    pub fn load_user(&self, user: &str) -> Result<Option<UserState>, StoreError> {
        self.shared.in_doubt.check(user)?;
        let key = keys::user(&self.shared.slots, user);
        let snapshot = self.snapshot()?;
        let Some(mut head) = read_head(&*snapshot, &self.shared.slots, user)? else {
            return Ok(None);
        };
        if !head.is_account() {
            return Ok(None);
        }
        let Some(profile) = snapshot.get(Space::State, &key)? else {
            return Err(StoreError::Corrupt(format!(
                "{user}: the profile is missing"
            )));
        };
        let profile = decode_profile(&profile, user)?;
        let mut sessions = Vec::new();
        if !head.cursors.is_empty()
            && let Some(value) = snapshot.get(Space::Session, &key)?
        {
            sessions = decode(&value, user)?;
        }
        let (recognition, left_out) =
            read_recognition(&*snapshot, &self.shared.slots, user, &head)?;
        head.has_older_marks |= left_out;
        // Numbers of earlier epochs may have been given out after the backup was taken.
        head.log.next_seq = head.log.next_seq.max(self.shared.first_seq);
        Ok(Some(UserState::from_parts(
            head,
            profile,
            recognition,
            sessions,
        )))
    }

    /// The head of a log in which there never was anything: its numbers begin with the last restore
    /// or the last crash that may have lost some.
    pub fn first_head(&self) -> LogHead {
        LogHead {
            next_seq: self.shared.first_seq,
            ..LogHead::default()
        }
    }

    /// The entries of a user's log with a sequence number above `after`, oldest first, at most
    /// `limit` and never more than [`LOG_READ_MAX`].
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn log_read(
        &self,
        user: &str,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let snapshot = self.snapshot()?;
        self.entries_behind(&*snapshot, user, (after, limit))
    }

    /// The head of a log and its oldest entries, at most `limit` and never more than
    /// [`LOG_READ_MAX`], in one snapshot; `None` if there never was a log.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn log_oldest(
        &self,
        user: &str,
        limit: usize,
    ) -> Result<Option<(LogHead, Vec<LogEntry>)>, StoreError> {
        let snapshot = self.snapshot()?;
        let Some(head) = read_head(&*snapshot, &self.shared.slots, user)? else {
            return Ok(None);
        };
        let from = (head.log.trimmed_through, limit);
        let entries = self.entries_behind(&*snapshot, user, from)?;
        Ok(Some((head.log, entries)))
    }

    fn entries_behind(
        &self,
        snapshot: &dyn Reader,
        user: &str,
        (after, limit): (Seq, usize),
    ) -> Result<Vec<LogEntry>, StoreError> {
        let limit = limit.min(LOG_READ_MAX);
        let Some(first) = after.checked_add(1).filter(|_| limit > 0) else {
            return Ok(Vec::new());
        };
        let start = keys::log_entry(&self.shared.slots, user, first);
        let end = keys::log_entries_end(&self.shared.slots, user);
        let run = (&*start, &*end);
        scan::collect(snapshot, Space::Log, run, limit, |key, value| {
            let (seq, entry) = parse_entry(key, value)?;
            Ok(entry.into_entry(seq))
        })
    }

    /// How far a user took what a sender's home handed over; `peer` is the sender's
    /// [`SlotKey::peer`]. 0 if nothing is known of that.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn mark_of(&self, user: &str, peer: u64) -> Result<Seq, StoreError> {
        let slots = &self.shared.slots;
        let snapshot = self.snapshot()?;
        let Some(head) = read_head(&*snapshot, slots, user)? else {
            return Ok(0);
        };
        let recognition = written_recognition(&*snapshot, slots, user, &head)?;
        let latest = recognition.seen.iter().find(|seen| seen.peer == peer);
        let older = match snapshot.get(Space::Log, &keys::log_mark(slots, user, peer))? {
            Some(value) => decode::<OlderMark>(&value, user)?.source,
            None => 0,
        };
        let left_out = last_source(&*snapshot, slots, user, &head, peer)?;
        Ok(latest
            .map_or(0, |seen| seen.source)
            .max(older)
            .max(left_out))
    }

    /// The vCard of a user.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn vcard(&self, user: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.blob(&keys::vcard(&self.shared.slots, user))
    }

    /// One item of a user's private storage.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn private(&self, user: &str, ns: &str, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.blob(&keys::private(&self.shared.slots, user, ns, name))
    }

    /// All items of a user's private storage: namespace, name, element. For exports.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn private_all(&self, user: &str) -> Result<Vec<(String, String, Vec<u8>)>, StoreError> {
        let (start, end) = keys::private_run(&self.shared.slots, user);
        let snapshot = self.snapshot()?;
        let all = usize::MAX;
        scan::collect(
            &*snapshot,
            Space::Blob,
            (&start, &end),
            all,
            |key, value| {
                let blob = keys::parse_owned(key).and_then(|(_, _, rest)| keys::parse_blob(rest));
                match blob {
                    Some(keys::Blob::Private { ns, name }) => {
                        Ok((ns.to_owned(), name.to_owned(), blob_body(value)?))
                    }
                    _ => Err(StoreError::Corrupt(format!(
                        "{user}: key of private storage"
                    ))),
                }
            },
        )
    }

    /// The bytes of each item of a user's private storage, by namespace and name.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn private_sizes(&self, user: &str) -> Result<Vec<(String, String, usize)>, StoreError> {
        let (start, end) = keys::private_run(&self.shared.slots, user);
        let mut sizes = Vec::new();
        self.snapshot()?
            .scan(Space::Blob, &start, &end, &mut |key, value| {
                let blob = keys::parse_owned(key).and_then(|(_, _, rest)| keys::parse_blob(rest));
                if let Some(keys::Blob::Private { ns, name }) = blob {
                    sizes.push((ns.to_owned(), name.to_owned(), value.len()));
                }
                ControlFlow::Continue(())
            })?;
        Ok(sizes)
    }

    /// The addresses that a user logged in from.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn known_addresses(&self, user: &str) -> Result<Vec<KnownAddress>, StoreError> {
        let key = keys::known(&self.shared.slots, user);
        match self.snapshot()?.get(Space::Blob, &key)? {
            Some(value) => decode_version(BLOB_VERSION, &value, user),
            None => Ok(Vec::new()),
        }
    }

    fn blob(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.snapshot()?
            .get(Space::Blob, key)?
            .map(|value| blob_body(&value))
            .transpose()
    }

    /// A page of accounts, of one domain or of all, in the order of slot and address: those that
    /// follow `after`, at most `limit` and never more than [`ACCOUNTS_PAGE_MAX`]. Fewer than asked
    /// for means that there are no more.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn accounts(
        &self,
        domain: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let limit = limit.min(ACCOUNTS_PAGE_MAX);
        let mut page = Vec::new();
        if limit == 0 {
            return Ok(page);
        }
        let start = keys::behind(&self.shared.slots, after);
        scan_heads(&*self.snapshot()?, &start, |user, value| {
            if domain.is_none_or(|domain| keys::domain_of(user) == domain)
                && decode_head(value, user)?.is_account()
            {
                page.push(user.to_owned());
            }
            Ok(until(page.len() == limit))
        })?;
        Ok(page)
    }

    /// The number of accounts, of one domain or of all. Counts are kept, not counted: a few hundred
    /// keys.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn count_accounts(&self, domain: Option<&str>) -> Result<u64, StoreError> {
        let mut total = 0;
        let mut bad = None;
        let (start, end) = keys::COUNT_RUN;
        self.snapshot()?
            .scan(Space::Meta, start, end, &mut |key, value| {
                if let Some(keys::Meta::Count(_, of)) = keys::parse_meta(key)
                    && domain.is_none_or(|domain| domain == of)
                {
                    match decode_u64(value, "account count") {
                        Ok(count) => total += count,
                        Err(error) => bad = Some(error),
                    }
                }
                ControlFlow::Continue(())
            })?;
        bad.map_or(Ok(total), Err)
    }

    /// Applies many records in large batches, through the same `apply` as a journal: for imports
    /// and provisioning. Memory is bounded by [`BULK_BYTES_MAX`]; what was applied is durable on
    /// return. Returns the number of records. Each batch counts as one append of every range it
    /// touches.
    ///
    /// # Errors
    /// [`StoreError::HasWriter`] while a journal is running; [`StoreError::Record`] for a bad
    /// record. Batches before the failing one stay applied.
    pub fn bulk(&self, records: impl IntoIterator<Item = Record>) -> Result<u64, StoreError> {
        let _writer = self.writer()?;
        let engine = &*self.shared.engine;
        engine.heal()?;
        let mut records = records.into_iter().peekable();
        let mut total = 0;
        while records.peek().is_some() {
            let mut overlay = Overlay::new(engine).at(self.level());
            let mut touched = [false; RANGES as usize];
            let mut applied = 0;
            while applied < BULK_RECORDS_MAX && overlay.bytes() < BULK_BYTES_MAX {
                let Some(record) = records.next() else { break };
                apply(&record, &self.shared.slots, &mut overlay)?;
                overlay.keep();
                let range = self.shared.slots.slot(record.user()).range();
                touched[usize::from(range.index())] = true;
                applied += 1;
            }
            for range in RangeId::all().filter(|range| touched[usize::from(range.index())]) {
                let position = read_position(engine, range)?.next();
                let value = position.value().to_be_bytes().to_vec();
                overlay.put(Space::Meta, keys::position(range).to_vec(), value);
            }
            engine.commit(overlay.into_batch(), Durability::Memory)?;
            total += applied as u64;
        }
        engine.commit(Vec::new(), Durability::Fsync)?;
        Ok(total)
    }
}

/// Begins a new run of sequence numbers: none that was given out before is given out again,
/// although the entry that had it is not there.
pub(crate) fn raise_epoch(engine: &dyn Engine) -> Result<(), StoreError> {
    set_epoch(engine, read_epoch(engine)? + 1)
}

fn set_epoch(engine: &dyn Engine, epoch: u64) -> Result<(), StoreError> {
    let epoch = Change {
        space: Space::Meta,
        key: keys::EPOCH.into(),
        value: Some(epoch.to_be_bytes().into()),
    };
    engine.commit(vec![epoch], Durability::Fsync)
}

/// How often that was necessary.
pub(crate) fn read_epoch(reader: &dyn Reader) -> Result<u64, StoreError> {
    match reader.get(Space::Meta, keys::EPOCH)? {
        Some(value) => decode_u64(&value, "count of epochs"),
        None => Ok(0),
    }
}

/// The appends of all ranges.
fn count_appends(engine: &dyn Engine) -> Result<u64, StoreError> {
    RangeId::all()
        .map(|range| Ok(read_position(engine, range)?.value()))
        .sum()
}

/// Opens the engine and tells the operator's errors from damage.
fn open_engine(dir: &Dir, options: &Options) -> Result<FjallEngine, OpenError> {
    let path = dir.engine_path();
    FjallEngine::open(&path, options.engine.clone()).map_err(|error| match error {
        StoreError::Corrupt(why) => OpenError::Corrupt(why),
        StoreError::Full => OpenError::Full,
        other => match File::create(path.join(".probe")) {
            Err(source) => OpenError::from_io(&path, source),
            Ok(_) => {
                let _ = std::fs::remove_file(path.join(".probe"));
                OpenError::Store(other)
            }
        },
    })
}

fn new_slot_key(options: &Options) -> Result<SlotKey, OpenError> {
    if let Some(key) = options.slot_key {
        return Ok(SlotKey::new(key));
    }
    let path = Path::new("/dev/urandom");
    let mut key = [0; 16];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut key));
    read.map_err(|source| OpenError::from_io(path, source))?;
    Ok(SlotKey::new(key))
}

/// The body of a blob behind its version byte.
pub(crate) fn blob_body(value: &[u8]) -> Result<Vec<u8>, StoreError> {
    match value.split_first() {
        Some((&BLOB_VERSION, body)) => Ok(body.to_vec()),
        _ => Err(StoreError::Corrupt("blob of an unknown version".to_owned())),
    }
}

/// The last place of a sender's log that the entries behind what is written name: they may be more
/// senders than [`Recognition`] has room for.
fn last_source(
    reader: &dyn Reader,
    slots: &SlotKey,
    user: &str,
    head: &Head,
    peer: u64,
) -> Result<Seq, StoreError> {
    let (start, end) = tail(slots, user, head);
    let mut last = 0;
    if head.tail_count > 0 {
        scan::visit(reader, Space::Log, (&start, &end), |key, value| {
            let (_, entry) = parse_entry(key, value)?;
            if slots.peer(entry.peer) == peer {
                last = last.max(entry.source);
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(last)
}

/// What is written of it; [`last_source`] reads the entries behind.
fn written_recognition(
    reader: &dyn Reader,
    slots: &SlotKey,
    user: &str,
    head: &Head,
) -> Result<Recognition, StoreError> {
    let value = match head.is_recognising {
        true => reader.get(Space::Log, &keys::log_recognition(slots, user))?,
        false => None,
    };
    value.map_or(Ok(Recognition::default()), |value| decode(&value, user))
}

/// What is written of it, and what the entries behind add; and whether marks of senders found no
/// room thereby.
pub(crate) fn read_recognition(
    reader: &dyn Reader,
    slots: &SlotKey,
    user: &str,
    head: &Head,
) -> Result<(Recognition, bool), StoreError> {
    let mut recognition = written_recognition(reader, slots, user, head)?;
    let mut left_out = false;
    if head.tail_count == 0 {
        return Ok((recognition, left_out));
    }
    let (start, end) = tail(slots, user, head);
    scan::visit(reader, Space::Log, (&start, &end), |key, value| {
        let (seq, entry) = parse_entry(key, value)?;
        let peer = slots.peer(entry.peer);
        let (source, origin, at) = (entry.source, entry.origin, entry.at);
        let forgotten = recognition.remember_parts(peer, source, origin, seq, at);
        left_out |= forgotten.is_some();
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((recognition, left_out))
}
