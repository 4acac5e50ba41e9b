//! Durable state: what a record is, how records become state, where they are journalled and in what
//! engine the state is kept.
//!
//! Owns the key and value layout, its schema version and every byte on disk. Deliberately knows
//! nothing of XMPP: an address is a normalised string, a stanza is bytes. Reads no wall clock and no
//! configuration: time comes inside records, options from the caller.

mod apply;
mod backup;
mod dir;
mod engine;
mod error;
mod journal;
mod keys;
pub mod limits;
mod overlay;
mod record;
mod schema;
mod slot;
mod state;
mod store;
mod verify;

pub use apply::{Txn, apply};
pub use backup::{Moved, restore};
pub use engine::faulty::{Faults, FaultyEngine};
pub use engine::fjall::{FjallEngine, FjallOptions};
pub use engine::memory::MemoryEngine;
pub use engine::{Batch, Change, Engine, EngineStats, Reader, Space, Visit};
pub use error::{OpenError, StoreError};
pub use journal::local::{InlineJournal, LocalJournal};
pub use journal::stats::{BUCKETS, Histogram, JournalStats};
pub use journal::twin::{Plan, Switches, TwinJournal};
pub use journal::{Append, AppendFailure, Busy, Done, Journal, Outcome, Position};
pub use record::{
    Account, LogEntry, RECORD_VERSION, Record, RecordError, Roster, RosterItem, ScramHash,
    ScramKeys, Seq, Subscription,
};
pub use schema::SCHEMA;
pub use slot::{RANGES, RangeId, SLOTS, Slot, SlotKey};
pub use state::{LogHead, UserState};
pub use store::{Durability, Options, Store};
pub use verify::{Report, verify};
