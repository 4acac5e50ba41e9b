//! The loop of a shard, one turn at a time, for a driver that owns the thread:
//! poll, hand events over, [`Shard::turn`], write what came of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use stdx::slab::Key;
use stdx::time::{Clock, Moment};

use crate::core::{AnyActor, Core, Counters, Ending, Mail};
use crate::limits::{ACTOR_BUDGET, TURN_BUDGET};
use crate::link::Links;
use crate::traits::{EntityClass, Waker};
use crate::types::{Reason, ShardId, Signal};

/// What is left after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// There is more to do at once: the driver polls without waiting.
    pub more: bool,
    /// When there is something to do at the latest.
    pub next_deadline: Option<Moment>,
}

/// A shard that has not been given to its thread yet.
pub struct ShardSeed {
    pub(crate) id: ShardId,
    pub(crate) links: Arc<Links>,
    pub(crate) seed: u64,
}

impl ShardSeed {
    /// Which shard it will be.
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// Builds the shard on the thread that will run it.
    pub fn build(self, clock: Arc<dyn Clock>, waker: Arc<dyn Waker>) -> Shard {
        self.links.inbox(self.id).set_waker(waker);
        Shard {
            core: Core::new(self.id, clock, self.seed, self.links),
        }
    }
}

/// A shard on its thread.
pub struct Shard {
    core: Core,
}

impl Mail for Shard {
    fn core(&mut self) -> &mut Core {
        &mut self.core
    }
}

impl Shard {
    /// Says how entities that take `C::Msg` are made.
    pub fn set_class<C: EntityClass>(&mut self, class: C) {
        self.core.set_class(class);
    }

    /// Which shard it is.
    pub fn id(&self) -> ShardId {
        self.core.id
    }

    /// The number of actors.
    pub fn actors(&self) -> usize {
        self.core.entries.len()
    }

    /// Counters since the start.
    pub fn counters(&self) -> Counters {
        self.core.counters
    }

    /// Takes note of the time; called by the driver after its poll, before it hands events over.
    pub fn begin(&mut self) {
        self.core.now = self.core.clock.now();
        self.core.links.inbox(self.core.id).wake_up();
    }

    /// One turn: mail from other shards, timers, then actors until the budget is used up.
    pub fn turn(&mut self) -> Turn {
        self.begin();
        self.receive();
        self.fire_timers();
        let mut left = TURN_BUDGET;
        while left > 0 {
            let Some(key) = self.core.run.pop_front() else {
                break;
            };
            left = left.saturating_sub(self.core.run_actor(key));
        }
        let is_blocked = self.core.flush_outgoing();
        self.core.publish_counts();
        let idle = self.core.run.is_empty() && !is_blocked;
        let more = !idle || !self.core.links.inbox(self.core.id).fall_asleep();
        Turn {
            more,
            next_deadline: self.core.timers.next_deadline(),
        }
    }

    fn receive(&mut self) {
        // At most what was there at the begin: a busy sender cannot keep the turn going.
        for _ in 0..crate::limits::INBOX_BATCHES_MAX {
            let Some(batch) = self.core.links.inbox(self.core.id).pop() else {
                break;
            };
            for envelope in batch {
                self.core.receive(envelope);
            }
        }
    }

    fn fire_timers(&mut self) {
        let now = self.core.now;
        let mut due = Vec::new();
        self.core.timers.advance(now, &mut |timer| due.push(timer));
        for timer in due {
            self.core.fire(timer);
        }
    }

    /// Ends every actor, in the order of their start, with [`Reason::Shutdown`].
    pub fn shut_down(&mut self) {
        for key in self.core.entries.keys() {
            self.core.end_soon(key, Ending::Shutdown);
        }
        while let Some(key) = self.core.run.pop_front() {
            self.core.run_actor(key);
        }
        self.core.flush_outgoing();
    }
}

impl Core {
    /// Runs an actor for its budget and returns what it spent.
    fn run_actor(&mut self, key: Key) -> u32 {
        let Some(entry) = self.entries.get_mut(key) else {
            return 0;
        };
        entry.is_queued = false;
        self.spent = 0;
        self.with_actor(key, |actor, core| {
            core.hear_signals(actor, key);
            while core.spent < ACTOR_BUDGET && core.is_alive(key) && actor.run_one(core, key) {
                core.spent += 1;
                core.counters.handled += 1;
            }
        });
        if let Some(entry) = self.entries.get(key) {
            if entry.mailbox.is_ready(entry.is_held) {
                self.enqueue(key);
            }
        }
        self.spent.max(1)
    }

    fn is_alive(&self, key: Key) -> bool {
        self.entries
            .get(key)
            .is_some_and(|entry| entry.ending == Ending::No)
    }

    fn hear_signals(&mut self, actor: &mut dyn AnyActor, key: Key) {
        loop {
            let Some(entry) = self.entries.get_mut(key) else {
                return;
            };
            let Some(extra) = &mut entry.extra else {
                return;
            };
            let Some(signal) = extra.signals.pop_front() else {
                return;
            };
            if let Signal::Exit { reason, .. } = &signal {
                if !extra.traps_exits {
                    if reason.is_crash() {
                        entry.ending = Ending::Killed;
                        return;
                    }
                    continue;
                }
            }
            actor.signal(signal, self, key);
        }
    }

    /// Runs `f` with the actor taken out of its slot, so that it may do anything to the shard, and
    /// ends it if it panicked or wants to end.
    pub(crate) fn with_actor(&mut self, key: Key, f: impl FnOnce(&mut dyn AnyActor, &mut Core)) {
        let Some(mut actor) = self
            .entries
            .get_mut(key)
            .and_then(|entry| entry.actor.take())
        else {
            return;
        };
        let run = catch_unwind(AssertUnwindSafe(|| f(&mut *actor, self)));
        let reason = match run {
            Err(panic) => {
                self.counters.panics += 1;
                Reason::of_panic(&*panic)
            }
            Ok(()) => match self.entries.get(key).map(|entry| entry.ending) {
                None => return,
                Some(Ending::No) => {
                    if let Some(entry) = self.entries.get_mut(key) {
                        entry.actor = Some(actor);
                    }
                    return;
                }
                Some(Ending::Normal) => Reason::Normal,
                Some(Ending::Killed) => Reason::Killed,
                Some(Ending::Shutdown) => Reason::Shutdown,
            },
        };
        let last = catch_unwind(AssertUnwindSafe(|| {
            actor.stopped(&reason, self, key);
            drop(actor);
        }));
        if last.is_err() {
            self.counters.panics += 1;
        }
        self.remove(key, &reason);
    }
}
