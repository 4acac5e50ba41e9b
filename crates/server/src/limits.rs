//! Every bound of the domain code, with its unit and what happens at it. Bounds that operators may
//! change are fields of [`crate::options::Limits`]; these are the ones they may not.

use std::time::Duration;

/// Bytes of a roster item's name; longer is answered `not-acceptable` (RFC 6121 section 2.3.3).
pub(crate) const ROSTER_NAME_BYTES_MAX: usize = 1023;

/// Groups of one roster item; more are answered `not-acceptable`.
pub(crate) const ROSTER_GROUPS_MAX: usize = 32;

/// Bytes of a group's name; longer is answered `not-acceptable` (RFC 6121 section 2.3.3).
pub(crate) const ROSTER_GROUP_BYTES_MAX: usize = 1023;

/// Bytes kept of a subscription request that waits for an answer. A longer request is kept without
/// its children: the question itself is never lost.
pub(crate) const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// Entities that one session may send directed presence to at a time; one more is answered
/// `resource-constraint`. Each costs its address in memory.
pub(crate) const DIRECTED_MAX: usize = 1_000;

/// Addresses on one user's block list (XEP-0191); one more is answered `resource-constraint`.
pub(crate) const BLOCKED_MAX: usize = 10_000;

/// Pending messages read from the log and written to a session at a time.
pub(crate) const INBOX_PAGE: usize = 50;

/// Log entries read at a time to see which may go, or what is owed after a restart.
pub(crate) const LOG_READ: usize = 256;

/// Appends to one log after which its oldest entries are looked at.
pub(crate) const RETENTION_EVERY: u32 = 128;

/// Cursors that moved are recorded within this time, with the next entry if there is one.
pub(crate) const PROGRESS_DELAY: Duration = Duration::from_secs(1);

/// Time for which an origin-id is recognised (XEP-0359), as long as it is among the last 256 of its
/// user.
pub(crate) const ORIGIN_WINDOW: Duration = Duration::from_secs(3600);

/// Messages of one sender that are handed over and not taken yet; more are read from the log later.
pub(crate) const FORWARD_WINDOW: usize = 256;

/// Messages read from a log at a time to be handed over.
pub(crate) const FORWARD_PAGE: usize = 64;

/// Time after which what could not be taken is handed over again.
pub(crate) const FORWARD_RETRY: Duration = Duration::from_millis(250);

/// Time that a recipient's home may say nothing; then its messages are handed over again.
pub(crate) const FORWARD_TIMEOUT: Duration = Duration::from_secs(5);

/// Messages of one sender that were accepted and not taken over yet; a further one is refused with
/// `resource-constraint`.
pub(crate) const OUTBOX_ENTRIES_MAX: u32 = 10_000;

/// Most messages that a session which is resumed is sent again at once: the largest
/// [`crate::options::Delivery::unacked_max`].
pub(crate) const UNACKED_ENTRIES_MAX: usize = 1_000;

/// Messages that waited and were given to other sessions while one was that far behind: with more,
/// it ends, and they wait for the next one unless another has them.
pub(crate) const LATE_ENTRIES_MAX: usize = 1_000;

/// Ended sessions of one user whose share of the log waits for others. Of one more it is only
/// archived.
pub(crate) const ESTATES_MAX: usize = 16;

/// Unacknowledged messages of a session at which no more waiting ones are given to it.
pub(crate) const UNACKED_ENTRIES_PAUSE: u32 = 200;

/// Stanzas after which a client is asked what it has handled (XEP-0198).
pub(crate) const ASK_EVERY: u32 = 8;

/// Ended sessions of a user whose counts are remembered, while the user is loaded.
pub(crate) const ENDED_SESSIONS_REMEMBERED: usize = 8;

/// Unacknowledged stanzas at which a client that owes an answer is asked once more.
pub(crate) const ASK_AGAIN_EVERY: u32 = 64;

/// Bytes of messages that are sent again at a resumption; what is more is left to the log. A
/// connection that has twice as much to write is closed.
pub(crate) const RESENT_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of one page of what was left to the log for a session; a message that is larger is a page.
pub(crate) const SPILL_PAGE_BYTES: usize = 256 * 1024;

/// Bytes of messages sent to a session at which it gets no further page before it acknowledged
/// some.
pub(crate) const UNACKED_BYTES_PAUSE: usize = 512 * 1024;

/// Characters of the token that resumes a session: 5.9 bits of chance each.
pub(crate) const SESSION_TOKEN_BYTES: usize = 24;

/// Bytes of one page of the archive; the rest of what was asked for is left to the next one.
pub(crate) const ARCHIVE_PAGE_BYTES: usize = 256 * 1024;

/// Questions of one account that the store answers at a time: its reads stand in line with those of
/// others however many it has.
pub(crate) const QUESTIONS_AT_ONCE: u32 = 2;

/// Questions of an account's own sessions that wait; their connections' windows are smaller. One
/// more is answered `resource-constraint`.
pub(crate) const QUESTIONS_OWN: usize = 4_096;

/// Questions of others to one account that wait; one more is answered `resource-constraint`.
pub(crate) const QUESTIONS_OF_OTHERS: usize = 64;

/// Bytes that wait to be sent to a connection at which the store is not asked for it.
pub(crate) const QUESTIONS_BACKLOG_PAUSE: usize = 64 * 1024;

/// Time after which it is looked again whether a client has read what it was sent.
pub(crate) const QUESTION_PAUSE: Duration = Duration::from_millis(50);

/// Sets of private storage that wait until it is known how much there is; one more is answered
/// `resource-constraint`.
pub(crate) const PRIVATE_SETS_WAITING: usize = 128;

/// Bytes that an element of private storage counts beside its own and those of its name.
pub(crate) const PRIVATE_ITEM_OVERHEAD: u64 = 64;

/// Users that a start wakes at a time.
pub(crate) const WAKE_PAGE: usize = 256;

/// Pause between two pages of them.
pub(crate) const WAKE_PACE: Duration = Duration::from_millis(5);

/// How often a node looks through all logs for messages that have become too old.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_secs(3600);

/// Users that are looked at at a time.
pub(crate) const SWEEP_PAGE: usize = 64;

/// Pause between two pages of them: a million users are looked through in 13 minutes.
pub(crate) const SWEEP_PACE: Duration = Duration::from_millis(50);

/// Log entries that may wait for one commit of a shard; beyond it, a change fails with
/// `resource-constraint` and nothing is half done.
pub(crate) const JOURNAL_BACKLOG_MAX: usize = 65_536;

/// Longest time that a batch of appends may take; then it counts as failed. A disk that stalls is
/// waited for: giving up on a commit that may still happen is the last resort.
pub(crate) const COMMIT_DEADLINE: Duration = Duration::from_secs(3600);

/// Messages that may wait for one user at least; more if rosters may be large. One more is refused
/// with `resource-constraint`.
pub(crate) const MAILBOX_MIN: usize = 1_024;

/// Effects that one user may hold behind commits that are not finished; beyond it new stanzas wait
/// in the mailbox.
pub(crate) const BARRIER_MAX: usize = 4_096;

/// How long a user actor without sessions stays loaded.
pub(crate) const IDLE_EVICTION: Duration = Duration::from_secs(15);

/// Pause before a user that could not be read is read again.
pub(crate) const LOAD_RETRY: Duration = Duration::from_millis(200);

/// Attempts to read a user; then whoever wants something of it gets an error.
pub(crate) const LOADS_MAX: u8 = 25;

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
pub(crate) const REQUESTS_BYTES_MAX: usize = 64 * 1024;

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
const _: () = assert!(
    UNACKED_ENTRIES_MAX + LATE_ENTRIES_MAX <= store::limits::NUMBERED_MAX,
    "the record of a session has room for all that it is owed"
);
