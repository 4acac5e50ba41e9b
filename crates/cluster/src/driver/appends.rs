//! Appends on their way to a stream, and what is said of each: it may be in doubt for a while, and
//! is decided once. Owns the words; who says them is the stream's task.

use bytes::Bytes;
use stdx::Level;
use store::{RangeId, Record, RecordError, Writer, appended};

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
    /// Its records, in the pieces that a message may hold ([`store::appended`]). The last one
    /// applies them all: what becomes of it becomes of the append.
    pub pieces: Vec<Bytes>,
    /// Who hears of it.
    pub hear: Hear,
}

/// An append as pieces.
///
/// # Errors
/// As of [`appended::cut`].
pub fn pieces(level: Level, records: &[Record]) -> Result<Vec<Bytes>, RecordError> {
    let pieces = appended::cut(level, records)?;
    Ok(pieces.into_iter().map(Bytes::from).collect())
}
