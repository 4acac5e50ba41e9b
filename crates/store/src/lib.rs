//! Durable state: what a record is, how records become state, where they are journalled and in what
//! engine the state is kept.
//!
//! Owns the key and value layout, its schema version and every byte on disk. Deliberately knows
//! nothing of XMPP: an address is a normalised string, a stanza is bytes. Reads no wall clock and
//! no configuration: time comes inside records, options from the caller.
//!
//! # The path of a change
//!
//! A shard hands [`Append`]s to the [`Journal`] and goes on. The journal's one thread collects what
//! all shards handed over into a group, fences those whose [`Tenure`] of their range is over, lets
//! [`apply`] turn the records of the others into changes (which see each other), and commits these
//! and new positions as one [`Batch`] with one sync. Then the outcomes go out. While one group is
//! being synced, the next one collects: the group grows with the load by itself.
//!
//! # What a failure means
//!
//! | what | outcome |
//! |---|---|
//! | a commit or its sync fails | [`Outcome::InDoubt`] for its whole group: it may have survived. The engine is reopened in process, positions are read again, and then every [`Doubt`] of the group is resolved; until then everything else fails with [`AppendFailure::Unavailable`], and [`Store::load_user`] refuses the users of that group |
//! | the disk is full | [`AppendFailure::Full`] until there is room; reads go on. [`FjallOptions::reserve_bytes`] keeps the engine from ever meeting the end of the disk |
//! | the process is killed | everything committed is there, also with [`Durability::Memory`] |
//! | the machine dies | with [`Durability::Fsync`] everything committed is there; a group is there as a whole or not at all |
//! | a value does not decode | [`StoreError::Corrupt`] for the one who reads it; an append that meets it fails, others go on |
//! | files are cut, overwritten or missing | [`OpenError::Corrupt`] on opening, or [`StoreError::Corrupt`] from the read that meets it, or a problem in [`verify`]'s report |
//! | another process has the folder | [`OpenError::Locked`] with its process id; a killed process leaves no lock |
//! | newer data | [`OpenError::NewerSchema`]; older data is upgraded on opening |
//!
//! One case cannot be told from a crash: a journal whose end is damaged after the machine died.
//! Whole groups are missing then, as if they had not been synced.

pub mod appended;
mod apply;
mod backup;
mod delivery;
mod dir;
mod directory;
mod doubt;
mod engine;
mod error;
mod followed;
mod follower;
mod heads;
mod joined;
mod journal;
mod keys;
pub mod limits;
mod log;
mod member;
mod nodes;
mod octets;
mod overlay;
mod page;
mod record;
mod rooms;
mod scan;
mod schema;
mod shared;
mod slot;
mod state;
mod store;
mod stored;
mod verify;

pub use apply::{Txn, apply};
pub use backup::{Moved, restore};
pub use delivery::{
    ArchiveDefault, ArchivePrefs, Before, Delivered, EntryFlags, Few, LaggingMark, LogEntry,
    NumberedEntry, Origin, Outbound, Progress, Recognition, Seen, SessionCursor, SessionRecord,
    Sessions, Windows, of_returned,
};
pub use dir::holder;
pub use directory::DirectoryEntry;
pub use engine::faulty::{Faults, FaultyEngine};
pub use engine::fjall::{FjallEngine, FjallOptions};
pub use engine::memory::MemoryEngine;
pub use engine::{Batch, Change, Engine, EngineStats, Reader, Space, Visit};
pub use error::{OpenError, StoreError};
pub use followed::RoomRead;
pub use follower::{Follower, RangeMark, StreamMark};
pub use joined::{BEGINNING, DeploymentId};
pub use journal::local::{InlineJournal, LocalJournal};
pub use journal::stats::{BUCKETS, Histogram, JournalStats};
pub use journal::twin::{Plan, Switches, TwinJournal};
pub use journal::{
    Adding, Append, AppendBatch, AppendFailure, Busy, Done, Doubt, Journal, JournalOptions,
    Outcome, Position, Tenure, Writer,
};
pub use nodes::{ItemMeta, NodeEntry};
pub use page::{Looked, Metadata, Page, PageQuery};
pub use record::{
    Account, Item, KnownAddress, RECORD_VERSION, Record, RecordError, Roster, RosterItem,
    ScramHash, ScramKeys, Seq, Subscription,
};
pub use rooms::{ListedRoom, Side, StoredRoom};
pub use schema::{SCHEMA, schema_known};
pub use shared::SharedBytes;
pub use slot::{RANGES, RangeId, SLOTS, Slot, SlotKey};
pub use state::{LogHead, UserState};
pub use store::{Durability, Options, Store};
pub use stored::DomainTotals;
pub use verify::{Report, verify};
