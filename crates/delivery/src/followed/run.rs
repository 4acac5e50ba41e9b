//! Copies of one room that were given to a session one after the other, and the counts that were
//! recorded ahead of the next ones.
//!
//! What a session was given is recorded because after a kill its client says no more than a number,
//! `h`: the record says which messages the numbers up to it were. Nothing has to be recorded for
//! each message if places and counts go on in step. A record that ends with
//!
//! ```text
//! count  41 42 │ 43 44 45          given │ said ahead
//! place   7  8 │  9 10 11
//! ```
//!
//! is true for as long as 43 is the message at place 9 or is not written at all. So the copy at
//! place 9 is written without a record if it comes next, and everything else that would get 43 is
//! written once a record has taken 43 to 45 back ([`super::Followed::cut`]). Whoever recovers such
//! a record takes what was said ahead for something that was given and did not arrive, which it is.
//!
//! Nothing is said ahead of the first few in a row, then as many as came before, up to a bound:
//! where copies and other stanzas take turns nothing is, and there is at most one record more for
//! each row.

use crate::limits::FollowLimits;
use crate::place::{Count, Place};

/// The copies that were given last, each with the count and the place next to those of the one
/// before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Run<R> {
    pub(super) room: R,
    /// Those of the last copy.
    count: Count,
    place: Place,
    /// How many there were, up to [`LENGTH_MAX`].
    length: u32,
    /// The last count that is said ahead, if it is behind `count`.
    through: Count,
    /// The copy whose record says so.
    said_with: Count,
    /// As `through`, of the last record of that kind that is known to be committed. Never behind
    /// `through`.
    committed_through: Count,
}

/// So many of a run are known: more than are ever given and not written.
const LENGTH_MAX: u32 = 1 << 16;

impl<R: Eq> Run<R> {
    /// A first copy, whose record says nothing ahead.
    pub(super) fn new(room: R, (count, place): (Count, Place)) -> Self {
        Run {
            room,
            count,
            place,
            length: 1,
            through: count,
            said_with: count,
            committed_through: count,
        }
    }

    /// Takes the next copy. False if it is not the next one.
    pub(super) fn goes_on(&mut self, room: &R, (count, place): (Count, Place)) -> bool {
        let is_next =
            count == self.count.plus(1) && place.before() == self.place && *room == self.room;
        if is_next {
            (self.count, self.place) = (count, place);
            self.length = LENGTH_MAX.min(self.length + 1);
        }
        is_next
    }

    /// The record of the last copy says ahead what the next ones will have. Nothing while it is not
    /// known that the record before that said something is committed: of two nobody could say later
    /// which of them was refused.
    pub(super) fn say_ahead(&mut self, limits: &FollowLimits) {
        if self.committed_through == self.through && self.length >= limits.ahead_from {
            self.through = self.count.plus(limits.ahead.min(self.length - 1));
            self.said_with = self.count;
        }
    }

    /// The count of the last copy.
    pub(super) fn last(&self) -> Count {
        self.count
    }

    /// The count of the first copy.
    fn first(&self) -> Count {
        Count::new(self.count.number().wrapping_sub(self.length - 1))
    }

    /// Whether a record of the run said anything ahead.
    pub(super) fn has_said_any(&self) -> bool {
        self.through.is_after(self.first())
    }

    /// Whether a committed record said this count of a copy ahead of it.
    pub(super) fn is_founded(&self, count: Count) -> bool {
        count.is_after(self.first()) && !count.is_after(self.committed_through)
    }

    /// Whether a record has this count for a copy of the run.
    pub(super) fn has(&self, count: Count) -> bool {
        !count.is_after(self.through)
    }

    /// Whether counts are said ahead that no copy has.
    pub(super) fn is_ahead(&self) -> bool {
        self.through.is_after(self.count)
    }

    /// Whether counts behind `h` may be said.
    pub(super) fn is_behind(&self, h: Count) -> bool {
        self.through.is_after(h)
    }

    /// What is said ahead, in order.
    pub(super) fn ahead(&self) -> impl Iterator<Item = (Count, Place)> {
        let many = match self.is_ahead() {
            true => self.through.number().wrapping_sub(self.count.number()),
            false => 0,
        };
        let next = |more| {
            let place = self.place.number().saturating_add(u64::from(more));
            (self.count.plus(more), Place::new(place))
        };
        (1..=many).map(next)
    }

    /// A copy of a room was written: what was recorded with it is committed.
    pub(super) fn was_written(&mut self, count: Count) {
        if !self.said_with.is_after(count) {
            self.committed_through = self.through;
        }
    }

    /// Records that are not committed never will be, and what was given from this count on was not,
    /// if there is one. False if nothing of the run is left: then none of its records is committed.
    pub(super) fn take_back(&mut self, first: Option<Count>) -> bool {
        self.through = self.committed_through;
        let Some(first) = first else {
            return true;
        };
        let last = Count::new(first.number().wrapping_sub(1));
        let dropped = self.count.number().wrapping_sub(last.number());
        self.count = last;
        let place = self.place.number().saturating_sub(u64::from(dropped));
        self.place = Place::new(place);
        self.length = self.length.saturating_sub(dropped);
        self.length > 0
    }
}
