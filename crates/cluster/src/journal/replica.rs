//! One stream's messages, applied to the local store in order. Owns which of them count, that none
//! is missing, and the comparison of hashes. A message of an older epoch behind the record of a
//! newer one is void on every replica alike.

use std::collections::VecDeque;

use stdx::Level;
use store::{Follower, RangeId, StoreError, StreamMark, appended};

use crate::flaw::{self, Flaw};
use crate::journal::message::{Body, Check, Entry, Message, MessageError, Run};
use crate::journal::{Epoch, Seq};

/// Bounds of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Messages between two comparisons of hashes. Default: 1,024.
    pub compare_every: u64,
    /// Own hashes kept for comparisons; older ones are compared with nothing. Default: 8.
    pub remembered_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            compare_every: 1_024,
            remembered_max: 8,
        }
    }
}

/// What a message was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It changed the store.
    Changed(Message),
    /// An epoch began with it.
    Began(Message),
    /// It counts for nothing: a newer epoch had begun, or the record came too late.
    Void(Message),
    /// It was applied before.
    Known,
}

/// Two replicas had different hashes at one message. One of them is damaged; which one, a third
/// tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// At this message.
    pub seq: Seq,
    /// In these ranges.
    pub ranges: Vec<RangeId>,
    /// The node with the other hashes.
    pub other: String,
}

/// Why a replica cannot go on. Each but the last is mended by loading a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaError {
    /// Messages are missing in between: they were purged.
    #[error("message {found} follows {applied}: those between were purged")]
    Gap {
        /// The last one that was applied.
        applied: Seq,
        /// The one that came.
        found: Seq,
    },
    /// The message begins where this store does not stand.
    #[error("message {seq} begins range {range} at {first}; this store stands at {stands}")]
    Position {
        /// The message.
        seq: Seq,
        /// Index of the range.
        range: u16,
        /// Where it begins.
        first: u64,
        /// Where the store stands.
        stands: u64,
    },
    /// The message contradicts itself or the stream.
    #[error("message {seq}: {why}")]
    Message {
        /// The message.
        seq: Seq,
        /// What is wrong.
        why: String,
    },
    /// The local store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a replica has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Messages that were applied.
    pub applied: u64,
    /// Messages that were void.
    pub void: u64,
    /// Appends that must not be applied, and were passed over on every replica.
    pub refused: u64,
    /// Comparisons of hashes.
    pub compared: u64,
}

/// One stream on one node.
pub struct Replica {
    options: Options,
    stream: u16,
    ranges: Vec<RangeId>,
    mark: StreamMark,
    remembered: VecDeque<Check>,
    stats: Stats,
    divergence: Option<Divergence>,
}

impl Replica {
    /// Goes on where the store stands.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn new(
        options: Options,
        stream: u16,
        ranges: Vec<RangeId>,
        follower: &Follower,
    ) -> Result<Replica, StoreError> {
        Ok(Replica {
            options,
            stream,
            ranges,
            mark: follower.stream(stream)?,
            remembered: VecDeque::new(),
            stats: Stats::default(),
            divergence: None,
        })
    }

    /// How far the stream was applied.
    pub fn mark(&self) -> StreamMark {
        self.mark
    }

    /// The ranges of the stream.
    pub fn ranges(&self) -> &[RangeId] {
        &self.ranges
    }

    /// What it has done.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The hashes at the last message that is compared.
    pub fn latest_check(&self) -> Option<&Check> {
        self.remembered.back()
    }

    /// The first divergence since the last call.
    pub fn take_divergence(&mut self) -> Option<Divergence> {
        self.divergence.take()
    }

    /// Applies the next message, or passes over one that it has.
    ///
    /// # Errors
    /// Why it cannot go on. Nothing of the message was applied.
    pub fn on_message(
        &mut self,
        seq: Seq,
        payload: &[u8],
        follower: &mut Follower,
    ) -> Result<Applied, ReplicaError> {
        if seq <= self.mark.seq {
            return Ok(Applied::Known);
        }
        if seq != self.mark.seq + 1 {
            let applied = self.mark.seq;
            return Err(ReplicaError::Gap {
                applied,
                found: seq,
            });
        }
        let message = Message::decode(payload).map_err(|error| self.bad(seq, error))?;
        let (epoch, is_stale) = (self.mark.epoch, message.epoch < self.mark.epoch);
        let applied = match &message.body {
            Body::Epoch if message.epoch > epoch => {
                self.apply(seq, message.epoch, (message.level, &[]), follower)?;
                Applied::Began(message)
            }
            Body::Appends { .. } if message.epoch > epoch => {
                let why = format!("epoch {} has no record", message.epoch);
                return Err(ReplicaError::Message { seq, why });
            }
            Body::Appends {
                runs,
                check,
                entries,
            } if !is_stale || flaw::is(Flaw::EpochNotChecked) => {
                if !flaw::is(Flaw::EpochNotChecked) {
                    self.check_runs(seq, runs, entries, follower)?;
                }
                if let Some(check) = check {
                    self.compare(check, &message.author.node);
                }
                self.apply(seq, epoch, (message.level, entries), follower)?;
                self.stats.applied += 1;
                Applied::Changed(message)
            }
            Body::Epoch | Body::Appends { .. } => {
                self.apply(seq, epoch, (message.level, &[]), follower)?;
                self.stats.void += 1;
                Applied::Void(message)
            }
        };
        if seq.is_multiple_of(self.options.compare_every) {
            self.remember(follower)?;
        }
        Ok(applied)
    }

    /// The store was loaded from a snapshot.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn on_snapshot(&mut self, follower: &Follower) -> Result<(), StoreError> {
        self.mark = follower.stream(self.stream)?;
        self.remembered.clear();
        Ok(())
    }

    fn bad(&self, seq: Seq, error: MessageError) -> ReplicaError {
        let why = error.to_string();
        ReplicaError::Message { seq, why }
    }

    fn apply(
        &mut self,
        seq: Seq,
        epoch: Epoch,
        (level, entries): (Level, &[Entry]),
        follower: &mut Follower,
    ) -> Result<(), ReplicaError> {
        let mut appends = Vec::with_capacity(entries.len());
        for entry in entries {
            let bad = |why| ReplicaError::Message { seq, why };
            let mut records = appended::decode(&entry.bytes).map_err(bad)?;
            if flaw::is(Flaw::ForgetsRecords) && self.stats.applied % FORGETS_EVERY == 1 {
                records.clear();
            }
            let range = entry.range().filter(|range| self.ranges.contains(range));
            let range = range.ok_or_else(|| bad("a range of another stream".to_owned()))?;
            appends.push((range, records));
        }
        let mark = StreamMark { seq, epoch };
        self.stats.refused += follower.apply(self.stream, mark, level, &appends)?;
        self.mark = mark;
        Ok(())
    }

    /// Each range begins where the store stands, and has as many appends as is said.
    fn check_runs(
        &self,
        seq: Seq,
        runs: &[Run],
        entries: &[Entry],
        follower: &Follower,
    ) -> Result<(), ReplicaError> {
        let bad = |why: &str| ReplicaError::Message {
            seq,
            why: why.to_owned(),
        };
        for run in runs {
            let range = run.range().ok_or_else(|| bad("no such range"))?;
            let stands = follower.range(range)?.position;
            if run.first != stands.value() + 1 {
                return Err(ReplicaError::Position {
                    seq,
                    range: range.index(),
                    first: run.first,
                    stands: stands.value(),
                });
            }
            let count = entries.iter().filter(|entry| entry.range() == Some(range));
            if count.count() != run.count as usize {
                return Err(bad("counts of appends are wrong"));
            }
        }
        let total: usize = runs.iter().map(|run| run.count as usize).sum();
        match total == entries.len() {
            true => Ok(()),
            false => Err(bad("an append without its range's position")),
        }
    }

    fn remember(&mut self, follower: &Follower) -> Result<(), StoreError> {
        let hashes = self.ranges.iter();
        let hashes = hashes.map(|range| Ok(follower.range(*range)?.hash));
        let hashes = hashes.collect::<Result<Vec<u64>, StoreError>>()?;
        if self.remembered.len() == self.options.remembered_max {
            self.remembered.pop_front();
        }
        let seq = self.mark.seq;
        self.remembered.push_back(Check { seq, hashes });
        Ok(())
    }

    fn compare(&mut self, theirs: &Check, other: &str) {
        let own = self.remembered.iter().find(|own| own.seq == theirs.seq);
        let Some(own) = own else { return };
        self.stats.compared += 1;
        let pairs = own.hashes.iter().zip(&theirs.hashes);
        let ranges = self.ranges.iter().zip(pairs);
        let ranges: Vec<RangeId> = ranges
            .filter(|(_, (own, theirs))| own != theirs)
            .map(|(range, _)| *range)
            .collect();
        if !ranges.is_empty() && self.divergence.is_none() {
            self.divergence = Some(Divergence {
                seq: theirs.seq,
                ranges,
                other: other.to_owned(),
            });
        }
    }
}

/// Messages of which one is not applied, with [`Flaw::ForgetsRecords`].
const FORGETS_EVERY: u64 = 16;

#[cfg(test)]
mod tests;
