//! Durable state: what a record is, how records become state, where they are journalled and in what
//! engine the state is kept.
//!
//! Owns the key and value layout, its schema version and every byte on disk. Deliberately knows
//! nothing of XMPP: an address is a normalised string, a stanza is bytes. Reads no wall clock and no
//! configuration: time comes inside records, options from the caller.

mod error;
mod journal;
mod limits;
mod record;
mod slot;
mod state;
mod store;

pub use error::{OpenError, StoreError};
pub use journal::{Append, AppendFailure, Busy, Done, Journal, Outcome, Position};
pub use record::{
    Account, LogEntry, Record, RecordError, Roster, RosterItem, ScramHash, ScramKeys, Seq,
    Subscription,
};
pub use slot::{RANGES, RangeId, SLOTS, Slot, SlotKey};
pub use state::{LogHead, UserState};
pub use store::{Durability, Options, Store};
