//! What a node is told at its start, as plain values. Owns no defaults of the configuration file:
//! the binary does, and documents them.

mod anywhere;
mod beside;
mod components;
mod moves;
mod sessions;

use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use self::anywhere::Anywhere;
pub use self::beside::{HeldLimits, RoomLimits};
pub use self::components::{Component, Components, Secret};
pub use self::moves::{Balance, Moves};
pub use self::sessions::{Delivery, DeliveryLimits, UNACKED_MAX};
use crate::away::Cluster;
pub use crate::limits::LineLimits;
use crate::limits::{
    ADMIN_DEADLINE, BARRIER_APPENDS_MAX, BARRIER_BYTES_MAX, BARRIER_EFFECTS_MAX, BATCH_APPENDS,
    BATCH_APPENDS_EACH, BATCH_APPENDS_LARGE, BUSY_RETRY, CREDITS_AWAY_MAX, DOUBT_POLL,
    JOURNAL_BACKLOG_BYTES_MAX, JOURNAL_BACKLOG_MAX, LINE_MAX, MAILBOX_MIN, PORT_RESTART,
};
pub use actor::limits::Bounds as ActorBounds;

/// The usual [`Options::traced_max`]: seconds.
pub const TRACED_MAX: usize = 1_000_000;

/// How a node is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Domains that the node serves, at least one, normalised; the first is the default.
    pub domains: Vec<String>,
    /// Shards, each a thread; at least 1.
    pub shards: u16,
    /// How ranges move between shards.
    pub moves: Moves,
    /// When they do by themselves.
    pub balance: Balance,
    /// Whether a socket moves to the shard where its user is at home, once it says who that is.
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
    /// What is looked at for an inbox.
    pub inbox: InboxBounds,
    /// Rooms.
    pub rooms: Rooms,
    /// The directory of users.
    pub directory: Directory,
    /// Services that have nodes.
    pub pubsub: Pubsub,
    /// Nodes of accounts.
    pub pep: Pep,
    /// Domains that other programs serve.
    pub components: Components,
    /// Streams over HTTP, and everything else on their port.
    pub web: Web,
    /// Which extensions are on. One that is off is neither announced nor answered, whatever the
    /// options of its own say.
    pub modules: Switches,
    /// Bounds that may change while the node runs.
    pub limits: Limits,
    /// Where the ban and allow lists are kept; `None` if they end with the process.
    pub bans: Option<PathBuf>,
    /// Another process writes that file, and tells this one what it changes: two that write it
    /// would lose each other's entries.
    pub bans_are_anothers: bool,
    /// Bounds of what waits for commits.
    pub commits: Commits,
    /// Entries of one log that are looked through for a message that an operator follows; further
    /// ones are not, and the operator is told. Usually [`TRACED_MAX`].
    pub traced_max: usize,
    /// Bounds of what waits for one entity.
    pub mailboxes: Mailboxes,
    /// How users are loaded of whom nobody has asked yet.
    pub waking: Waking,
    /// Messages between entities as bytes.
    pub wire: Wire,
    /// Other nodes, and the journal that they share; `None`: this one stands alone.
    pub cluster: Option<Cluster>,
    /// Bounds of clients that come to another node than their account's home.
    pub joined: Joined,
    /// Bounds of the actor runtime.
    pub actors: ActorBounds,
    /// Whether faults may be caused on purpose ([`crate::chaos`]).
    pub chaos: bool,
    /// Time between a commit's arrival and its execution, for tests of the barrier.
    pub debug_commit_delay: Duration,
    /// Whether the connection of each client moves to the next shard behind each of its elements,
    /// for tests of that nobody depends on where it is. Not in a cluster.
    pub debug_move_sockets: bool,
    /// A secret that makes the handler of a user panic who sends a message with it, for tests of
    /// isolation.
    pub debug_panic_hook: Option<String>,
}

/// What may wait for one entity, besides a reserve for its own and for answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailboxes {
    /// Messages, whatever they are; four times a roster, if that is more. One more is refused with
    /// `resource-constraint`.
    pub shared_min: usize,
    /// Beyond them, stanzas of those who enter a room or leave it: they wait for their turn, in
    /// order. One more is refused likewise.
    pub line: usize,
    /// Beyond both, what a user's own sessions, logins and outbox are told, however much others
    /// send it.
    pub reserve: usize,
}

impl Default for Mailboxes {
    fn default() -> Mailboxes {
        Mailboxes {
            shared_min: MAILBOX_MIN,
            line: LINE_MAX,
            reserve: 1_024,
        }
    }
}

/// How a node that starts, or gets ranges, loads users with sessions that can be resumed and with
/// messages that are on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waking {
    /// Users that are read at a time; at least 1.
    pub page: usize,
    /// Pause between two pages, which leaves others room; before a user is told again whose shard
    /// has no room for that; and until the last of them count as loaded.
    pub pace: Duration,
    /// Pause before a page that could not be read is read again.
    pub retry: Duration,
    /// Rooms of ranges that come are loaded if somebody has spoken in them for so long: their
    /// members may not have heard of it.
    pub rooms: Duration,
}

impl Default for Waking {
    fn default() -> Waking {
        Waking {
            page: 256,
            pace: Duration::from_millis(5),
            retry: Duration::from_millis(500),
            rooms: Duration::from_secs(3_600),
        }
    }
}

/// What entities say to each other, as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Whether every message is taken through its bytes although its recipient is at home here, for
    /// tests of these.
    pub through_bytes: bool,
    /// Credits of stanzas that left as bytes and were not answered. The credit of one more comes
    /// back at once, as if its connection were far from its window.
    pub credits_max: usize,
}

impl Default for Wire {
    fn default() -> Wire {
        Wire {
            through_bytes: false,
            credits_max: CREDITS_AWAY_MAX,
        }
    }
}

/// Bounds of clients, and of requests of operators, that come to another node than the home of the
/// account that they are about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Longest wait for the home to say that it goes on with a client; then the client is told to
    /// come again.
    pub answer_max: Duration,
    /// Longest time for which a link takes nothing of a client's connection; then the connection
    /// ends.
    pub refused_max: Duration,
    /// Longest wait for the other node to take the end of a stream, and for what a client said
    /// before it went to be looked at.
    pub end_max: Duration,
    /// Clients that came to other nodes and wait to be let in on one shard; one more is told to
    /// come again.
    pub comers_max: usize,
    /// Connections of one shard that are told in one turn that their node is gone, or that their
    /// link may take something again; the others follow.
    pub told_at_once: usize,
    /// Longest time for which a connection waits for the next home of its account; then its stream
    /// ends.
    pub home_wait_max: Duration,
    /// Pause between two looks for that home.
    pub home_wait_step: Duration,
    /// Bytes of a client that its edge keeps because no record says that they are handled. A
    /// connection of which more was sent does not outlive its home. At most a window, 64 KiB.
    pub kept_bytes_max: usize,
    /// The same before the home has said that the client's session can go on elsewhere: as much as
    /// a client may send behind the element that began it, before that word arrives.
    pub early_bytes_max: usize,
    /// Longest wait for that word, from the home's first one on; then nothing is kept until it
    /// comes.
    pub session_wait_max: Duration,
    /// Longest time for which a request of an operator looks for the home of what it is about:
    /// longer than a planned move takes.
    pub home_max: Duration,
    /// Longest time for which such a request waits for the answer of another node; then nobody
    /// knows whether it was done. Longer than an account there may take.
    pub errand_max: Duration,
    /// The same of one that writes much: an import, or making many accounts.
    pub written_max: Duration,
    /// Longest time for which a client that has said whose it is waits for a home of that account;
    /// then it is told to come again. Longer than a take-over: one that is sent away comes again
    /// when it likes, which is much later. 0: it does not wait.
    pub join_wait_max: Duration,
    /// All accounts have the same home: while there is none, no client is read.
    pub has_one_home: bool,
    /// Whether a client of a cluster whose account is at home on the node of its socket comes as
    /// one from another node does, so that its stream outlives this home too.
    pub at_home: bool,
    /// Bytes of a connection that a home which lets go sends beyond the window, so that it need not
    /// wait for the client: nothing where nodes are on different machines.
    pub beyond_window_max: u32,
}

impl Default for Joined {
    fn default() -> Joined {
        Joined {
            answer_max: Duration::from_secs(10),
            refused_max: Duration::from_secs(10),
            end_max: Duration::from_secs(30),
            comers_max: 4_096,
            told_at_once: 1_024,
            home_wait_max: Duration::from_secs(30),
            home_wait_step: Duration::from_millis(100),
            kept_bytes_max: 64 * 1_024,
            early_bytes_max: 4 * 1_024,
            session_wait_max: Duration::from_secs(30),
            home_max: Duration::from_secs(10),
            errand_max: ADMIN_DEADLINE + Duration::from_secs(5),
            written_max: Duration::from_secs(90),
            join_wait_max: Duration::from_secs(5),
            has_one_home: false,
            at_home: true,
            beyond_window_max: 0,
        }
    }
}

impl Joined {
    /// Of an edge and a home on one machine, of which each client has one of each.
    pub fn on_one_machine() -> Joined {
        let defaults = Joined::default();
        Joined {
            join_wait_max: defaults.home_wait_max,
            has_one_home: true,
            // What a home holds for a connection is bounded there.
            beyond_window_max: 1 << 30,
            home_wait_step: Duration::from_millis(50),
            ..defaults
        }
    }
}

/// Which extensions are on ([`crate::modules`]). By default all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Names of those that are off; at most one for each module.
    pub(crate) off: Vec<&'static str>,
}

impl Options {
    /// The addresses at which rooms or accounts are searched, each once.
    pub(crate) fn search_hosts(&self) -> impl Iterator<Item = &String> {
        let rooms = &self.rooms.search_hosts;
        let others = self.directory.hosts.iter();
        rooms
            .iter()
            .chain(others.filter(|host| !rooms.contains(host)))
    }
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
    /// So many appends are one batch, whoever made them. While more wait, each actor's first ones
    /// go, and the others as far as there is room.
    pub batch_appends: usize,
    /// How many of each actor go then, at least 1.
    pub batch_appends_each: usize,
    /// Unless that makes so many: then the first of each actor.
    pub batch_appends_large: usize,
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
    /// Times that a batch of an import is handed over again while too much waits, or an entity that
    /// it is for is in use, 10 ms apart; then the administrator is told.
    pub import_attempts: u32,
}

impl Default for Commits {
    fn default() -> Self {
        Commits {
            journal: store::JournalOptions::default(),
            backlog_appends_max: JOURNAL_BACKLOG_MAX,
            backlog_bytes_max: JOURNAL_BACKLOG_BYTES_MAX,
            batch_appends: BATCH_APPENDS,
            batch_appends_each: BATCH_APPENDS_EACH,
            batch_appends_large: BATCH_APPENDS_LARGE,
            barrier_appends_max: BARRIER_APPENDS_MAX,
            barrier_effects_max: BARRIER_EFFECTS_MAX,
            barrier_bytes_max: BARRIER_BYTES_MAX,
            doubt_poll: DOUBT_POLL,
            busy_retry: BUSY_RETRY,
            port_restart: PORT_RESTART,
            import_attempts: 1_000,
        }
    }
}

/// The usual [`Archive::searched_max`]: an answer within a tenth of a second.
pub const ARCHIVE_SEARCHED_MAX: usize = 20_000;

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
    /// Entries that one query for words looks at; its answer says where the next one goes on.
    pub searched_max: usize,
}

/// What is looked at for one inbox (XEP-0430): what is beyond is not in it, or not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxBounds {
    /// Archived messages of the account, the latest first. Each costs its parse; of each
    /// conversation some 200 bytes are in memory for the time of the answer.
    pub entries_max: usize,
    /// Bookmarked rooms; each is read with its affiliations.
    pub rooms_max: usize,
    /// Archived messages of each of them, the latest first.
    pub room_entries_max: usize,
    /// Bytes of messages of the account that are looked at, and of those of all rooms together: a
    /// few messages may be as large as many.
    pub bytes_max: usize,
}

impl Default for InboxBounds {
    fn default() -> InboxBounds {
        InboxBounds {
            entries_max: 20_000,
            rooms_max: 100,
            room_entries_max: 200,
            bytes_max: 64 * 1024 * 1024,
        }
    }
}

/// Rooms (XEP-0045).
#[derive(Clone, Debug)]
pub struct Rooms {
    /// Domains of rooms, normalised, none of them one of [`Options::domains`]; none of them at all
    /// if there are no rooms.
    pub hosts: Vec<String>,
    /// Where rooms are searched (XEP-0433): domains, normalised, none of them one of
    /// [`Options::domains`], [`Rooms::hosts`] or [`Pubsub::hosts`]; none of them at all if they are
    /// not.
    pub search_hosts: Vec<String>,
    /// Who may make rooms.
    pub create: Create,
    /// Rooms that one account may have made; one more is refused with `resource-constraint`. Those
    /// that end make room.
    pub per_account_max: u32,
    /// Copies that one room writes in one turn of its shard; the rest follows in the next ones, and
    /// what is sent to the room meanwhile waits.
    pub copies_per_turn: usize,
    /// Pages of the archive of one room that are read at a time; one more is refused with
    /// `resource-constraint`.
    pub pages_at_once: u32,
    /// Commits of who is there that what leaves one room waits for; with so many, what is sent to
    /// the room waits too.
    pub waits_max: u64,
    /// Records of one append of who is there; at least 1.
    pub kept_records_max: usize,
    /// Messages that a room keeps without an archive while managed sessions are there: what these
    /// may have to catch up with. The oldest goes.
    pub kept_for_sessions: u64,
    /// A room that has been sending copies for so long without a pause is counted as behind
    /// (docs/watching.md).
    pub behind_after: Duration,
    /// Rooms that everybody may know of that are looked at for one search; those beyond are not
    /// found. Others are not looked at.
    pub looked_at_max: usize,
    /// How homes are told that accounts are members of a room that delivers to these.
    pub tells: Tells,
    /// Bounds and defaults of each room.
    pub machine: Arc<room::Options>,
}

impl Default for Rooms {
    /// No rooms, and what they would be like.
    fn default() -> Rooms {
        Rooms {
            hosts: Vec::new(),
            search_hosts: Vec::new(),
            create: Create::Everybody,
            per_account_max: 100,
            copies_per_turn: 256,
            pages_at_once: 4,
            waits_max: 64,
            kept_records_max: 1_000,
            kept_for_sessions: 1_000,
            behind_after: Duration::from_secs(1),
            looked_at_max: 10_000,
            tells: Tells::default(),
            machine: Arc::default(),
        }
    }
}

/// How one room tells homes that accounts are its members, until they have recorded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tells {
    /// Homes that are told at a time, each loads one account; at least 1.
    pub at_once: usize,
    /// Pause before homes that did not answer are told again.
    pub again: Duration,
    /// So often a home is told in a row; at least 1. One that has no place for the room does not
    /// answer: then it is told after each of the longer pauses, and in the next life of the room.
    pub in_a_row: u32,
    /// That pause.
    pub later: Duration,
}

impl Default for Tells {
    fn default() -> Tells {
        Tells {
            at_once: 64,
            again: Duration::from_secs(5),
            in_a_row: 5,
            later: Duration::from_secs(600),
        }
    }
}

/// The directory of accounts that want to be found (XEP-0055).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Where it is: domains, normalised, none of them one of [`Options::domains`],
    /// [`Rooms::hosts`] or [`Pubsub::hosts`]; they may be those of [`Rooms::search_hosts`]. None of
    /// them at all if there is no directory.
    pub hosts: Vec<String>,
    /// Accounts that one search finds; others are not told of.
    pub results_max: usize,
    /// Entries that one search looks at.
    pub looked_at_max: usize,
    /// Searches of one account; one more is refused with `resource-constraint`.
    pub searches_per_minute: u32,
    /// Accounts of one shard that search in the same minute, each at the cost of its address in
    /// memory; one more is refused with `resource-constraint`.
    pub searchers_max: usize,
}

impl Default for Directory {
    /// No directory, and what it would be like.
    fn default() -> Directory {
        Directory {
            hosts: Vec::new(),
            results_max: 20,
            looked_at_max: 100_000,
            searches_per_minute: 10,
            searchers_max: 10_000,
        }
    }
}

/// Services that have nodes (XEP-0060).
#[derive(Clone, Debug)]
pub struct Pubsub {
    /// Their addresses: domains, normalised, none of them one of [`Options::domains`] or
    /// [`Rooms::hosts`]; none of them at all if there are no services.
    pub hosts: Vec<String>,
    /// Who may make nodes.
    pub create: Create,
    /// Copies that a service writes in one turn of its shard; the rest follows in the next ones,
    /// and what is sent to the service meanwhile waits.
    pub copies_per_turn: usize,
    /// How often leases that are over and items that are too old are looked for.
    pub sweep_every: Duration,
    /// Bounds and defaults of each service.
    pub machine: Arc<pubsub::Options>,
}

impl Default for Pubsub {
    /// No services, and what they would be like.
    fn default() -> Pubsub {
        let machine = pubsub::Options {
            features: vec![xmpp::ns::PING],
            ..pubsub::Options::default()
        };
        Pubsub {
            hosts: Vec::new(),
            create: Create::Everybody,
            copies_per_turn: 256,
            sweep_every: Duration::from_secs(60 * 60),
            machine: Arc::new(machine),
        }
    }
}

/// Nodes of accounts (XEP-0163).
#[derive(Clone, Debug)]
pub struct Pep {
    /// Whether accounts have any.
    pub enabled: bool,
    /// Requests and sessions that wait for the nodes of one account, because they are being read or
    /// changed; one more is answered `resource-constraint`. Each costs its stanza.
    pub waiting_max: usize,
    /// Bounds and defaults of each account.
    pub machine: Arc<pubsub::Options>,
    /// What is remembered of the capabilities of clients (XEP-0115), by each shard.
    pub caps: Caps,
}

impl Default for Pep {
    fn default() -> Pep {
        Pep {
            enabled: true,
            waiting_max: 64,
            machine: Arc::new(pubsub::Options::account()),
            caps: Caps::default(),
        }
    }
}

/// Bounds of what a shard remembers of the capabilities of clients (XEP-0115).
#[derive(Clone, Debug)]
pub struct Caps {
    /// Hashes that are remembered, with the nodes that those clients want to hear of. With one
    /// more the oldest that no session has is forgotten; if all are in use the new one is not
    /// remembered, and its clients are asked one by one.
    pub known_max: usize,
    /// Clients that have been asked and have not answered. What is announced with one more is
    /// looked at again, for longer than `answer_timeout`.
    pub asked_max: usize,
    /// Time for an answer; then another client with the same hash is asked.
    pub answer_timeout: Duration,
    /// Nodes that one client can say it wants to hear of; what is behind them is not looked at.
    pub interests_max: usize,
}

impl Default for Caps {
    fn default() -> Caps {
        Caps {
            known_max: 1_024,
            asked_max: 256,
            answer_timeout: Duration::from_secs(5),
            interests_max: 256,
        }
    }
}

/// Who may make rooms, or nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Create {
    /// Every account.
    #[default]
    Everybody,
    /// These accounts, and all of these domains.
    Listed(Vec<String>),
}

impl Create {
    /// Whether an account may, by its bare address.
    pub(crate) fn admits(&self, bare: &str) -> bool {
        let domain = crate::address::domain(bare);
        match self {
            Create::Everybody => true,
            Create::Listed(listed) => listed.iter().any(|one| one == bare || one == domain),
        }
    }
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
    /// Their requests that come to another node.
    pub anywhere: Anywhere,
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
            anywhere: Anywhere::default(),
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
    /// Bytes that all accounts of a domain have stored. At that, accounts that have more than their
    /// share of it store nothing more: `resource-constraint`.
    pub domain_bytes_max: u64,
    /// Questions that the store is asked for clients of one address at a time; further ones wait.
    pub questions_per_address_max: u32,
    /// Bytes of answers that clients of one address have not taken, at which none of them has a
    /// further question asked. A question under way counts as 256 KiB.
    pub answer_bytes_per_address_max: u64,
    /// Time to authenticate and bind; then the stream ends with `connection-timeout`.
    pub login_timeout: Duration,
    /// Silence after which the server pings a client (XEP-0199).
    pub idle_ping: Duration,
    /// Time to answer that ping; then the stream ends with `connection-timeout`.
    pub ping_timeout: Duration,
}
