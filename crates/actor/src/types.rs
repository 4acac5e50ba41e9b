//! The plain values of the runtime: where an actor is, what it is called, why it ended.
//!
//! Owns everything that is copied into messages. Deliberately not here: anything that refers to a
//! running shard.

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

/// What an actor or a group is called; unique among those of one message type on one shard.
pub type Name = Arc<str>;

/// An actor's identity without the type of its messages. Plain data, never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorId {
    /// Where it runs.
    pub shard: ShardId,
    /// Among which actors of that shard: those of one message type.
    pub(crate) realm: u16,
    /// Which one it is there.
    pub(crate) key: Key,
}

impl fmt::Debug for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ActorId { shard, realm, key } = self;
        write!(f, "{}.{realm}.{}.{}", shard.0, key.index, key.generation)
    }
}

impl fmt::Display for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The address of an actor that takes `M`. Plain data; never refers to another actor later on.
pub struct Addr<M> {
    pub(crate) id: ActorId,
    takes: PhantomData<fn(M)>,
}

impl<M> Addr<M> {
    pub(crate) const fn new(id: ActorId) -> Self {
        Addr {
            id,
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
        fmt::Debug::fmt(&self.id, f)
    }
}

/// Why a message was not taken; it comes back.
#[derive(Debug, PartialEq, Eq)]
pub enum SendError<M> {
    /// The mailbox, or the way to the other shard, is full, or the entity is quarantined.
    Full(M),
    /// There is no such actor any more, and nothing that would make one.
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

impl<M> fmt::Display for SendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Full(_) => "the mailbox is full",
            SendError::Gone(_) => "the actor is gone",
        })
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

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AskError::Timeout => "no answer in time",
            AskError::Dropped => "the question was dropped",
            AskError::Undeliverable => "the question could not be delivered",
        })
    }
}

impl std::error::Error for AskError {}

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
    Panic(Arc<str>),
    /// It gave up, saying this.
    Failed(Arc<str>),
    /// It exceeded the named bound of its own timers, questions or relations.
    Limit(&'static str),
    /// It was a supervisor whose children kept failing.
    Escalated,
    /// It was gone before anybody looked.
    NoActor,
}

impl Reason {
    /// Whether it ended by a fault: what supervisors restart transient children for, and what ends
    /// linked actors.
    pub fn is_crash(&self) -> bool {
        !matches!(self, Reason::Normal | Reason::Shutdown)
    }

    pub(crate) fn of_panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Reason::Panic(text.unwrap_or("a panic without a message").into())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Normal => f.write_str("normal"),
            Reason::Shutdown => f.write_str("shutdown"),
            Reason::Killed => f.write_str("killed"),
            Reason::Panic(text) => write!(f, "panic: {text}"),
            Reason::Failed(text) => write!(f, "failed: {text}"),
            Reason::Limit(bound) => write!(f, "exceeded its bound of {bound}"),
            Reason::Escalated => f.write_str("its children kept failing"),
            Reason::NoActor => f.write_str("no such actor"),
        }
    }
}

/// Identifies one monitor of one actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MonitorId(pub(crate) u64);

/// Something that the runtime tells an actor, in its priority lane.
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
    /// A linked actor ended. Only an actor that traps exits sees this; any other ends with it if it
    /// crashed, and hears nothing otherwise.
    Exit {
        /// Who ended.
        who: ActorId,
        /// Why.
        reason: Reason,
    },
}

/// Something that an operator should know. See [`crate::Shard::set_observer`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// An actor ended by a fault.
    Crashed {
        /// Who.
        who: ActorId,
        /// The type of its messages.
        takes: &'static str,
        /// Its name, if it had one.
        name: Option<Name>,
        /// Why.
        reason: Reason,
    },
    /// A name crashed too often and is left alone for a while.
    Quarantined {
        /// The name.
        name: Name,
        /// The type of its messages.
        takes: &'static str,
    },
    /// A supervisor gave up.
    Escalated {
        /// The supervisor.
        who: ActorId,
        /// The child that failed last.
        child: Name,
    },
}
