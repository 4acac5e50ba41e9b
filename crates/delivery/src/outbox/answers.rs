//! What comes back to an outbox: answers of destinations, pages of the log, and time that passes.

use std::fmt::Debug;

use stdx::bugs;
use stdx::time::{Moment, Timestamp};

use super::Outbox;
use super::lagging::{self, Lagging, Step};
use super::types::{HandOver, Page, ReadId, Reason, Refusal};
use crate::place::{Attempt, Place};

impl<D: Copy + Ord + Debug, E> Outbox<D, E> {
    // ---- Answers -------------------------------------------------------------------------------

    /// A destination has an entry, durably. That is true whichever attempt it answers.
    pub fn handle_taken(&mut self, dest: D, place: Place, now: Moment) {
        if let Some(lagging) = self.lagging.get_mut(&dest) {
            if lagging.take(place) {
                self.settle_lagging(dest, place, now);
            }
        } else if self.window.take(place, dest) {
            self.pending = self.pending.saturating_sub(self.window.settle());
            self.move_mark();
        }
    }

    /// A destination did not take an entry; `error` is what it says if that is for good.
    pub fn handle_refused(
        &mut self,
        dest: D,
        (place, attempt): (Place, Attempt),
        why: Refusal,
        error: Option<E>,
        now: Moment,
    ) {
        // Once an attempt has failed, only an answer that is for good counts: the others have led
        // to the pause.
        let pauses = self.lagging.get(&dest).is_some_and(Lagging::waits);
        let counts = error.is_some() || !pauses;
        let is_current = counts && self.is_in_flight(dest, place, attempt);
        if !is_current && !bugs::is("answers_have_no_attempt") {
            return; // An answer to an earlier attempt: the latest one has its own.
        }
        self.lag(dest, now);
        let crashes_max = self.limits.crashes_max;
        let Some(lagging) = self.lagging.get_mut(&dest) else {
            return;
        };
        lagging.refused(place, why);
        let is_poison = why == Refusal::Crashed && lagging.crashed(place) >= crashes_max;
        if lagging.first_in_flight() == Some(place) {
            if let Some(error) = error {
                return self.give_back(dest, place, Reason::Refused(error));
            }
            if is_poison {
                return self.give_back(dest, place, Reason::Poison);
            }
        }
        self.retry(dest, why, now);
    }

    /// Whether this is the latest attempt at an entry that was not taken and does not come back. A
    /// copy that has waited on its way may go on only then: another one could be taken behind the
    /// refusal that returns the entry.
    pub fn is_latest(&self, dest: D, (place, attempt): (Place, Attempt)) -> bool {
        self.is_in_flight(dest, place, attempt) || bugs::is("copies_have_no_attempt")
    }

    fn is_in_flight(&self, dest: D, place: Place, attempt: Attempt) -> bool {
        match self.lagging.get(&dest) {
            Some(lagging) => lagging.is_in_flight(place, attempt),
            None => self.window.is_in_flight(place, dest, attempt),
        }
    }

    /// Entries that were read for a consumer, or `None` if they could not be. Returns which of them
    /// are handed over now, by their index in the page; `wall` says how old they are. Other reads
    /// may have waited for this ([`Outbox::poll_effect`]).
    pub fn handle_page(
        &mut self,
        id: ReadId,
        page: Option<&Page<D>>,
        now: Moment,
        wall: Timestamp,
    ) -> Vec<(usize, HandOver)> {
        if self.reading == Some(id) {
            self.reading = None;
            return match page {
                Some(page) => {
                    self.unread = 0;
                    self.common_page(page, now, wall)
                }
                None => {
                    self.unread = self.unread.saturating_add(1);
                    self.read_again = Some(now + self.limits.pause(self.unread, self.attempt));
                    Vec::new()
                }
            };
        }
        self.own_reads = self.own_reads.saturating_sub(1);
        let mut readers = self.lagging.iter();
        let reader = readers.find(|(_, lagging)| lagging.is_reading(id));
        let Some(dest) = reader.map(|(dest, _)| *dest) else {
            return Vec::new(); // Asked for before something else happened to the reader.
        };
        match page {
            Some(page) => self.own_page(dest, page, now, wall),
            None => {
                self.retry(dest, Refusal::Unread, now);
                Vec::new()
            }
        }
    }

    fn common_page(
        &mut self,
        page: &Page<D>,
        now: Moment,
        wall: Timestamp,
    ) -> Vec<(usize, HandOver)> {
        let mut over = Vec::new();
        for (at, entry) in page.entries.iter().enumerate() {
            if entry.place <= self.handed || entry.place > self.tail {
                continue; // Passed before, or its own commit will say so.
            }
            if self.is_too_old(entry.at, wall) {
                self.lag(entry.dest, now);
            }
            if let Some(hand_over) = self.pass(entry.place, entry.dest, now) {
                over.push((at, hand_over));
            }
        }
        let through = if bugs::is("common_page_is_all") {
            self.tail
        } else {
            page.through
        };
        self.handed = self.handed.max(through.min(self.tail));
        self.move_mark();
        self.read_on();
        if self.handed == self.tail {
            self.lagging_may_keep_up(now);
        }
        over
    }

    fn own_page(
        &mut self,
        dest: D,
        page: &Page<D>,
        now: Moment,
        wall: Timestamp,
    ) -> Vec<(usize, HandOver)> {
        let tail = self.tail;
        let Some(lagging) = self.lagging.get_mut(&dest) else {
            return Vec::new();
        };
        match lagging.page(page, &self.limits, &mut self.attempt, (tail, now, wall)) {
            Step::HandOver(over) => over,
            Step::Return(place, reason) => {
                self.give_back(dest, place, reason.into());
                Vec::new()
            }
            Step::ReadOn => {
                self.read_for(dest);
                Vec::new()
            }
            Step::CaughtUp => {
                self.lagging_changed = true;
                if self.handed == self.tail {
                    self.keeps_up(dest, now);
                }
                Vec::new()
            }
        }
    }

    fn is_too_old(&self, at: Timestamp, wall: Timestamp) -> bool {
        lagging::age(at, wall) >= self.limits.give_up_after
    }

    // ---- Time ----------------------------------------------------------------------------------

    /// When [`Outbox::handle_timeout`] has something to do.
    pub fn deadline(&self) -> Option<Moment> {
        let silent = self.window.oldest_at();
        let silent = silent.map(|at| at + self.limits.answer_timeout);
        let lagging = self.lagging.values().filter_map(Lagging::deadline).min();
        [silent, lagging, self.read_again, self.rests_until]
            .into_iter()
            .flatten()
            .min()
    }

    /// Time has passed: silent destinations are given up for now, and others are tried again.
    pub fn handle_timeout(&mut self, now: Moment) {
        self.rests_until.take_if(|at| *at <= now);
        if self.read_again.is_some_and(|at| at <= now) {
            self.read_again = None;
            self.read_on();
        }
        while let Some(silent) = self.window.overdue(now, self.limits.answer_timeout) {
            self.lag(silent, now);
            self.retry(silent, Refusal::Silent, now);
        }
        let due = |lagging: &Lagging| lagging.deadline().is_some_and(|at| at <= now);
        let all: Vec<D> = self
            .lagging
            .iter()
            .filter(|(_, lagging)| due(lagging))
            .map(|(dest, _)| *dest)
            .collect();
        for dest in all {
            if self.lagging.get(&dest).is_some_and(Lagging::waits) {
                self.read_for(dest);
            } else {
                self.retry(dest, Refusal::Silent, now);
            }
        }
    }
}
