//! The journal: where a range's records go first. Owns the trait that a cluster will implement over
//! a replicated stream, and the terms of an append.

mod batch;
mod commit;
mod doubt;
pub(crate) mod local;
mod options;
mod pace;
pub(crate) mod stats;
pub(crate) mod twin;

pub use batch::{Adding, AppendBatch};

use std::fmt;

use crate::journal::stats::JournalStats;
use crate::record::Record;
use crate::slot::RangeId;

pub(crate) use commit::read_position;
pub use doubt::Doubt;
pub use options::JournalOptions;

/// How many appends a range has seen: the position of its journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// The position after `appends` appends.
    pub const fn new(appends: u64) -> Position {
        Position(appends)
    }

    /// The number of appends.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// The position after one more append.
    #[must_use]
    pub const fn next(self) -> Position {
        Position(self.0 + 1)
    }
}

/// One home's time with a range. Whoever takes a range begins a new tenure, which ends all earlier
/// ones: their appends are fenced from then on, those that wait in a queue included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenure(u32);

impl Tenure {
    /// Before anybody took the range: nothing can be appended with it.
    pub const NONE: Tenure = Tenure(0);

    /// The tenure of this number, for whoever implements [`Journal`]; 0 is [`Tenure::NONE`].
    pub const fn new(number: u32) -> Tenure {
        Tenure(number)
    }
}

/// Names whoever appends, among those who share a tenure: an entity's actor, for example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Writer(pub u64);

impl Writer {
    /// Of appends that depend on no other one.
    pub const NOBODY: Writer = Writer(0);
}

/// One atomic change of one range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// The range; every record's user must hash into it.
    pub range: RangeId,
    /// The tenure in which the state was read that this builds on. If it is over, the append is
    /// fenced.
    pub tenure: Tenure,
    /// Each append of a writer builds on the one before. If one of a call does not come to be, the
    /// later ones of this writer in the same call fail; everybody else's go on.
    pub writer: Writer,
    /// Applied together or not at all, in order.
    pub records: Vec<Record>,
}

impl Append {
    /// About how many bytes its records take, in memory and on the disk.
    pub fn bytes(&self) -> usize {
        self.records.iter().map(weight).sum()
    }
}

fn weight(record: &Record) -> usize {
    const OVERHEAD: usize = 128;
    match record {
        Record::LogAppend { entry, .. } => entry.frame.len() + OVERHEAD,
        record => record.bytes() + 2 * OVERHEAD,
    }
}

/// What became of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Durable (as far as the configured durability goes) and applied. The range now stands here.
    Committed(Position),
    /// Not applied, and never will be: its tenure is over. The caller drops its unsaved state and
    /// reads it again.
    Fenced,
    /// Not applied, and never will be. The caller does as if it was fenced.
    Failed(AppendFailure),
    /// It may come to be or not. Nothing that builds on either may leave before the journal knows:
    /// later appends of this writer wait for [`Doubt::resolved`].
    InDoubt(Doubt),
}

/// Why an append failed. Each is certain: nothing of the append is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendFailure {
    /// The disk is full.
    Full,
    /// The append itself is wrong (a bad record, a foreign range), or meets damaged data.
    Invalid(String),
    /// An earlier append of its writer in the same call did not come to be.
    Follows,
    /// The storage cannot be written to for the moment, or lost the append.
    Unavailable(String),
}

impl fmt::Display for AppendFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AppendFailure::Full => f.write_str("the disk is full"),
            AppendFailure::Invalid(why) => write!(f, "invalid append: {why}"),
            AppendFailure::Follows => f.write_str("an earlier append failed"),
            AppendFailure::Unavailable(why) => write!(f, "storage failed: {why}"),
        }
    }
}

/// Receives one outcome for each append, in order. What became of one in doubt is asked of its
/// [`Doubt`] later. Runs on the journal's thread: it hands over and returns, it never waits.
pub type Done = Box<dyn FnOnce(Vec<Outcome>) + Send>;

/// The journal's queue is full. Everything comes back.
pub struct Busy {
    /// The appends that were not taken.
    pub appends: Vec<Append>,
    /// The receiver, which was not called.
    pub done: Done,
}

impl fmt::Debug for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Busy")
            .field("appends", &self.appends.len())
            .finish_non_exhaustive()
    }
}

/// Where a range's records go first: the local store on one node, a replicated stream in a cluster.
pub trait Journal: Send + Sync {
    /// Hands appends over and returns at once. `done` is called exactly once if they were taken,
    /// also when the journal shuts down with them in its queue. Calls of one thread are handled in
    /// order; appends that are handed over together may be committed in one group with those of
    /// other callers.
    ///
    /// # Errors
    /// [`Busy`] if the queue is full, with everything handed back.
    fn append(&self, appends: Vec<Append>, done: Done) -> Result<(), Busy>;

    /// The same with a batch to which may be added until its commit begins: `done` has an outcome
    /// for each append that is in it then.
    ///
    /// # Errors
    /// As [`Journal::append`].
    fn append_batch(&self, batch: AppendBatch, done: Done) -> Result<(), Busy> {
        self.append(batch.close(), done)
    }

    /// Takes a range: begins a new tenure of it, and ends every earlier one at once. What was
    /// committed in those can be read, or will be once what is in doubt is resolved; what waits in
    /// the queue is fenced.
    fn take(&self, range: RangeId) -> Tenure;

    /// The group that a range is of. Appends of one group are committed in order; those of
    /// different groups do not wait for each other, so whoever appends hands each group's over by
    /// themselves.
    /// Groups are numbered from 0, and a range stays in its own.
    fn group(&self, _range: RangeId) -> u16 {
        0
    }

    /// Where the range's journal stands, as far as committed.
    fn position(&self, range: RangeId) -> Position;

    /// What it has done since it was started.
    fn stats(&self) -> JournalStats;
}
