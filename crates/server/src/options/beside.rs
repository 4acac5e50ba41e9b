//! Bounds of delivery that operators do not change, of what stands beside a user's log: rooms, and
//! stanzas that wait for an inactive client.

use std::time::Duration;

/// How a room tells homes, and what it tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomLimits {
    /// Pause before it is tried again to make durable who is there.
    pub keep_again: Duration,
    /// Pause before a room ends whose end was refused: nobody waits for that.
    pub end_again: Duration,
    /// Pause before homes that did not say whether their sessions are there are asked again.
    pub ask_again: Duration,
    /// Pause before homes whose mailboxes were full are told what they have missed.
    pub tell_again: Duration,
    /// Members that had no room for the news and are told once more, if their round was of fewer.
    pub missed_max: usize,
    /// Pause between parts of a round of members.
    pub next_part: Duration,
    /// Pause behind a round; what is said meanwhile is told of in one.
    pub rest: Duration,
    /// Members for which that pause is a millisecond longer, at least 1: so many are told of
    /// something in a millisecond.
    pub members_per_ms: usize,
}

impl Default for RoomLimits {
    fn default() -> RoomLimits {
        RoomLimits {
            keep_again: Duration::from_millis(250),
            end_again: Duration::from_secs(5),
            ask_again: Duration::from_secs(5),
            tell_again: Duration::from_millis(250),
            missed_max: 64,
            next_part: Duration::from_millis(1),
            rest: Duration::from_millis(200),
            members_per_ms: 5,
        }
    }
}

/// What an inactive client is spared (XEP-0352); with more all of it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLimits {
    /// Stanzas for one session.
    pub stanzas: usize,
    /// Bytes of them.
    pub bytes: usize,
}

impl Default for HeldLimits {
    fn default() -> HeldLimits {
        HeldLimits {
            stanzas: 256,
            bytes: 64 * 1024,
        }
    }
}
