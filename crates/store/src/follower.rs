//! A store that follows streams: it applies what a replicated journal has committed. Owns the one
//! batch that holds state, positions, the rolling hash of each range and how far the stream was
//! applied, so that a kill leaves all of them or none. What a stream is and which of its messages
//! count is decided by the caller; nothing here is fenced or in doubt.

mod parts;
mod snapshot;

use std::hash::Hasher;
use std::sync::Arc;

use siphasher::sip::SipHasher13;
use stdx::Level;

use crate::apply::{apply, decode_u64};
use crate::engine::{Batch, Change, Engine, Reader, Space};
use crate::error::StoreError;
use crate::heads::Heads;
use crate::journal::{Position, read_position};
use crate::keys;
use crate::overlay::Overlay;
use crate::record::{Record, RecordError};
use crate::schema::{self, schema_of};
use crate::slot::{RANGES, RangeId, Slot, SlotKey};
use crate::store::{Store, WriterToken};

/// What a follower has applied of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamMark {
    /// Sequence of the last message that was applied or passed over; 0 before the first.
    pub seq: u64,
    /// The newest epoch that was seen up to there.
    pub epoch: u64,
}

impl StreamMark {
    pub(crate) fn encode(self) -> Vec<u8> {
        [self.seq.to_be_bytes(), self.epoch.to_be_bytes()].concat()
    }

    pub(crate) fn decode(value: &[u8]) -> Result<StreamMark, StoreError> {
        let (seq, epoch) = value.split_at_checked(8).unwrap_or((value, &[]));
        Ok(StreamMark {
            seq: decode_u64(seq, "mark of a stream")?,
            epoch: decode_u64(epoch, "mark of a stream")?,
        })
    }
}

/// Where a range stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeMark {
    /// The number of appends applied.
    pub position: Position,
    /// Rolling hash of the changes that they made. Equal on all replicas at the same message of the
    /// stream; it notices damage, not forgery.
    pub hash: u64,
}

/// The one writer of a store that follows streams.
pub struct Follower {
    store: Store,
    engine: Arc<dyn Engine>,
    slots: SlotKey,
    heads: Heads,
    /// Older programs are kept out of what has values of this level.
    level: Level,
    _writer: WriterToken,
}

impl Follower {
    /// Takes the store's right to write.
    ///
    /// # Errors
    /// [`StoreError::HasWriter`] while a journal is running.
    pub fn new(store: &Store) -> Result<Follower, StoreError> {
        let writer = store.writer()?;
        Ok(Follower {
            store: store.clone(),
            engine: store.engine(),
            slots: store.slot_key(),
            heads: Heads::default(),
            level: schema::level(&*store.engine())?,
            _writer: writer,
        })
    }

    /// How far a stream was applied.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn stream(&self, stream: u16) -> Result<StreamMark, StoreError> {
        read_stream(&*self.engine, stream)
    }

    /// Where a range stands.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn range(&self, range: RangeId) -> Result<RangeMark, StoreError> {
        read_range(&*self.engine, range)
    }

    /// Applies the appends of one message, in order, with the stream's new mark, as one batch. What
    /// they change is written in the forms of the message's level, on every replica alike. An
    /// append counts for its range's position also if one of its records must not be applied
    /// ([`Record::check`]) or is of another range: then it changes nothing, on every replica.
    /// Returns how many those were.
    ///
    /// # Errors
    /// Any [`StoreError`]. Nothing was applied, unless the engine is not settled: then only reading
    /// [`Follower::stream`] again, after [`Follower::heal`], says what was.
    pub fn apply(
        &mut self,
        stream: u16,
        mark: StreamMark,
        level: Level,
        appends: &[(RangeId, Vec<Record>)],
    ) -> Result<u64, StoreError> {
        let engine = Arc::clone(&self.engine);
        let heads = std::mem::take(&mut self.heads);
        let mut overlay = Overlay::new(&*engine).with_heads(heads).at(level);
        let mut ranges: Vec<(RangeId, RangeMark)> = Vec::new();
        let mut refused = 0;
        for (range, records) in appends {
            refused += u64::from(!self.append(*range, records, &mut overlay)?);
            match ranges.iter_mut().find(|(known, _)| known == range) {
                Some((_, at)) => at.position = at.position.next(),
                None => {
                    let mut at = read_range(&*engine, *range)?;
                    at.position = at.position.next();
                    ranges.push((*range, at));
                }
            }
        }
        let heads = overlay.take_heads();
        let mut batch = overlay.into_batch();
        for (range, at) in &mut ranges {
            at.hash = self.rolled(at.hash, *range, &batch);
        }
        for (range, at) in &ranges {
            batch.push(meta(
                &keys::position(*range),
                &at.position.value().to_be_bytes(),
            ));
            batch.push(meta(&keys::hash(*range), &at.hash.to_be_bytes()));
        }
        batch.push(meta(&keys::stream(stream), &mark.encode()));
        self.raise(level, &mut batch);
        engine.commit(batch, self.store.durability())?;
        self.level = self.level.max(level);
        self.heads = heads;
        Ok(refused)
    }

    /// With the first values of a level goes the number that keeps older programs out.
    fn raise(&self, level: Level, batch: &mut Batch) {
        if schema_of(level) > schema_of(self.level) {
            batch.push(schema::schema_change(schema_of(level)));
        }
    }

    /// Whether the append changed something, or at least was allowed to.
    fn append(
        &self,
        range: RangeId,
        records: &[Record],
        overlay: &mut Overlay<'_>,
    ) -> Result<bool, StoreError> {
        let applied = records.iter().try_for_each(|record| {
            self.is_of(range, record)?;
            match record {
                Record::PartPut { at, bytes, .. } => {
                    record.check()?;
                    parts::put(range, *at, bytes, overlay)
                }
                Record::PartsApply { parts, hash, .. } => {
                    record.check()?;
                    let whole = parts::take(range, *parts, *hash, overlay)?;
                    whole.iter().try_for_each(|record| {
                        self.is_of(range, record)?;
                        apply(record, &self.slots, overlay)
                    })
                }
                _ => apply(record, &self.slots, overlay),
            }
        });
        match applied {
            Ok(()) => overlay.keep(),
            Err(StoreError::Record(_)) => overlay.take_back(),
            Err(error) => return Err(error),
        }
        Ok(applied.is_ok())
    }

    fn is_of(&self, range: RangeId, record: &Record) -> Result<(), StoreError> {
        match self.slots.slot(record.user()).range() == range {
            true => Ok(()),
            false => Err(RecordError::Range.into()),
        }
    }

    /// The hash of a range after these changes, which come sorted by space and key.
    fn rolled(&self, before: u64, range: RangeId, batch: &Batch) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(before, 0x726f_6f73_7468_6173);
        for change in batch {
            if range_of(&self.slots, change.space, &change.key) != Some(range) {
                continue;
            }
            hasher.write_u8(change.space as u8);
            hasher.write_usize(change.key.len());
            hasher.write(&change.key);
            match &change.value {
                Some(value) => {
                    hasher.write_usize(value.len());
                    hasher.write(value);
                }
                None => hasher.write_usize(usize::MAX),
            }
        }
        hasher.finish()
    }

    /// Reopens the engine after a failed commit, if that is what it takes.
    ///
    /// # Errors
    /// Why writing is still not possible.
    pub fn heal(&mut self) -> Result<(), StoreError> {
        self.heads.clear();
        self.engine.heal()
    }
}

impl Store {
    /// Whether anything of a stream was ever applied to it.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn follows_streams(&self) -> Result<bool, StoreError> {
        let snapshot = self.snapshot()?;
        for stream in 0..RANGES {
            if read_stream(&*snapshot, stream)? != StreamMark::default() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where a range stands, as of the last message that was applied to it.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn range_mark(&self, range: RangeId) -> Result<RangeMark, StoreError> {
        read_range(&*self.snapshot()?, range)
    }
}

pub(crate) fn read_stream(reader: &dyn Reader, stream: u16) -> Result<StreamMark, StoreError> {
    match reader.get(Space::Meta, &keys::stream(stream))? {
        Some(value) => StreamMark::decode(&value),
        None => Ok(StreamMark::default()),
    }
}

fn read_range(reader: &dyn Reader, range: RangeId) -> Result<RangeMark, StoreError> {
    let hash = match reader.get(Space::Meta, &keys::hash(range))? {
        Some(value) => decode_u64(&value, "hash of a range")?,
        None => 0,
    };
    let position = read_position(reader, range)?;
    Ok(RangeMark { position, hash })
}

fn meta(key: &[u8], value: &[u8]) -> Change {
    Change {
        space: Space::Meta,
        key: key.into(),
        value: Some(value.into()),
    }
}

/// The range that a key belongs to, if it is one that replicas share.
fn range_of(slots: &SlotKey, space: Space, key: &[u8]) -> Option<RangeId> {
    if space != Space::Meta {
        let (high, low) = (*key.first()?, *key.get(1)?);
        return Slot::from_index(u16::from_be_bytes([high, low])).map(Slot::range);
    }
    match keys::parse_meta(key)? {
        keys::Meta::Position(range)
        | keys::Meta::Hash(range)
        | keys::Meta::Part(range, _)
        | keys::Meta::Count(range, _)
        | keys::Meta::Stored(range, _)
        | keys::Meta::Room(range, _)
        | keys::Meta::Directory(range, _) => Some(range),
        keys::Meta::Made(_, room) | keys::Meta::Public(room) => Some(slots.slot(room).range()),
        keys::Meta::Schema
        | keys::Meta::SlotKey
        | keys::Meta::Epoch
        | keys::Meta::Joined
        | keys::Meta::Stream(_) => None,
    }
}

#[cfg(test)]
mod tests;
