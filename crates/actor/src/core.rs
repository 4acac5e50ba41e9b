//! The inside of a shard, as its actors and its driver see it.
//!
//! Owns the realms, the run queue, timers, questions and statistics of one shard, and [`Mail`],
//! what everybody on the shard may do. Deliberately not here: running actors (`run`), the order of
//! a turn (`shard`).

use std::any::{Any, TypeId, type_name};
use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use stdx::rand::Rng;
use stdx::slab::{Key, Slab};
use stdx::time::{Clock, Moment, Timestamp};
use stdx::wheel::{TimerKey, TimerWheel};
use telemetry::{Counter, Stats};

use crate::ask::Ask;
use crate::blocking::{BlockingActor, BlockingHolder};
use crate::context::Context;
use crate::groups::Publication;
use crate::limits::{Bounds, OUTGOING_MAX};
use crate::link::{Call, Links};
use crate::pool::Pool;
use crate::realm::{AnyActor, ClassHolder, Extra, Holder, Ops, Realm, Slot};
use crate::stats::{Instruments, Tops};
use crate::traits::{Actor, EntityClass, Observer};
use crate::types::{ActorId, Addr, Alarm, Name, Reason, SendError, ShardId, Signal};

pub(crate) struct AnyRealm {
    realm: Box<dyn Any>,
    pub(crate) ops: &'static Ops,
}

pub(crate) enum Timer {
    /// A message that waits in its realm's arena.
    Msg { realm: u16, key: Key, node: u32 },
    /// The deadline of a question.
    Ask(Key),
    /// A blocking actor tries its pool again.
    Retry { realm: u16, key: Key },
}

/// The runtime of one shard.
pub struct Core {
    pub(crate) id: ShardId,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) now: Moment,
    pub(crate) rng: Rng,
    pub(crate) realms: Vec<AnyRealm>,
    realm_ids: FxHashMap<TypeId, u16>,
    name_keys: (u64, u64),
    pub(crate) run: VecDeque<(u16, Key)>,
    pub(crate) timers: TimerWheel<Timer>,
    pub(crate) asks: Slab<Ask>,
    pub(crate) next_monitor: u64,
    pub(crate) links: Arc<Links>,
    /// Realms with messages for other shards, in the order in which they got them.
    pub(crate) dirty: Vec<(u16, u16)>,
    pub(crate) calls: Vec<Vec<Call>>,
    pub(crate) publications: VecDeque<Box<dyn Publication>>,
    pub(crate) observer: Option<Observer>,
    pub(crate) stats: Stats,
    pub(crate) instruments: Instruments,
    pub(crate) tops: Tops,
    /// Messages in mailboxes.
    pub(crate) waiting: u64,
    /// Mailboxes with a message.
    pub(crate) non_empty: u64,
    pub(crate) alive: u64,
    /// Messages and calls that found no room at another shard.
    pub(crate) held_back: u64,
    /// A mailbox was full in this turn.
    pub(crate) refused: bool,
    /// A mailbox that has all that it may, for which further mail waits, and whether it still is.
    pub(crate) held_for: Option<(u16, Key, IsFull)>,
    pub(crate) bounds: Bounds,
}

/// Whether a mailbox has all that it may.
pub(crate) type IsFull = fn(&mut Core, u16, Key) -> bool;

/// The realm of a message type, whose number is known. A free function over one field, so that the
/// others stay usable.
pub(crate) fn realm_of<M: 'static>(realms: &mut [AnyRealm], id: u16) -> &mut Realm<M> {
    // Invariant: numbers are only handed out by `realm_id`, which makes the realm of that type, and
    // an address carries the number that its own shard handed out for its type.
    realms[usize::from(id)]
        .realm
        .downcast_mut()
        .expect("a realm is found by its own type")
}

impl Core {
    pub(crate) fn new(
        id: ShardId,
        clock: Arc<dyn Clock>,
        (seed, bounds): (u64, Bounds),
        links: Arc<Links>,
    ) -> Self {
        let mut rng = Rng::with_seed(seed);
        Core {
            id,
            now: clock.now(),
            clock,
            realms: Vec::new(),
            realm_ids: FxHashMap::default(),
            name_keys: (rng.u64(..), rng.u64(..)),
            rng,
            run: VecDeque::new(),
            timers: TimerWheel::new(),
            asks: Slab::new(),
            next_monitor: 0,
            dirty: Vec::new(),
            calls: (0..links.shards()).map(|_| Vec::new()).collect(),
            links,
            publications: VecDeque::new(),
            observer: None,
            stats: Stats::new(),
            instruments: Instruments::default(),
            tops: Tops::default(),
            waiting: 0,
            non_empty: 0,
            alive: 0,
            held_back: 0,
            refused: false,
            held_for: None,
            bounds,
        }
    }

    pub(crate) fn realm_id<M: Send + 'static>(&mut self) -> u16 {
        if let Some(id) = self.realm_ids.get(&TypeId::of::<M>()) {
            return *id;
        }
        let id = self.realms.len() as u16;
        assert!(
            usize::from(id) < self.bounds.realms_max,
            "a program has far fewer message types"
        );
        let realm = Box::new(Realm::<M>::new(self.name_keys));
        self.realms.push(AnyRealm {
            realm,
            ops: &Realm::<M>::OPS,
        });
        self.realm_ids.insert(TypeId::of::<M>(), id);
        id
    }

    /// The realm of a type of message, made if it is the first use.
    pub(crate) fn realm<M: Send + 'static>(&mut self) -> (u16, &mut Realm<M>) {
        let id = self.realm_id::<M>();
        (id, realm_of(&mut self.realms, id))
    }

    pub(crate) fn ops(&self, realm: u16) -> Option<&'static Ops> {
        self.realms.get(usize::from(realm)).map(|realm| realm.ops)
    }

    pub(crate) fn actor_id(&self, realm: u16, key: Key) -> ActorId {
        ActorId {
            shard: self.id,
            realm,
            key,
        }
    }

    pub(crate) fn set_class<C: EntityClass>(&mut self, class: C) {
        let (_, realm) = self.realm::<C::Msg>();
        realm.mailbox_max = class.mailbox_max();
        realm.mailbox_line = realm.mailbox_max.saturating_sub(class.mailbox_reserve());
        realm.mailbox_shared = realm.mailbox_line.saturating_sub(class.mailbox_line());
        realm.may_use_reserve = C::may_use_reserve;
        realm.may_stand_in_line = C::may_stand_in_line;
        realm.class = Some(Box::new(ClassHolder(class)));
        realm.has_class = true;
    }

    /// Reads the clock.
    pub(crate) fn tick(&mut self) {
        self.now = self.clock.now();
    }

    pub(crate) fn alarm(&mut self, alarm: &Alarm) {
        // Taken out, because it is called while the core is borrowed.
        if let Some(mut observer) = self.observer.take() {
            observer(alarm);
            self.observer = Some(observer);
        }
    }

    pub(crate) fn add<M: Send + 'static>(
        &mut self,
        actor: Option<Box<dyn AnyActor<M>>>,
        name: Option<&Name>,
    ) -> Option<(u16, Key)> {
        let actors_max = self.bounds.actors_max;
        let (id, realm) = self.realm::<M>();
        if realm.slots.len() >= actors_max {
            self.stats.count(Counter::ActorSpawnRefused);
            return None;
        }
        let mut slot = Slot::new(actor, None);
        slot.flags.queued = true;
        slot.flags.entity = slot.actor.is_none();
        if let (Some(parts), Some(name), true) = (&realm.parts, name, slot.flags.entity) {
            slot.part = (parts.of)(name);
        }
        let key = realm.slots.insert(slot);
        if let Some(name) = name {
            realm.bind(key, Name::clone(name));
        }
        self.run.push_back((id, key));
        self.alive += 1;
        self.stats.count(Counter::ActorSpawned);
        Some((id, key))
    }

    /// Starts an actor whose holder is given. At the bound the address is dead from the beginning.
    pub(crate) fn spawn_any<M: Send + 'static>(&mut self, actor: Box<dyn AnyActor<M>>) -> Addr<M> {
        let (realm, key) = match self.add(Some(actor), None) {
            Some(found) => found,
            None => (self.realm_id::<M>(), Key::DEAD),
        };
        Addr::new(self.actor_id(realm, key))
    }

    pub(crate) fn extra(&mut self, who: ActorId) -> Option<&mut Extra> {
        let extra = self.ops(who.realm)?.extra;
        extra(self, who.realm, who.key)
    }

    /// Ends an actor of this shard at once: its `stopped` runs before this returns. One that is
    /// running right now (the caller, or somebody up its call stack) ends after its handler.
    pub(crate) fn terminate(&mut self, who: ActorId, reason: Reason) {
        if who.shard == self.id {
            if let Some(ops) = self.ops(who.realm) {
                (ops.terminate)(self, who.realm, who.key, reason);
            }
        } else {
            self.send_call(who.shard, Box::new(move |core| core.terminate(who, reason)));
        }
    }

    pub(crate) fn signal(&mut self, to: ActorId, signal: Signal) {
        if to.shard == self.id {
            if let Some(ops) = self.ops(to.realm) {
                (ops.signal)(self, to.realm, to.key, signal);
            }
        } else {
            self.send_call(to.shard, Box::new(move |core| core.signal(to, signal)));
        }
    }

    pub(crate) fn cancel_timer(&mut self, key: TimerKey) -> Option<Timer> {
        self.timers.cancel(key)
    }

    /// Name, type of messages and mailbox length of a live actor of this shard.
    pub(crate) fn describe(&mut self, who: ActorId) -> Option<(Option<Name>, &'static str, usize)> {
        let ops = self.ops(who.realm)?;
        let (name, waiting) = (ops.describe)(self, who.realm, who.key)?;
        Some((name, (ops.takes)(), waiting))
    }

    pub(crate) fn context<M>(&mut self, realm: u16, key: Key) -> Context<'_, M> {
        let id = self.actor_id(realm, key);
        Context::new(self, id)
    }
}

/// What may send: an actor's context, a shard's driver, and the core itself.
pub trait Mail {
    /// The runtime of the shard.
    fn core(&mut self) -> &mut Core;

    /// The shard.
    fn shard(&mut self) -> ShardId {
        self.core().id
    }

    /// The number of shards of the system.
    fn shards(&mut self) -> u16 {
        self.core().links.shards()
    }

    /// Monotonic time as of this run; read again every few messages.
    fn now(&mut self) -> Moment {
        self.core().now
    }

    /// Wall-clock time.
    fn wall(&mut self) -> Timestamp {
        self.core().clock.wall()
    }

    /// Randomness, seeded by the driver. Not for secrets.
    fn rng(&mut self) -> &mut Rng {
        &mut self.core().rng
    }

    /// Counters of this shard, to count in.
    fn stats(&mut self) -> &mut Stats {
        &mut self.core().stats
    }

    /// Sends to an actor. To another shard it only fails if the way there is full; whether the
    /// actor took it shows in counters and, for entities, in [`EntityClass::refused`].
    ///
    /// # Errors
    /// The message, if the mailbox is full or the actor gone.
    fn send<M: Send + 'static>(&mut self, to: Addr<M>, msg: M) -> Result<(), SendError<M>> {
        self.core().send_to(to, msg, false)
    }

    /// As [`Mail::send`], into the priority lane, which is handled first and even while the mailbox
    /// is held.
    ///
    /// # Errors
    /// As [`Mail::send`].
    fn send_priority<M: Send + 'static>(
        &mut self,
        to: Addr<M>,
        msg: M,
    ) -> Result<(), SendError<M>> {
        self.core().send_to(to, msg, true)
    }

    /// Sends to a named entity, which is activated if it is not loaded.
    ///
    /// # Errors
    /// The message, if the mailbox is full or the entity quarantined; `Gone` if no class takes it.
    fn send_named<M: Send + 'static>(
        &mut self,
        shard: ShardId,
        name: &Name,
        msg: M,
    ) -> Result<(), SendError<M>> {
        self.core().send_name(shard, name, msg, true)
    }

    /// Sends to a named entity if it is loaded. On another shard the message is let go of and
    /// counted if it is not.
    ///
    /// # Errors
    /// The message, if the mailbox is full; `Gone` if it is not loaded.
    fn send_named_if_active<M: Send + 'static>(
        &mut self,
        shard: ShardId,
        name: &Name,
        msg: M,
    ) -> Result<(), SendError<M>> {
        self.core().send_name(shard, name, msg, false)
    }

    /// Sends a copy to every member of a group, on every shard. Large groups are worked through in
    /// slices; publications to one group keep their order. A member whose mailbox is full misses it
    /// (counted).
    ///
    /// # Errors
    /// The message, if too many publications are under way.
    fn publish<M: Clone + Send + 'static>(&mut self, group: &Name, msg: M) -> Result<(), M> {
        self.core().publish_everywhere(group, msg)
    }

    /// Starts an actor on this shard; its `started` runs before its first message, after the
    /// handler that spawns it. Beyond [`Bounds::actors_max`] the address is dead.
    fn spawn<A: Actor>(&mut self, actor: A) -> Addr<A::Msg> {
        self.core().spawn_any(Box::new(Holder(actor)))
    }

    /// Starts an actor that runs on a pool's threads, behind an address of this shard.
    fn spawn_blocking<A: BlockingActor>(&mut self, pool: &Pool, actor: A) -> Addr<A::Msg> {
        let core = self.core();
        let holder = BlockingHolder::new(pool.clone(), core.links.clone(), actor);
        core.spawn_any(Box::new(holder))
    }

    /// The actor of this shard that takes `M` and has this name.
    fn whereis<M: Send + 'static>(&mut self, name: &str) -> Option<Addr<M>> {
        let core = self.core();
        let (id, realm) = core.realm::<M>();
        let key = realm.find(name)?;
        Some(Addr::new(core.actor_id(id, key)))
    }

    /// Gives an actor of this shard a name; false if either has one already.
    fn register<M: Send + 'static>(&mut self, who: Addr<M>, name: &Name) -> bool {
        let core = self.core();
        who.id.shard == core.id
            && realm_of::<M>(&mut core.realms, who.id.realm).bind(who.id.key, Name::clone(name))
    }

    /// Whether an actor of this shard is there.
    fn is_alive(&mut self, who: ActorId) -> bool {
        let core = self.core();
        who.shard == core.id && core.describe(who).is_some()
    }

    /// Ends an actor from outside, as soon as it comes to run.
    fn kill(&mut self, who: ActorId) {
        let core = self.core();
        if who.shard != core.id {
            core.send_call(who.shard, Box::new(move |core| core.kill(who)));
        } else if let Some(ops) = core.ops(who.realm) {
            (ops.end_soon)(core, who.realm, who.key, Reason::Killed);
        }
    }

    /// Runs something on another shard (or this one), in its next turn; false if too much waits for
    /// room there.
    fn run_on(&mut self, shard: ShardId, job: impl FnOnce(&mut Core) + Send + 'static) -> bool {
        let core = self.core();
        let calls = core.calls.get(usize::from(shard.index()));
        let has_room = calls.is_some_and(|calls| calls.len() < OUTGOING_MAX);
        if has_room {
            core.send_call(shard, Box::new(job));
        }
        has_room
    }
}

impl Mail for Core {
    fn core(&mut self) -> &mut Core {
        self
    }
}

pub(crate) fn takes<M>() -> &'static str {
    type_name::<M>()
}
