//! What a node is told at its start, as plain values. Owns no defaults of the configuration file:
//! the binary does, and documents them.

use std::net::SocketAddr;
use std::time::Duration;

use crate::limits::{
    BARRIER_APPENDS_MAX, BARRIER_BYTES_MAX, BARRIER_EFFECTS_MAX, BUSY_RETRY, DOUBT_POLL,
    JOURNAL_BACKLOG_BYTES_MAX, JOURNAL_BACKLOG_MAX, PORT_RESTART,
};

/// How a node is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Domains that the node serves, at least one, normalised; the first is the default.
    pub domains: Vec<String>,
    /// Shards, each a thread; at least 1.
    pub shards: u16,
    /// Whether an authenticated socket moves to the shard where its user is at home.
    pub hand_over: bool,
    /// SASL mechanisms, strongest first, by their registered names.
    pub mechanisms: Vec<String>,
    /// Whether a client must start TLS before it may log in.
    pub require_tls: bool,
    /// Whether PLAIN is offered without TLS.
    pub plain_without_tls: bool,
    /// Iterations of new SCRAM keys (RFC 7677 asks for at least 4,096).
    pub scram_iterations: u32,
    /// Whether new accounts may be made in-band (XEP-0077).
    pub registration_enabled: bool,
    /// Registrations that one address may make in an hour.
    pub registrations_per_hour: u32,
    /// Sessions that can be resumed.
    pub delivery: Delivery,
    /// The message archive.
    pub archive: Archive,
    /// Bounds that may change while the node runs.
    pub limits: Limits,
    /// Bounds of what waits for commits.
    pub commits: Commits,
    /// Whether faults may be caused on purpose ([`crate::chaos`]).
    pub chaos: bool,
    /// Time between a commit's arrival and its execution, for tests of the barrier.
    pub debug_commit_delay: Duration,
    /// A secret that makes the handler of a user panic who sends a message with it, for tests of
    /// isolation.
    pub debug_panic_hook: Option<String>,
}

/// How sessions outlive their connections (XEP-0198).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Whether clients may use stream management.
    pub stream_management: bool,
    /// How long a session without a connection is kept; a client may ask for less.
    pub resume_timeout: Duration,
    /// Time to acknowledge what was asked for; then the connection is given up.
    pub ack_timeout: Duration,
    /// Messages that a session was sent and has not acknowledged, at most 1,000; further ones are
    /// left to the log until it follows again.
    pub unacked_max: u32,
}

/// Bounds of what waits for commits; production's by default, tiny in tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commits {
    /// The journal's own.
    pub journal: store::JournalOptions,
    /// Appends of a shard that wait to be handed to the journal; one more is refused to whoever
    /// makes it, with `resource-constraint`.
    pub backlog_appends_max: usize,
    /// Their bytes, by estimate; at that, one more append is refused.
    pub backlog_bytes_max: usize,
    /// Appends of one user that are not decided; at that, new stanzas wait in its mailbox.
    pub barrier_appends_max: usize,
    /// Effects of one user that wait for commits; likewise.
    pub barrier_effects_max: usize,
    /// Their bytes; likewise.
    pub barrier_bytes_max: usize,
    /// Pause between questions what became of an append in doubt.
    pub doubt_poll: Duration,
    /// Pause before a batch is handed over again that the journal had no room for.
    pub busy_retry: Duration,
    /// Pause before a port that crashed is started again.
    pub port_restart: Duration,
}

impl Default for Commits {
    fn default() -> Self {
        Commits {
            journal: store::JournalOptions::default(),
            backlog_appends_max: JOURNAL_BACKLOG_MAX,
            backlog_bytes_max: JOURNAL_BACKLOG_BYTES_MAX,
            barrier_appends_max: BARRIER_APPENDS_MAX,
            barrier_effects_max: BARRIER_EFFECTS_MAX,
            barrier_bytes_max: BARRIER_BYTES_MAX,
            doubt_poll: DOUBT_POLL,
            busy_retry: BUSY_RETRY,
            port_restart: PORT_RESTART,
        }
    }
}

/// What is kept of messages (XEP-0313).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// Whether messages are archived.
    pub enabled: bool,
    /// Whether a message is dropped as soon as every device that it was owed to has it.
    pub until_delivered: bool,
    /// How old a message gets.
    pub max_age: Duration,
    /// Messages of one user; the oldest go first.
    pub max_messages: u64,
    /// Their bytes; likewise.
    pub max_bytes: u64,
}

/// One listening socket of every shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Address and port.
    pub addr: SocketAddr,
    /// Whether TLS starts with the first byte (XEP-0368).
    pub direct_tls: bool,
}

/// Bounds of one node; each says what happens at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one stanza; more ends the stream with `policy-violation`.
    pub stanza_bytes_max: u32,
    /// Sessions of one account; one more is refused with `resource-constraint`.
    pub sessions_per_user: u32,
    /// Contacts of one roster; one more is refused with `resource-constraint`.
    pub roster_items_max: u32,
    /// Messages that wait for an absent user; one more is refused with `resource-constraint`.
    pub offline_messages_max: u32,
    /// Their bytes.
    pub offline_bytes_max: u64,
    /// Bytes of one element of private storage (XEP-0049).
    pub private_bytes_max: u32,
    /// Bytes of one vCard (XEP-0054).
    pub vcard_bytes_max: u32,
    /// Time to authenticate and bind; then the stream ends with `connection-timeout`.
    pub login_timeout: Duration,
    /// Silence after which the server pings a client (XEP-0199).
    pub idle_ping: Duration,
    /// Time to answer that ping; then the stream ends with `connection-timeout`.
    pub ping_timeout: Duration,
}
