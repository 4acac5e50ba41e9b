//! What users of the runtime implement.
//!
//! Owns the contracts between the runtime and the code it runs. Deliberately not here: how either
//! side is stored.

use crate::context::Context;
use crate::core::Core;
use crate::moves::Leave;
use crate::types::{Alarm, Name, Reason, ShardId, Signal};

/// Private state with a mailbox. Handlers run one at a time, on one shard, and must not block.
pub trait Actor: 'static {
    /// What it takes.
    type Msg: Send + 'static;

    /// Runs before the first message.
    fn started(&mut self, cx: &mut Context<'_, Self::Msg>) {
        let _ = cx;
    }

    /// Handles one message.
    fn handle(&mut self, msg: Self::Msg, cx: &mut Context<'_, Self::Msg>);

    /// Hears of the end of a monitored actor or, if it traps exits, of a linked one.
    fn signal(&mut self, signal: Signal, cx: &mut Context<'_, Self::Msg>) {
        let _ = (signal, cx);
    }

    /// Whether it may end now to be made again on another shard. Asked of entities alone
    /// ([`crate::Core::move_entities`]).
    fn may_move(&self) -> Leave {
        Leave::Never
    }

    /// Runs last, after a panic too: then the state may be half changed.
    fn stopped(&mut self, reason: &Reason, cx: &mut Context<'_, Self::Msg>) {
        let _ = (reason, cx);
    }
}

/// Entities of one kind on one shard: named actors that are loaded when something is sent to them.
///
/// The class is their supervisor: an entity that ends, for whatever reason, is activated afresh for
/// the messages that were left, and by the next one. An entity that crashes more than
/// [`crate::limits::CRASHES_MAX`] times within [`crate::limits::CRASH_WINDOW`] is quarantined.
pub trait EntityClass: 'static {
    /// What they take. One class per message type and shard.
    type Msg: Send + 'static;
    /// What they are.
    type Actor: Actor<Msg = Self::Msg>;

    /// Messages that one of them may have waiting.
    fn mailbox_max(&self) -> usize {
        crate::limits::MAILBOX_MAX
    }

    /// How many of those places are kept for messages that [`EntityClass::may_use_reserve`], so
    /// that others cannot keep them out.
    fn mailbox_reserve(&self) -> usize {
        0
    }

    /// Whether a message may take a place of the reserve. Asked only when nothing else is left.
    fn may_use_reserve(_msg: &Self::Msg) -> bool
    where
        Self: Sized,
    {
        false
    }

    /// How many of [`EntityClass::mailbox_max`] are kept, besides the reserve, for messages that
    /// [`EntityClass::may_stand_in_line`], and for those that may use the reserve.
    fn mailbox_line(&self) -> usize {
        0
    }

    /// Whether a message may wait behind more than any message may: it is small, and many come at
    /// once. Asked only when there is no other place.
    fn may_stand_in_line(_msg: &Self::Msg) -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Makes the actor for a name that something was sent to. Its `started` runs right after.
    fn activate(&mut self, name: &Name, shard: ShardId) -> Self::Actor;

    /// A message for one of them could not be taken and its sender cannot be handed it back: it
    /// came from another shard, or was left by a quarantined one. The default drops it; it is
    /// counted either way.
    fn refused(&mut self, name: &Name, msg: Self::Msg, why: Refused, core: &mut Core) {
        let _ = (name, msg, why, core);
    }
}

/// Why an entity did not take a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its mailbox is full.
    Full,
    /// It crashed too often and is left alone for a while.
    Quarantined,
}

/// Wakes a shard that sleeps in its poll.
pub trait Waker: Send + Sync {
    /// Called from other threads when something has come for the shard. Calls are coalesced.
    fn wake(&self);
}

/// Hears of what operators should know; must be quick.
pub type Observer = Box<dyn FnMut(&Alarm)>;
