//! Every bound of the domain code, with its unit and what happens at it. Bounds that operators may
//! change are fields of [`crate::options::Limits`], those of delivery of
//! [`crate::options::DeliveryLimits`]; these are the ones they may not.

use std::time::Duration;

/// Bytes of a roster item's name; longer is answered `not-acceptable` (RFC 6121 section 2.3.3).
pub(crate) const ROSTER_NAME_BYTES_MAX: usize = 1023;

/// Bytes of a whole roster, as it is packed in memory; once it has so many it does not grow. Every
/// change of it is written with all of it.
pub(crate) const ROSTER_BYTES_MAX: usize = 1024 * 1024;

/// Groups of one roster item; more are answered `not-acceptable`.
pub(crate) const ROSTER_GROUPS_MAX: usize = 32;

/// Bytes of a group's name; longer is answered `not-acceptable` (RFC 6121 section 2.3.3).
pub(crate) const ROSTER_GROUP_BYTES_MAX: usize = 1023;

/// Requests of a user's sessions to other accounts that are remembered until they are answered.
pub(crate) const ASKED_MAX: usize = 512;

/// After a restart a roster is pushed in parts: so many of what a session keeps that is in no log
/// are one.
pub(crate) const ROSTER_PARTS: usize = 4;

/// Bytes kept of a subscription request that waits for an answer. A longer request is kept without
/// its children: the question itself is never lost.
pub(crate) const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// Entities that one session may send directed presence to at a time; one more is answered
/// `resource-constraint`. Each costs its address in memory.
pub(crate) const DIRECTED_MAX: usize = 1_000;

/// Addresses on one user's block list (XEP-0191); one more is answered `resource-constraint`.
pub(crate) const BLOCKED_MAX: usize = 10_000;

/// Their bytes; likewise. Every change of the list is written with all of it.
pub(crate) const BLOCKED_BYTES_MAX: usize = 512 * 1024;

/// Characters of the token that resumes a session: 5.9 bits of chance each.
pub(crate) const SESSION_TOKEN_BYTES: usize = 24;

/// Bytes of one page of the archive; the rest of what was asked for is left to the next one.
pub(crate) const ARCHIVE_PAGE_BYTES: usize = 256 * 1024;

/// Messages that are named in a query and read at a time: one that is large is on a page of its
/// own.
pub(crate) const IDS_AT_ONCE: usize = 4;

/// Bytes of messages that one query for words looks at, and those of one more read of the store.
/// Its answer says where the next one goes on.
pub(crate) const ARCHIVE_SEARCHED_BYTES: usize = 16 * 1024 * 1024;

/// Questions of one account that the store answers at a time: its reads stand in line with those of
/// others however many it has.
pub(crate) const QUESTIONS_AT_ONCE: u32 = 2;

/// Questions of an account's own sessions that wait; their connections' windows are smaller. One
/// more is answered `resource-constraint`.
pub(crate) const QUESTIONS_OWN: usize = 4_096;

/// Questions of others to one account that wait; one more is answered `resource-constraint`.
pub(crate) const QUESTIONS_OF_OTHERS: usize = 64;

/// Addresses that are looked for of those whom a request leaves as owners of a room, until one is
/// found. Of more than these it is taken for granted that one is there.
pub(crate) const HEIRS_MAX: usize = 16;

/// Requests for a vCard that wait for a picture to be put into it; one more is answered with what
/// there is.
pub(crate) const CARDS_ASKED_MAX: usize = 64;

/// Bytes that wait to be sent to a connection at which the store is not asked for it.
pub(crate) const QUESTIONS_BACKLOG_PAUSE: usize = 64 * 1024;

/// Time after which it is looked again whether a client has read what it was sent.
pub(crate) const QUESTION_PAUSE: Duration = Duration::from_millis(50);

/// Sets of private storage that wait until it is known how much there is; one more is answered
/// `resource-constraint`.
pub(crate) const PRIVATE_SETS_WAITING: usize = 128;

/// Bytes that an element of private storage counts beside its own and those of its name.
pub(crate) const PRIVATE_ITEM_OVERHEAD: u64 = 64;

/// How often a node looks through all logs for messages that have become too old.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_secs(3600);

/// Pause before a service that is busy is asked again to remove what is too old.
pub(crate) const SWEEP_RETRY: Duration = Duration::from_secs(60);

/// Users that are looked at at a time.
pub(crate) const SWEEP_PAGE: usize = 64;

/// Pause between two pages of them: a million users are looked through in 13 minutes.
pub(crate) const SWEEP_PACE: Duration = Duration::from_millis(50);

/// Appends of a shard that wait to be handed to the journal; one more is refused with
/// `resource-constraint`, and nothing is half done.
pub(crate) const JOURNAL_BACKLOG_MAX: usize = 65_536;

/// Their bytes, by estimate; at that, one more is refused likewise.
pub(crate) const JOURNAL_BACKLOG_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Appends of a shard that are committed together whoever made them. While more wait, each actor's
/// first ones go and the others as far as there is room: who has thousands of appends to make
/// delays others by one such batch.
pub(crate) const BATCH_APPENDS: usize = 256;

/// How many of each actor go then. A user who says something and hears something takes three to
/// five; so many more than a turn of the shard brings are caught up with.
pub(crate) const BATCH_APPENDS_EACH: usize = 8;

/// Once a batch has so many, only the first of each actor goes with it: others wait for one that
/// takes long, and a stream of the cluster's engine has room for 16,384 that wait.
pub(crate) const BATCH_APPENDS_LARGE: usize = 12_288;

/// Pause between questions what became of an append in doubt.
pub(crate) const DOUBT_POLL: Duration = Duration::from_millis(50);

/// Pause before a batch is handed over again that the journal had no room for.
pub(crate) const BUSY_RETRY: Duration = Duration::from_millis(5);

/// Pause before a port to the journal that crashed is started again.
pub(crate) const PORT_RESTART: Duration = Duration::from_millis(100);

/// Bytes that one account may have read and written in a second by changes of what is one value in
/// the store. Each change uses up so much of what its client may send, the more the more sessions
/// the account has.
pub(crate) const REWRITTEN_PER_SECOND: usize = 16 * 1024 * 1024;

/// How much of what a client may send (`input_bytes_per_second`) one subscription stanza uses up
/// beyond its bytes, as time: it changes two rosters, which is two records, and is pushed to the
/// clients of both. So a client makes about 32 such changes at once and 32 a second.
pub(crate) const SUBSCRIPTION_COST: Duration = Duration::from_millis(30);

/// The same of a question about all nodes of a service or all occupants of a room: with 10,000
/// nodes its answer takes up to 1.6 ms of a shard. So a client asks about 100 at once and 100 a
/// second.
pub(crate) const LIST_COST: Duration = Duration::from_millis(10);

/// Stanzas of one connection under way up to which most of what it passes on gives its credit back
/// at once, and one in so many does not.
pub(crate) const FAR_FROM_WINDOW: u16 = 8;

/// Credits of stanzas that are not under way, kept by a shard for the next ones.
pub(crate) const DEBTS_KEPT: usize = 256;

/// Messages that may wait for one entity at least; more if rosters may be large. One more is
/// refused with `resource-constraint`.
pub(crate) const MAILBOX_MIN: usize = 1_024;

/// Further places of a mailbox for who enters a room or leaves it; one more is refused likewise. As
/// many as a room has occupants: all may come at once, each of them with one stanza.
pub(crate) const LINE_MAX: usize = 20_000;

/// Bytes of a stanza that may take one of these places.
pub(crate) const LINE_BYTES_EACH_MAX: usize = 4_096;

/// Appends of one user that are not decided; at that, new stanzas wait in the mailbox. Below the
/// bound of its priority lane, in which their outcomes arrive.
pub(crate) const BARRIER_APPENDS_MAX: usize = 1_024;

/// Effects that one user may hold behind commits that are not finished; likewise.
pub(crate) const BARRIER_EFFECTS_MAX: usize = 4_096;

/// Bytes of those effects; likewise. One turn of a handler may exceed it.
pub(crate) const BARRIER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Logins of one account that are in doubt at a time, for strangers together and for each address
/// that is known: those under way and those that failed. Further ones are paced.
pub(crate) const LOGINS_FREE: u32 = 5;

/// Failed logins of one account that are remembered; one is forgiven each [`LOGIN_PACE`] in which
/// nobody waits, and each [`IDLE_EVICTION`].
pub(crate) const LOGIN_FAILURES_REMEMBERED: u32 = 10;

/// Pace of login attempts of an account that is being guessed: one answer in this time for all
/// strangers, and one for each address that is known.
pub(crate) const LOGIN_PACE: Duration = Duration::from_secs(1);

/// Logins by strangers to one account that may wait for their turn. At the bound an address that
/// has two places gives one up to an address that has none; if there is no such address, one more
/// is answered `temporary-auth-failure`.
pub(crate) const LOGINS_WAITING: usize = 16;

/// Of these, those of one address; one more is answered `temporary-auth-failure`.
pub(crate) const LOGINS_WAITING_OF_AN_ADDRESS: usize = 2;

/// Logins of strangers, or of one address that is known, that were answered and have not ended. One
/// more ends the oldest of the address that has the most.
pub(crate) const LOGINS_UNDER_WAY: usize = 32;

/// Time after which an address is a stranger again to an account that was not logged in to from
/// there.
pub(crate) const KNOWN_DAYS: u32 = 30;

/// Age at which a known address is noted anew: a login a day must not cost a record a day.
pub(crate) const KNOWN_NOTED_DAYS: u32 = 7;

/// Pause between two looks at what the domains have stored: what comes in meanwhile may go beyond
/// their bound.
pub(crate) const TOTALS_EVERY: Duration = Duration::from_secs(1);

/// The pause is at least this many times what the look took: many domains take longer.
pub(crate) const TOTALS_REST: u32 = 100;

/// Failed logins of one address after which each of its further ones waits for [`PENALTY`].
pub(crate) const PENALTY_FREE: u32 = 5;

/// See [`PENALTY_FREE`].
pub(crate) const PENALTY: Duration = Duration::from_secs(2);

/// Time without a failure after which those of an address are forgotten.
pub(crate) const PENALTY_REMEMBERED: Duration = Duration::from_secs(120);

/// Logins of one address under way beyond which further ones wait for [`PENALTY`].
pub(crate) const LOGINS_OF_AN_ADDRESS: u32 = 256;

/// The same for an address beyond [`PENALTY_FREE`]; further ones are answered
/// `temporary-auth-failure`.
pub(crate) const LOGINS_OF_A_GUESSER: u32 = 4;

/// Addresses that a node remembers for their failures and registrations. At the bound the one with
/// the fewest is forgotten.
pub(crate) const ADDRESSES_REMEMBERED: usize = 131_072;

/// Changes of accounts that a shard remembers for the sake of streams that began to log in before
/// them. At the bound the oldest is forgotten, and with it every stream of before has to log in
/// anew.
pub(crate) const GENERATIONS_REMEMBERED: usize = 16_384;

/// Accounts that decoys are made after.
pub(crate) const DECOY_SAMPLE: usize = 128;

/// Bytes of a decoy's salt at most: those of one hash.
pub(crate) const DECOY_SALT_BYTES_MAX: usize = 32;

/// Lines a second of a shard's log about failed logins; the next one tells how many were left out.
pub(crate) const FAILED_LOGIN_LINES: u32 = 50;

/// Entries of the ban and allow lists; one more is refused.
pub(crate) const BANS_MAX: usize = 10_000;

/// Bytes of what an administrator says about one of them.
pub(crate) const BAN_REASON_BYTES_MAX: usize = 256;

/// Subscription requests of strangers that wait for one user's answer; one more is refused with
/// `resource-constraint`. They take no room from the roster.
pub(crate) const REQUESTS_MAX: usize = 100;

/// Bytes of those requests that are kept with what they say; further ones are kept without it.
/// Every change of a roster writes them again.
pub(crate) const REQUESTS_BYTES_MAX: usize = 16 * 1024;

/// Time in which registrations of one address are counted.
pub(crate) const REGISTRATION_WINDOW: Duration = Duration::from_secs(3600);

/// Bytes of a resource identifier that the server makes up itself.
pub(crate) const RESOURCE_BYTES: usize = 8;

/// Deadline of an administrator's question to one user.
pub(crate) const ADMIN_DEADLINE: Duration = Duration::from_secs(10);

const _: () = assert!(
    ROSTER_GROUPS_MAX * (ROSTER_GROUP_BYTES_MAX + 2) <= u16::MAX as usize,
    "a packed roster item counts the bytes of its groups in 16 bits"
);
const _: () = assert!(
    REQUEST_BYTES_MAX <= u16::MAX as usize,
    "a packed roster item counts the bytes of its request in 16 bits"
);

/// Credits of stanzas that left as bytes and were not answered ([`crate::options::Wire`]).
pub(crate) const CREDITS_AWAY_MAX: usize = 65_536;

/// Threads that read the store: enough that a slow disk delays only those who wait for it.
pub(crate) const READ_THREADS: usize = 8;

/// Actors of each shard that are no accounts: the port to the journal, its keeper, the keeper of
/// limits, who takes packets that came back, the keeper of connections shared with other nodes, the
/// mover of ranges, who sees to those that were set aside, and who takes what other shards say to
/// connections.
pub(crate) const SYSTEM_ACTORS_PER_SHARD: u64 = 8;

/// The usual [`crate::options::Components::handshake_timeout`].
pub(crate) const COMPONENT_HANDSHAKE: Duration = Duration::from_secs(10);

/// Bytes of one element before the handshake of a component.
pub(crate) const COMPONENT_NEGOTIATION_BYTES_MAX: u32 = 8 * 1024;

/// The usual [`crate::options::Components::strangers_max`]. Each costs a descriptor and about a
/// kilobyte.
pub(crate) const COMPONENT_STRANGERS_MAX: usize = 64;

/// The usual [`crate::options::Components::strangers_per_address_max`].
pub(crate) const COMPONENT_STRANGERS_EACH_MAX: usize = 8;

/// The usual [`crate::options::Components::sent_max`]. Each costs about 100 bytes until the
/// component answers the ping behind it; requests cost their stanza. A component that takes less
/// than half a second for a stanza answers in time for all of them.
pub(crate) const COMPONENT_SENT_MAX: usize = 64;

/// The usual [`crate::options::Components::pairs_max`]: far more than wait in a mailbox, so that
/// what is handed over again is recognised. Each costs 16 bytes.
pub(crate) const COMPONENT_PAIRS_MAX: usize = 16_384;

/// The usual [`crate::options::Components::sent_bytes_max`]. With the largest stanza on top it is
/// far below the output at which a connection ends.
pub(crate) const COMPONENT_SENT_BYTES_MAX: usize = 512 * 1024;

/// The usual [`crate::options::Components::answer_timeout`].
pub(crate) const COMPONENT_ANSWER: Duration = Duration::from_secs(30);

/// The usual [`crate::options::Components::listed_max`]. Each costs about 200 bytes while the
/// domain is loaded, and a part of it in the store.
pub(crate) const COMPONENT_LISTED_MAX: usize = 10_000;

/// The usual [`crate::options::Components::calls_max`]: each may load an account.
pub(crate) const COMPONENT_CALLS_MAX: usize = 64;

/// The usual [`crate::options::Components::call_pause`].
pub(crate) const COMPONENT_CALL_PAUSE: Duration = Duration::from_millis(100);

/// The usual [`crate::options::Components::call_again`].
pub(crate) const COMPONENT_CALL_AGAIN: Duration = Duration::from_secs(15 * 60);

/// Time that an account has to say that it was called; then it is called again.
pub(crate) const COMPONENT_CALL_DEADLINE: Duration = Duration::from_secs(10);

/// What is kept so that a connection outlives a crash of its account's actor, or its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineLimits {
    /// Bytes of a client that are handled and of which no record says so: with more, one is made,
    /// and the edge, which keeps them until then, is told.
    pub unrecorded_max: u64,
    /// Stanzas of a connection whose ends are remembered until a record covers them. Of more the
    /// oldest are forgotten: a record that covers those alone moves no mark, and the next one does.
    /// Nobody asks for a record where the edge keeps nothing (BOSH), or for stanzas that are
    /// refused. A connection with more that its actor has not taken, which no window lets a client
    /// send, ends with the actor. At least 1.
    pub counted_max: usize,
    /// So many panics of an actor at the same stanza of its client, and the stanza is answered with
    /// an error in place of being handled once more.
    pub panics_max: u8,
    /// Requests of a client to the account itself that have no answer; what is behind them counts
    /// as one of others, and may be done again by the next life of the account.
    pub requests_max: usize,
}

impl LineLimits {
    /// Those of a server.
    pub const USUAL: LineLimits = LineLimits {
        unrecorded_max: 16 * 1024,
        counted_max: 1_024,
        panics_max: 2,
        requests_max: 64,
    };
}

impl Default for LineLimits {
    fn default() -> LineLimits {
        LineLimits::USUAL
    }
}
