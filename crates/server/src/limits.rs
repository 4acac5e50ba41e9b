//! Every bound of the domain code, with its unit and what happens at it. Bounds that operators may
//! change are fields of [`crate::options::Limits`], those of delivery of
//! [`crate::options::DeliveryLimits`]; these are the ones they may not.

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

/// Time for which an origin-id is recognised (XEP-0359), as long as it is among the last 256 of its
/// user.
pub(crate) const ORIGIN_WINDOW: Duration = Duration::from_secs(3600);

/// Messages handed over by senders of whom memory does not know what was taken from them before,
/// that wait for the store to say so. One more is handed over again later.
pub(crate) const PARKED_MAX: usize = 64;

/// Time for which it is remembered up to where a sender's messages were taken, of senders who are
/// not among the last 128. Longer than any sender hands a message over
/// ([`delivery::OutboxLimits::recognised_for`]).
pub(crate) const MARKS_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// How often such marks are looked at for those that are older.
pub(crate) const MARKS_FORGET_EVERY: Duration = Duration::from_secs(3600);

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

/// Failed logins of one account after which further attempts are paced.
pub(crate) const FAILED_LOGINS_FREE: u32 = 5;

/// Failed logins of one account that are remembered; one is forgiven each time that its
/// user is found idle.
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
