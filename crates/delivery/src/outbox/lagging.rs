//! One destination that does not keep up: a consumer with a mark of its own, which reads the log at
//! its own pace. Owns its back-off, and what is known of entries that were handed over without an
//! answer.
//!
//! ```text
//!          read                page                    all taken
//!  idle ─────────▶ reading ─────────────▶ handed over ───────────▶ idle ─▶ (caught up)
//!                   ▲   │ too old, poison   │    │
//!                   │   └──────────┐        │    │ refused, silent
//!             pause │              ▼        ▼    ▼
//!                   │          returning  waiting
//!                   │              │ appended │
//!                   │              ▼          │
//!                   │   idle ◀── returned     │
//!                   │         committed       │
//!                   └─────────────────────────┘
//! ```
//!
//! What is taken while it waits is settled as if it had come in time, and nothing waits for the
//! rest of the pause once all of it is.

use std::collections::VecDeque;
use std::time::Duration;

use stdx::bugs;
use stdx::time::{Moment, Timestamp};

use super::types::{HandOver, Page, ReadId, Reason, Refusal, Waits};
use crate::limits::OutboxLimits;
use crate::place::{Attempt, Place};

/// A consumer of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lagging {
    /// All entries for it up to here are settled.
    pub(super) mark: Place,
    /// Entries for it that are not, up to `noted_through`.
    pub(super) pending: u32,
    noted_through: Place,
    /// It was handed over everything up to here; the next read goes on from there.
    read_through: Place,
    /// An entry up to here may have been taken: it was handed over without an answer.
    doubt_through: Place,
    /// Entries up to here come back unread, because an operator said so.
    pub(super) drop_through: Place,
    /// The last entry that came back. Its recipient would not recognise it: until the common mark
    /// has passed it, only this destination's own mark says that it is settled.
    returned_through: Place,
    /// Attempts in a row that failed, and why the last one did.
    pub(super) failures: u32,
    pub(super) last: Option<Refusal>,
    /// An entry at which the destination crashed, and how often.
    crashes: Option<(Place, u8)>,
    /// When the first entry of what was read last is too old to wait for a destination that is
    /// away; `None` if that was never read: then it is young.
    expires: Option<Moment>,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    /// Nothing is asked for.
    Idle,
    /// An attempt failed: the next one follows. What was handed over may be answered all the same,
    /// by a destination that always takes longer than the time-out.
    Waiting {
        in_flight: VecDeque<Flight>,
        until: Moment,
    },
    /// A page was asked for.
    Reading(ReadId),
    /// A page was handed over.
    Handed {
        in_flight: VecDeque<Flight>,
        until: Moment,
    },
    /// An entry comes back.
    Returning(Place),
    /// It has come back as soon as that is committed. Nothing behind it may be taken before: its
    /// recipient would no longer recognise it if the commit failed.
    Returned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Flight {
    place: Place,
    attempt: Attempt,
    is_taken: bool,
}

/// What comes of a page.
pub(super) enum Step {
    HandOver(Vec<(usize, HandOver)>),
    Return(Place, OwnReason),
    ReadOn,
    CaughtUp,
}

/// A [`Reason`] that is the sender's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnReason {
    Expired { may_be_delivered: bool },
    Poison,
    Dropped { may_be_delivered: bool },
}

impl<E> From<OwnReason> for Reason<E> {
    fn from(reason: OwnReason) -> Self {
        match reason {
            OwnReason::Expired { may_be_delivered } => Reason::Expired { may_be_delivered },
            OwnReason::Poison => Reason::Poison,
            OwnReason::Dropped { may_be_delivered } => Reason::Dropped { may_be_delivered },
        }
    }
}

/// Takes what is settled from the front of what was handed over, and moves the mark over it;
/// returns how many entries that were.
fn settle_front(in_flight: &mut VecDeque<Flight>, mark: &mut Place) -> u32 {
    let mut settled = 0;
    while let Some(flight) = in_flight.pop_front_if(|flight| flight.is_taken) {
        *mark = flight.place;
        settled += 1;
    }
    settled
}

/// How long ago something was.
pub(super) fn age(at: Timestamp, wall: Timestamp) -> Duration {
    let millis = wall.as_millis().saturating_sub(at.as_millis());
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

impl Lagging {
    /// A destination that kept up so far: the common consumer has come to `handed`. `in_flight` is
    /// what it was handed over and has not answered; entries up to `recovered` may have been handed
    /// over in an earlier life.
    pub(super) fn new(
        handed: Place,
        in_flight: Vec<(Place, Attempt)>,
        until: Moment,
        recovered: Place,
    ) -> Self {
        let flights = in_flight.into_iter().map(|(place, attempt)| Flight {
            place,
            attempt,
            is_taken: false,
        });
        let in_flight: VecDeque<Flight> = flights.collect();
        let first = in_flight.front().map(|flight| flight.place.before());
        Lagging {
            mark: first.unwrap_or(handed),
            pending: in_flight.len() as u32,
            noted_through: handed,
            read_through: in_flight.back().map_or(handed, |flight| flight.place),
            doubt_through: recovered,
            drop_through: Place::START,
            returned_through: Place::START,
            failures: 0,
            last: None,
            crashes: None,
            expires: None,
            state: if in_flight.is_empty() {
                State::Idle
            } else {
                State::Handed { in_flight, until }
            },
        }
    }

    /// One that lagged before: what of it was handed over in an earlier life nobody knows.
    pub(super) fn recovered(mark: Place, pending: u32, tail: Place) -> Self {
        Lagging {
            mark,
            pending,
            read_through: mark,
            returned_through: mark,
            ..Lagging::new(tail, Vec::new(), Moment::FAR, tail)
        }
    }

    /// The common consumer leaves an entry to it.
    pub(super) fn note(&mut self, place: Place) {
        if place > self.noted_through {
            self.noted_through = place;
            self.pending += 1;
        }
    }

    /// See [`super::Outbox::is_consistent`].
    pub(super) fn is_consistent(&self, tail: Place) -> bool {
        let mut flights = self.flights();
        let through = if self.waits() {
            tail
        } else {
            self.read_through
        };
        self.mark <= self.read_through
            && self.read_through <= tail
            && flights.all(|flight| self.mark < flight.place && flight.place <= through)
    }

    // ---- State ---------------------------------------------------------------------------------

    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    pub(super) fn waits(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }

    /// Whether it waits to be called.
    pub(super) fn is_parked(&self) -> bool {
        self.waits() && self.last == Some(Refusal::Away)
    }

    pub(super) fn is_reading(&self, id: ReadId) -> bool {
        self.state == State::Reading(id)
    }

    /// The entry that comes back.
    pub(super) fn returns(&self) -> Option<Place> {
        match self.state {
            State::Returning(place) => Some(place),
            _ => None,
        }
    }

    /// Whether everything for it is settled, and it keeps its mark for the sake of what came back.
    pub(super) fn keeps_mark(&self) -> bool {
        self.is_idle() && self.pending == 0 && self.returned_through > Place::START
    }

    /// Whether the common mark says of everything that came back that it is settled.
    pub(super) fn may_share(&self, mark: Place) -> bool {
        self.returned_through <= mark
    }

    pub(super) fn has_caught_up(&self, tail: Place) -> bool {
        self.is_idle() && self.read_through >= tail
    }

    /// Whether this is the latest attempt at an entry that was not taken; also if it has failed and
    /// the next one waits for the end of the pause.
    pub(super) fn is_in_flight(&self, place: Place, attempt: Attempt) -> bool {
        let mut flights = self.flights();
        flights.any(|flight| flight.place == place && flight.attempt == attempt && !flight.is_taken)
    }

    pub(super) fn first_in_flight(&self) -> Option<Place> {
        self.flights().next().map(|flight| flight.place)
    }

    fn flights(&self) -> impl Iterator<Item = &Flight> {
        let in_flight = match &self.state {
            State::Handed { in_flight, .. } | State::Waiting { in_flight, .. } => Some(in_flight),
            _ => None,
        };
        in_flight.into_iter().flatten()
    }

    pub(super) fn deadline(&self) -> Option<Moment> {
        match &self.state {
            State::Waiting { .. } if bugs::is("no_retry_timer") => None,
            State::Waiting { until, .. } | State::Handed { until, .. } => Some(*until),
            State::Idle | State::Reading(_) | State::Returning(_) | State::Returned => None,
        }
    }

    pub(super) fn waits_for(&self, now: Moment) -> Waits {
        match &self.state {
            State::Idle => Waits::Nothing,
            State::Waiting { until, .. } if self.is_parked() => {
                Waits::Call(until.saturating_since(now))
            }
            State::Waiting { until, .. } => Waits::Retry(until.saturating_since(now)),
            State::Reading(_) => Waits::Read,
            State::Handed { .. } => Waits::Answer,
            State::Returning(_) | State::Returned => Waits::Return,
        }
    }

    // ---- Transitions ---------------------------------------------------------------------------

    /// A page is read; returns behind which place, and how many entries. After a failure one entry
    /// shows whether the destination takes any.
    pub(super) fn read(&mut self, id: ReadId, limits: &OutboxLimits) -> (Place, u32) {
        self.state = State::Reading(id);
        let limit = if self.failures > 0 { 1 } else { limits.page };
        (self.read_through, limit)
    }

    /// Decides what becomes of a page.
    pub(super) fn page<D>(
        &mut self,
        page: &Page<D>,
        limits: &OutboxLimits,
        attempt: &mut Attempt,
        (tail, now, wall): (Place, Moment, Timestamp),
    ) -> Step {
        self.state = State::Idle;
        let mut over = Vec::new();
        let mut in_flight = VecDeque::new();
        let mut after = Place::START;
        let committed = page.entries.iter().enumerate();
        for (at, entry) in committed.filter(|(_, entry)| entry.place <= tail) {
            // It may be ahead of the common consumer.
            self.note(entry.place);
            if let Some(reason) = self.gives_up(entry.place, age(entry.at, wall), limits) {
                if over.is_empty() {
                    return Step::Return(entry.place, reason);
                }
                break; // Those in front of it go first.
            }
            if over.is_empty() {
                let left = limits.give_up_after.saturating_sub(age(entry.at, wall));
                self.expires = Some(now + left);
            }
            let attempt = attempt.next();
            over.push((at, HandOver { after, attempt }));
            in_flight.push_back(Flight {
                place: entry.place,
                attempt,
                is_taken: false,
            });
            self.read_through = entry.place;
            after = entry.place;
        }
        if over.len() == limits.page as usize && bugs::is("page_full_is_all") {
            self.read_through = tail;
        }
        if !over.is_empty() {
            let until = now + limits.answer_timeout;
            self.state = State::Handed { in_flight, until };
            return Step::HandOver(over);
        }
        self.read_through = self.read_through.max(page.through.min(tail));
        if self.read_through < tail {
            return Step::ReadOn;
        }
        self.mark = self.mark.max(self.read_through);
        Step::CaughtUp
    }

    /// Whether an entry comes back instead of being handed over.
    fn gives_up(&self, place: Place, age: Duration, limits: &OutboxLimits) -> Option<OwnReason> {
        let may_be_delivered = place <= self.doubt_through;
        if place <= self.drop_through {
            return Some(OwnReason::Dropped { may_be_delivered });
        }
        if matches!(self.crashes, Some((at, times)) if at == place && times >= limits.crashes_max) {
            return Some(OwnReason::Poison);
        }
        let is_tried = self.failures >= limits.give_up_attempts_min;
        let is_forgotten = may_be_delivered && age >= limits.recognised_for;
        (is_tried && age >= limits.give_up_after || is_forgotten)
            .then_some(OwnReason::Expired { may_be_delivered })
    }

    /// Notes that an entry was taken, and with it those in front of it: a recipient takes none
    /// without them. True if something is settled by that.
    pub(super) fn take(&mut self, place: Place) -> bool {
        match &mut self.state {
            State::Handed { in_flight, .. } | State::Waiting { in_flight, .. } => {
                for flight in in_flight.iter_mut().filter(|flight| flight.place <= place) {
                    flight.is_taken = true;
                }
                in_flight.front().is_some_and(|flight| flight.is_taken)
            }
            // It was given up, and taken after all.
            State::Returning(returning) => *returning == place,
            State::Idle | State::Reading(_) | State::Returned => false,
        }
    }

    /// Moves the mark over what is settled, of which `place` is one; returns how many those are.
    pub(super) fn settle(&mut self, place: Place, limits: &OutboxLimits, now: Moment) -> u32 {
        let mut settled = 0;
        match &mut self.state {
            State::Handed { in_flight, until } => {
                settled = settle_front(in_flight, &mut self.mark);
                *until = now + limits.answer_timeout;
                (self.failures, self.last) = (0, None);
                if in_flight.is_empty() {
                    self.state = State::Idle;
                }
            }
            // What is left of it is read again after the pause.
            State::Waiting { in_flight, .. } => {
                settled = settle_front(in_flight, &mut self.mark);
                self.read_through = self.mark;
                if in_flight.is_empty() {
                    (self.failures, self.last) = (0, None);
                    self.state = State::Idle;
                }
            }
            // Whether the next one is taken is as doubtful as before.
            State::Returning(_) => {
                self.mark = place;
                self.returned_through = place;
                settled = 1;
                self.state = State::Idle;
            }
            State::Idle | State::Reading(_) | State::Returned => {}
        }
        self.crashes = self.crashes.filter(|(at, _)| *at > self.mark);
        self.pending = self.pending.saturating_sub(settled);
        settled
    }

    /// What was handed over and not taken is read again after a pause.
    pub(super) fn retry(
        &mut self,
        why: Refusal,
        (limits, attempt): (&OutboxLimits, Attempt),
        now: Moment,
    ) {
        if why == Refusal::Silent
            && !bugs::is("silence_is_no_doubt")
            && let Some(last) = self.flights().last()
        {
            self.doubt_through = self.doubt_through.max(last.place);
        }
        self.failures = self.failures.saturating_add(1);
        self.last = Some(why);
        self.read_through = self.mark;
        let mut until = now + limits.pause(self.failures, attempt);
        if why == Refusal::Away {
            // It is called. An entry that is too old is tried as often as others before it goes.
            until = until.max(self.expires.unwrap_or(now + limits.give_up_after));
        }
        let in_flight = match std::mem::replace(&mut self.state, State::Idle) {
            State::Handed { in_flight, .. } | State::Waiting { in_flight, .. } => in_flight,
            _ => VecDeque::new(),
        };
        self.state = State::Waiting { in_flight, until };
    }

    /// The next attempt follows at once.
    pub(super) fn retry_now(&mut self) -> bool {
        let waits = self.waits();
        if waits {
            self.state = State::Idle;
        }
        waits
    }

    /// An entry comes back, and those behind it are read again once it has.
    pub(super) fn give_back(&mut self, place: Place) {
        self.read_through = place;
        self.state = State::Returning(place);
    }

    /// The error that returns an entry is appended.
    pub(super) fn close(&mut self) {
        self.state = State::Returned;
    }

    /// That is durable. False if something else has happened meanwhile.
    pub(super) fn closed(&mut self) -> bool {
        let is_closed = self.state == State::Returned;
        if is_closed {
            self.state = State::Idle;
        }
        is_closed
    }

    /// An entry was not taken. What is in front of it may have been, and nothing behind it: a
    /// recipient takes none without the one in front. If the destination itself says so, it has
    /// seen all earlier copies too. Otherwise one of those may have been taken all the same, and
    /// then what was handed over behind this copy may have been as well.
    pub(super) fn refused(&mut self, place: Place, why: Refusal) {
        let in_front = place.before();
        let last = self.flights().last().map(|last| last.place);
        self.doubt_through = match last {
            _ if why.is_authoritative() => in_front,
            Some(last) if place <= self.doubt_through => self.doubt_through.max(last),
            _ => self.doubt_through.max(in_front),
        };
    }

    /// The destination crashed while it handled an entry; returns how often so far.
    pub(super) fn crashed(&mut self, place: Place) -> u8 {
        let times = match self.crashes {
            Some((at, times)) if at == place => times.saturating_add(1),
            _ => 1,
        };
        self.crashes = Some((place, times));
        times
    }
}

#[cfg(test)]
mod tests;
