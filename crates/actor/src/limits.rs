//! Bounds of the runtime, and what happens when one is reached.

use std::time::Duration;

/// Messages that wait in one mailbox; one more comes back to its sender.
pub const MAILBOX_MAX: usize = 1_024;

/// Messages in a mailbox's priority lane that others sent there; one more comes back. Timers,
/// answers and signals have their own bounds below and always find room.
pub const PRIORITY_MAX: usize = 4_096;

/// Batches from other shards and threads that wait for one shard. A shard keeps what does not fit
/// (see [`OUTGOING_MAX`]), other threads get it back.
pub const INBOX_BATCHES_MAX: usize = 4_096;

/// Messages in those batches.
pub const INBOX_MESSAGES_MAX: usize = 262_144;

/// Messages from other shards and threads that one turn takes, and a batch more; the others wait
/// for the next turn, so that mail cannot keep actors and sockets waiting.
pub const RECEIVE_MAX: usize = 1_024;

/// Messages that wait for one shard beyond which [`crate::Pressure::High`] is told: each sender
/// should have only one message under way.
pub const PRESSURE_HIGH: usize = 4_096;

/// Messages that wait for one shard beyond which [`crate::Pressure::Full`] is told: nothing new
/// should be taken in. Far below [`INBOX_MESSAGES_MAX`], which is for bursts that nobody can hold
/// back, such as presence.
pub const PRESSURE_FULL: usize = 32_768;

/// Messages for one other shard that are collected before they are handed over within a turn.
pub const BATCH_MAX: usize = 256;

/// Messages of one type that wait for room at one other shard; one more comes back to its sender.
pub const OUTGOING_MAX: usize = 8_192;

/// Cost that one actor may spend before the next in the run queue has its turn. A message costs 1.
pub const ACTOR_BUDGET: u32 = 64;

/// Time after which an actor's run ends even if its budget is not used up.
pub const ACTOR_SLICE: Duration = Duration::from_micros(250);

/// Messages between two looks at the clock within one run, at most: it also looks after the second,
/// the fourth and the eighth.
pub const CLOCK_INTERVAL: u32 = 16;

/// Cost that one turn may spend before the driver looks after its sockets again.
pub const TURN_BUDGET: u32 = 4_096;

/// Time after which a turn ends even if its budget is not used up.
pub const TURN_SLICE: Duration = Duration::from_millis(1);

/// Members of a group that one publication reaches before others have their turn.
pub const PUBLISH_SLICE: usize = 256;

/// Publications under way on one shard; one more comes back, or is dropped and counted if it comes
/// from another shard.
pub const PUBLICATIONS_MAX: usize = 1_024;

/// Crashes of one name within [`CRASH_WINDOW`] that are forgiven; one more is quarantined.
pub const CRASHES_MAX: u32 = 5;

/// See [`CRASHES_MAX`].
pub const CRASH_WINDOW: Duration = Duration::from_secs(60);

/// How long a name that crashed too often is left alone.
pub const QUARANTINE: Duration = Duration::from_secs(30);

/// Names whose crashes are remembered at a time; beyond it the oldest record is forgotten.
pub const CRASHES_REMEMBERED: usize = 1_024;

/// Messages that one visit of a blocking actor to its pool handles.
pub const BLOCKING_BATCH: usize = 16;

/// How long a blocking actor waits before it tries a full pool again.
pub const BLOCKING_RETRY: Duration = Duration::from_millis(5);

/// How often a shard publishes its statistics.
pub const PUBLISH_INTERVAL: Duration = Duration::from_millis(100);

/// The window over which the busiest actors are found.
pub const TOP_WINDOW: Duration = Duration::from_secs(1);

/// Work without a look at the sockets that is counted as long: others wait for it.
pub const LONG_TURN: Duration = Duration::from_millis(10);

/// Actors in each list of the busiest.
pub const TOP: usize = 8;

const _: () = assert!(RECEIVE_MAX < PRESSURE_HIGH);
const _: () = assert!(PRESSURE_HIGH < PRESSURE_FULL && PRESSURE_FULL < INBOX_MESSAGES_MAX / 4);

/// Bounds of which a system has values of its own ([`crate::Options::bounds`]), so that tests reach
/// each of them. The default is what a server runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Questions and blocking jobs of one actor that wait for their result, at most 65,535. An
    /// actor that exceeds it ends with [`crate::Reason::Limit`]; a blocking job is refused instead.
    pub asks_max: usize,
    /// Timers of one actor, at most 65,535. An actor that exceeds it ends with
    /// [`crate::Reason::Limit`].
    pub timers_max: usize,
    /// Links, monitors and groups of one actor. An actor that exceeds it ends with
    /// [`crate::Reason::Limit`].
    pub relations_max: usize,
    /// Actors of one message type on one shard; one more is not started, and its address is dead.
    pub actors_max: usize,
    /// Message types on one shard; the use of one more panics.
    pub realms_max: usize,
    /// Messages that wait for entities of one type which come from another shard, whichever of them
    /// they are for; one more is refused as by a full mailbox.
    pub coming_max: usize,
    /// Messages that wait while entities of one type are paused, of each part; with one more they
    /// go on. No more than [`OUTGOING_MAX`], for they follow entities that move.
    pub paused_max: usize,
}

impl Bounds {
    /// Those of a server.
    pub const USUAL: Bounds = Bounds {
        asks_max: 4_096,
        timers_max: 4_096,
        relations_max: 65_536,
        actors_max: 8_388_608,
        realms_max: 4_096,
        coming_max: 65_536,
        paused_max: 4_096,
    };
}

const _: () = assert!(Bounds::USUAL.paused_max < OUTGOING_MAX);

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds::USUAL
    }
}
