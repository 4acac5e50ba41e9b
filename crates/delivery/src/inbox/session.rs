//! One session as a consumer of its user's log: of what names it, and, while it takes messages for
//! the account, of what is for the account.

use std::collections::VecDeque;

use super::types::{Few, Filter, Given, Kind, Link, RecoveredSession, SessionChange, TooHigh};
use crate::bugs;
use crate::limits::InboxLimits;
use crate::outbox::ReadId;
use crate::place::{Count, Place, SessionNumber};

/// Entries in flight for which a session that has none keeps room.
const FLIGHT_KEPT: usize = 4;

/// An entry that a session was given and has not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InFlight {
    pub(crate) place: Place,
    /// `None` for one of an earlier life that was never sent.
    pub(crate) count: Option<Count>,
    pub(crate) bytes: u32,
    /// For the account, and not from its list.
    pub(crate) is_for_account: bool,
    /// For the session's own full address.
    pub(crate) is_addressed: bool,
}

const _: () = assert!(size_of::<InFlight>() == 24);

/// Entries for the account that are not behind `next` were given to the session; those up to `end`
/// may not name it, because it took none when they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Backlog {
    pub(crate) next: Place,
    pub(crate) end: Place,
}

impl Backlog {
    /// What is left of it behind a place.
    fn behind(self, place: Place) -> Option<Backlog> {
        let next = self.next.max(place);
        (next < self.end).then_some(Backlog { next, ..self })
    }
}

/// Whether a session takes messages for the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Taking {
    Never,
    Now,
    /// It did, up to here.
    Until(Place),
}

/// A read that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reading {
    pub(crate) id: ReadId,
    /// Of the account's list, and not of the log.
    pub(crate) is_of_list: bool,
    /// Of the session's backlog too, if it is of the log.
    pub(crate) is_of_backlog: bool,
}

/// A page on its way: positions move once it is recorded that it leaves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Giving {
    /// The position behind it.
    pub(crate) through: Option<Place>,
    /// What was read for it is of the backlog too: that moves as well. Whether the session takes
    /// messages by now says nothing of that.
    pub(crate) is_of_backlog: bool,
    /// What the session was given, by place; the last ones in its window if it is managed.
    pub(crate) places: Vec<Place>,
    /// Those of them for the account, and not from its list, with their bytes.
    pub(crate) of_account: Vec<(Place, u32)>,
}

impl Giving {
    /// How many of it are for the account behind its mark, and their bytes.
    pub(crate) fn of_account_behind(&self, mark: Place) -> (u64, u64) {
        let behind = self.of_account.iter().filter(|(place, _)| *place > mark);
        behind.fold((0, 0), |(count, all), (_, bytes)| {
            (count + 1, all + u64::from(*bytes))
        })
    }

    /// A backlog once the page has left.
    fn moves(&self, backlog: Option<Backlog>) -> Option<Backlog> {
        let through = self.through.filter(|_| self.is_of_backlog);
        backlog.and_then(|backlog| backlog.behind(through.unwrap_or(Place::START)))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Session<L> {
    pub(crate) kind: Kind,
    pub(crate) link: Link<L>,
    /// It began behind this place; one that outlived its home, at some time before that.
    pub(crate) opened: Place,
    /// What names it up to here was given to it, or is not for it.
    pub(crate) read: Place,
    pub(crate) taking: Taking,
    pub(crate) backlog: Option<Backlog>,
    /// Entries for the account up to here may not name the session although it was to be given
    /// them.
    pub(crate) began: Place,
    /// Entries for the account that one without stream management has as copies, while it takes
    /// none: its backlog gives them to it no more. In their order.
    pub(crate) copied: VecDeque<Place>,
    /// Stanzas written to it.
    pub(crate) written: Count,
    /// Entries of the log that wait for a commit: the last ones in flight.
    pub(crate) pending_entries: u32,
    /// Other stanzas that do.
    pub(crate) pending_others: u32,
    /// In the order of the counts; the last ones may be pending.
    pub(crate) flight: VecDeque<InFlight>,
    /// Bytes of those.
    pub(crate) flight_bytes: usize,
    /// It outlived its home, and its client has not said what it has.
    pub(crate) is_recovered: bool,
    pub(crate) reading: Option<Reading>,
    pub(crate) giving: Option<Box<Giving>>,
    /// It has ended, but for a page that is on its way.
    pub(crate) is_over: bool,
    /// Its entries were counted anew since that was recorded, or ever.
    pub(crate) is_list_due: bool,
    pub(crate) has_list: bool,
    pub(crate) is_ack_due: bool,
}

impl<L: Copy + Eq> Session<L> {
    pub(crate) fn new(kind: Kind, link: L, read: Place) -> Self {
        Session {
            kind,
            link: Link::Attached(link),
            opened: read,
            read,
            taking: Taking::Never,
            backlog: None,
            began: Place::START,
            copied: VecDeque::new(),
            written: Count::default(),
            pending_entries: 0,
            pending_others: 0,
            flight: VecDeque::new(),
            flight_bytes: 0,
            is_recovered: false,
            reading: None,
            giving: None,
            is_over: false,
            is_list_due: false,
            has_list: false,
            is_ack_due: false,
        }
    }

    /// One of an earlier life, detached.
    pub(crate) fn recovered(from: &RecoveredSession, tail: Place) -> Self {
        let flight: VecDeque<InFlight> = from
            .given
            .iter()
            .map(|entry| InFlight {
                place: entry.place,
                count: entry.count,
                bytes: entry.bytes,
                is_for_account: entry.is_for_account,
                is_addressed: entry.is_addressed,
            })
            .collect();
        // Who took messages before he ceased to has what was given to him, up to what was not.
        let (taking, backlog) = match from.backlog {
            _ if !from.is_taker => {
                let until = from.backlog.map_or(tail, |(next, _)| next);
                (Taking::Until(until), None)
            }
            Some((next, end)) => (Taking::Now, Some(Backlog { next, end })),
            None => (Taking::Now, None),
        };
        Session {
            kind: Kind::Managed,
            link: Link::Detached,
            opened: tail,
            read: from.read,
            taking,
            backlog,
            // Its list may have entries for the account that do not name it.
            began: tail,
            copied: VecDeque::new(),
            written: Count::default(),
            pending_entries: 0,
            pending_others: 0,
            flight_bytes: flight.iter().map(|entry| entry.bytes as usize).sum(),
            flight,
            is_recovered: true,
            reading: None,
            giving: None,
            is_over: false,
            is_list_due: false,
            has_list: true,
            is_ack_due: false,
        }
    }

    pub(crate) fn takes(&self) -> bool {
        self.taking == Taking::Now
    }

    /// The count that the next stanza will have.
    pub(crate) fn next_count(&self) -> Count {
        self.written
            .plus(self.pending_entries + self.pending_others + 1)
    }

    fn is_attached(&self) -> bool {
        matches!(self.link, Link::Attached(_))
    }

    /// Whether it can be asked for another page.
    pub(crate) fn may_read(&self) -> bool {
        self.is_attached() && self.reading.is_none() && self.giving.is_none()
    }

    pub(crate) fn has_in_flight(&self, place: Place) -> bool {
        self.flight.iter().any(|entry| entry.place == place)
    }

    /// Whether it has an entry of the account's list, or is going to.
    pub(crate) fn keeps(&self, place: Place) -> bool {
        let giving = self.giving.iter().flat_map(|giving| &giving.places);
        self.has_in_flight(place) || place > self.read || giving.clone().any(|own| *own == place)
    }

    /// How many more entries fit into its window; none if what is in flight is too much already.
    pub(crate) fn room(&self, limits: &InboxLimits) -> usize {
        let more = usize::from(bugs::is("bytes_take_one_more"));
        if self.flight_bytes >= limits.window_bytes + more {
            return 0;
        }
        limits.window.saturating_sub(self.flight.len())
    }

    /// Whether there is nothing in the log that it may be owed and was not given.
    pub(crate) fn has_caught_up(&self, appended: Place) -> bool {
        let has_backlog = self.backlog.is_some() && self.takes();
        self.read == appended && !has_backlog && self.giving.is_none()
    }

    /// Whether an entry that is appended now is written to it with its commit.
    pub(crate) fn is_live(&self, appended: Place, limits: &InboxLimits) -> bool {
        let has_room = self.kind == Kind::Plain || self.room(limits) > 0;
        self.is_attached() && self.reading.is_none() && self.has_caught_up(appended) && has_room
    }

    /// An entry is given to it; it is written with a commit that is under way.
    pub(crate) fn give(&mut self, mut entry: InFlight) -> Given {
        if self.kind == Kind::Plain {
            return Given::Uncounted;
        }
        let count = self.next_count();
        entry.count = Some(count);
        self.pending_entries += 1;
        self.flight_bytes += entry.bytes as usize;
        self.flight.push_back(entry);
        Given::Numbered(count)
    }

    /// From now on it takes messages for the account. `mark` is the account's.
    pub(crate) fn take(&mut self, mark: Place, appended: Place) {
        // Everything up to the place where it stopped was given to it, or is in its backlog.
        let seen = match (self.backlog, self.taking) {
            (Some(backlog), _) => backlog.next,
            (None, Taking::Until(until)) => until,
            (None, Taking::Never | Taking::Now) => Place::START,
        };
        let next = seen.max(mark);
        self.taking = Taking::Now;
        self.backlog = (next < appended).then_some(Backlog {
            next,
            end: appended,
        });
        self.began = appended;
        self.reading = None;
    }

    /// An entry that is still for the account is written to one that has no counts, as a copy. Of
    /// more than a window the first ones are forgotten, and would come again.
    pub(crate) fn has_copy(&mut self, place: Place, limits: &InboxLimits) {
        if self.copied.len() >= limits.window {
            self.copied.pop_front();
        }
        self.copied.push_back(place);
    }

    /// Everything up to a place was given to it, or is nobody's any more.
    pub(crate) fn forget_copies(&mut self, through: Place) {
        while self
            .copied
            .pop_front_if(|place| *place <= through)
            .is_some()
        {}
        if self.copied.is_empty() {
            self.copied = VecDeque::new();
        }
    }

    /// An entry for the account is appended behind `before`, and is read when its turn comes,
    /// although it does not name the session.
    pub(crate) fn take_later(&mut self, place: Place, before: Place) {
        match &mut self.backlog {
            Some(backlog) => backlog.end = place,
            None => {
                self.backlog = Some(Backlog {
                    next: before,
                    end: place,
                });
            }
        }
    }

    pub(crate) fn stop_taking(&mut self, appended: Place) {
        if self.takes() {
            self.taking = Taking::Until(appended);
            self.reading = None;
        }
    }

    /// Every entry for the account up to here is done with, as far as this session knows.
    pub(crate) fn account_through(&self) -> Option<Place> {
        self.account_through_before(self.backlog)
    }

    fn account_through_before(&self, backlog: Option<Backlog>) -> Option<Place> {
        let through = match self.taking {
            Taking::Never => return None,
            Taking::Now => self.read,
            Taking::Until(until) => until.min(self.read),
        };
        let backlog = backlog.map(|backlog| backlog.next);
        let flight = self.flight.iter().filter(|entry| entry.is_for_account);
        let flight = flight.map(|entry| entry.place.before()).min();
        [backlog, flight]
            .into_iter()
            .flatten()
            .fold(through, Place::min)
            .into()
    }

    /// The same once a page has left that was given to a session which is not managed.
    pub(crate) fn account_through_with(&self, giving: &Giving) -> Option<Place> {
        self.account_through_before(giving.moves(self.backlog))
    }

    /// Nothing up to here is owed to it.
    pub(crate) fn acked_through(&self) -> Place {
        let flight = self.flight.iter().map(|entry| entry.place.before());
        flight.fold(self.read, Place::min)
    }

    /// Of its backlog, what somebody else has acknowledged is nobody's any more.
    pub(crate) fn skip(&mut self, mark: Place) {
        self.backlog = self.backlog.and_then(|backlog| backlog.behind(mark));
    }

    /// What it is owed of the log, and behind which place.
    pub(crate) fn wanted(&self, session: SessionNumber) -> (Place, Filter) {
        let backlog = self.backlog.filter(|_| self.takes());
        let account = backlog.map(|backlog| (backlog.next, backlog.end));
        let after = account.map_or(self.read, |(next, _)| next.min(self.read));
        let filter = Filter::Session {
            session,
            named_after: self.read,
            account,
        };
        (after, filter)
    }

    /// A page has left.
    pub(crate) fn advance(&mut self, giving: &Giving) {
        if let Some(through) = giving.through {
            self.read = self.read.max(through);
        }
        self.backlog = giving.moves(self.backlog);
    }

    /// What has been written and is acknowledged by `h`.
    pub(crate) fn acknowledge(&mut self, h: Count) -> Result<Few<InFlight>, TooHigh> {
        if h.is_after(self.written) {
            return Err(TooHigh { sent: self.written });
        }
        let is_acked = |entry: &InFlight| entry.count.is_some_and(|count| !count.is_after(h));
        let acked = self.flight.iter().take_while(|entry| is_acked(entry));
        let acked = acked.count();
        let acked: Few<InFlight> = self.flight.drain(..acked).collect();
        self.note_acked(&acked);
        Ok(acked)
    }

    fn note_acked(&mut self, acked: &[InFlight]) {
        let bytes: usize = acked.iter().map(|entry| entry.bytes as usize).sum();
        self.flight_bytes -= bytes;
        self.is_ack_due |= !acked.is_empty();
        self.rest();
    }

    /// Gives memory back, but for the next few: most sessions are idle most of the time.
    fn rest(&mut self) {
        if self.flight.is_empty() && self.flight.capacity() > FLIGHT_KEPT {
            self.flight = VecDeque::new();
        }
    }

    /// The client is back and has handled `h`; gives what it has. What it has not got is counted as
    /// `counts` say, in that order, and all that is written to it again up to `sent`. After a
    /// restart nobody else knows its counts.
    pub(crate) fn resume(
        &mut self,
        h: Count,
        sent: Count,
        counts: impl IntoIterator<Item = Count>,
    ) -> Result<Few<InFlight>, TooHigh> {
        let acked = if self.is_recovered {
            let is_owed = |entry: &InFlight| entry.count.is_none_or(|count| count.is_after(h));
            let (owed, acked): (VecDeque<InFlight>, Few<InFlight>) = {
                let (mut owed, mut acked) = (VecDeque::new(), Few::new());
                for entry in self.flight.drain(..) {
                    if is_owed(&entry) {
                        owed.push_back(entry);
                    } else {
                        acked.push(entry);
                    }
                }
                (owed, acked)
            };
            self.flight = owed;
            self.note_acked(&acked);
            self.is_recovered = false;
            self.is_list_due = true;
            acked
        } else {
            self.acknowledge(h)?
        };
        let mut counts = counts.into_iter();
        for entry in &mut self.flight {
            let count = counts.next();
            self.is_list_due |= entry.count != count && !bugs::is("renumbered_is_not_recorded");
            entry.count = count;
        }
        self.written = sent;
        self.is_ack_due = true;
        Ok(acked)
    }

    /// Its connection is still there, though its home began anew: it was written everything up to
    /// the count `written`, and its client has acknowledged `h`; gives what the client has. What it
    /// was given and not written is counted anew behind that.
    pub(crate) fn adopt(&mut self, h: Count, written: Count) -> Few<InFlight> {
        let (mut sent, mut unsent, mut acked) = (VecDeque::new(), Vec::new(), Few::new());
        for entry in self.flight.drain(..) {
            match entry.count {
                Some(count) if !count.is_after(h) => acked.push(entry),
                Some(count) if !count.is_after(written) => sent.push_back(entry),
                _ => unsent.push(entry),
            }
        }
        self.written = written;
        for mut entry in unsent {
            self.written = self.written.plus(1);
            entry.count = Some(self.written);
            sent.push_back(entry);
        }
        self.flight = sent;
        self.note_acked(&acked);
        self.is_recovered = false;
        self.is_list_due = true;
        self.is_ack_due = true;
        acked
    }

    /// Takes back the last `entries` that wait for a commit.
    pub(crate) fn take_back(&mut self, entries: usize) {
        for _ in 0..entries {
            if let Some(entry) = self.flight.pop_back() {
                self.flight_bytes -= entry.bytes as usize;
            }
            self.pending_entries = self.pending_entries.saturating_sub(1);
        }
    }

    /// What is behind `tail` was not appended.
    pub(crate) fn failed(&mut self, tail: Place) {
        let lost = self.flight.iter().filter(|entry| entry.place > tail);
        self.take_back(lost.count());
        self.opened = self.opened.min(tail);
        self.began = self.began.min(tail);
        self.read = self.read.min(tail);
        self.copied.retain(|place| *place <= tail);
        self.reading = None;
        if let Taking::Until(until) = &mut self.taking {
            *until = (*until).min(tail);
        }
        if let Some(backlog) = &mut self.backlog {
            backlog.end = backlog.end.min(tail);
            if backlog.next >= backlog.end {
                self.backlog = None;
            }
        }
        // Of others nothing is recorded.
        self.is_ack_due = self.kind == Kind::Managed;
        self.is_list_due |= self.has_list;
    }

    /// What is to be recorded in front of whatever is written to it next.
    pub(crate) fn change(&mut self, session: SessionNumber) -> SessionChange {
        self.is_list_due = false;
        self.has_list = true;
        self.list(session)
    }

    pub(crate) fn list(&self, session: SessionNumber) -> SessionChange {
        let giving = self.giving.as_ref().and_then(|giving| giving.through);
        let numbered = self.flight.iter();
        SessionChange {
            session,
            void_through: giving.map_or(self.read, |through| through.max(self.read)),
            numbered: numbered.map(|entry| (entry.count, entry.place)).collect(),
        }
    }

    pub(crate) fn is_consistent(&self, appended: Place, limits: &InboxLimits) -> bool {
        let counts = self.flight.iter().filter_map(|entry| entry.count);
        let mut pairs = counts.clone().zip(counts.skip(1));
        let pending = self.pending_entries as usize;
        let bytes: usize = self.flight.iter().map(|entry| entry.bytes as usize).sum();
        let last = self.flight.back().and_then(|entry| entry.count);
        self.read <= appended
            && pairs.all(|(one, next)| next.is_after(one))
            && pending <= self.flight.len()
            && bytes == self.flight_bytes
            && (self.is_recovered || last.is_none_or(|last| !last.is_after(self.next_count())))
            && (self.has_list || self.flight.len() <= limits.window)
            && (self.kind == Kind::Managed || self.flight.is_empty())
            && self
                .backlog
                .is_none_or(|backlog| backlog.next < backlog.end && backlog.end <= appended)
    }
}
