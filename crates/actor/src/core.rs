//! The inside of a shard: its actors, their run queue, names, timers and questions. Everything that
//! an actor or a driver does to the runtime is a method here.

use std::any::{Any, TypeId};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustc_hash::FxHashMap;
use stdx::slab::{Key, Slab};
use stdx::time::{Clock, Moment, Timestamp};
use stdx::wheel::{TimerKey, TimerWheel};

use crate::ask::Reply;
use crate::context::Context;
use crate::crash::Crashes;
use crate::limits::{BATCH_MAX, MAILBOX_MAX};
use crate::link::{Envelope, Links};
use crate::mailbox::{AnyMailbox, Mailbox};
use crate::pool::{Pool, PoolFull};
use crate::traits::{Actor, EntityClass, Refused};
use crate::types::{ActorId, Addr, AskError, MonitorId, Name, Reason, SendError, ShardId, Signal};

pub(crate) struct Entry {
    pub(crate) mailbox: Box<dyn AnyMailbox>,
    pub(crate) actor: Option<Box<dyn AnyActor>>,
    pub(crate) extra: Option<Box<Extra>>,
    pub(crate) mailbox_max: u32,
    pub(crate) is_queued: bool,
    pub(crate) is_held: bool,
    pub(crate) ending: Ending,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    No,
    Normal,
    Killed,
    Shutdown,
}

/// What only named, monitored or linked actors have.
#[derive(Default)]
pub(crate) struct Extra {
    pub(crate) name: Option<(Name, TypeId)>,
    pub(crate) monitors: Vec<(MonitorId, ActorId)>,
    pub(crate) links: Vec<ActorId>,
    pub(crate) traps_exits: bool,
    pub(crate) signals: VecDeque<Signal>,
}

pub(crate) trait AnyActor {
    fn started(&mut self, core: &mut Core, key: Key);
    /// Handles one message; false if there is none to handle.
    fn run_one(&mut self, core: &mut Core, key: Key) -> bool;
    fn signal(&mut self, signal: Signal, core: &mut Core, key: Key);
    fn stopped(&mut self, reason: &Reason, core: &mut Core, key: Key);
}

struct Holder<A>(A);

impl<A: Actor> AnyActor for Holder<A> {
    fn started(&mut self, core: &mut Core, key: Key) {
        self.0.started(&mut Context::new(core, key));
    }

    fn run_one(&mut self, core: &mut Core, key: Key) -> bool {
        let Some(entry) = core.entries.get_mut(key) else {
            return false;
        };
        let held = entry.is_held;
        let mailbox = entry.mailbox.as_any().downcast_mut::<Mailbox<A::Msg>>();
        let Some(msg) = mailbox.and_then(|mailbox| mailbox.pop(held)) else {
            return false;
        };
        self.0.handle(msg, &mut Context::new(core, key));
        true
    }

    fn signal(&mut self, signal: Signal, core: &mut Core, key: Key) {
        self.0.signal(signal, &mut Context::new(core, key));
    }

    fn stopped(&mut self, reason: &Reason, core: &mut Core, key: Key) {
        self.0.stopped(reason, &mut Context::new(core, key));
    }
}

pub(crate) trait AnyClass {
    fn activate(&mut self, name: &Name, core: &mut Core) -> Key;
    fn refused(&mut self, name: &Name, msg: Box<dyn Any + Send>, why: Refused, core: &mut Core);
}

struct ClassHolder<C>(C);

impl<C: EntityClass> AnyClass for ClassHolder<C> {
    fn activate(&mut self, name: &Name, core: &mut Core) -> Key {
        let actor = self.0.activate(name, core.id);
        let key = core.add(actor, self.0.mailbox_max());
        core.bind_name(key, Name::clone(name), TypeId::of::<C::Msg>());
        core.start(key);
        key
    }

    fn refused(&mut self, name: &Name, msg: Box<dyn Any + Send>, why: Refused, core: &mut Core) {
        if let Ok(msg) = msg.downcast::<C::Msg>() {
            self.0.refused(name, *msg, why, core);
        }
    }
}

pub(crate) enum Timer {
    Msg {
        key: Key,
        payload: Box<dyn Any + Send>,
    },
    Ask(u64),
}

pub(crate) struct Ask {
    key: Key,
    timer: TimerKey,
    answer: Answered,
}

/// Turns an answer into a message of the asker.
type Answered =
    Box<dyn FnOnce(Result<Box<dyn Any + Send>, AskError>) -> Option<Box<dyn Any + Send>>>;

/// Counters of one shard since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages handled.
    pub handled: u64,
    /// Actors started.
    pub spawned: u64,
    /// Actors that panicked.
    pub panics: u64,
    /// Messages that found a full mailbox.
    pub overflows: u64,
    /// Messages from elsewhere whose actor was gone.
    pub undelivered: u64,
    /// Answers that came after their deadline.
    pub late_answers: u64,
    /// Names put in quarantine.
    pub quarantines: u64,
}

/// The runtime of one shard, as its actors and its driver see it.
pub struct Core {
    pub(crate) id: ShardId,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) now: Moment,
    pub(crate) rng: fastrand::Rng,
    pub(crate) entries: Slab<Entry>,
    pub(crate) run: VecDeque<Key>,
    names: FxHashMap<Name, Key>,
    classes: FxHashMap<TypeId, Option<Box<dyn AnyClass>>>,
    pub(crate) timers: TimerWheel<Timer>,
    asks: FxHashMap<u64, Ask>,
    next_id: u64,
    pub(crate) links: Arc<Links>,
    pub(crate) outgoing: Vec<Vec<Envelope>>,
    pub(crate) crashes: Crashes,
    pub(crate) counters: Counters,
    pub(crate) spent: u32,
}

/// What may send: an actor's context and a shard's driver.
pub trait Mail {
    /// The runtime of the shard.
    fn core(&mut self) -> &mut Core;

    /// The shard.
    fn shard(&mut self) -> ShardId {
        self.core().id
    }

    /// Monotonic time at the begin of this turn.
    fn now(&mut self) -> Moment {
        self.core().now
    }

    /// Wall-clock time.
    fn wall(&mut self) -> Timestamp {
        self.core().clock.wall()
    }

    /// Randomness, seeded by the driver. Not for secrets.
    fn rng(&mut self) -> &mut fastrand::Rng {
        &mut self.core().rng
    }

    /// Sends to an actor. To another shard it only fails if the way there is full; whether the actor
    /// took it shows in counters alone.
    ///
    /// # Errors
    /// The message, if the mailbox is full or the actor gone.
    fn send<M: Send + 'static>(&mut self, to: Addr<M>, msg: M) -> Result<(), SendError<M>> {
        self.core().send_to(to, msg, false)
    }

    /// As [`Mail::send`], into the priority lane.
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
    /// The message, if the mailbox is full or the entity quarantined.
    fn send_named<M: Send + 'static>(
        &mut self,
        shard: ShardId,
        name: &Name,
        msg: M,
    ) -> Result<(), SendError<M>> {
        self.core().send_name(shard, name, msg, true)
    }

    /// Sends to a named entity if it is loaded; otherwise the message is let go of.
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

    /// Starts an actor on this shard.
    fn spawn<A: Actor>(&mut self, actor: A) -> Addr<A::Msg> {
        let core = self.core();
        let key = core.add(actor, MAILBOX_MAX);
        core.start(key);
        Addr::new(core.id, key)
    }

    /// The actor that a name belongs to on this shard.
    fn whereis(&mut self, name: &str) -> Option<ActorId> {
        let core = self.core();
        core.names.get(name).map(|key| ActorId {
            shard: core.id,
            key: *key,
        })
    }

    /// Ends an actor of this shard from outside.
    fn kill(&mut self, who: ActorId) {
        let core = self.core();
        if who.shard == core.id {
            core.end_soon(who.key, Ending::Killed);
        }
    }
}

impl Mail for Core {
    fn core(&mut self) -> &mut Core {
        self
    }
}

impl Core {
    pub(crate) fn new(id: ShardId, clock: Arc<dyn Clock>, seed: u64, links: Arc<Links>) -> Self {
        let outgoing = (0..links.shards()).map(|_| Vec::new()).collect();
        Core {
            id,
            now: clock.now(),
            clock,
            rng: fastrand::Rng::with_seed(seed),
            entries: Slab::new(),
            run: VecDeque::new(),
            names: FxHashMap::default(),
            classes: FxHashMap::default(),
            timers: TimerWheel::new(),
            asks: FxHashMap::default(),
            next_id: 0,
            links,
            outgoing,
            crashes: Crashes::default(),
            counters: Counters::default(),
            spent: 0,
        }
    }

    pub(crate) fn set_class<C: EntityClass>(&mut self, class: C) {
        self.classes
            .insert(TypeId::of::<C::Msg>(), Some(Box::new(ClassHolder(class))));
    }

    // ---- Actors --------------------------------------------------------------------------------

    pub(crate) fn add<A: Actor>(&mut self, actor: A, mailbox_max: usize) -> Key {
        self.counters.spawned += 1;
        self.entries.insert(Entry {
            mailbox: Box::new(Mailbox::<A::Msg>::new()),
            actor: Some(Box::new(Holder(actor))),
            extra: None,
            mailbox_max: mailbox_max as u32,
            is_queued: false,
            is_held: false,
            ending: Ending::No,
        })
    }

    fn start(&mut self, key: Key) {
        self.with_actor(key, |actor, core| actor.started(core, key));
    }

    pub(crate) fn extra(&mut self, key: Key) -> Option<&mut Extra> {
        self.entries
            .get_mut(key)
            .map(|entry| &mut **entry.extra.get_or_insert_default())
    }

    pub(crate) fn bind_name(&mut self, key: Key, name: Name, class: TypeId) {
        self.names.insert(Name::clone(&name), key);
        if let Some(extra) = self.extra(key) {
            extra.name = Some((name, class));
        }
    }

    pub(crate) fn end_soon(&mut self, key: Key, ending: Ending) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.ending = ending;
        }
        self.enqueue(key);
    }

    pub(crate) fn enqueue(&mut self, key: Key) {
        if let Some(entry) = self.entries.get_mut(key) {
            if !std::mem::replace(&mut entry.is_queued, true) {
                self.run.push_back(key);
            }
        }
    }

    // ---- Sending -------------------------------------------------------------------------------

    fn send_to<M: Send + 'static>(
        &mut self,
        to: Addr<M>,
        msg: M,
        priority: bool,
    ) -> Result<(), SendError<M>> {
        let ActorId { shard, key } = to.id;
        if shard != self.id {
            let payload = Box::new(msg);
            return self
                .send_away(
                    shard,
                    Envelope::Msg {
                        key,
                        priority,
                        payload,
                    },
                )
                .map_err(|envelope| match envelope {
                    Envelope::Msg { payload, .. } => full(payload),
                    _ => unreachable!("the envelope comes back"),
                });
        }
        self.put(key, msg, priority)
    }

    fn put<M: Send + 'static>(
        &mut self,
        key: Key,
        msg: M,
        priority: bool,
    ) -> Result<(), SendError<M>> {
        let Some(entry) = self.entries.get_mut(key) else {
            return Err(SendError::Gone(msg));
        };
        let max = entry.mailbox_max as usize;
        let Some(mailbox) = entry.mailbox.as_any().downcast_mut::<Mailbox<M>>() else {
            return Err(SendError::Gone(msg));
        };
        let pushed = if priority {
            mailbox.push_priority(msg, false)
        } else {
            mailbox.push(msg, max)
        };
        if let Err(msg) = pushed {
            self.counters.overflows += 1;
            return Err(SendError::Full(msg));
        }
        if !entry.is_queued && (priority || !entry.is_held) {
            entry.is_queued = true;
            self.run.push_back(key);
        }
        Ok(())
    }

    fn send_name<M: Send + 'static>(
        &mut self,
        shard: ShardId,
        name: &Name,
        msg: M,
        activate: bool,
    ) -> Result<(), SendError<M>> {
        if shard != self.id {
            let (class, name) = (TypeId::of::<M>(), Name::clone(name));
            let envelope = Envelope::Named {
                class,
                name,
                payload: Box::new(msg),
                activate,
            };
            return self
                .send_away(shard, envelope)
                .map_err(|envelope| match envelope {
                    Envelope::Named { payload, .. } => full(payload),
                    _ => unreachable!("the envelope comes back"),
                });
        }
        match self.locate(name, TypeId::of::<M>(), activate) {
            Ok(key) => self.put(key, msg, false),
            Err(Some(_)) => Err(SendError::Full(msg)),
            Err(None) => Err(SendError::Gone(msg)),
        }
    }

    /// The actor of a name, activated if wanted. `Err(None)`: not loaded, or of no known class.
    fn locate(
        &mut self,
        name: &Name,
        class: TypeId,
        activate: bool,
    ) -> Result<Key, Option<Refused>> {
        if let Some(key) = self.names.get(name) {
            return Ok(*key);
        }
        if !activate {
            return Err(None);
        }
        if self.crashes.is_quarantined(name, self.now) {
            return Err(Some(Refused::Quarantined));
        }
        let Some(mut holder) = self.classes.get_mut(&class).and_then(Option::take) else {
            return Err(None);
        };
        let key = holder.activate(name, self);
        self.classes.insert(class, Some(holder));
        Ok(key)
    }

    fn send_away(&mut self, shard: ShardId, envelope: Envelope) -> Result<(), Envelope> {
        let Some(batch) = self.outgoing.get_mut(usize::from(shard.index())) else {
            return Err(envelope);
        };
        if batch.len() >= BATCH_MAX * 16 {
            return Err(envelope);
        }
        batch.push(envelope);
        if batch.len() % BATCH_MAX == 0 {
            self.flush_to(shard);
        }
        Ok(())
    }

    fn flush_to(&mut self, shard: ShardId) {
        let batch = std::mem::take(&mut self.outgoing[usize::from(shard.index())]);
        if batch.is_empty() {
            return;
        }
        if let Err(batch) = self.links.push(shard, batch) {
            // The other shard is behind: what waits goes with the next flush, up to its bound.
            self.outgoing[usize::from(shard.index())] = batch;
        }
    }

    /// Hands what was collected for other shards over; true if some could not be.
    pub(crate) fn flush_outgoing(&mut self) -> bool {
        for shard in 0..self.outgoing.len() {
            self.flush_to(ShardId::new(shard as u16));
        }
        self.outgoing.iter().any(|batch| !batch.is_empty())
    }

    pub(crate) fn receive(&mut self, envelope: Envelope) {
        match envelope {
            Envelope::Msg {
                key,
                priority,
                payload,
            } => {
                let _ = self.put_any(key, payload, priority);
            }
            Envelope::Named {
                class,
                name,
                payload,
                activate,
            } => {
                self.receive_named(class, &name, payload, activate);
            }
            Envelope::Answer { ask, payload } => self.answered(ask, payload),
            Envelope::Call(call) => call(self),
        }
    }

    fn put_any(
        &mut self,
        key: Key,
        payload: Box<dyn Any + Send>,
        priority: bool,
    ) -> Result<(), Box<dyn Any + Send>> {
        let Some(entry) = self.entries.get_mut(key) else {
            self.counters.undelivered += 1;
            return Err(payload);
        };
        let max = entry.mailbox_max as usize;
        let pushed = entry.mailbox.push_any(payload, priority, max);
        match &pushed {
            Ok(()) => self.enqueue(key),
            Err(_) => self.counters.overflows += 1,
        }
        pushed
    }

    pub(crate) fn receive_named(
        &mut self,
        class: TypeId,
        name: &Name,
        payload: Box<dyn Any + Send>,
        activate: bool,
    ) {
        let (payload, why) = match self.locate(name, class, activate) {
            Ok(key) => match self.put_any(key, payload, false) {
                Ok(()) => return,
                Err(payload) => (payload, Refused::Full),
            },
            Err(Some(why)) => (payload, why),
            Err(None) => return,
        };
        if let Some(mut holder) = self.classes.get_mut(&class).and_then(Option::take) {
            holder.refused(name, payload, why, self);
            self.classes.insert(class, Some(holder));
        }
    }

    // ---- Timers and questions ------------------------------------------------------------------

    pub(crate) fn send_after<M: Send + 'static>(
        &mut self,
        key: Key,
        after: Duration,
        msg: M,
    ) -> TimerKey {
        self.timers.insert(
            self.now + after,
            Timer::Msg {
                key,
                payload: Box::new(msg),
            },
        )
    }

    pub(crate) fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Msg { key, payload } => {
                let _ = self.put_any(key, payload, true);
            }
            Timer::Ask(ask) => self.answered(ask, Err(AskError::Timeout)),
        }
    }

    pub(crate) fn ask<M: Send + 'static, R: Send + 'static>(
        &mut self,
        key: Key,
        deadline: Duration,
        map: impl FnOnce(Result<R, AskError>) -> M + 'static,
    ) -> Reply<R> {
        self.next_id += 1;
        let id = self.next_id;
        let answer: Answered = Box::new(move |answer| {
            let answer = match answer {
                Ok(value) => value
                    .downcast::<R>()
                    .map(|value| *value)
                    .map_err(|_| AskError::Dropped),
                Err(error) => Err(error),
            };
            Some(Box::new(map(answer)) as Box<dyn Any + Send>)
        });
        let timer = self.timers.insert(self.now + deadline, Timer::Ask(id));
        self.asks.insert(id, Ask { key, timer, answer });
        Reply::to_shard(Arc::clone(&self.links), self.id, id)
    }

    pub(crate) fn answer(
        &mut self,
        shard: ShardId,
        ask: u64,
        payload: Result<Box<dyn Any + Send>, AskError>,
    ) {
        if shard == self.id {
            self.answered(ask, payload);
        } else {
            // A full way costs the answer; the asker's deadline tells it.
            let _ = self.send_away(shard, Envelope::Answer { ask, payload });
        }
    }

    fn answered(&mut self, ask: u64, payload: Result<Box<dyn Any + Send>, AskError>) {
        let Some(Ask { key, timer, answer }) = self.asks.remove(&ask) else {
            self.counters.late_answers += 1;
            return;
        };
        self.timers.cancel(timer);
        if let Some(msg) = answer(payload) {
            let _ = self.put_any(key, msg, true);
        }
    }

    pub(crate) fn blocking<M: Send + 'static, R: Send + 'static>(
        &mut self,
        key: Key,
        pool: &Pool,
        job: impl FnOnce() -> R + Send + 'static,
        map: impl FnOnce(R) -> M + Send + 'static,
    ) -> Result<(), PoolFull> {
        let (links, shard) = (Arc::clone(&self.links), self.id);
        pool.run(move || {
            let payload: Box<dyn Any + Send> = Box::new(map(job()));
            let mut batch = vec![Envelope::Msg {
                key,
                priority: true,
                payload,
            }];
            // Answers to questions that a shard asked must arrive: the thread waits for room.
            while let Err(back) = links.push(shard, batch) {
                batch = back;
                std::thread::yield_now();
            }
        })
    }

    // ---- Monitors and links --------------------------------------------------------------------

    pub(crate) fn next_monitor(&mut self) -> MonitorId {
        self.next_id += 1;
        MonitorId(self.next_id)
    }

    pub(crate) fn on_shard(
        &mut self,
        shard: ShardId,
        call: impl FnOnce(&mut Core) + Send + 'static,
    ) {
        if shard == self.id {
            call(self);
        } else {
            let _ = self.send_away(shard, Envelope::Call(Box::new(call)));
        }
    }

    pub(crate) fn tell(&mut self, to: ActorId, signal: Signal) {
        self.on_shard(to.shard, move |core| {
            if let Some(extra) = core.extra(to.key) {
                extra.signals.push_back(signal);
                core.enqueue(to.key);
            }
        });
    }

    pub(crate) fn monitor(&mut self, me: ActorId, who: ActorId) -> MonitorId {
        let monitor = self.next_monitor();
        self.on_shard(who.shard, move |core| match core.extra(who.key) {
            Some(extra) => extra.monitors.push((monitor, me)),
            None => core.tell(
                me,
                Signal::Down {
                    monitor,
                    who,
                    reason: Reason::NoActor,
                },
            ),
        });
        monitor
    }

    pub(crate) fn link(&mut self, me: ActorId, who: ActorId) {
        if let Some(extra) = self.extra(me.key) {
            extra.links.push(who);
        }
        self.on_shard(who.shard, move |core| match core.extra(who.key) {
            Some(extra) => extra.links.push(me),
            None => core.tell(
                me,
                Signal::Exit {
                    who,
                    reason: Reason::NoActor,
                },
            ),
        });
    }

    // ---- Ends ----------------------------------------------------------------------------------

    /// Takes an actor out, tells those who watch it, and gives what it left to its next life.
    pub(crate) fn remove(&mut self, key: Key, reason: &Reason) {
        let Some(mut entry) = self.entries.remove(key) else {
            return;
        };
        let who = ActorId {
            shard: self.id,
            key,
        };
        let Some(extra) = entry.extra.take() else {
            return;
        };
        for (monitor, watcher) in extra.monitors {
            self.tell(
                watcher,
                Signal::Down {
                    monitor,
                    who,
                    reason: reason.clone(),
                },
            );
        }
        for linked in extra.links {
            self.tell(
                linked,
                Signal::Exit {
                    who,
                    reason: reason.clone(),
                },
            );
        }
        let Some((name, class)) = extra.name else {
            return;
        };
        self.names.remove(&name);
        if reason.is_crash() && self.crashes.note(&name, self.now) {
            self.counters.quarantines += 1;
        }
        for left in entry.mailbox.drain_any() {
            self.receive_named(class, &name, left, true);
        }
    }

    pub(crate) fn publish_counts(&self) {
        let inbox = self.links.inbox(self.id);
        inbox
            .actors
            .store(self.entries.len() as u64, Ordering::Relaxed);
        inbox
            .handled
            .store(self.counters.handled, Ordering::Relaxed);
    }
}

fn full<M: 'static>(payload: Box<dyn Any + Send>) -> SendError<M> {
    // Invariant: the envelope was made from an `M` by the caller.
    SendError::Full(
        *payload
            .downcast::<M>()
            .expect("the same message comes back"),
    )
}
