//! The journal: where a range's records go first. Owns the trait that a cluster will implement over
//! a replicated stream, and the terms of an append.

mod commit;
pub(crate) mod local;
pub(crate) mod stats;
pub(crate) mod twin;

use std::fmt;

use crate::journal::stats::JournalStats;
use crate::record::Record;
use crate::slot::RangeId;

pub(crate) use commit::read_position;

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

/// One atomic change of one range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// The range; every record's user must hash into it.
    pub range: RangeId,
    /// Where the caller believes the range's journal stands. If it stands elsewhere, the append is
    /// fenced: the caller acted on state that is not current.
    pub expected: Position,
    /// Applied together or not at all, in order.
    pub records: Vec<Record>,
}

/// What became of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Durable (as far as the configured durability goes) and applied. The range now stands here.
    Committed(Position),
    /// Not applied: the range stands here and not where the caller believed.
    Fenced(Position),
    /// Not acknowledged. The caller drops its unsaved state, reads it again, and asks for the
    /// position. With [`AppendFailure::Io`] it is in doubt whether the change survived.
    Failed(AppendFailure),
}

/// Why an append failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendFailure {
    /// The disk is full; nothing was written.
    Full,
    /// The append itself is wrong (a bad record, a foreign range); nothing of it was applied.
    Invalid(String),
    /// The storage failed, perhaps after the append was written.
    Io(String),
}

impl fmt::Display for AppendFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AppendFailure::Full => f.write_str("the disk is full"),
            AppendFailure::Invalid(why) => write!(f, "invalid append: {why}"),
            AppendFailure::Io(why) => write!(f, "storage failed: {why}"),
        }
    }
}

/// Receives one outcome for each append, in order. Runs on the journal's thread: it hands over and
/// returns, it never waits.
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

    /// Where the range's journal stands, as far as committed.
    fn position(&self, range: RangeId) -> Position;

    /// What it has done since it was started.
    fn stats(&self) -> JournalStats;
}
