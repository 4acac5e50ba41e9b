//! Request and reply: every question has a deadline, and its answer, or the lack of one, arrives as
//! a message of the asker.
//!
//! Owns questions that wait and the right to answer them. Room for the answer is reserved when the
//! question is asked, so that an answer is never refused and two actors that ask each other cannot
//! block each other. Deliberately not here: how the question itself travels; it is a message.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use stdx::slab::Key;
use stdx::wheel::TimerKey;
use telemetry::Counter;

use crate::core::{Core, Mail, Timer, realm_of};
use crate::link::Links;
use crate::mailbox::Item;
use crate::types::{ActorId, AskError, Reason, ShardId};

/// A question that waits for its answer.
pub(crate) struct Ask {
    asker: ActorId,
    timer: TimerKey,
    pending: Box<dyn Pending>,
}

/// What turns an answer into something of the asker. `value` is an `&mut Option<R>`, so that the
/// answer needs no box.
pub(crate) trait Pending {
    fn resolve(
        self: Box<Self>,
        core: &mut Core,
        asker: ActorId,
        value: Result<&mut dyn Any, AskError>,
    );
}

/// Makes a message of an answer.
pub(crate) struct Answered<R, M, F> {
    map: F,
    types: PhantomData<fn(R) -> M>,
}

impl<R, M, F: FnOnce(Result<R, AskError>) -> M> Answered<R, M, F> {
    pub(crate) fn new(map: F) -> Self {
        Answered {
            map,
            types: PhantomData,
        }
    }
}

fn take<R: 'static>(value: &mut dyn Any) -> Option<R> {
    value.downcast_mut::<Option<R>>().and_then(Option::take)
}

impl<R, M, F> Pending for Answered<R, M, F>
where
    R: 'static,
    M: Send + 'static,
    F: FnOnce(Result<R, AskError>) -> M,
{
    fn resolve(
        self: Box<Self>,
        core: &mut Core,
        asker: ActorId,
        value: Result<&mut dyn Any, AskError>,
    ) {
        let answer = value.and_then(|value| take::<R>(value).ok_or(AskError::Dropped));
        let map = self.map;
        match catch_unwind(AssertUnwindSafe(move || map(answer))) {
            Ok(msg) => core.put_own(asker, msg),
            Err(panic) => {
                core.stats.count(Counter::ActorPanics);
                core.terminate(asker, Reason::of_panic(&*panic));
            }
        }
    }
}

/// Makes a message of the result of a blocking job. A job that panicked ends its actor.
pub(crate) struct JobDone<R, M, F> {
    map: F,
    types: PhantomData<fn(R) -> M>,
}

impl<R, M, F: FnOnce(R) -> M> JobDone<R, M, F> {
    pub(crate) fn new(map: F) -> Self {
        JobDone {
            map,
            types: PhantomData,
        }
    }
}

impl<R, M, F> Pending for JobDone<R, M, F>
where
    R: 'static,
    M: Send + 'static,
    F: FnOnce(R) -> M,
{
    fn resolve(
        self: Box<Self>,
        core: &mut Core,
        asker: ActorId,
        value: Result<&mut dyn Any, AskError>,
    ) {
        let Some(value) = value.ok().and_then(take::<R>) else {
            return core.terminate(asker, Reason::Panic("a blocking job panicked".into()));
        };
        let map = self.map;
        match catch_unwind(AssertUnwindSafe(move || map(value))) {
            Ok(msg) => core.put_own(asker, msg),
            Err(panic) => {
                core.stats.count(Counter::ActorPanics);
                core.terminate(asker, Reason::of_panic(&*panic));
            }
        }
    }
}

impl Core {
    /// Opens a question of an actor of this shard; `None` if it has too many.
    pub(crate) fn open_ask<M: Send + 'static, R: Send + 'static>(
        &mut self,
        asker: ActorId,
        deadline: Option<Duration>,
        pending: Box<dyn Pending>,
    ) -> Option<Reply<R>> {
        let asks_max = self.bounds.asks_max;
        let slot = realm_of::<M>(&mut self.realms, asker.realm)
            .slots
            .get_mut(asker.key)?;
        if usize::from(slot.reserved) >= asks_max {
            return None;
        }
        slot.reserved += 1;
        let key = self.asks.insert(Ask {
            asker,
            timer: TimerKey::DEAD,
            pending,
        });
        if let Some(deadline) = deadline {
            let timer = self.timers.insert(self.now + deadline, Timer::Ask(key));
            if let Some(ask) = self.asks.get_mut(key) {
                ask.timer = timer;
            }
        }
        self.stats.count(Counter::ActorAsks);
        Some(Reply {
            to: To::Shard {
                links: Arc::clone(&self.links),
                shard: self.id,
                key,
            },
        })
    }

    /// Closes a question without an answer.
    pub(crate) fn close_ask<M: Send + 'static>(&mut self, key: Key) {
        let Some(ask) = self.asks.remove(key) else {
            return;
        };
        self.cancel_timer(ask.timer);
        let realm = realm_of::<M>(&mut self.realms, ask.asker.realm);
        if let Some(slot) = realm.slots.get_mut(ask.asker.key) {
            slot.reserved = slot.reserved.saturating_sub(1);
        }
    }

    pub(crate) fn resolve(&mut self, key: Key, value: Result<&mut dyn Any, AskError>) {
        let Some(ask) = self.asks.remove(key) else {
            if value.is_ok() {
                self.stats.count(Counter::ActorLateReplies);
            }
            return;
        };
        self.cancel_timer(ask.timer);
        if matches!(value, Err(AskError::Timeout)) {
            self.stats.count(Counter::ActorAskTimeouts);
        }
        ask.pending.resolve(self, ask.asker, value);
    }

    /// Puts an answer into the room that is reserved for it.
    fn put_own<M: Send + 'static>(&mut self, asker: ActorId, msg: M) {
        let free = |slot: &mut crate::realm::Slot<M>| {
            slot.reserved = slot.reserved.saturating_sub(1);
        };
        if let Err(item) = self.put_urgent(asker.realm, asker.key, Item::Own(msg), free) {
            self.drop_quietly(item);
        }
    }
}

enum To<R> {
    Shard {
        links: Arc<Links>,
        shard: ShardId,
        key: Key,
    },
    Thread(SyncSender<R>),
    Callback(Box<dyn FnOnce(Result<R, AskError>) + Send>),
    Answered,
}

/// The right to answer one question, once. Dropping it tells the asker so.
pub struct Reply<R: Send + 'static> {
    to: To<R>,
}

impl<R: Send + 'static> fmt::Debug for Reply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

impl<R: Send + 'static> Reply<R> {
    pub(crate) fn to_thread(sender: SyncSender<R>) -> Self {
        Reply {
            to: To::Thread(sender),
        }
    }

    /// The right to answer somebody who is neither an actor nor a thread that waits. `done` runs on
    /// the thread of whoever answers, or drops this: it passes the answer on and does nothing else.
    pub fn to_callback(done: impl FnOnce(Result<R, AskError>) + Send + 'static) -> Self {
        Reply {
            to: To::Callback(Box::new(done)),
        }
    }

    pub(crate) fn key(&self) -> Key {
        match &self.to {
            To::Shard { key, .. } => *key,
            To::Thread(_) | To::Callback(_) | To::Answered => Key::DEAD,
        }
    }

    /// Answers from a shard. The cheapest way: on the asker's own shard the answer is in its
    /// mailbox when this returns.
    pub fn send(mut self, mail: &mut impl Mail, value: R) {
        match std::mem::replace(&mut self.to, To::Answered) {
            To::Shard { shard, key, .. } => {
                let core = mail.core();
                if shard == core.id {
                    core.resolve(key, Ok(&mut Some(value)));
                } else {
                    let mut value = Some(value);
                    core.send_call(
                        shard,
                        Box::new(move |core| core.resolve(key, Ok(&mut value))),
                    );
                }
            }
            // An error means that the thread has given up: its deadline has passed.
            To::Thread(sender) => drop(sender.try_send(value)),
            To::Callback(done) => done(Ok(value)),
            To::Answered => {}
        }
    }

    /// Answers from any thread. Never refused: room is reserved.
    pub fn answer(mut self, value: R) {
        match std::mem::replace(&mut self.to, To::Answered) {
            To::Shard { links, shard, key } => {
                let mut value = Some(value);
                let call = Box::new(move |core: &mut Core| core.resolve(key, Ok(&mut value)));
                links.push_reserved(shard, call);
            }
            To::Thread(sender) => drop(sender.try_send(value)),
            To::Callback(done) => done(Ok(value)),
            To::Answered => {}
        }
    }
}

impl<R: Send + 'static> Drop for Reply<R> {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.to, To::Answered) {
            To::Shard { links, shard, key } => {
                let call =
                    Box::new(move |core: &mut Core| core.resolve(key, Err(AskError::Dropped)));
                links.push_reserved(shard, call);
            }
            To::Callback(done) => done(Err(AskError::Dropped)),
            // Its thread sees the end of its channel.
            To::Thread(_) | To::Answered => {}
        }
    }
}
