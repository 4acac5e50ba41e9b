//! The actor runtime: shards, mailboxes, scheduling, supervision, timers, names, monitors, groups
//! and statistics. It knows nothing of XMPP and owns no poll: a driver does, and runs each shard
//! one turn at a time.
//!
//! # What there is
//!
//! - An [`Actor`] is private state with a bounded mailbox. Its handlers are synchronous and short;
//!   what takes long goes to a [`Pool`] ([`Context::blocking`], [`BlockingActor`]) and comes back
//!   as a message, while the mailbox may be held ([`Context::hold`]).
//! - An [`Addr`] is plain data that names one actor for ever; a [`Name`] names an entity, which is
//!   activated by its [`EntityClass`] when something is sent to it.
//! - A question ([`Context::ask`]) has a deadline and room for its answer, which is a message too.
//! - A panic ends one actor. Links and monitors tell others; a [`Supervisor`] restarts services; an
//!   entity that keeps crashing is quarantined.
//! - Every bound is in [`limits`], with what happens when it is reached.
//!
//! # Driving a shard
//!
//! ```text
//! loop {
//!     poll(at once if turn.more, else until turn.next_deadline or a wake-up)
//!     shard.begin();              // takes note of the time
//!     deliver I/O                 // shard.send(..), shard.send_named(..)
//!     turn = shard.turn();        // mail from other shards, timers, actors, mail to other shards
//!     flush what was written
//! }
//! ```
//!
//! The driver hands the shard a [`Waker`] that interrupts its poll. Between two turns that left
//! nothing to do the shard counts as asleep, and the first thing that another thread sends wakes
//! it.
//!
//! ```
//! use actor::{Actor, Context, Mail, Options, Waker, system};
//! use std::sync::Arc;
//! use std::sync::mpsc::{SyncSender, sync_channel};
//! use stdx::time::{Clock, SystemClock};
//! use std::time::Duration;
//!
//! struct Greeter;
//!
//! impl Actor for Greeter {
//!     type Msg = (&'static str, SyncSender<String>);
//!
//!     fn handle(&mut self, (whom, to): Self::Msg, _: &mut Context<'_, Self::Msg>) {
//!         let _ = to.try_send(format!("hello {whom}"));
//!     }
//! }
//!
//! /// Stands for the wake-up of a real poll.
//! struct Wake(std::thread::Thread);
//!
//! impl Waker for Wake {
//!     fn wake(&self) {
//!         self.0.unpark();
//!     }
//! }
//!
//! let (handle, seeds) = system(Options::new(1, 1));
//! let clock = SystemClock::new();
//! let (to, greetings) = sync_channel(1);
//! let mut shard = seeds
//!     .into_iter()
//!     .next()
//!     .map(|seed| seed.build(Arc::new(clock), Arc::new(Wake(std::thread::current()))))
//!     .unwrap();
//! let greeter = shard.spawn(Greeter);
//! shard.send(greeter, ("world", to)).unwrap();
//! let greeting = loop {
//!     let turn = shard.turn();
//!     // A real driver would write what its connections have to say here.
//!     if let Ok(greeting) = greetings.try_recv() {
//!         break greeting;
//!     }
//!     if !turn.more {
//!         let until = turn.next_deadline.map(|at| at.saturating_since(clock.now()));
//!         std::thread::park_timeout(until.unwrap_or(Duration::from_secs(1)));
//!     }
//!     shard.begin();
//! };
//! assert_eq!(greeting, "hello world");
//! # drop(handle);
//! ```

mod ask;
mod blocking;
mod context;
mod core;
mod entities;
mod groups;
pub mod limits;
mod link;
mod mailbox;
mod moves;
mod pause;
mod pool;
mod quarantine;
mod realm;
mod relations;
mod run;
mod send;
mod shard;
pub mod sim;
mod stats;
mod supervisor;
mod system;
pub mod threads;
mod traits;
mod types;

pub use crate::core::{Core, Mail};
pub use ask::Reply;
pub use blocking::{BlockingActor, BlockingContext};
pub use context::Context;
pub use link::Pressure;
pub use moves::{InTheWay, Leave, Whereabouts};
pub use pause::AtPause;
pub use pool::{Delay, Pool, PoolFull};
pub use shard::{Shard, ShardSeed, Turn};
pub use stats::{Report, Stage, TopActor};
pub use stdx::wheel::TimerKey;
pub use supervisor::{
    ChildSpec, ChildStatus, Intensity, Restart, Strategy, Supervisor, SupervisorMsg,
};
pub use system::{Handle, Options, system};
pub use traits::{Actor, EntityClass, Observer, Refused, Waker};
pub use types::{
    ActorId, Addr, Alarm, AskError, MonitorId, Name, Reason, SendError, ShardId, Signal,
};
