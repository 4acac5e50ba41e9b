//! Every bound of this crate but that of [`crate::Marks`], which is an argument: with its unit, its
//! production value and what happens at it.

use std::time::Duration;

use crate::place::Attempt;

/// Bounds of one sender's [`crate::Outbox`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OutboxLimits {
    /// Entries accepted and not settled; one more is not accepted ([`crate::Accept::Full`]). Each
    /// costs its place in the log, and 48 bytes while it is in flight.
    pub entries_max: u32,
    /// Those of them for one destination that does not take what it is handed over; one more is not
    /// accepted ([`crate::Accept::DestinationFull`]), so that it leaves room for others. One that
    /// takes it, and is behind, may have more: as many as there is room left.
    pub entries_per_destination_max: u32,
    /// Entries in flight to destinations that keep up. At one more, the destination of the oldest
    /// one is read from the log at its own pace.
    pub window: usize,
    /// Entries in flight to one destination that keeps up; at one more it is read from the log.
    pub window_per_destination: usize,
    /// Entries that one read of the log asks for.
    pub page: u32,
    /// Reads for destinations that lag that are under way at a time; the others wait for their
    /// turn, so that a sender to thousands who are called at once leaves room for others.
    pub reads_max: u32,
    /// Time that a destination may say nothing to what was handed over; then it is retried.
    pub answer_timeout: Duration,
    /// Pause before the first retry; each further pause is twice as long.
    pub retry_min: Duration,
    /// Bound of what the pause between two retries grows to. All pauses are up to half as long
    /// again, each sender's by another part: those who are refused together, because too many ask
    /// one destination at the same moment, do not all ask again together.
    pub retry_max: Duration,
    /// Age at which an entry that its destination does not take comes back to its sender.
    pub give_up_after: Duration,
    /// Attempts in a row that must have failed before that, whatever a clock says.
    pub give_up_attempts_min: u32,
    /// Age from which an entry that may have been taken is not handed over again, because its
    /// recipient may have forgotten it ([`crate::Marks`]); it comes back, with that said.
    pub recognised_for: Duration,
    /// Crashes of a recipient while it handled an entry; then the entry comes back first.
    pub crashes_max: u8,
    /// Destinations from which something came back that wait for the common mark; with more, the
    /// slowest destination of the window gets a mark of its own, so that the common one moves on.
    pub returned_max: usize,
}

impl Default for OutboxLimits {
    fn default() -> Self {
        OutboxLimits {
            entries_max: 10_000,
            entries_per_destination_max: 1_000,
            window: 1_024,
            window_per_destination: 256,
            page: 256,
            reads_max: 16,
            answer_timeout: Duration::from_secs(5),
            retry_min: Duration::from_millis(250),
            retry_max: Duration::from_secs(15),
            give_up_after: Duration::from_secs(3600),
            give_up_attempts_min: 3,
            recognised_for: Duration::from_secs(6 * 24 * 3600),
            crashes_max: 2,
            returned_max: 64,
        }
    }
}

impl OutboxLimits {
    /// Whether the bounds fit each other: each is at least 1, and a share is not larger than the
    /// whole.
    pub fn is_sound(&self) -> bool {
        self.entries_per_destination_max >= 1
            && self.entries_per_destination_max <= self.entries_max
            && self.window_per_destination >= 1
            && self.window_per_destination <= self.window
            && self.page >= 1
            && self.reads_max >= 1
            && self.crashes_max >= 1
            && self.retry_min <= self.retry_max
            && self.give_up_after <= self.recognised_for
    }

    /// The pause before the next attempt after `failures` failed ones, in the life of `attempt`.
    pub(crate) fn pause(&self, failures: u32, attempt: Attempt) -> Duration {
        let pause = pause(self.retry_min, self.retry_max, failures);
        pause + attempt.spread(pause / 2)
    }
}

/// Bounds of one user's [`crate::Inbox`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InboxLimits {
    /// Entries that a session was given and has not acknowledged; with so many it is given no more,
    /// and reads the log when there is room again. Each costs 24 bytes.
    pub window: usize,
    /// Bytes of those, at which likewise; one more entry, or page, goes on top.
    pub window_bytes: usize,
    /// Entries that one read asks for.
    pub page: usize,
    /// Places by which the account's mark may be ahead of what is recorded of it, while the rest
    /// follows from what sessions have acknowledged: so many are looked through after a restart.
    pub mark_every: u64,
    /// Places on the account's list; what ended sessions left waits in the log while it is full.
    pub listed_max: usize,
    /// Managed sessions, and ended ones of which something is left: with so many no further session
    /// is managed ([`crate::Inbox::may_manage`]).
    pub sessions_max: usize,
    /// Pause before a read that failed is tried again; each further pause is twice as long.
    pub retry_min: Duration,
    /// Longest pause between two reads.
    pub retry_max: Duration,
}

impl Default for InboxLimits {
    fn default() -> Self {
        InboxLimits {
            window: 1_000,
            window_bytes: 512 * 1024,
            page: 50,
            mark_every: 64,
            listed_max: 50_000,
            sessions_max: 64,
            retry_min: Duration::from_millis(200),
            retry_max: Duration::from_secs(30),
        }
    }
}

impl InboxLimits {
    /// Whether the bounds fit each other: each is at least 1.
    pub fn is_sound(&self) -> bool {
        let all = [self.window, self.window_bytes, self.page, self.listed_max];
        !all.contains(&0) && self.sessions_max >= 1 && self.retry_min <= self.retry_max
    }

    /// The pause before the next read after `failures` failed ones.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        pause(self.retry_min, self.retry_max, failures)
    }
}

/// Bounds of what one session is given of rooms' logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FollowLimits {
    /// Messages of rooms that a session was given and has not acknowledged, or that rooms were
    /// asked for; with so many it is given no more, and reads the rooms' logs when there is room
    /// again. Each costs 32 bytes.
    pub window: usize,
    /// Messages that one page asks for.
    pub page: usize,
    /// Time that a room may take to answer; then it is asked again. Also the pause after an append
    /// that failed: the next one would fail as well while the disk is full.
    pub answer_timeout: Duration,
    /// Most counts that one record says ahead. Each costs about 8 bytes of the record.
    pub ahead: u32,
    /// Copies that have to come in a row before anything is said ahead.
    pub ahead_from: u32,
}

impl Default for FollowLimits {
    fn default() -> Self {
        FollowLimits {
            window: 256,
            page: 50,
            answer_timeout: Duration::from_secs(5),
            ahead: 64,
            ahead_from: 4,
        }
    }
}

fn pause(min: Duration, max: Duration, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    min.saturating_mul(1 << doublings).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_bound() {
        let limits = OutboxLimits::default();
        assert!(limits.is_sound());
        let first = Attempt::default();
        assert_eq!(limits.pause(1, first), limits.retry_min);
        assert_eq!(limits.pause(3, first), limits.retry_min * 4);
        assert_eq!(limits.pause(u32::MAX, first), limits.retry_max);
        let limits = InboxLimits::default();
        assert_eq!(limits.pause(2), limits.retry_min * 2);
        assert_eq!(limits.pause(u32::MAX), limits.retry_max);
    }

    #[test]
    fn bounds_of_an_outbox_that_do_not_fit_are_noticed() {
        let is_sound = |change: fn(&mut OutboxLimits)| {
            let second = Duration::from_secs(1);
            let mut limits = OutboxLimits {
                entries_max: 1,
                entries_per_destination_max: 1,
                window: 1,
                window_per_destination: 1,
                page: 1,
                reads_max: 1,
                retry_min: second,
                retry_max: second,
                give_up_after: second,
                recognised_for: second,
                crashes_max: 1,
                ..OutboxLimits::default()
            };
            change(&mut limits);
            limits.is_sound()
        };
        assert!(is_sound(|_| {}), "each at its edge");
        assert!(is_sound(|limits| *limits = OutboxLimits::default()));
        let wrong: [fn(&mut OutboxLimits); 9] = [
            |limits| limits.entries_per_destination_max = 0,
            |limits| limits.entries_per_destination_max = 2,
            |limits| limits.window_per_destination = 0,
            |limits| limits.window_per_destination = 2,
            |limits| limits.page = 0,
            |limits| limits.reads_max = 0,
            |limits| limits.crashes_max = 0,
            |limits| limits.retry_min = Duration::from_secs(2),
            |limits| limits.give_up_after = Duration::from_secs(2),
        ];
        for (at, change) in wrong.into_iter().enumerate() {
            assert!(!is_sound(change), "{at}");
        }
    }

    #[test]
    fn bounds_of_an_inbox_that_do_not_fit_are_noticed() {
        let is_sound = |change: fn(&mut InboxLimits)| {
            let mut limits = InboxLimits {
                window: 1,
                window_bytes: 1,
                page: 1,
                mark_every: 1,
                listed_max: 1,
                sessions_max: 1,
                retry_min: Duration::from_secs(1),
                retry_max: Duration::from_secs(1),
            };
            change(&mut limits);
            limits.is_sound()
        };
        assert!(is_sound(|_| {}), "each at its edge");
        assert!(is_sound(|limits| *limits = InboxLimits::default()));
        let wrong: [fn(&mut InboxLimits); 6] = [
            |limits| limits.window = 0,
            |limits| limits.window_bytes = 0,
            |limits| limits.page = 0,
            |limits| limits.listed_max = 0,
            |limits| limits.sessions_max = 0,
            |limits| limits.retry_min = Duration::from_secs(2),
        ];
        for (at, change) in wrong.into_iter().enumerate() {
            assert!(!is_sound(change), "{at}");
        }
    }
}
