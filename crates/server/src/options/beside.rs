//! Bounds of delivery that operators do not change, of what stands beside a user's log: rooms, the
//! two halves of a connection, and stanzas that wait for an inactive client.

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
