//! The shards of one process and the handle that other threads reach them by.

use std::any::{Any, TypeId};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use crate::ask::Reply;
use crate::link::{Envelope, Links};
use crate::shard::ShardSeed;
use crate::types::{Addr, AskError, Name, SendError, ShardId};

/// How a system is made.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Shards, at least one.
    pub shards: u16,
    /// Seed of the shards' randomness.
    pub seed: u64,
}

/// Makes the shards, each to be built on its own thread, and the handle to them.
pub fn system(options: Options) -> (Handle, Vec<ShardSeed>) {
    assert!(options.shards > 0, "a system has at least one shard");
    let links = Arc::new(Links::new(options.shards));
    let seeds = (0..options.shards).map(|index| ShardSeed {
        id: ShardId::new(index),
        links: Arc::clone(&links),
        seed: options.seed.wrapping_add(u64::from(index)),
    });
    let seeds = seeds.collect();
    (Handle { links }, seeds)
}

/// What other threads send with. Never blocks, except where its name says so.
#[derive(Clone)]
pub struct Handle {
    links: Arc<Links>,
}

impl Handle {
    /// The number of shards.
    pub fn shards(&self) -> u16 {
        self.links.shards()
    }

    /// Sends to an actor, into the priority lane.
    ///
    /// # Errors
    /// The message, if the way to the shard is full.
    pub fn send<M: Send + 'static>(&self, to: Addr<M>, msg: M) -> Result<(), SendError<M>> {
        let id = to.id();
        let envelope = Envelope::Msg {
            key: id.key,
            priority: true,
            payload: Box::new(msg),
        };
        self.push(id.shard, envelope)
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
        let (class, name) = (TypeId::of::<M>(), Name::clone(name));
        self.push(
            shard,
            Envelope::Named {
                class,
                name,
                payload: Box::new(msg),
                activate: true,
            },
        )
    }

    fn push<M: 'static>(&self, shard: ShardId, envelope: Envelope) -> Result<(), SendError<M>> {
        self.links
            .push(shard, vec![envelope])
            .map_err(|mut batch| match batch.pop() {
                Some(Envelope::Msg { payload, .. } | Envelope::Named { payload, .. }) => {
                    // Invariant: made from an `M` just above.
                    SendError::Full(
                        *payload
                            .downcast::<M>()
                            .expect("the same message comes back"),
                    )
                }
                _ => unreachable!("the envelope comes back"),
            })
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
        let (sender, receiver) = sync_channel::<Box<dyn Any + Send>>(1);
        self.send_named(shard, name, question(Reply::to_thread(sender)))
            .map_err(|_| AskError::Undeliverable)?;
        match receiver.recv_timeout(deadline) {
            Ok(value) => value
                .downcast::<R>()
                .map(|value| *value)
                .map_err(|_| AskError::Dropped),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => Err(AskError::Timeout),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => Err(AskError::Dropped),
        }
    }

    /// The number of actors of all shards, as of their last turns.
    pub fn actors(&self) -> u64 {
        let shards = (0..self.links.shards()).map(ShardId::new);
        shards
            .map(|shard| self.links.inbox(shard).actors.load(Ordering::Relaxed))
            .sum()
    }
}
