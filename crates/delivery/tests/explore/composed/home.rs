//! A user's home: its one journal, which commits, fails or is in doubt as a whole, and its crashes.

use super::world::{Record, State, User, World, peer};
use crate::outbox::world::State as Out;

impl User {
    /// Puts what the machines appended at the end of the journal: `first`, and whatever else there
    /// is.
    pub(super) fn line_up(&mut self, first: Option<Record>) {
        self.journal.extend(first);
        let (out, inbox) = count(self.journal.iter());
        let out = self.out.appends.len() - out;
        let inbox = self.inbox.appends.len() - inbox;
        let more = std::iter::repeat_n(Record::Out, out);
        self.journal
            .extend(more.chain(std::iter::repeat_n(Record::In, inbox)));
        // It is one log.
        let next = self.out.next.max(self.inbox.next);
        (self.out.next, self.inbox.next) = (next, next);
    }
}

/// How many of these records are of the outbox, and of the inbox.
fn count<'a>(records: impl Iterator<Item = &'a Record> + Clone) -> (usize, usize) {
    let out = records.clone();
    let out = out.filter(|own| matches!(own, Record::Out | Record::Returned));
    (
        out.count(),
        records.filter(|own| **own != Record::Out).count(),
    )
}

impl State {
    /// What a user knows of what the other sends him, and what is on its way to him.
    fn of_peer(&mut self, user: usize) -> &mut crate::outbox::world::Recipient {
        &mut self.users[peer(user)].out.recipients[user]
    }

    /// The first record of a user's journal is durable.
    pub(super) fn commit(&mut self, user: usize) {
        let own = &mut self.users[user];
        let Some(record) = own.journal.pop_front() else {
            return;
        };
        if matches!(record, Record::Out | Record::Returned) {
            own.out.commit();
            own.out.poll();
        }
        if record != Record::Out {
            own.inbox.commit();
        }
        self.note_durable(user, &record);
        if let Record::Taken(_) = record {
            let taken = self.users[peer(user)].out.take(user as u8);
            assert!(taken.is_some(), "what is taken is being taken");
        }
        self.users[user].line_up(None);
    }

    /// An entry of the log is durable, with what it was in the other's.
    fn note_durable(&mut self, user: usize, record: &Record) {
        let origins = &mut self.users[user].origins;
        match record {
            Record::Out | Record::In => {}
            Record::Taken(place) => origins.push(Some(*place)),
            Record::Returned => origins.push(None),
        }
    }

    /// The first record fails, and with it all that are behind it.
    pub(super) fn fail(&mut self, world: &World, user: usize) {
        Out::forget_taking(self.of_peer(user));
        let own = &mut self.users[user];
        own.journal.clear();
        own.out.fail_commits(world.users[user].out.limits);
        own.inbox.fail_commits();
        own.line_up(None);
    }

    /// A user's home ends, and so many of its records are durable: nobody is told. If only his
    /// actor crashes, his connections stay, and what is on its way to him.
    pub(super) fn end(&mut self, world: &World, user: usize, durable: usize, is_actor: bool) {
        let mut journal = std::mem::take(&mut self.users[user].journal);
        journal.truncate(durable);
        let (out, inbox) = count(journal.iter());
        for record in &journal {
            self.note_durable(user, record);
            if let Record::Taken(place) = record {
                self.of_peer(user).taken.push(*place);
            }
        }
        let to = self.of_peer(user);
        Out::forget_taking(to);
        if !is_actor {
            to.mailbox.clear();
            to.answers.clear();
        }
        let setup = &world.users[user];
        let own = &mut self.users[user];
        for append in std::mem::take(&mut own.out.appends).iter().take(out) {
            own.out.apply(append);
        }
        own.out.reload(setup.out.limits);
        if is_actor {
            own.inbox.crash(&setup.inbox, inbox);
        } else {
            for append in std::mem::take(&mut own.inbox.appends).iter().take(inbox) {
                own.inbox.apply(&append.records);
            }
            own.inbox.kill(&setup.inbox);
        }
        own.line_up(None);
    }
}
