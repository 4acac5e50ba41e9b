//! What clients do in a world of one user's log.

use delivery::{Given, Kind, Link, Place, Recipients, SessionNumber};

use super::world::{Device, ENTRY_BYTES, Logged, Record, State, StoredSessionParts, Then, World};

impl State {
    pub(crate) fn login(&mut self, world: &World, device: usize) {
        let kind = self.kind(world, device);
        if kind == Kind::Managed && !self.inbox.may_manage() {
            self.seen.sessions_full = true;
            return;
        }
        let session = SessionNumber::new(self.next_session);
        self.next_session += 1;
        let conn = self.conn();
        self.devices[device] = Device {
            session: Some(session),
            conn: Some(conn),
            ..Device::default()
        };
        self.inbox.open(session, kind, conn);
        if self.inbox.managed() > world.limits.sessions_max {
            self.wrong = Some("more sessions are managed than may be");
        }
        if kind == Kind::Managed {
            let tail = self.tail();
            let parts = StoredSessionParts {
                is_taker: true,
                acked: tail,
                ..StoredSessionParts::default()
            };
            self.stored.sessions.push((session, parts));
        }
        self.begin_taking(session, true);
    }

    pub(crate) fn arrive(&mut self, world: &World, to: Recipients) {
        let place = Place::new(self.next);
        self.next += 1;
        let changes = self.take_changes(world);
        let (to, given) = self.inbox.append(place, to, ENTRY_BYTES);
        let counts = given.iter().filter_map(|(session, given)| match given {
            Given::Numbered(count) => Some((*session, *count)),
            Given::Uncounted | Given::Later => None,
        });
        let counts = counts.collect();
        let mut then = Vec::new();
        for (session, given) in given {
            self.note_window(world, session, given);
            if given != Given::Later {
                then.push(Then::Write(session, place, given));
            }
        }
        let entry = Record::Entry(Logged { place, to, counts });
        self.append(changes.into_iter().chain([entry]).collect(), then);
        self.poll();
    }

    /// Notes at which bound of its window a session is not given an entry that is being appended.
    /// One that is given is within both bounds.
    fn note_window(&mut self, world: &World, session: SessionNumber, given: Given) {
        let is_given = matches!(given, Given::Numbered(_));
        let before = self.inbox.in_flight(session) - usize::from(is_given);
        let bytes = before * ENTRY_BYTES as usize;
        let of_messages = before >= world.limits.window;
        let of_bytes = bytes >= world.limits.window_bytes;
        if is_given && (of_messages || of_bytes) {
            self.wrong = Some("an entry is given to a session whose window is full");
        }
        let is_attached = matches!(self.inbox.link(session), Some(Link::Attached(_)));
        if given == Given::Later && is_attached {
            self.seen.window_full |= of_messages && !of_bytes;
            self.seen.bytes_full |= of_bytes && !of_messages;
        }
    }

    pub(crate) fn unlogged(&mut self, device: usize) {
        if let Some(session) = self.devices[device].session {
            self.inbox.will_write(session);
            self.emit(Then::Unlogged(session));
        }
    }

    pub(crate) fn receive(&mut self, device: usize) {
        let own = &mut self.devices[device];
        let Some((count, place)) = own.wire.pop_front() else {
            return;
        };
        own.handled = own.handled.plus(1);
        if count != own.handled {
            self.wrong = Some("a client counts otherwise than the server");
        }
        let Some(place) = place else { return };
        if own.seen.contains(&place) {
            self.wrong = Some("a client gets an entry twice in one session");
        }
        own.seen.push(place);
        if !self.done.contains(&place) {
            self.done.push(place);
            self.done.sort_unstable();
        }
    }

    /// The sessions that no client knows any more.
    pub(crate) fn orphans(&self) -> Vec<SessionNumber> {
        let is_known = |session: &SessionNumber| {
            let mut devices = self.devices.iter();
            devices.any(|device| device.session == Some(*session))
        };
        self.inbox.sessions().filter(|own| !is_known(own)).collect()
    }

    pub(crate) fn expire(&mut self, session: SessionNumber) {
        self.inbox.end(session);
        self.poll();
    }

    pub(crate) fn acknowledge(&mut self, device: usize) {
        let Some(session) = self.devices[device].session else {
            return;
        };
        let before = self.inbox.mark();
        let handled = self.devices[device].handled;
        if self.left.crashes > 0 {
            self.devices[device].acked = handled;
        }
        if self.inbox.acknowledge(session, handled).is_err() {
            self.wrong = Some("a client has more than it was sent");
        }
        self.note_acked(session);
        self.seen.mark_moved |= self.inbox.mark() > before;
        self.poll();
    }

    pub(crate) fn lose_link(&mut self, world: &World, device: usize) {
        let kind = self.kind(world, device);
        let own = &mut self.devices[device];
        let was = own.conn.take();
        own.wire.clear();
        let asked = std::mem::take(&mut own.asked);
        let Some(session) = own.session else { return };
        let is_its_own = match self.inbox.link(session) {
            Some(Link::Attached(_)) => asked.is_empty(),
            Some(Link::Resuming(conn)) => asked.contains(&conn) || was == Some(conn),
            Some(Link::Detached) | None => false,
        };
        match kind {
            Kind::Plain => self.end(device),
            Kind::Managed if is_its_own => self.inbox.detach(session),
            Kind::Managed => {}
        }
        self.poll();
    }

    pub(crate) fn resume(&mut self, device: usize) {
        let Some(session) = self.devices[device].session else {
            return;
        };
        let conn = self.conn();
        let own = &mut self.devices[device];
        own.asked.push(conn);
        self.inbox.resume(session, conn);
        self.poll();
    }

    pub(crate) fn end(&mut self, device: usize) {
        let own = std::mem::take(&mut self.devices[device]);
        if let Some(session) = own.session {
            self.inbox.end(session);
        }
        self.poll();
    }

    pub(crate) fn change_mind(&mut self, world: &World, device: usize) {
        let Some(session) = self.devices[device].session else {
            return;
        };
        let appended = self.appends.iter().flat_map(|append| &append.records);
        let last = appended.rev().find_map(|record| match record {
            Record::Taker(own, is_taker) if *own == session => Some(*is_taker),
            _ => None,
        });
        let mut sessions = self.stored.sessions.iter();
        let stored = sessions.find(|(own, _)| *own == session);
        let was_taker = last.or_else(|| stored.map(|(_, own)| own.is_taker));
        let is_taker = was_taker == Some(false);
        self.inbox.set_taker(session, is_taker);
        let changes = self.take_changes(world);
        let mut records = vec![Record::Taker(session, is_taker)];
        records.extend(changes);
        self.append(records, Vec::new());
        self.poll();
    }

    /// That a session takes messages is recorded together with where the account is.
    pub(super) fn begin_taking(&mut self, session: SessionNumber, is_taker: bool) {
        self.inbox.set_taker(session, is_taker);
        if let Some(changes) = self.inbox.take_changes() {
            self.stored.apply(&changes);
            self.inbox.changes_committed();
        }
        self.poll();
    }
}
