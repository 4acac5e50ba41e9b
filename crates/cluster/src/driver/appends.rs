//! Appends on their way to a stream, and what is said of each: it may be in doubt for a while, and
//! is decided once. Owns the words; who says them is the stream's task.

use bytes::Bytes;
use store::{RangeId, Writer};

use super::Outcome;

/// What is said of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Nobody knows for the moment: the stream does not acknowledge, or the tenure ended with it
    /// under way. May be said more than once. [`Word::Decided`] follows, however late.
    InDoubt,
    /// What became of it. Said once; not at all if the driver ends before.
    Decided(Outcome),
}

/// Hears what is said of an append. Runs on the stream's task: it hands over and returns.
pub type Hear = Box<dyn FnMut(Word) + Send>;

/// One append.
pub struct Appending {
    /// Of this range.
    pub range: RangeId,
    /// If one of a writer is not taken, the later ones of the same call are not either.
    pub writer: Writer,
    /// Its records ([`crate::journal::append`]).
    pub bytes: Bytes,
    /// Who hears of it.
    pub hear: Hear,
}
