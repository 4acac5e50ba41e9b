//! Group commit: turns a group of appends into one engine commit and their outcomes. Owns the order
//! of things (fence, apply, positions, commit, then outcomes) and the recovery after a failed
//! commit; which thread runs it is the journals' business.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;

use crate::apply::{Txn, apply, decode_u64};
use crate::engine::{Change, Engine, Reader, Space, Visit};
use crate::error::StoreError;
use crate::journal::stats::Counters;
use crate::journal::{Append, AppendFailure, Outcome, Position};
use crate::keys;
use crate::limits::{APPEND_RECORDS_MAX, HEADS_CACHED_BYTES_MAX};
use crate::log::derive_head;
use crate::overlay::Overlay;
use crate::slot::{RANGES, RangeId, SlotKey};
use crate::state::{VALUE_VERSION, encode};
use crate::store::{Durability, Store, WriterToken};

/// Committed positions, readable by everyone.
pub(crate) struct Positions([AtomicU64; RANGES as usize]);

impl Positions {
    fn new() -> Positions {
        Positions([const { AtomicU64::new(0) }; RANGES as usize])
    }

    pub(crate) fn get(&self, range: RangeId) -> Position {
        Position::new(self.0[usize::from(range.index())].load(Ordering::Acquire))
    }

    fn set(&self, range: RangeId, position: Position) {
        self.0[usize::from(range.index())].store(position.value(), Ordering::Release);
    }
}

/// The one writer of a store.
pub(crate) struct Committer {
    engine: Arc<dyn Engine>,
    slots: SlotKey,
    durability: Durability,
    positions: Arc<Positions>,
    counters: Arc<Counters>,
    heads: Heads,
    /// The last commit failed: nothing may be built on the engine before it was healed and read
    /// again.
    damaged: bool,
    _writer: WriterToken,
}

/// Heads of users whose logs moved lately, as of the last entry, so that a user in conversation is
/// not read from the engine for every message. Only ever holds what follows from what is committed.
#[derive(Default)]
struct Heads {
    map: FxHashMap<Vec<u8>, Vec<u8>>,
    /// Of all heads since the last time that all were forgotten: never less than what is there.
    bytes: usize,
}

/// Bytes assumed for a place in the map and two allocations.
const HEAD_OVERHEAD_BYTES: usize = 96;

impl Heads {
    fn learn(&mut self, batch: &[Change], derived: BTreeMap<Vec<u8>, Vec<u8>>) {
        for change in batch.iter().filter(|change| change.space == Space::Head) {
            match &change.value {
                Some(value) => self.insert(change.key.clone(), value.clone()),
                None => drop(self.map.remove(&change.key)),
            }
        }
        for (key, value) in derived {
            self.insert(key, value);
        }
    }

    fn insert(&mut self, key: Vec<u8>, value: Vec<u8>) {
        if self.bytes >= HEADS_CACHED_BYTES_MAX {
            self.clear();
        }
        let (key_len, value_len) = (key.len(), value.len());
        self.bytes += value_len;
        match self.map.insert(key, value) {
            Some(before) => self.bytes -= before.len(),
            None => self.bytes += key_len + HEAD_OVERHEAD_BYTES,
        }
    }

    fn clear(&mut self) {
        self.map.clear();
        self.bytes = 0;
    }
}

/// The engine with the heads in front of it.
struct Cached<'a> {
    engine: &'a dyn Engine,
    slots: &'a SlotKey,
    heads: &'a Heads,
}

/// The engine with heads as of the last entry, as `apply` sees them.
pub(crate) struct Derived<'a>(pub(crate) &'a dyn Engine, pub(crate) &'a SlotKey);

impl Reader for Derived<'_> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.0.get(space, key)?;
        if space != Space::Head {
            return Ok(value);
        }
        let Some((written, (_, user))) = value.zip(keys::parse_user(key)) else {
            return Ok(None);
        };
        let head = derive_head(self.0, self.1, user, &written)?;
        Ok(Some(encode(VALUE_VERSION, &head)))
    }

    fn scan(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.0.scan(space, start, end, visit)
    }

    fn scan_back(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.0.scan_back(space, start, end, visit)
    }
}

impl Reader for Cached<'_> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        if space != Space::Head {
            return self.engine.get(space, key);
        }
        if let Some(value) = self.heads.map.get(key) {
            return Ok(Some(value.clone()));
        }
        Derived(self.engine, self.slots).get(space, key)
    }

    fn scan(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.engine.scan(space, start, end, visit)
    }

    fn scan_back(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.engine.scan_back(space, start, end, visit)
    }
}

/// Positions of the ranges that a group touches.
struct Moved([Option<Position>; RANGES as usize]);

impl Committer {
    /// Takes the store's only writer token and reads all positions.
    pub(crate) fn new(store: &Store) -> Result<Committer, StoreError> {
        let writer = store.writer()?;
        let committer = Committer {
            engine: store.engine(),
            slots: store.slot_key(),
            durability: store.durability(),
            positions: Arc::new(Positions::new()),
            counters: Arc::default(),
            heads: Heads::default(),
            damaged: false,
            _writer: writer,
        };
        committer.load_positions()?;
        Ok(committer)
    }

    pub(crate) fn positions(&self) -> Arc<Positions> {
        Arc::clone(&self.positions)
    }

    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    fn load_positions(&self) -> Result<(), StoreError> {
        for range in RangeId::all() {
            self.positions
                .set(range, read_position(&*self.engine, range)?);
        }
        Ok(())
    }

    /// Decides all appends of a group, in order, with one commit.
    pub(crate) fn decide(&mut self, group: &[Append]) -> Vec<Outcome> {
        // A panic in `apply` is a bug that must not take the writer with it: the group fails, and
        // everything it changed is gone with its overlay.
        let decided = panic::catch_unwind(AssertUnwindSafe(|| self.try_decide(group)));
        let outcomes = match decided {
            Ok(Ok(outcomes)) => outcomes,
            Ok(Err(error)) => self.failed(group, error),
            Err(_) => self.failed(group, StoreError::Io("panic in a group commit".to_owned())),
        };
        self.counters.decided(group, &outcomes);
        outcomes
    }

    fn failed(&mut self, group: &[Append], error: StoreError) -> Vec<Outcome> {
        self.damaged = true;
        self.heads.clear();
        self.counters.failed_commit();
        vec![Outcome::Failed(failure(&error)); group.len()]
    }

    /// Makes the engine writable and its positions known again, if a commit failed.
    /// Whether the engine has to be healed before anything else.
    pub(super) fn is_broken(&self) -> bool {
        self.damaged
    }

    /// Heals the engine if that is possible now; the next append or attempt says why if not.
    pub(super) fn try_to_heal(&mut self) {
        let _ = self.heal();
    }

    fn heal(&mut self) -> Result<(), StoreError> {
        if !self.damaged {
            return Ok(());
        }
        self.engine.heal()?;
        self.load_positions()?;
        self.damaged = false;
        self.counters.healed();
        Ok(())
    }

    fn try_decide(&mut self, group: &[Append]) -> Result<Vec<Outcome>, StoreError> {
        self.heal()?;
        let engine = Arc::clone(&self.engine);
        let heads = std::mem::take(&mut self.heads);
        let cached = Cached {
            engine: &*engine,
            slots: &self.slots,
            heads: &heads,
        };
        let mut overlay = Overlay::new(&cached);
        let mut moved = Moved([None; RANGES as usize]);
        let mut outcomes = Vec::with_capacity(group.len());
        for append in group {
            let at = moved.0[usize::from(append.range.index())]
                .unwrap_or_else(|| self.positions.get(append.range));
            let outcome = self.try_append(append, at, &mut overlay)?;
            if let Outcome::Committed(position) = outcome {
                moved.0[usize::from(append.range.index())] = Some(position);
            }
            outcomes.push(outcome);
        }
        for (range, position) in RangeId::all().zip(&moved.0) {
            if let Some(position) = position {
                let value = position.value().to_be_bytes().to_vec();
                overlay.put(Space::Meta, keys::position(range).to_vec(), value);
            }
        }
        let derived = overlay.take_derived();
        let batch = overlay.into_batch();
        self.heads = heads;
        if !batch.is_empty() {
            // Learned before the commit, forgotten if it fails.
            self.heads.learn(&batch, derived);
            self.counters
                .time(|| self.engine.commit(batch, self.durability))?;
        }
        for (range, position) in RangeId::all().zip(moved.0) {
            if let Some(position) = position {
                self.positions.set(range, position);
            }
        }
        Ok(outcomes)
    }

    /// Applies one append to the overlay, or leaves no trace of it there.
    fn try_append(
        &self,
        append: &Append,
        at: Position,
        overlay: &mut Overlay<'_>,
    ) -> Result<Outcome, StoreError> {
        if append.expected != at {
            return Ok(Outcome::Fenced(at));
        }
        if let Err(why) = check(append, &self.slots) {
            return Ok(Outcome::Failed(AppendFailure::Invalid(why)));
        }
        for record in &append.records {
            match apply(record, &self.slots, overlay) {
                Ok(()) => {}
                // One damaged value fails the append that met it, not its whole group.
                Err(error @ (StoreError::Corrupt(_) | StoreError::Record(_))) => {
                    overlay.take_back();
                    return Ok(Outcome::Failed(failure(&error)));
                }
                Err(error) => return Err(error),
            }
        }
        overlay.keep();
        Ok(Outcome::Committed(at.next()))
    }
}

/// The applied position of a range.
pub(crate) fn read_position(reader: &dyn Reader, range: RangeId) -> Result<Position, StoreError> {
    match reader.get(Space::Meta, &keys::position(range))? {
        Some(value) => decode_u64(&value, "position of a range").map(Position::new),
        None => Ok(Position::default()),
    }
}

fn check(append: &Append, slots: &SlotKey) -> Result<(), String> {
    if append.records.len() > APPEND_RECORDS_MAX {
        return Err(format!("{} records in one append", append.records.len()));
    }
    for record in &append.records {
        record.check().map_err(|error| error.to_string())?;
        if slots.slot(record.user()).range() != append.range {
            return Err(format!("{} does not belong to the range", record.user()));
        }
    }
    Ok(())
}

fn failure(error: &StoreError) -> AppendFailure {
    match error {
        StoreError::Full => AppendFailure::Full,
        StoreError::Record(error) => AppendFailure::Invalid(error.to_string()),
        StoreError::Unavailable(_)
        | StoreError::Poisoned(_)
        | StoreError::Corrupt(_)
        | StoreError::HasWriter
        | StoreError::Io(_) => AppendFailure::Io(error.to_string()),
    }
}
