//! The actor runtime: shards, mailboxes, scheduling, timers, names, monitors. It knows nothing of
//! XMPP and owns no thread and no poll: a driver does, and runs each shard one turn at a time.
//!
//! ```text
//! loop {
//!     poll(until the next deadline, or at once if there is more to do)
//!     shard.begin(); hand events over to actors
//!     let turn = shard.turn();
//!     write what came of it
//! }
//! ```

mod ask;
mod context;
mod core;
mod crash;
pub mod limits;
mod link;
mod mailbox;
mod pool;
mod shard;
mod system;
mod traits;
mod types;

pub use crate::core::{Core, Counters, Mail};
pub use ask::Reply;
pub use context::Context;
pub use pool::{Pool, PoolFull};
pub use shard::{Shard, ShardSeed, Turn};
pub use system::{Handle, Options, system};
pub use traits::{Actor, EntityClass, Refused, Waker};
pub use types::{ActorId, Addr, AskError, MonitorId, Name, Reason, SendError, ShardId, Signal};
