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

/// Appends of a shard that wait to be handed to the journal; one more is refused with
/// `resource-constraint`, and nothing is half done.
pub(crate) const JOURNAL_BACKLOG_MAX: usize = 65_536;

/// Their bytes, by estimate; at that, one more is refused likewise.
pub(crate) const JOURNAL_BACKLOG_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Pause between questions what became of an append in doubt.
pub(crate) const DOUBT_POLL: Duration = Duration::from_millis(50);

/// Pause before a batch is handed over again that the journal had no room for.
pub(crate) const BUSY_RETRY: Duration = Duration::from_millis(5);

/// Pause before a port to the journal that crashed is started again.
pub(crate) const PORT_RESTART: Duration = Duration::from_millis(100);

/// Messages that may wait for one user at least; more if rosters may be large. One more is refused
/// with `resource-constraint`.
pub(crate) const MAILBOX_MIN: usize = 1_024;

/// Appends of one user that are not decided; at that, new stanzas wait in the mailbox. Below the
/// bound of its priority lane, in which their outcomes arrive.
pub(crate) const BARRIER_APPENDS_MAX: usize = 1_024;

/// Effects that one user may hold behind commits that are not finished; likewise.
pub(crate) const BARRIER_EFFECTS_MAX: usize = 4_096;

/// Bytes of those effects; likewise. One turn of a handler may exceed it.
pub(crate) const BARRIER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long a user actor without sessions stays loaded.
pub(crate) const IDLE_EVICTION: Duration = Duration::from_secs(15);

/// Pause before a user that could not be read is read again.
pub(crate) const LOAD_RETRY: Duration = Duration::from_millis(200);

/// Attempts to read a user; then whoever wants something of it gets an error.
pub(crate) const LOADS_MAX: u8 = 25;

/// Failed logins of one account after which further attempts are paced.
pub(crate) const FAILED_LOGINS_FREE: u32 = 5;

/// Failed logins of one account that are remembered; one is forgiven each [`IDLE_EVICTION`].
pub(crate) const FAILED_LOGINS_REMEMBERED: u32 = 10;

/// Pace of login attempts of an account that is being guessed: one answer in this time.
pub(crate) const FAILED_LOGIN_PACE: Duration = Duration::from_secs(1);

/// Login attempts of one account that may wait for their turn; one more is answered
/// `temporary-auth-failure`.
pub(crate) const FAILED_LOGIN_QUEUE: usize = 16;

/// Failed logins of one address after which its connections are not read for [`PENALTY`].
pub(crate) const PENALTY_FREE: u32 = 5;

/// See [`PENALTY_FREE`].
pub(crate) const PENALTY: Duration = Duration::from_secs(2);

/// Addresses whose failures a shard remembers at a time.
pub(crate) const PENALTIES_REMEMBERED: usize = 10_000;

/// Addresses whose registrations a shard remembers at a time; an address beyond it has to wait
/// until others are forgotten after [`REGISTRATION_WINDOW`].
pub(crate) const REGISTRATIONS_REMEMBERED: usize = 10_000;

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
