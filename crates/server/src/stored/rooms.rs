//! The parts of a room in the store, and entries of its log as its machine knows them.

use room::{Message, Present, Record};
use store::{LogEntry, StoreError, StoredRoom};

/// Parts of a room in the store. They are read in the order of their names, and what makes a room
/// comes first.
pub(crate) const CREATED: &str = "0";
pub(crate) const CONFIGURED: &str = "1";
pub(crate) const UNLOCKED: &str = "2";
pub(crate) const AFFILIATED: &str = "a";
pub(crate) const FOLLOWED: &str = "f";
pub(crate) const HATS: &str = "h";
/// Homes of new members may not know of it yet.
pub(crate) const OWED: &str = "m";
pub(crate) const SUBJECT: &str = "s";
pub(crate) const CARD: &str = "v";
/// Those who are there: before a nick's key.
pub(crate) const PRESENT: &str = "o";

/// An entry of the log as the machine knows it.
pub(crate) fn message_of(entry: &LogEntry) -> Message {
    Message {
        seq: entry.seq,
        at: entry.at.as_millis(),
        sender: entry.peer.to_string(),
        xml: entry.frame.to_vec(),
    }
}

/// The records that a room is made of, in order, without messages and without who is there.
///
/// # Errors
/// [`StoreError::Corrupt`] names the part.
pub(crate) fn records_of(room: &str, stored: &StoredRoom) -> Result<Vec<Record>, StoreError> {
    let parts = stored.parts.iter();
    let parts = parts.filter(|(part, _)| !part.starts_with(PRESENT));
    let record = |(part, value): &(String, Vec<u8>)| {
        Record::decode(value).map_err(|error| corrupt(room, part, &error))
    };
    parts.map(record).collect()
}

/// Those who are kept as being there, or having been.
///
/// # Errors
/// As [`records_of`].
pub(crate) fn present_of(room: &str, stored: &StoredRoom) -> Result<Vec<Present>, StoreError> {
    let parts = stored.parts.iter();
    let parts = parts.filter(|(part, _)| part.starts_with(PRESENT));
    let present = |(part, value): &(String, Vec<u8>)| {
        Present::decode(value).map_err(|error| corrupt(room, part, &error))
    };
    parts.map(present).collect()
}

fn corrupt(room: &str, part: &str, error: &room::RecordError) -> StoreError {
    StoreError::Corrupt(format!("{room}: part {part}: {error}"))
}
