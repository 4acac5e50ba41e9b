//! What a node is told at its start, as plain values. Owns no defaults of the configuration file:
//! the binary does, and documents them.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

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
    /// Streams over HTTP, and everything else on their port.
    pub web: Web,
    /// Bounds that may change while the node runs.
    pub limits: Limits,
    /// Where the ban and allow lists are kept; `None` if they end with the process.
    pub bans: Option<PathBuf>,
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

/// What is served on the listeners that speak HTTP.
#[derive(Clone, Debug)]
pub struct Web {
    /// Whether streams over WebSocket are.
    pub websocket: bool,
    /// Whether sessions over BOSH are.
    pub bosh_enabled: bool,
    /// Origins of pages of others that may open streams, `*` for all.
    pub origins: Vec<String>,
    /// Who may see figures.
    pub metrics: Vec<net::AddressRange>,
    /// Proxies that are believed what they say of their clients.
    pub proxies: Vec<net::AddressRange>,
    /// Bytes of a request's head; more is answered 431.
    pub head_bytes_max: usize,
    /// Time from the first byte of a request to its last; then it is answered 408.
    pub head_timeout: Duration,
    /// Time between requests of one connection; then it is closed.
    pub idle_timeout: Duration,
    /// Requests of one connection that wait for their answers; then it is not read.
    pub pipelined_max: usize,
    /// Sessions over BOSH.
    pub bosh: xmpp::bosh::Limits,
    /// Who answers what is no stream.
    pub pages: Pages,
}

impl Default for Web {
    /// Streams for pages of the node's own domains, and nobody for anything else.
    fn default() -> Web {
        Web {
            websocket: true,
            bosh_enabled: true,
            origins: Vec::new(),
            metrics: Vec::new(),
            proxies: Vec::new(),
            head_bytes_max: 16 * 1024,
            head_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(75),
            pipelined_max: 8,
            bosh: xmpp::bosh::Limits::default(),
            pages: Pages(Arc::new(|_, _| false)),
        }
    }
}

/// Takes our peer's end of a connection on which one ordinary request comes; false if there is no
/// room.
#[derive(Clone)]
pub struct Pages(pub Arc<dyn Fn(UnixStream, IpAddr) -> bool + Send + Sync>);

impl Pages {
    pub(crate) fn take(&self, stream: UnixStream, client: IpAddr) -> bool {
        (self.0)(stream, client)
    }
}

impl std::fmt::Debug for Pages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pages")
    }
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
    /// Bytes of all private storage of one account; more is refused with `resource-constraint`.
    pub private_total_bytes_max: u64,
    /// Bytes of one vCard (XEP-0054).
    pub vcard_bytes_max: u32,
    /// Time to authenticate and bind; then the stream ends with `connection-timeout`.
    pub login_timeout: Duration,
    /// Silence after which the server pings a client (XEP-0199).
    pub idle_ping: Duration,
    /// Time to answer that ping; then the stream ends with `connection-timeout`.
    pub ping_timeout: Duration,
}
