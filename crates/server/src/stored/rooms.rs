//! The parts of a room in the store, and entries of its log as its machine knows them.

use room::Message;
use store::LogEntry;

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
