//! Bounds of the runtime and what happens at them.

use std::time::Duration;

/// Messages that wait in one mailbox; one more comes back to its sender.
pub const MAILBOX_MAX: usize = 1_024;

/// Messages in a mailbox's priority lane beyond answers that room was reserved for.
pub const PRIORITY_MAX: usize = 4_096;

/// Batches from other shards and threads that wait for one shard; one more is refused.
pub const INBOX_BATCHES_MAX: usize = 4_096;

/// Messages for one other shard that are collected before they are handed over within a turn.
pub const BATCH_MAX: usize = 1_024;

/// Cost that one actor may spend before the next in the run queue has its turn. A message costs 1.
pub const ACTOR_BUDGET: u32 = 64;

/// Cost that one turn may spend before the driver looks after its sockets again.
pub const TURN_BUDGET: u32 = 4_096;

/// Crashes of one name within [`CRASH_WINDOW`] after which it is quarantined.
pub const CRASHES_MAX: u32 = 5;

/// See [`CRASHES_MAX`].
pub const CRASH_WINDOW: Duration = Duration::from_secs(60);

/// How long a name that crashed too often is left alone.
pub const QUARANTINE: Duration = Duration::from_secs(30);

/// Names whose crashes are remembered at a time.
pub const CRASHES_REMEMBERED: usize = 1_024;
