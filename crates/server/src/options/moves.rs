//! How and when ranges move between the shards of a node (docs/decisions/0142).

use std::time::Duration;

use crate::limits::ADMIN_DEADLINE;

/// How ranges move between the shards of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moves {
    /// For how long it is tried to move a range of which something is under way each time, before
    /// its entities are paused; or less, if another range of the shard is paused before.
    pub patience: Duration,
    /// For how long it is tried behind that, while they take nothing new. Together less than an
    /// operator waits for an answer.
    pub pause_max: Duration,
    /// Ranges of one shard that are paused at a time: what is new for their clients waits.
    pub paused_max: usize,
    /// So many tries follow each other soon, once accounts were told to record what they record
    /// late; 1 to 16.
    pub tries: u32,
    /// Pause behind the first of them; each of the others is twice as long.
    pub retry: Duration,
    /// Pause behind the last of them, and between tries once the range's patience is over: each is
    /// a look at all entities of the shard. Then accounts are told once more.
    pub rest: Duration,
    /// A range that is on its way for longer is worth a warning: what comes for it waits.
    pub late: Duration,
}

impl Moves {
    /// Those of a server.
    pub const USUAL: Moves = Moves {
        patience: Duration::from_millis(200),
        pause_max: Duration::from_secs(8),
        paused_max: 8,
        tries: 5,
        retry: Duration::from_millis(1),
        rest: Duration::from_millis(50),
        late: Duration::from_secs(10),
    };
}

const _: () = {
    let Moves {
        patience,
        pause_max,
        ..
    } = Moves::USUAL;
    assert!(patience.as_millis() + pause_max.as_millis() < ADMIN_DEADLINE.as_millis());
};

impl Default for Moves {
    fn default() -> Moves {
        Moves::USUAL
    }
}

/// When ranges move between the shards of a node by themselves, so that these are about equally
/// busy. Shares are of a shard's time, from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Balance {
    /// Whether they do. Those of a node of a cluster do not.
    pub is_on: bool,
    /// From one look to the next.
    pub every: Duration,
    /// Longest wait for a shard to say what it has done.
    pub answer_max: Duration,
    /// Looks in a row that have to find the same shard too busy.
    pub looks: u32,
    /// A shard that works less of its time is not too busy.
    pub busy_min: f64,
    /// Nor is one that works so little more than the idlest.
    pub gap_min: f64,
    /// A move must leave the busier of the two shards so much less to do. Less than a range has of
    /// a shard that is busy with all of them alike.
    pub gain_min: f64,
    /// Ranges that move after one look at most.
    pub moves_max: usize,
    /// How long a range that has moved stays where it is.
    pub rest: Duration,
    /// The same of one that could not move.
    pub rest_stayed: Duration,
}

impl Default for Balance {
    fn default() -> Balance {
        Balance {
            is_on: false,
            every: Duration::from_secs(5),
            answer_max: Duration::from_secs(1),
            looks: 3,
            busy_min: 0.5,
            gap_min: 0.2,
            gain_min: 0.002,
            moves_max: 32,
            rest: Duration::from_mins(1),
            rest_stayed: Duration::from_mins(5),
        }
    }
}
