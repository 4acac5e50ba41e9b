//! Messages that a user receives: for whom each is, which of them go into the log, and how they are
//! written to who gets them at once. Who reads them from there, and when, is decided by
//! [`delivery::Inbox`].

use actor::{Context, Mail, Name};
use delivery::{Addressee, Given, Place, Recipients, SessionNumber};
use net::ConnRef;
use store::{EntryFlags, Seq};
use telemetry::Counter;
use wire::{Source, Stanza};
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use super::User;
use super::layout::ADDRESSED;
use super::log::{Draft, frame_bytes};
use super::managed::What;
use super::session::Session;
use crate::address;
use crate::message::{Delivery, UserMsg};
use crate::modules::carbons::{self, Direction};
use crate::modules::{archive, hints, stanza_ids};

/// A message that is being received.
struct Received {
    from: Name,
    /// [`store::SlotKey::peer`] of that.
    peer: u64,
    frame: Frame,
    source: Source,
    origin: u64,
    is_archived: bool,
    /// The session whose full address it is for.
    addressed: Option<ConnRef>,
    /// Sessions that get copies.
    copies: Vec<ConnRef>,
    /// It is kept whatever waits.
    must_keep: bool,
}

/// A message of the user that comes back.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    /// Its place in the log.
    pub(super) place: Place,
    /// [`store::LogEntry::origin`] of it.
    pub(super) origin: u64,
}

impl User {
    /// A chat or normal message, for the session that holds its resource or for the account as a
    /// whole (RFC 6121 sections 8.5.2.1.1, 8.5.2.2.1 and 8.5.3.1).
    ///
    /// # Errors
    /// What its sender is told if there is no room for it.
    pub(super) fn receive(
        &mut self,
        delivery: Delivery,
        cx: &mut Context<'_, UserMsg>,
    ) -> Result<(), StanzaError> {
        self.receive_as(delivery, None, cx)
    }

    /// The error that returns a message of this user: for the session that sent it if that is
    /// there, else for the account. It is kept until somebody has it, whatever waits. `sent` is the
    /// message; one that was not accepted is not named.
    pub(super) fn receive_own_error(
        &mut self,
        error: Frame,
        sent: Option<Sent>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let to = error.attr("to").unwrap_or_default();
        let resource = address::split(&to).1;
        let place = sent.map(|sent| sent.place);
        let resource = resource.filter(|resource| self.may_be_told(resource, place));
        let delivery = Delivery::new(resource.map(Into::into), error.clone());
        let origin = sent.map_or(0, |sent| store::of_returned(sent.origin));
        let refused = self.receive_as(delivery, Some(origin), cx);
        debug_assert!(refused.is_ok(), "there is always room for an own error");
    }

    /// Whether the session that has a resource may be the only one that is told of a message which
    /// comes back. To one without stream management it is delivered once it is written, so only the
    /// one that sent the message may: another one that has taken the resource since may be gone
    /// before its client has had it counted, and nobody would be told any more. Of messages that
    /// were not accepted only those of counted sessions become entries.
    fn may_be_told(&self, resource: &str, sent: Option<Place>) -> bool {
        let at = self.place_of_session(resource);
        at.is_some_and(|at| {
            let session = &self.sessions[at];
            let number = SessionNumber::new(session.number);
            let inbox = self.log.as_ref().map(|log| &log.inbox);
            let has_sent = |place| inbox.is_some_and(|inbox| inbox.was_there(number, place));
            session.managed.is_some() || sent.is_some_and(has_sent)
        })
    }

    /// `error_of` is there for an error of the user's own, which must be kept: the origin that it
    /// is remembered by.
    fn receive_as(
        &mut self,
        delivery: Delivery,
        error_of: Option<u64>,
        cx: &mut Context<'_, UserMsg>,
    ) -> Result<(), StanzaError> {
        let Stanza {
            resource,
            frame,
            source,
            ..
        } = delivery.stanza;
        let addressed = resource
            .and_then(|resource| self.session_of(&resource))
            .map(|session| session.conn);
        let keep = hints::keep(&frame);
        let from = frame.attr("from").unwrap_or_default();
        let from = address::bare(&from);
        let must_keep = error_of.is_some();
        let origin = match error_of {
            Some(origin) => origin,
            None if from == &*self.name => self.origin_of(&frame, from),
            // It was recognised at their home.
            None => 0,
        };
        // What one sends to oneself does not come back.
        if !must_keep && self.sent_again(origin, cx).is_some() {
            return Ok(());
        }
        let is_archived = keep.archive && self.archives(from);
        let is_logged = must_keep
            || keep.log
                && (self.must_wait(addressed)
                    || is_archived
                    || source.seq != 0
                    || self.sessions.iter().any(|s| s.managed.is_some()));
        // With nobody there it waits, and is shown to whoever comes.
        let is_given = addressed.is_some() || self.takers().next().is_some();
        let mut copies = match carbons::are_due(keep, &frame, Direction::Received) {
            true if is_given => self.carbon_sessions(addressed),
            true | false => Vec::new(),
        };
        if addressed.is_none() {
            let takes = |conn: &ConnRef| self.takers().any(|taker| taker == *conn);
            copies.retain(|conn| !takes(conn));
        }
        if !is_logged {
            self.show(&frame, addressed, &copies, cx);
            return Ok(());
        }
        let (from, peer) = self.named(from);
        let received = Received {
            from,
            peer,
            frame,
            source,
            origin,
            is_archived,
            addressed,
            copies,
            must_keep,
        };
        self.receive_entry(received, cx)
    }

    /// The sender of what is handled, and the hash of that: those under which it was taken, if it
    /// was.
    fn named(&self, from: &str) -> (Name, u64) {
        let taking = self.turn.as_ref().and_then(|turn| turn.taking.as_ref());
        match taking {
            Some((name, peer, _)) if **name == *from => (Name::clone(name), *peer),
            _ => (Name::from(from), self.home.place.slots().peer(from)),
        }
    }

    /// Whether a message can be given to whom it is for only by way of the log.
    fn must_wait(&self, addressed: Option<ConnRef>) -> bool {
        let inbox = self.log.as_ref().map(|log| &log.inbox);
        match (addressed, inbox) {
            (Some(conn), Some(inbox)) => {
                let session = self.sessions.iter().find(|session| session.conn == conn);
                session.is_some_and(|own| !inbox.is_live(SessionNumber::new(own.number)))
            }
            (None, Some(inbox)) => !inbox.gives_at_once(),
            (Some(_), None) => false,
            (None, None) => !self.sessions.iter().any(Session::takes_messages),
        }
    }

    /// It goes into the log, and from there to whom it is for.
    fn receive_entry(
        &mut self,
        received: Received,
        cx: &mut Context<'_, UserMsg>,
    ) -> Result<(), StanzaError> {
        let Received {
            frame, addressed, ..
        } = &received;
        // With nobody there it waits for who knows how long.
        let is_absent = addressed.is_none() && !self.sessions.iter().any(Session::takes_messages);
        if is_absent && !received.must_keep && !self.has_room_for(frame) {
            cx.stats().count(Counter::MessagesRefused);
            return Err(StanzaError::new(Condition::ResourceConstraint)
                .with_text("The recipient's inbox is full; try again later."));
        }
        if !received.must_keep && !self.may_store(frame.as_bytes().len(), cx) {
            return Err(super::storage::full());
        }
        let mut flags = EntryFlags::default();
        if received.is_archived {
            flags = flags.and(EntryFlags::ARCHIVED);
        }
        if addressed.is_some() {
            flags = flags.and(ADDRESSED);
        }
        if is_absent {
            cx.stats().count(Counter::MessagesKept);
        }
        // What sessions were spared goes first, and has counts of its own.
        match addressed {
            Some(conn) => self.flush_held(*conn, cx),
            None => self.flush_takers(cx),
        }
        let frame = stanza_ids::without_claims(received.frame, &self.name);
        let to = self.recipients(received.addressed, &received.copies, cx);
        let draft = Draft {
            peer_hash: received.peer,
            peer: received.from,
            flags,
            frame: frame_bytes(&frame),
            source: received.source.seq,
            origin: received.origin,
        };
        let (seq, to, given) = self.append(draft, to, cx);
        let is_copy = |session: &Session| {
            let is_addressed = received.addressed == Some(session.conn);
            let is_taken = received.addressed.is_none() || to.is_for_account;
            !(is_addressed || is_taken && session.takes_messages())
        };
        self.write_entry((seq, &frame), &given, (Direction::Received, is_copy), cx);
        Ok(())
    }

    /// For whom an entry is: an addressee, or else the account, and those that get copies.
    pub(super) fn recipients(
        &mut self,
        addressed: Option<ConnRef>,
        copies: &[ConnRef],
        cx: &mut Context<'_, UserMsg>,
    ) -> Recipients {
        for conn in copies {
            self.flush_held(*conn, cx);
        }
        self.log();
        let number = |conn: ConnRef| {
            let session = self.sessions.iter().find(|session| session.conn == conn);
            session.map(|session| SessionNumber::new(session.number))
        };
        let addressee = addressed.and_then(number);
        Recipients {
            is_for_account: addressee.is_none(),
            addressee: addressee.map_or(Addressee::Nobody, Addressee::Session),
            sessions: copies.iter().filter_map(|conn| number(*conn)).collect(),
        }
    }

    /// Writes an entry to those that are given it at once: itself, or a copy.
    pub(super) fn write_entry(
        &mut self,
        (seq, frame): (Seq, &Frame),
        given: &[(SessionNumber, Given)],
        (direction, is_copy): (Direction, impl Fn(&Session) -> bool),
        cx: &mut Context<'_, UserMsg>,
    ) {
        let at_once = |(_, given): &&(SessionNumber, Given)| *given != Given::Later;
        if !given.iter().any(|given| at_once(&given)) {
            return;
        }
        let name = Name::clone(&self.name);
        let stamped = || stanza_ids::stamped(frame, &name, seq);
        let (itself, mut copied) = (stamped(), None);
        for (session, _) in given.iter().filter(at_once) {
            let Some(at) = self.session_numbered(*session) else {
                continue;
            };
            let session = &self.sessions[at];
            let (conn, what) = (session.conn, What::Entry(seq));
            if is_copy(session) {
                let full = session.full.clone();
                let copied = copied.get_or_insert_with(|| stamped().finish());
                cx.stats().count(Counter::CarbonsOut);
                self.write_now(conn, what, cx, |out| {
                    carbons::write(copied, direction, &name, &full, out);
                });
            } else {
                cx.stats().count(Counter::MessagesOut);
                self.write_now(conn, what, cx, |out| itself.write(out));
            }
        }
    }

    /// Sessions that take messages for the account.
    fn takers(&self) -> impl Iterator<Item = ConnRef> {
        let takers = self
            .sessions
            .iter()
            .filter(|session| session.takes_messages());
        takers.map(|session| session.conn)
    }

    fn flush_takers(&mut self, cx: &mut Context<'_, UserMsg>) {
        for at in 0..self.sessions.len() {
            let session = &self.sessions[at];
            if session.held.is_some() && session.takes_messages() {
                self.flush_held(session.conn, cx);
            }
        }
    }

    /// Writes a message that is in no log.
    fn show(
        &mut self,
        frame: &Frame,
        addressed: Option<ConnRef>,
        copies: &[ConnRef],
        cx: &mut Context<'_, UserMsg>,
    ) {
        for at in 0..self.sessions.len() {
            let session = &self.sessions[at];
            let conn = session.conn;
            let is_meant = match addressed {
                Some(addressed) => addressed == conn,
                None => session.takes_messages(),
            };
            let is_given = is_meant && self.takes_unlogged(at, frame, cx);
            if !is_given || self.hold(conn, frame) {
                continue;
            }
            cx.stats().count(Counter::MessagesOut);
            self.write(conn, What::Other, cx, |out| {
                out.extend_from_slice(frame.as_bytes());
            });
        }
        self.write_copies(frame, Direction::Received, copies, cx);
    }

    fn has_room_for(&self, frame: &Frame) -> bool {
        let limits = self.home.limits();
        let (count, bytes) = self.waiting();
        count < u64::from(limits.offline_messages_max)
            && bytes + frame.as_bytes().len() as u64 <= limits.offline_bytes_max
    }
}

impl User {
    /// Whether a message from or to a bare address is archived.
    pub(crate) fn archives(&self, peer: &str) -> bool {
        if !self.home.options.archive.enabled {
            return false;
        }
        match &self.archive_prefs {
            None => true,
            Some(prefs) => {
                let is_contact = self.roster.find(peer).is_some();
                archive::archives(prefs, peer, is_contact)
            }
        }
    }
}
