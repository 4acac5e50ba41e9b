//! The consumers of an outbox: the common one, and destinations that lag with marks of their own.

use std::fmt::Debug;

use stdx::bugs;
use stdx::time::Moment;

use super::Outbox;
use super::lagging::Lagging;
use super::types::{Effect, Reason, Refusal};
use crate::place::Place;

impl<D: Copy + Ord + Debug, E> Outbox<D, E> {
    /// From now on a destination has a mark of its own. What it was handed over stays in flight.
    pub(super) fn lag(&mut self, dest: D, now: Moment) {
        if self.lagging.contains_key(&dest) {
            return;
        }
        let (mut in_flight, settled) = self.window.remove(dest);
        if bugs::is("window_full_is_settled") {
            in_flight.clear();
        }
        self.pending = self.pending.saturating_sub(settled);
        let until = now + self.limits.answer_timeout;
        let lagging = Lagging::new(self.handed, in_flight, until, self.recovered);
        self.lagging.insert(dest, lagging);
        self.lagging_changed = true;
        self.move_mark();
    }

    /// A destination that has caught up shares the common mark again, as soon as that has passed
    /// what came back from it. Too many of those that wait for the mark have it moved: the slowest
    /// destination of the window gets a mark of its own instead.
    pub(super) fn keeps_up(&mut self, dest: D, now: Moment) {
        let mark = self.mark;
        let own = self.lagging.get(&dest);
        if own.is_some_and(|own| own.may_share(mark) || bugs::is("returned_shares_at_once")) {
            self.lagging.remove(&dest);
            self.lagging_changed = true;
            return;
        }
        let waiting = self.lagging.values().filter(|own| own.keeps_mark());
        if waiting.count() > self.limits.returned_max
            && let Some(slowest) = self.window.oldest()
        {
            self.lag(slowest, now);
        }
    }

    /// The common mark has moved: those share it that waited for that.
    fn share_again(&mut self) {
        if self.handed < self.tail {
            return; // There may be more for them, which is not noted yet.
        }
        let (before, mark) = (self.lagging.len(), self.mark);
        self.lagging
            .retain(|_, own| !(own.keeps_mark() && own.may_share(mark)));
        self.lagging_changed |= self.lagging.len() != before;
    }

    /// The common consumer has come to the end of the log: so may those that lag have.
    pub(super) fn lagging_may_keep_up(&mut self, now: Moment) {
        let idle = self.lagging.iter().filter(|(_, own)| own.is_idle());
        let idle: Vec<D> = idle.map(|(dest, _)| *dest).collect();
        for dest in idle {
            let own = self.lagging.get(&dest);
            if own.is_some_and(|own| own.has_caught_up(self.tail)) {
                self.keeps_up(dest, now);
            } else {
                // It came to an end that the log has passed since, with nothing for it; nobody else
                // would wake it.
                self.read_for(dest);
            }
        }
    }

    /// There is something new for a lagging destination.
    pub(super) fn wake(&mut self, dest: D) {
        if self.lagging.get(&dest).is_some_and(Lagging::is_idle) {
            self.read_for(dest);
        }
    }

    /// What a destination was handed over and did not take is read again after a pause.
    pub(super) fn retry(&mut self, dest: D, why: Refusal, now: Moment) {
        if let Some(lagging) = self.lagging.get_mut(&dest) {
            lagging.retry(why, (&self.limits, self.attempt), now);
        }
    }

    pub(super) fn give_back(&mut self, dest: D, place: Place, reason: Reason<E>) {
        if let Some(lagging) = self.lagging.get_mut(&dest) {
            lagging.give_back(place);
            self.effects.push_front(Effect::Return {
                dest,
                place,
                reason,
            });
        }
    }

    pub(super) fn settle_lagging(&mut self, dest: D, place: Place, now: Moment) {
        let limits = &self.limits;
        let Some(lagging) = self.lagging.get_mut(&dest) else {
            return;
        };
        let settled = lagging.settle(place, limits, now);
        let settled = if bugs::is("settled_counts_on") {
            0
        } else {
            settled
        };
        self.pending = self.pending.saturating_sub(settled);
        self.lagging_changed = true;
        self.wake(dest);
    }

    pub(super) fn read_on(&mut self) {
        if self.handed >= self.tail || self.reading.is_some() || self.read_again.is_some() {
            return;
        }
        let id = self.last_read.next();
        self.reading = Some(id);
        self.effects.push_front(Effect::Read {
            id,
            dest: None,
            after: self.handed,
            limit: self.limits.page,
        });
    }

    pub(super) fn read_for(&mut self, dest: D) {
        let Some(lagging) = self.lagging.get_mut(&dest) else {
            return;
        };
        let id = self.last_read.next();
        let (after, limit) = lagging.read(id, &self.limits);
        self.effects.push_back(Effect::Read {
            id,
            dest: Some(dest),
            after,
            limit,
        });
    }

    pub(super) fn move_mark(&mut self) {
        let first = self.window.first().map(Place::before);
        let mark = first.unwrap_or(self.handed);
        debug_assert!(
            mark >= self.mark,
            "the mark goes back from {} to {mark}",
            self.mark
        );
        if mark > self.mark {
            self.mark = mark;
            self.share_again();
        }
    }
}
