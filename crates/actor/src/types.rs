//! The plain values of the runtime: where an actor is, what it is called, why it ended.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::Arc;

use stdx::slab::Key;

/// One thread's share of the actors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(u16);

impl ShardId {
    /// The shard of an index, counted from zero.
    pub const fn new(index: u16) -> Self {
        ShardId(index)
    }

    /// The index.
    pub const fn index(self) -> u16 {
        self.0
    }
}

/// What an entity is called; unique within its shard.
pub type Name = Arc<str>;

/// An actor's identity without the type of its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorId {
    /// Where it runs.
    pub shard: ShardId,
    /// Which one it is there.
    pub key: Key,
}

/// The address of an actor that takes `M`. Plain data; never refers to another actor later on.
pub struct Addr<M> {
    pub(crate) id: ActorId,
    pub(crate) takes: PhantomData<fn(M)>,
}

impl<M> Addr<M> {
    pub(crate) fn new(shard: ShardId, key: Key) -> Self {
        Addr {
            id: ActorId { shard, key },
            takes: PhantomData,
        }
    }

    /// The actor's identity.
    pub fn id(self) -> ActorId {
        self.id
    }

    /// Where it runs.
    pub fn shard(self) -> ShardId {
        self.id.shard
    }
}

impl<M> Clone for Addr<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Addr<M> {}

impl<M> PartialEq for Addr<M> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl<M> Eq for Addr<M> {}

impl<M> Hash for Addr<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl<M> fmt::Debug for Addr<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{}.{}",
            self.id.shard.0, self.id.key.index, self.id.key.generation
        )
    }
}

/// Why a message was not taken; it comes back.
#[derive(Debug, PartialEq, Eq)]
pub enum SendError<M> {
    /// The mailbox, or the way to the other shard, is full.
    Full(M),
    /// There is no such actor any more.
    Gone(M),
}

impl<M> SendError<M> {
    /// The message.
    pub fn into_inner(self) -> M {
        match self {
            SendError::Full(msg) | SendError::Gone(msg) => msg,
        }
    }
}

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskError {
    /// The deadline has passed. An answer that comes later is dropped and counted.
    Timeout,
    /// The question was let go of without an answer.
    Dropped,
    /// The question was not taken: a full mailbox or nobody there.
    Undeliverable,
}

/// Why an actor ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It wanted to.
    Normal,
    /// Its supervisor or the end of the system wanted it to.
    Shutdown,
    /// It was told to from outside.
    Killed,
    /// It panicked, with this message.
    Panic(Box<str>),
    /// It was gone before anybody looked.
    NoActor,
}

impl Reason {
    /// Whether it ended by a fault: what supervisors restart transient children for.
    pub fn is_crash(&self) -> bool {
        matches!(self, Reason::Killed | Reason::Panic(_) | Reason::NoActor)
    }

    pub(crate) fn of_panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Reason::Panic(text.unwrap_or("a panic without a message").into())
    }
}

/// Identifies one monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MonitorId(pub(crate) u64);

/// Something that the runtime tells an actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A monitored actor ended.
    Down {
        /// The monitor.
        monitor: MonitorId,
        /// Who ended.
        who: ActorId,
        /// Why.
        reason: Reason,
    },
    /// A linked actor ended. An actor that does not trap exits ends with it if it crashed.
    Exit {
        /// Who ended.
        who: ActorId,
        /// Why.
        reason: Reason,
    },
}
