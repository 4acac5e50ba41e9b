//! The loop of a shard, one turn at a time, for a driver that owns the thread.
//!
//! Owns the order of a turn and the protocol around sleeping. Deliberately not here: polls and
//! threads.

use std::any::type_name;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use stdx::time::{Clock, Moment};
use telemetry::Counter;

use crate::blocking;
use crate::core::{Core, Mail, Timer};
use crate::limits::{Bounds, RECEIVE_MAX, TURN_BUDGET, TURN_SLICE};
use crate::link::{Inbox, Links, Parcel, Pressure};
use crate::moves::Whereabouts;
use crate::stats::Stage;
use crate::supervisor::SupervisorMsg;
use crate::traits::{EntityClass, Waker};
use crate::types::{Alarm, AskError, Name, Reason, ShardId};

/// How soon a shard looks again whether a full inbox of another has room.
const BLOCKED_RETRY: Duration = Duration::from_millis(1);

/// Room for so many timers that are due at once is kept from one turn to the next.
const TIMERS_KEPT: usize = 256;

/// How often `shut_down` goes over the actors again because a last handler started new ones.
const SHUTDOWN_PASSES: usize = 8;

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
    pub(crate) bounds: Bounds,
}

impl ShardSeed {
    /// Which shard it will be.
    pub fn id(&self) -> ShardId {
        self.id
    }

    /// Builds the shard on the thread that will run it.
    pub fn build(self, clock: Arc<dyn Clock>, waker: Arc<dyn Waker>) -> Shard {
        if let Some(inbox) = self.links.inbox(self.id) {
            inbox.set_waker(waker);
        }
        Shard {
            core: Core::new(self.id, clock, (self.seed, self.bounds), self.links),
            received: Vec::new(),
        }
    }
}

/// A shard on its thread.
pub struct Shard {
    core: Core,
    /// Timers that are due, kept to reuse its memory.
    received: Vec<Timer>,
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

    /// Says where entities that take `M` are at home; without it, all are here. Asked only for
    /// those that are not loaded.
    pub fn set_locator<M: Send + 'static>(
        &mut self,
        locator: impl Fn(&Name) -> Whereabouts + 'static,
    ) {
        self.core.set_locator::<M>(Rc::new(locator));
    }

    /// Tells the cost of entities that take `M` apart by parts, of which there are `count`.
    pub fn set_parts<M: Send + 'static>(
        &mut self,
        count: u16,
        part_of: impl Fn(&Name) -> u16 + 'static,
    ) {
        self.core.set_parts::<M>(count, Box::new(part_of));
    }

    /// Sets the mailbox bound of all actors of this shard that take `M`; without it,
    /// [`crate::limits::MAILBOX_MAX`].
    pub fn set_mailbox_max<M: Send + 'static>(&mut self, max: usize) {
        let (_, realm) = self.core.realm::<M>();
        realm.mailbox_max = max;
        (realm.mailbox_line, realm.mailbox_shared) = (max, max);
    }

    /// Sets the same bound, for actors whose messages must not be lost: what comes for a full
    /// mailbox from other shards and threads waits there, in the inbox of this one, with all other
    /// mail behind it. One batch, [`crate::limits::BATCH_MAX`] messages at most, goes on top.
    pub fn set_patient_mailbox<M: Send + 'static>(&mut self, max: usize) {
        self.set_mailbox_max::<M>(max.max(1));
        self.core.realm::<M>().1.has_patience = true;
    }

    /// Says who hears of crashes, quarantines and supervisors that give up.
    pub fn set_observer(&mut self, observer: impl FnMut(&Alarm) + 'static) {
        self.core.observer = Some(Box::new(observer));
    }

    /// Which shard it is.
    pub fn id(&self) -> ShardId {
        self.core.id
    }

    /// The number of actors.
    pub fn actors(&self) -> usize {
        self.core.alive as usize
    }

    /// Events of this shard counted so far.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.core.stats.get(counter)
    }

    /// Whether [`crate::Handle::shut_down`] was called. The driver then stops accepting, lets the
    /// actors finish for as long as it likes, and calls [`Shard::shut_down`].
    pub fn is_shutdown_requested(&self) -> bool {
        self.inbox().is_some_and(Inbox::is_shutdown_requested)
    }

    /// Whether something came since a turn that had no `more`, or the shard has not finished one.
    /// The [`Waker`] is not called again before the next turn.
    pub(crate) fn is_woken(&self) -> bool {
        self.inbox().is_none_or(|inbox| !inbox.is_asleep())
    }

    /// How much waits between the shards, as of now.
    pub fn pressure(&self) -> Pressure {
        self.core.links.pressure()
    }

    /// Actors of this shard that have something to do.
    pub fn runnable(&self) -> usize {
        self.core.run.len()
    }

    /// Whether everything that was sent from here to other shards is in their inboxes: what is sent
    /// from elsewhere after that comes behind it.
    pub fn is_handed_over(&self) -> bool {
        self.core.dirty.is_empty()
    }

    /// Counts what the driver spent its time on.
    pub fn note_time(&mut self, stage: Stage, time: Duration) {
        self.core.note_time(stage, time);
    }

    fn inbox(&self) -> Option<&Inbox> {
        self.core.links.inbox(self.core.id)
    }

    /// Takes note of the time; called by the driver after its poll, before it hands events over.
    pub fn begin(&mut self) {
        self.begin_at(self.core.clock.now());
    }

    /// The same for a driver that has just read the clock.
    pub fn begin_at(&mut self, now: Moment) {
        self.core.now = now;
        if let Some(inbox) = self.inbox() {
            inbox.wake_up();
        }
    }

    /// One turn: mail from other shards, timers, publications, then actors until the budget is used
    /// up, and at last everything for other shards is handed over.
    ///
    /// If the turn has no `more`, other threads call the [`Waker`] as soon as they send something.
    pub fn turn(&mut self) -> Turn {
        self.begin();
        self.core.stats.count(Counter::ActorTurns);
        self.receive();
        self.fire_timers();
        self.core.step_publications();
        self.run_actors();
        let is_blocked = self.core.flush_outgoing();
        let refused = std::mem::take(&mut self.core.refused);
        if let Some(inbox) = self.inbox() {
            inbox.note_refusals(refused);
        }
        self.core.report_if_due();
        let is_idle = self.core.run.is_empty() && self.core.publications.is_empty();
        let more = !is_idle || !self.inbox().is_none_or(Inbox::fall_asleep);
        let retry = is_blocked.then(|| self.core.now + BLOCKED_RETRY);
        let next_deadline = [
            self.core.timers.next_deadline(),
            self.core.next_report(),
            retry,
        ]
        .into_iter()
        .flatten()
        .min();
        Turn {
            more,
            next_deadline,
        }
    }

    fn run_actors(&mut self) {
        let (began, mut left) = (self.core.now, TURN_BUDGET);
        while left > 0 {
            let Some((realm, key)) = self.core.run.pop_front() else {
                break;
            };
            let Some(ops) = self.core.ops(realm) else {
                continue;
            };
            left = left.saturating_sub((ops.run)(&mut self.core, realm, key));
            if self.core.now.saturating_since(began) >= TURN_SLICE {
                break;
            }
        }
    }

    /// Takes what other threads sent.
    fn receive(&mut self) {
        let links = Arc::clone(&self.core.links);
        let Some(inbox) = links.inbox(self.core.id) else {
            return;
        };
        for call in inbox.take_overflow() {
            self.core.perform(call);
        }
        let mut taken = 0;
        while taken < RECEIVE_MAX && !self.core.is_mail_held() {
            let parcel = inbox.pop();
            taken += parcel.as_ref().map_or(0, Parcel::len).max(1);
            match parcel {
                Some(Parcel::Batch(batch)) => batch.deliver(&mut self.core),
                Some(Parcel::Calls(calls)) => {
                    for call in calls {
                        self.core.perform(call);
                    }
                }
                Some(Parcel::Call(call)) => self.core.perform(call),
                None => break,
            }
        }
    }

    fn fire_timers(&mut self) {
        let mut due = std::mem::take(&mut self.received);
        self.core
            .timers
            .advance(self.core.now, &mut |timer| due.push(timer));
        for timer in due.drain(..) {
            match timer {
                Timer::Msg { realm, key, node } => {
                    if let Some(ops) = self.core.ops(realm) {
                        (ops.fire)(&mut self.core, realm, key, node);
                    }
                }
                Timer::Ask(key) => self.core.resolve(key, Err(AskError::Timeout)),
                Timer::Retry { realm, key } => {
                    if let Some(ops) = self.core.ops(realm) {
                        (ops.resume)(&mut self.core, realm, key, blocking::retry());
                    }
                }
            }
        }
        due.shrink_to(TIMERS_KEPT);
        self.received = due;
    }

    /// Ends every actor with [`Reason::Shutdown`], supervisors with their children first, hands
    /// over what they sent to other shards, and closes the inbox: what comes later is dropped.
    pub fn shut_down(&mut self) {
        self.core.tick();
        let supervisors = type_name::<SupervisorMsg>();
        for _ in 0..SHUTDOWN_PASSES {
            let mut realms: Vec<u16> = (0..self.core.realms.len() as u16).collect();
            realms.sort_by_key(|id| {
                self.core
                    .ops(*id)
                    .is_none_or(|ops| (ops.takes)() != supervisors)
            });
            for id in realms {
                let Some(ops) = self.core.ops(id) else {
                    continue;
                };
                for key in (ops.keys)(&mut self.core, id) {
                    (ops.terminate)(&mut self.core, id, key, Reason::Shutdown);
                }
            }
            if self.core.alive == 0 {
                break;
            }
        }
        self.core.flush_outgoing();
        self.core.report();
        if let Some(inbox) = self.inbox() {
            inbox.close();
        }
    }
}
