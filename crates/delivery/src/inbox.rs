//! The recipient's side: the account and every session of a user are consumers of his log.
//!
//! A consumer has a position, a filter and a window in flight. One that has caught up is given an
//! entry with its commit. One that has not, because its client is slow or gone, because it has just
//! come, or because it has just begun to take messages for the account, reads pages of the log from
//! its position on: lagging is no state of its own. Who is to get an entry is decided when it is
//! appended, and stands in it.
//!
//! * *A session* is owed what names it, and, while it takes messages for the account, what is for
//!   the account behind the account's mark.
//! * *The account*'s mark is the farthest place that any such session has acknowledged everything
//!   up to, or was written it if its client does not acknowledge. What a session left
//!   unacknowledged is thereby the next one's, and nothing has to be moved.
//! * *A full address* whose session ended unacknowledged is read once more by one further consumer
//!   ([`ended::Ended`]), and put on the account's list, the only list that there is. Whoever takes
//!   messages for the account next is given what is on it.
//!
//! # The life of one session
//!
//! | state | event | next state | effect |
//! |---|---|---|---|
//! | attached, caught up | append for it, room in its window | the same | written with its commit, numbered |
//! | attached, caught up | append for it, no room | attached, behind | |
//! | attached, behind | room in its window | reading | read a page |
//! | reading | page | giving | record the counts, then write |
//! | giving | recorded | attached, behind or caught up | |
//! | any of these | link lost | detached | |
//! | detached, attached | another connection resumes it | resuming | cut the old link, read what is resent |
//! | resuming | a further connection resumes it | resuming | fail the earlier request |
//! | resuming | read and recorded | attached | resend |
//! | detached, of an earlier life | its connection is still there | resuming | read what was not written |
//! | any | end | (left) | list what was for its full address |
//!
//! The caller performs the effects ([`Inbox::poll_effect`]), in the order of its appends, appends
//! [`Inbox::take_changes`] before anything that a method says to write, and reports what became of
//! them. Appends behind one that failed must fail too ([`Inbox::failed`]).

mod account;
mod changes;
mod ended;
mod pages;
mod recovery;
mod resumption;
mod session;
mod sessions;
#[cfg(test)]
mod tests;
mod types;

use std::collections::VecDeque;
use std::sync::Arc;

use stdx::time::Moment;

use crate::bugs;
use crate::limits::InboxLimits;
use crate::outbox::ReadId;
use crate::place::{Count, Place, SessionNumber};
use account::Account;
use ended::Ended;
pub use recovery::{Recovered, Recovery, StoredEntry, StoredSession};
use session::{InFlight, Session};
use sessions::Sessions;
pub use types::{
    AccountChange, Addressee, Changes, Consumer, Effect, Entry, Failure, Few, Filter, Given, Kind,
    Left, Link, Page, Recipients, RecoveredEntry, RecoveredSession, SessionChange, StoredAccount,
    TooHigh, Wanted,
};

/// How far the sessions of a user are with its log. `L` names a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inbox<L> {
    limits: Arc<InboxLimits>,
    /// The last entry that was appended, committed or not.
    appended: Place,
    account: Account,
    sessions: Sessions<L>,
    ended: Ended,
    /// Removed sessions whose records may still be there.
    unconfirmed: Vec<SessionNumber>,
    /// Changes with such sessions that were taken and are not decided.
    undecided: u32,
    last_read: ReadId,
    /// Reads that failed in a row, and appends.
    unread: u32,
    refused: u32,
    /// When reads are tried again.
    read_again: Option<Moment>,
    effects: VecDeque<Effect<L>>,
}

impl<L: Copy + Eq> Inbox<L> {
    /// Takes up what the store says: the last entry, the account's mark and list, the sessions, all
    /// of them detached, and what ended ones left.
    pub fn recover(
        limits: Arc<InboxLimits>,
        tail: Place,
        stored: &StoredAccount<'_>,
        sessions: &[RecoveredSession],
        left: Vec<Left>,
    ) -> Self {
        let mut account = Account::new(stored);
        account.settle(tail);
        for from in sessions {
            for entry in &from.given {
                let listed = account.listed.iter_mut();
                let mut listed = listed.filter(|listed| listed.held_by.is_none());
                if let Some(listed) = listed.find(|listed| listed.place == entry.place) {
                    listed.held_by = Some(from.session);
                }
            }
        }
        let sessions = sessions.iter();
        let sessions = sessions.map(|from| (from.session, Session::recovered(from, tail)));
        let mut inbox = Inbox {
            limits,
            appended: tail,
            account,
            sessions: sessions.collect(),
            ended: Ended::new(left),
            unconfirmed: Vec::new(),
            undecided: 0,
            last_read: ReadId::default(),
            unread: 0,
            refused: 0,
            read_again: None,
            effects: VecDeque::new(),
        };
        inbox.read_ended();
        inbox
    }

    // ---- Sessions ------------------------------------------------------------------------------

    /// Whether one more session may be managed: each has room for what it may leave.
    pub fn may_manage(&self) -> bool {
        let more = usize::from(bugs::is("sessions_take_one_more"));
        self.managed() < self.limits.sessions_max + more
    }

    /// Managed sessions, and ended ones of which something is left.
    pub fn managed(&self) -> usize {
        let managed = self.sessions.all();
        let managed = managed.filter(|own| own.kind == Kind::Managed).count();
        managed + self.ended.parts.len()
    }

    /// A session begins behind everything that was appended.
    pub fn open(&mut self, session: SessionNumber, kind: Kind, link: L) {
        let own = Session::new(kind, link, self.appended);
        self.sessions.put(session, own);
    }

    /// Whether a session was there when the entry at a place was appended. One that outlived its
    /// home is not known to have been.
    pub fn was_there(&self, session: SessionNumber, place: Place) -> bool {
        let own = self.sessions.get(session);
        own.is_some_and(|own| own.opened < place)
    }

    /// A session takes messages for the account from now on, or does not any more. What makes it so
    /// is recorded together with [`Inbox::take_changes`]: it begins at the account's mark, and must
    /// not begin earlier after a restart.
    /// False if that is no news.
    pub fn set_taker(&mut self, session: SessionNumber, is_taker: bool) -> bool {
        self.account.settle(self.appended);
        let (mark, appended) = (self.account.mark, self.appended);
        let Some(own) = self.sessions.get_mut(session) else {
            return false;
        };
        if own.takes() == is_taker {
            return false;
        }
        self.account.has_changed |= own.kind == Kind::Managed && mark > self.account.recorded;
        if is_taker {
            own.take(mark, appended);
        } else {
            own.stop_taking(appended);
        }
        self.let_go(session);
        self.read_all();
        true
    }

    /// A session has lost its link. What it has in flight stays; it is given nothing more.
    pub fn detach(&mut self, session: SessionNumber) {
        if let Some(own) = self.sessions.get_mut(session) {
            own.link = Link::Detached;
            own.reading = None;
            self.let_go(session);
            self.read_all();
        }
    }

    /// A session is over. What it did not acknowledge is the account's.
    pub fn end(&mut self, session: SessionNumber) {
        if let Some(own) = self.sessions.get_mut(session)
            && own.kind == Kind::Plain
            && own.giving.is_some()
        {
            // What it is written with a commit that is under way counts as delivered, though it is
            // gone: the session goes with that.
            own.is_over = true;
            return self.detach(session);
        }
        let Some(own) = self.sessions.remove(session) else {
            return;
        };
        if let Link::Resuming(link) = own.link {
            let why = Failure::Unknown;
            self.effects.push_back(Effect::Fail { link, why });
        }
        self.account.release(session, |_| false);
        if own.kind == Kind::Managed {
            self.remember(session, &own);
            // What it has acknowledged is forgotten with it.
            self.account.has_changed |= self.account.mark > self.account.recorded;
            let unacked = own.flight.iter().filter(|entry| entry.is_addressed);
            let mut unacked: Vec<Place> = unacked.map(|entry| entry.place).collect();
            unacked.sort_unstable();
            let part = Left {
                session,
                after: own.read,
                unacked,
            };
            if part.floor() < self.appended {
                self.ended.leave(part);
                self.read_ended();
            } else {
                self.ended.removed.push(session);
            }
        }
        self.read_all();
    }

    /// Remembers what an ended session had acknowledged while another session may still leave
    /// entries of which it had copies: those must not be listed for the account.
    fn remember(&mut self, session: SessionNumber, own: &Session<L>) {
        let appended = self.appended;
        let may_leave = |other: &Session<L>| other.acked_through() < appended;
        let others = self.sessions.all();
        if self.ended.parts.is_empty() && !others.chain([own]).any(may_leave) {
            return self.ended.known.clear();
        }
        while self.ended.known.len() >= self.limits.sessions_max {
            self.ended.known.pop_front();
        }
        let mut unacked: Vec<Place> = own.flight.iter().map(|entry| entry.place).collect();
        unacked.sort_unstable();
        self.ended.known.push_back(Left {
            session,
            after: own.read,
            unacked,
        });
    }

    /// What a session's client says that it has handled.
    ///
    /// # Errors
    /// It was not sent so much: the session cannot go on.
    pub fn acknowledge(&mut self, session: SessionNumber, h: Count) -> Result<(), TooHigh> {
        let Some(own) = self.sessions.get_mut(session) else {
            return Ok(());
        };
        let acked = own.acknowledge(h)?;
        self.has(session, &acked);
        Ok(())
    }

    /// A session's client has entries.
    fn has(&mut self, session: SessionNumber, acked: &[InFlight]) {
        for entry in acked.iter().filter(|entry| !entry.is_for_account) {
            self.account.unlist(entry.place);
            self.account.has_changed |= self.ended.forget(entry.place);
        }
        // What is behind the mark that this makes waits for somebody else.
        let own = self.sessions.get(session);
        let through = own.and_then(Session::account_through);
        let passed = |place: Place| place > self.account.mark && Some(place) <= through;
        let of_account = acked.iter();
        let of_account = of_account.filter(|entry| entry.is_for_account && passed(entry.place));
        let of_account = of_account.fold((0, 0), |(count, bytes), entry| {
            (count + 1, bytes + u64::from(entry.bytes))
        });
        self.advance_account(session, of_account);
        self.read_for(session);
        if !acked.is_empty() {
            self.read_ended();
        }
    }

    /// A session has all for the account up to some place; of what was behind the mark so many
    /// entries and bytes.
    fn advance_account(&mut self, session: SessionNumber, of_account: (u64, u64)) {
        let Some(own) = self.sessions.get(session) else {
            return;
        };
        let Some(through) = own.account_through() else {
            return;
        };
        self.account.advance(through, of_account);
        // Of what does not name the session nobody could tell after a restart that it has it.
        let is_told = own.kind == Kind::Managed && own.began <= self.account.recorded;
        self.account.has_changed |= !is_told && self.account.mark > self.account.recorded;
    }

    // ---- Entries -------------------------------------------------------------------------------

    /// An entry is appended, in one append with [`Inbox::take_changes`] of before; its commit is
    /// under way. `to` names those that get copies; takers and the addressee are added. Returns for
    /// whom it is, as it has to say itself, and what each gets of it.
    pub fn append(
        &mut self,
        place: Place,
        mut to: Recipients,
        bytes: u32,
    ) -> (Recipients, Few<(SessionNumber, Given)>) {
        let before = std::mem::replace(&mut self.appended, place);
        self.address(&mut to, before);
        if to.is_for_account {
            self.account.append(place, before, bytes);
        }
        let mut given = Few::new();
        for (session, own) in self.sessions.iter_mut() {
            let is_live = own.is_live(before, &self.limits);
            let is_named = to.name(session);
            if own.kind == Kind::Plain {
                own.read = place;
                if is_named && to.is_for_account && own.takes() && !is_live {
                    own.take_later(place, before);
                    given.push((session, Given::Later));
                } else if is_named {
                    own.forget_copies(self.account.mark);
                    if to.is_for_account && !own.takes() {
                        own.has_copy(place, &self.limits);
                    }
                    given.push((session, Given::Uncounted));
                }
            } else if !is_named {
                if own.has_caught_up(before) && own.reading.is_none() {
                    own.read = place;
                }
            } else if is_live {
                own.read = place;
                let entry = InFlight {
                    place,
                    count: None,
                    bytes,
                    is_for_account: to.is_for_account,
                    is_addressed: to.is_addressed_to(session),
                };
                given.push((session, own.give(entry)));
            } else {
                if bugs::is("full_window_is_passed") && own.flight.len() >= self.limits.window {
                    own.read = place;
                }
                given.push((session, Given::Later));
            }
        }
        let sessions = &self.sessions;
        to.sessions.retain(|own| {
            sessions
                .get(*own)
                .is_some_and(|own| own.kind == Kind::Managed)
        });
        self.read_all();
        (to, given)
    }

    /// Completes for whom an entry is that is appended behind `before`.
    fn address(&self, to: &mut Recipients, before: Place) {
        let is_plain = |session| {
            let own = self.sessions.get(session);
            own.filter(|own| own.kind == Kind::Plain)
        };
        if let Addressee::Session(addressee) = to.addressee {
            // One that cannot be given it now, and remembers nothing beyond its connection, must
            // not be the only one.
            let is_late = |own: &Session<L>| !own.is_live(before, &self.limits);
            if is_plain(addressee).is_some_and(is_late) {
                to.is_for_account = true;
            } else if !to.is_for_account {
                to.sessions.push(addressee);
            }
        }
        if to.is_for_account {
            to.addressee = Addressee::Nobody;
            let takers = self.sessions.iter().filter(|(_, own)| own.takes());
            to.sessions.extend(takers.map(|(session, _)| session));
        }
        to.sessions.sort_unstable();
        to.sessions.dedup();
        let named = self.sessions.iter();
        let mut named = named.filter(|(session, own)| own.kind == Kind::Plain && to.name(*session));
        let is_late = |own: &Session<L>| to.is_for_account && own.takes();
        let mut late = named.clone().filter(|(_, own)| is_late(own));
        let is_written =
            named.next().is_some() && late.all(|(_, own)| own.is_live(before, &self.limits));
        if is_written {
            // To a client that does not acknowledge, written is delivered.
            to.is_for_account = false;
            to.addressee = Addressee::Nobody;
        }
    }

    /// The count that the next stanza written to a managed session will have; `None` for one whose
    /// client has not been back since a restart.
    pub fn next_count(&self, session: SessionNumber) -> Option<Count> {
        let own = self.sessions.get(session)?;
        (own.kind == Kind::Managed && !own.is_recovered).then(|| own.next_count())
    }

    /// A stanza that is in no log is about to be written to a managed session. Also to one whose
    /// client has not been back since a restart: it may be when the stanza's turn comes.
    pub fn will_write(&mut self, session: SessionNumber) {
        if let Some(own) = self.sessions.get_mut(session) {
            own.pending_others += 1;
        }
    }

    /// So many stanzas in no log are about to be written to a managed session: others were dropped
    /// with what they waited for.
    pub fn will_only_write(&mut self, session: SessionNumber, others: u32) {
        if let Some(own) = self.sessions.get_mut(session) {
            own.pending_others = others;
        }
    }

    /// The first stanza that waited for its commit is written to a managed session, or would have
    /// been, had it a link. Gives its count; none if it is passed over, because the client has not
    /// been back since a restart. `is_entry` says whether the log has it.
    pub fn wrote(&mut self, session: SessionNumber, is_entry: bool) -> Option<Count> {
        let own = self.sessions.get_mut(session)?;
        if !is_entry {
            own.pending_others = own.pending_others.saturating_sub(1);
        }
        if own.is_recovered {
            return None;
        }
        if is_entry {
            own.pending_entries = own.pending_entries.saturating_sub(1);
        }
        own.written = own.written.plus(1);
        Some(own.written)
    }

    /// An append failed and everything behind it with it, or somebody else appended something: the
    /// log ends at `tail`. Pages and resumptions that failed were reported before this call.
    /// `stored` is the recorded mark, and what waits for the account behind it. What was not
    /// recorded is among the next changes; pages are read again after a pause.
    pub fn failed(&mut self, tail: Place, stored: (Place, (u64, u64)), now: Moment) {
        let before = std::mem::replace(&mut self.appended, tail);
        self.undecided = 0;
        self.sessions.retain(|own| !own.is_over);
        for (_, own) in self.sessions.iter_mut() {
            own.failed(tail);
            if before < tail && own.takes() {
                // Appended by somebody else: it names nobody.
                own.take_later(tail, before);
            }
        }
        for at in 0..self.sessions.len() {
            self.let_go(self.sessions.at(at));
        }
        self.ended.failed(tail);
        // A session whose part is still to be read keeps its record.
        let parts = &self.ended.parts;
        self.unconfirmed
            .retain(|session| parts.iter().all(|part| part.session != *session));
        self.ended.removed.append(&mut self.unconfirmed);
        self.account.failed(tail, stored);
        self.refused = self.refused.saturating_add(1);
        self.wait(now);
    }

    /// An append is durable. If earlier ones failed, what waits for that is not put off any longer.
    pub fn committed(&mut self) {
        if std::mem::take(&mut self.refused) > 0 && self.unread == 0 {
            self.go_on();
        }
    }
}
