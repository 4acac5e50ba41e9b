//! The journal of a server over the streams of a cluster: [`store::Journal`] on a [`Driver`]. Owns
//! the tenures of ranges on this node, which end with the tenure of their stream, and the one
//! answer to each call.
//!
//! A call has appends of several streams, which never wait for each other: one that a stream does
//! not acknowledge is answered as in doubt, and what became of it is said later
//! ([`store::Doubt`]).
//!
//! | the stream says | the caller hears |
//! |---|---|
//! | in the stream and in the store | committed |
//! | the tenure was over before it was written | fenced |
//! | not taken: too much waits, or there is no quorum | failed: unavailable |
//! | no quorum, or the tenure ended while it was under way | in doubt, and the above later |
//! | a snapshot has passed its place | in doubt for ever: the doubt resolves to itself |

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use stdx::{Clock, Moment, SystemClock};
use store::limits::APPEND_RECORDS_MAX;
use store::{
    Append, AppendFailure, Busy, Done, Doubt, Journal, JournalStats, Outcome, Position, RANGES,
    RangeId, SlotKey, Store, Tenure,
};

use crate::driver::{self, Appending, Driver, Word};
use crate::journal::Epoch;
use crate::journal::writer::Refused;
use crate::layout::StreamId;

/// The tenure of a range on this node, and that of its stream in which it was begun.
#[derive(Default)]
struct Held {
    tenure: AtomicU32,
    epoch: AtomicU64,
}

/// See the module.
pub struct StreamJournal {
    driver: Arc<Driver>,
    store: Store,
    slots: SlotKey,
    held: Vec<Held>,
    stats: Arc<Mutex<JournalStats>>,
    clock: SystemClock,
}

impl StreamJournal {
    /// The journal of a node whose streams `driver` runs, applied to `store`.
    pub fn new(driver: Arc<Driver>, store: Store) -> StreamJournal {
        StreamJournal {
            driver,
            slots: store.slot_key(),
            store,
            held: (0..RANGES).map(|_| Held::default()).collect(),
            stats: Arc::default(),
            clock: SystemClock::new(),
        }
    }

    fn held(&self, range: RangeId) -> &Held {
        &self.held[usize::from(range.index())]
    }

    fn stream_of(&self, range: RangeId) -> StreamId {
        self.driver.layout().stream_of(range)
    }

    /// The tenure of the stream in which an append may be written, and its pieces, or why it may
    /// not.
    fn admit(&self, append: &Append) -> Result<(Epoch, Vec<Bytes>), Outcome> {
        let held = self.held(append.range);
        let (tenure, epoch) = (
            held.tenure.load(Ordering::Acquire),
            held.epoch.load(Ordering::Acquire),
        );
        let holds = append.tenure != Tenure::NONE && append.tenure == Tenure::new(tenure);
        if !holds || epoch == 0 || self.driver.serving(self.stream_of(append.range)) != epoch {
            return Err(Outcome::Fenced);
        }
        let invalid = |why: String| Err(Outcome::Failed(AppendFailure::Invalid(why)));
        if append.records.len() > APPEND_RECORDS_MAX {
            return invalid(format!("{} records in one append", append.records.len()));
        }
        // Replicas apply what is in the stream, and must all do the same.
        for record in &append.records {
            if let Err(error) = record.check() {
                return invalid(error.to_string());
            }
            if self.slots.slot(record.user()).range() != append.range {
                return invalid(format!("{} does not belong to the range", record.user()));
            }
        }
        match driver::pieces(self.store.level(), &append.records) {
            Ok(pieces) => Ok((epoch, pieces)),
            Err(error) => invalid(error.to_string()),
        }
    }
}

impl Journal for StreamJournal {
    fn append(&self, appends: Vec<Append>, done: Done) -> Result<(), Busy> {
        let records = appends.iter().map(|append| append.records.len()).collect();
        let batch = Arc::new(Batch {
            outcomes: Mutex::new(Outcomes::new(appends.len())),
            done: Mutex::new(Some((done, self.clock.now(), records))),
            clock: self.clock,
            stats: Arc::clone(&self.stats),
        });
        let mut streams: BTreeMap<(StreamId, Epoch), Vec<Appending>> = BTreeMap::new();
        for (at, append) in appends.into_iter().enumerate() {
            match self.admit(&append) {
                Ok((epoch, pieces)) => {
                    let batch = Arc::clone(&batch);
                    let appending = Appending {
                        range: append.range,
                        writer: append.writer,
                        pieces,
                        hear: Box::new(move |word| batch.hear(at, word)),
                    };
                    let stream = self.stream_of(append.range);
                    streams.entry((stream, epoch)).or_default().push(appending);
                }
                Err(outcome) => batch.decide(at, outcome),
            }
        }
        for ((stream, epoch), appends) in streams {
            self.driver.append_in(Some(epoch), stream, appends);
        }
        batch.answer_if_empty();
        Ok(())
    }

    /// Without the stream's tenure there is none of its ranges.
    fn take(&self, range: RangeId) -> Tenure {
        let epoch = self.driver.serving(self.stream_of(range));
        let held = self.held(range);
        if epoch == 0 {
            held.epoch.store(0, Ordering::Release);
            return Tenure::NONE;
        }
        let tenure = held.tenure.fetch_add(1, Ordering::AcqRel) + 1;
        held.epoch.store(epoch, Ordering::Release);
        Tenure::new(tenure)
    }

    /// A stream that does not acknowledge keeps only its own ranges waiting.
    fn group(&self, range: RangeId) -> u16 {
        self.stream_of(range).0
    }

    fn position(&self, range: RangeId) -> Position {
        let mark = self.store.range_mark(range);
        mark.map(|mark| mark.position).unwrap_or_default()
    }

    fn stats(&self) -> JournalStats {
        lock(&self.stats).clone()
    }
}

/// The appends of one call.
struct Batch {
    outcomes: Mutex<Outcomes>,
    /// Taken with the answer: whom to tell, since when, and the records of each append.
    done: Mutex<Option<(Done, Moment, Vec<usize>)>>,
    clock: SystemClock,
    stats: Arc<Mutex<JournalStats>>,
}

struct Outcomes {
    said: Vec<Option<Outcome>>,
    left: usize,
}

impl Outcomes {
    fn new(count: usize) -> Outcomes {
        Outcomes {
            said: vec![None; count],
            left: count,
        }
    }

    /// The outcome of one is known, or at least that it is in doubt. Returns all of them with the
    /// last.
    fn put(&mut self, at: usize, outcome: Outcome) -> Option<Vec<Outcome>> {
        match &self.said[at] {
            None => {
                self.said[at] = Some(outcome);
                self.left -= 1;
                (self.left == 0).then(|| self.said.iter().flatten().cloned().collect())
            }
            Some(Outcome::InDoubt(doubt)) if !matches!(outcome, Outcome::InDoubt(_)) => {
                doubt.resolve(resolution(outcome));
                None
            }
            Some(_) => None,
        }
    }
}

/// What a doubt resolves to: an append that was under way is fenced by name no more.
fn resolution(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Fenced => {
            let why = "the stream has another home".to_owned();
            Outcome::Failed(AppendFailure::Unavailable(why))
        }
        other => other,
    }
}

impl Batch {
    fn hear(&self, at: usize, word: Word) {
        let unavailable = |why: &str| Outcome::Failed(AppendFailure::Unavailable(why.to_owned()));
        let outcome = match word {
            Word::InDoubt => Outcome::InDoubt(Doubt::open("the stream does not acknowledge it")),
            Word::Decided(driver::Outcome::Committed(position)) => Outcome::Committed(position),
            Word::Decided(driver::Outcome::Fenced | driver::Outcome::Refused(Refused::NotHome)) => {
                Outcome::Fenced
            }
            Word::Decided(driver::Outcome::Follows) => Outcome::Failed(AppendFailure::Follows),
            Word::Decided(driver::Outcome::Refused(why @ Refused::TooLarge)) => {
                Outcome::Failed(AppendFailure::Invalid(why.to_string()))
            }
            Word::Decided(driver::Outcome::Refused(why)) => unavailable(&why.to_string()),
            Word::Decided(driver::Outcome::Unknown) => return self.give_up(at),
        };
        self.decide(at, outcome);
    }

    /// Nobody will ever know of it: the caller is told so.
    fn give_up(&self, at: usize) {
        let never = Doubt::open("its place in the stream was purged");
        never.resolve(Outcome::InDoubt(never.clone()));
        if let Some(Outcome::InDoubt(doubt)) = &lock(&self.outcomes).said[at] {
            return doubt.resolve(Outcome::InDoubt(never));
        }
        self.decide(at, Outcome::InDoubt(never));
    }

    fn decide(&self, at: usize, outcome: Outcome) {
        let all = lock(&self.outcomes).put(at, outcome);
        if let Some(all) = all {
            self.answer(all);
        }
    }

    fn answer_if_empty(&self) {
        let is_empty = lock(&self.outcomes).said.is_empty();
        if is_empty {
            self.answer(Vec::new());
        }
    }

    fn answer(&self, outcomes: Vec<Outcome>) {
        let Some((done, since, records)) = lock(&self.done).take() else {
            return;
        };
        let took: Duration = self.clock.now().saturating_since(since);
        lock(&self.stats).decided(&records, &outcomes, took);
        done(outcomes);
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // What panicked while it held one left it whole.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Told = Arc<Mutex<Option<Vec<Outcome>>>>;

    fn batch(count: usize) -> (Batch, Told) {
        let told = Told::default();
        let to = Arc::clone(&told);
        let done: Done = Box::new(move |outcomes| *lock(&to) = Some(outcomes));
        let clock = SystemClock::new();
        let batch = Batch {
            outcomes: Mutex::new(Outcomes::new(count)),
            done: Mutex::new(Some((done, clock.now(), vec![1; count]))),
            clock,
            stats: Arc::default(),
        };
        (batch, told)
    }

    const COMMITTED: Word = Word::Decided(driver::Outcome::Committed(Position::new(7)));

    /// Goal: a stream that does not acknowledge holds nobody else back, and what became of its
    /// append is said later, once.
    #[test]
    fn what_is_in_doubt_is_answered_at_once_and_resolved_later() {
        let (batch, told) = batch(3);
        batch.hear(1, COMMITTED);
        batch.hear(0, Word::InDoubt);
        batch.hear(0, Word::InDoubt);
        assert_eq!(*lock(&told), None);
        batch.hear(2, Word::Decided(driver::Outcome::Fenced));
        let outcomes = lock(&told).take().unwrap();
        assert_eq!(outcomes[1], Outcome::Committed(Position::new(7)));
        assert_eq!(outcomes[2], Outcome::Fenced);
        let Outcome::InDoubt(doubt) = &outcomes[0] else {
            panic!("{outcomes:?}");
        };
        assert_eq!(doubt.resolved(), None);
        batch.hear(0, COMMITTED);
        assert_eq!(doubt.resolved(), Some(Outcome::Committed(Position::new(7))));
        assert_eq!(*lock(&told), None);
    }

    /// Goal: what nobody can tell any more stays in doubt, and says so, before and after the
    /// answer.
    #[test]
    fn what_nobody_knows_is_said_to_be_unknown() {
        for was_answered in [false, true] {
            let (batch, told) = batch(1);
            if was_answered {
                batch.hear(0, Word::InDoubt);
            }
            batch.hear(0, Word::Decided(driver::Outcome::Unknown));
            let outcomes = lock(&told).take().unwrap();
            let Outcome::InDoubt(doubt) = &outcomes[0] else {
                panic!("{outcomes:?}");
            };
            assert!(matches!(doubt.resolved(), Some(Outcome::InDoubt(_))));
        }
    }

    /// Goal: each refusal is what the server knows it as.
    #[test]
    fn refusals_are_translated() {
        let heard = |refused| {
            let (batch, told) = batch(1);
            batch.hear(0, Word::Decided(driver::Outcome::Refused(refused)));
            lock(&told).take().unwrap().remove(0)
        };
        assert_eq!(heard(Refused::NotHome), Outcome::Fenced);
        for refused in [Refused::Busy, Refused::NoQuorum] {
            let failed = heard(refused);
            assert!(
                matches!(failed, Outcome::Failed(AppendFailure::Unavailable(_))),
                "{failed:?}"
            );
        }
        let failed = heard(Refused::TooLarge);
        assert!(matches!(failed, Outcome::Failed(AppendFailure::Invalid(_))));
    }
}
