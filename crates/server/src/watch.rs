//! What a node tells those who watch it: one sample of everything that is counted, as plain data
//! that goes over the control socket. Rates over time are the watcher's to make; names are those of
//! the catalogue in `telemetry` and stay what they are. How it is taken is `admin/sample.rs`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use store::{EngineStats, JournalStats};

pub use crate::guard::DomainSample;

/// One look at a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Since the node started.
    pub uptime_ms: i64,
    /// The process, whose memory and CPU time the system knows.
    pub pid: u32,
    /// Connections that the node takes.
    pub connections_max: u64,
    /// Each shard.
    pub shards: Vec<ShardSample>,
    /// The journal.
    pub journal: JournalStats,
    /// The storage engine.
    pub store: EngineStats,
    /// What each domain has stored.
    #[serde(default)]
    pub domains: Vec<DomainSample>,
}

/// One shard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShardSample {
    /// By the name of the counter, since the start. Zeroes are left out.
    pub counters: BTreeMap<String, u64>,
    /// By the name of the gauge. Zeroes are left out.
    pub gauges: BTreeMap<String, u64>,
    /// Messages handled by actors, per second.
    pub messages: Averages,
    /// Longest mailboxes, in messages.
    pub top_queue: Vec<Top>,
    /// Most messages handled in a second.
    pub top_rate: Vec<Top>,
    /// Highest cost in a second; a message costs 1, one that makes others costs more.
    pub top_cost: Vec<Top>,
    /// Users who are sent the most, in bytes a second.
    pub top_bytes: Vec<Top>,
    /// Who reached a budget the most times a second: accounts, and addresses.
    #[serde(default)]
    pub top_budgets: Vec<Top>,
}

/// Averages that decay over 1, 10 and 100 seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Averages(pub f64, pub f64, pub f64);

/// One of the busiest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Top {
    /// The account's address, or what kind of actor it is.
    pub who: String,
    /// How much.
    pub value: u64,
}

/// One account, looked into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserSample {
    /// Its shard.
    pub shard: u16,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
    /// May not log in.
    pub locked: bool,
    /// Its sessions.
    pub sessions: Vec<SessionSample>,
    /// Contacts, with those who only asked.
    pub roster_items: usize,
    /// Bytes that they take in memory.
    pub roster_bytes: usize,
    /// Blocked addresses.
    pub blocked: usize,
    /// Messages that wait for it.
    pub pending_messages: u64,
    /// Their bytes.
    pub pending_bytes: u64,
    /// All bytes that it has stored.
    #[serde(default)]
    pub stored_bytes: u64,
    /// Messages in its mailbox.
    pub mailbox: usize,
    /// Changes that are not durable yet.
    pub commits_waiting: usize,
}

/// One session of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSample {
    /// Its resource.
    pub resource: String,
    /// Is available.
    pub available: bool,
    /// Its priority.
    pub priority: i8,
    /// Entities that directed presence went to.
    pub directed: usize,
    /// Bytes that its client has not read; none if its connection is on another shard.
    pub backlog_bytes: Option<usize>,
}
