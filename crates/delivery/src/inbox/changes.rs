//! What of an inbox is recorded, what it pins in the log, and how its numbers stand to each other.

use super::Inbox;
use super::session::Session;
use super::types::{AccountChange, Changes, Kind, Link, Recipients, SessionChange};
use crate::bugs;
use crate::place::{Count, Place, SessionNumber};

impl<L: Copy + Eq> Inbox<L> {
    /// The account's mark is among the next changes, although it would follow from the rest.
    pub fn record_mark(&mut self) {
        self.account.has_changed |= self.account.mark > self.account.recorded;
    }

    /// State that moved since it was taken last, as it is once what is given with it has left. It
    /// goes into one append.
    pub fn take_changes(&mut self) -> Option<Changes> {
        self.account.settle(self.appended);
        if !self.has_changes() {
            return None;
        }
        let mut changes = Changes {
            account: self.account_change(),
            ..Changes::default()
        };
        for (session, own) in self.sessions.iter_mut() {
            if own.is_list_due {
                changes.sessions.push(own.change(session));
            }
            if std::mem::take(&mut own.is_ack_due) {
                changes.acknowledged.push((session, own.acked_through()));
            }
        }
        changes.removed = std::mem::take(&mut self.ended.removed);
        if std::mem::take(&mut self.ended.has_changed) {
            let (left, removed) = self.ended.prospect();
            changes.left = Some(left);
            changes.removed.extend(removed);
        }
        if !changes.removed.is_empty() {
            self.unconfirmed.extend(&changes.removed);
            self.undecided += 1;
        }
        Some(changes)
    }

    /// The mark and the list once the pages under way have left.
    fn account_change(&mut self) -> Option<AccountChange> {
        let (mark, recorded) = (self.account.mark.number(), self.account.recorded.number());
        let is_far = mark.saturating_sub(recorded) >= self.limits.mark_every
            && !bugs::is("far_mark_is_not_recorded");
        let has_changed = std::mem::take(&mut self.account.has_changed);
        let is_due = has_changed || self.ended.giving.is_some();
        if !is_due && !is_far {
            return None;
        }
        let mut change = AccountChange {
            mark: match !is_due && bugs::is("far_mark_is_the_end") {
                true => self.appended,
                false => self.account.mark,
            },
            listed: self.account.places().collect(),
            waiting: self.account.waiting,
        };
        for own in self.sessions.all().filter(|own| own.kind == Kind::Plain) {
            let Some(giving) = &own.giving else { continue };
            if let Some(through) = own.account_through_with(giving)
                && through > change.mark
            {
                let of_account = giving.of_account_behind(self.account.mark);
                change.mark = through;
                change.waiting = match through >= self.account.last {
                    true => (0, 0),
                    false => self.account.waiting_without(of_account),
                };
            }
            let listed = &mut change.listed;
            listed.retain(|place| !giving.places.contains(place));
        }
        if let Some((listing, _)) = &self.ended.giving {
            let listed = &mut change.listed;
            // What somebody has is on no list that is recorded: after a restart nobody would know.
            let left = listing.places.iter();
            let left = left.filter(|(place, names)| self.holder(*place, names).is_some());
            listed.extend(left.map(|(place, _)| *place));
            listed.sort_unstable();
            listed.dedup();
        }
        self.account.recorded = change.mark;
        Some(change)
    }

    /// Whether [`Inbox::take_changes`] has any.
    pub fn has_changes(&self) -> bool {
        let is_due = |own: &Session<L>| own.is_list_due || own.is_ack_due;
        self.account.has_changed
            || self.ended.has_changed
            || !self.ended.removed.is_empty()
            || self.sessions.all().any(is_due)
    }

    /// Whether any of them should be recorded now, and not just with what comes next: sessions have
    /// ended, or what those left goes on the list.
    pub fn is_due(&self) -> bool {
        let has_ended = self.ended.has_changed || !self.ended.removed.is_empty();
        has_ended && self.read_again.is_none()
    }

    /// All that a session was given and has not acknowledged, if that has to be said whenever its
    /// record is written.
    pub fn list_of(&self, session: SessionNumber) -> Option<SessionChange> {
        let own = self.sessions.get(session)?;
        own.has_list.then(|| own.list(session))
    }

    /// Changes that were taken, in which sessions were removed, are durable.
    pub fn changes_committed(&mut self) {
        self.undecided = self.undecided.saturating_sub(1);
        if self.undecided == 0 {
            self.unconfirmed.clear();
        }
    }

    // ---- Getters -------------------------------------------------------------------------------

    /// The account's mark.
    pub fn mark(&self) -> Place {
        self.account.mark
    }

    /// How many entries wait for the account behind its mark or on its list, and the bytes of the
    /// former.
    pub fn waiting(&self) -> (u64, u64) {
        let (count, bytes) = match self.account.mark >= self.account.last {
            true => (0, 0),
            false => self.account.waiting,
        };
        (count + self.account.listed.len() as u64, bytes)
    }

    /// Whether every session that takes messages for the account is given them with their commits,
    /// and there is one. Then nothing that waits is overtaken by what is in no log.
    pub fn gives_at_once(&self) -> bool {
        let mut takers = self.sessions.all().filter(|own| own.takes());
        let (appended, limits) = (self.appended, &self.limits);
        takers.clone().next().is_some() && takers.all(|own| own.is_live(appended, limits))
    }

    /// Whether a session takes messages for the account.
    pub fn has_takers(&self) -> bool {
        self.sessions.all().any(Session::takes)
    }

    /// Whether a session is given an entry for its full address with its commit.
    pub fn is_live(&self, session: SessionNumber) -> bool {
        let own = self.sessions.get(session);
        own.is_some_and(|own| own.is_live(self.appended, &self.limits))
    }

    /// The last entry that was appended, committed or not.
    pub fn appended(&self) -> Place {
        self.appended
    }

    /// Where a session's stanzas go.
    pub fn link(&self, session: SessionNumber) -> Option<Link<L>> {
        self.sessions.get(session).map(|own| own.link)
    }

    /// Whether a session outlived its home, and its client has not been back since.
    pub fn is_recovered(&self, session: SessionNumber) -> bool {
        let own = self.sessions.get(session);
        own.is_some_and(|own| own.is_recovered)
    }

    /// How many stanzas a session was written.
    pub fn written(&self, session: SessionNumber) -> Option<Count> {
        self.sessions.get(session).map(|own| own.written)
    }

    /// The sessions that there are.
    pub fn sessions(&self) -> impl Iterator<Item = SessionNumber> {
        let sessions = self.sessions.iter().filter(|(_, own)| !own.is_over);
        sessions.map(|(session, _)| session)
    }

    /// Whether something that ended sessions left is still to be read.
    pub fn has_left(&self) -> bool {
        !self.ended.parts.is_empty()
    }

    /// Places on the account's list.
    pub fn listed(&self) -> usize {
        self.account.listed.len()
    }

    /// What a session was given and has not acknowledged.
    pub fn in_flight(&self, session: SessionNumber) -> usize {
        let own = self.sessions.get(session);
        own.map_or(0, |own| own.flight.len())
    }

    /// Whether a session is given entries with their commits.
    pub fn has_caught_up(&self, session: SessionNumber) -> bool {
        let own = self.sessions.get(session);
        own.is_some_and(|own| own.has_caught_up(self.appended))
    }

    /// Nothing up to here is owed to a session.
    pub fn acked_through(&self, session: SessionNumber) -> Option<Place> {
        self.sessions.get(session).map(Session::acked_through)
    }

    /// Nothing up to here is owed to anybody.
    pub fn floor(&self) -> Place {
        let waits = self.account.mark < self.account.last;
        let mark = waits.then_some(self.account.mark);
        let sessions = self.sessions.all().map(Session::acked_through);
        let listed = self.account.places().map(Place::before);
        let all = sessions.chain(listed).chain(self.ended.floor()).chain(mark);
        all.fold(self.appended, Place::min)
    }

    /// Whether an entry is owed to anybody: to a session that is there, or to one that is to come.
    pub fn owes(&self, place: Place, to: &Recipients) -> bool {
        let mut sessions = self.sessions.iter();
        let mut parts = self.ended.parts.iter();
        to.is_for_account && place > self.account.mark
            || self.account.places().any(|listed| listed == place)
            || parts.any(|part| part.has(place, to))
            || sessions.any(|(session, own)| {
                own.has_in_flight(place) || to.name(session) && place > own.read
            })
    }

    /// Whether the numbers stand to each other as they must: a bug here otherwise. For assertions
    /// and explorations.
    pub fn is_consistent(&self) -> bool {
        let mut sessions = self.sessions.all();
        let listed = &self.account.listed;
        let mut pairs = listed.iter().zip(listed.iter().skip(1));
        let is_there = |session: SessionNumber| self.sessions.get(session).is_some();
        sessions.all(|own| own.is_consistent(self.appended, &self.limits))
            && self.account.mark <= self.appended
            && self.account.last <= self.appended
            && self.account.recorded <= self.appended
            && pairs.all(|(one, next)| one.place < next.place)
            && listed
                .iter()
                .all(|listed| listed.held_by.is_none_or(is_there))
            && listed.iter().all(|listed| listed.place <= self.appended)
            && listed.len() <= self.limits.listed_max.max(self.limits.page)
            && self
                .ended
                .floor()
                .is_none_or(|floor| floor <= self.appended)
    }
}
