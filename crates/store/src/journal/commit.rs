//! Group commit: turns a group of appends into one engine commit and their outcomes. Owns the order
//! of things (fence, apply, positions, commit, then outcomes), the recovery after a failed commit,
//! and what became of appends that were in doubt; which thread runs it is the journals' business.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::apply::{Txn, apply_in, decode_u64};
use crate::doubt::InDoubt;
use crate::engine::{Engine, Reader, Space};
use crate::error::StoreError;
use crate::heads::Heads;
use crate::journal::stats::Counters;
use crate::journal::{Append, AppendFailure, Doubt, Outcome, Position, Tenure, Writer};
use crate::keys;
use crate::overlay::Overlay;
use crate::record::Record;
use crate::slot::{RANGES, RangeId, Slot, SlotKey};
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

/// The tenures that hold, readable and endable by everyone.
pub(crate) struct Tenures([AtomicU32; RANGES as usize]);

impl Tenures {
    fn new() -> Tenures {
        Tenures([const { AtomicU32::new(0) }; RANGES as usize])
    }

    pub(crate) fn take(&self, range: RangeId) -> Tenure {
        let before = self.0[usize::from(range.index())].fetch_add(1, Ordering::AcqRel);
        Tenure::new(before + 1)
    }

    fn holds(&self, append: &Append) -> bool {
        let now = self.0[usize::from(append.range.index())].load(Ordering::Acquire);
        append.tenure != Tenure::NONE && append.tenure == Tenure::new(now)
    }
}

/// A group whose commit may have happened: it is one batch, so the position of any range that it
/// moved tells.
struct Doubtful {
    range: RangeId,
    /// Where that range stands if it did.
    moved_to: Position,
    /// Each with where it stands if it did.
    appends: Vec<(Doubt, Position)>,
}

/// The one writer of a store.
pub(crate) struct Committer {
    store: Store,
    engine: Arc<dyn Engine>,
    append_records_max: usize,
    slots: SlotKey,
    durability: Durability,
    positions: Arc<Positions>,
    tenures: Arc<Tenures>,
    counters: Arc<Counters>,
    heads: Heads,
    /// At most one: after it nothing is committed before it is resolved.
    doubtful: Option<Doubtful>,
    in_doubt: Arc<InDoubt>,
    /// The last commit failed: nothing may be built on the engine before it was healed and read
    /// again.
    damaged: bool,
    _writer: WriterToken,
}

/// Positions of the ranges that a group touches: most groups touch few of them.
struct Moved {
    to: Vec<(RangeId, Position)>,
    /// Where each range is in `to`.
    places: [u8; RANGES as usize],
}

/// The place of a range that was not touched.
const UNTOUCHED: u8 = u8::MAX;

const _: () = assert!(RANGES < UNTOUCHED as u16, "every range has a place");

impl Moved {
    fn new() -> Moved {
        Moved {
            to: Vec::new(),
            places: [UNTOUCHED; RANGES as usize],
        }
    }

    fn get(&self, range: RangeId) -> Option<Position> {
        let place = self.places[usize::from(range.index())];
        self.to
            .get(usize::from(place))
            .map(|(_, position)| *position)
    }

    fn set(&mut self, range: RangeId, position: Position) {
        let place = &mut self.places[usize::from(range.index())];
        match self.to.get_mut(usize::from(*place)) {
            Some(known) => known.1 = position,
            None => {
                *place = self.to.len() as u8;
                self.to.push((range, position));
            }
        }
    }
}

impl Committer {
    /// Takes the store's only writer token and reads all positions.
    pub(crate) fn new(store: &Store, append_records_max: usize) -> Result<Committer, StoreError> {
        let writer = store.writer()?;
        let committer = Committer {
            store: store.clone(),
            engine: store.engine(),
            append_records_max,
            slots: store.slot_key(),
            durability: store.durability(),
            positions: Arc::new(Positions::new()),
            tenures: Arc::new(Tenures::new()),
            counters: Arc::default(),
            heads: Heads::default(),
            doubtful: None,
            in_doubt: store.in_doubt(),
            damaged: false,
            _writer: writer,
        };
        committer.load_positions()?;
        Ok(committer)
    }

    pub(crate) fn positions(&self) -> Arc<Positions> {
        Arc::clone(&self.positions)
    }

    pub(crate) fn tenures(&self) -> Arc<Tenures> {
        Arc::clone(&self.tenures)
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
        self.counters.failed_commit();
        vec![Outcome::Failed(failure(&error)); group.len()]
    }

    /// A commit failed after it may have been written: nobody reads its users, and nothing else is
    /// committed, before it is known whether it survives.
    fn doubt(&mut self, group: &[Append], moved: &Moved, outcomes: &mut [Outcome], why: &str) {
        self.damaged = true;
        self.counters.failed_commit();
        let records = group.iter().flat_map(|append| &append.records);
        self.in_doubt.add(records.map(Record::user));
        let mut appends = Vec::new();
        for outcome in outcomes {
            if let Outcome::Committed(position) = *outcome {
                let doubt = Doubt::open(why);
                appends.push((doubt.clone(), position));
                *outcome = Outcome::InDoubt(doubt);
            }
        }
        self.doubtful = moved.to.first().map(|&(range, moved_to)| Doubtful {
            range,
            moved_to,
            appends,
        });
    }

    /// The engine was healed: what was in doubt is there, or never will be.
    fn resolve(&mut self) {
        self.in_doubt.clear();
        let Some(doubtful) = self.doubtful.take() else {
            return;
        };
        let survived = self.positions.get(doubtful.range) >= doubtful.moved_to;
        for (doubt, position) in doubtful.appends {
            doubt.resolve(if survived {
                Outcome::Committed(position)
            } else {
                let why = "a failed commit did not survive".to_owned();
                Outcome::Failed(AppendFailure::Unavailable(why))
            });
        }
    }

    /// Whether the engine has to be healed before anything else.
    pub(super) fn is_broken(&self) -> bool {
        self.damaged
    }

    /// Heals the engine if that is possible now; the next append or attempt says why if not.
    pub(super) fn try_to_heal(&mut self) {
        let _ = self.heal();
    }

    /// Makes the engine writable and its positions known again, if a commit failed.
    fn heal(&mut self) -> Result<(), StoreError> {
        if !self.damaged {
            return Ok(());
        }
        self.engine.heal()?;
        self.load_positions()?;
        self.damaged = false;
        self.counters.healed();
        self.resolve();
        Ok(())
    }

    fn try_decide(&mut self, group: &[Append]) -> Result<Vec<Outcome>, StoreError> {
        self.heal()?;
        let engine = Arc::clone(&self.engine);
        // What is known of heads comes back only if the commit succeeds.
        let heads = std::mem::take(&mut self.heads);
        let overlay = Overlay::new(&*engine).with_heads(heads);
        let mut overlay = overlay.at(self.store.level());
        let mut moved = Moved::new();
        let mut outcomes = Vec::with_capacity(group.len());
        let mut broken = Vec::new();
        for append in group {
            let at = moved.get(append.range);
            let at = at.unwrap_or_else(|| self.positions.get(append.range));
            let outcome = if broken.contains(&append.writer) {
                Outcome::Failed(AppendFailure::Follows)
            } else {
                self.try_append(append, at, &mut overlay)?
            };
            match outcome {
                Outcome::Committed(position) => moved.set(append.range, position),
                _ if append.writer == Writer::NOBODY => {}
                _ => broken.push(append.writer),
            }
            outcomes.push(outcome);
        }
        for (range, position) in &moved.to {
            let value = position.value().to_be_bytes().to_vec();
            overlay.put(Space::Meta, keys::position(*range).to_vec(), value);
        }
        let heads = overlay.take_heads();
        let batch = overlay.into_batch();
        if !batch.is_empty() {
            let commit = || self.engine.commit(batch, self.durability);
            let commit = || self.counters.time(commit);
            match panic::catch_unwind(AssertUnwindSafe(commit)) {
                Ok(Ok(())) => {}
                Ok(Err(error)) if self.engine.is_settled() => return Err(error),
                failed => {
                    let error = failed.map_or_else(|_| "panic".to_owned(), error_text);
                    self.doubt(group, &moved, &mut outcomes, &error);
                    return Ok(outcomes);
                }
            }
        }
        self.heads = heads;
        for (range, position) in moved.to {
            self.positions.set(range, position);
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
        if !self.tenures.holds(append) {
            return Ok(Outcome::Fenced);
        }
        let failed = |failure| Ok(Outcome::Failed(failure));
        if append.records.len() > self.append_records_max {
            let why = format!("{} records in one append", append.records.len());
            return failed(AppendFailure::Invalid(why));
        }
        let mut known: Option<(&str, Slot)> = None;
        for record in &append.records {
            let user = record.user();
            // Nearly all records of an append are of one entity.
            let slot = match known {
                Some((have, slot)) if have == user => slot,
                _ => self.slots.slot(user),
            };
            known = Some((user, slot));
            if slot.range() != append.range {
                overlay.take_back();
                let why = format!("{user} does not belong to the range");
                return failed(AppendFailure::Invalid(why));
            }
            match apply_in(slot, record, &self.slots, overlay) {
                Ok(()) => {}
                // One damaged value fails the append that met it, not its whole group.
                Err(error @ (StoreError::Corrupt(_) | StoreError::Record(_))) => {
                    overlay.take_back();
                    return failed(failure(&error));
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

fn error_text(failed: Result<(), StoreError>) -> String {
    failed.map_or_else(|error| error.to_string(), |()| String::new())
}

fn failure(error: &StoreError) -> AppendFailure {
    match error {
        StoreError::Full => AppendFailure::Full,
        StoreError::Record(error) => AppendFailure::Invalid(error.to_string()),
        StoreError::Corrupt(_) => AppendFailure::Invalid(error.to_string()),
        StoreError::Unavailable(_)
        | StoreError::Poisoned(_)
        | StoreError::HasWriter
        | StoreError::Io(_) => AppendFailure::Unavailable(error.to_string()),
    }
}
