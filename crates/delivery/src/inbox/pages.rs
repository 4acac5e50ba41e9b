//! What consumers read: who is asked for a page, and what becomes of it.

use stdx::time::Moment;

use super::Inbox;
use super::session::{Giving, InFlight, Reading, Session};
use super::types::{Consumer, Effect, Entry, Given, Kind, Page, Wanted};
use crate::bugs;
use crate::outbox::ReadId;
use crate::place::{Place, SessionNumber};

impl<L: Copy + Eq> Inbox<L> {
    // ---- Asking --------------------------------------------------------------------------------

    /// Reads what a session is owed next, if it has room: first of the account's list, which is the
    /// oldest, then of the log.
    pub(super) fn read_for(&mut self, session: SessionNumber) {
        let (appended, mark) = (self.appended, self.account.mark);
        let Some(own) = self.sessions.get_mut(session) else {
            return;
        };
        own.skip(mark);
        let room = match own.kind {
            Kind::Managed => own.room(&self.limits).min(self.limits.page),
            Kind::Plain => self.limits.page,
        };
        if !own.may_read() || room == 0 || self.read_again.is_some() {
            return;
        }
        let mut listed = Vec::new();
        if own.takes() {
            let is_given = |place: Place| place > own.read || own.has_in_flight(place);
            listed = self.account.hold(session, room, is_given);
        }
        let is_of_list = !listed.is_empty();
        let wanted = if is_of_list {
            Wanted::Places(listed)
        } else if own.has_caught_up(appended) {
            return;
        } else {
            let (after, filter) = own.wanted(session);
            Wanted::Log {
                after,
                through: appended,
                limit: room,
                filter,
            }
        };
        let id = self.last_read.next();
        own.reading = Some(Reading {
            id,
            is_of_list,
            is_of_backlog: own.takes() && own.backlog.is_some(),
        });
        self.effects.push_back(Effect::Read {
            id,
            consumer: Consumer::Session(session),
            wanted,
        });
    }

    pub(super) fn read_all(&mut self) {
        for at in 0..self.sessions.len() {
            self.read_for(self.sessions.at(at));
        }
    }

    /// Reads what ended sessions left, as far as the list has room.
    pub(super) fn read_ended(&mut self) {
        let max = self.limits.listed_max + usize::from(bugs::is("list_takes_one_more"));
        let room = max.saturating_sub(self.account.listed.len());
        let limit = room.min(self.limits.page);
        if limit == 0 || self.ended.is_busy() || self.read_again.is_some() {
            return;
        }
        let Some((after, filter)) = self.ended.wanted() else {
            return;
        };
        let id = self.last_read.next();
        self.ended.reading = Some((id, self.ended.parts.len(), self.appended));
        self.effects.push_back(Effect::Read {
            id,
            consumer: Consumer::Ended,
            wanted: Wanted::Log {
                after,
                through: self.appended,
                limit,
                filter,
            },
        });
    }

    /// A session holds no more of the account's list than it has.
    pub(super) fn let_go(&mut self, session: SessionNumber) {
        if let Some(own) = self.sessions.get(session) {
            self.account.release(session, |place| own.keeps(place));
        }
    }

    // ---- Answers -------------------------------------------------------------------------------

    /// What was asked for has been read, or could not be. Gives what the consumer gets of it, each
    /// with its index in the page: that is written behind [`Inbox::take_changes`], and its fate
    /// reported by [`Inbox::page_committed`] or [`Inbox::page_failed`]. `None` if nothing is to be
    /// recorded.
    pub fn handle_page(
        &mut self,
        id: ReadId,
        consumer: Consumer,
        page: Option<&Page>,
        now: Moment,
    ) -> Option<Vec<(usize, Given)>> {
        let Some(page) = page else {
            self.read_failed(id, consumer, now);
            return None;
        };
        match consumer {
            Consumer::Session(session) => self.session_page(id, session, page),
            Consumer::Ended => {
                let entries = page.entries.iter();
                let places = entries.map(|entry| (entry.place, entry.to.sessions.to_vec()));
                let is_asked = self.ended.read(id, places.collect(), page.through);
                if is_asked {
                    self.unread = 0;
                }
                is_asked.then(Vec::new)
            }
        }
    }

    fn session_page(
        &mut self,
        id: ReadId,
        session: SessionNumber,
        page: &Page,
    ) -> Option<Vec<(usize, Given)>> {
        let own = self.sessions.get_mut(session)?;
        // Otherwise something else happened to the session since.
        let reading = own.reading.take_if(|reading| reading.id == id)?;
        self.unread = 0;
        let is_of_list = reading.is_of_list;
        let mut given = Vec::new();
        let mark = self.account.mark;
        // What somebody else has acknowledged since is nobody's any more.
        let is_over = |entry: &Entry| {
            let is_backlog = entry.to.is_for_account && !entry.to.name(session);
            !is_of_list && is_backlog && entry.place <= mark
        };
        let copied = std::mem::take(&mut own.copied);
        let has = |entry: &Entry| !is_of_list && copied.contains(&entry.place);
        let entries = page.entries.iter().enumerate();
        for (at, entry) in entries.filter(|(_, entry)| !is_over(entry) && !has(entry)) {
            let entry = InFlight {
                place: entry.place,
                count: None,
                bytes: entry.bytes,
                is_for_account: !is_of_list && entry.to.is_for_account,
                is_addressed: !is_of_list && entry.to.is_addressed_to(session),
            };
            given.push((at, own.give(entry)));
        }
        own.copied = copied;
        let entries = given.iter().map(|(at, _)| &page.entries[*at]);
        // What it has as a copy is delivered with the page.
        let is_of_account =
            |entry: &&Entry| !is_of_list && entry.to.is_for_account && !is_over(entry);
        let of_account = page.entries.iter().filter(is_of_account);
        let is_full = page.entries.len() >= self.limits.page;
        let through = match is_full && bugs::is("session_page_is_all") {
            true => self.appended,
            false => page.through,
        };
        own.giving = Some(Box::new(Giving {
            through: (!is_of_list).then_some(through),
            is_of_backlog: reading.is_of_backlog,
            places: entries.map(|entry| entry.place).collect(),
            of_account: of_account.map(|entry| (entry.place, entry.bytes)).collect(),
        }));
        if !given.is_empty() {
            match own.kind {
                Kind::Managed => own.is_list_due = true,
                // To such a client written is delivered: that is durable before it is written.
                Kind::Plain => self.account.has_changed = true,
            }
        }
        if is_of_list {
            self.forget_missing(session);
        }
        if given.is_empty() {
            self.page_committed(Consumer::Session(session));
            return None;
        }
        Some(given)
    }

    /// What a session was to be given of the account's list and has left the log is nobody's.
    fn forget_missing(&mut self, session: SessionNumber) {
        let Some(own) = self.sessions.get(session) else {
            return;
        };
        let listed = self.account.listed.iter();
        let missing = listed
            .filter(|listed| listed.held_by == Some(session) && !own.keeps(listed.place))
            .map(|listed| listed.place);
        for place in missing.collect::<Vec<_>>() {
            self.account.unlist(place);
        }
    }

    /// A page has left.
    pub fn page_committed(&mut self, consumer: Consumer) {
        match consumer {
            Consumer::Session(session) => self.session_page_committed(session),
            Consumer::Ended => {
                for (place, names) in self.ended.committed() {
                    self.list(place, &names);
                }
                self.read_all();
                self.read_ended();
            }
        }
    }

    fn session_page_committed(&mut self, session: SessionNumber) {
        let Some(own) = self.sessions.get_mut(session) else {
            return;
        };
        let Some(giving) = own.giving.take() else {
            return;
        };
        own.advance(&giving);
        own.forget_copies(giving.through.unwrap_or(Place::START));
        let mut of_account = (0, 0);
        if own.kind == Kind::Plain {
            of_account = giving.of_account_behind(self.account.mark);
            for place in giving.places {
                self.account.unlist(place);
            }
        }
        self.advance_account(session, of_account);
        self.end_if_over(session);
        self.read_all();
        self.read_ended();
    }

    fn end_if_over(&mut self, session: SessionNumber) {
        if self.sessions.get(session).is_some_and(|own| own.is_over) {
            self.end(session);
        }
    }

    /// An entry for the full address of a session that ended: it is on the account's list unless a
    /// client has it that got a copy.
    pub(super) fn list(&mut self, place: Place, names: &[SessionNumber]) {
        match self.holder(place, names) {
            Some(holder) => self.account.list(place, holder),
            None => self.account.has_changed = true,
        }
    }

    /// Who of those that an entry names may still acknowledge it, if anybody; `None` if somebody
    /// has it.
    pub(super) fn holder(
        &self,
        place: Place,
        names: &[SessionNumber],
    ) -> Option<Option<SessionNumber>> {
        let mut holder = None;
        for name in names {
            match self.sessions.get(*name) {
                Some(own) if own.has_in_flight(place) || place > own.read => holder = Some(*name),
                Some(_) => return None,
                None if self.ended.had(*name, place) => return None,
                None => {}
            }
        }
        Some(holder)
    }

    /// A page has not left, and never was.
    pub fn page_failed(&mut self, consumer: Consumer) {
        match consumer {
            Consumer::Ended => self.ended.giving = None,
            Consumer::Session(session) => {
                if let Some(own) = self.sessions.get_mut(session)
                    && let Some(giving) = own.giving.take()
                    && own.kind == Kind::Managed
                {
                    own.take_back(giving.places.len());
                }
                self.let_go(session);
                self.end_if_over(session);
            }
        }
    }

    // ---- Reads that failed ---------------------------------------------------------------------

    fn read_failed(&mut self, id: ReadId, consumer: Consumer, now: Moment) {
        match consumer {
            Consumer::Ended => {
                if self.ended.reading.is_none_or(|(asked, ..)| asked != id) {
                    return;
                }
                self.ended.reading = None;
            }
            Consumer::Session(session) => {
                let own = self.sessions.get_mut(session);
                let asked = |own: &mut Session<L>| own.reading.take_if(|own| own.id == id);
                if own.and_then(asked).is_none() {
                    return;
                }
                self.let_go(session);
            }
        }
        self.unread = self.unread.saturating_add(1);
        self.wait(now);
    }

    /// Something failed: pages are asked for again after a pause.
    pub(super) fn wait(&mut self, now: Moment) {
        let failures = self.unread.max(self.refused);
        self.read_again = Some(now + self.limits.pause(failures));
    }

    pub(super) fn go_on(&mut self) {
        self.read_again = None;
        self.read_all();
        self.read_ended();
    }

    /// When [`Inbox::handle_timeout`] has something to do.
    pub fn deadline(&self) -> Option<Moment> {
        self.read_again
    }

    /// Time has passed: what could not be read is read again.
    pub fn handle_timeout(&mut self, now: Moment) {
        if self.read_again.is_some_and(|at| at <= now) {
            self.go_on();
        }
    }

    /// No answer to a read is to come any more: their ids may be given out again. For explorations,
    /// in which what was asked before is not to make two states of one.
    pub fn forget_reads(&mut self) {
        self.last_read = ReadId::default();
    }

    /// The next thing to do.
    pub fn poll_effect(&mut self) -> Option<Effect<L>> {
        let effect = self.effects.pop_front();
        if self.effects.is_empty() {
            self.effects = Default::default(); // Most are at rest, and then take no memory.
        }
        effect
    }
}
