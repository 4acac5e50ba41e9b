//! How messages are delivered, and how sessions outlive their connections: what operators set, and
//! the bounds that they do not.

use std::time::Duration;

use store::limits::LAGGING_MAX;

use super::{HeldLimits, LineLimits, RoomLimits};

/// Most messages that a session may be sent ahead of what it has acknowledged: as many as one read
/// gives out, so that a session that is resumed is sent all of them again.
pub const UNACKED_MAX: usize = store::limits::LOG_READ_MAX;

/// How sessions outlive their connections (XEP-0198).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Whether clients may use stream management.
    pub stream_management: bool,
    /// How long a session without a connection is kept; a client may ask for less.
    pub resume_timeout: Duration,
    /// Time to acknowledge what was asked for, from when the client said something last; then the
    /// connection is given up.
    pub ack_timeout: Duration,
    /// Messages that a session was sent and has not acknowledged, at most [`UNACKED_MAX`]; further
    /// ones are read from the log when it has acknowledged some.
    pub unacked_max: u32,
    /// How accepted messages are handed over to their recipients.
    pub outbox: delivery::OutboxLimits,
    /// Bounds that operators do not change.
    pub limits: DeliveryLimits,
}

/// Bounds of delivery that operators do not change: values, so that tests reach each of them. What
/// happens at one is said here and in docs/limits.md. The default is what a server runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryLimits {
    /// Messages read from the log and given to sessions at a time; at least 1.
    pub page_entries: usize,
    /// Bytes of such a page of what was left to the log for a session; one message goes whatever
    /// its size.
    pub page_bytes: usize,
    /// Log entries read at a time to see which may go, or what is owed after a restart; at least 1.
    pub read_entries: usize,
    /// Bytes of messages that a session was given and has not acknowledged, at which likewise it is
    /// given no more; one message or page goes on top.
    pub unacked_bytes_max: usize,
    /// Managed sessions of a user, and ended ones that left messages for their full addresses which
    /// are not on the account's list yet; with so many no further session is managed.
    pub sessions_max: usize,
    /// Messages for full addresses of sessions that ended, on the account's list. With more, the
    /// rest waits in the log.
    pub listed_max: usize,
    /// Places by which the account's mark may be ahead of what is recorded of it.
    pub mark_every: u64,
    /// The same of the mark on the log of a room that delivers to the account as its member.
    pub member_mark_every: u64,
    /// Bytes of what is recorded of all sessions of a user; the one with which it gets more ends
    /// with `resource-constraint`.
    pub records_bytes_max: usize,
    /// Errors for messages of a user's sessions that were refused, while they cannot be recorded
    /// either: with one more refusal its streams end with `internal-server-error`, and clients send
    /// again what was not acknowledged.
    pub refusals_max: usize,
    /// Ended sessions of a user whose counts are remembered, while the user is loaded.
    pub ended_max: usize,
    /// What a session is given of the logs of rooms.
    pub rooms: delivery::FollowLimits,
    /// Rooms that deliver to one account as their member; what more of them have to say is in their
    /// archives. Each costs its address and 60 bytes while the account is loaded.
    pub member_rooms_max: usize,
    /// Of these, rooms that one account has made: nobody takes all places of another with rooms of
    /// his own.
    pub member_rooms_of_one_max: usize,
    /// Messages of one room that a member who comes back is given, the latest; what was said before
    /// is in its archive.
    pub member_backlog_max: u64,
    /// What a session keeps of stanzas that are in no log: presence gives way, then it ends.
    pub unlogged: xmpp::sm::Limits,
    /// Output that waits for a client; with more its session is spared what other accounts say that
    /// is in no log.
    pub others_backlog_max: usize,
    /// Stanzas that are in no log after which a client is asked what it has handled (XEP-0198).
    pub ask_every: u32,
    /// The same of messages of rooms in a row: more, for none of them is kept here meanwhile.
    pub ask_every_of_rooms: u32,
    /// Unacknowledged stanzas at which a client that owes an answer is asked once more.
    pub ask_again_every: u32,
    /// Cursors that moved are recorded within this time, with the next entry if there is one.
    pub progress_delay: Duration,
    /// Appends to one log after which its oldest entries are looked at.
    pub retention_every: u32,
    /// Pause before a user that could not be read is read again.
    pub load_retry: Duration,
    /// Attempts to read a user in a row; then whoever wants something of it gets an error, and its
    /// streams end.
    pub loads_max: u8,
    /// Longest pause before a further attempt to read a user, or a page of its log. It doubles from
    /// [`DeliveryLimits::load_retry`] on.
    pub read_retry_max: Duration,
    /// How long a user without sessions stays loaded.
    pub idle_eviction: Duration,
    /// Messages handed over by senders of whom memory does not know what was taken from them
    /// before, that wait for the store to say so. One more is handed over again later.
    pub parked_max: usize,
    /// Time for which it is remembered up to where a sender's messages were taken, of senders who
    /// are not among the last 128. Longer than any sender hands a message over
    /// ([`delivery::OutboxLimits::recognised_for`]).
    pub marks_kept: Duration,
    /// How often such marks are looked at for those that are older.
    pub marks_forgotten_every: Duration,
    /// Time for which an origin-id is recognised (XEP-0359), as long as it is among the last 256 of
    /// its user.
    pub origin_window: Duration,
    /// Pause before it is looked again whether a client without stream management has read what it
    /// was written, and may be written the next page.
    pub page_pause: Duration,
    /// Rooms that are told at a time that a client is back, for each session: each answers with all
    /// who are there.
    pub rooms_back_at_once: usize,
    /// Rooms of which a member's account asks for a page at a time.
    pub member_pages_at_once: usize,
    /// How a room tells homes.
    pub room: RoomLimits,
    /// What is kept of connections.
    pub lines: LineLimits,
    /// What inactive clients are spared.
    pub held: HeldLimits,
}

impl Default for DeliveryLimits {
    fn default() -> Self {
        DeliveryLimits {
            page_entries: 50,
            page_bytes: 256 * 1024,
            read_entries: 256,
            unacked_bytes_max: 512 * 1024,
            sessions_max: store::limits::SESSIONS_MAX,
            listed_max: 50_000,
            mark_every: 64,
            member_mark_every: 32,
            records_bytes_max: store::limits::SESSIONS_BYTES_MAX,
            refusals_max: 64,
            ended_max: 8,
            rooms: delivery::FollowLimits::default(),
            member_rooms_max: 100,
            member_rooms_of_one_max: 50,
            member_backlog_max: 200,
            unlogged: xmpp::sm::Limits::default(),
            others_backlog_max: 256 * 1024,
            ask_every: 8,
            ask_every_of_rooms: 32,
            ask_again_every: 64,
            progress_delay: Duration::from_secs(1),
            retention_every: 128,
            load_retry: Duration::from_millis(200),
            loads_max: 25,
            read_retry_max: Duration::from_secs(30),
            idle_eviction: Duration::from_secs(15),
            parked_max: 64,
            marks_kept: Duration::from_secs(7 * 24 * 3600),
            marks_forgotten_every: Duration::from_secs(3600),
            origin_window: Duration::from_secs(3600),
            page_pause: Duration::from_millis(100),
            rooms_back_at_once: 8,
            member_pages_at_once: 4,
            room: RoomLimits::default(),
            lines: LineLimits::default(),
            held: HeldLimits::default(),
        }
    }
}

impl DeliveryLimits {
    /// The pause before something is read again whose reading failed so often before.
    pub(crate) fn read_retry(&self, failures: u8) -> Duration {
        let factor = 1 << u32::from(failures).min(20);
        self.load_retry
            .saturating_mul(factor)
            .min(self.read_retry_max)
    }
}

/// What follows when an entity could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unread {
    /// Time before the next attempt.
    pub(crate) pause: Duration,
    /// Whoever wants something of it is told.
    pub(crate) is_given_up: bool,
    /// That begins with this attempt.
    pub(crate) is_news: bool,
}

impl DeliveryLimits {
    /// After so many attempts in a row that failed.
    pub(crate) fn unread(&self, times: u8) -> Unread {
        let longer = times.saturating_sub(self.loads_max);
        Unread {
            pause: match longer {
                0 => self.load_retry,
                longer => self.read_retry(longer),
            },
            is_given_up: longer > 0,
            is_news: longer == 1,
        }
    }
}

impl Delivery {
    /// Bounds of what the sessions of one user are given.
    pub(crate) fn inbox(&self) -> delivery::InboxLimits {
        let limits = &self.limits;
        delivery::InboxLimits {
            window: self.unacked_max as usize,
            window_bytes: limits.unacked_bytes_max,
            page: limits.page_entries,
            mark_every: limits.mark_every,
            listed_max: limits.listed_max,
            sessions_max: limits.sessions_max,
            retry_min: limits.load_retry,
            retry_max: limits.read_retry_max.max(limits.load_retry),
        }
    }

    /// Checks what the bounds rely on between them.
    ///
    /// # Errors
    /// Which relation does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        let limits = &self.limits;
        let pages = [limits.page_entries, limits.read_entries];
        // With so many a session is given no more: a page has no more than there is room for.
        let listed = self.unacked_max as usize;
        let relations = [
            (self.unacked_max > 0, "a session takes a message"),
            (
                self.outbox.is_sound()
                    && self.outbox.entries_max as usize + self.outbox.returned_max < LAGGING_MAX,
                "the bounds of what is handed over fit each other",
            ),
            (
                self.outbox.recognised_for < limits.marks_kept,
                "who is handed a message again still knows what was taken",
            ),
            (!pages.contains(&0), "a page and a read have room"),
            (
                limits.rooms_back_at_once > 0 && limits.member_pages_at_once > 0,
                "rooms are told and asked at some time",
            ),
            (
                limits.room.members_per_ms > 0 && limits.lines.counted_max > 0,
                "members are told, and stanzas of a connection remembered",
            ),
            (
                pages
                    .iter()
                    .all(|page| *page <= store::limits::LOG_READ_MAX),
                "what is asked for at a time is read at once",
            ),
            (
                self.inbox().is_sound(),
                "the bounds of what sessions are given fit each other",
            ),
            (
                listed <= UNACKED_MAX && UNACKED_MAX <= store::limits::NUMBERED_MAX,
                "the record of a session has room for all that it is owed",
            ),
            (
                limits.listed_max + limits.page_entries <= store::limits::REQUEUED_MAX,
                "a record has room for the account's list",
            ),
            (
                limits.records_bytes_max <= store::limits::SESSIONS_BYTES_MAX,
                "the records of a user's sessions have room",
            ),
            (
                limits.sessions_max <= store::limits::SESSIONS_MAX,
                "a user's sessions have room for their records",
            ),
        ];
        let broken = relations.iter().find(|(holds, _)| !holds);
        broken.map_or(Ok(()), |(_, relation)| Err(*relation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(unacked_max: u32, limits: DeliveryLimits) -> Delivery {
        Delivery {
            stream_management: true,
            resume_timeout: Duration::from_secs(600),
            ack_timeout: Duration::from_secs(60),
            outbox: delivery::OutboxLimits::default(),
            unacked_max,
            limits,
        }
    }

    #[test]
    fn bounds_that_do_not_fit_each_other_are_refused() {
        let default = DeliveryLimits::default();
        assert_eq!(delivery(1_000, default).check(), Ok(()));
        assert!(delivery(1_001, default).check().is_err());
        assert!(delivery(0, default).check().is_err());
        let without_pages = DeliveryLimits {
            page_entries: 0,
            ..default
        };
        assert!(delivery(1, without_pages).check().is_err());
        let nobody_at_once = DeliveryLimits {
            rooms_back_at_once: 0,
            ..default
        };
        assert!(delivery(1, nobody_at_once).check().is_err());
        let nobody_told = DeliveryLimits {
            room: RoomLimits {
                members_per_ms: 0,
                ..default.room
            },
            ..default
        };
        assert!(delivery(1, nobody_told).check().is_err());
        let more_than_a_read = DeliveryLimits {
            read_entries: store::limits::LOG_READ_MAX + 1,
            ..default
        };
        assert!(delivery(1, more_than_a_read).check().is_err());
        let many_sessions = DeliveryLimits {
            sessions_max: store::limits::SESSIONS_MAX + 1,
            ..default
        };
        assert!(delivery(1, many_sessions).check().is_err());
        let forgotten_too_early = DeliveryLimits {
            marks_kept: delivery(1, default).outbox.recognised_for,
            ..default
        };
        assert!(delivery(1, forgotten_too_early).check().is_err());
    }
}
