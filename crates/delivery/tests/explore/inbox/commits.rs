//! What is durable in a world of one user's log, what becomes of appends, and what a server that
//! starts makes of it.

use std::collections::VecDeque;
use std::sync::Arc;

use delivery::{
    Count, Inbox, InboxChanges, InboxLimits, Link, Place, Recovered, Recovery, SessionNumber,
    StoredEntry, StoredSession,
};

use super::world::{Conn, ENTRY_BYTES, NOW, Record, State, Stored, Then, World};

impl State {
    pub(crate) fn apply(&mut self, records: &[Record]) {
        for record in records {
            match record {
                Record::Entry(entry) => {
                    self.stored.waiting += u64::from(entry.to.is_for_account);
                    self.stored.entries.push(entry.clone());
                }
                Record::Changes(changes) => self.stored.apply(changes),
                Record::Taker(session, is_taker) => self.stored.take(*session, *is_taker),
            }
        }
    }

    pub(crate) fn commit(&mut self) {
        let Some(append) = self.appends.pop_front() else {
            return;
        };
        self.apply(&append.records);
        self.inbox.committed();
        // What comes of them goes behind those that are still under way.
        let mut then = VecDeque::from(append.then);
        while let Some(next) = then.pop_front() {
            self.perform(next);
            while let Some(effect) = self.inbox.poll_effect() {
                if self.appends.is_empty() {
                    then.push_back(Then::Effect(effect));
                } else {
                    self.emit(Then::Effect(effect));
                }
            }
        }
        self.poll();
    }

    /// The first append fails, and with it all that are behind it.
    pub(crate) fn fail_commits(&mut self) {
        let appends = std::mem::take(&mut self.appends);
        let mut kept = Vec::new();
        for then in appends.into_iter().flat_map(|append| append.then) {
            match then {
                Then::PageCommitted(consumer) => {
                    self.seen.page_failed = true;
                    self.inbox.page_failed(consumer);
                }
                Then::Resumed(session, conn, _) | Then::Adopted(session, conn, _) => {
                    self.inbox.not_resumed(session, conn);
                }
                Then::Effect(_) | Then::Unlogged(_) => kept.push(then),
                Then::Write(..) | Then::ChangesCommitted => {}
            }
        }
        self.next = self.tail().number() + 1;
        let waiting = self.stored.waiting;
        let waiting = (waiting, waiting * u64::from(ENTRY_BYTES));
        self.inbox
            .failed(self.tail(), (self.stored.mark, waiting), NOW);
        for then in kept {
            self.perform(then);
        }
        self.poll();
    }

    /// Takes what is to be recorded with the next append. If the account's mark is `mark_every`
    /// places ahead of what is recorded, it must be part of that. After a restart nothing is
    /// checked: then the inbox may count from a later mark than the store has.
    pub(super) fn take_changes(&mut self, world: &World) -> Option<Record> {
        let recorded = self.recorded_mark();
        let changes = self.inbox.take_changes()?;
        let ahead = (self.inbox.mark().number()).saturating_sub(recorded.number());
        if ahead >= world.limits.mark_every && !world.restarts() {
            self.seen.mark_far = true;
            if changes.account.is_none() {
                self.wrong = Some("a mark is far ahead of what is recorded, and is not recorded");
            }
        }
        Some(Record::Changes(changes))
    }

    /// The account's mark, as it is recorded once all appends are committed.
    fn recorded_mark(&self) -> Place {
        let records = self.appends.iter().flat_map(|append| &append.records);
        let mut marks = records.filter_map(|record| match record {
            Record::Changes(changes) => changes.account.as_ref().map(|account| account.mark),
            Record::Entry(_) | Record::Taker(..) => None,
        });
        marks.next_back().unwrap_or(self.stored.mark)
    }

    /// The server ends; its log, and what clients have, is all that is left.
    pub(crate) fn kill(&mut self, world: &World) {
        self.appends.clear();
        self.effects.clear();
        self.acked.clear();
        for device in &mut self.devices {
            device.conn = None;
            device.asked.clear();
            device.wire.clear();
            let is_stored = |session| self.stored.sessions.iter().any(|(own, _)| *own == session);
            device.session = device.session.filter(|session| is_stored(*session));
        }
        self.next = self.tail().number() + 1;
        self.inbox = self.stored.recover(&world.limits);
        self.poll();
    }

    /// The user's actor crashes, and so many of its appends happen. The next one adopts the
    /// connections that its sessions have.
    pub(crate) fn crash(&mut self, world: &World, committed: usize) {
        for append in std::mem::take(&mut self.appends).iter().take(committed) {
            self.apply(&append.records);
        }
        self.effects.clear();
        self.acked.clear();
        for device in &mut self.devices {
            let link = device.session.and_then(|session| self.inbox.link(session));
            let link = link.and_then(|link| match link {
                Link::Attached(conn) | Link::Resuming(conn) => Some(conn),
                Link::Detached => None,
            });
            device.asked.clear();
            if device.conn != link {
                device.conn = None;
            }
            if device.conn.is_none() {
                device.wire.clear();
            }
        }
        self.next = self.tail().number() + 1;
        self.inbox = self.stored.recover(&world.limits);
        for device in &self.devices {
            if let (Some(session), Some(conn)) = (device.session, device.conn) {
                let counts = (device.acked, device.written());
                self.inbox.adopt(session, conn, counts);
            }
        }
        if self.left.crashes == 0 {
            // What no crash can need makes no state another.
            for device in &mut self.devices {
                device.acked = Count::default();
            }
        }
        self.poll();
    }

    /// The first append is reported as failed, and has happened: the user begins anew.
    pub(crate) fn in_doubt(&mut self, world: &World) {
        if let Some(append) = self.appends.pop_front() {
            self.apply(&append.records);
        }
        self.seen.in_doubt = true;
        self.kill(world);
    }

    pub(crate) fn note_bounds(&mut self, world: &World) {
        self.seen.listed |= self.inbox.listed() > 0;
        let is_full = self.inbox.listed() >= world.limits.listed_max;
        self.seen.list_full |= is_full && self.inbox.has_left();
        if self.inbox.listed() > world.limits.listed_max {
            self.wrong = Some("the list is longer than it may be");
        }
    }
}

impl Stored {
    fn take(&mut self, session: SessionNumber, is_taker: bool) {
        let mut sessions = self.sessions.iter_mut();
        if let Some((_, own)) = sessions.find(|(own, _)| *own == session) {
            own.is_taker = is_taker;
        }
    }

    pub(super) fn apply(&mut self, changes: &InboxChanges) {
        if let Some(account) = &changes.account {
            self.mark = account.mark;
            self.waiting = account.waiting.0;
            self.listed.clone_from(&account.listed);
        }
        for change in &changes.sessions {
            let mut sessions = self.sessions.iter_mut();
            if let Some((_, own)) = sessions.find(|(own, _)| *own == change.session) {
                own.void_through = change.void_through;
                own.numbered.clone_from(&change.numbered);
                let first = change.numbered.iter().map(|(_, place)| *place).min();
                if let Some(first) = first {
                    own.acked = own.acked.min(first.before());
                }
            }
        }
        for (session, acked) in &changes.acknowledged {
            let mut sessions = self.sessions.iter_mut();
            if let Some((_, own)) = sessions.find(|(own, _)| own == session) {
                own.acked = own.acked.max(*acked);
            }
        }
        if let Some(left) = &changes.left {
            self.left.clone_from(left);
            let is_left = |session: &SessionNumber| left.iter().any(|own| own.session == *session);
            self.sessions.retain(|(session, _)| !is_left(session));
        }
        self.sessions
            .retain(|(session, _)| !changes.removed.contains(session));
        self.left
            .retain(|part| !changes.removed.contains(&part.session));
    }

    /// What a server that starts makes of it.
    pub(crate) fn recover(&self, limits: &Arc<InboxLimits>) -> Inbox<Conn> {
        let tail = self.entries.last();
        let tail = tail.map_or(Place::START, |entry| entry.place);
        let recovered = self.recovered(tail);
        let account = recovered.account(&self.listed);
        let left = self.left.clone();
        Inbox::recover(
            Arc::clone(limits),
            tail,
            &account,
            &recovered.sessions,
            left,
        )
    }

    fn recovered(&self, tail: Place) -> Recovered {
        let sessions = self.sessions.iter().map(|(session, own)| StoredSession {
            session: *session,
            is_taker: own.is_taker,
            is_of_before: false,
            acked: own.acked,
            void_through: own.void_through,
            numbered: own.numbered.clone(),
        });
        // If nothing waits, nobody looks through what is not for the account.
        let mark = if self.waiting == 0 { tail } else { self.mark };
        let mut recovery = Recovery::new(mark, sessions.collect());
        let floor = recovery.floor().unwrap_or(mark);
        for entry in self.entries.iter().filter(|entry| entry.place > floor) {
            recovery.note(StoredEntry {
                place: entry.place,
                bytes: ENTRY_BYTES,
                to: &entry.to,
                counts: &entry.counts,
            });
        }
        recovery.finish(tail)
    }
}
