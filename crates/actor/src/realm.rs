//! All actors of one shard that take the same type of message.
//!
//! Owns their slots, their mailboxes' arena, their names and their way to other shards. One realm
//! per message type makes mailboxes typed without a box per message and without a mailbox object
//! per actor. Deliberately not here: running them (see `run`).

use std::any::Any;
use std::hash::Hasher;
use std::rc::Rc;

use hashbrown::HashTable;
use rustc_hash::FxHashMap;
use siphasher::sip::SipHasher13;
use stdx::slab::{Key, Slab};

use crate::context::Context;
use crate::core::Core;
use crate::limits::MAILBOX_MAX;
use crate::link::Batch;
use crate::mailbox::{Arena, Lane, NONE};
use crate::moves::{Coming, Leave, Locator};
use crate::pause::Pauses;
use crate::quarantine::Crashes;
use crate::traits::{Actor, EntityClass, Refused};
use crate::types::{ActorId, MonitorId, Name, Reason, ShardId, Signal};

/// An actor whose own type is forgotten.
pub(crate) trait AnyActor<M> {
    fn started(&mut self, cx: &mut Context<'_, M>);
    fn handle(&mut self, msg: M, cx: &mut Context<'_, M>);
    fn signal(&mut self, signal: Signal, cx: &mut Context<'_, M>);
    fn stopped(&mut self, reason: &Reason, cx: &mut Context<'_, M>);
    /// Whether it may end now to be made again on another shard.
    fn may_move(&self) -> Leave {
        Leave::Never
    }
    /// Something comes back that the actor's holder sent out.
    fn resume(&mut self, value: Box<dyn Any + Send>, cx: &mut Context<'_, M>) {
        let _ = (value, cx);
    }
}

pub(crate) struct Holder<A>(pub(crate) A);

impl<A: Actor> AnyActor<A::Msg> for Holder<A> {
    fn started(&mut self, cx: &mut Context<'_, A::Msg>) {
        self.0.started(cx);
    }

    fn handle(&mut self, msg: A::Msg, cx: &mut Context<'_, A::Msg>) {
        self.0.handle(msg, cx);
    }

    fn signal(&mut self, signal: Signal, cx: &mut Context<'_, A::Msg>) {
        self.0.signal(signal, cx);
    }

    fn stopped(&mut self, reason: &Reason, cx: &mut Context<'_, A::Msg>) {
        self.0.stopped(reason, cx);
    }

    fn may_move(&self) -> Leave {
        self.0.may_move()
    }
}

/// An entity class whose own type is forgotten.
pub(crate) trait AnyClass<M> {
    fn activate(&mut self, name: &Name, shard: ShardId) -> Box<dyn AnyActor<M>>;
    fn refused(&mut self, name: &Name, msg: M, why: Refused, core: &mut Core);
}

pub(crate) struct ClassHolder<C>(pub(crate) C);

impl<C: EntityClass> AnyClass<C::Msg> for ClassHolder<C> {
    fn activate(&mut self, name: &Name, shard: ShardId) -> Box<dyn AnyActor<C::Msg>> {
        Box::new(Holder(self.0.activate(name, shard)))
    }

    fn refused(&mut self, name: &Name, msg: C::Msg, why: Refused, core: &mut Core) {
        self.0.refused(name, msg, why, core);
    }
}

/// What only linked, monitored or grouped actors have, and those about to end.
#[derive(Default)]
pub(crate) struct Extra {
    pub(crate) links: Vec<ActorId>,
    /// Who monitors this actor.
    pub(crate) watchers: Vec<(MonitorId, ActorId)>,
    /// Whom this actor monitors.
    pub(crate) watching: Vec<(MonitorId, ActorId)>,
    pub(crate) groups: Vec<Name>,
    pub(crate) ending: Option<Reason>,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Flags {
    /// It is in the run queue.
    pub(crate) queued: bool,
    /// Only the priority lane is handled.
    pub(crate) held: bool,
    pub(crate) started: bool,
    /// Activated by the realm's class.
    pub(crate) entity: bool,
    pub(crate) traps_exits: bool,
    /// `Extra::ending` says why it shall end.
    pub(crate) ending: bool,
}

/// One actor.
pub(crate) struct Slot<M> {
    /// Absent while it runs, and before an entity is activated.
    pub(crate) actor: Option<Box<dyn AnyActor<M>>>,
    pub(crate) name: Option<Name>,
    pub(crate) extra: Option<Box<Extra>>,
    pub(crate) normal: Lane,
    pub(crate) urgent: Lane,
    /// First of its timers in the arena.
    pub(crate) timers: u32,
    pub(crate) timer_count: u16,
    /// Items of the priority lane that others sent there.
    pub(crate) priority_count: u16,
    /// Answers for which room is reserved.
    pub(crate) reserved: u16,
    /// The window that `handled` and `cost` belong to.
    pub(crate) window: u16,
    pub(crate) handled: u32,
    pub(crate) cost: u32,
    pub(crate) flags: Flags,
    /// Which part of the load it belongs to ([`Parts`]).
    pub(crate) part: u16,
}

/// How the cost of entities is told apart.
pub(crate) struct Parts {
    pub(crate) of: Box<dyn Fn(&Name) -> u16>,
    /// Of each part, since the shard began.
    pub(crate) costs: Vec<u64>,
}

/// Of none.
const NO_PART: u16 = u16::MAX;

impl<M> Slot<M> {
    pub(crate) fn new(actor: Option<Box<dyn AnyActor<M>>>, name: Option<Name>) -> Self {
        Slot {
            actor,
            name,
            extra: None,
            normal: Lane::EMPTY,
            urgent: Lane::EMPTY,
            timers: NONE,
            timer_count: 0,
            priority_count: 0,
            reserved: 0,
            window: 0,
            handled: 0,
            cost: 0,
            flags: Flags::default(),
            part: NO_PART,
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.normal.len() + self.urgent.len()
    }

    pub(crate) fn is_runnable(&self) -> bool {
        self.flags.ending
            || !self.flags.started
            || self.urgent.len() > 0
            || (self.normal.len() > 0 && !self.flags.held)
    }
}

pub(crate) enum Target {
    Actor(Key),
    Name {
        name: Name,
        activate: bool,
        /// It was sent to the shard where the entity was before.
        is_led: bool,
    },
}

/// A message on its way to another shard.
pub(crate) struct Envelope<M> {
    pub(crate) to: Target,
    pub(crate) priority: bool,
    pub(crate) msg: M,
}

pub(crate) struct BatchOf<M>(pub(crate) Vec<Envelope<M>>);

impl<M: Send + 'static> Batch for BatchOf<M> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn deliver(self: Box<Self>, core: &mut Core) {
        core.deliver_batch(self.0);
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The live actors by name: only indices, because each slot holds its own name. The hash is keyed,
/// so that nobody can craft names that collide.
pub(crate) struct Names {
    table: HashTable<u32>,
    keys: (u64, u64),
}

impl Names {
    fn hash(&self, name: &str) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.keys.0, self.keys.1);
        hasher.write(name.as_bytes());
        hasher.finish()
    }
}

pub(crate) struct Realm<M> {
    pub(crate) slots: Slab<Slot<M>>,
    pub(crate) arena: Arena<M>,
    pub(crate) mailbox_max: usize,
    /// Places that any message may take.
    pub(crate) mailbox_shared: usize,
    /// Those, and the places for messages that may stand in line.
    pub(crate) mailbox_line: usize,
    /// What comes from elsewhere for a full mailbox is not refused: further mail waits.
    pub(crate) has_patience: bool,
    /// Whether a message may take one of the others.
    pub(crate) may_use_reserve: fn(&M) -> bool,
    /// Whether it may stand in line.
    pub(crate) may_stand_in_line: fn(&M) -> bool,
    pub(crate) names: Names,
    /// Absent also while it is being called; `has_class` tells the difference.
    pub(crate) class: Option<Box<dyn AnyClass<M>>>,
    pub(crate) has_class: bool,
    pub(crate) crashes: Crashes,
    /// Where entities are that are not loaded; without it they are all here.
    pub(crate) locator: Option<Locator>,
    /// What waits for those that come from another shard. Absent while none do.
    pub(crate) coming: Option<Box<Coming<M>>>,
    /// Parts whose entities begin nothing new.
    pub(crate) pauses: Pauses<M>,
    /// How the cost of entities is told apart, if it is.
    pub(crate) parts: Option<Box<Parts>>,
    /// Members by group. Shared with publications under way, copied when changed meanwhile.
    pub(crate) groups: FxHashMap<Name, Rc<Vec<Key>>>,
    /// Messages for each other shard.
    pub(crate) outgoing: Vec<Vec<Envelope<M>>>,
}

impl<M> Realm<M> {
    pub(crate) fn new(keys: (u64, u64)) -> Self {
        Realm {
            slots: Slab::new(),
            arena: Arena::new(),
            mailbox_max: MAILBOX_MAX,
            mailbox_shared: MAILBOX_MAX,
            mailbox_line: MAILBOX_MAX,
            has_patience: false,
            may_use_reserve: |_| false,
            may_stand_in_line: |_| false,
            names: Names {
                table: HashTable::new(),
                keys,
            },
            class: None,
            has_class: false,
            crashes: Crashes::default(),
            locator: None,
            coming: None,
            pauses: Pauses::new(),
            parts: None,
            groups: FxHashMap::default(),
            outgoing: Vec::new(),
        }
    }

    /// Notes what an entity has cost.
    #[inline]
    pub(crate) fn note_cost(&mut self, part: u16, cost: u32) {
        let parts = self.parts.as_mut();
        if let Some(sum) = parts.and_then(|parts| parts.costs.get_mut(usize::from(part))) {
            *sum += u64::from(cost);
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<Key> {
        let slots = &self.slots;
        let is_it = |index: &u32| name_at(slots, *index) == Some(name);
        let index = *self.names.table.find(self.names.hash(name), is_it)?;
        slots.key_at(index)
    }

    /// Gives an actor a name; false if it has one already or another actor has this one.
    pub(crate) fn bind(&mut self, key: Key, name: Name) -> bool {
        if self.find(&name).is_some() {
            return false;
        }
        let Some(slot) = self.slots.get_mut(key) else {
            return false;
        };
        if slot.name.is_some() {
            return false;
        }
        let hash = self.names.hash(&name);
        slot.name = Some(name);
        self.insert_name(hash, key.index);
        true
    }

    fn insert_name(&mut self, hash: u64, index: u32) {
        let (slots, keys) = (&self.slots, self.names.keys);
        self.names.table.insert_unique(hash, index, |index| {
            let mut hasher = SipHasher13::new_with_keys(keys.0, keys.1);
            hasher.write(name_at(slots, *index).unwrap_or("").as_bytes());
            hasher.finish()
        });
    }

    /// Forgets the name of the actor at `key`, which keeps it for itself.
    pub(crate) fn unbind(&mut self, key: Key) {
        let Some(name) = name_at(&self.slots, key.index) else {
            return;
        };
        let hash = self.names.hash(name);
        if let Ok(entry) = self
            .names
            .table
            .find_entry(hash, |index| *index == key.index)
        {
            entry.remove();
        }
    }

    pub(crate) fn is_quarantined(&mut self, name: &Name, now: stdx::Moment) -> bool {
        self.crashes.is_quarantined(name, now)
    }

    pub(crate) fn tidy(&mut self) {
        self.arena.tidy();
    }
}

fn name_at<M>(slots: &Slab<Slot<M>>, index: u32) -> Option<&str> {
    slots
        .key_at(index)
        .and_then(|key| slots.get(key))
        .and_then(|slot| slot.name.as_deref())
}

/// Name and mailbox length of a live actor.
pub(crate) type Described = (Option<Name>, usize);

/// What the core does to a realm without knowing its type of message.
pub(crate) struct Ops {
    pub(crate) takes: fn() -> &'static str,
    pub(crate) run: fn(&mut Core, u16, Key) -> u32,
    pub(crate) fire: fn(&mut Core, u16, Key, u32),
    pub(crate) resume: fn(&mut Core, u16, Key, Box<dyn Any + Send>),
    pub(crate) signal: fn(&mut Core, u16, Key, Signal),
    pub(crate) terminate: fn(&mut Core, u16, Key, Reason),
    pub(crate) end_soon: fn(&mut Core, u16, Key, Reason),
    pub(crate) extra: fn(&mut Core, u16, Key) -> Option<&mut Extra>,
    pub(crate) describe: fn(&mut Core, u16, Key) -> Option<Described>,
    pub(crate) flush: fn(&mut Core, u16, usize) -> usize,
    pub(crate) keys: fn(&mut Core, u16) -> Vec<Key>,
    pub(crate) entities: fn(&mut Core, u16) -> Vec<Key>,
    pub(crate) tidy: fn(&mut Core, u16),
}
