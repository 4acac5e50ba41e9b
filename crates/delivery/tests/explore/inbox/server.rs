//! What the server does in a world of one user's log: effects and writes in their order, pages, and
//! what is appended.

use delivery::{
    Consumer, Count, Entry, Failure, Given, InboxEffect as Effect, InboxPage as Page, Link, Place,
    SessionNumber, Wanted,
};

use super::world::{Append, Conn, Device, ENTRY_BYTES, Logged, NOW, Record, State, Then, World};

impl Device {
    /// Everything that its connection was written has this count, or a lower one.
    pub(super) fn written(&self) -> Count {
        self.handled.plus(self.wire.len() as u32)
    }

    /// Entries are written behind that, with stanzas in no log between them.
    fn send(&mut self, entries: &[(Count, Place)], through: Count) {
        let mut next = self.written().plus(1);
        for (count, place) in entries {
            while count.is_after(next) {
                self.wire.push_back((next, None));
                next = next.plus(1);
            }
            self.wire.push_back((*count, Some(*place)));
            next = count.plus(1);
        }
        while !next.is_after(through) {
            self.wire.push_back((next, None));
            next = next.plus(1);
        }
    }
}

impl State {
    /// Lets something happen in its order: behind the commits under way.
    pub(super) fn emit(&mut self, then: Then) {
        match self.appends.back_mut() {
            Some(last) => last.then.push(then),
            None => self.perform(then),
        }
    }

    pub(crate) fn poll(&mut self) {
        while let Some(effect) = self.inbox.poll_effect() {
            self.emit(Then::Effect(effect));
        }
    }

    pub(super) fn perform(&mut self, then: Then) {
        match then {
            Then::Effect(effect) => self.perform_effect(effect),
            Then::PageCommitted(consumer) => self.inbox.page_committed(consumer),
            Then::ChangesCommitted => self.inbox.changes_committed(),
            Then::Unlogged(session) => self.write(session, None, None),
            Then::Write(session, place, Given::Numbered(count)) => {
                self.write(session, Some(place), Some(count));
            }
            Then::Write(session, place, _) => {
                self.seen.plain = true;
                if !self.done.contains(&place) {
                    self.done.push(place);
                    self.done.sort_unstable();
                }
                // One that has gone was not told: the weaker promise ends with the record.
                if let Some(device) = self.device_of(session) {
                    device.seen.push(place);
                    self.acked.push(place);
                }
            }
            Then::Resumed(session, conn, again) => self.resumed(session, conn, &again),
            Then::Adopted(session, conn, rest) => self.adopted(session, conn, &rest),
        }
    }

    pub(super) fn write(
        &mut self,
        session: SessionNumber,
        place: Option<Place>,
        noted: Option<Count>,
    ) {
        let Some(count) = self.inbox.wrote(session, place.is_some()) else {
            return;
        };
        if noted.is_some_and(|noted| noted != count) {
            self.wrong = Some("an entry is written with another count than it was given");
        }
        if let Some(Link::Attached(conn)) = self.inbox.link(session)
            && let Some(device) = self.device_of(session)
            && device.conn == Some(conn)
        {
            device.wire.push_back((count, place));
        }
    }

    pub(super) fn resumed(&mut self, session: SessionNumber, conn: Conn, again: &[(Count, Place)]) {
        if !self.inbox.resumed(session, conn) {
            return;
        }
        self.seen.resumed = true;
        let may_crash = self.left.crashes > 0;
        let written = self.inbox.written(session).unwrap_or_default();
        if let Some(device) = self.device_of(session)
            && device.asked.contains(&conn)
        {
            device.asked.retain(|asked| *asked != conn);
            device.conn = Some(conn);
            if may_crash {
                device.acked = device.handled;
            }
            // Counts in between are of stanzas in no log, which are sent again as well.
            device.wire.clear();
            device.send(again, written);
        }
    }

    /// What a session had not been written is recorded, and leaves.
    fn adopted(&mut self, session: SessionNumber, conn: Conn, rest: &[(Count, Place)]) {
        if !self.inbox.resumed(session, conn) {
            return;
        }
        self.seen.adopted = true;
        self.seen.adopted_behind |= !rest.is_empty();
        let written = self.inbox.written(session).unwrap_or_default();
        if let Some(device) = self.device_of(session)
            && device.conn == Some(conn)
        {
            device.send(rest, written);
        }
    }

    pub(super) fn perform_effect(&mut self, effect: Effect<Conn>) {
        match effect {
            Effect::Cut(conn) => {
                self.seen.cut = true;
                let mut devices = self.devices.iter_mut();
                if let Some(device) = devices.find(|device| device.conn == Some(conn)) {
                    device.conn = None;
                    device.wire.clear();
                }
            }
            Effect::Fail { link, why } => {
                match why {
                    Failure::Conflict => self.seen.conflict = true,
                    Failure::Unknown => self.seen.unknown = true,
                    Failure::Unread => self.seen.not_resumed = true,
                }
                let mut devices = self.devices.iter_mut();
                if let Some(device) = devices.find(|device| device.asked.contains(&link)) {
                    device.asked.retain(|asked| *asked != link);
                    if why == Failure::Unknown {
                        device.session = None;
                    }
                }
                let mut devices = self.devices.iter_mut();
                if let Some(device) = devices.find(|device| device.conn == Some(link)) {
                    // It was being adopted: its stream ends.
                    self.seen.not_adopted = true;
                    device.conn = None;
                    device.wire.clear();
                }
            }
            // What takes time is a step of its own.
            other => self.effects.push_back(other),
        }
    }

    /// The first of what is to be read is, or cannot be.
    pub(crate) fn read(&mut self, world: &World, is_readable: bool) {
        match self.effects.pop_front() {
            Some(Effect::Read {
                id,
                consumer,
                wanted,
            }) => {
                let page = is_readable.then(|| self.page(&wanted));
                self.note_page(world, consumer, &wanted, page.as_ref());
                let given = self.inbox.handle_page(id, consumer, page.as_ref(), NOW);
                self.seen.read_again |= !is_readable;
                if let (Some(given), Some(page)) = (given, page) {
                    self.give(world, consumer, &given, &page);
                }
            }
            Some(Effect::ReadAgain { session, link }) if is_readable => {
                self.read_again(world, session, link);
            }
            Some(Effect::ReadAgain { session, link }) => self.inbox.not_resumed(session, link),
            Some(Effect::Cut(_) | Effect::Fail { .. }) | None => {}
        }
        self.poll();
    }

    /// What a session is sent again was read.
    fn read_again(&mut self, world: &World, session: SessionNumber, link: Conn) {
        let mut devices = self.devices.iter();
        if let Some(device) = devices.find(|device| device.conn == Some(link)) {
            let rest = self.inbox.unacknowledged(session, device.written());
            let rest = rest.map(|(count, place)| (count.unwrap_or_default(), place));
            let adopted = Then::Adopted(session, link, rest.collect());
            let records = self.take_changes(world);
            return self.append(records.into_iter().collect(), vec![adopted]);
        }
        let mut devices = self.devices.iter();
        let handled = devices.find(|device| device.session == Some(session));
        let h = handled.map_or(Count::default(), |device| device.handled);
        let before = self.stored_count(session);
        let again: Vec<_> = self.inbox.unacknowledged(session, h).collect();
        let written = self.inbox.written(session).unwrap_or_default();
        // Nobody knows the counts of before a restart.
        let is_anew = world.gives_up || self.inbox.is_recovered(session);
        let counts: Vec<Count> = (1..)
            .zip(&again)
            .map(|(at, (count, _))| match (is_anew, count) {
                (false, Some(count)) => *count,
                _ => h.plus(at),
            })
            .collect();
        let sent = if is_anew {
            h.plus(again.len() as u32)
        } else {
            written
        };
        let resent = self
            .inbox
            .handle_resent(session, link, (h, sent), counts.iter().copied());
        match resent {
            Ok(true) => {
                self.note_acked(session);
                self.seen.renumbered |= before.is_some_and(|before| before != counts);
                let records = self.take_changes(world);
                let places = again.into_iter().map(|(_, place)| place);
                let again = counts.into_iter().zip(places).collect();
                let resumed = Then::Resumed(session, link, again);
                self.append(records.into_iter().collect(), vec![resumed]);
            }
            Ok(false) => {}
            Err(_) => self.wrong = Some("a client has more than it was sent"),
        }
    }

    /// The counts that a session's record lists, if it does.
    pub(super) fn stored_count(&self, session: SessionNumber) -> Option<Vec<Count>> {
        let mut sessions = self.stored.sessions.iter();
        let (_, stored) = sessions.find(|(own, _)| *own == session)?;
        (!stored.numbered.is_empty()).then(|| {
            stored
                .numbered
                .iter()
                .filter_map(|(count, _)| *count)
                .collect()
        })
    }

    fn note_page(
        &mut self,
        world: &World,
        consumer: Consumer,
        wanted: &Wanted,
        page: Option<&Page>,
    ) {
        let Some(page) = page else { return };
        self.seen.page_full |= page.entries.len() == world.limits.page;
        let Consumer::Session(session) = consumer else {
            self.seen.ended_read = true;
            let names = |entry: &Entry| entry.to.sessions.len() > 1;
            self.seen.held_copy |= page.entries.iter().any(names);
            return;
        };
        self.seen.list_read |= matches!(wanted, Wanted::Places(_)) && !page.entries.is_empty();
        for entry in &page.entries {
            self.seen.page = true;
            if !entry.to.name(session) {
                self.seen.backlog = true;
            }
        }
    }

    pub(super) fn give(
        &mut self,
        world: &World,
        consumer: Consumer,
        given: &[(usize, Given)],
        page: &Page,
    ) {
        let records = self.take_changes(world).into_iter().collect();
        let mut then = Vec::new();
        // One that ceases to take messages may have acknowledged more than the account's mark says.
        let is_exact = world.budget.changes_of_mind == 0;
        if let Consumer::Session(session) = consumer {
            for (at, given) in given {
                let entry = &page.entries[*at];
                let is_backlog = !entry.to.name(session);
                if is_exact && is_backlog && self.acked.contains(&entry.place) {
                    self.wrong = Some("an entry that was acknowledged is given to another session");
                }
                then.push(Then::Write(session, entry.place, *given));
            }
        }
        then.push(Then::PageCommitted(consumer));
        self.append(records, then);
    }

    /// What a client acknowledged is known, as far as it has it.
    pub(super) fn note_acked(&mut self, session: SessionNumber) {
        let device = self.devices.iter().find(|own| own.session == Some(session));
        let seen = device.map(|device| device.seen.clone());
        self.acked.extend(seen.unwrap_or_default());
        self.acked.sort_unstable();
        self.acked.dedup();
    }

    pub(crate) fn append(&mut self, records: Vec<Record>, mut then: Vec<Then>) {
        if records.is_empty() {
            for then in then {
                self.emit(then);
            }
            return;
        }
        let removes =
            |record: &Record| matches!(record, Record::Changes(own) if !own.removed.is_empty());
        if records.iter().any(removes) {
            then.insert(0, Then::ChangesCommitted);
        }
        self.appends.push_back(Append { records, then });
    }

    pub(super) fn page(&self, wanted: &Wanted) -> Page {
        let entry = |own: &Logged| Entry {
            place: own.place,
            bytes: ENTRY_BYTES,
            to: own.to.clone(),
        };
        match wanted {
            Wanted::Places(places) => {
                let own = self.stored.entries.iter();
                let own = own.filter(|own| places.contains(&own.place));
                Page {
                    entries: own.map(entry).collect(),
                    through: Place::START,
                }
            }
            Wanted::Log {
                after,
                through,
                limit,
                filter,
            } => {
                let own = self.stored.entries.iter();
                let own = own.filter(|own| {
                    let is_in = own.place > *after && own.place <= *through;
                    is_in && filter.is_wanted(own.place, &own.to)
                });
                let entries: Vec<Entry> = own.take(*limit).map(entry).collect();
                let through = match entries.last() {
                    Some(last) if entries.len() == *limit => last.place,
                    _ => *through,
                };
                Page { entries, through }
            }
        }
    }
}
