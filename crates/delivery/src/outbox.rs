//! The sender's side: every destination of a user's accepted messages is a consumer of his log.
//!
//! Destinations that keep up share one consumer and one durable mark: an entry is handed over as it
//! is committed, and a [`window::Window`] holds what is in flight. A destination that does not keep
//! up, because it is slow, full, unreadable, quarantined or silent, *lags*: it gets a mark of its
//! own and reads the log at its own pace ([`lagging::Lagging`]). Nobody else waits for it. When it
//! has caught up, it shares the common mark again.
//!
//! # The life of one entry
//!
//! | state | event | next state | effect |
//! |---|---|---|---|
//! | accepted | commit, destination keeps up | in flight | hand over |
//! | accepted | commit, destination lags | behind | read |
//! | in flight | taken | settled | the mark moves |
//! | in flight | refused for now, or silence | behind | read again after a back-off |
//! | in flight | refused for good | returning | return |
//! | in flight | its recipient crashed, for the last time allowed | returning | return |
//! | behind | read | in flight | hand over |
//! | behind | read, too old or dropped | returning | return |
//! | returning | appended to the sender's log as an error | settled | the mark moves |
//!
//! The caller performs the effects ([`Outbox::poll_effect`]), calls [`Outbox::handle_timeout`] at
//! [`Outbox::deadline`], and records [`Outbox::take_changes`] together with, or before, anything
//! that says more. After an append that failed it makes a new one with [`Outbox::recover`], which
//! rests for a moment ([`Outbox::rest`]).

mod answers;
mod consumers;
mod lagging;
mod operate;
#[cfg(test)]
mod tests;
mod types;
mod window;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use stdx::bugs;
use stdx::time::Moment;

use crate::limits::OutboxLimits;
use crate::place::{Attempt, Place};
use lagging::Lagging;
pub use types::{
    Accept, Changes, Effect, HandOver, Listed, Page, ReadId, Reason, Refusal, Stuck, Waits,
};
use window::Window;

/// How far the handing over of one sender's entries is. `D` names a destination, `E` is what a
/// recipient says when it refuses for good.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Outbox<D: Ord, E> {
    limits: OutboxLimits,
    /// Every outgoing entry up to here is settled, but for those that a lagging destination's own
    /// mark does not cover.
    mark: Place,
    /// Everything up to here was handed over by the common consumer, or left to a lagging one.
    handed: Place,
    /// The last outgoing entry that is committed.
    tail: Place,
    /// Entries up to here may have been handed over before this machine was made.
    recovered: Place,
    /// Entries accepted and not settled.
    pending: u32,
    window: Window<D>,
    lagging: BTreeMap<D, Lagging>,
    attempt: Attempt,
    /// The read of the common consumer that is under way.
    reading: Option<ReadId>,
    /// Reads of the common consumer that failed in a row.
    unread: u32,
    /// When the last of them is tried again.
    read_again: Option<Moment>,
    /// Nothing is read before.
    rests_until: Option<Moment>,
    last_read: ReadId,
    /// Reads for destinations that lag that are under way.
    own_reads: u32,
    /// What was recorded last.
    recorded: Place,
    lagging_changed: bool,
    /// Reads for destinations that lag are behind everything else: they may have to wait.
    effects: VecDeque<Effect<D, E>>,
}

impl<D: Copy + Ord + Debug, E> Outbox<D, E> {
    /// Takes up what the store says: the durable mark, the last outgoing entry, the marks of
    /// lagging destinations with the entries pending for each, and all that are pending. `attempt`
    /// is larger than every attempt of before, or drawn so that none is met again.
    pub fn recover(
        limits: OutboxLimits,
        attempt: Attempt,
        (mark, tail): (Place, Place),
        pending: u32,
        lagging: impl IntoIterator<Item = (D, Place, u32)>,
    ) -> Self {
        let lagging = lagging
            .into_iter()
            .map(|(dest, mark, pending)| (dest, Lagging::recovered(mark, pending, tail)));
        let mut outbox = Outbox {
            limits,
            mark,
            handed: mark,
            tail: tail.max(mark),
            recovered: tail,
            pending,
            window: Window::default(),
            lagging: lagging.collect(),
            attempt,
            reading: None,
            unread: 0,
            read_again: None,
            rests_until: None,
            last_read: ReadId::default(),
            own_reads: 0,
            recorded: mark,
            lagging_changed: false,
            effects: VecDeque::new(),
        };
        outbox.read_on();
        let all: Vec<D> = outbox.lagging.keys().copied().collect();
        for dest in all {
            outbox.read_for(dest);
        }
        outbox
    }

    /// An append of the machine before this one failed. What is read now may have something to be
    /// recorded at once, as what comes back has: until the shortest pause between two attempts is
    /// over nothing is read, or that would be tried again and again without one. Up to twice that,
    /// as the lives of many senders differ: those whose appends found no room together do not come
    /// back together. If the machine before rested itself, this one does for no longer.
    pub fn rest(&mut self, before: &Self, now: Moment) {
        let pause = self.limits.retry_min;
        let until = now + pause + self.attempt.spread(pause);
        self.rests_until = before.rests_until.or(Some(until));
    }

    /// Whether it does. For explorations.
    pub fn rests(&self) -> bool {
        self.rests_until.is_some()
    }

    /// The last attempt, for the machine that follows this one.
    pub fn last_attempt(&self) -> Attempt {
        self.attempt
    }

    /// Whether nothing is to be done: nothing is pending, or all that is waits for destinations
    /// that are away. Whoever stands for those calls ([`Outbox::called`]), also if this machine is
    /// made anew until then.
    pub fn is_at_rest(&self) -> bool {
        let lagging = || self.lagging.values();
        let parked: u32 = lagging().map(|own| own.pending).sum();
        self.pending == parked && self.handed == self.tail && lagging().all(Lagging::is_parked)
    }

    /// Entries accepted and not settled.
    pub fn pending(&self) -> u32 {
        self.pending
    }

    /// Whether the numbers stand to each other as they must: a bug here otherwise. For assertions
    /// and explorations.
    pub fn is_consistent(&self) -> bool {
        let lagging = || self.lagging.values();
        self.mark <= self.handed
            && self.handed <= self.tail
            && self.recorded <= self.mark
            && self.window.len() <= self.limits.window
            && self.own_reads <= self.limits.reads_max
            && self.window.first().is_none_or(|first| first > self.mark)
            && lagging().all(|own| own.is_consistent(self.tail))
            && lagging().map(|own| own.pending).sum::<u32>() <= self.pending
    }

    /// The bounds in force.
    pub fn limits(&self) -> &OutboxLimits {
        &self.limits
    }

    // ---- Commands ------------------------------------------------------------------------------

    /// Whether one more entry for `dest` may be accepted. Those whose commit is under way count for
    /// the sender, and for the destination once they are committed.
    pub fn may_accept(&self, dest: D) -> Accept {
        let limits = &self.limits;
        let lagging = self.lagging.get(&dest);
        let (own, is_stuck) = lagging.map_or((0, false), |own| (own.pending, own.failures > 0));
        // One that takes what it is handed over may be sent a burst, of which it leaves as much
        // room for others as it has itself.
        let share = match is_stuck {
            true => limits.entries_per_destination_max,
            false => {
                let free = limits.entries_max.saturating_sub(self.pending);
                limits.entries_per_destination_max.max(free)
            }
        };
        let more = u32::from(bugs::is("outbox_takes_one_more"));
        if self.pending >= limits.entries_max + more {
            Accept::Full
        } else if own >= share {
            Accept::DestinationFull
        } else {
            Accept::Yes
        }
    }

    /// An entry was appended; its commit is under way.
    pub fn accepted(&mut self) {
        self.pending += 1;
    }

    /// An entry for `dest` is durable. Returns how it is handed over, or `None` if it is read from
    /// the log when its turn comes. Entries are committed in the order of their places.
    pub fn committed(&mut self, place: Place, dest: D, now: Moment) -> Option<HandOver> {
        let is_behind = self.handed < self.tail;
        let is_over = place <= self.tail;
        self.tail = self.tail.max(place);
        if is_behind || is_over {
            return None; // It is read, or of an account that has gone.
        }
        self.pass(place, dest, now)
    }

    /// The common consumer comes to an entry: it is handed over, or left to its destination.
    fn pass(&mut self, place: Place, dest: D, now: Moment) -> Option<HandOver> {
        if self.window.count(dest) >= self.limits.window_per_destination {
            self.lag(dest, now);
        } else if self.window.len() >= self.limits.window
            && !self.lagging.contains_key(&dest)
            && let Some(slowest) = self.window.oldest()
        {
            // Whoever is slowest makes room for the others.
            self.lag(slowest, now);
        }
        self.handed = place;
        let hand_over = match self.lagging.get_mut(&dest) {
            Some(lagging) => {
                lagging.note(place);
                self.wake(dest);
                None
            }
            None => {
                let attempt = self.attempt.next();
                let after = self.window.put(place, dest, attempt, now);
                Some(HandOver { after, attempt })
            }
        };
        self.move_mark();
        hand_over
    }

    /// The caller is about to append the error that returns an entry. False if that is not wanted
    /// any more: it was taken meanwhile.
    pub fn still_returns(&self, dest: D, place: Place) -> bool {
        self.lagging
            .get(&dest)
            .is_some_and(|lagging| lagging.returns() == Some(place))
    }

    /// The error that returns an entry is appended, in one append with what
    /// [`Outbox::take_changes`] says from now on. [`Outbox::return_committed`] follows.
    pub fn returned(&mut self, dest: D, place: Place, now: Moment) {
        if self.still_returns(dest, place)
            && let Some(lagging) = self.lagging.get_mut(&dest)
        {
            let settled = lagging.settle(place, &self.limits, now);
            if !bugs::is("return_is_not_awaited") {
                lagging.close();
            }
            self.pending = self.pending.saturating_sub(settled);
            self.lagging_changed = true;
        }
    }

    /// The append of [`Outbox::returned`] is durable: what is behind the entry may be handed over.
    pub fn return_committed(&mut self, dest: D) {
        if let Some(lagging) = self.lagging.get_mut(&dest)
            && lagging.closed()
        {
            self.wake(dest);
        }
    }

    /// The entry that was to be returned could not be read: it is tried again later.
    pub fn return_failed(&mut self, dest: D, place: Place, now: Moment) {
        if self.still_returns(dest, place) {
            self.retry(dest, Refusal::Unread, now);
        }
    }

    // ---- Output --------------------------------------------------------------------------------

    /// The next thing to do. Whatever is asked for is answered once: by [`Outbox::handle_page`] if
    /// it is a read, after which there may be more to do.
    pub fn poll_effect(&mut self) -> Option<Effect<D, E>> {
        if self.rests_until.is_some() {
            return None;
        }
        if let Some(Effect::Read { dest: Some(_), .. }) = self.effects.front() {
            if self.own_reads >= self.limits.reads_max {
                return None;
            }
            self.own_reads += 1;
        }
        let effect = self.effects.pop_front();
        if self.effects.is_empty() {
            self.effects = VecDeque::new(); // Most are at rest, and then take no memory.
        }
        effect
    }

    /// Whether reads wait for those that are under way. For tests.
    pub fn reads_wait(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Marks that moved since they were taken last.
    pub fn take_changes(&mut self) -> Option<Changes<D>> {
        let lagging = std::mem::take(&mut self.lagging_changed);
        let lagging = lagging && !bugs::is("lagging_is_not_recorded");
        if self.recorded == self.mark && !lagging {
            return None;
        }
        self.recorded = self.mark;
        Some(Changes {
            mark: self.mark,
            lagging: lagging.then(|| {
                let all = self.lagging.iter();
                all.map(|(dest, lagging)| (*dest, lagging.mark)).collect()
            }),
        })
    }

    /// Whether [`Outbox::take_changes`] has any.
    pub fn has_changes(&self) -> bool {
        self.recorded != self.mark || self.lagging_changed
    }

    /// Every outgoing entry up to here is settled, but for those of lagging destinations, each of
    /// which pins its own entries only.
    pub fn mark(&self) -> Place {
        self.mark
    }

    /// Whether an outgoing entry for a destination is settled: nobody reads it again.
    pub fn is_settled(&self, place: Place, dest: D) -> bool {
        let lagging = self.lagging.get(&dest);
        place <= lagging.map_or(self.mark, |lagging| lagging.mark)
    }

    /// The last outgoing entry that is committed.
    pub fn tail(&self) -> Place {
        self.tail
    }

    /// Whether a destination lags.
    pub fn lags(&self) -> bool {
        !self.lagging.is_empty()
    }
}
