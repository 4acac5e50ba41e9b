//! What is in flight to destinations that keep up, in the order of the log.

use std::collections::VecDeque;
use std::time::Duration;

use stdx::time::Moment;

use crate::place::{Attempt, Place};

/// Entries handed over as they were committed, and not all settled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Window<D>(VecDeque<Slot<D>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Slot<D> {
    place: Place,
    dest: D,
    attempt: Attempt,
    at: Moment,
    is_taken: bool,
}

impl<D> Default for Window<D> {
    fn default() -> Self {
        Window(VecDeque::new())
    }
}

impl<D: Copy + Eq> Window<D> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The first entry that is not settled.
    pub(super) fn first(&self) -> Option<Place> {
        self.0.front().map(|slot| slot.place)
    }

    /// Entries in flight to one destination.
    pub(super) fn count(&self, dest: D) -> usize {
        let own = self.0.iter().filter(|slot| slot.dest == dest);
        own.filter(|slot| !slot.is_taken).count()
    }

    /// The destination whose entry has been in flight for longest.
    pub(super) fn oldest(&self) -> Option<D> {
        self.0.front().map(|slot| slot.dest)
    }

    /// Since when.
    pub(super) fn oldest_at(&self) -> Option<Moment> {
        self.0.front().map(|slot| slot.at)
    }

    /// A destination that has said nothing for too long.
    pub(super) fn overdue(&self, now: Moment, timeout: Duration) -> Option<D> {
        let first = self.0.front()?;
        (now.saturating_since(first.at) >= timeout).then_some(first.dest)
    }

    /// Puts an entry behind the others; returns the last one in flight to the same destination, or
    /// [`Place::START`].
    pub(super) fn put(&mut self, place: Place, dest: D, attempt: Attempt, at: Moment) -> Place {
        let mut own = self.0.iter().rev().filter(|slot| slot.dest == dest);
        let last = own.next().filter(|slot| !slot.is_taken);
        let after = last.map_or(Place::START, |slot| slot.place);
        self.0.push_back(Slot {
            place,
            dest,
            attempt,
            at,
            is_taken: false,
        });
        after
    }

    /// Notes that an entry was taken, and with it those in front of it for the same destination: a
    /// recipient takes none without them. False if it is not in flight.
    pub(super) fn take(&mut self, place: Place, dest: D) -> bool {
        let found = self.0.binary_search_by_key(&place, |slot| slot.place);
        let Ok(at) = found else { return false };
        if self.0[at].dest != dest {
            return false;
        }
        let in_front = self.0.iter_mut().take(at + 1);
        for slot in in_front.filter(|slot| slot.dest == dest) {
            slot.is_taken = true;
        }
        true
    }

    pub(super) fn is_in_flight(&self, place: Place, dest: D, attempt: Attempt) -> bool {
        let found = self.0.binary_search_by_key(&place, |slot| slot.place);
        found.is_ok_and(|at| {
            let slot = &self.0[at];
            slot.dest == dest && slot.attempt == attempt && !slot.is_taken
        })
    }

    /// Forgets what is settled at the front; returns how many those were.
    pub(super) fn settle(&mut self) -> u32 {
        let mut settled = 0;
        while self.0.pop_front_if(|slot| slot.is_taken).is_some() {
            settled += 1;
        }
        if self.0.is_empty() {
            self.0 = VecDeque::new();
        }
        settled
    }

    /// Takes out what is in flight to a destination: from its first entry that was not taken on.
    /// Returns those, and how many taken ones were forgotten with them.
    pub(super) fn remove(&mut self, dest: D) -> (Vec<(Place, Attempt)>, u32) {
        let mut removed = Vec::new();
        let mut taken = 0;
        self.0.retain(|slot| {
            let is_own = slot.dest == dest;
            if is_own && slot.is_taken {
                taken += 1;
            } else if is_own {
                removed.push((slot.place, slot.attempt));
            }
            !is_own
        });
        taken += self.settle();
        (removed, taken)
    }
}
