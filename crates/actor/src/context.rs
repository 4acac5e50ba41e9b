//! What a handler sees of the runtime: everything of [`Mail`], and its own actor.

use std::marker::PhantomData;
use std::time::Duration;

use stdx::wheel::TimerKey;

use crate::ask::{Answered, JobDone, Reply};
use crate::core::{Core, Mail, Timer, realm_of};
use crate::limits::PRESSURE_HIGH;
use crate::mailbox::Item;
use crate::pool::{Pool, PoolFull};
use crate::realm::Slot;
use crate::traits::Actor;
use crate::types::{ActorId, Addr, AskError, MonitorId, Name, Reason, ShardId};

/// The surroundings of one running handler.
pub struct Context<'a, M> {
    pub(crate) core: &'a mut Core,
    pub(crate) id: ActorId,
    pub(crate) cost: u32,
    pub(crate) stop: Option<Reason>,
    takes: PhantomData<fn(M)>,
}

impl<M> Mail for Context<'_, M> {
    fn core(&mut self) -> &mut Core {
        self.core
    }
}

impl<'a, M> Context<'a, M> {
    pub(crate) fn new(core: &'a mut Core, id: ActorId) -> Self {
        Context {
            core,
            id,
            cost: 0,
            stop: None,
            takes: PhantomData,
        }
    }
}

impl<M: Send + 'static> Context<'_, M> {
    /// This actor's address.
    pub fn myself(&self) -> Addr<M> {
        Addr::new(self.id)
    }

    /// This actor's name, if it has one.
    pub fn name(&mut self) -> Option<Name> {
        self.slot().and_then(|slot| slot.name.clone())
    }

    fn slot(&mut self) -> Option<&mut Slot<M>> {
        realm_of::<M>(&mut self.core.realms, self.id.realm)
            .slots
            .get_mut(self.id.key)
    }

    // ---- Time ----------------------------------------------------------------------------------

    /// Sends a message to this actor after a while, into the priority lane. An actor with more than
    /// [`crate::limits::Bounds::timers_max`] timers ends after this handler.
    pub fn send_after(&mut self, after: Duration, msg: M) -> TimerKey {
        let ActorId { realm, key, .. } = self.id;
        let at = self.core.now + after;
        let timers_max = self.core.bounds.timers_max;
        let inner = realm_of::<M>(&mut self.core.realms, realm);
        let Some(slot) = inner.slots.get_mut(key) else {
            return TimerKey::DEAD;
        };
        if usize::from(slot.timer_count) >= timers_max {
            self.stop_with(Reason::Limit("timers"));
            return TimerKey::DEAD;
        }
        slot.timer_count += 1;
        let node = inner.arena.add_timer(&mut slot.timers, Item::Own(msg));
        let timer = self.core.timers.insert(at, Timer::Msg { realm, key, node });
        inner.arena.set_timer_key(node, timer);
        timer
    }

    /// Takes a timer back; false if it has fired. A message that it sent and that still waits is
    /// handled nevertheless.
    pub fn cancel(&mut self, timer: TimerKey) -> bool {
        let ActorId { realm, key, .. } = self.id;
        let node = match self.core.timers.get(timer) {
            Some(Timer::Msg {
                realm: of,
                key: whose,
                node,
            }) if (*of, *whose) == (realm, key) => *node,
            _ => return false,
        };
        self.core.cancel_timer(timer);
        let inner = realm_of::<M>(&mut self.core.realms, realm);
        let Some(slot) = inner.slots.get_mut(key) else {
            return false;
        };
        slot.timer_count -= 1;
        let item = inner.arena.take_timer(&mut slot.timers, node);
        drop(item);
        true
    }

    // ---- Questions and jobs --------------------------------------------------------------------

    /// Asks an actor. The answer, or why there is none, comes as the message that `map` makes, even
    /// while the mailbox is held; it may overtake other messages. An actor with more than
    /// [`crate::limits::Bounds::asks_max`] open questions ends after this handler.
    pub fn ask<N: Send + 'static, R: Send + 'static>(
        &mut self,
        to: Addr<N>,
        question: impl FnOnce(Reply<R>) -> N,
        deadline: Duration,
        map: impl FnOnce(Result<R, AskError>) -> M + 'static,
    ) {
        let Some(reply) = self.expect(deadline, map) else {
            return;
        };
        let key = reply.key();
        if let Err(error) = self.core.send_to(to, question(reply), false) {
            self.core.resolve(key, Err(AskError::Undeliverable));
            drop(error);
        }
    }

    /// As [`Context::ask`], to a named entity.
    pub fn ask_named<N: Send + 'static, R: Send + 'static>(
        &mut self,
        shard: ShardId,
        name: &Name,
        question: impl FnOnce(Reply<R>) -> N,
        deadline: Duration,
        map: impl FnOnce(Result<R, AskError>) -> M + 'static,
    ) {
        let Some(reply) = self.expect(deadline, map) else {
            return;
        };
        let key = reply.key();
        if let Err(error) = self.core.send_name(shard, name, question(reply), true) {
            self.core.resolve(key, Err(AskError::Undeliverable));
            drop(error);
        }
    }

    /// The right to answer this actor once, for somebody who is not an actor: a completion callback
    /// on another thread, a driver. Room for the answer is reserved. `None`, and the end of this
    /// actor, beyond [`crate::limits::Bounds::asks_max`].
    pub fn expect<R: Send + 'static>(
        &mut self,
        deadline: Duration,
        map: impl FnOnce(Result<R, AskError>) -> M + 'static,
    ) -> Option<Reply<R>> {
        self.open(Some(deadline), map)
    }

    /// As [`Context::expect`], of somebody whose answer decides something that time does not. If it
    /// is never given, the answer's drop says so ([`AskError::Dropped`]).
    pub fn expect_without_deadline<R: Send + 'static>(
        &mut self,
        map: impl FnOnce(Result<R, AskError>) -> M + 'static,
    ) -> Option<Reply<R>> {
        self.open(None, map)
    }

    fn open<R: Send + 'static>(
        &mut self,
        deadline: Option<Duration>,
        map: impl FnOnce(Result<R, AskError>) -> M + 'static,
    ) -> Option<Reply<R>> {
        let pending = Box::new(Answered::<R, M, _>::new(map));
        let reply = self.core.open_ask::<M, R>(self.id, deadline, pending);
        if reply.is_none() {
            self.stop_with(Reason::Limit("questions"));
        }
        reply
    }

    /// Runs a job on a pool; its result comes as the message that `map` makes, even while the
    /// mailbox is held. If the job panics this actor ends with [`Reason::Panic`].
    ///
    /// # Errors
    /// [`PoolFull`], if the pool or this actor has too many jobs: the job will not run.
    pub fn blocking<R: Send + 'static>(
        &mut self,
        pool: &Pool,
        job: impl FnOnce() -> R + Send + 'static,
        map: impl FnOnce(R) -> M + 'static,
    ) -> Result<(), PoolFull> {
        let pending = Box::new(JobDone::<R, M, _>::new(map));
        let Some(reply) = self.core.open_ask::<M, R>(self.id, None, pending) else {
            return Err(PoolFull);
        };
        let key = reply.key();
        let handed_over = pool.run_and(job, move |value| {
            reply.answer(value);
        });
        if handed_over.is_err() {
            // The reply was dropped with the job; its question must not hear of that.
            self.core.close_ask::<M>(key);
            self.core.stats.count(telemetry::Counter::ActorPoolFull);
        }
        handed_over
    }

    // ---- Scheduling ----------------------------------------------------------------------------

    /// Counts extra cost against this actor's share of the turn. A message costs 1, and so does a
    /// microsecond if they add up to more.
    pub fn spend(&mut self, cost: u32) {
        self.cost = self.cost.saturating_add(cost);
    }

    /// Holds the mailbox: until [`Context::release`], only the priority lane is handled.
    pub fn hold(&mut self) {
        if let Some(slot) = self.slot() {
            slot.flags.held = true;
        }
    }

    /// Lets the mailbox go on, in order.
    pub fn release(&mut self) {
        if let Some(slot) = self.slot() {
            slot.flags.held = false;
        }
    }

    /// Whether the mailbox is held.
    pub fn is_held(&mut self) -> bool {
        self.slot().is_some_and(|slot| slot.flags.held)
    }

    /// Messages that wait in this actor's mailbox.
    pub fn waiting(&mut self) -> usize {
        self.slot().map_or(0, |slot| slot.waiting())
    }

    /// Whether more messages wait for a shard than it takes in some turns
    /// ([`crate::limits::PRESSURE_HIGH`]): whoever has many to send there goes on later.
    pub fn is_behind(&self, shard: ShardId) -> bool {
        self.core.links.waiting(shard) >= PRESSURE_HIGH
    }

    // ---- The end -------------------------------------------------------------------------------

    /// Ends this actor after this handler.
    pub fn stop(&mut self) {
        self.stop_with(Reason::Normal);
    }

    /// Ends this actor after this handler, for a reason. The first reason given stays.
    pub fn stop_with(&mut self, reason: Reason) {
        self.stop.get_or_insert(reason);
    }

    /// Ends this actor if nothing waits in its mailbox; false if something does.
    pub fn stop_when_idle(&mut self) -> bool {
        let is_idle = self.waiting() == 0;
        if is_idle {
            self.stop();
        }
        is_idle
    }

    /// Starts an actor and links it to this one in one step.
    pub fn spawn_link<A: Actor>(&mut self, actor: A) -> Addr<A::Msg> {
        let addr = self.spawn(actor);
        self.link(addr.id);
        addr
    }

    /// Hears of the end of an actor by a signal, at once if it is gone already.
    pub fn monitor(&mut self, who: ActorId) -> MonitorId {
        self.check_relations();
        self.core.monitor(self.id, who)
    }

    /// Takes a monitor back: its signal does not come any more.
    pub fn demonitor(&mut self, monitor: MonitorId) {
        self.core.demonitor(self.id, monitor);
    }

    /// Ties the lives of two actors together: the crash of one ends the other, unless it traps
    /// exits and hears of it by a signal.
    pub fn link(&mut self, who: ActorId) {
        self.check_relations();
        self.core.link(self.id, who);
    }

    /// Takes a link back.
    pub fn unlink(&mut self, who: ActorId) {
        self.core.unlink(self.id, who);
    }

    fn check_relations(&mut self) {
        let relations_max = self.core.bounds.relations_max;
        let extra = self.core.extra(self.id);
        let count = extra.map(|e| e.links.len() + e.watching.len() + e.groups.len());
        if count.is_some_and(|count| count >= relations_max) {
            self.stop_with(Reason::Limit("links, monitors and groups"));
        }
    }

    /// Whether the end of a linked actor comes as a signal instead of ending this actor.
    pub fn trap_exits(&mut self, trap: bool) {
        if let Some(slot) = self.slot() {
            slot.flags.traps_exits = trap;
        }
    }

    /// Makes this actor a member of a group of actors that take the same messages.
    pub fn join(&mut self, group: &Name) {
        self.check_relations();
        self.core.join_group::<M>(self.id, group);
    }

    /// Ends this actor's membership.
    pub fn leave(&mut self, group: &Name) {
        self.core.leave_group::<M>(self.id, group);
    }
}
