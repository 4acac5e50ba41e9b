//! The shards of one process and the handle that other threads reach them by.
//!
//! Owns the making of a system and every entrance from outside. Deliberately not here: threads; see
//! [`crate::threads`] for shards without sockets.

use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use telemetry::{Gauge, Snapshot};

use crate::ask::Reply;
use crate::core::{Core, Mail};
use crate::limits::Bounds;
use crate::link::{Links, Parcel};
use crate::realm::{BatchOf, Envelope, Target};
use crate::shard::ShardSeed;
use crate::stats::Report;
use crate::traits::Actor;
use crate::types::{Addr, AskError, Name, SendError, ShardId};

/// How a system is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Shards, at least one.
    pub shards: u16,
    /// Seed of the shards' randomness, and of the keys of their hash tables: secret in production.
    pub seed: u64,
    /// Bounds of every shard.
    pub bounds: Bounds,
}

impl Options {
    /// With the usual bounds.
    pub fn new(shards: u16, seed: u64) -> Options {
        Options {
            shards,
            seed,
            bounds: Bounds::default(),
        }
    }
}

/// Makes the shards, each to be built on its own thread, and the handle to them.
///
/// # Panics
/// With no shard at all.
pub fn system(options: Options) -> (Handle, Vec<ShardSeed>) {
    assert!(options.shards > 0, "a system has at least one shard");
    let links = Arc::new(Links::new(options.shards));
    let seeds = (0..options.shards).map(|index| ShardSeed {
        id: ShardId::new(index),
        links: Arc::clone(&links),
        seed: options.seed.wrapping_add(u64::from(index)),
        bounds: options.bounds,
    });
    let seeds = seeds.collect();
    (Handle::new(links), seeds)
}

/// What other threads send with. Never blocks, except where its name says so.
#[derive(Clone)]
pub struct Handle {
    links: Arc<Links>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle to {} shards", self.shards())
    }
}

impl Handle {
    pub(crate) fn new(links: Arc<Links>) -> Self {
        Handle { links }
    }

    /// The number of shards.
    pub fn shards(&self) -> u16 {
        self.links.shards()
    }

    /// Sends to an actor. Whether its mailbox took it shows in counters alone. For a result that
    /// must arrive, give the thread a [`Reply`] made by [`crate::Context::expect`] instead.
    ///
    /// # Errors
    /// The message, if the way to the shard is full.
    pub fn send<M: Send + 'static>(&self, to: Addr<M>, msg: M) -> Result<(), SendError<M>> {
        self.push(to.id.shard, Target::Actor(to.id.key), false, msg)
    }

    /// As [`Handle::send`], into the priority lane.
    ///
    /// # Errors
    /// The message, if the way to the shard is full.
    pub fn send_priority<M: Send + 'static>(
        &self,
        to: Addr<M>,
        msg: M,
    ) -> Result<(), SendError<M>> {
        self.push(to.id.shard, Target::Actor(to.id.key), true, msg)
    }

    /// Sends to a named entity, which is activated if it is not loaded.
    ///
    /// # Errors
    /// The message, if the way to the shard is full.
    pub fn send_named<M: Send + 'static>(
        &self,
        shard: ShardId,
        name: &Name,
        msg: M,
    ) -> Result<(), SendError<M>> {
        self.push(
            shard,
            Target::Name {
                name: Name::clone(name),
                activate: true,
                is_led: false,
            },
            false,
            msg,
        )
    }

    fn push<M: Send + 'static>(
        &self,
        shard: ShardId,
        to: Target,
        priority: bool,
        msg: M,
    ) -> Result<(), SendError<M>> {
        if self
            .links
            .inbox(shard)
            .is_none_or(|inbox| !inbox.has_room(1))
        {
            return Err(SendError::Full(msg));
        }
        let batch = Box::new(BatchOf(vec![Envelope { to, priority, msg }]));
        let Err(Parcel::Batch(batch)) = self.links.push(shard, Parcel::Batch(batch)) else {
            return Ok(());
        };
        match batch
            .into_any()
            .downcast::<BatchOf<M>>()
            .map(|mut batch| batch.0.pop())
        {
            Ok(Some(envelope)) => Err(SendError::Full(envelope.msg)),
            // What comes back is what was handed over.
            _ => Ok(()),
        }
    }

    /// Runs something on a shard, in its next turn; false if the way there is full.
    pub fn run_on(&self, shard: ShardId, job: impl FnOnce(&mut Core) + Send + 'static) -> bool {
        self.links.push(shard, Parcel::Call(Box::new(job))).is_ok()
    }

    /// Starts an actor on a shard and waits for its address. For threads of their own, never for a
    /// shard.
    ///
    /// # Errors
    /// Why there is no address: the way there is full, or the shard did not run in time.
    pub fn spawn_on<A: Actor>(
        &self,
        shard: ShardId,
        make: impl FnOnce() -> A + Send + 'static,
        deadline: Duration,
    ) -> Result<Addr<A::Msg>, AskError> {
        wait(deadline, |reply| {
            self.run_on(shard, move |core| {
                let addr = core.spawn(make());
                reply.send(core, addr);
            })
        })
    }

    /// Whether a shard takes a turn within a time. For threads of their own, never for a shard.
    pub fn is_turning(&self, shard: ShardId, within: Duration) -> bool {
        let turn = |reply: Reply<()>| self.run_on(shard, move |core| reply.send(core, ()));
        wait(within, turn).is_ok()
    }

    /// Asks an actor and waits for the answer. For threads of their own, never for a shard.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn ask<M: Send + 'static, R: Send + 'static>(
        &self,
        to: Addr<M>,
        question: impl FnOnce(Reply<R>) -> M,
        deadline: Duration,
    ) -> Result<R, AskError> {
        wait(deadline, |reply| self.send(to, question(reply)).is_ok())
    }

    /// Asks a named entity and waits for the answer. For threads of their own, never for a shard.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn ask_named<M: Send + 'static, R: Send + 'static>(
        &self,
        shard: ShardId,
        name: &Name,
        question: impl FnOnce(Reply<R>) -> M,
        deadline: Duration,
    ) -> Result<R, AskError> {
        wait(deadline, |reply| {
            self.send_named(shard, name, question(reply)).is_ok()
        })
    }

    /// The number of actors of all shards, as of their last reports.
    pub fn actors(&self) -> u64 {
        let shards = (0..self.links.shards()).map(ShardId::new);
        shards
            .map(|shard| self.stats(shard).gauge(Gauge::ActorsAlive))
            .sum()
    }

    /// Counters and gauges of a shard, as of its last report.
    pub fn stats(&self, shard: ShardId) -> Snapshot {
        self.links
            .inbox(shard)
            .map(|inbox| inbox.stats.snapshot())
            .unwrap_or_default()
    }

    /// Messages from other shards and threads that a shard has not taken yet.
    pub fn waiting(&self, shard: ShardId) -> usize {
        self.links.waiting(shard)
    }

    /// Rates and the busiest actors of a shard, as of its last report.
    pub fn report(&self, shard: ShardId) -> Arc<Report> {
        let inbox = self.links.inbox(shard);
        let report = inbox.and_then(|inbox| {
            inbox
                .report
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        });
        report.unwrap_or_default()
    }

    /// Asks every shard's driver to shut down.
    pub fn shut_down(&self) {
        self.links.shut_down();
    }
}

fn wait<R: Send + 'static>(
    deadline: Duration,
    ask: impl FnOnce(Reply<R>) -> bool,
) -> Result<R, AskError> {
    let (sender, receiver) = sync_channel::<R>(1);
    if !ask(Reply::to_thread(sender)) {
        return Err(AskError::Undeliverable);
    }
    receiver
        .recv_timeout(deadline)
        .map_err(|error| match error {
            RecvTimeoutError::Timeout => AskError::Timeout,
            RecvTimeoutError::Disconnected => AskError::Dropped,
        })
}
